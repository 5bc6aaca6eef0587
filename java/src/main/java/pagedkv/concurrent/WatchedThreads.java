package pagedkv.concurrent;

import java.util.ArrayList;
import java.util.List;
import java.util.function.LongSupplier;

/** Threads that may deadlock, with somebody who watches, asks the JVM, and ends them. */
public final class WatchedThreads {

    private static final long LOOK_EVERY_MILLIS = 5;
    private static final long TO_END_MILLIS = 3_000;

    /** @param problem what the first thread that failed threw, or that nothing moved any more; or null */
    public record Outcome(DeadlockReport report, String problem, boolean ended) {
    }

    /** What a thread does. */
    @FunctionalInterface
    public interface Work {
        void run() throws Exception;
    }

    private final List<Thread> threads = new ArrayList<>();
    private volatile String problem;

    public void add(String name, Work work) {
        var thread = new Thread(() -> {
            try {
                work.run();
            } catch (InterruptedException end) {
                // how a deadlock is ended
            } catch (Throwable failure) {
                fail("\"" + name + "\" failed: " + failure);
            }
        }, name);
        thread.setDaemon(true);
        threads.add(thread);
    }

    private synchronized void fail(String what) {
        if (problem == null) {
            problem = what;
        }
    }

    /**
     * Runs all threads until they are done, or one has failed, or some are deadlocked, or {@code progress} has stayed
     * the same for {@code patienceMillis}.
     */
    public Outcome run(LongSupplier progress, long patienceMillis) throws InterruptedException {
        DeadlockReport report = null;
        try {
            threads.forEach(Thread::start);
            long last = progress.getAsLong();
            long moved = System.nanoTime();
            while (report == null && problem == null && threads.stream().anyMatch(Thread::isAlive)) {
                Thread.sleep(LOOK_EVERY_MILLIS);
                report = DeadlockReport.of(threads);
                long now = progress.getAsLong();
                if (now != last) {
                    last = now;
                    moved = System.nanoTime();
                } else if (report == null && System.nanoTime() - moved > patienceMillis * 1_000_000) {
                    fail("nothing has moved for %.1f seconds, and no thread is deadlocked".formatted(
                            patienceMillis / 1e3));
                }
            }
        } finally {
            threads.forEach(Thread::interrupt);
        }
        return new Outcome(report, problem, allEnd());
    }

    private boolean allEnd() throws InterruptedException {
        long until = System.nanoTime() + TO_END_MILLIS * 1_000_000;
        for (Thread thread : threads) {
            thread.join(Math.max(1, (until - System.nanoTime()) / 1_000_000));
        }
        return threads.stream().noneMatch(Thread::isAlive);
    }
}
