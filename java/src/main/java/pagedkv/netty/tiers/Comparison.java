package pagedkv.netty.tiers;

import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.WeakHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import pagedkv.memory.MemoryHandle;
import pagedkv.memory.Workload;

/**
 * The same calls on the tiers of this package and on real Netty 4.1.48, compared after every call:
 *
 * <ul>
 *   <li>what each buffer's size was rounded up to;
 *   <li>the chunk it lies in and its place there: which chunk of ours is which of Netty's must never change;
 *   <li>the metrics of the arena: chunks, how full each one is and in which list, allocations by size class.
 * </ul>
 *
 * <p>A new thread makes the calls, so that Netty gives it a new cache.
 */
public final class Comparison {

    /** One number of ours beside Netty's, at the end. */
    public record Row(String name, String ours, String real, boolean equal) {
    }

    /**
     * All that was compared in one run.
     *
     * @param numCalls calls that were made on both
     * @param firstDifference what was first found different and at which call; null if nothing was
     */
    public record Result(String name, int numCalls, List<Row> rows, String firstDifference) {

        public boolean allEqual() {
            return firstDifference == null && rows.stream().allMatch(Row::equal);
        }

        @Override
        public String toString() {
            var table = new StringBuilder("%s: %d calls, %s%n".formatted(name, numCalls, firstDifference == null
                    ? "equal after each" : "different at " + firstDifference));
            table.append("  %-38s %-28s %-28s%n".formatted("", "ours", "Netty 4.1.48"));
            for (Row row : rows) {
                table.append("  %-38s %-28s %-28s %s%n".formatted(row.name, row.ours, row.real, row.equal ? "=" : "≠"));
            }
            return table.toString();
        }
    }

    private static final long AMPLE_BYTES = 1L << 40; // real Netty has no limit but the heap

    private final NettyAllocator ours;
    private final RealNetty real;
    private final Map<String, MemoryHandle> ourHandles = new HashMap<>();
    private final Map<String, RealNetty.Buffer> realBuffers = new HashMap<>();
    private final Map<byte[], Chunk> ourChunkOf = new WeakHashMap<>(); // arrays are equal only to themselves
    private final Map<Chunk, WeakReference<byte[]>> realChunkOf = new WeakHashMap<>();

    private long ourRoundedBytes;
    private long realRoundedBytes;
    private int numPlaces;
    private int numEqualPlaces;
    private int numServed;
    private int ourMostChunks;
    private int realMostChunks;
    private String firstDifference;

    private Comparison(Settings settings) {
        ours = new NettyAllocator(AMPLE_BYTES, settings);
        // with another search in ours, its places are compared with those of Netty's
        real = new RealNetty(settings.withSearch(null));
    }

    /** Prints the comparison of several mixes of requests, without and with the thread cache. */
    public static void main(String[] arguments) {
        for (Result result : all(2_000, 1)) {
            System.out.println(result);
        }
    }

    /** Several mixes on several sizes of pages and chunks, without and with the thread cache. */
    public static List<Result> all(int numCalls, long seed) {
        var results = new ArrayList<Result>();
        var small = Settings.DEFAULT.withChunk(8192, 4);
        for (Settings settings : List.of(Settings.DEFAULT, small, Settings.DEFAULT.withChunk(4096, 7))) {
            long mostLiveBytes = settings.chunkBytes() * (settings.equals(Settings.DEFAULT) ? 4L : 12L);
            for (Mix mix : Mix.all(mostLiveBytes)) {
                results.add(of(mix, settings.withoutCache(), seed, numCalls));
                results.add(of(mix, settings, seed, numCalls));
            }
        }
        return results;
    }

    public static Result of(Mix mix, Settings settings, long seed, int numCalls) {
        String name = "%s, chunks of %d KiB in pages of %d, %s".formatted(mix.name(), settings.chunkBytes() >> 10,
                settings.pageBytes(), settings.cache() == null ? "no thread cache" : "thread cache");
        return of(name, mix.workload(settings, seed, numCalls), settings);
    }

    /** Any calls, for instance of a workload as text. Sizes must fit a Java int. */
    public static Result of(String name, Workload workload, Settings settings) {
        var task = new FutureTask<>(() -> new Comparison(settings).run(name, workload));
        new Thread(task, "comparison").start();
        try {
            return task.get();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("the comparison was interrupted", interrupted);
        } catch (ExecutionException failed) {
            throw new IllegalStateException("the comparison failed: " + failed.getCause(), failed.getCause());
        }
    }

    private Result run(String name, Workload workload) {
        int number = 0;
        for (Workload.Call call : workload.calls()) {
            carryOut(call);
            compareMetrics("call %d, %s %s %d".formatted(number++, call.op(), call.owner(), call.sizeBytes()));
        }
        return new Result(name, number, rows(), firstDifference);
    }

