package pagedkv.concurrent;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import pagedkv.pool.Pool;

/**
 * Do all five pools run, and lose nothing? A few hundred milliseconds each, with a figure that is no measurement.
 *
 * <p>One process and no warm-up to speak of: the pool that comes first is compiled for itself, the later ones find
 * code that was compiled for others. Figures to compare come from {@code make bench-java}.
 */
public final class PoolSmoke {

    private static final int NUM_BLOCKS = 1024;
    private static final int BATCH_BLOCKS = 4;

    /** @param pairs blocks that were allocated and released again */
    public record Result(String pool, int threads, long pairs, double seconds, boolean allBlocksBack) {
    }

    private PoolSmoke() {
    }

    public static List<Result> runAll(int numThreads, int millis) throws InterruptedException {
        var results = new ArrayList<Result>();
        for (PoolKind kind : PoolKind.values()) {
            results.add(run(kind.label(), kind.make(NUM_BLOCKS), numThreads, millis));
        }
        return results;
    }

    public static Result run(String name, Pool pool, int numThreads, int millis) throws InterruptedException {
        int freeBefore = pool.numFreeBlocks();
        pool.release(pool.allocate(1)); // Netty sets itself up with the first buffer
        var pairs = new AtomicLong();
        long began = System.nanoTime();
        long until = began + TimeUnit.MILLISECONDS.toNanos(millis);
        var failures = Workers.run(numThreads, worker -> {
            long done = 0;
            do { // once at least, however late the thread gets its turn
                for (int i = 0; i < 100; i++) {
                    pool.release(pool.allocate(BATCH_BLOCKS));
                }
                done += 100 * BATCH_BLOCKS;
            } while (System.nanoTime() < until);
            pairs.addAndGet(done);
        });
        if (!failures.isEmpty()) {
            throw new IllegalStateException(name + " failed", failures.get(0));
        }
        double seconds = (System.nanoTime() - began) / 1e9;
        return new Result(name, numThreads, pairs.get(), seconds, pool.numFreeBlocks() == freeBefore);
    }

    public static void main(String[] args) throws InterruptedException {
        boolean allBack = true;
        for (Result result : runAll(Runtime.getRuntime().availableProcessors(), 300)) {
            System.out.printf("%-10s %d threads  %7.1f million pairs/s  %s%n", result.pool, result.threads,
                    result.pairs / result.seconds / 1e6, result.allBlocksBack ? "all blocks back" : "BLOCKS LOST");
            allBack &= result.allBlocksBack;
        }
        if (!allBack) {
            System.exit(1);
        }
    }
}
