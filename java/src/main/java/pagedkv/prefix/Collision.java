package pagedkv.prefix;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * Two blocks of tokens with the same hash.
 *
 * @param first tokens of a first block of a prompt
 * @param second other tokens with the same hash
 * @param blocksTried how many blocks were hashed until this was found
 */
public record Collision(int[] first, int[] second, int blocksTried) {

    /**
     * The first collision among prompts of one block that end in 0, 1, 2, … and are 0 before.
     *
     * @return empty if there is none among so many
     */
    public static Optional<Collision> byChance(ChainHash hash, int blockSizeTokens, int mostBlocks) {
        Prompts.requireBlockSize(blockSizeTokens);
        Map<Long, Integer> seen = new HashMap<>();
        for (int i = 0; i < mostBlocks; i++) {
            int[] block = endingIn(i, blockSizeTokens);
            Integer earlier = seen.putIfAbsent(hash.hash(ChainHash.SEED, block), i);
            if (earlier != null) {
                return Optional.of(new Collision(endingIn(earlier, blockSizeTokens), block, i + 1));
            }
        }
        return Optional.empty();
    }

    /**
     * Other tokens with the same hash as these, if the hash is Java's {@code 31 * hash + next}: that of strings, of
     * {@code Arrays.hashCode} and of lists. At least two tokens are needed.
     */
    public static Collision onPurpose(int... tokens) {
        if (tokens.length < 2) {
            throw new IllegalArgumentException("a collision on purpose needs 2 tokens, not " + tokens.length);
        }
        int[] other = tokens.clone();
        other[0] += 1;
        other[1] -= 31;
        return new Collision(tokens.clone(), other, 1);
    }

    private static int[] endingIn(int last, int length) {
        int[] tokens = new int[length];
        tokens[length - 1] = last;
        return tokens;
    }

    @Override
    public String toString() {
        return "%s and %s".formatted(Arrays.toString(first), Arrays.toString(second));
    }
}
