package pagedkv.experiments;

import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;
import pagedkv.pool.Pool;

/**
 * How often do threads wait for each other at a pool's monitor (N12)?
 *
 * <p>Counts waits and not time: the JVM itself counts how often a thread was put to sleep since a monitor was taken.
 * Short waits, which a thread spends spinning, it does not count; so each thread allocates and releases many blocks at
 * once.
 */
public final class Contention {

    private Contention() {
    }

    /** @param waits how often a thread slept because the monitor of its pool was taken */
    public record Result(int threads, long calls, long waits) {
    }

    /** All threads on one pool. */
    public static Result onOnePool(Pool pool, int threads, int blocks, int rounds) throws InterruptedException {
        return run(() -> pool, threads, blocks, rounds);
    }

    /** Each thread on a pool of its own. */
    public static Result onPoolsOfTheirOwn(Supplier<Pool> pools, int threads, int blocks, int rounds)
            throws InterruptedException {
        return run(pools, threads, blocks, rounds);
    }

    private static Result run(Supplier<Pool> pools, int threads, int blocks, int rounds) throws InterruptedException {
        var waits = new AtomicLong();
        var start = new CountDownLatch(1);
        List<Thread> running = new ArrayList<>();
        for (int i = 0; i < threads; i++) {
            Pool pool = pools.get();
            var thread = new Thread(() -> waits.addAndGet(allocateAndRelease(pool, start, blocks, rounds)), "worker " + i);
            running.add(thread);
            thread.start();
        }
        start.countDown();
        for (Thread thread : running) {
            thread.join();
        }
        return new Result(threads, 2L * threads * rounds, waits.get());
    }

    private static long allocateAndRelease(Pool pool, CountDownLatch start, int blocks, int rounds) {
        try {
            start.await();
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return 0;
        }
        for (int i = 0; i < rounds; i++) {
            pool.release(pool.allocate(blocks));
        }
        long self = Thread.currentThread().getId();
        return ManagementFactory.getThreadMXBean().getThreadInfo(self).getBlockedCount();
    }
}
