package pagedkv.article;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import org.junit.jupiter.api.Test;
import pagedkv.pool.EventReplay;
import pagedkv.pool.OutOfBlocksException;

/** The faults of the article's pool, held as they are (N13). */
class RefCountedBlockPoolTest {

    private final RefCountedBlockPool pool = new RefCountedBlockPool(8);

    @Test
    void itHas1024BlocksAndTheHighestLeavesFirst() {
        var standard = new RefCountedBlockPool();
        assertEquals(1024, standard.numBlocks());
        assertArrayEquals(new int[] {1023, 1022, 1021}, standard.allocate(3));
    }

    @Test
    void allocateRetainAndReleaseWorkWhenUsedWell() {
        int block = pool.allocate(1)[0];
        pool.retain(block);
        assertEquals(2, pool.refcount(block));
        pool.release(block);
        assertEquals(1, pool.refcount(block));
        assertEquals(7, pool.numFreeBlocks());
        pool.release(block);
        assertEquals(0, pool.refcount(block));
        assertEquals(8, pool.numFreeBlocks());
    }

    @Test
    void faultRetainOfAFreeBlockSucceeds() {
        pool.retain(7);
        assertEquals(1, pool.refcount(7));
        assertEquals(8, pool.numFreeBlocks());
        assertEquals(7, pool.allocate(1, "somebody else")[0]);
    }

    @Test
    void faultADoubleReleaseMakesNineOfEightFree() {
        int block = pool.allocate(1)[0];
        pool.release(block, block);
        assertEquals(9, pool.numFreeBlocks());
        assertEquals(-1, pool.refcount(block));
    }

    @Test
    void faultAfterADoubleReleaseTwoOwnersGetTheSameBlock() {
        int block = pool.allocate(1)[0];
        pool.release(block);
        pool.release(block);
        assertEquals(block, pool.allocate(1, "A")[0]);
        assertEquals(block, pool.allocate(1, "B")[0]);
        assertEquals(1, pool.refcount(block));
    }

    @Test
    void faultARefusedAllocationLosesWhatItTook() {
        pool.allocate(6);
        var error = assertThrows(OutOfBlocksException.class, () -> pool.allocate(3));
        assertEquals("need 3 blocks, found 2; those are lost now", error.getMessage());
        assertEquals(0, pool.numFreeBlocks());
    }

    @Test
    void faultAnUnknownIdFailsHalfWay() {
        int block = pool.allocate(1)[0];
        assertThrows(ArrayIndexOutOfBoundsException.class, () -> pool.retain(block, 8));
        assertEquals(2, pool.refcount(block));
        assertThrows(ArrayIndexOutOfBoundsException.class, () -> pool.release(block, -1));
        assertEquals(1, pool.refcount(block));
        assertThrows(ArrayIndexOutOfBoundsException.class, () -> pool.refcount(8));
    }

    @Test
    void itsEventsShowTheFaults() {
        var log = new EventReplay();
        pool.setObserver(log);
        int block = pool.allocate(1, "A")[0];
        pool.release(new int[] {block, block}, "A");
        assertThrows(OutOfBlocksException.class, () -> pool.allocate(10));
        assertEquals(List.of(0, 0, 0, 0, 0, 0, 0, -1), log.refcounts(8));
        assertEquals("OutOfBlocks", log.events().get(2).detail().get("error"));
    }
}
