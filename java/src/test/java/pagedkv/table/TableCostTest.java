package pagedkv.table;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;

class TableCostTest {

    @Test
    void b6EveryStoreIsMeasured() { // B6
        var result = TableCost.measure(500, 5, 64);
        assertEquals(List.of("two-level", "linked", "dense"),
                result.rows().stream().map(TableCost.Row::store).toList());
        for (var row : result.rows()) {
            for (var nanos : List.of(row.append(), row.lookup())) {
                assertTrue(nanos.lowest() > 0 && nanos.lowest() <= nanos.median() && nanos.median() <= nanos.highest());
            }
        }
        assertEquals(filled(500, 5).numBytes(), result.row("two-level").bytes());
        assertEquals(new DenseTable(500, 64).numBytes(), result.row("dense").bytes());
        assertTrue(result.row("two-level").bytes() < result.row("linked").bytes());
        assertTrue(result.row("linked").bytes() < result.row("dense").bytes());
    }

    @Test
    void b6ALongChainIsManyTimesSlower() { // B6: the article's 47 depends on the length; half the chain is walked
        var result = TableCost.measure(4, 2_048, 2_048);
        double factor = result.row("linked").lookup().median() / result.row("two-level").lookup().median();
        assertTrue(factor > 10, () -> "factor " + factor);
    }

    @Test
    void theTableNamesEveryStore() {
        String text = TableCost.measure(20, 3, 8).toString();
        assertTrue(text.startsWith("20 sequences × 3 blocks; the contents alone: 400 bytes"), text);
        assertEquals(5, text.lines().count());
    }

    @Test
    void aStoreOfYourOwnIsMeasuredToo() {
        Map<String, Supplier<TableStore>> stores = Map.of("mine", Own::new);
        var result = TableCost.measure(20, 3, stores);
        assertEquals(-1, result.row("mine").bytes());
        assertTrue(result.toString().contains("not told"));
    }

    @Test
    void aStoreThatAnswersWronglyIsFound() {
        Map<String, Supplier<TableStore>> stores = Map.of("wrong", () -> new Own() {
            @Override
            public int lookup(long sequence, int logicalBlock) {
                return super.lookup(sequence, 0);
            }
        });
        assertThrows(IllegalStateException.class, () -> TableCost.measure(20, 3, stores));
    }

    @Test
    void somethingHasToBeMeasured() {
        assertThrows(IllegalArgumentException.class, () -> TableCost.measure(0, 3, 8));
        assertThrows(IllegalArgumentException.class, () -> TableCost.measure(20, 3, 8).row("none"));
    }

    private static TwoLevelTable filled(int numSequences, int blocks) {
        var store = new TwoLevelTable();
        for (int sequence = 0; sequence < numSequences; sequence++) {
            for (int block = 0; block < blocks; block++) {
                store.append(sequence, block);
            }
        }
        return store;
    }

    /** As a learner may write it. */
    private static class Own implements TableStore {

        private final Map<Long, ArrayList<Integer>> tables = new HashMap<>();

        @Override
        public void append(long sequence, int physicalBlock) {
            tables.computeIfAbsent(sequence, id -> new ArrayList<>()).add(physicalBlock);
        }

        @Override
        public int lookup(long sequence, int logicalBlock) {
            if (!tables.containsKey(sequence)) {
                throw new NoSuchElementException();
            }
            return tables.get(sequence).get(logicalBlock);
        }

        @Override
        public int[] remove(long sequence) {
            return tables.remove(sequence).stream().mapToInt(Integer::intValue).toArray();
        }
    }
}
