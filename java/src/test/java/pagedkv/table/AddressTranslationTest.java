package pagedkv.table;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Map;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import pagedkv.article.BlockTableDemo;
import pagedkv.pool.BlockPool;
import pagedkv.pool.BlockTable;

class AddressTranslationTest {

    private static final int[] TABLE = {9, 4, 7};

    @Test
    void aPositionIsDividedIntoBlockAndOffset() {
        assertEquals(2, AddressTranslation.logicalBlock(37, 16));
        assertEquals(5, AddressTranslation.offset(37, 16));
        assertEquals(117, AddressTranslation.slot(TABLE, 37, 16));
        assertEquals(9 * 16, AddressTranslation.slot(TABLE, 0, 16));
        assertEquals(7 * 16 + 15, AddressTranslation.slot(TABLE, 47, 16));
    }

    @Test
    void aBlockSizeNeedNotBeAPowerOfTwo() {
        assertEquals(2, AddressTranslation.logicalBlock(37, 17));
        assertEquals(3, AddressTranslation.offset(37, 17));
    }

    @Test
    void b7WhatJavaMakesOfANegativePosition() { // B7
        Map<String, Long> values = AddressTranslation.traps().stream()
                .collect(Collectors.toMap(AddressTranslation.Trap::expression, AddressTranslation.Trap::value));
        assertEquals(0, values.get("-1 / 16"));
        assertEquals(-1, values.get("-1 >> 4"));
        assertEquals(-1, values.get("Math.floorDiv(-1, 16)"));
        assertEquals(0, values.get("(int) (-1 / 16.0)"));
        assertEquals(-1, values.get("-1 % 16"));
        assertEquals(15, values.get("-1 & 15"));
        assertEquals(15, values.get("Math.floorMod(-1, 16)"));
    }

    @Test
    void b7ADoubleIsWrongOnlyBeyond2To53() { // B7
        var traps = AddressTranslation.traps();
        long right = traps.get(traps.size() - 2).value();
        assertEquals(1L << 49, right);
        assertEquals(right + 1, traps.get(traps.size() - 1).value());
        for (int position = 0; position < 100_000; position++) {
            assertEquals(position / 16, (int) (position / 16.0));
        }
        assertEquals(Integer.MAX_VALUE / 16, (int) (Integer.MAX_VALUE / 16.0));
    }

    @Test
    void b7ANegativePositionIsRefused() { // B7
        var refused = assertThrows(IndexOutOfBoundsException.class, () -> AddressTranslation.slot(TABLE, -1, 16));
        assertEquals("no token at position -1: positions begin at 0", refused.getMessage());
        assertThrows(IndexOutOfBoundsException.class, () -> AddressTranslation.logicalBlock(-16, 16));
        assertThrows(IndexOutOfBoundsException.class, () -> AddressTranslation.offset(Integer.MIN_VALUE, 16));
    }

    @Test
    void uncheckedANegativePositionReachesIntoAnotherBlock() { // B7
        long slot = AddressTranslation.uncheckedSlot(TABLE, -1, 16);
        assertEquals(8 * 16 + 15, slot);
        for (int block : TABLE) {
            assertNotEquals(block, slot / 16);
        }
    }

    @Test
    void aPositionBehindTheTableIsRefused() {
        var refused = assertThrows(IndexOutOfBoundsException.class, () -> AddressTranslation.slot(TABLE, 48, 16));
        assertEquals("position 48 lies in logical block 3: the table has 3", refused.getMessage());
    }

    @Test
    void aBlockHoldsAtLeastOneToken() {
        assertThrows(IllegalArgumentException.class, () -> AddressTranslation.logicalBlock(5, 0));
    }

    @Test
    void aSlotMayBeLargerThanAnInt() {
        assertEquals(200_000_000L * 16 + 3, AddressTranslation.slot(new int[] {200_000_000}, 3, 16));
    }

    @Test
    void n8ABlockIsTakenOnlyWhenTheLastOneIsFullAndEveryTokenIsFound() { // N8
        var pool = new BlockPool(8);
        try (var table = new BlockTable(pool, 4, "A")) {
            for (int position = 0; position < 13; position++) {
                long slot = table.appendToken();
                assertEquals(AddressTranslation.logicalBlock(position, 4) + 1, table.blocks().length);
                assertEquals(AddressTranslation.slot(table.blocks(), position, 4), slot);
            }
        }
    }

    @Test
    void n14LogicalBlock2IsPhysicalBlock1021() { // N14
        int[] table = BlockTableDemo.run().table();
        assertEquals(1021 * 16 + 5, AddressTranslation.slot(table, 37, 16));
    }

    @Test
    void s5OrderIsLogicalAndPlaceIsNot() { // S5
        var pool = new BlockPool(8);
        var a = new BlockTable(pool, 1, "A");
        var b = new BlockTable(pool, 1, "B");
        for (int token = 0; token < 3; token++) {
            a.appendToken();
            b.appendToken();
        }
        int neighbours = 0;
        for (int i = 1; i < 3; i++) {
            neighbours += Math.abs(a.physicalBlock(i) - a.physicalBlock(i - 1)) == 1 ? 1 : 0;
        }
        assertEquals(0, neighbours);
        assertTrue(a.slotOf(0) != b.slotOf(0));
    }
}
