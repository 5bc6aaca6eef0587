package pagedkv.bench;

import pagedkv.concurrent.BlockMemory;
import pagedkv.pool.Pool;

/** On one of this project's pools, with a view of the block's bytes from {@link BlockMemory}. */
final class PoolWork extends PairWork {

    private final Pool pool;
    private final BlockMemory memory;
    private final int batchBlocks;

    PoolWork(Pool pool, BlockMemory memory, int batchBlocks) {
        this.pool = pool;
        this.memory = memory;
        this.batchBlocks = batchBlocks;
    }

    @Override
    long batch(long stamp) {
        int[] blocks = pool.allocate(batchBlocks);
        long sum = 0;
        for (int block : blocks) {
            var view = memory.buffer(block);
            view.putLong(0, stamp + block);
            sum += view.getLong(0);
        }
        pool.release(blocks);
        return sum;
    }
}
