package pagedkv.concurrent;

import pagedkv.pool.NotABlockException;

/** Checks of lists of blocks that need no look at the pool. */
final class Blocks {

    private Blocks() {
    }

    /** Refuses an id outside the pool. */
    static void requireBlock(int block, int numBlocks) {
        if (block < 0 || block >= numBlocks) {
            throw NotABlockException.of(block, numBlocks);
        }
    }

    /** Refuses the first id outside the pool. */
    static void requireBlocks(int[] blocks, int numBlocks) {
        for (int block : blocks) {
            requireBlock(block, numBlocks);
        }
    }

    static int timesIn(int[] blocks, int block) {
        int times = 0;
        for (int other : blocks) {
            if (other == block) {
                times++;
            }
        }
        return times;
    }
}
