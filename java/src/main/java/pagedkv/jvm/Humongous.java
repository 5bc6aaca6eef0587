package pagedkv.jvm;

import com.sun.management.ThreadMXBean;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.ref.Reference;
import java.util.ArrayList;
import java.util.List;
import java.util.regex.Pattern;

/**
 * Arrays too large for a region, and what they cost.
 *
 * <p>An object larger than half a region is humongous: G1 gives it a run of whole neighbouring regions, and what it
 * does not fill of the last one stays empty until it dies. It is the large request of every allocator with fixed
 * blocks.
 *
 * <p>What is told is what the JVM did: the size of an object is the growth of the thread's own count of allocated
 * bytes, and its regions are the ones that G1 logged as it took them.
 */
public final class Humongous {

    private static final Pattern START = Pattern.compile("ALLOC(-FORCE)?\\(HUMS\\)");
    private static final Pattern MORE = Pattern.compile("ALLOC(-FORCE)?\\(HUMC\\)");
    private static final int ATTEMPTS = 5;

    private static final ThreadMXBean THREADS = (ThreadMXBean) ManagementFactory.getThreadMXBean();

    private Humongous() {
    }

    /**
     * One array, allocated.
     *
     * @param arrayBytes its length, a {@code byte[]}
     * @param objectBytes what the JVM took for it: header, elements, and rounding up to 8 bytes
     * @param regions the whole regions it was given; 0 if it lies in an eden region beside other objects
     * @param wastedBytes what it leaves empty of them
     */
    public record Result(long arrayBytes, long objectBytes, int regions, long wastedBytes) {
    }

    /**
     * Allocates arrays around the sizes at which something changes, for this JVM's region size: exactly half a region
     * and a word more, exactly one region, a region's worth of elements, one and a half, three.
     */
    public static List<Result> aroundTheLimits() throws IOException {
        Collector.requireG1();
        long region = Diagnostics.flag("G1HeapRegionSize");
        long header = headerBytes();
        return allocate(region / 2 - header, region / 2 - header + 8, region - header, region, region * 3 / 2,
                region * 3);
    }

    /**
     * Allocates one array of each length, keeping all of them until the last is there.
     *
     * @throws IllegalStateException if this JVM runs another collector than G1
     */
    public static List<Result> allocate(long... arrayBytes) throws IOException {
        var results = new ArrayList<Result>();
        var kept = new ArrayList<byte[]>();
        for (long length : arrayBytes) {
            results.add(allocateOne(Math.toIntExact(length), kept));
        }
        Reference.reachabilityFence(kept);
        return results;
    }

    /** How long the part of a {@code byte[]} before its elements is: 16 bytes, unless the JVM's flags change it. */
    public static long headerBytes() {
        var kept = new ArrayList<byte[]>();
        return allocatedBytes(1024, kept) - 1024;
    }

    private static Result allocateOne(int length, List<byte[]> kept) throws IOException {
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            try (var log = new RegionLog()) {
                long size = allocatedBytes(length, kept);
                String text = log.text();
                int starts = (int) START.matcher(text).results().count();
                int regions = starts + (int) MORE.matcher(text).results().count();
                long wasted = regions == 0 ? 0 : regions * log.before().regionSizeBytes() - size;
                // Else another thread has allocated such an object at the same time: try again.
                if (starts <= 1 && wasted >= 0 && wasted < log.before().regionSizeBytes()) {
                    return new Result(length, size, regions, wasted);
                }
            }
        }
        throw new IllegalStateException("other threads allocate humongous objects all the time: try again when they "
                + "have ended");
    }

    private static long allocatedBytes(int length, List<byte[]> kept) {
        THREADS.getCurrentThreadAllocatedBytes(); // the first call allocates itself
        long before = THREADS.getCurrentThreadAllocatedBytes();
        var array = new byte[length];
        long after = THREADS.getCurrentThreadAllocatedBytes();
        kept.add(array);
        return after - before;
    }
}
