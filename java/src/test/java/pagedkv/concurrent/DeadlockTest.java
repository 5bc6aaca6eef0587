package pagedkv.concurrent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Set;
import java.util.stream.Collectors;
import org.junit.jupiter.api.RepeatedTest;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** S19: releasing under a lock evicts an active request, which holds its lock and waits for a block. */
@Timeout(60)
class DeadlockTest {

    @RepeatedTest(5)
    void evictingUnderTheLockDeadlocksEveryTime() throws InterruptedException {
        var outcome = Deadlock.reproduce(new EvictUnderLock());
        assertTrue(outcome.deadlocked());
        assertTrue(outcome.ended(), "the threads could not be ended");
        assertNull(outcome.problem());
    }

    @Test
    void theJvmSaysWhoWaitsForWhom() throws InterruptedException {
        var report = Deadlock.reproduce(new EvictUnderLock()).report();
        var waits = report.waits().stream().map(wait -> wait.thread() + " for " + wait.heldBy())
                .collect(Collectors.toSet());
        assertEquals(Set.of("A grows for B ends", "B ends for A grows"), waits);
        var b = report.waits().stream().filter(wait -> wait.thread().equals("B ends")).findFirst().orElseThrow();
        assertEquals("ReentrantLock", b.lock());
        assertTrue(b.at().indexOf("ActiveRequest.evict") < b.at().indexOf("EvictingPool.giveBack"), b.toString());
        assertTrue(report.text().contains("\"A grows\""), report.text());
        assertTrue(report.text().contains("owned by \"B ends\""), report.text());
        assertEquals(report.toString(), Deadlock.reproduce(new EvictUnderLock()).report().toString());
    }

    @Test
    void markingFirstDoesNot() throws InterruptedException {
        assertEquals(new Deadlock.Outcome(false, null, true, null, 4), Deadlock.reproduce(new MarkThenEvict()));
    }

    @Test
    void theTrialTellsTheTwoApart() throws InterruptedException {
        var wrong = DeadlockTrial.run(new EvictUnderLock());
        assertFalse(wrong.passed());
        assertEquals(2, wrong.report().waits().size());

        var right = DeadlockTrial.run(new MarkThenEvict());
        assertTrue(right.passed(), right.toString());
        assertEquals(1_800, right.finishedRequests());
        assertTrue(right.evictions() > 10, right.toString());
        assertTrue(right.grownBlocks() >= 1_800);
    }

    @Test
    void anEvictorThatNeverEvictsGetsStuck() throws InterruptedException {
        var result = DeadlockTrial.run(evictor(victim -> { }, request -> { }), 6, 300, 600);
        assertEquals("under load: nothing has moved for 0.6 seconds, and no thread is deadlocked", result.problem());
        assertTrue(result.finishedRequests() < result.requests());
    }

    @Test
    void anEvictorThatFailsIsNamed() throws InterruptedException {
        var result = DeadlockTrial.run(evictor(victim -> {
            throw new UnsupportedOperationException("not written yet");
        }, request -> { }));
        assertEquals("\"B ends\" failed: java.lang.UnsupportedOperationException: not written yet", result.problem());
    }

    @Test
    void theLoadAloneFindsTheDeadlockToo() throws InterruptedException {
        // behaves while there are only two threads, and evicts under the lock afterwards
        var evictor = new Evictor() {
            @Override
            public void whenShort(ActiveRequest victim) throws InterruptedException {
                if (victim.name().equals("A")) {
                    victim.mark();
                } else {
                    victim.evict();
                }
            }

            @Override
            public void betweenSteps(ActiveRequest request) throws InterruptedException {
                if (request.isMarked()) {
                    request.evict();
                }
            }
        };
        var result = DeadlockTrial.run(evictor, 6, 2_000);
        for (int again = 0; result.passed() && again < 9; again++) { // it is up to the scheduler, but not ten times
            result = DeadlockTrial.run(evictor, 6, 2_000);
        }
        assertEquals("under load, threads wait for each other in a circle", result.problem());
        assertTrue(result.report().waits().size() >= 2);
    }

    @Test
    void aTrialCanBeInterrupted() throws InterruptedException {
        var interrupted = new boolean[1];
        var thread = new Thread(() -> {
            try {
                DeadlockTrial.run(evictor(victim -> { }, request -> { }));
            } catch (InterruptedException end) {
                interrupted[0] = true;
            }
        });
        thread.start();
        Thread.sleep(200);
        thread.interrupt();
        thread.join(2_000);
        assertTrue(interrupted[0]);
    }

    @FunctionalInterface
    private interface OnRequest {
        void accept(ActiveRequest request) throws InterruptedException;
    }

    private static Evictor evictor(OnRequest whenShort, OnRequest betweenSteps) {
        return new Evictor() {
            @Override
            public void whenShort(ActiveRequest victim) throws InterruptedException {
                whenShort.accept(victim);
            }

            @Override
            public void betweenSteps(ActiveRequest request) throws InterruptedException {
                betweenSteps.accept(request);
            }
        };
    }
}
