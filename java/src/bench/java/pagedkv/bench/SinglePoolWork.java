package pagedkv.bench;

import pagedkv.concurrent.BlockMemory;
import pagedkv.pool.Pool;

/** Like {@link PoolWork}, but with a call for each block, as Netty has it. */
final class SinglePoolWork extends PairWork {

    private final Pool pool;
    private final BlockMemory memory;
    private final int[][] held;

    SinglePoolWork(Pool pool, BlockMemory memory, int batchBlocks) {
        this.pool = pool;
        this.memory = memory;
        held = new int[batchBlocks][];
    }

    @Override
    long batch(long stamp) {
        long sum = 0;
        for (int i = 0; i < held.length; i++) {
            held[i] = pool.allocate(1);
            var view = memory.buffer(held[i][0]);
            view.putLong(0, stamp + i);
            sum += view.getLong(0);
        }
        for (int[] block : held) {
            pool.release(block);
        }
        return sum;
    }
}
