package pagedkv.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

class WholePromptIndexTest {

    private final WholePromptIndex index = new WholePromptIndex(2);

    @Test
    void s15OnlyAnIdenticalPromptIsFound() { // S15
        int[] prompt = {1, 2, 3, 4, 5};
        index.insert(prompt, new int[] {10, 11, 12});
        prompt[0] = 99;
        assertArrayEquals(new int[] {10, 11}, index.longestPrefix(new int[] {1, 2, 3, 4, 5}));
        assertArrayEquals(new int[0], index.longestPrefix(new int[] {1, 2, 3, 4}));
        assertArrayEquals(new int[0], index.longestPrefix(new int[] {1, 2, 3, 4, 6}));
    }

    @Test
    void s15TwoQuestionsAfterOneSystemPromptShareNothing() { // S15
        int[] first = IntStream.range(0, 102).toArray();
        int[] second = first.clone();
        second[101] = -7;
        int[] blocks = IntStream.range(0, 51).toArray();
        index.insert(first, blocks);
        var chained = new PrefixIndex(2);
        chained.insert(first, blocks);
        assertArrayEquals(new int[0], index.longestPrefix(second));
        assertArrayEquals(IntStream.range(0, 50).toArray(), chained.longestPrefix(second));
    }

    @Test
    void theFirstOfTwoEqualPromptsStays() {
        index.insert(new int[] {1, 2}, new int[] {10});
        index.insert(new int[] {1, 2}, new int[] {11});
        assertArrayEquals(new int[] {10}, index.longestPrefix(new int[] {1, 2}));
    }

    @Test
    void eachFullBlockNeedsABlock() {
        assertThrows(IllegalArgumentException.class, () -> index.insert(new int[] {1, 2}, new int[0]));
    }
}
