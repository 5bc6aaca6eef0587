package pagedkv.exercise;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import org.junit.jupiter.api.Test;
import pagedkv.table.AddressTranslation;

/** That the cases which an exercise asks about part the right answer from the likely wrong ones. */
class TranslatesAddressTest {

    private static final TranslatesAddress RIGHT = AddressTranslation::slot;
    private static final TranslatesAddress UNCHECKED = AddressTranslation::uncheckedSlot;
    private static final TranslatesAddress CHECKS_THE_QUOTIENT = (table, position, size) -> {
        int logicalBlock = position / size;
        if (logicalBlock < 0 || logicalBlock >= table.length) {
            throw new IndexOutOfBoundsException();
        }
        return (long) table[logicalBlock] * size + position % size;
    };
    private static final TranslatesAddress IN_INTS = (table, position, size) -> table[position / size] * size
            + position % size;

    private final int[] table = {9, 4, 7};

    @Test
    void b7OnlyAPositionThatIsCheckedItselfIsRefused() { // B7
        assertThrows(IndexOutOfBoundsException.class, () -> RIGHT.slot(table, -1, 16));
        assertEquals(143, UNCHECKED.slot(table, -1, 16));
        assertEquals(143, CHECKS_THE_QUOTIENT.slot(table, -1, 16)); // -1 / 16 is 0
        assertThrows(IndexOutOfBoundsException.class, () -> UNCHECKED.slot(table, -16, 16)); // -16 / 16 is -1
    }

    @Test
    void anIntIsTooSmallForALargePool() {
        int[] far = {200_000_000};
        assertEquals(3_200_000_003L, RIGHT.slot(far, 3, 16));
        assertEquals(-1_094_967_293L, IN_INTS.slot(far, 3, 16));
    }
}
