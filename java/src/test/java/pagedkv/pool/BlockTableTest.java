package pagedkv.pool;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;

class BlockTableTest {

    private static final int BLOCK_SIZE_TOKENS = 4;

    private final BlockPool pool = new BlockPool(8);
    private final BlockTable table = new BlockTable(pool, BLOCK_SIZE_TOKENS, "A");

    @Test
    void aNewTableHoldsNothing() {
        assertEquals(0, table.numTokens());
        assertEquals(0, table.blocks().length);
        assertEquals(8, pool.numFreeBlocks());
    }

    @Test
    void aBlockIsTakenOnlyWhenTheLastOneIsFull() {
        append(table, 1);
        assertEquals(1, table.blocks().length);
        append(table, 3);
        assertEquals(1, table.blocks().length);
        append(table, 1);
        assertEquals(2, table.blocks().length);
        assertEquals(5, table.numTokens());
        assertEquals(6, pool.numFreeBlocks());
    }

    @Test
    void blocksAreTakenInTheNameOfTheOwner() {
        var log = new EventReplay();
        pool.setObserver(log);
        append(table, 4);
        assertEquals("A", log.only().owner());
    }

    @Test
    void aSlotIsPhysicalBlockTimesBlockSizePlusOffset() {
        pool.allocate(3);
        append(table, 7);
        for (int position = 0; position < 7; position++) {
            long block = table.physicalBlock(position / BLOCK_SIZE_TOKENS);
            assertEquals(block * BLOCK_SIZE_TOKENS + position % BLOCK_SIZE_TOKENS, table.slotOf(position));
        }
    }

    @Test
    void appendTokenGivesTheSlotOfTheNewToken() {
        for (int position = 0; position < 9; position++) {
            long slot = table.appendToken();
            assertEquals(table.slotOf(position), slot);
        }
    }

    @Test
    void aSlotMayBeLargerThanAnInt() {
        try (var wide = new BlockTable(new BlockPool(2), Integer.MAX_VALUE, "wide");
                var tail = new BlockTable(poolWhoseNextBlockIsOne(), Integer.MAX_VALUE, "tail")) {
            assertEquals(0L, wide.appendToken());
            assertEquals(2_147_483_647L, tail.appendToken());
        }
    }

    private static Pool poolWhoseNextBlockIsOne() {
        var pool = new BlockPool(2);
        var both = pool.allocate(2);
        pool.release(both[0] == 1 ? both[0] : both[1]);
        return pool;
    }

    @Test
    void aPositionOutsideTheSequenceIsRefused() {
        append(table, 5);
        var negative = assertThrows(IndexOutOfBoundsException.class, () -> table.slotOf(-1));
        assertEquals("no token at position -1: the sequence has 5", negative.getMessage());
        assertThrows(IndexOutOfBoundsException.class, () -> table.slotOf(5));
        assertThrows(IndexOutOfBoundsException.class, () -> table.slotOf(7));
    }

    @Test
    void aLogicalBlockOutsideTheTableIsRefused() {
        append(table, 5);
        assertThrows(IndexOutOfBoundsException.class, () -> table.physicalBlock(-1));
        var past = assertThrows(IndexOutOfBoundsException.class, () -> table.physicalBlock(2));
        assertEquals("no logical block 2: the table has 2", past.getMessage());
    }

    @Test
    void aFullPoolLeavesTheTableAsItWas() {
        append(table, 4);
        pool.allocate(7);
        assertThrows(OutOfBlocksException.class, table::appendToken);
        assertEquals(4, table.numTokens());
        assertEquals(1, table.blocks().length);
    }

    @Test
    void closeGivesEveryBlockBackOnce() {
        append(table, 9);
        table.close();
        table.close();
        assertEquals(8, pool.numFreeBlocks());
    }

    @Test
    void aClosedTableCannotGrowOrShare() {
        table.close();
        assertThrows(IllegalStateException.class, table::appendToken);
        assertThrows(IllegalStateException.class, () -> table.shareFullBlocks(0, "B"));
        assertThrows(IndexOutOfBoundsException.class, () -> table.slotOf(0));
    }

    @Test
    void sharedBlocksAreRetainedAndEntered() {
        append(table, 10);
        var shared = table.shareFullBlocks(2, "B");
        assertArrayEquals(new int[] {table.physicalBlock(0), table.physicalBlock(1)}, shared.blocks());
        assertEquals(8, shared.numTokens());
        assertEquals(2, pool.refcount(table.physicalBlock(0)));
        assertEquals(2, pool.refcount(table.physicalBlock(1)));
        assertEquals(1, pool.refcount(table.physicalBlock(2)));
        assertEquals(5, pool.numFreeBlocks());
    }

    @Test
    void aTableNeverWritesIntoASharedBlock() {
        append(table, 8);
        var shared = table.shareFullBlocks(2, "B");
        append(shared, 1);
        append(table, 1);
        assertEquals(1, pool.refcount(shared.physicalBlock(2)));
        assertEquals(1, pool.refcount(table.physicalBlock(2)));
    }

    @Test
    void sharedBlocksOutliveTheFirstTable() {
        append(table, 8);
        var shared = table.shareFullBlocks(1, "B");
        table.close();
        assertEquals(7, pool.numFreeBlocks());
        assertEquals(1, pool.refcount(shared.physicalBlock(0)));
        shared.close();
        assertEquals(8, pool.numFreeBlocks());
    }

    @Test
    void onlyFullBlocksAreShared() {
        append(table, 7);
        var error = assertThrows(IllegalArgumentException.class, () -> table.shareFullBlocks(2, "B"));
        assertEquals("cannot share 2 blocks: 1 are full", error.getMessage());
        assertThrows(IllegalArgumentException.class, () -> table.shareFullBlocks(-1, "B"));
        assertEquals(1, pool.refcount(table.physicalBlock(0)));
    }

    @Test
    void aBlockHoldsAtLeastOneToken() {
        assertThrows(IllegalArgumentException.class, () -> new BlockTable(pool, 0, "A"));
    }

    private static void append(BlockTable table, int numTokens) {
        for (int token = 0; token < numTokens; token++) {
            table.appendToken();
        }
    }
}
