package pagedkv.concurrent;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Deque;
import java.util.List;
import java.util.concurrent.locks.ReentrantLock;

/**
 * A pool that keeps a reserve: whenever a call leaves fewer blocks free, a request is evicted.
 *
 * <p>It has one lock, and each request has one. A request that grows holds its own and waits for the pool's. What the
 * pool does about a victim while it holds its lock is up to the {@link Evictor}.
 *
 * <p>All waiting can be interrupted, so that a deadlock can be looked at and then ended.
 */
public final class EvictingPool {

    private static final int NONE = -1;

    private final ReentrantLock lock = new ReentrantLock();
    private final Deque<Integer> free = new ArrayDeque<>();      // this and the rest: guarded by lock
    private final List<ActiveRequest> active = new ArrayList<>(); // the oldest first
    private final String[] holders;                               // by block, null while free
    private final int reserveBlocks;
    private final Evictor evictor;
    private int numBegun;
    private long numEvictions;

    /** @param reserveBlocks how many blocks should be free after each call */
    public EvictingPool(int numBlocks, int reserveBlocks, Evictor evictor) {
        holders = new String[numBlocks];
        for (int block = 0; block < numBlocks; block++) {
            free.add(block);
        }
        this.reserveBlocks = reserveBlocks;
        this.evictor = evictor;
    }

    /** A new request without blocks. Only one thread may work on it. */
    public ActiveRequest begin(String name) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            var request = new ActiveRequest(this, name, numBegun++);
            active.add(request);
            return request;
        } finally {
            lock.unlock();
        }
    }

    /** One more block for this request; false if none is free now: try again later. */
    public boolean grow(ActiveRequest request) throws InterruptedException {
        return request.grow(() -> { });
    }

    /** The request is done: its blocks become free. */
    public void finish(ActiveRequest request) throws InterruptedException {
        var given = request.empty();
        lock.lockInterruptibly();
        try {
            giveBack(given, 0);
        } finally {
            active.remove(request);
            lock.unlock();
        }
    }

    public int numFreeBlocks() {
        lock.lock();
        try {
            return free.size();
        } finally {
            lock.unlock();
        }
    }

    public int numBlocks() {
        return holders.length;
    }

    /** How often a request that held blocks has lost them. */
    public long numEvictions() {
        lock.lock();
        try {
            return numEvictions;
        } finally {
            lock.unlock();
        }
    }

    int take(ActiveRequest request) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            int block = free.isEmpty() ? NONE : free.pop();
            if (block != NONE) {
                holders[block] = request.name();
            }
            keepReserve();
            return block;
        } finally {
            lock.unlock();
        }
    }

    void giveBack(Collection<Integer> blocks, int evictions) throws InterruptedException {
        lock.lockInterruptibly();
        try {
            for (int block : blocks) {
                if (holders[block] == null) {
                    throw new IllegalStateException("block " + block + " was given back twice");
                }
                holders[block] = null;
                free.push(block);
            }
            numEvictions += evictions;
            keepReserve();
        } finally {
            lock.unlock();
        }
    }

    /** Runs at the end of every call, under the lock. */
    private void keepReserve() throws InterruptedException {
        if (free.size() < reserveBlocks) {
            var victim = victim();
            if (victim != null) {
                evictor.whenShort(victim);
            }
        }
    }

    /**
     * The youngest request that has blocks, but never the oldest of all: so that one can always finish. None while one
     * is marked: its blocks are on their way.
     */
    private ActiveRequest victim() {
        ActiveRequest victim = null;
        for (int i = 0; i < active.size(); i++) {
            if (active.get(i).isMarked()) {
                return null;
            }
            if (i > 0 && active.get(i).numBlocks() > 0) {
                victim = active.get(i);
            }
        }
        return victim;
    }
}
