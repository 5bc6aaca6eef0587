package pagedkv.netty.tiers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import pagedkv.memory.Change;
import pagedkv.memory.Decision;
import pagedkv.memory.Look;
import pagedkv.memory.MemoryEvent;
import pagedkv.memory.MemoryHandle;
import pagedkv.memory.OutOfDeviceMemoryException;
import pagedkv.memory.Piece;

/** Arena, chunks, chunk lists and subpages, without thread caches. */
class ArenaTest {

    private static final int PAGE = 8192;

    /** Chunks of 16 pages. */
    private final NettyAllocator allocator = new NettyAllocator(16L * 16 * PAGE,
            Settings.DEFAULT.withoutCache().withChunk(PAGE, 4));
    private final Arena arena = allocator.arenas().get(0);
    private final List<MemoryEvent> events = new ArrayList<>();

    @Test
    void n3ChunksPagesAndAddresses() {
        var whole = NettyAllocator.arenaOnly(64L << 20);
        whole.allocate("A", 1 << 20);
        assertEquals(16 << 20, whole.arenas().get(0).chunks().get(0).chunkBytes());
        whole.allocate("B", 16 << 20); // exactly a chunk is still pooled
        whole.allocate("C", 8192);
        assertEquals(List.of(0L, 1L << 20, 16L << 20), whole.layout().pieces().stream().map(Piece::address).toList());
    }

    @Test
    void n3MoreThanAChunkIsHugeAndInNoPool() {
        var huge = allocator.allocate("H", 16 * PAGE + 1);
        assertEquals(List.of(new Piece(16L * 16 * PAGE, 16 * PAGE + 1, "H", 16 * PAGE + 1, false)),
                allocator.layout().pieces());
        assertEquals("huge", allocator.layout().segments().get(0).label());
        assertEquals(0, arena.metrics().numActiveChunks());
        assertEquals(16 * PAGE + 1, arena.metrics().numActiveBytes());
        allocator.free(huge);
        assertEquals(List.of(), allocator.layout().segments());
    }

    @Test
    void hugePiecesLieInTheFirstGapBehindThePlacesForChunks() {
        var handles = IntStream.range(0, 3).mapToObj(i -> allocator.allocate("H" + i, 20 * PAGE + 100)).toList();
        allocator.free(handles.get(1));
        allocator.allocate("larger", 22 * PAGE);
        allocator.allocate("smaller", 18 * PAGE);
        long base = 16L * 16 * PAGE;
        assertEquals(List.of("H0", "smaller", "H2", "larger"),
                allocator.layout().pieces().stream().map(Piece::owner).toList());
        assertEquals(base + 21 * PAGE, allocator.layout().pieces().get(1).address());
    }

    @Test
    void n3ElementsOfAPageTheOneFreedLastComesFirst() {
        var handles = new ArrayList<MemoryHandle>();
        for (int i = 0; i < 8; i++) {
            handles.add(allocator.allocate("e" + i, 1000));
        }
        assertEquals(IntStream.range(0, 8).mapToObj(i -> 1024L * i).toList(), addresses());
        allocator.free(handles.get(2));
        allocator.free(handles.get(5));
        assertEquals(5 * 1024, addressOf(allocator.allocate("again", 1024))); // the hint
        assertEquals(2 * 1024, addressOf(allocator.allocate("again 2", 1024))); // the lowest free bit
        assertEquals(PAGE, addressOf(allocator.allocate("next page", 1024))); // the first page is full
        var page = arena.chunks().get(0).subpages().values().stream()
                .filter(p -> p.numFree() == 0).findFirst().orElseThrow();
        assertEquals(0xffL, page.bitmap()[0]);
    }

    @Test
    void n3APageOf16ByteElementsHasABitmapOfEightLongs() {
        allocator.allocate("tiny", 1);
        var page = arena.chunks().get(0).subpages().values().iterator().next();
        assertEquals(512, page.numElements());
        assertEquals(8, page.bitmap().length);
        assertEquals(1, page.bitmap()[0]);
    }

