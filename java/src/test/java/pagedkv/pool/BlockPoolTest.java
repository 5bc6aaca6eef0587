package pagedkv.pool;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

class BlockPoolTest extends PoolContract {

    @Override
    protected Pool newPool(int numBlocks) {
        return new BlockPool(numBlocks);
    }

    @Test
    void threadsThatTakeTurnsLoseNothing() throws InterruptedException {
        var pool = new BlockPool(64);
        var threads = new ArrayList<Thread>();
        var failures = new ArrayList<Throwable>();
        for (int i = 0; i < 4; i++) {
            var thread = new Thread(() -> allocateAndRelease(pool));
            thread.setUncaughtExceptionHandler((failed, error) -> {
                synchronized (failures) {
                    failures.add(error);
                }
            });
            threads.add(thread);
            thread.start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(List.of(), failures);
        assertEquals(64, pool.numFreeBlocks());
    }

    private static void allocateAndRelease(Pool pool) {
        for (int i = 0; i < 2_000; i++) {
            var blocks = pool.allocate(16);
            pool.retain(blocks);
            pool.release(blocks);
            pool.release(blocks);
        }
    }
}
