package pagedkv.concurrent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.ArrayBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.IntFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;
import pagedkv.pool.DoubleFreeException;
import pagedkv.pool.EventReplay;
import pagedkv.pool.OutOfBlocksException;
import pagedkv.pool.Pool;
import pagedkv.pool.PoolEvent;
import pagedkv.pool.PoolState;
import pagedkv.pool.UseAfterFreeException;

/** Several threads at once, on every pool. Each test ends after a fixed short time. */
@Timeout(60)
class StressTest {

    private static final int NUM_THREADS = 4;
    private static final long MILLIS = 100;
    private static final int NOBODY = 0;

    @ParameterizedTest(name = "{0}")
    @MethodSource("pagedkv.concurrent.TestPools#all")
    void aBlockHasOneOwnerAtATime(String name, IntFunction<Pool> maker) throws Exception {
        int numBlocks = 64;
        var pool = maker.apply(numBlocks);
        var owners = new AtomicIntegerArray(numBlocks);
        var refusals = new AtomicLong();
        var rounds = untilTimeIsUp((worker, random) -> {
            int[] blocks;
            try {
                blocks = pool.allocate(1 + random.nextInt(24)); // sometimes more than there are for all
            } catch (OutOfBlocksException refusal) {
                refusals.incrementAndGet();
                return;
            }
            for (int block : blocks) {
                assertTrue(owners.compareAndSet(block, NOBODY, worker + 1), "block " + block + " has two owners");
                assertEquals(1, pool.refcount(block));
            }
            for (int block : blocks) {
                assertTrue(owners.compareAndSet(block, worker + 1, NOBODY), "block " + block + " changed its owner");
            }
            releaseInSomeWay(pool, blocks, random);
        });
        assertTrue(rounds > refusals.get(), "no block was ever handed out");
        assertWhole(pool, numBlocks);
    }

