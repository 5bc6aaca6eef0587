package pagedkv.experiments;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import pagedkv.pool.BlockPool;

/** N12: what is shared is waited for. */
class ContentionTest {

    @Test
    void threadsOnOnePoolWaitForEachOtherAndLoseNothing() throws InterruptedException {
        var pool = new BlockPool(1024);
        var result = Contention.onOnePool(pool, 4, 256, 5_000);
        assertEquals(40_000, result.calls());
        assertTrue(result.waits() > 0, "no thread ever waited");
        assertEquals(1024, pool.numFreeBlocks());
    }

    @Test
    void threadsOnPoolsOfTheirOwnNeverWait() throws InterruptedException {
        assertEquals(0, Contention.onPoolsOfTheirOwn(() -> new BlockPool(1024), 4, 256, 5_000).waits());
    }
}
