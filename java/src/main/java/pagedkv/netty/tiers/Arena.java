package pagedkv.netty.tiers;

import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import pagedkv.memory.Ledger;
import pagedkv.memory.Look;

/**
 * The chunks that some threads share (Netty's {@code PoolArena}).
 *
 * <pre>
 *   a request of    is served by
 *   tiny, small     the first page with a free element of that size; else a page of a chunk is cut up
 *   normal          a run of a chunk
 *   huge            the device itself, outside all chunks
 *
 *   chunks are asked list by list:  q050, q025, q000, qInit, q075; if none has room, there is a new chunk, in qInit
 *
 *        qInit ──25 %──▶ q000 ──50 %──▶ q025 ──75 %──▶ q050 ──100 %──▶ q075 ──▶ q100
 *        stays           below 1 %:     below 25 %     below 50 %      below 75 %    below 100 %
 *                        destroyed      back           back            back          back
 * </pre>
 *
 * <p>The half-full chunks come first, so that the emptier ones can run empty and go back to the device; the nearly full
 * ones come last, for there a search often fails. A new chunk stays when it is empty again as long as it was never a
 * quarter full: a program that starts slowly does not take and give back its first chunk all the time.
 *
 * <p>In real Netty a lock guards each arena, and a thread in an arena waits for the others there. Here
 * {@link NettyAllocator} makes all calls take turns, so that the events of all arenas have one order. Metrics are to be
 * read between calls.
 */
public final class Arena {

    private final Device device;
    private final int pageBytes;
    private final int maxOrder;
    private final int chunkBytes;
    private final TreeSearch search;

    private final ChunkList qInit;
    private final ChunkList q000;
    private final ChunkList q025;
    private final ChunkList q050;
    private final ChunkList q075;
    private final ChunkList q100;
    private final Map<Integer, SubpagePool> subpagePools = new TreeMap<>(); // by the size of their elements
    private final Map<SizeClass, Long> allocations = new EnumMap<>(SizeClass.class);
    private final Map<SizeClass, Long> deallocations = new EnumMap<>(SizeClass.class);
    private long hugeBytes;
    private int numThreadCaches;

    Arena(Device device, int pageBytes, int maxOrder, TreeSearch search) {
        this.device = device;
        this.pageBytes = pageBytes;
        this.maxOrder = maxOrder;
        this.search = search;
        chunkBytes = pageBytes << maxOrder;
        q100 = new ChunkList("q100", 100, Integer.MAX_VALUE, null, chunkBytes);
        q075 = new ChunkList("q075", 75, 100, q100, chunkBytes);
        q050 = new ChunkList("q050", 50, 100, q075, chunkBytes);
        q025 = new ChunkList("q025", 25, 75, q050, chunkBytes);
        q000 = new ChunkList("q000", 1, 50, q025, chunkBytes);
        qInit = new ChunkList("qInit", Integer.MIN_VALUE, 25, q000, chunkBytes);
        q100.setPrevious(q075);
        q075.setPrevious(q050);
        q050.setPrevious(q025);
        q025.setPrevious(q000);
        // nothing before q000: its chunks are destroyed; and nothing falls below qInit
        for (SizeClass sizeClass : SizeClass.values()) {
            allocations.put(sizeClass, 0L);
            deallocations.put(sizeClass, 0L);
        }
    }

    /** A piece of a size that has been rounded up. */
    Slot allocate(long normBytes, SizeClass sizeClass, Ledger log) {
        var slot = switch (sizeClass) {
            case TINY, SMALL -> allocateElement((int) normBytes, log);
            case NORMAL -> allocateRun((int) normBytes, log);
            case HUGE -> allocateHuge(normBytes, log);
        };
        allocations.merge(sizeClass, 1L, Long::sum);
        return slot;
    }

    private Slot allocateElement(int normBytes, Ledger log) {
        var pool = subpagePools.computeIfAbsent(normBytes, SubpagePool::new);
        var page = pool.first();
        if (page == null) {
            if (log.isWatched()) {
                log.look("pages of " + normBytes + "-byte elements", 0, 0, "none has a free element");
            }
            page = askChunks(pageBytes, normBytes, (chunk, prefix) -> chunk.allocateSubpage(pool, prefix, log), log);
        }
        var slot = pool.allocate(page);
        if (log.isWatched()) {
            log.chosen("element %d of %d in the page of chunk %d, node %d".formatted(slot.element(), page.numElements(),
                    slot.chunk().index(), slot.node()), slot.address(), slot.sizeBytes());
        }
        return slot;
    }

