package pagedkv.netty.tiers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import pagedkv.memory.Change;
import pagedkv.memory.Decision;
import pagedkv.memory.Look;
import pagedkv.memory.MemoryEvent;
import pagedkv.memory.MemoryHandle;

class ThreadCacheTest {

    private final NettyAllocator allocator = new NettyAllocator(1L << 30, Settings.DEFAULT.withArenas(3));
    private final List<MemoryEvent> events = new ArrayList<>();

    @Test
    void n4WhatAThreadFreedItGetsAgain() {
        var a = allocator.allocate("A", 100);
        allocator.observe(events::add);
        allocator.free(a);
        var b = allocator.allocate("B", 97);
        assertEquals(allocator.slotOf(b).address(), 0);
        assertEquals(List.of(new Change(Change.HOLD, 0, 112, 100, "")), events.get(0).changes());
        assertEquals(List.of(new Change(Change.GIVE, 0, 112, 100, ""), new Change(Change.TAKE, 0, 112, 97, "")),
                events.get(1).changes());
        assertEquals(List.of(new Look("cache of thread main", 0, 112, Look.CHOSEN)),
                ((Decision) events.get(1).detail().get("decision")).looks());
        var metrics = allocator.caches().get("main").metrics();
        assertEquals(new CacheMetrics(1, 1, 0, 0, 0), metrics);
        assertEquals(1, allocator.arenas().get(0).metrics().allocations().get(SizeClass.TINY)); // hits do not count
    }

    @Test
    void n4QueuesHold512Tiny256SmallAnd64NormalUpTo32KiB() {
        assertEquals(512, keptOf(16, 600));
        assertEquals(256, keptOf(512, 600));
        assertEquals(256, keptOf(4096, 600));
        assertEquals(64, keptOf(8192, 100));
        assertEquals(64, keptOf(32_768, 100));
        assertEquals(0, keptOf(32_769, 10)); // becomes 64 KiB
    }

    private static int keptOf(int sizeBytes, int count) {
        var fresh = new NettyAllocator(1L << 30, Settings.DEFAULT);
        var handles = IntStream.range(0, count).mapToObj(i -> fresh.allocate("b" + i, sizeBytes)).toList();
        handles.forEach(fresh::free);
        return fresh.caches().get("main").metrics().numCached();
    }

    @Test
    void n4OldestFirst() {
        var handles = IntStream.range(0, 3).mapToObj(i -> allocator.allocate("b" + i, 8192)).toList();
        for (int i : new int[] {2, 0, 1}) {
            allocator.free(handles.get(i));
        }
        var addresses = IntStream.range(0, 3)
                .mapToLong(i -> allocator.slotOf(allocator.allocate("c" + i, 8192)).address());
        assertEquals(List.of(2L * 8192, 0L, 8192L), addresses.boxed().toList());
    }

    @Test
    void n4EveryEightThousandRequestsWhatWasNotUsedGoesBack() {
        var kept = IntStream.range(0, 100).mapToObj(i -> allocator.allocate("k" + i, 16)).toList(); // 100 requests
        kept.forEach(allocator::free);
        var cache = allocator.caches().get("main");
        allocator.free(allocator.allocate("one", 8192)); // 101
        for (int i = 102; i < 8192; i++) {
            allocator.free(allocator.allocate("x" + i, 8192));
        }
        assertEquals(101, cache.metrics().numCached());
        allocator.observe(events::add);
        var last = allocator.allocate("last", 8192); // the 8192nd: trim
        assertEquals(0, cache.metrics().numCached()); // none of the 100 was used; of the pages the one is out
        assertEquals(100, cache.metrics().numGivenBack());
        assertEquals(102, events.get(0).changes().size()); // from the cache, 100 back to the arena, and taken
        allocator.free(last);
        assertEquals(1, cache.metrics().numCached());
    }

    @Test
    void n4AQueueThatServedManyKeepsMore() {
        var settings = Settings.DEFAULT.withCache(new CacheSettings(8, 8, 8, 32 << 10, 10));
        var small = new NettyAllocator(1L << 30, settings);
        var handles = IntStream.range(0, 4).mapToObj(i -> small.allocate("b" + i, 16)).toList(); // 4 requests, no hits
        handles.forEach(small::free);
        for (int i = 0; i < 6; i++) { // 10 requests, 6 hits
            small.free(small.allocate("c" + i, 16));
        }
        // 8 places − 6 hits = 2 pieces go back; the sixth hit was out at that moment and comes back
        assertEquals(2, small.caches().get("main").metrics().numCached());
        assertEquals(2, small.caches().get("main").metrics().numGivenBack());
    }

