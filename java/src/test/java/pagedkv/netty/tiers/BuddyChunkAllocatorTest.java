package pagedkv.netty.tiers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.List;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import pagedkv.memory.OutOfDeviceMemoryException;
import pagedkv.memory.Piece;
import pagedkv.memory.Segment;

class BuddyChunkAllocatorTest {

    private final BuddyChunkAllocator allocator = new BuddyChunkAllocator(25, 1, 3);

    @Test
    void aRequestGetsARunOfPagesOfAPowerOfTwo() {
        allocator.allocate("A", 1);
        allocator.allocate("B", 3);
        allocator.allocate("C", 2);
        assertEquals(List.of(new Piece(0, 1, "A", 1, false), new Piece(2, 2, "C", 2, false),
                new Piece(4, 4, "B", 3, false)), allocator.layout().pieces());
    }

    @Test
    void theFirstChunkIsAskedFirstAndNoneIsGivenBack() {
        var a = allocator.allocate("A", 8);
        allocator.allocate("B", 5);
        allocator.free(a);
        allocator.allocate("C", 1);
        assertEquals(List.of(new Segment(0, 8, "chunk"), new Segment(8, 8, "chunk")), allocator.layout().segments());
        assertEquals(0, allocator.layout().pieces().get(0).address());
    }

    @Test
    void theCapacityIsCountedInWholeChunks() {
        for (int i = 0; i < 3; i++) {
            allocator.allocate("c" + i, 8);
        }
        assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate("one", 1));
        assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate("more than a chunk", 9));
        assertEquals(3, allocator.trees().size());
    }

    /** N10: enough is free in total, and no run is long enough. */
    @Test
    void n10FreePagesThatAreNoBuddiesServeNoLargerRequest() {
        var one = new BuddyChunkAllocator(8, 1, 3);
        var handles = IntStream.range(0, 8).mapToObj(i -> one.allocate("p" + i, 1)).toList();
        for (int page : new int[] {1, 2, 5, 6}) { // 1 and 2 are neighbours, but not buddies
            one.free(handles.get(page));
        }
        assertEquals(4, one.layout().usedBytes());
        assertThrows(OutOfDeviceMemoryException.class, () -> one.allocate("two", 2));
        one.free(handles.get(4));
        one.allocate("two", 2); // 4 and 5 are
        assertEquals(5, one.layout().usedBytes());
    }

    @Test
    void sizesThatCannotBe() {
        assertThrows(IllegalArgumentException.class, () -> new BuddyChunkAllocator(8, 3, 3));
        assertThrows(IllegalArgumentException.class, () -> new BuddyChunkAllocator(8, 1, 15));
        assertThrows(IllegalArgumentException.class, () -> new BuddyChunkAllocator(0, 1, 3));
    }
}
