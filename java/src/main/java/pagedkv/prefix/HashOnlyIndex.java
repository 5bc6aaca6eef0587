package pagedkv.prefix;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * A chained index that believes its hash: equal hash, equal block (N17).
 *
 * <p>Fault: the tokens are never compared. Two blocks with the same hash are one block to it, and a prompt is served
 * what was computed for another one: a wrong answer, and perhaps somebody else's text. With b bits that happens by
 * chance after about 2<sup>b/2</sup> blocks (a birthday collision), with a weak hash whenever somebody wants it.
 *
 * <p>Two cures: compare the tokens ({@link PrefixIndex}), or use a hash so long and so strong that nobody can find a
 * collision.
 */
public final class HashOnlyIndex implements PromptIndex {

    private final int blockSizeTokens;
    private final ChainHash hash;
    private final Map<Long, Integer> blocksByHash = new HashMap<>();

    /** With SHA-256, cut to {@code hashBits} (1 to 64). */
    public HashOnlyIndex(int blockSizeTokens, int hashBits) {
        this(blockSizeTokens, ChainHash.sha256().cutTo(hashBits));
    }

    /** With any hash. */
    public HashOnlyIndex(int blockSizeTokens, ChainHash hash) {
        this.blockSizeTokens = Prompts.requireBlockSize(blockSizeTokens);
        this.hash = hash;
    }

    @Override
    public void insert(int[] tokens, int[] blocks) {
        long[] hashes = hashesOf(tokens, Prompts.requireFullBlocks(tokens, blocks, blockSizeTokens));
        for (int logicalBlock = 0; logicalBlock < hashes.length; logicalBlock++) {
            blocksByHash.putIfAbsent(hashes[logicalBlock], blocks[logicalBlock]);
        }
    }

    @Override
    public int[] longestPrefix(int[] tokens) {
        return Arrays.stream(hashesOf(tokens, tokens.length / blockSizeTokens))
                .takeWhile(blocksByHash::containsKey)
                .mapToInt(blocksByHash::get)
                .toArray();
    }

    private long[] hashesOf(int[] tokens, int fullBlocks) {
        long[] hashes = new long[fullBlocks];
        long parent = ChainHash.SEED;
        for (int i = 0; i < fullBlocks; i++) {
            parent = hash.hash(parent, Arrays.copyOfRange(tokens, i * blockSizeTokens, (i + 1) * blockSizeTokens));
            hashes[i] = parent;
        }
        return hashes;
    }
}