    private static void releaseInSomeWay(Pool pool, int[] blocks, Random random) {
        if (random.nextBoolean()) {
            pool.release(blocks);
        } else {
            for (int block : blocks) {
                pool.release(block);
            }
        }
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("pagedkv.concurrent.TestPools#all")
    void countsAreExactAfterRandomRetainsAndReleases(String name, IntFunction<Pool> maker) throws Exception {
        int numBlocks = 64;
        var pool = maker.apply(numBlocks);
        var shared = pool.allocate(8, "everybody");
        var leftOver = new AtomicIntegerArray(numBlocks);
        IntStream.of(shared).forEach(leftOver::incrementAndGet);
        untilTimeIsUp((worker, random) -> {
            var mine = new ArrayList<Integer>();
            for (int i = 0; i < 30; i++) {
                if (mine.isEmpty() || random.nextInt(5) < 3) {
                    int from = random.nextInt(shared.length);
                    var some = new int[] {shared[from], shared[random.nextInt(shared.length)], shared[from]};
                    pool.retain(some);
                    IntStream.of(some).forEach(mine::add);
                } else {
                    Collections.shuffle(mine, random);
                    var some = mine.subList(0, 1 + random.nextInt(mine.size()));
                    pool.release(some.stream().mapToInt(Integer::intValue).toArray());
                    some.clear();
                }
            }
            mine.forEach(leftOver::incrementAndGet);
            if (random.nextInt(4) > 0) { // most give back what they have, so that the counts stay small
                pool.release(mine.stream().mapToInt(Integer::intValue).toArray());
                mine.forEach(leftOver::decrementAndGet);
            }
        });
        for (int block = 0; block < numBlocks; block++) {
            assertEquals(leftOver.get(block), pool.refcount(block), "block " + block);
        }
        assertEquals(numBlocks - 8, pool.numFreeBlocks());
        for (int block : shared) {
            var all = new int[leftOver.get(block)];
            Arrays.fill(all, block);
            pool.release(all);
        }
        assertWhole(pool, numBlocks);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("pagedkv.concurrent.TestPools#all")
    void theLastOfManyReleasesFreesTheBlock(String name, IntFunction<Pool> maker) throws Exception {
        int numBlocks = 16;
        var pool = maker.apply(numBlocks);
        for (int round = 0; round < 25; round++) {
            var blocks = pool.allocate(3);
            for (int i = 1; i < NUM_THREADS; i++) {
                pool.retain(blocks);
            }
            assertNoFailures(Workers.run(NUM_THREADS, worker -> {
                if (worker % 2 == 0) {
                    pool.release(blocks);
                } else {
                    pool.release(blocks[2]);
                    pool.release(blocks[1], blocks[0]);
                }
            }));
            assertEquals(numBlocks, pool.numFreeBlocks());
        }
        assertWhole(pool, numBlocks);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("pagedkv.concurrent.TestPools#all")
    void ofSeveralReleasesOfOneReferenceOneSucceeds(String name, IntFunction<Pool> maker) throws Exception {
        int numBlocks = 16;
        var pool = maker.apply(numBlocks);
        for (int round = 0; round < 25; round++) {
            int block = pool.allocate(1)[0];
            var failures = Workers.run(NUM_THREADS, worker -> pool.release(block));
            assertEquals(NUM_THREADS - 1, failures.size());
            failures.forEach(failure -> assertEquals(DoubleFreeException.class, failure.getClass()));
            assertEquals(numBlocks, pool.numFreeBlocks());
        }
        assertWhole(pool, numBlocks);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("pagedkv.concurrent.TestPools#all")
    void aRetainNeverBringsAFreeBlockBack(String name, IntFunction<Pool> maker) throws Exception {
        int numBlocks = 8;
        var pool = maker.apply(numBlocks);
        for (int round = 0; round < 25; round++) {
            var blocks = pool.allocate(2);
            var retained = new AtomicInteger();
            assertNoFailures(Workers.run(2, worker -> {
                if (worker == 0) {
                    pool.release(blocks);
                    return;
                }
                try {
                    pool.retain(blocks);
                    retained.incrementAndGet();
                } catch (UseAfterFreeException tooLate) {
                    // the other one was first
                }
            }));
            assertEquals(List.of(retained.get(), retained.get()),
                    List.of(pool.refcount(blocks[0]), pool.refcount(blocks[1])));
            assertEquals(numBlocks - 2 * retained.get(), pool.numFreeBlocks());
            if (retained.get() == 1) {
                pool.release(blocks);
            }
        }
        assertWhole(pool, numBlocks);
    }

    /** Each thread holds three blocks at most and there are three for each: so there is never a reason to refuse. */
    @ParameterizedTest(name = "{0}")
    @MethodSource("pagedkv.concurrent.TestPools#all")
    void outOfBlocksOnlyWhenReallyOut(String name, IntFunction<Pool> maker) throws Exception {
        int numBlocks = 3 * NUM_THREADS;
        var pool = maker.apply(numBlocks);
        untilTimeIsUp((worker, random) -> {
            if (random.nextBoolean()) {
                releaseInSomeWay(pool, pool.allocate(3), random);
            } else {
                var one = pool.allocate(1);
                var two = pool.allocate(2);
                pool.release(one);
                pool.release(two);
            }
        });
        assertWhole(pool, numBlocks);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("pagedkv.concurrent.TestPools#all")
    void aRefusedCallIsNotInTheWayOfOthers(String name, IntFunction<Pool> maker) throws Exception {
        int numBlocks = 8;
        var pool = maker.apply(numBlocks);
        untilTimeIsUp((worker, random) -> {
            if (worker == 0) { // two for each of the others, so one of 7 is refused whenever anybody holds any
                try {
                    pool.release(pool.allocate(7));
                } catch (OutOfBlocksException refusal) {
                    assertTrue(refusal.getMessage().startsWith("need 7 blocks, "), refusal.getMessage());
                }
            } else {
                try {
                    pool.release(pool.allocate(2));
                } catch (OutOfBlocksException refusal) {
                    // only while worker 0 has seven
                }
            }
        });
        assertWhole(pool, numBlocks);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("pagedkv.concurrent.TestPools#all")
    void aBlockMayBeReleasedByAnotherThread(String name, IntFunction<Pool> maker) throws Exception {
        int numBlocks = 64;
        var pool = maker.apply(numBlocks);
        var queue = new ArrayBlockingQueue<int[]>(8);
        var rounds = new AtomicLong();
        var failures = Workers.run(2, worker -> {
            long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(MILLIS);
            if (worker == 0) {
                while (System.nanoTime() < until) {
                    queue.put(pool.allocate(1 + (int) (rounds.get() % 6))); // 10 times 6 at most: never out
                    rounds.incrementAndGet();
                }
                queue.put(new int[0]);
                return;
            }
            for (int[] blocks = queue.take(); blocks.length > 0; blocks = queue.take()) {
                pool.release(blocks);
            }
        });
        assertNoFailures(failures);
        assertTrue(rounds.get() > 100, "only " + rounds.get() + " rounds");
        assertWhole(pool, numBlocks);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("pagedkv.concurrent.TestPools#all")
    void whatAnOwnerWroteIsThereForTheNextOne(String name, IntFunction<Pool> maker) throws Exception {
        int numBlocks = 8;
        var pool = maker.apply(numBlocks);
        var first = new long[numBlocks]; // plain: only the pool orders what the threads do with it
        var second = new long[numBlocks];
        untilTimeIsUp((worker, random) -> {
            int block = pool.allocate(1)[0];
            assertEquals(first[block], second[block], "half of what the last owner wrote");
            long stamp = random.nextLong();
            first[block] = stamp;
            second[block] = stamp;
            pool.release(block);
        });
        assertWhole(pool, numBlocks);
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("pagedkv.concurrent.TestPools#all")
    void eventsOfManyThreadsReplay(String name, IntFunction<Pool> maker) throws Exception {
        int numBlocks = 12;
        var pool = maker.apply(numBlocks);
        var log = new EventReplay(); // not safe for threads by itself: the pool has to call it one at a time
        pool.setObserver(log);
        assertNoFailures(Workers.run(NUM_THREADS, worker -> {
            for (int i = 0; i < 500; i++) {
                try {
                    var blocks = pool.allocate(4, "worker " + worker);
                    pool.retain(blocks, "worker " + worker);
                    pool.release(blocks, "worker " + worker);
                    pool.release(blocks, "worker " + worker);
                } catch (OutOfBlocksException refusal) {
                    // also an event
                }
            }
        }));
        pool.setObserver(null);
        assertReplays(log.events(), numBlocks);
        assertEquals(PoolState.of(pool).refcounts(), log.refcounts(numBlocks));
        assertWhole(pool, numBlocks);
    }

    /** Every allocate takes free blocks, every retain held ones, every release held ones: at every step. */
    private static void assertReplays(List<PoolEvent> events, int numBlocks) {
        var counts = new int[numBlocks];
        long step = 0;
        for (PoolEvent event : events) {
            assertEquals(step++, event.step());
            if (event.detail().containsKey("error")) {
                continue;
            }
            for (int block : event.blocks()) {
                boolean allocated = event.op().equals("allocate");
                assertEquals(allocated, counts[block] == 0, event.toString());
                counts[block] += event.op().equals("release") ? -1 : 1;
            }
        }
    }

    @FunctionalInterface
    private interface Round {
        void run(int worker, Random random) throws Exception;
    }

    /** @return how many rounds all threads did together */
    private static long untilTimeIsUp(Round round) throws InterruptedException {
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(MILLIS);
        var rounds = new AtomicLong();
        assertNoFailures(Workers.run(NUM_THREADS, worker -> {
            var random = new Random(worker);
            do {
                round.run(worker, random);
                rounds.incrementAndGet();
            } while (System.nanoTime() < until);
        }));
        return rounds.get();
    }

    private static void assertNoFailures(List<Throwable> failures) {
        if (!failures.isEmpty()) {
            throw new AssertionError(failures.size() + " threads failed, one of them so", failures.get(0));
        }
    }

    /** Every block is free, and can be had once. */
    private static void assertWhole(Pool pool, int numBlocks) {
        assertEquals(new PoolState(numBlocks, Collections.nCopies(numBlocks, 0)), PoolState.of(pool));
        var blocks = pool.allocate(numBlocks);
        assertEquals(numBlocks, IntStream.of(blocks).distinct().count());
        assertFalse(IntStream.of(blocks).anyMatch(block -> pool.refcount(block) != 1));
        pool.release(blocks);
        assertEquals(numBlocks, pool.numFreeBlocks());
    }
}
