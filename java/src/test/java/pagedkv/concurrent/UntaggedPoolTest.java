package pagedkv.concurrent;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.concurrent.TimeUnit;
import java.util.function.IntFunction;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import pagedkv.pool.Pool;

/** The tests can tell a broken stack from a sound one. */
@Timeout(60)
class UntaggedPoolTest {

    private static final long MOST_SECONDS = 20;

    /** Most often within a second; a busy machine seldom runs the two threads side by side and takes longer. */
    @Test
    void thePairTrialCatchesTheStackWithoutATag() throws InterruptedException {
        assumeTrue(Runtime.getRuntime().availableProcessors() > 1, "threads that take turns seldom meet");
        long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(MOST_SECONDS);
        var result = new PairTrial.Result(0, 0, null);
        while (result.passed() && System.nanoTime() < until) {
            result = PairTrial.run(new UntaggedPool(16), 2, 200_000);
        }
        assertFalse(result.passed(), "not caught in " + MOST_SECONDS + " seconds");
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("pagedkv.concurrent.TestPools#all")
    void theSameTrialPassesOnTheOthers(String name, IntFunction<Pool> maker) throws InterruptedException {
        assertEquals(new PairTrial.Result(60_000, 0, null), PairTrial.run(maker.apply(16), 2, 30_000));
    }

    @Test
    void oneThreadIsEnoughIfTheOthersComeAtTheWorstMoment() {
        var pool = new UntaggedPool(4);
        pool.interruptNextAllocate(() -> { // on top is block 0, below it block 1
            pool.allocate(2);              // somebody takes both
            pool.release(0);               // and puts block 0 back: on top again, but block 2 is below it now
        });
        assertArrayEquals(new int[] {0}, pool.allocate(1));
        var error = assertThrows(IllegalStateException.class, () -> pool.allocate(1)); // gets block 1, which is in use
        assertEquals("block 1 was handed out twice: the free stack is broken", error.getMessage());
    }

    @Test
    void aTrialNeedsTwoBlocksForEachThread() {
        assertThrows(IllegalArgumentException.class, () -> PairTrial.run(new LockFreePool(3), 2, 1));
    }
}
