package pagedkv.experiments;

import java.util.Arrays;
import pagedkv.pool.BlockPool;
import pagedkv.pool.BlockTable;

/**
 * Two requests share the full blocks of a common prefix (N16, correct form).
 *
 * <p>A has 5 blocks; B needs 4, and the first 3 of them are A's. B's table holds all 4: so B reads
 * its prefix where A wrote it, and closing both tables gives every block back.
 *
 * <p>The number of shared blocks is given here; finding it by content is the prefix cache's work.
 */
public final class PrefixSharingDemo {

    private static final int NUM_BLOCKS = 1024;
    private static final int BLOCK_SIZE_TOKENS = 16;
    private static final int BLOCKS_OF_A = 5;
    private static final int BLOCKS_OF_B = 4;
    private static final int SHARED_BLOCKS = 3;

    /**
     * @param blocksWithoutSharing what A and B would use if each had its own blocks
     * @param blocksUsed what they use together
     * @param tableOfA A's physical blocks
     * @param tableOfB B's physical blocks; the first 3 are A's
     * @param samePrefix whether every token of the prefix has one slot for A and B
     * @param numBlocks the size of the pool
     * @param freeAfterClose what is free after both tables are closed
     */
    public record Result(
            int blocksWithoutSharing,
            int blocksUsed,
            int[] tableOfA,
            int[] tableOfB,
            boolean samePrefix,
            int numBlocks,
            int freeAfterClose) {}

    private PrefixSharingDemo() {}

    public static Result run() {
        var pool = new BlockPool(NUM_BLOCKS);
        var a = new BlockTable(pool, BLOCK_SIZE_TOKENS, "A");
        appendBlocks(a, BLOCKS_OF_A);
        var b = a.shareFullBlocks(SHARED_BLOCKS, "B");
        appendBlocks(b, BLOCKS_OF_B - SHARED_BLOCKS);

        int blocksUsed = pool.numBlocks() - pool.numFreeBlocks();
        var tableOfA = a.blocks();
        var tableOfB = b.blocks();
        boolean samePrefix = samePrefix(a, b);
        a.close();
        b.close();
        return new Result(
                BLOCKS_OF_A + BLOCKS_OF_B,
                blocksUsed,
                tableOfA,
                tableOfB,
                samePrefix,
                pool.numBlocks(),
                pool.numFreeBlocks());
    }

    private static void appendBlocks(BlockTable table, int numBlocks) {
        for (int token = 0; token < numBlocks * BLOCK_SIZE_TOKENS; token++) {
            table.appendToken();
        }
    }

    private static boolean samePrefix(BlockTable a, BlockTable b) {
        for (int position = 0; position < SHARED_BLOCKS * BLOCK_SIZE_TOKENS; position++) {
            if (a.slotOf(position) != b.slotOf(position)) {
                return false;
            }
        }
        return true;
    }

    public static void main(String[] args) {
        var result = run();
        System.out.printf("%d blocks instead of %d%n", result.blocksUsed(), result.blocksWithoutSharing());
        System.out.printf("table of A: %s%n", Arrays.toString(result.tableOfA()));
        System.out.printf("table of B: %s%n", Arrays.toString(result.tableOfB()));
        System.out.printf("B reads its prefix where A wrote it: %s%n", result.samePrefix() ? "yes" : "no");
        System.out.printf("after both have left: %d of %d free%n", result.freeAfterClose(), result.numBlocks());
    }
}
