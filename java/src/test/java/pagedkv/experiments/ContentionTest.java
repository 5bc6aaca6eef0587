package pagedkv.experiments;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import org.junit.jupiter.api.Test;
import pagedkv.pool.BlockPool;

/** N12: what is shared is waited for. */
class ContentionTest {

    @Test
    void threadsOnOnePoolWaitForEachOtherAndLoseNothing() throws InterruptedException {
        var pool = new BlockPool(64);
        var result = Contention.onOnePool(pool, 4, 50_000);
        assertEquals(400_000, result.calls());
        assertTrue(result.waits() > 0, "no thread ever waited");
        assertEquals(64, pool.numFreeBlocks());
    }

    @Test
    void threadsOnPoolsOfTheirOwnNeverWait() throws InterruptedException {
        assertEquals(0, Contention.onPoolsOfTheirOwn(() -> new BlockPool(64), 4, 50_000).waits());
    }
}