    @Test
    void n3AThreadIsBoundToTheLeastUsedArenaAndStaysThere() {
        for (String thread : List.of("a", "b", "c", "d", "a")) {
            allocator.onThread(thread).allocate(thread + allocator.layout().pieces().size(), 100);
        }
        assertEquals(List.of(0, 1, 2, 0), List.of(allocator.arenaOf("a"), allocator.arenaOf("b"),
                allocator.arenaOf("c"), allocator.arenaOf("d")));
        assertEquals(-1, allocator.arenaOf("e"));
        allocator.endThread("b");
        allocator.onThread("e").allocate("e", 100);
        assertEquals(1, allocator.arenaOf("e"));
        assertThrows(IllegalArgumentException.class, () -> allocator.endThread("nobody"));
    }

    @Test
    void aPieceGoesBackToTheThreadThatAllocatedIt() {
        var a = allocator.onThread("a").allocate("A", 100);
        allocator.onThread("b").allocate("B", 100);
        allocator.free(a); // by thread b
        assertEquals(1, allocator.caches().get("a").metrics().numCached());
        assertEquals(0, allocator.caches().get("b").metrics().numCached());
    }

    @Test
    void aThreadsEndGivesBackWhatItKept() {
        var late = allocator.onThread("a").allocate("late", 100);
        allocator.free(allocator.allocate("A", 100));
        allocator.free(allocator.allocate("B", 20_000));
        assertEquals(112 + 32_768, allocator.layout().heldBytes());
        allocator.observe(events::add);
        allocator.endThread("a");
        assertEquals("end_thread", events.get(0).op());
        assertEquals(List.of(Change.GIVE, Change.GIVE), events.get(0).changes().stream().map(Change::kind).toList());
        assertEquals(0, allocator.layout().heldBytes());
        allocator.free(late); // after its thread's end: to the arena at once
        assertTrue(allocator.layout().pieces().isEmpty());
    }

    @Test
    void n3TheDefaultNumberOfArenas() {
        assertEquals(16, Settings.defaultNumArenas(8, 4L << 30, 16 << 20)); // two per core
        assertEquals(5, Settings.defaultNumArenas(8, 512L << 20, 16 << 20)); // 512 MiB / 16 MiB / 2 / 3
        assertEquals(0, Settings.defaultNumArenas(8, 64L << 20, 16 << 20));
    }

    @Test
    void settingsThatCannotBe() {
        for (Runnable wrong : List.<Runnable>of(() -> Settings.DEFAULT.withChunk(2048, 4),
                () -> Settings.DEFAULT.withChunk(8193, 4), () -> Settings.DEFAULT.withChunk(8192, 15),
                () -> Settings.DEFAULT.withChunk(1 << 20, 11), () -> Settings.DEFAULT.withArenas(0),
                () -> new CacheSettings(-1, 1, 1, 1, 1), () -> new CacheSettings(1, 1, 1, 1, 0))) {
            assertThrows(IllegalArgumentException.class, wrong::run);
        }
    }

    @Test
    void nothingIsLostBetweenCacheAndArena() {
        var handles = new ArrayList<MemoryHandle>();
        var random = new Random(5);
        var settings = Settings.DEFAULT.withChunk(8192, 5).withArenas(2)
                .withCache(new CacheSettings(4, 4, 4, 32 << 10, 50));
        var small = new NettyAllocator(1L << 30, settings);
        for (int step = 0; step < 10_000; step++) {
            small.onThread("t" + random.nextInt(3));
            if (handles.size() > 50 || !handles.isEmpty() && random.nextInt(2) == 0) {
                small.free(handles.remove(random.nextInt(handles.size())));
            } else {
                handles.add(small.allocate("b" + step, 1 + random.nextInt(1 << random.nextInt(17))));
            }
        }
        handles.forEach(small::free);
        assertEquals(0, small.layout().usedBytes());
        List.copyOf(small.caches().keySet()).forEach(small::endThread);
        assertTrue(small.layout().pieces().isEmpty());
        small.arenas().forEach(arena -> assertEquals(arena.metrics().allocations(), arena.metrics().deallocations()));
    }
}
