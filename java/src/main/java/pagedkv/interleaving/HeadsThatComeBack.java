package pagedkv.interleaving;

import java.util.HashSet;
import java.util.Set;

/**
 * Does the head of a stack ever come back to a value that it had before? A thread that slept meanwhile would take it
 * for "nothing has changed".
 *
 * <p>One thread alone pops a block and pushes it back, again and again, and looks at the head after each round.
 */
public final class HeadsThatComeBack {

    private static final int NUM_BLOCKS = 2;

    /**
     * @param rounds after which a value was seen again; 0 if none was
     * @param head that value
     */
    public record Result(int rounds, long head) {
    }

    private HeadsThatComeBack() {
    }

    public static Result lookFor(Class<? extends SharedStack> type, int rounds) {
        var memory = new AtomicMemory(NUM_BLOCKS);
        var stack = SharedStack.make(type, memory);
        Set<Long> seen = new HashSet<>(Set.of(memory.head()));
        for (int round = 1; round <= rounds; round++) {
            stack.push(stack.pop());
            if (!seen.add(memory.head())) {
                return new Result(round, memory.head());
            }
        }
        return new Result(0, 0);
    }
}
