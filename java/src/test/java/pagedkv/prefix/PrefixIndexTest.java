package pagedkv.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.OptionalInt;
import java.util.Random;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class PrefixIndexTest {

    private final PrefixIndex index = new PrefixIndex(2);

    @Test
    void s15TheLongestKnownBeginningIsFound() { // S15
        index.insert(tokens(1, 2, 3, 4, 5, 6), blocks(10, 11, 12));
        assertArrayEquals(blocks(10, 11, 12), index.longestPrefix(tokens(1, 2, 3, 4, 5, 6)));
        assertArrayEquals(blocks(10, 11), index.longestPrefix(tokens(1, 2, 3, 4, 9, 9)));
        assertArrayEquals(blocks(10), index.longestPrefix(tokens(1, 2, 9, 9, 5, 6)));
        assertArrayEquals(blocks(), index.longestPrefix(tokens(9, 9, 1, 2)));
    }

    @Test
    void s15TheSameTokensAfterAnotherBeginningAreAnotherBlock() { // S15
        index.insert(tokens(1, 1, 7, 7), blocks(10, 11));
        index.insert(tokens(2, 2, 7, 7), blocks(12, 13));
        assertArrayEquals(blocks(12, 13), index.longestPrefix(tokens(2, 2, 7, 7)));
        assertArrayEquals(blocks(), index.longestPrefix(tokens(7, 7)));
    }

    @Test
    void onlyFullBlocksAreEnteredAndFound() {
        index.insert(tokens(1, 2, 3), blocks(10, 11));
        assertEquals(1, index.numBlocks());
        assertFalse(index.holds(11));
        assertArrayEquals(blocks(10), index.longestPrefix(tokens(1, 2, 3)));
        assertArrayEquals(blocks(), index.longestPrefix(tokens(1)));
        assertArrayEquals(blocks(), index.longestPrefix(tokens()));
    }

    @Test
    void theFirstOfTwoEqualBlocksStays() {
        index.insert(tokens(1, 2), blocks(10));
        index.insert(tokens(1, 2, 3, 4), blocks(20, 21));
        assertArrayEquals(blocks(10, 21), index.longestPrefix(tokens(1, 2, 3, 4)));
        assertFalse(index.holds(20));
    }

    @Test
    void aBlockHasOneEntryAtMost() {
        index.insert(tokens(1, 2), blocks(10));
        index.insert(tokens(3, 4), blocks(11));
        int[] before = index.evictionOrder();
        assertThrows(IllegalArgumentException.class, () -> index.insert(tokens(1, 2, 5, 6, 7, 8), blocks(10, 12, 11)));
        assertThrows(IllegalArgumentException.class, () -> index.insert(tokens(5, 6, 7, 8), blocks(12, 12)));
        assertThrows(IllegalArgumentException.class, () -> index.insert(tokens(5, 6, 7, 8), blocks(12, -1)));
        assertArrayEquals(before, index.evictionOrder());
        assertFalse(index.holds(12));
    }

    @Test
    void eachFullBlockNeedsABlock() {
        var refused = assertThrows(IllegalArgumentException.class, () -> index.insert(tokens(1, 2, 3, 4), blocks(10)));
        assertEquals("4 tokens fill 2 blocks of 2: the call names 1 blocks", refused.getMessage());
        assertThrows(IllegalArgumentException.class, () -> new PrefixIndex(0));
    }

    @Test
    void theTailGoesBeforeItsHead() {
        index.insert(tokens(1, 2, 3, 4, 5, 6), blocks(10, 11, 12));
        assertArrayEquals(blocks(12, 11, 10), index.evictionOrder());
        assertEquals(OptionalInt.of(12), evictAny());
        assertEquals(OptionalInt.of(11), evictAny());
        assertEquals(OptionalInt.of(10), evictAny());
        assertEquals(OptionalInt.empty(), evictAny());
    }

    @Test
    void theChainThatWasNotUsedForTheLongestTimeGoesFirst() {
        index.insert(tokens(1, 2, 3, 4), blocks(10, 11));
        index.insert(tokens(5, 6, 7, 8), blocks(20, 21));
        index.longestPrefix(tokens(1, 2, 3, 4));
        assertArrayEquals(blocks(21, 20, 11, 10), index.evictionOrder());
        index.longestPrefix(tokens(5, 6));
        assertArrayEquals(blocks(21, 11, 10, 20), index.evictionOrder());
    }

    @Test
    void aBlockThatSomebodyHoldsStaysAndSoDoesAllBeforeIt() {
        index.insert(tokens(1, 2, 3, 4), blocks(10, 11));
        index.insert(tokens(1, 2, 5, 6), blocks(10, 12));
        assertEquals(OptionalInt.of(12), index.evictLeastRecentlyUsed(block -> block != 11));
        assertEquals(OptionalInt.empty(), index.evictLeastRecentlyUsed(block -> block != 11));
        assertEquals(OptionalInt.of(11), evictAny());
    }

    @Test
    void evictingABlockTakesAllBelowItTailsFirst() {
        index.insert(tokens(1, 2, 3, 4, 5, 6), blocks(10, 11, 12));
        index.insert(tokens(1, 2, 3, 4, 7, 8), blocks(10, 11, 13));
        index.insert(tokens(1, 2, 9, 9), blocks(10, 14));
        int[] gone = index.evict(11);
        assertEquals(Set.of(11, 12, 13), new HashSet<>(IntStream.of(gone).boxed().toList()));
        assertEquals(11, gone[gone.length - 1]);
        assertArrayEquals(blocks(10, 14), index.longestPrefix(tokens(1, 2, 9, 9)));
        assertArrayEquals(blocks(10), index.longestPrefix(tokens(1, 2, 3, 4, 5, 6)));
        assertThrows(IllegalArgumentException.class, () -> index.evict(11));
    }

    @Test
    void aBlockThatIsUsedAgainBringsNoOldTailBack() {
        index.insert(tokens(1, 2, 3, 4), blocks(10, 11));
        index.evict(10);
        index.insert(tokens(8, 8), blocks(10));
        assertArrayEquals(blocks(10), index.longestPrefix(tokens(8, 8, 3, 4)));
        index.insert(tokens(1, 2), blocks(12));
        assertArrayEquals(blocks(12), index.longestPrefix(tokens(1, 2, 3, 4)));
    }

    @Test
    void n17ACollisionIsNoHit() { // N17
        index.insert("Aa".chars().toArray(), blocks(10));
        assertArrayEquals(blocks(), index.longestPrefix("BB".chars().toArray()));
        index.insert("BB".chars().toArray(), blocks(11));
        assertArrayEquals(blocks(11), index.longestPrefix("BB".chars().toArray()));
        assertArrayEquals(blocks(10), index.longestPrefix("Aa".chars().toArray()));
    }

    @Test
    void randomPromptsAgreeWithASearchThroughAllOfThem() {
        var random = new Random(3);
        List<int[]> prompts = new ArrayList<>();
        int[] contentsFirst = new int[3_000];
        int nextBlock = 0;
        for (int round = 0; round < 300; round++) {
            int[] prompt = random.ints(random.nextInt(9), 0, 2).toArray();
            int hits = index.longestPrefix(prompt).length;
            int expected = prompts.stream().mapToInt(other -> commonTokens(prompt, other) / 2).max().orElse(0);
            assertEquals(expected, hits, () -> Arrays.toString(prompt));
            int[] blocks = IntStream.range(nextBlock, nextBlock + 4).toArray();
            for (int i = hits; i < prompt.length / 2; i++) {
                contentsFirst[blocks[i]] = Arrays.hashCode(Arrays.copyOf(prompt, 2 * i + 2));
            }
            nextBlock += 4;
            index.insert(prompt, blocks);
            prompts.add(prompt);
            int[] found = index.longestPrefix(prompt);
            for (int i = 0; i < found.length; i++) {
                assertEquals(contentsFirst[found[i]], Arrays.hashCode(Arrays.copyOf(prompt, 2 * i + 2)));
            }
        }
    }

    @Test
    void afterAnyEvictionsEveryEntryCanStillBeFound() {
        var random = new Random(4);
        Set<Integer> evicted = new HashSet<>();
        int nextBlock = 0;
        for (int round = 0; round < 500; round++) {
            int[] prompt = random.ints(8, 0, 2).toArray();
            index.insert(prompt, IntStream.range(nextBlock, nextBlock + 4).toArray());
            nextBlock += 4;
            if (random.nextInt(3) > 0) {
                index.evictLeastRecentlyUsed(block -> random.nextBoolean()).ifPresent(evicted::add);
            }
        }
        Set<Integer> reachable = new HashSet<>();
        for (int bits = 0; bits < 256; bits++) {
            int pattern = bits;
            int[] prompt = IntStream.range(0, 8).map(i -> pattern >> i & 1).toArray();
            IntStream.of(index.longestPrefix(prompt)).forEach(reachable::add);
        }
        assertTrue(evicted.size() > 50);
        assertEquals(index.numBlocks(), reachable.size());
        assertTrue(reachable.stream().noneMatch(evicted::contains));
    }

    private OptionalInt evictAny() {
        return index.evictLeastRecentlyUsed(block -> true);
    }

    private static int commonTokens(int[] one, int[] other) {
        int different = Arrays.mismatch(one, other);
        return different < 0 ? one.length : different;
    }

    private static int[] tokens(int... tokens) {
        return tokens;
    }

    private static int[] blocks(int... blocks) {
        return blocks;
    }
}
