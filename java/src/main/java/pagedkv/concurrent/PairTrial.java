package pagedkv.concurrent;

import java.util.ArrayDeque;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import pagedkv.pool.OutOfBlocksException;
import pagedkv.pool.Pool;

/**
 * The trial that finds out a stack without a tag: threads that each allocate two blocks, one after the other, and
 * release them in the same order.
 *
 * <p>In the same order, so that the block that was on top comes to lie on top again, with another one below. That is
 * what a thread in the middle of a pop mistakes for "nothing has changed".
 */
public final class PairTrial {

    /**
     * @param rounds how many rounds all threads did together, until the end or until something broke
     * @param lostBlocks that nobody holds and nobody can be given
     * @param problem what went wrong first, or null
     */
    public record Result(long rounds, int lostBlocks, String problem) {

        public boolean passed() {
            return lostBlocks == 0 && problem == null;
        }
    }

    private final Pool pool;
    private final int rounds;
    private final AtomicBoolean broken = new AtomicBoolean();
    private final AtomicLong done = new AtomicLong();
    private final Set<Integer> kept = ConcurrentHashMap.newKeySet(); // by threads that failed
    private String problem;

    private PairTrial(Pool pool, int rounds) {
        this.pool = pool;
        this.rounds = rounds;
    }

    /**
     * @param pool nobody else may use it meanwhile; its free blocks must be enough for two per thread
     * @param rounds of each thread
     */
    public static Result run(Pool pool, int numThreads, int rounds) throws InterruptedException {
        int freeBefore = pool.numFreeBlocks();
        if (freeBefore < 2 * numThreads) {
            throw new IllegalArgumentException(
                    "%d threads need %d free blocks, there are %d".formatted(numThreads, 2 * numThreads, freeBefore));
        }
        var trial = new PairTrial(pool, rounds);
        var failures = Workers.run(numThreads, worker -> trial.allocateAndReleasePairs());
        if (!failures.isEmpty()) {
            trial.problem = failures.get(0).getMessage();
        }
        return trial.count(freeBefore);
    }

    private void allocateAndReleasePairs() {
        var mine = new ArrayDeque<Integer>();
        int round = 0;
        try {
            while (round < rounds && !broken.get() && !Thread.currentThread().isInterrupted()) {
                mine.add(pool.allocate(1)[0]);
                mine.add(pool.allocate(1)[0]);
                pool.release(mine.remove());
                pool.release(mine.remove());
                round++;
            }
        } finally {
            broken.compareAndSet(false, round < rounds);
            done.addAndGet(round);
            kept.addAll(mine);
        }
    }

    /** Takes every block there is to be had, and gives them back if all is well. */
    private Result count(int freeBefore) {
        Set<Integer> got = new HashSet<>();
        // a broken stack may go in a circle; no sound one hands out a block more often than it has blocks
        for (int i = 0; i <= pool.numBlocks(); i++) {
            try {
                got.add(pool.allocate(1)[0]);
            } catch (OutOfBlocksException end) {
                break;
            } catch (IllegalStateException brokenStack) {
                problem = problem == null ? brokenStack.getMessage() : problem;
            }
        }
        if (problem == null) { // else there is no telling what is whose
            got.forEach(pool::release);
        }
        kept.removeAll(got);
        return new Result(done.get(), freeBefore - got.size() - kept.size(), problem);
    }
}
