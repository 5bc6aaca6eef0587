package pagedkv.concurrent;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

/**
 * The deadlock, reproduced without chance (S19): releasing under a lock evicts an active request, which holds its own
 * lock and waits for a block.
 *
 * <pre>
 *   "A grows"                              "B ends"
 *   takes A's lock
 *                                          takes the pool's lock, gives its blocks back
 *   wants a block: waits for the pool's    the pool is short: evict A: waits for A's
 * </pre>
 *
 * <p>Two latches make the threads reach these places in this order. What happens then depends on the {@link Evictor}.
 */
public final class Deadlock {

    private static final long MOST_SECONDS = 10;

    /**
     * @param deadlocked whether the two threads waited for each other
     * @param report what the JVM said about it, or null
     * @param ended whether both threads are gone: by themselves, or else because they were interrupted
     * @param problem what else went wrong, or null
     * @param freeBlocks of the pool's four in the end
     */
    public record Outcome(boolean deadlocked, DeadlockReport report, boolean ended, String problem, int freeBlocks) {
    }

    private final CountDownLatch aHasItsLock = new CountDownLatch(1);
    private final CountDownLatch bHasThePools = new CountDownLatch(1);
    private final Evictor evictor;
    private final EvictingPool pool;
    private final ActiveRequest b;
    private final ActiveRequest a;

    private Deadlock(Evictor evictor) throws InterruptedException {
        this.evictor = evictor;
        int reserveBlocks = 4; // all of them: always short
        pool = new EvictingPool(4, reserveBlocks, new Late());
        b = pool.begin("B");
        a = pool.begin("A"); // the younger one is the victim
        pool.grow(b);
        pool.grow(a);
    }

    /**
     * Runs the two threads with this evictor; if they deadlock, ends them after the JVM was asked.
     *
     * @throws InterruptedException if the caller is interrupted; the two threads are ended then too
     */
    public static Outcome reproduce(Evictor evictor) throws InterruptedException {
        return new Deadlock(evictor).run();
    }

    private Outcome run() throws InterruptedException {
        var team = new WatchedThreads();
        team.add("A grows", this::aGrows);
        team.add("B ends", () -> {
            await(aHasItsLock);
            pool.finish(b);
        });
        var watched = team.run(() -> 0, TimeUnit.SECONDS.toMillis(MOST_SECONDS));
        return new Outcome(watched.report() != null, watched.report(), watched.ended(), watched.problem(),
                watched.ended() ? pool.numFreeBlocks() : 0);
    }

    private void aGrows() throws InterruptedException {
        a.grow(() -> {
            aHasItsLock.countDown();
            await(bHasThePools);
        });
        evictor.betweenSteps(a);
        pool.finish(a);
    }

    private static void await(CountDownLatch latch) throws InterruptedException {
        if (!latch.await(MOST_SECONDS, TimeUnit.SECONDS)) {
            throw new IllegalStateException("the other thread did not get that far");
        }
    }

    /** The evictor, but only from the moment on when A has its lock. */
    private final class Late implements Evictor {

        @Override
        public void whenShort(ActiveRequest victim) throws InterruptedException {
            if (aHasItsLock.getCount() == 0) {
                bHasThePools.countDown();
                evictor.whenShort(victim);
            }
        }

        @Override
        public void betweenSteps(ActiveRequest request) throws InterruptedException {
            evictor.betweenSteps(request);
        }
    }
}
