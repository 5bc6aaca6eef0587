package pagedkv.memory;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;
import pagedkv.netty.tiers.BuddyChunkAllocator;
import pagedkv.pool.DoubleFreeException;

/** What every allocator gets from its base class, and what the ledger thinks of a wrong one. */
class ObservedAllocatorTest {

    private final MemoryAllocator allocator = new BuddyChunkAllocator(16, 1, 3);
    private final List<MemoryEvent> events = new ArrayList<>();

    @Test
    void anEventTellsChangesAndTheDecision() {
        allocator.observe(events::add);
        allocator.allocate("A", 3);
        var event = events.get(0);
        assertEquals(List.of(new Change(Change.RESERVE, 0, 8, 0, "chunk"), new Change(Change.TAKE, 0, 4, 3, "")),
                event.changes());
        var decision = (Decision) event.detail().get("decision");
        assertEquals(3, decision.askedBytes());
        assertEquals(4, decision.roundedBytes());
        assertEquals(List.of(new Look("node 1", 0, 8, "→ has room below: try its left half"),
                new Look("node 2", 0, 4, Look.CHOSEN)), decision.looks());
        assertEquals(Map.of("malloc", 1), event.detail().get("device_calls"));
    }

    @Test
    void growingInPlaceFillsAndGrowingOutOfItMoves() {
        allocator.observe(events::add);
        var a = allocator.allocate("A", 3);
        a = allocator.grow(a, 4);
        assertEquals(List.of(new Change(Change.FILL, 0, 4, 4, "")), events.get(1).changes());
        a = allocator.grow(a, 5);
        assertEquals(List.of(new Change(Change.RESERVE, 8, 8, 0, "chunk"), new Change(Change.TAKE, 8, 8, 5, ""),
                new Change(Change.GIVE, 0, 4, 4, "")), events.get(2).changes());
        assertEquals(4L, events.get(2).detail().get("moved_bytes"));
        assertEquals(List.of(new Piece(8, 8, "A", 5, false)), allocator.layout().pieces());
        assertEquals(5, a.sizeBytes());
    }

    @Test
    void aHandleIsGoodForOneFree() {
        allocator.observe(events::add);
        var a = allocator.allocate("A", 3);
        var grown = allocator.grow(a, 4);
        assertThrows(DoubleFreeException.class, () -> allocator.free(a));
        assertThrows(DoubleFreeException.class, () -> allocator.grow(a, 5));
        allocator.free(grown);
        assertThrows(DoubleFreeException.class, () -> allocator.free(grown));
        assertEquals(List.of("allocate", "grow", "free", "grow", "free", "free"),
                events.stream().map(MemoryEvent::op).toList());
        assertEquals("DoubleFree", events.get(5).detail().get("error"));
    }

    @Test
    void wrongArgumentsChangeNothing() {
        var a = allocator.allocate("A", 3);
        var before = allocator.layout();
        assertThrows(IllegalArgumentException.class, () -> allocator.allocate("B", 0));
        assertThrows(IllegalArgumentException.class, () -> allocator.grow(a, 2));
        assertThrows(NullPointerException.class, () -> allocator.free(null));
        var other = new BuddyChunkAllocator(16, 1, 3);
        assertThrows(DoubleFreeException.class, () -> other.free(a));
        assertEquals(before, allocator.layout());
        allocator.free(a);
    }

    @Test
    void aRefusalLeavesTheStateAndIsReported() {
        allocator.allocate("A", 8);
        allocator.allocate("B", 5);
        var before = allocator.layout();
        allocator.observe(events::add);
        var refusal = assertThrows(OutOfDeviceMemoryException.class, () -> allocator.allocate("C", 1));
        assertEquals(before, allocator.layout());
        assertTrue(events.get(0).refused());
        assertEquals("OutOfMemory", events.get(0).detail().get("error"));
        assertEquals(refusal.getMessage(), events.get(0).detail().get("message"));
        var decision = (Decision) events.get(0).detail().get("decision");
        assertEquals(List.of("no free run of this size below", "no free run of this size below"),
                decision.looks().stream().map(Look::verdict).toList());
    }

    @Test
    void ofManyLooksTheFirstOnesAreKeptAndTheChosenOne() {
        var ledger = new Ledger();
        ledger.begin(true);
        for (int i = 0; i < 20; i++) {
            ledger.look("hole " + i, i, 1, "too small");
        }
        ledger.chosen("hole 20", 20, 8);
        ledger.rounded(8);
        var detail = new HashMap<String, Object>();
        ledger.describe(detail, 5);
        var decision = (Decision) detail.get("decision");
        assertEquals(21, decision.numLooks());
        assertEquals(Decision.MOST_LOOKS, decision.looks().size());
        assertEquals("hole 10", decision.looks().get(10).what());
        assertEquals("hole 20", decision.looks().get(11).what());
    }

    @Test
    void theLedgerFindsAWrongAllocator() {
        var ledger = new Ledger();
        ledger.begin(false);
        assertFalse(ledger.isWatched());
        ledger.reserve(100, 50, "arena");
        ledger.take(110, 10, "A", 10);
        for (Runnable wrong : List.<Runnable>of(() -> ledger.reserve(149, 5, "arena"),
                () -> ledger.take(119, 2, "B", 1), () -> ledger.take(105, 6, "B", 1), () -> ledger.take(145, 6, "B", 1),
                () -> ledger.take(130, 5, "B", 6),
                () -> ledger.take(99, 2, "B", 1), () -> ledger.give(111), () -> ledger.fill(110, 11),
                () -> ledger.unreserve(100), () -> ledger.unreserve(110))) {
            assertThrows(IllegalStateException.class, wrong::run);
        }
        ledger.hold(110);
        assertThrows(IllegalStateException.class, () -> ledger.hold(110));
        assertThrows(IllegalStateException.class, () -> ledger.fill(110, 5));
        assertEquals(new Layout(List.of(new Segment(100, 50, "arena")), List.of(new Piece(110, 10, "A", 10, true))),
                ledger.layout());
        assertEquals(10, ledger.layout().heldBytes());
        assertEquals(0, ledger.layout().usedBytes());
    }

    @Test
    void jsonKeepsOrderAndStrangeCharacters() {
        var event = new MemoryEvent(3, "allocate", "a\"b\\\n\ud83d\ude00é", 1L << 40, List.of(
                new Change(Change.TAKE, 8, 4, 3, "")), Map.of("decision",
                new Decision(3, 4, List.of(new Look("node 1", 0, 8, "no")), 1, List.of("n"))));
        assertEquals("[3,\"allocate\",\"a\\\"b\\\\\\u000a\\ud83d\\ude00é\",1099511627776,[[\"take\",8,4,3,\"\"]],"
                + "{\"decision\":[3,4,[[\"node 1\",0,8,\"no\"]],1,[\"n\"]]}]", MemoryJson.of(event));
        assertEquals("[[[0,8,\"chunk\"]],[[0,4,null,3,false]]]", MemoryJson.of(new Layout(
                List.of(new Segment(0, 8, "chunk")), List.of(new Piece(0, 4, null, 3, false)))));
    }
}
