package pagedkv.experiments;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.OptionalInt;
import org.junit.jupiter.api.Test;

class ContiguousAllocatorTest {

    private final ContiguousAllocator memory = new ContiguousAllocator(10);

    @Test
    void aRequestGoesToTheFirstRunThatIsLongEnough() {
        memory.allocate("A", 2);
        memory.allocate("B", 3);
        memory.allocate("C", 1);
        memory.free("A");
        assertEquals(OptionalInt.of(6), memory.allocate("D", 3));
        assertEquals(OptionalInt.of(0), memory.allocate("E", 1));
        assertEquals("E.BBBCDDD.", memory.layout());
    }

    @Test
    void aRequestLongerThanEveryRunFindsNoPlace() {
        memory.allocate("A", 4);
        memory.allocate("B", 2);
        memory.free("A");
        assertEquals(8, memory.numFreeBlocks());
        assertEquals(4, memory.largestFreeRun());
        assertEquals(OptionalInt.empty(), memory.allocate("C", 5));
        assertEquals("....BB....", memory.layout());
    }

    @Test
    void neighbouringFreeRunsAreOneRun() {
        memory.allocate("A", 5);
        memory.allocate("B", 5);
        memory.free("A");
        memory.free("B");
        assertEquals(10, memory.largestFreeRun());
    }

    @Test
    void anOwnerHasOneRun() {
        memory.allocate("A", 1);
        assertThrows(IllegalArgumentException.class, () -> memory.allocate("A", 1));
        assertThrows(IllegalArgumentException.class, () -> memory.allocate(null, 1));
        assertThrows(IllegalArgumentException.class, () -> memory.allocate("", 1));
    }

    @Test
    void onlyAnOwnerCanBeFreed() {
        assertThrows(IllegalArgumentException.class, () -> memory.free("A"));
        assertThrows(IllegalArgumentException.class, () -> memory.free(null));
    }

    @Test
    void sizesAreAtLeastOne() {
        assertThrows(IllegalArgumentException.class, () -> new ContiguousAllocator(0));
        assertThrows(IllegalArgumentException.class, () -> memory.allocate("A", 0));
    }
}
