package pagedkv.concurrent;

import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Is an evictor right? First the schedule that is known to deadlock ({@link Deadlock}), then many threads under load,
 * with a watchdog.
 *
 * <p>Under load, each thread works on one request after the other. A request needs some blocks, one after the other; if
 * it is evicted it starts again. There are never enough blocks for all, so somebody has to be evicted all the time; the
 * oldest request never is, so all get done in the end.
 */
public final class DeadlockTrial {

    private static final int NUM_THREADS = 6;
    private static final int REQUESTS_PER_THREAD = 300;
    private static final int MOST_BLOCKS_PER_REQUEST = 8;
    private static final int NUM_BLOCKS = 16;
    private static final int RESERVE_BLOCKS = 2;
    private static final long PATIENCE_MILLIS = 4_000;

    /**
     * @param problem why it did not pass, in a sentence; or null
     * @param report the JVM's, if there was a deadlock; or null
     * @param finishedRequests under load, of {@code requests}
     * @param grownBlocks blocks that requests were given under load
     * @param evictions under load
     */
    public record Result(String problem, DeadlockReport report, long finishedRequests, long requests, long grownBlocks,
            long evictions) {

        public boolean passed() {
            return problem == null;
        }
    }

    private final Evictor evictor;
    private final int numThreads;
    private final int requestsPerThread;
    private final long patienceMillis;
    private final EvictingPool pool;
    private final AtomicLong finished = new AtomicLong();
    private final AtomicLong grown = new AtomicLong();

    private DeadlockTrial(Evictor evictor, int numThreads, int requestsPerThread, long patienceMillis) {
        this.patienceMillis = patienceMillis;
        this.evictor = evictor;
        this.numThreads = numThreads;
        this.requestsPerThread = requestsPerThread;
        pool = new EvictingPool(NUM_BLOCKS, RESERVE_BLOCKS, evictor);
    }

    /**
     * With six threads and 300 requests each; a second or so. All threads are gone afterwards, also if the caller is
     * interrupted, unless the evictor itself cannot be interrupted.
     */
    public static Result run(Evictor evictor) throws InterruptedException {
        return run(evictor, NUM_THREADS, REQUESTS_PER_THREAD);
    }

    /** The same with other numbers. */
    public static Result run(Evictor evictor, int numThreads, int requestsPerThread) throws InterruptedException {
        return run(evictor, numThreads, requestsPerThread, PATIENCE_MILLIS);
    }

    static Result run(Evictor evictor, int numThreads, int requestsPerThread, long patienceMillis)
            throws InterruptedException {
        var outcome = Deadlock.reproduce(evictor);
        var trial = new DeadlockTrial(evictor, numThreads, requestsPerThread, patienceMillis);
        if (outcome.deadlocked()) {
            return trial.result("two threads wait for each other: the one that releases under the pool's lock evicts "
                    + "a request, whose thread holds the request's lock and waits for a block", outcome.report());
        }
        if (outcome.problem() != null) {
            return trial.result(outcome.problem(), null);
        }
        if (outcome.freeBlocks() != 4) {
            return trial.result("4 blocks should be free when both requests are done, not " + outcome.freeBlocks(),
                    null);
        }
        return trial.underLoad();
    }

    private Result underLoad() throws InterruptedException {
        var threads = new WatchedThreads();
        for (int i = 0; i < numThreads; i++) {
            int thread = i;
            threads.add("request thread " + i, () -> workOnRequests(thread));
        }
        var watched = threads.run(finished::get, patienceMillis);
        if (watched.report() != null) {
            return result("under load, threads wait for each other in a circle", watched.report());
        }
        if (watched.problem() != null) {
            return result("under load: " + watched.problem()
                    + (watched.ended() ? "" : "; and its threads cannot be interrupted"), null);
        }
        if (pool.numFreeBlocks() != NUM_BLOCKS) {
            return result("under load, %d of %d blocks got lost".formatted(
                    NUM_BLOCKS - pool.numFreeBlocks(), NUM_BLOCKS), null);
        }
        if (pool.numEvictions() == 0) {
            return result("under load, nobody was ever evicted", null);
        }
        return result(null, null);
    }

    private void workOnRequests(int thread) throws InterruptedException {
        for (int i = 0; i < requestsPerThread; i++) {
            var request = pool.begin("request " + thread + "." + i);
            int needed = 1 + ThreadLocalRandom.current().nextInt(MOST_BLOCKS_PER_REQUEST);
            while (request.numBlocks() < needed) { // an eviction sets it back to 0
                if (pool.grow(request)) {
                    grown.incrementAndGet();
                }
                evictor.betweenSteps(request);
                Thread.yield(); // a step of work: others get their turn while this one holds blocks
            }
            pool.finish(request);
            finished.incrementAndGet();
        }
    }

    private Result result(String problem, DeadlockReport report) {
        return new Result(problem, report, finished.get(), (long) numThreads * requestsPerThread, grown.get(),
                problem == null ? pool.numEvictions() : 0);
    }
}
