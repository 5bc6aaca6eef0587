package pagedkv.netty.tiers;

import java.util.ArrayDeque;
import java.util.Deque;
import java.util.Map;
import java.util.TreeMap;
import pagedkv.memory.Ledger;

/**
 * What one thread freed, kept for its next request of the same size (Netty's {@code PoolThreadCache}).
 *
 * <p>There is a queue for each size up to 32 KiB. A free puts the piece at the end of its queue, if the queue is not
 * full; a request takes the piece at the front. Neither needs the arena, nor its lock.
 *
 * <p>A <em>trim</em> comes after every 8192 requests: from a queue of 512 places that served 500 requests since the
 * last trim, up to 12 pieces go back to the arena. So a queue that is used a lot keeps what it has, and an idle one
 * is emptied.
 *
 * <p>A piece goes into the cache of the thread that allocated it, whoever frees it.
 */
public final class ThreadCache {

    private final String thread;
    private final Arena arena;
    private final CacheSettings settings;
    private final int pageBytes;
    private final Map<Long, SizeQueue> queues = new TreeMap<>(); // by size
    private long numRequests;
    private long hits;
    private long misses;
    private long trimmed;

    ThreadCache(String thread, Arena arena, CacheSettings settings, int pageBytes) {
        this.thread = thread;
        this.arena = arena;
        this.settings = settings;
        this.pageBytes = pageBytes;
        arena.bindThreadCache();
    }

    /** A piece of this size that was freed before, or null. Every so many requests it also trims. */
    Slot take(long normBytes, SizeClass sizeClass, Ledger log) {
        var queue = queueFor(normBytes, sizeClass);
        if (queue == null) {
            return null;
        }
        var slot = queue.slots.pollFirst();
        if (slot == null) {
            misses++;
            log.look("cache of thread " + thread, 0, normBytes, "has no piece of this size");
        } else {
            hits++;
            queue.hitsSinceTrim++;
            log.give(slot.address()); // from the cache, to whoever asks now
            log.chosen("cache of thread " + thread, slot.address(), normBytes);
        }
        if (++numRequests % settings.trimInterval() == 0) {
            trim(log);
        }
        return slot;
    }

    /** Keeps a piece that was freed; false if there is no place for it. */
    boolean keep(Slot slot, SizeClass sizeClass, Ledger log) {
        var queue = queueFor(slot.sizeBytes(), sizeClass);
        if (queue == null || queue.slots.size() == queue.places) {
            return false;
        }
        queue.slots.addLast(slot);
        log.hold(slot.address());
        if (log.isWatched()) {
            log.note("kept in the cache of thread %s, %d of %d places taken".formatted(
                    thread, queue.slots.size(), queue.places));
        }
        return true;
    }

    private void trim(Ledger log) {
        long before = trimmed;
        for (SizeQueue queue : queues.values()) {
            long unused = queue.places - queue.hitsSinceTrim;
            queue.hitsSinceTrim = 0;
            giveBack(queue, unused, log);
        }
        if (log.isWatched()) {
            log.note("the cache of thread %s is trimmed: %d pieces go back to the arena"
                    .formatted(thread, trimmed - before));
        }
    }

    /** The thread has ended: all that it kept goes back to the arena. */
    void close(Ledger log) {
        queues.values().forEach(queue -> giveBack(queue, Long.MAX_VALUE, log));
        arena.unbindThreadCache();
    }

    private void giveBack(SizeQueue queue, long most, Ledger log) {
        for (long i = 0; i < most && !queue.slots.isEmpty(); i++) {
            arena.free(queue.slots.pollFirst(), queue.sizeClass, log);
            trimmed++;
        }
    }

    /** The queue for this size; null if pieces of it are not kept. */
    private SizeQueue queueFor(long normBytes, SizeClass sizeClass) {
        int entries = switch (sizeClass) {
            case TINY -> settings.tinyEntries();
            case SMALL -> settings.smallEntries();
            // a single page is kept even where maxCachedBytes is less
            case NORMAL -> settings.maxCachedBytes() > 0 && normBytes <= Math.max(settings.maxCachedBytes(), pageBytes)
                    ? settings.normalEntries() : 0;
            case HUGE -> 0;
        };
        return entries == 0 ? null : queues.computeIfAbsent(normBytes, size -> new SizeQueue(sizeClass, entries));
    }

    public String thread() {
        return thread;
    }

    public Arena arena() {
        return arena;
    }

    public CacheMetrics metrics() {
        int kept = 0;
        long keptBytes = 0;
        for (SizeQueue queue : queues.values()) {
            kept += queue.slots.size();
            keptBytes += queue.slots.stream().mapToLong(Slot::sizeBytes).sum();
        }
        return new CacheMetrics(hits, misses, kept, keptBytes, trimmed);
    }

    private static final class SizeQueue {

        private final SizeClass sizeClass;
        private final int places;
        private final Deque<Slot> slots = new ArrayDeque<>();
        private long hitsSinceTrim;

        SizeQueue(SizeClass sizeClass, int entries) {
            this.sizeClass = sizeClass;
            places = Integer.highestOneBit(2 * entries - 1); // Netty's queue is an array of 2^k places
        }
    }
}
