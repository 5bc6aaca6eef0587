package pagedkv.netty.tiers;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.util.IllegalReferenceCountException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.function.Function;
import java.util.function.UnaryOperator;
import pagedkv.memory.MemoryHandle;

/**
 * Four reports of Netty's users as short programs, in numbers: three on the tiers of this package and on real Netty
 * 4.1.48, the fourth on the Netty of the class path.
 *
 * <p>None of the first three is an error of the allocator. They show what a chunk costs: it goes back to the device
 * as a whole, and only when nothing in it is in use.
 */
public final class Reports {

    private static final long AMPLE_BYTES = 1L << 40;
    private static final Settings NO_CACHE = Settings.DEFAULT.withoutCache();
    private static final int PAGE_BYTES = NO_CACHE.pageBytes();
    private static final int PAGES_PER_CHUNK = NO_CACHE.chunkBytes() / PAGE_BYTES;

    private Reports() {
    }

    /** One number in two columns. */
    public record Line(String name, String left, String right) {
    }

    /**
     * One report.
     *
     * @param issue where it was reported
     * @param story what the program does
     * @param left the heading of the left column; of the right one likewise
     */
    public record Report(String issue, String story, String left, String right, List<Line> lines) {

        @Override
        public String toString() {
            var table = new StringBuilder("%s: %s%n".formatted(issue, story));
            table.append("  %-44s %-24s %-24s%n".formatted("", left, right));
            lines.forEach(line -> table.append("  %-44s %-24s %-24s%n".formatted(line.name, line.left, line.right)));
            return table.toString();
        }
    }

    /** Prints all four. */
    public static void main(String[] arguments) {
        System.out.println(interleavedLifetimes(4));
        System.out.println(allButOnePageFreed());
        System.out.println(oneChunkPerArena(9));
        System.out.println(doubleReleaseOfASlice());
    }

    /**
     * Buffers of one page, every other one short-lived. The short-lived ones are freed: half of the memory is free,
     * and a request for two pages still needs a new chunk, for no two free pages are buddies.
     */
    public static Report interleavedLifetimes(int numChunks) {
        var both = new Both();
        int numPages = numChunks * PAGES_PER_CHUNK;
        for (int page = 0; page < numPages; page++) {
            both.allocate(PAGE_BYTES);
        }
        for (int page = 0; page < numPages; page += 2) {
            both.free(page);
        }
        var lines = new ArrayList<Line>();
        both.line(lines, "bytes in chunks", ArenaMetrics::numActiveBytes);
        lines.add(both.sameForBoth("bytes in live buffers", numPages / 2L * PAGE_BYTES));
        both.line(lines, "used % of each chunk", Reports::usage);
        both.line(lines, "chunks", ArenaMetrics::numActiveChunks);
        both.allocate(2 * PAGE_BYTES);
        both.line(lines, "chunks after a request for two pages", ArenaMetrics::numActiveChunks);
        both.freeAll();
        both.line(lines, "chunks after everything is freed", ArenaMetrics::numActiveChunks);
        return both.report("netty#16827", "short and long lifetimes take turns; the short ones end", lines);
    }

    /** A chunk is filled with pages, and all but one are freed: the chunk stays. */
    public static Report allButOnePageFreed() {
        var both = new Both();
        for (int page = 0; page < PAGES_PER_CHUNK; page++) {
            both.allocate(PAGE_BYTES);
        }
        var lines = new ArrayList<Line>();
        both.line(lines, "bytes in chunks, full", ArenaMetrics::numActiveBytes);
        for (int page = 0; page < PAGES_PER_CHUNK; page++) {
            if (page != PAGES_PER_CHUNK / 2) {
                both.free(page);
            }
        }
        both.line(lines, "bytes in chunks, one page left", ArenaMetrics::numActiveBytes);
        lines.add(both.sameForBoth("bytes in live buffers", PAGE_BYTES));
        both.freeAll();
        both.line(lines, "bytes in chunks, no page left", ArenaMetrics::numActiveBytes);
        return both.report("netty#11998", "a chunk is filled with single pages; all but one are freed", lines);
    }

    /** As many threads as arenas, and each asks for 1 KiB: each arena takes a chunk. */
    public static Report oneChunkPerArena(int numThreads) {
        int bufferBytes = 1024;
        var lines = new ArrayList<Line>();
        for (int numArenas : new int[] {numThreads, 1}) {
            var settings = NO_CACHE.withArenas(numArenas);
            var ours = new NettyAllocator(AMPLE_BYTES, settings);
            for (int i = 0; i < numThreads; i++) {
                ours.onThread("connection " + i).allocate("connection " + i, bufferBytes);
            }
            var real = new RealNetty(settings);
            var buffers = allocateOnThreads(real, numThreads, bufferBytes);
            long ourBytes = 0;
            long realBytes = 0;
            for (int arena = 0; arena < numArenas; arena++) {
                ourBytes += ours.arenas().get(arena).metrics().numActiveBytes();
                realBytes += real.metrics(arena).numActiveBytes();
            }
            buffers.forEach(RealNetty.Buffer::release);
            lines.add(new Line("bytes in chunks, arenas: " + numArenas, "" + ourBytes, "" + realBytes));
        }
        String asked = "" + (long) numThreads * bufferBytes;
        lines.add(new Line("bytes in live buffers", asked, asked));
        return new Report("netty#6343", numThreads + " connections, each on a thread of its own, ask for 1 KiB",
                "ours", "Netty 4.1.48", lines);
    }

