package pagedkv.sharing;

import java.util.Arrays;

/**
 * The memory of a pool's blocks, with tokens in it: {@code numBlocks} rows of {@code blockSizeTokens} places.
 *
 * <p>The store does not know who owns which block: it writes where it is told to, as device memory does.
 */
public final class TokenStore {

    /** Stands where nothing was written yet. */
    public static final int EMPTY = -1;

    private final int[][] memory;
    private final int blockSizeTokens;
    private int numCopies;

    public TokenStore(int numBlocks, int blockSizeTokens) {
        if (numBlocks < 1 || blockSizeTokens < 1) {
            throw new IllegalArgumentException("a store has at least 1 block of 1 token, not %d of %d"
                    .formatted(numBlocks, blockSizeTokens));
        }
        this.blockSizeTokens = blockSizeTokens;
        memory = new int[numBlocks][blockSizeTokens];
        for (int[] block : memory) {
            Arrays.fill(block, EMPTY);
        }
    }

    public void write(int block, int offset, int token) {
        memory[block][offset] = token;
    }

    public int read(int block, int offset) {
        return memory[block][offset];
    }

    /** Copies a whole block onto another one. */
    public void copyBlock(int source, int target) {
        System.arraycopy(memory[source], 0, memory[target], 0, blockSizeTokens);
        numCopies++;
    }

    /** What lies in the block, written or not; a copy. */
    public int[] contents(int block) {
        return memory[block].clone();
    }

    public int blockSizeTokens() {
        return blockSizeTokens;
    }

    public int numBlocks() {
        return memory.length;
    }

    /** How many blocks were copied so far. */
    public int numCopies() {
        return numCopies;
    }
}