    @Test
    void n3AnEmptyPageIsHandedBackOnlyIfAnotherOfItsSizeIsThere() {
        var first = allocator.allocate("A", 4096);
        var second = allocator.allocate("B", 4096); // the page is full and leaves the pool
        var third = allocator.allocate("C", 4096); // a second page
        assertEquals(14 * PAGE, arena.chunks().get(0).freeBytes());

        allocator.observe(events::add);
        allocator.free(third);
        assertEquals(14 * PAGE, arena.chunks().get(0).freeBytes()); // the only one in the pool: it stays
        assertTrue(notes(events.get(0)).contains("it stays, as the only one with free elements of its size"));
        allocator.free(first); // the full page comes back into the pool
        allocator.free(second); // and is empty, and the other one is there
        assertEquals(15 * PAGE, arena.chunks().get(0).freeBytes());
        assertTrue(notes(events.get(2)).contains("it is handed back"));
        assertEquals(1, arena.chunks().get(0).subpages().size());
    }

    @Test
    void n3ChunksMoveBetweenTheListsWithTheirUse() {
        var pages = new ArrayList<MemoryHandle>();
        var lists = new ArrayList<String>();
        for (int i = 0; i < 16; i++) {
            pages.add(allocator.allocate("p" + i, PAGE));
            lists.add(listOfOnlyChunk());
        }
        assertEquals(List.of("qInit", "qInit", "qInit", "q000", "q000", "q000", "q000", "q025", "q025", "q025", "q025",
                "q050", "q050", "q050", "q050", "q100"), lists);
        lists.clear();
        for (int i = 0; i < 16; i++) {
            allocator.free(pages.get(i));
            lists.add(listOfOnlyChunk());
        }
        // the ranges overlap: on the way down a chunk stays longer in each list
        assertEquals(List.of("q075", "q075", "q075", "q075", "q050", "q050", "q050", "q050",
                "q025", "q025", "q025", "q025", "q000", "q000", "q000", "destroyed"), lists);
    }

    @Test
    void n3AnEmptyChunkStaysInQInitAndIsDestroyedBelowQ000() {
        allocator.free(allocator.allocate("A", 3 * PAGE / 2)); // 2 of 16 pages: never a quarter
        assertEquals(1, arena.metrics().numActiveChunks());
        assertEquals(List.of(0), arena.metrics().usagePercent().get("qInit"));
        allocator.observe(events::add);
        allocator.free(allocator.allocate("B", 4 * PAGE)); // a quarter: q000, and out
        assertEquals(0, arena.metrics().numActiveChunks());
        assertEquals(List.of(Change.GIVE, Change.UNRESERVE), 
                events.get(1).changes().stream().map(Change::kind).toList());
    }

    @Test
    void n3TheHalfFullChunkIsAskedFirst() {
        var eleven = allocator.allocate("chunk 0", 8 * PAGE);
        allocator.allocate("chunk 0 too", 4 * PAGE); // chunk 0 is 75 % used, in q050
        allocator.allocate("chunk 1", 8 * PAGE);
        assertEquals(List.of(75), arena.metrics().usagePercent().get("q050"));
        assertEquals(List.of(50), arena.metrics().usagePercent().get("q025"));

        allocator.observe(events::add);
        allocator.allocate("page", PAGE);
        assertEquals(List.of("q050, chunk 0, node 1", "q050, chunk 0, node 2", "q050, chunk 0, node 3",
                "q050, chunk 0, node 6", "q050, chunk 0, node 7", "q050, chunk 0, node 14", "q050, chunk 0, node 28"),
                looks(events.get(0)).stream().map(Look::what).toList());
        allocator.allocate("eight pages", 8 * PAGE);
        assertEquals(new Look("q050, chunk 0, node 1", 0, 16 * PAGE, "no free run of this size below"),
                looks(events.get(1)).get(0));
        assertEquals("q025, chunk 1, node 1", looks(events.get(1)).get(1).what());
        allocator.free(eleven);
    }

    @Test
    void aListWhoseChunksAreTooFullIsNotSearched() {
        allocator.allocate("A", 12 * PAGE); // 16 pages after rounding: q100, which is never asked
        allocator.allocate("B", 8 * PAGE);
        var b2 = allocator.allocate("B2", 4 * PAGE); // q050
        allocator.observe(events::add);
        allocator.allocate("C", 16 * PAGE);
        assertEquals(new Look("q050", 0, 0, "its chunks have at most 65536 bytes free"), looks(events.get(0)).get(0));
        assertEquals(new Look("q025", 0, 0, "has no chunks"), looks(events.get(0)).get(1));
        assertEquals(Look.CHOSEN, looks(events.get(0)).get(looks(events.get(0)).size() - 1).verdict());
        allocator.free(b2);
    }

