package pagedkv.concurrent;

import pagedkv.pool.ObservedPool;
import pagedkv.pool.Pool;
import pagedkv.pool.PoolObserver;

/**
 * What the pools without one big lock share: many threads at once, and one at a time while somebody watches.
 *
 * <p><b>The rule for observers.</b> Calls that run side by side have no order, but a replay needs one. So as long as
 * an observer is set, calls take turns under one monitor, and the event is out before the next call begins: the order
 * of the events is the order of the changes. Set and remove an observer while no other call is running; a call that is
 * under way at that moment may be missing from the events.
 *
 * <p>Without an observer there is no monitor, no event and nothing to pay but the look at one field.
 *
 * <p>A pool states in three methods how it takes blocks and how it adds and drops references. Several threads run them
 * at once. Each refuses by throwing a {@link pagedkv.pool.PoolException} and then leaves no change behind.
 */
public abstract class ConcurrentPool implements Pool {

    private final ObservedPool turns = new Turns();

    // volatile: a thread that starts a call after setObserver has returned has to see the new value
    private volatile boolean observed;

    /** Takes {@code n} free blocks; {@code n} is not negative, but may be more than the pool has. */
    protected abstract int[] take(int n);

    /** Adds a reference for each entry. */
    protected abstract void addReferences(int[] blocks);

    /** Drops a reference for each entry; a block without references becomes free. */
    protected abstract void dropReferences(int[] blocks);

    @Override
    public final int[] allocate(int n, String owner) {
        if (observed || n < 0) { // a negative number is refused there
            return turns.allocate(n, owner);
        }
        return take(n);
    }

    @Override
    public final void retain(int[] blocks, String owner) {
        if (observed || blocks == null) { // a missing array is refused there
            turns.retain(blocks, owner);
        } else {
            addReferences(blocks);
        }
    }

    @Override
    public final void release(int[] blocks, String owner) {
        if (observed || blocks == null) {
            turns.release(blocks, owner);
        } else {
            dropReferences(blocks);
        }
    }

    @Override
    public final void setObserver(PoolObserver observer) {
        turns.setObserver(observer);
        observed = observer != null;
    }

    /** The same three methods, but one call at a time, each with its event. */
    private final class Turns extends ObservedPool {

        @Override
        protected int[] take(int n) {
            return ConcurrentPool.this.take(n);
        }

        @Override
        protected void addReferences(int[] blocks) {
            ConcurrentPool.this.addReferences(blocks);
        }

        @Override
        protected void dropReferences(int[] blocks) {
            ConcurrentPool.this.dropReferences(blocks);
        }

        @Override
        public int refcount(int block) {
            return ConcurrentPool.this.refcount(block);
        }

        @Override
        public int numFreeBlocks() {
            return ConcurrentPool.this.numFreeBlocks();
        }

        @Override
        public int numBlocks() {
            return ConcurrentPool.this.numBlocks();
        }
    }
}
