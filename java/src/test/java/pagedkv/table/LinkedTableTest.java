package pagedkv.table;

import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class LinkedTableTest extends TableStoreContract {

    @Override
    protected TableStore newStore() {
        return new LinkedTable();
    }

    @Test
    void b6ANodeTakes24BytesForABlock() { // B6
        var one = new LinkedTable();
        one.append(1, 0);
        var three = new LinkedTable();
        three.append(1, 0);
        three.append(1, 1);
        three.append(1, 2);
        assertEquals(2 * 24, three.numBytes() - one.numBytes());
        assertEquals(16 + 24 + (16 + 8 * 16) + (16 + 4 * 16) + 24 + 24, one.numBytes());
    }
}
