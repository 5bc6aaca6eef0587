package pagedkv.netty.tiers;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import pagedkv.memory.Ledger;
import pagedkv.memory.MemoryHandle;
import pagedkv.memory.ObservedAllocator;

/**
 * Netty's tiers together (its {@code PooledByteBufAllocator}): thread cache, then arena, then chunk, then page.
 *
 * <pre>
 *   request ─▶ size class ─▶ thread's cache ─▶ thread's arena ─▶ subpage or chunk list ─▶ chunk's tree ─▶ device
 * </pre>
 *
 * <p>A thread is bound with its first request, to the arena that the fewest threads are bound to, and stays there.
 * Which thread calls is said with {@link #onThread}, by name: so that many threads can be shown one step at a time,
 * and every run is the same.
 *
 * <p>A piece that goes into a thread cache is <em>held</em>: its owner has let go of it, and no other thread can have
 * it.
 */
public final class NettyAllocator extends ObservedAllocator<NettyAllocator.Place> {

    private final Settings settings;
    private final Device device;
    private final List<Arena> arenas = new ArrayList<>();
    private final Map<String, Binding> bindings = new LinkedHashMap<>(); // by thread
    private String thread = "main";

    /** One arena without thread caches: what remains is arena, chunks, pages. */
    public static NettyAllocator arenaOnly(long capacityBytes) {
        return new NettyAllocator(capacityBytes, Settings.DEFAULT.withoutCache());
    }

    /**
     * @param capacityBytes how much all chunks and huge pieces may be together; at least one chunk
     */
    public NettyAllocator(long capacityBytes, Settings settings) {
        this.settings = settings;
        device = new Device(capacityBytes, settings.chunkBytes(), settings.pageBytes());
        for (int i = 0; i < settings.numArenas(); i++) {
            arenas.add(new Arena(device, settings.pageBytes(), settings.maxOrder(), settings.search()));
        }
    }

    /** From now on this thread calls. */
    public synchronized NettyAllocator onThread(String name) {
        thread = name;
        return this;
    }

    /**
     * The thread has ended: what its cache kept goes back to the arena, and a new thread may be bound there. The event is
     * called {@code end_thread}, its owner is the thread.
     */
    public synchronized void endThread(String name) {
        var binding = bindings.remove(name);
        if (binding == null) {
            throw new IllegalArgumentException("thread " + name + " has not allocated anything");
        }
        carryOut("end_thread", name, binding::close);
    }

    @Override
    protected Place take(String owner, long sizeBytes, Ledger log) {
        boolean pooled = sizeBytes <= settings.chunkBytes();
        long normBytes = pooled ? SizeClasses.normalizeCapacity((int) sizeBytes, settings.chunkBytes()) : sizeBytes;
        var sizeClass = SizeClasses.of(normBytes, settings.pageBytes(), settings.chunkBytes());
        log.rounded(normBytes);
        if (log.isWatched()) {
            log.note("size class: %s, %d bytes".formatted(sizeClass.name().toLowerCase(Locale.ROOT), normBytes));
        }
        var binding = bindings.computeIfAbsent(thread, name -> bind(name, log));
        var slot = binding.cache == null ? null : binding.cache.take(normBytes, sizeClass, log);
        if (slot == null) {
            slot = binding.arena.allocate(normBytes, sizeClass, log);
        }
        log.take(slot.address(), slot.sizeBytes(), owner, sizeBytes);
        return new Place(slot, sizeClass, binding);
    }

    @Override
    protected boolean fill(Place place, long newBytes, Ledger log) {
        if (place.slot.isHuge() || newBytes > place.slot.sizeBytes()) {
            return false;
        }
        log.rounded(place.slot.sizeBytes());
        log.note("fits into the memory it has");
        log.fill(place.slot.address(), newBytes);
        return true;
    }

    @Override
    protected void give(Place place, Ledger log) {
        var binding = place.binding;
        if (!binding.closed && binding.cache != null && binding.cache.keep(place.slot, place.sizeClass, log)) {
            return;
        }
        binding.arena.free(place.slot, place.sizeClass, log);
    }

    private Binding bind(String name, Ledger log) {
        var leastUsed = arenas.get(0);
        for (Arena arena : arenas) {
            if (arena.numThreadCaches() < leastUsed.numThreadCaches()) {
                leastUsed = arena;
            }
        }
        if (log.isWatched()) {
            log.note("thread %s is bound to arena %d, which has %d threads".formatted(
                    name, arenas.indexOf(leastUsed), leastUsed.numThreadCaches()));
        }
        return new Binding(name, leastUsed, settings);
    }

    /** Where a live handle's memory is, for whoever compares. */
    Slot slotOf(MemoryHandle handle) {
        return placeOf(handle).slot;
    }

    public Settings settings() {
        return settings;
    }

    public List<Arena> arenas() {
        return List.copyOf(arenas);
    }

    /** The caches of the threads that have allocated, by thread; empty without caches. */
    public synchronized Map<String, ThreadCache> caches() {
        var caches = new LinkedHashMap<String, ThreadCache>();
        bindings.forEach((name, binding) -> {
            if (binding.cache != null) {
                caches.put(name, binding.cache);
            }
        });
        return caches;
    }

    /** Which arena a thread is bound to, by its index; -1 before its first request. */
    public synchronized int arenaOf(String name) {
        var binding = bindings.get(name);
        return binding == null ? -1 : arenas.indexOf(binding.arena);
    }

    @Override
    public long capacityBytes() {
        return device.capacityBytes();
    }

    @Override
    public String source() {
        return settings.cache() == null ? "Netty's arena (Java)" : "Netty's arena and thread cache (Java)";
    }

    /** A thread, its arena and, where there are any, its cache. */
    private static final class Binding {

        private final Arena arena;
        private final ThreadCache cache;
        private boolean closed;

        Binding(String thread, Arena arena, Settings settings) {
            this.arena = arena;
            if (settings.cache() == null) {
                cache = null;
                arena.bindThreadCache();
            } else {
                cache = new ThreadCache(thread, arena, settings.cache(), settings.pageBytes());
            }
        }

        void close(Ledger log) {
            closed = true;
            if (cache == null) {
                arena.unbindThreadCache();
            } else {
                cache.close(log);
            }
        }
    }

    /** Where an owner's memory is and what it goes back to. */
    static final class Place {

        private final Slot slot;
        private final SizeClass sizeClass;
        private final Binding binding;

        Place(Slot slot, SizeClass sizeClass, Binding binding) {
            this.slot = slot;
            this.sizeClass = sizeClass;
            this.binding = binding;
        }
    }
}
