package pagedkv.interleaving;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class ManyThreadsTest {

    @ParameterizedTest
    @ValueSource(classes = {Stacks.Monitor.class, Stacks.Locked.class, Stacks.Tagged.class})
    void rightOnesKeepAllBlocks(Class<? extends SharedStack> type) throws Exception {
        var result = ManyThreads.run(type, 3, 5_000);
        assertNull(result.problem());
        assertEquals(0, result.lostBlocks());
        assertEquals(15_000, result.rounds());
    }

    @ParameterizedTest
    @ValueSource(classes = {Stacks.Bare.class, Stacks.TwoLocks.class, Stacks.WithoutRetry.class, Stacks.Untagged.class})
    void wrongOnesBreak(Class<? extends SharedStack> type) throws Exception {
        for (int attempt = 0; attempt < 20; attempt++) { // it is up to the scheduler, but not 20 times
            if (!ManyThreads.run(type, 3, 500_000).passed()) {
                return;
            }
        }
        assertTrue(false, "never broke");
    }

    @Test
    void anEndlessLoopIsEnded() throws Exception {
        assertFalse(ManyThreads.run(Stacks.StaleRetry.class, 2, 10_000_000).passed());
        var left = Thread.getAllStackTraces().keySet().stream().filter(thread -> thread.getName().startsWith("stack thread"));
        assertEquals(0, left.count());
    }

    @Test
    void sizesThatCannotBe() {
        assertThrows(IllegalArgumentException.class, () -> ManyThreads.run(Stacks.Bare.class, 0, 1));
        assertThrows(IllegalArgumentException.class, () -> ManyThreads.run(Stacks.Bare.class, 1, 0));
    }

    /** Room for 256 values of the tag, so that the head comes back after 128 rounds. */
    public static final class ShortTag extends Stacks.Tagged {
        @Override
        long next(long seen, int block) {
            return super.next(seen & 0xFF_FFFF_FFFFL, block) & 0xFF_FFFF_FFFFL;
        }
    }

    @Test
    void headsThatComeBack() {
        assertEquals(0, HeadsThatComeBack.lookFor(Stacks.Tagged.class, 65_000).rounds());
        assertEquals(1, HeadsThatComeBack.lookFor(Stacks.Untagged.class, 65_000).rounds());
        assertEquals(128, HeadsThatComeBack.lookFor(ShortTag.class, 65_000).rounds());
        assertNotEquals(0, HeadsThatComeBack.lookFor(Stacks.Monitor.class, 65_000).rounds());
    }
}
