package pagedkv.sharing;

import java.util.Arrays;
import java.util.stream.IntStream;
import pagedkv.pool.BlockPool;

/**
 * A sequence is forked in the middle of a block, and both go on writing (S11).
 *
 * <p>A writes 1 … 6 into blocks of 4 and is forked. Then A writes 7 and B writes 8. What do they read?
 */
public final class ForkDemo {

    private static final int NUM_BLOCKS = 8;
    private static final int BLOCK_SIZE_TOKENS = 4;
    private static final int COMMON_TOKENS = 6;
    private static final int NEXT_OF_A = 7;
    private static final int NEXT_OF_B = 8;

    /**
     * @param tokensOfA what A reads at the end
     * @param tokensOfB what B reads at the end
     * @param blocksOfA A's physical blocks
     * @param blocksOfB B's physical blocks
     * @param blocksUsed what both use together
     * @param copies how many blocks were copied
     * @param freeAfterClose what is free after both are closed, of 8 blocks
     */
    public record Result(
            int[] tokensOfA,
            int[] tokensOfB,
            int[] blocksOfA,
            int[] blocksOfB,
            int blocksUsed,
            int copies,
            int freeAfterClose) {

        @Override
        public String toString() {
            return "A reads %s in blocks %s%nB reads %s in blocks %s%n%d blocks in use, %d copied".formatted(
                    Arrays.toString(tokensOfA), Arrays.toString(blocksOfA), Arrays.toString(tokensOfB),
                    Arrays.toString(blocksOfB), blocksUsed, copies);
        }
    }

    private ForkDemo() {
    }

    public static Result run(WriteRule rule) {
        var pool = new BlockPool(NUM_BLOCKS);
        var store = new TokenStore(NUM_BLOCKS, BLOCK_SIZE_TOKENS);
        var a = new SharedSequence(pool, store, rule, "A");
        IntStream.rangeClosed(1, COMMON_TOKENS).forEach(a::append);
        var b = a.fork("B");
        a.append(NEXT_OF_A);
        b.append(NEXT_OF_B);

        int[] tokensOfA = a.tokens();
        int[] tokensOfB = b.tokens();
        int[] blocksOfA = a.blocks();
        int[] blocksOfB = b.blocks();
        int blocksUsed = pool.numBlocks() - pool.numFreeBlocks();
        a.close();
        b.close();
        return new Result(tokensOfA, tokensOfB, blocksOfA, blocksOfB, blocksUsed, store.numCopies(),
                pool.numFreeBlocks());
    }

    public static void main(String[] args) {
        System.out.printf("shared without a copy%n%s%n%n", run(new NaiveFork()));
        System.out.printf("copied on write%n%s%n", run(new CopyOnWrite()));
    }
}