    private Slot allocateRun(int normBytes, Ledger log) {
        return askChunks(normBytes, normBytes, (chunk, prefix) -> chunk.allocateRun(normBytes, prefix, log), log);
    }

    /** @param listBytes the size by which lists are left out: for a page to cut up Netty takes the element's */
    private <T> T askChunks(int runBytes, int listBytes, ChunkRequest<T> take, Ledger log) {
        for (ChunkList list : List.of(q050, q025, q000, qInit, q075)) {
            var taken = list.allocate(listBytes, take, log);
            if (taken != null) {
                return taken;
            }
        }
        var chunk = new Chunk(device.reserveChunk(log), pageBytes, newTree());
        log.look("device", chunk.address(), chunkBytes, Look.LEADS_ON + "gives a new chunk");
        var taken = take.from(chunk, log.isWatched() ? "new chunk " + chunk.index() + ", " : "");
        if (taken == null) {
            throw new IllegalStateException("a new chunk has no run of " + runBytes + " bytes");
        }
        qInit.add(chunk);
        return taken;
    }

    private BuddyTree newTree() {
        return search == null ? new BuddyTree(maxOrder) : new BuddyTree(maxOrder, search);
    }

    private Slot allocateHuge(long sizeBytes, Ledger log) {
        long address = device.reserveHuge(sizeBytes, log);
        hugeBytes += sizeBytes;
        log.chosen("device", address, sizeBytes);
        return new Slot(null, -1, null, 0, address, sizeBytes);
    }

    /** Frees a piece of this arena. */
    void free(Slot slot, SizeClass sizeClass, Ledger log) {
        deallocations.merge(sizeClass, 1L, Long::sum);
        log.give(slot.address());
        if (slot.isHuge()) {
            hugeBytes -= slot.sizeBytes();
            device.returnHuge(slot.address(), log);
        } else if (slot.subpage() == null || freesPage(slot, log)) {
            freeRun(slot, log);
        }
    }

    private boolean freesPage(Slot slot, Ledger log) {
        var pool = subpagePools.get(slot.subpage().elementBytes());
        boolean handBack = pool.free(slot.subpage(), slot.element());
        if (log.isWatched() && slot.subpage().isEmpty()) {
            log.note("the page at node %d of chunk %d is empty: %s".formatted(slot.node(), slot.chunk().index(),
                    handBack ? "it is handed back" : "it stays, as the only one with free elements of its size"));
        }
        return handBack;
    }

    private void freeRun(Slot slot, Ledger log) {
        var chunk = slot.chunk();
        chunk.freeRun(slot);
        if (!chunk.list.freed(chunk, log)) {
            device.returnChunk(chunk.address(), log);
        }
    }

    void bindThreadCache() {
        numThreadCaches++;
    }

    void unbindThreadCache() {
        numThreadCaches--;
    }

    public int numThreadCaches() {
        return numThreadCaches;
    }

    /** The lists in the order of their use: qInit, q000, q025, q050, q075, q100. */
    public List<ChunkList> chunkLists() {
        return List.of(qInit, q000, q025, q050, q075, q100);
    }

    /** All chunks, by address. */
    public List<Chunk> chunks() {
        return chunkLists().stream().flatMap(list -> list.chunks().stream())
                .sorted((a, b) -> Long.compare(a.address(), b.address())).toList();
    }

    /** The numbers that a monitor would show. */
    public ArenaMetrics metrics() {
        var usage = new LinkedHashMap<String, List<Integer>>();
        for (ChunkList list : chunkLists()) {
            usage.put(list.name(), list.chunks().stream().map(Chunk::usagePercent).toList());
        }
        int numChunks = chunks().size();
        return new ArenaMetrics(numThreadCaches, numChunks, usage, new EnumMap<>(allocations),
                new EnumMap<>(deallocations), (long) numChunks * chunkBytes + hugeBytes);
    }
}
