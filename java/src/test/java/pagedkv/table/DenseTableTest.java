package pagedkv.table;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class DenseTableTest extends TableStoreContract {

    @Override
    protected TableStore newStore() {
        return new DenseTable(400, 64);
    }

    @Test
    void b6TheArticlesDenseTableIs65536RowsOf1024Columns() { // B6
        assertEquals(256L << 20, DenseTable.cellBytes(65_536, 1_024));
    }

    @Test
    void b6ItTakesTheSameEmptyAndFull() { // B6
        var table = new DenseTable(4, 3);
        long empty = table.numBytes();
        table.append(2, 9);
        assertEquals(empty, table.numBytes());
        assertEquals(32 + (16 + 4 * 12) + (16 + 4 * 4), empty);
    }

    @Test
    void anIdIsTheNumberOfARow() {
        var table = new DenseTable(4, 3);
        var refused = assertThrows(IllegalArgumentException.class, () -> table.append(4, 9));
        assertEquals("no row for sequence 4: a dense table of 4 rows takes ids 0 to 3", refused.getMessage());
        assertThrows(IllegalArgumentException.class, () -> table.append(-1, 9));
    }

    @Test
    void aRowIsOnlySoWide() {
        var table = new DenseTable(2, 2);
        table.append(0, 5);
        table.append(0, 6);
        var refused = assertThrows(IllegalStateException.class, () -> table.append(0, 7));
        assertEquals("sequence 0 has 2 blocks already: the table is not wider", refused.getMessage());
        table.append(1, 8);
        assertEquals(6, table.lookup(0, 1));
        assertEquals(8, table.lookup(1, 0));
    }

    @Test
    void aTableThatNoArrayCanHoldIsRefused() {
        assertThrows(ArithmeticException.class, () -> new DenseTable(65_536, 65_536));
        assertThrows(IllegalArgumentException.class, () -> new DenseTable(0, 4));
    }
}
