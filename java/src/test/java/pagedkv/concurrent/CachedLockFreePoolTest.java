package pagedkv.concurrent;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import pagedkv.pool.OutOfBlocksException;

/** What the caches add to the contract. */
@Timeout(60)
class CachedLockFreePoolTest {

    @Test
    void aReleasedBlockComesBackToTheThreadThatReleasedIt() throws InterruptedException {
        var pool = new CachedLockFreePool(64, 8);
        int mine = pool.allocate(1)[0];
        pool.release(mine);
        onAnotherThread(() -> {
            int block = pool.allocate(1)[0];
            assertFalse(block == mine);
            pool.release(block);
        });
        assertEquals(mine, pool.allocate(1)[0]);
    }

    @Test
    void aMissFetchesHalfACacheMore() {
        var pool = new CachedLockFreePool(64, 8);
        pool.allocate(1);
        assertEquals(4, pool.numCachedBlocks());
        assertEquals(new CacheStats(0, 1), pool.cacheStats());
        pool.allocate(4);
        assertEquals(0, pool.numCachedBlocks());
        assertEquals(new CacheStats(4, 1), pool.cacheStats());
        pool.allocate(3);
        assertEquals(new CacheStats(4, 4), pool.cacheStats());
        assertEquals(0.5, pool.cacheStats().hitRate());
    }

    @Test
    void aFullCacheSpillsItsOlderHalf() {
        var pool = new CachedLockFreePool(64, 4);
        var blocks = pool.allocate(16);
        for (int i = 0; i < 4; i++) {
            pool.release(blocks[i]);
        }
        // the two that the miss had fetched on top went to the stack
        assertArrayEquals(new int[] {blocks[3], blocks[2], blocks[1], blocks[0]}, pool.cachedByThisThread());
        pool.release(blocks[4]);
        assertArrayEquals(new int[] {blocks[4], blocks[3], blocks[2]}, pool.cachedByThisThread());
        assertTrue(pool.isCached(blocks[2]));
        assertFalse(pool.isCached(blocks[1]));
        assertEquals(64 - 11, pool.numFreeBlocks());
    }

    @Test
    void aCacheNeverHoldsMoreThanItsSize() {
        for (int cacheBlocks : new int[] {0, 1, 2, 5, 64}) {
            var pool = new CachedLockFreePool(256, cacheBlocks);
            var all = pool.allocate(256);
            assertEquals(0, pool.numCachedBlocks());
            IntStream.of(all).limit(128).forEach(pool::release);
            assertTrue(pool.numCachedBlocks() <= cacheBlocks);
            pool.release(IntStream.of(all).skip(128).toArray());
            assertTrue(pool.numCachedBlocks() <= cacheBlocks);
            assertEquals(256, pool.numFreeBlocks());
        }
    }

    @Test
    void aSizeOutsideZeroTo64IsRefused() {
        assertThrows(IllegalArgumentException.class, () -> new CachedLockFreePool(8, -1));
        assertThrows(IllegalArgumentException.class, () -> new CachedLockFreePool(8, 65));
    }

    @Test
    void blocksInTheCacheOfASleepingThreadCanBeHad() throws Exception {
        var pool = new CachedLockFreePool(8, 64);
        var cached = new CountDownLatch(1);
        var finish = new CountDownLatch(1);
        var sleeper = new Thread(() -> {
            pool.release(pool.allocate(8));
            cached.countDown();
            await(finish);
            // every block that its cache remembers is in use elsewhere now
            assertThrows(OutOfBlocksException.class, () -> pool.allocate(1));
        });
        var failures = new ArrayList<Throwable>();
        sleeper.setUncaughtExceptionHandler((thread, failure) -> failures.add(failure));
        sleeper.start();
        cached.await();
        assertEquals(8, pool.numCachedBlocks());
        assertEquals(8, pool.numFreeBlocks());
        var blocks = pool.allocate(8);
        assertEquals(8, IntStream.of(blocks).distinct().count());
        finish.countDown();
        sleeper.join();
        assertEquals(0, failures.size(), failures.toString());
        pool.release(blocks);
        assertEquals(8, pool.numFreeBlocks());
    }

    @Test
    void aDeadThreadTakesNoBlockAlong() throws InterruptedException {
        var pool = new CachedLockFreePool(64, 8);
        for (int i = 0; i < 100; i++) { // far more caches than there are blocks
            onAnotherThread(() -> pool.release(pool.allocate(8)));
        }
        assertEquals(64, pool.numFreeBlocks());
        assertEquals(64, IntStream.of(pool.allocate(64)).distinct().count());
        assertThrows(OutOfBlocksException.class, () -> pool.allocate(1));
    }

    @Test
    void theStatisticsOfDeadThreadsStay() throws InterruptedException {
        var pool = new CachedLockFreePool(64, 8);
        for (int i = 0; i < 100; i++) {
            onAnotherThread(() -> pool.release(pool.allocate(1)));
        }
        assertEquals(100, pool.cacheStats().hits() + pool.cacheStats().misses());
    }

    @Test
    void deadThreadsAreNotKeptForEver() throws InterruptedException {
        var pool = new CachedLockFreePool(1_000, 4);
        for (int i = 0; i < 100; i++) {
            onAnotherThread(() -> pool.release(pool.allocate(1)));
        }
        // what lies in dead caches is brought back from time to time, without anybody being short of blocks
        assertTrue(pool.numCachedBlocks() < 100, pool.numCachedBlocks() + " blocks in caches");
    }

    @Test
    void anOldHintIsHarmless() throws InterruptedException {
        var pool = new CachedLockFreePool(4, 4);
        var blocks = pool.allocate(4);
        pool.release(blocks);
        onAnotherThread(() -> { // takes all out of the first thread's cache, and leaves them in its own
            pool.release(pool.allocate(4));
        });
        // the first thread's hints say "in my cache", the blocks are in another one: they can be had all the same
        assertEquals(4, IntStream.of(pool.allocate(4)).distinct().count());
        assertEquals(0, pool.numFreeBlocks());
    }

    private static void onAnotherThread(Runnable work) throws InterruptedException {
        var failures = Workers.run(1, worker -> work.run());
        if (!failures.isEmpty()) {
            throw new AssertionError(failures.get(0));
        }
    }

    private static void await(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
    }
}
