package pagedkv.concurrent;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A request that is being worked on by one thread, with the blocks it holds and a lock that guards them.
 *
 * <p>Its blocks may be taken away while it waits for more; then it starts again.
 */
public final class ActiveRequest {

    private final EvictingPool pool;
    private final String name;
    private final int number;
    private final ReentrantLock lock = new ReentrantLock();
    private final List<Integer> blocks = new ArrayList<>(); // guarded by lock
    private volatile int numBlocks; // its length, for whoever has not the lock
    private volatile boolean marked;

    ActiveRequest(EvictingPool pool, String name, int number) {
        this.pool = pool;
        this.name = name;
        this.number = number;
    }

    /** Notes that this request shall give its blocks up; takes no lock and waits for nobody. */
    public void mark() {
        marked = true;
    }

    public boolean isMarked() {
        return marked;
    }

    /**
     * Takes all blocks away from this request and gives them back to the pool. Waits for this request's lock, and after
     * that for the pool's.
     */
    public void evict() throws InterruptedException {
        var given = empty();
        pool.giveBack(given, given.isEmpty() ? 0 : 1);
    }

    public String name() {
        return name;
    }

    /** How many blocks it holds; it may be different a moment later. */
    public int numBlocks() {
        return numBlocks;
    }

    @Override
    public String toString() {
        return name + " with " + numBlocks + " blocks" + (marked ? ", marked" : "");
    }

    int number() {
        return number;
    }

    /** @param locked runs when this request's lock is held, before the pool is asked */
    boolean grow(Step locked) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            locked.run();
            int block = pool.take(this); // waits for the pool's lock while it holds its own
            if (block < 0) {
                return false;
            }
            blocks.add(block);
            numBlocks = blocks.size();
            return true;
        } finally {
            lock.unlock();
        }
    }

    List<Integer> empty() throws InterruptedException {
        lock.lockInterruptibly();
        try {
            var given = List.copyOf(blocks);
            blocks.clear();
            numBlocks = 0;
            marked = false;
            return given;
        } finally {
            lock.unlock();
        }
    }

    /** A place at which a test makes a thread wait. */
    @FunctionalInterface
    interface Step {
        void run() throws InterruptedException;
    }
}
