package pagedkv.interleaving;

import java.util.concurrent.Semaphore;
import java.util.concurrent.locks.ReentrantLock;

/** Stacks that are right, and stacks that are not. */
final class Stacks {

    private Stacks() {
    }

    /** Without any protection. */
    public static class Bare extends SharedStack {
        @Override
        public int pop() {
            int top = (int) head();
            if (top != NONE) {
                setHead(below(top) & 0xFFFF_FFFFL);
            }
            return top;
        }

        @Override
        public void push(int block) {
            setBelow(block, (int) head());
            setHead(block);
        }
    }

    public static final class Monitor extends Bare {
        @Override
        public synchronized int pop() {
            return super.pop();
        }

        @Override
        public synchronized void push(int block) {
            super.push(block);
        }
    }

    public static final class Locked extends Bare {
        private final ReentrantLock lock = new ReentrantLock();

        @Override
        public int pop() {
            lock.lock();
            try {
                return super.pop();
            } finally {
                lock.unlock();
            }
        }

        @Override
        public void push(int block) {
            lock.lock();
            try {
                super.push(block);
            } finally {
                lock.unlock();
            }
        }
    }

    public static final class WithSemaphore extends Bare {
        private final Semaphore semaphore = new Semaphore(1);

        @Override
        public int pop() {
            semaphore.acquireUninterruptibly();
            try {
                return super.pop();
            } finally {
                semaphore.release();
            }
        }

        @Override
        public void push(int block) {
            semaphore.acquireUninterruptibly();
            try {
                super.push(block);
            } finally {
                semaphore.release();
            }
        }
    }

    public static final class OnlyPopLocked extends Bare {
        @Override
        public synchronized int pop() {
            return super.pop();
        }
    }

    public static final class TwoLocks extends Bare {
        private final Object pops = new Object();
        private final Object pushes = new Object();

        @Override
        public int pop() {
            synchronized (pops) {
                return super.pop();
            }
        }

        @Override
        public void push(int block) {
            synchronized (pushes) {
                super.push(block);
            }
        }
    }

    /** Takes a second lock in another order in each of the two. */
    public static final class Deadlocking extends Bare {
        private final Object one = new Object();
        private final Object other = new Object();

        @Override
        public int pop() {
            synchronized (one) {
                int top = (int) head();
                synchronized (other) {
                    return top == NONE ? NONE : super.pop();
                }
            }
        }

        @Override
        public void push(int block) {
            synchronized (other) {
                head();
                synchronized (one) {
                    super.push(block);
                }
            }
        }
    }

    /** The same with locks from a library. */
    public static final class DeadlockingLocks extends Bare {
        private final ReentrantLock one = new ReentrantLock();
        private final ReentrantLock other = new ReentrantLock();

        @Override
        public int pop() {
            one.lock();
            try {
                int top = (int) head();
                other.lock();
                try {
                    return top == NONE ? NONE : super.pop();
                } finally {
                    other.unlock();
                }
            } finally {
                one.unlock();
            }
        }

        @Override
        public void push(int block) {
            other.lock();
            try {
                head();
                one.lock();
                try {
                    super.push(block);
                } finally {
                    one.unlock();
                }
            } finally {
                other.unlock();
            }
        }
    }

    /** Compare-and-set, without a tag. */
    public static final class Untagged extends SharedStack {
        @Override
        public int pop() {
            while (true) {
                long seen = head();
                int top = (int) seen;
                if (top == NONE || compareAndSetHead(seen, below(top) & 0xFFFF_FFFFL)) {
                    return top;
                }
            }
        }

        @Override
        public void push(int block) {
            long seen;
            do {
                seen = head();
                setBelow(block, (int) seen);
            } while (!compareAndSetHead(seen, block));
        }
    }

    public static class Tagged extends SharedStack {
        @Override
        public int pop() {
            while (true) {
                long seen = head();
                int top = (int) seen;
                if (top == NONE || compareAndSetHead(seen, next(seen, below(top)))) {
                    return top;
                }
            }
        }

        @Override
        public void push(int block) {
            long seen;
            do {
                seen = head();
                setBelow(block, (int) seen);
            } while (!compareAndSetHead(seen, next(seen, block)));
        }

        /** The head that follows, with another block on top. */
        long next(long seen, int block) {
            return (seen >>> 32) + 1 << 32 | block & 0xFFFF_FFFFL;
        }
    }

    /** Swaps once and takes it for done. */
    public static final class WithoutRetry extends SharedStack {
        @Override
        public int pop() {
            long seen = head();
            int top = (int) seen;
            if (top != NONE) {
                compareAndSetHead(seen, below(top) & 0xFFFF_FFFFL);
            }
            return top;
        }

        @Override
        public void push(int block) {
            long seen = head();
            setBelow(block, (int) seen);
            compareAndSetHead(seen, block);
        }
    }

    /** Compares with the value of long ago for ever. */
    public static final class StaleRetry extends SharedStack {
        @Override
        public int pop() {
            long seen = head();
            int top = (int) seen;
            if (top == NONE) {
                return NONE;
            }
            int below = below(top);
            while (!compareAndSetHead(seen, below & 0xFFFF_FFFFL)) {
                Thread.onSpinWait();
            }
            return top;
        }

        @Override
        public void push(int block) {
            long seen = head();
            setBelow(block, (int) seen);
            while (!compareAndSetHead(seen, block)) {
                Thread.onSpinWait();
            }
        }
    }

    /** Says that it is empty if somebody was quicker. */
    public static final class GivesUp extends SharedStack {
        @Override
        public int pop() {
            long seen = head();
            int top = (int) seen;
            return top != NONE && compareAndSetHead(seen, below(top) & 0xFFFF_FFFFL) ? top : NONE;
        }

        @Override
        public void push(int block) {
            long seen;
            do {
                seen = head();
                setBelow(block, (int) seen);
            } while (!compareAndSetHead(seen, block));
        }
    }

    public static final class Throwing extends Bare {
        @Override
        public int pop() {
            int top = super.pop();
            if (top == NONE) {
                throw new IllegalStateException("empty");
            }
            return top;
        }
    }
}
