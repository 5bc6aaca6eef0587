package pagedkv.prefix;

/** What every index asks of its arguments. */
final class Prompts {

    private Prompts() {
    }

    static int requireBlockSize(int blockSizeTokens) {
        if (blockSizeTokens < 1) {
            throw new IllegalArgumentException("a block holds at least 1 token, not " + blockSizeTokens);
        }
        return blockSizeTokens;
    }

    /** How many full blocks the prompt has. */
    static int requireFullBlocks(int[] tokens, int[] blocks, int blockSizeTokens) {
        int full = tokens.length / blockSizeTokens;
        if (blocks.length < full) {
            throw new IllegalArgumentException("%d tokens fill %d blocks of %d: the call names %d blocks"
                    .formatted(tokens.length, full, blockSizeTokens, blocks.length));
        }
        return full;
    }
}