    /**
     * Somebody is given a part of a buffer and releases it twice. A slice with {@code retain()} shares the parent's
     * count: the parent is gone, and the error shows up where its owner reads. A {@code retainedSlice()} has its own
     * count, and the second release itself fails.
     */
    public static Report doubleReleaseOfASlice() {
        var first = new SliceStory(parent -> parent.slice(0, 4).retain());
        var second = new SliceStory(parent -> parent.retainedSlice(0, 4));
        var lines = new ArrayList<Line>();
        for (int i = 0; i < first.lines.size(); i++) {
            lines.add(new Line(first.lines.get(i).name, first.lines.get(i).left, second.lines.get(i).left));
        }
        return new Report("netty#10713", "a part of a buffer is handed out and released twice",
                "slice().retain()", "retainedSlice()", lines);
    }

    private static List<Integer> usage(ArenaMetrics metrics) {
        return metrics.usagePercent().values().stream().flatMap(List::stream).toList();
    }

    /** The threads live until all have allocated; a thread's end would free its arena for the next one. */
    private static List<RealNetty.Buffer> allocateOnThreads(RealNetty real, int numThreads, int bufferBytes) {
        var buffers = new ArrayList<RealNetty.Buffer>();
        var end = new CountDownLatch(1);
        try {
            for (int i = 0; i < numThreads; i++) {
                var done = new CountDownLatch(1);
                var thread = new Thread(() -> {
                    buffers.add(real.allocate(bufferBytes)); // one thread after the other
                    done.countDown();
                    awaitQuietly(end);
                }, "connection " + i);
                thread.setDaemon(true);
                thread.start();
                awaitQuietly(done);
            }
            return buffers;
        } finally {
            end.countDown();
        }
    }

    private static void awaitQuietly(CountDownLatch latch) {
        try {
            latch.await();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
        }
    }

    /** The same buffers on ours and on real Netty, without thread caches. */
    private static final class Both {

        private final NettyAllocator ours = new NettyAllocator(AMPLE_BYTES, NO_CACHE);
        private final RealNetty real = new RealNetty(NO_CACHE);
        private final List<MemoryHandle> handles = new ArrayList<>();
        private final List<RealNetty.Buffer> buffers = new ArrayList<>();

        void allocate(int sizeBytes) {
            handles.add(ours.allocate("buffer " + handles.size(), sizeBytes));
            buffers.add(real.allocate(sizeBytes));
        }

        void free(int number) {
            ours.free(handles.set(number, null));
            buffers.set(number, null).release();
        }

        void freeAll() {
            for (int number = 0; number < handles.size(); number++) {
                if (handles.get(number) != null) {
                    free(number);
                }
            }
        }

        void line(List<Line> lines, String name, Function<ArenaMetrics, Object> number) {
            lines.add(new Line(name, number.apply(ours.arenas().get(0).metrics()).toString(),
                    number.apply(real.metrics(0)).toString()));
        }

        Line sameForBoth(String name, long number) {
            return new Line(name, "" + number, "" + number);
        }

        Report report(String issue, String story, List<Line> lines) {
            return new Report(issue, story, "ours", "Netty 4.1.48", lines);
        }
    }

    /** What happens to the owner of the parent. */
    private static final class SliceStory {

        private final List<Line> lines = new ArrayList<>();

        SliceStory(UnaryOperator<ByteBuf> handOut) {
            var parent = PooledByteBufAllocator.DEFAULT.heapBuffer(16).writeLong(42);
            var part = handOut.apply(parent);
            tell("parent's refCnt, part handed out", parent.refCnt());
            part.release();
            tell("parent's refCnt, part released", parent.refCnt());
            tell("the part is released again", outcome(part::release));
            tell("parent's refCnt then", parent.refCnt());
            tell("the owner reads the parent", outcome(() -> parent.getLong(0)));
            if (parent.refCnt() > 0) {
                parent.release();
            }
        }

        private void tell(String name, Object value) {
            lines.add(new Line(name, value.toString(), ""));
        }

        private static String outcome(Runnable call) {
            try {
                call.run();
                return "works";
            } catch (IllegalReferenceCountException refusal) {
                return "refused: " + refusal.getMessage();
            }
        }
    }
}
