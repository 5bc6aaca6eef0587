package pagedkv.table;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.Random;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What every store promises. */
abstract class TableStoreContract {

    /** Room for ids 0 to 399 with 64 blocks each. */
    protected abstract TableStore newStore();

    private TableStore store;

    @BeforeEach
    void makeStore() {
        store = newStore();
    }

    @Test
    void blocksAreFoundInTheOrderInWhichTheyCame() {
        append(7, 9, 4, 7);
        append(3, 2, 8);
        assertEquals(9, store.lookup(7, 0));
        assertEquals(4, store.lookup(7, 1));
        assertEquals(7, store.lookup(7, 2));
        assertEquals(8, store.lookup(3, 1));
    }

    @Test
    void aLogicalBlockThatIsNotThereIsRefused() {
        append(7, 9, 4);
        var refused = assertThrows(IndexOutOfBoundsException.class, () -> store.lookup(7, 2));
        assertEquals("no logical block 2: sequence 7 has 2", refused.getMessage());
        assertThrows(IndexOutOfBoundsException.class, () -> store.lookup(7, -1));
    }

    @Test
    void aSequenceThatIsNotThereIsRefused() {
        append(7, 9);
        assertThrows(NoSuchElementException.class, () -> store.lookup(8, 0));
        assertThrows(NoSuchElementException.class, () -> store.remove(8));
        assertThrows(NoSuchElementException.class, () -> store.lookup(-1, 0));
        assertThrows(NoSuchElementException.class, () -> store.lookup(1L << 40, 0));
    }

    @Test
    void removeReturnsTheBlocksAndForgetsThem() {
        append(7, 9, 4, 7);
        append(3, 2);
        assertArrayEquals(new int[] {9, 4, 7}, store.remove(7));
        assertThrows(NoSuchElementException.class, () -> store.lookup(7, 0));
        assertThrows(NoSuchElementException.class, () -> store.remove(7));
        assertEquals(2, store.lookup(3, 0));
    }

    @Test
    void anIdMayComeAgain() {
        append(7, 9, 4);
        store.remove(7);
        append(7, 5);
        assertArrayEquals(new int[] {5}, store.remove(7));
    }

    @Test
    void randomCallsAgreeWithAMapOfLists() {
        var random = new Random(5);
        Map<Integer, List<Integer>> model = new HashMap<>();
        for (int call = 0; call < 20_000; call++) {
            int sequence = random.nextInt(400);
            List<Integer> blocks = model.get(sequence);
            int what = random.nextInt(20);
            if (blocks == null || what < 12 && blocks.size() < 64) {
                int block = random.nextInt(1_000_000);
                store.append(sequence, block);
                model.computeIfAbsent(sequence, id -> new ArrayList<>()).add(block);
            } else if (what < 19) {
                int logicalBlock = random.nextInt(blocks.size());
                assertEquals(blocks.get(logicalBlock), store.lookup(sequence, logicalBlock));
            } else {
                int[] expected = model.remove(sequence).stream().mapToInt(Integer::intValue).toArray();
                assertArrayEquals(expected, store.remove(sequence));
            }
        }
        model.forEach((sequence, blocks) -> {
            for (int i = 0; i < blocks.size(); i++) {
                assertEquals(blocks.get(i), store.lookup(sequence, i));
            }
        });
    }

    protected final void append(long sequence, int... blocks) {
        for (int block : blocks) {
            store.append(sequence, block);
        }
    }
}
