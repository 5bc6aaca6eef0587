package pagedkv.sharing;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import pagedkv.pool.BlockPool;
import pagedkv.pool.OutOfBlocksException;

class SharedSequenceTest {

    private final BlockPool pool = new BlockPool(8);
    private final TokenStore store = new TokenStore(8, 4);
    private final SharedSequence a = new SharedSequence(pool, store, "A");

    @Test
    void tokensAreReadBackInOrder() {
        append(a, 1, 9);
        assertArrayEquals(IntStream.rangeClosed(1, 9).toArray(), a.tokens());
        assertEquals(3, a.blocks().length);
        assertArrayEquals(new int[] {9, TokenStore.EMPTY, TokenStore.EMPTY, TokenStore.EMPTY},
                store.contents(a.blocks()[2]));
    }

    @Test
    void aForkSharesEveryBlockThePartlyFilledTailToo() {
        append(a, 1, 6);
        var b = a.fork("B");
        assertArrayEquals(a.blocks(), b.blocks());
        assertArrayEquals(a.tokens(), b.tokens());
        assertEquals(6, pool.numFreeBlocks());
        assertEquals(0, store.numCopies());
    }

    @Test
    void s11AnEntryIsBlockCountAndFlags() { // S11
        append(a, 1, 6);
        int[] blocks = a.blocks();
        assertEquals(List.of(new TableEntry(blocks[0], 1, true, false), new TableEntry(blocks[1], 1, true, false)),
                a.entries());
        var b = a.fork("B");
        assertEquals(List.of(new TableEntry(blocks[0], 2, true, true), new TableEntry(blocks[1], 2, true, true)),
                a.entries());
        assertEquals(List.of(new TableEntry(blocks[0], 2, false, true), new TableEntry(blocks[1], 2, false, true)),
                b.entries());
        b.append(8);
        assertEquals(new TableEntry(blocks[0], 2, false, true), b.entries().get(0));
        assertEquals(new TableEntry(b.blocks()[1], 1, true, false), b.entries().get(1));
        assertEquals(new TableEntry(blocks[1], 1, true, false), a.entries().get(1));
    }

    @Test
    void s11TheFirstWriteToASharedBlockCopiesItAndTheLastReaderNeedsNoCopy() { // S11
        append(a, 1, 6);
        var b = a.fork("B");
        b.append(8);
        assertEquals(1, store.numCopies());
        assertNotEquals(a.blocks()[1], b.blocks()[1]);
        a.append(7);
        b.append(9);
        assertEquals(1, store.numCopies());
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, 6, 7}, a.tokens());
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, 6, 8, 9}, b.tokens());
        assertEquals(2, pool.refcount(a.blocks()[0]));
    }

    @Test
    void afterAFullTailNothingIsCopied() {
        append(a, 1, 4);
        var b = a.fork("B");
        a.append(5);
        b.append(6);
        assertEquals(0, store.numCopies());
        assertEquals(a.blocks()[0], b.blocks()[0]);
        assertNotEquals(a.blocks()[1], b.blocks()[1]);
    }

    @Test
    void threeForksNeedTwoCopies() {
        append(a, 1, 6);
        var b = a.fork("B");
        var c = b.fork("C");
        assertEquals(3, pool.refcount(a.blocks()[1]));
        a.append(7);
        b.append(8);
        c.append(9);
        assertEquals(2, store.numCopies());
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, 6, 9}, c.tokens());
    }

    @Test
    void aCopyThatFindsNoBlockChangesNothing() {
        append(a, 1, 6);
        var b = a.fork("B");
        pool.allocate(6);
        int[] before = b.blocks();
        assertThrows(OutOfBlocksException.class, () -> b.append(8));
        assertArrayEquals(before, b.blocks());
        assertEquals(6, b.numTokens());
        assertEquals(2, pool.refcount(before[1]));
        a.close();
        b.append(8); // alone now: no copy is needed
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, 6, 8}, b.tokens());
    }

    @Test
    void aNewBlockThatIsNotThereChangesNothing() {
        append(a, 1, 4);
        pool.allocate(7);
        assertThrows(OutOfBlocksException.class, () -> a.append(5));
        assertEquals(4, a.numTokens());
        assertEquals(1, a.entries().size());
    }

    @Test
    void closeGivesEverythingBackOnceInAnyOrder() {
        append(a, 1, 6);
        var b = a.fork("B");
        b.append(8);
        a.close();
        a.close();
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, 6, 8}, b.tokens());
        b.close();
        assertEquals(8, pool.numFreeBlocks());
        assertThrows(IllegalStateException.class, () -> a.append(1));
        assertThrows(IllegalStateException.class, () -> a.fork("C"));
        assertEquals(0, a.tokens().length);
    }

    @Test
    void randomForksAndAppendsNeverDisturbAnotherSequence() {
        var random = new Random(2);
        var bigPool = new BlockPool(256);
        var bigStore = new TokenStore(256, 4);
        List<SharedSequence> sequences = new ArrayList<>(List.of(new SharedSequence(bigPool, bigStore, "0")));
        List<List<Integer>> expected = new ArrayList<>(List.of(new ArrayList<>()));
        for (int step = 0; step < 3_000; step++) {
            int i = random.nextInt(sequences.size());
            int what = random.nextInt(10);
            if (what == 0 && sequences.size() < 12) {
                sequences.add(sequences.get(i).fork("fork " + step));
                expected.add(new ArrayList<>(expected.get(i)));
            } else if (what == 1 && sequences.size() > 1) {
                sequences.remove(i).close();
                expected.remove(i);
            } else if (expected.get(i).size() < 60) {
                sequences.get(i).append(step);
                expected.get(i).add(step);
            }
            for (int s = 0; s < sequences.size(); s++) {
                assertEquals(expected.get(s), IntStream.of(sequences.get(s).tokens()).boxed().toList());
            }
        }
        sequences.forEach(SharedSequence::close);
        assertEquals(256, bigPool.numFreeBlocks());
    }

    @Test
    void theStoreHasMemoryForThePool() {
        assertThrows(IllegalArgumentException.class, () -> new SharedSequence(new BlockPool(9), store, "A"));
        assertThrows(IllegalArgumentException.class, () -> new TokenStore(0, 4));
    }

    private static void append(SharedSequence sequence, int first, int last) {
        IntStream.rangeClosed(first, last).forEach(sequence::append);
    }
}
