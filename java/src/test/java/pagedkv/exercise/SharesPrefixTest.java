package pagedkv.exercise;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.Arrays;
import org.junit.jupiter.api.Test;
import pagedkv.pool.BlockPool;
import pagedkv.pool.DoubleFreeException;
import pagedkv.pool.OutOfBlocksException;
import pagedkv.pool.Pool;

/** That a pool's counts tell a right answer from the wrong ones. */
class SharesPrefixTest {

    private static final SharesPrefix RIGHT = (a, sharedBlocks, ownBlocks, pool, owner) -> {
        int[] shared = Arrays.copyOf(a.blocks(), sharedBlocks);
        pool.retain(shared, owner);
        BareTable b = new BareTable(pool, owner);
        b.enter(shared);
        try {
            b.allocate(ownBlocks);
        } catch (OutOfBlocksException refused) {
            b.close();
            throw refused;
        }
        return b;
    };

    private static final SharesPrefix ENTERS_ONLY = (a, sharedBlocks, ownBlocks, pool, owner) -> {
        BareTable b = new BareTable(pool, owner);
        b.enter(Arrays.copyOf(a.blocks(), sharedBlocks));
        b.allocate(ownBlocks);
        return b;
    };

    private static final SharesPrefix LEAKS_WHEN_REFUSED = (a, sharedBlocks, ownBlocks, pool, owner) -> {
        int[] shared = Arrays.copyOf(a.blocks(), sharedBlocks);
        pool.retain(shared, owner);
        BareTable b = new BareTable(pool, owner);
        b.enter(shared);
        b.allocate(ownBlocks);
        return b;
    };

    private final Pool pool = new BlockPool(8);
    private final BareTable a = new BareTable(pool, "A");

    @Test
    void n16TheArticlesSharingLosesThreeBlocks() { // N16
        a.allocate(5);
        BareTable b = new ArticlesSharing().share(a, 3, 1, pool, "B");
        assertEquals(6, pool.numBlocks() - pool.numFreeBlocks());
        assertEquals(1, b.blocks().length);
        a.close();
        b.close();
        assertEquals(5, pool.numFreeBlocks());
    }

    @Test
    void n16ARightAnswerReadsItsPrefixAndLosesNothing() { // N16
        a.allocate(5);
        BareTable b = RIGHT.share(a, 3, 1, pool, "B");
        assertArrayEquals(Arrays.copyOf(a.blocks(), 3), Arrays.copyOf(b.blocks(), 3));
        assertEquals(4, b.blocks().length);
        assertEquals(2, pool.numFreeBlocks());
        a.close();
        assertEquals(1, pool.refcount(b.blocks()[0]));
        b.close();
        assertEquals(8, pool.numFreeBlocks());
    }

    @Test
    void enteredAndNotCountedIsReleasedTwice() {
        a.allocate(5);
        BareTable b = ENTERS_ONLY.share(a, 3, 1, pool, "B");
        a.close();
        assertThrows(DoubleFreeException.class, b::close);
    }

    @Test
    void aRefusalLeavesTheCountsOnlyIfTheAnswerSeesToIt() {
        a.allocate(5);
        assertThrows(OutOfBlocksException.class, () -> RIGHT.share(a, 3, 4, pool, "B"));
        assertEquals(1, pool.refcount(a.blocks()[0]));
        assertThrows(OutOfBlocksException.class, () -> LEAKS_WHEN_REFUSED.share(a, 3, 4, pool, "B"));
        assertEquals(2, pool.refcount(a.blocks()[0]));
    }

    @Test
    void aBareTableReleasesWhatItHasNotedOnce() {
        a.allocate(2);
        a.allocate(1);
        assertEquals(3, a.blocks().length);
        assertEquals("A", a.owner());
        a.close();
        a.close();
        assertEquals(8, pool.numFreeBlocks());
    }
}
