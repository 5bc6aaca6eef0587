package pagedkv.table;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import org.junit.jupiter.api.Test;

class TwoLevelTableTest extends TableStoreContract {

    @Override
    protected TableStore newStore() {
        return new TwoLevelTable();
    }

    @Test
    void b6BytesAreTheArraysTheIdsAndTheHeaders() { // B6
        var store = filled(new TwoLevelTable(), 100_000, 5);
        long places = 262_144; // 2^18: with 100,000 ids 2^17 places would be more than three quarters full
        long hashTable = 24 + (16 + 8 * places) + (16 + 4 * places);
        assertEquals(16 + hashTable + 100_000 * 40L, store.numBytes());
    }

    @Test
    void b6ArticleCountsTheContentsAlone() { // B6: 2.8 MB are 100,000 × (5 × 4 + 8) bytes
        var contents = new TableCost.Result(100_000, 5, List.of()).contentBytes();
        assertEquals(2_800_000, contents);
        double factor = (double) filled(new TwoLevelTable(), 100_000, 5).numBytes() / contents;
        assertTrue(factor > 2.4 && factor < 2.7, () -> "factor " + factor);
    }

    @Test
    void theHashTableDoublesWhenMoreThanThreeQuartersWouldBeTaken() {
        long full = filled(new TwoLevelTable(), 12, 1).numBytes();
        assertEquals(16 + 24 + (16 + 8 * 16) + (16 + 4 * 16) + 12 * 24, full);
        assertEquals(full + 24 + 16 * (8 + 4), filled(new TwoLevelTable(), 13, 1).numBytes());
    }

    @Test
    void manySequencesWithIdsFarApartAreFound() {
        var store = new TwoLevelTable();
        for (long id = 0; id < 5_000; id++) {
            store.append(id << 40, (int) id);
            store.append(-id - 1, (int) -id);
        }
        for (long id = 0; id < 5_000; id++) {
            assertEquals((int) id, store.lookup(id << 40, 0));
            assertEquals((int) -id, store.lookup(-id - 1, 0));
        }
    }

    private static TwoLevelTable filled(TwoLevelTable store, int numSequences, int blocks) {
        for (int sequence = 0; sequence < numSequences; sequence++) {
            for (int block = 0; block < blocks; block++) {
                store.append(sequence, block);
            }
        }
        return store;
    }
}