    @Test
    void theCapacityHoldsForChunksAndHugePiecesTogether() {
        var small = new NettyAllocator(48L * PAGE, Settings.DEFAULT.withoutCache().withChunk(PAGE, 4));
        small.allocate("A", 16 * PAGE);
        var huge = small.allocate("H", 17 * PAGE);
        var before = small.layout();
        var refusal = assertThrows(OutOfDeviceMemoryException.class, () -> small.allocate("B", PAGE));
        assertEquals("131072 bytes wanted for a new chunk, 122880 of 393216 are left on the device",
                refusal.getMessage());
        assertEquals(before, small.layout());
        small.free(huge);
        small.allocate("B", PAGE);
        assertThrows(IllegalArgumentException.class, () -> new NettyAllocator(15L * PAGE, small.settings()));
    }

    @Test
    void aFreedChunksPlaceIsTakenAgain() {
        var handles = IntStream.range(0, 3).mapToObj(i -> allocator.allocate("c" + i, 16 * PAGE)).toList();
        allocator.free(handles.get(1));
        assertEquals(16 * PAGE, addressOf(allocator.allocate("again", 10 * PAGE)));
    }

    @Test
    void growingStaysInThePieceWhileItCan() {
        var a = allocator.grow(allocator.allocate("A", 600), 1024);
        assertEquals(List.of(new Piece(0, 1024, "A", 1024, false)), allocator.layout().pieces());
        allocator.observe(events::add);
        allocator.grow(a, 1025);
        assertEquals(1024L, events.get(0).detail().get("moved_bytes"));
        assertEquals(List.of(new Piece(PAGE, 2048, "A", 1025, false)), allocator.layout().pieces());
        assertEquals(1, arena.metrics().deallocations().get(SizeClass.SMALL));
    }

    /** The ledger refuses overlaps; the chunks' own counts must agree with it, and all memory must come back. */
    @Test
    void randomCallsNeverOverlapAndGiveAllMemoryBack() {
        var random = new Random(48);
        var live = new HashMap<Integer, MemoryHandle>();
        for (int step = 0; step < 20_000; step++) {
            if (!live.isEmpty() && random.nextInt(100) < 47) {
                var victims = new ArrayList<>(live.keySet());
                allocator.free(live.remove(victims.get(random.nextInt(victims.size()))));
            } else {
                int size = 1 + random.nextInt(1 << random.nextInt(18));
                try {
                    live.put(step, allocator.allocate("b" + step, size));
                } catch (OutOfDeviceMemoryException full) {
                    var victims = new ArrayList<>(live.keySet());
                    for (int i = 0; i < victims.size() / 2; i++) {
                        allocator.free(live.remove(victims.get(i)));
                    }
                }
            }
        }
        live.values().forEach(allocator::free);
        assertEquals(List.of(), allocator.layout().pieces());
        // what is left are pages that stay as the last of their size, and chunks in qInit
        for (Chunk chunk : arena.chunks()) {
            assertEquals(chunk.subpages().size(), chunk.tree().allocatedNodes().size());
            assertTrue(chunk.subpages().values().stream().allMatch(page -> page.numFree() == page.numElements()));
            assertEquals((16 - chunk.subpages().size()) * PAGE, chunk.freeBytes());
        }
        assertEquals(arena.metrics().allocations(), arena.metrics().deallocations());
    }

    private String listOfOnlyChunk() {
        return arena.chunkLists().stream().filter(list -> !list.chunks().isEmpty()).map(ChunkList::name)
                .findFirst().orElse("destroyed");
    }

    private List<Long> addresses() {
        return allocator.layout().pieces().stream().map(Piece::address).toList();
    }

    private long addressOf(MemoryHandle handle) {
        return allocator.slotOf(handle).address();
    }

    private static List<Look> looks(MemoryEvent event) {
        return ((Decision) event.detail().get("decision")).looks();
    }

    private static String notes(MemoryEvent event) {
        return String.join("; ", ((Decision) event.detail().get("decision")).notes());
    }
}
