package pagedkv.prefix;

import java.nio.IntBuffer;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * An index by the whole prompt: one hash of all tokens, and then the blocks in order (S15).
 *
 * <p>Fault: it finds identical prompts only. A system prompt of 1,000 tokens with two different questions after it has
 * two different hashes, and nothing is shared. Contents are compared here, so what it finds is right; it just finds too
 * little.
 */
public final class WholePromptIndex implements PromptIndex {

    private final int blockSizeTokens;
    /** An IntBuffer compares its contents, as an int[] does not. */
    private final Map<IntBuffer, int[]> blocksByPrompt = new HashMap<>();

    public WholePromptIndex(int blockSizeTokens) {
        this.blockSizeTokens = Prompts.requireBlockSize(blockSizeTokens);
    }

    @Override
    public void insert(int[] tokens, int[] blocks) {
        int full = Prompts.requireFullBlocks(tokens, blocks, blockSizeTokens);
        blocksByPrompt.putIfAbsent(IntBuffer.wrap(tokens.clone()), Arrays.copyOf(blocks, full));
    }

    @Override
    public int[] longestPrefix(int[] tokens) {
        return blocksByPrompt.getOrDefault(IntBuffer.wrap(tokens), new int[0]).clone();
    }
}
