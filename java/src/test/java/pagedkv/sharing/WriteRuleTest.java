package pagedkv.sharing;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import pagedkv.pool.BlockPool;
import pagedkv.pool.OutOfBlocksException;

/** That a sequence, its pool and its store tell a right rule from the wrong ones. */
class WriteRuleTest {

    private static final WriteRule ALWAYS_COPIES = (block, pool, store, owner) -> {
        int copy = pool.allocate(1, owner)[0];
        store.copyBlock(block, copy);
        pool.release(new int[] {block}, owner);
        return copy;
    };

    private static final WriteRule FORGETS_ITS_REFERENCE = (block, pool, store, owner) -> {
        if (pool.refcount(block) == 1) {
            return block;
        }
        int copy = pool.allocate(1, owner)[0];
        store.copyBlock(block, copy);
        return copy;
    };

    private static final WriteRule RELEASES_FIRST = (block, pool, store, owner) -> {
        if (pool.refcount(block) == 1) {
            return block;
        }
        pool.release(new int[] {block}, owner);
        int copy = pool.allocate(1, owner)[0];
        store.copyBlock(block, copy);
        return copy;
    };

    @Test
    void aBlockOfOnesOwnIsNotCopied() {
        assertEquals(0, copiesOfAlone(new CopyOnWrite()));
        assertEquals(1, copiesOfAlone(ALWAYS_COPIES));
    }

    @Test
    void theReferenceToTheOldBlockIsGivenUp() {
        assertEquals(8, ForkDemo.run(new CopyOnWrite()).freeAfterClose());
        assertEquals(7, ForkDemo.run(FORGETS_ITS_REFERENCE).freeAfterClose());
    }

    @Test
    void aRefusalChangesNoCount() {
        assertEquals(2, countAfterARefusal(new CopyOnWrite()));
        assertEquals(1, countAfterARefusal(RELEASES_FIRST));
    }

    @Test
    void onlyTheRuleThatNeverCopiesOverwrites() {
        int[] expected = {1, 2, 3, 4, 5, 6, 7};
        for (WriteRule rule : new WriteRule[] {new CopyOnWrite(), ALWAYS_COPIES, FORGETS_ITS_REFERENCE}) {
            assertArrayEquals(expected, ForkDemo.run(rule).tokensOfA());
        }
    }

    private static int copiesOfAlone(WriteRule rule) {
        var store = new TokenStore(8, 4);
        var a = new SharedSequence(new BlockPool(8), store, rule, "A");
        IntStream.range(0, 2).forEach(a::append);
        return store.numCopies();
    }

    private static int countAfterARefusal(WriteRule rule) {
        var pool = new BlockPool(1);
        var a = new SharedSequence(pool, new TokenStore(1, 4), rule, "A");
        a.append(1);
        var b = a.fork("B");
        assertThrows(OutOfBlocksException.class, () -> b.append(2));
        return pool.refcount(a.blocks()[0]);
    }
}
