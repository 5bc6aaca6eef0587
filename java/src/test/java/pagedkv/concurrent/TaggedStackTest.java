package pagedkv.concurrent;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.Arrays;
import org.junit.jupiter.api.Test;

class TaggedStackTest {

    private final TaggedStack stack = new TaggedStack(5);
    private final int[] popped = new int[8];

    @Test
    void popsFromTheTopInOneStep() {
        assertEquals(3, stack.pop(popped, 1, 3, 3));
        assertArrayEquals(new int[] {0, 0, 1, 2, 0, 0, 0, 0}, popped);
        assertEquals(2, stack.size());
    }

    @Test
    void takesWhatThereIsButNotLessThanTheLeast() {
        assertEquals(0, stack.pop(popped, 0, 6, 8));
        assertEquals(5, stack.size());
        assertEquals(5, stack.pop(popped, 0, 5, 8));
        assertEquals(0, stack.pop(popped, 0, 1, 1));
        assertEquals(0, stack.size());
    }

    @Test
    void theLastPushedIsOnTop() {
        stack.pop(popped, 0, 5, 5);
        stack.push(new int[] {9, 4, 2}, 1, 2);
        assertEquals(2, stack.size());
        stack.push(new int[] {0}, 0, 1);
        assertEquals(3, stack.size());
        stack.push(new int[0], 0, 0);
        assertEquals(3, stack.pop(popped, 0, 1, 8));
        assertArrayEquals(new int[] {0, 2, 4}, Arrays.copyOf(popped, 3));
    }
}
