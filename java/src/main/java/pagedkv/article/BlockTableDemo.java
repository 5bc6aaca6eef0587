package pagedkv.article;

import pagedkv.pool.BlockTable;

/**
 * Experiment 2 of the article: a sequence of tokens and its block table (N14).
 *
 * <p>Fault: the article expects logical block 2 in physical block 2. The table is right, the
 * expectation is not: the free list was filled with 0…1023 and is last in, first out, so the first
 * three blocks are 1023, 1022 and 1021. Which id comes when is a detail of the pool; a table exists
 * so that nobody has to care.
 */
public final class BlockTableDemo {

    private static final int BLOCK_SIZE_TOKENS = 16;
    private static final int NUM_TOKENS = 40;
    private static final int LOGICAL_BLOCK = 2;

    /**
     * @param logicalBlock the block that was looked up
     * @param expected its physical block in the article
     * @param actual its physical block in the run
     * @param table all physical blocks, in logical order
     */
    public record Result(int logicalBlock, int expected, int actual, int[] table) {}

    private BlockTableDemo() {}

    public static Result run() {
        try (var table = new BlockTable(new RefCountedBlockPool(), BLOCK_SIZE_TOKENS, "A")) {
            for (int token = 0; token < NUM_TOKENS; token++) {
                table.appendToken();
            }
            return new Result(LOGICAL_BLOCK, LOGICAL_BLOCK, table.physicalBlock(LOGICAL_BLOCK), table.blocks());
        }
    }

    public static void main(String[] args) {
        var result = run();
        System.out.printf("%d tokens in blocks of %d%n", NUM_TOKENS, BLOCK_SIZE_TOKENS);
        for (int logical = 0; logical < result.table().length; logical++) {
            System.out.printf("logical block %d -> physical block %d%n", logical, result.table()[logical]);
        }
        System.out.printf(
                "expected logical %d -> physical %d, got %d%n",
                result.logicalBlock(), result.expected(), result.actual());
    }
}
