package pagedkv.prefix;

import java.util.Arrays;

/**
 * What a full block is known by: the node before it, and its own tokens. Two keys are equal if their contents are.
 *
 * <p>Two traps lie here. A record compares its components with {@code equals}, and two arrays are equal only if they
 * are the same array: so {@code equals} and {@code hashCode} are written out. And an array can be changed after it
 * became part of a key: so the key has a copy.
 *
 * @param parent the node before this one, by the block that it stands for, or {@link #ROOT}
 * @param tokens the tokens of this block alone
 */
public record BlockKey(int parent, int[] tokens) {

    /** The node before the first block of every prompt. */
    public static final int ROOT = -1;

    public BlockKey {
        tokens = tokens.clone();
    }

    /** The key of the logical block of a prompt. */
    static BlockKey of(int parent, int[] prompt, int logicalBlock, int blockSizeTokens) {
        int start = logicalBlock * blockSizeTokens;
        return new BlockKey(parent, Arrays.copyOfRange(prompt, start, start + blockSizeTokens));
    }

    /** A copy. */
    @Override
    public int[] tokens() {
        return tokens.clone();
    }

    @Override
    public boolean equals(Object other) {
        return other instanceof BlockKey key && parent == key.parent && Arrays.equals(tokens, key.tokens);
    }

    @Override
    public int hashCode() {
        return 31 * parent + Arrays.hashCode(tokens);
    }

    @Override
    public String toString() {
        return "BlockKey[parent=%d, tokens=%s]".formatted(parent, Arrays.toString(tokens));
    }
}