    private void carryOut(Workload.Call call) {
        String owner = call.owner();
        int size = Math.toIntExact(call.sizeBytes());
        switch (call.op()) {
            case "allocate" -> {
                ourHandles.put(owner, ours.allocate(owner, size));
                realBuffers.put(owner, real.allocate(size));
                numServed++;
                comparePlaces(owner, call);
            }
            case "grow" -> {
                var before = ours.slotOf(ourHandles.get(owner));
                ourHandles.put(owner, ours.grow(ourHandles.get(owner), size));
                realBuffers.get(owner).grow(size);
                numServed += before == ours.slotOf(ourHandles.get(owner)) ? 0 : 1;
                comparePlaces(owner, call);
            }
            default -> {
                ours.free(ourHandles.remove(owner));
                realBuffers.remove(owner).release();
            }
        }
    }

    private void comparePlaces(String owner, Workload.Call call) {
        var slot = ours.slotOf(ourHandles.get(owner));
        var buffer = realBuffers.get(owner);
        ourRoundedBytes += slot.sizeBytes();
        realRoundedBytes += buffer.roundedBytes();
        numPlaces++;
        if (slot.sizeBytes() == buffer.roundedBytes() && isSamePlace(slot, buffer)) {
            numEqualPlaces++;
        } else if (firstDifference == null) {
            firstDifference = "%s: ours %s, Netty's %d bytes at %d of its chunk"
                    .formatted(call, slot, buffer.roundedBytes(), buffer.offset());
        }
    }

    /** Whether the offsets are the same and both chunks have met only each other. A huge piece has no chunk to meet. */
    private boolean isSamePlace(Slot slot, RealNetty.Buffer buffer) {
        if (slot.isHuge()) {
            return buffer.offset() == 0 && buffer.chunk().length == slot.sizeBytes();
        }
        var chunk = buffer.chunk();
        var ourPartner = ourChunkOf.computeIfAbsent(chunk, unmet -> slot.chunk());
        var realPartner = realChunkOf.computeIfAbsent(slot.chunk(), unmet -> new WeakReference<>(chunk));
        return ourPartner == slot.chunk() && realPartner.get() == chunk
                && buffer.offset() == slot.address() - slot.chunk().address();
    }

    private void compareMetrics(String call) {
        var ourMetrics = ours.arenas().get(0).metrics();
        var realMetrics = real.metrics(0);
        ourMostChunks = Math.max(ourMostChunks, ourMetrics.numActiveChunks());
        realMostChunks = Math.max(realMostChunks, realMetrics.numActiveChunks());
        if (firstDifference == null && !ourMetrics.equals(realMetrics)) {
            firstDifference = "%s: ours %s, Netty's %s".formatted(call, ourMetrics, realMetrics);
        }
    }

    private List<Row> rows() {
        var a = ours.arenas().get(0).metrics();
        var b = real.metrics(0);
        var rows = new ArrayList<Row>();
        add(rows, "bytes after rounding, all buffers", ourRoundedBytes, realRoundedBytes);
        rows.add(new Row("buffers at the same place", numEqualPlaces + " of " + numPlaces,
                numPlaces + " of " + numPlaces, numEqualPlaces == numPlaces));
        add(rows, "most chunks at a time", ourMostChunks, realMostChunks);
        add(rows, "chunks at the end", a.numActiveChunks(), b.numActiveChunks());
        a.usagePercent().forEach((list, percents) ->
                add(rows, "  used %, " + list, percents, b.usagePercent().get(list)));
        for (SizeClass sizeClass : SizeClass.values()) {
            String name = sizeClass.name().toLowerCase(Locale.ROOT);
            add(rows, "served by the arena, " + name, a.allocations().get(sizeClass), b.allocations().get(sizeClass));
            add(rows, "given back to it, " + name, a.deallocations().get(sizeClass), b.deallocations().get(sizeClass));
        }
        long ourHits = ours.caches().values().stream().mapToLong(cache -> cache.metrics().hits()).sum();
        // Netty does not count hits; but what the arena did not serve, the cache did
        add(rows, "served by the thread cache", ourHits, numServed - sum(b.allocations()));
        add(rows, "bytes in chunks and huge buffers", a.numActiveBytes(), b.numActiveBytes());
        return rows;
    }

    private static long sum(Map<SizeClass, Long> counts) {
        return counts.values().stream().mapToLong(Long::longValue).sum();
    }

    private static void add(List<Row> rows, String name, Object ours, Object real) {
        rows.add(new Row(name, Objects.toString(ours), Objects.toString(real), ours.equals(real)));
    }
}
