package pagedkv.article;

import java.util.Arrays;
import pagedkv.pool.BlockTable;

/**
 * Experiment 4 of the article: two requests share the blocks of a common prefix (N16).
 *
 * <p>A has 5 blocks. B needs 4, of which 3 are A's: "6 blocks instead of 9". The number is right,
 * the bookkeeping is not. Fault: B retains A's blocks but does not enter them in its table.
 *
 * <ul>
 *   <li>When B leaves it releases what its table holds, its own block only: 3 references are never
 *       given back, and 3 blocks are lost.
 *   <li>B cannot read its prefix: its logical block 0 is the block that should be number 3.
 * </ul>
 *
 * <p>The article also says by hand which blocks are shared; an engine finds them by content, and
 * only full blocks. {@link pagedkv.experiments.PrefixSharingDemo} is the correct form.
 */
public final class PrefixCachingDemo {

    private static final int BLOCK_SIZE_TOKENS = 16;
    private static final int BLOCKS_OF_A = 5;
    private static final int BLOCKS_OF_B = 4;
    private static final int SHARED_BLOCKS = 3;

    /**
     * @param blocksWithoutSharing what A and B would use if each had its own blocks
     * @param blocksUsed what they use together
     * @param blocksNeededByB the logical blocks that B has to read
     * @param tableOfA A's physical blocks
     * @param tableOfB B's physical blocks, as far as it knows
     * @param leakedBlocks the blocks that stay in use after both have left
     */
    public record Result(
            int blocksWithoutSharing,
            int blocksUsed,
            int blocksNeededByB,
            int[] tableOfA,
            int[] tableOfB,
            int leakedBlocks) {}

    private PrefixCachingDemo() {}

    public static Result run() {
        var pool = new RefCountedBlockPool();
        var a = new BlockTable(pool, BLOCK_SIZE_TOKENS, "A");
        appendBlocks(a, BLOCKS_OF_A);

        pool.retain(Arrays.copyOf(a.blocks(), SHARED_BLOCKS), "B"); // counted, but in no table
        var b = new BlockTable(pool, BLOCK_SIZE_TOKENS, "B");
        appendBlocks(b, BLOCKS_OF_B - SHARED_BLOCKS);

        int blocksUsed = pool.numBlocks() - pool.numFreeBlocks();
        var tableOfA = a.blocks();
        var tableOfB = b.blocks();
        a.close();
        b.close();
        int leakedBlocks = pool.numBlocks() - pool.numFreeBlocks();
        return new Result(BLOCKS_OF_A + BLOCKS_OF_B, blocksUsed, BLOCKS_OF_B, tableOfA, tableOfB, leakedBlocks);
    }

    private static void appendBlocks(BlockTable table, int numBlocks) {
        for (int token = 0; token < numBlocks * BLOCK_SIZE_TOKENS; token++) {
            table.appendToken();
        }
    }

    public static void main(String[] args) {
        var result = run();
        System.out.printf("%d blocks instead of %d%n", result.blocksUsed(), result.blocksWithoutSharing());
        System.out.printf("table of A: %s%n", Arrays.toString(result.tableOfA()));
        System.out.printf(
                "table of B: %s, but B needs %d blocks%n",
                Arrays.toString(result.tableOfB()), result.blocksNeededByB());
        System.out.printf("after both have left: %d blocks never come back%n", result.leakedBlocks());
    }
}
