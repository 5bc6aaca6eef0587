package pagedkv.concurrent;

import pagedkv.pool.BlockPool;
import pagedkv.pool.Pool;
import pagedkv.pool.PoolObserver;

/**
 * One monitor for everything: the simplest pool that is right, and what the others are measured against.
 *
 * <p>{@link BlockPool} already works this way; this class gives it its place beside the other four.
 *
 * <p><b>Why it is right.</b> All state is read and written under one monitor. Leaving a monitor happens-before the next
 * entry into the same one, so each call sees everything that the calls before it did, whichever thread they ran on. It
 * is the same order that the callers see: calls have no overlap.
 *
 * <p>That covers the memory of the blocks too: what a thread wrote into a block before it released it is visible to
 * the thread that is given the block next, since the release left the monitor before the allocate entered it.
 *
 * <p><b>What it costs.</b> One call at a time, and a thread that is stopped inside stops them all.
 */
public final class MonitorPool implements Pool {

    private final BlockPool pool;

    public MonitorPool(int numBlocks) {
        pool = new BlockPool(numBlocks);
    }

    @Override
    public int[] allocate(int n, String owner) {
        return pool.allocate(n, owner);
    }

    @Override
    public void retain(int[] blocks, String owner) {
        pool.retain(blocks, owner);
    }

    @Override
    public void release(int[] blocks, String owner) {
        pool.release(blocks, owner);
    }

    @Override
    public int refcount(int block) {
        return pool.refcount(block);
    }

    @Override
    public int numFreeBlocks() {
        return pool.numFreeBlocks();
    }

    @Override
    public int numBlocks() {
        return pool.numBlocks();
    }

    @Override
    public void setObserver(PoolObserver observer) {
        pool.setObserver(observer);
    }
}
