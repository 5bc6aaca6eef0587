package pagedkv.netty.tiers;

import io.netty.buffer.AdaptiveByteBufAllocator;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.PoolArenaMetric;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.util.ResourceLeakDetector;
import io.netty.util.Version;
import io.netty.util.concurrent.FastThreadLocalThread;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.FutureTask;
import java.util.function.Function;

/**
 * What became of the tiers after 4.1.48, asked of real Netty: 4.1.48 and the version of the class path, 4.2.
 *
 * <ul>
 *   <li>4.1.52: more size classes, four per doubling, no tiny ones; chunks hand out runs of any number of pages, no
 *   tree.
 *   <li>4.1.75: chunks of 4 MiB; thread caches only on Netty's own threads ({@code FastThreadLocalThread}).
 *   <li>4.2: the default allocator is the adaptive one; this pooled one is still there.
 * </ul>
 */
public final class Versions {

    private static final int BUFFER_BYTES = 256;

    private Versions() {
    }

    /** What one size is rounded up to, in bytes. */
    public record Rounding(int sizeBytes, int pooled4148, int pooled42, int adaptive42) {
    }

    /** One default, in both versions. */
    public record Default(String name, String in4148, String in42) {
    }

    /**
     * Who served a thread that allocates and frees one buffer after the other.
     *
     * @param numCached how many of its calls the thread cache served
     */
    public record CacheUse(String thread, int numCalls, long numCached) {
    }

    /**
     * What one {@code buffer()} and {@code release()} cost.
     *
     * @param numThreads threads of Netty's kind that shared one arena
     * @param cachedNanos nanoseconds with a thread cache
     * @param uncachedNanos without one
     */
    public record CacheTime(int numThreads, double cachedNanos, double uncachedNanos) {
    }

    /** Prints all of it. */
    public static void main(String[] arguments) {
        defaults().forEach(System.out::println);
        rounding(1, 24, 100, 500, 520, 700, 1_100, 5_000, 9_000, 20_000, 1_100_000).forEach(System.out::println);
        cacheUse(1_000).forEach(System.out::println);
        System.out.println(cacheTime(1, 200_000));
        System.out.println(cacheTime(2, 200_000));
    }

    /** The version of the Netty on the class path, such as 4.2.20.Final. */
    public static String onClassPath() {
        return Version.identify().get("netty-buffer").artifactVersion();
    }

    /** What the allocators make of these sizes, the adaptive one of 4.2 included. */
    public static List<Rounding> rounding(int... sizesBytes) {
        var old = new RealNetty(Settings.DEFAULT.withoutCache());
        var pooled = new PooledByteBufAllocator(false);
        var adaptive = new AdaptiveByteBufAllocator(false);
        return Arrays.stream(sizesBytes).mapToObj(size -> new Rounding(size, rounded(old, size), rounded(pooled, size),
                rounded(adaptive, size))).toList();
    }

    private static int rounded(RealNetty allocator, int sizeBytes) {
        var buffer = allocator.allocate(sizeBytes);
        try {
            return buffer.roundedBytes();
        } finally {
            buffer.release();
        }
    }

    private static int rounded(ByteBufAllocator allocator, int sizeBytes) {
        var buffer = allocator.heapBuffer(sizeBytes);
        try {
            return buffer.maxFastWritableBytes();
        } finally {
            buffer.release();
        }
    }

    /** The defaults that changed, and some that did not. */
    public static List<Default> defaults() {
        int oldPage = (Integer) RealNetty.setting("defaultPageSize");
        int oldOrder = (Integer) RealNetty.setting("defaultMaxOrder");
        int newPage = PooledByteBufAllocator.defaultPageSize();
        return List.of(
                new Default("ByteBufAllocator.DEFAULT", RealNetty.defaultAllocator(),
                        ByteBufAllocator.DEFAULT.getClass().getSimpleName()),
                new Default("page, bytes", "" + oldPage, "" + newPage),
                new Default("chunk, bytes", "" + (oldPage << oldOrder),
                        "" + (newPage << PooledByteBufAllocator.defaultMaxOrder())),
                new Default("thread caches for all threads", "" + RealNetty.setting("defaultUseCacheForAllThreads"),
                        "" + PooledByteBufAllocator.defaultUseCacheForAllThreads()),
                new Default("cached per tiny size", "" + RealNetty.setting("defaultTinyCacheSize"), "no tiny sizes"),
                new Default("cached per small size", "" + RealNetty.setting("defaultSmallCacheSize"),
                        "" + PooledByteBufAllocator.defaultSmallCacheSize()),
                new Default("cached per normal size", "" + RealNetty.setting("defaultNormalCacheSize"),
                        "" + PooledByteBufAllocator.defaultNormalCacheSize()));
    }

    /**
     * The pooled allocator of 4.2 on a plain thread and on one of Netty's, and on a plain one that was told to cache.
     */
    public static List<CacheUse> cacheUse(int numCalls) {
        var all = allocator(true);
        return List.of(cacheUse("plain thread", numCalls, new PooledByteBufAllocator(true), Thread::new),
                cacheUse("FastThreadLocalThread", numCalls, new PooledByteBufAllocator(true),
                        FastThreadLocalThread::new),
                cacheUse("plain thread, useCacheForAllThreads", numCalls, all, Thread::new));
    }

    private static CacheUse cacheUse(String name, int numCalls, PooledByteBufAllocator allocator,
            Function<Runnable, Thread> newThread) {
        on(newThread, () -> {
            for (int i = 0; i < numCalls; i++) {
                allocator.directBuffer(BUFFER_BYTES).release();
            }
            return null;
        });
        long byArenas = allocator.metric().directArenas().stream().mapToLong(PoolArenaMetric::numAllocations).sum();
        return new CacheUse(name, numCalls, numCalls - byArenas);
    }

    /**
     * Times both ways in turns and takes the median of the turns. The threads are Netty's own in both, so that only
     * the cache differs: {@code buffer(256)} and {@code release()} in a loop, all threads on one arena. The leak
     * detector, which looks at one buffer in 128 and takes its time for it, is off meanwhile. A result is of this
     * machine.
     *
     * @param numThreads 1 shows the way alone; more also shows the wait for the arena's lock
     */
    public static CacheTime cacheTime(int numThreads, int numCallsPerThread) {
        int turns = 7;
        var cached = new double[turns];
        var uncached = new double[turns];
        var level = ResourceLeakDetector.getLevel();
        ResourceLeakDetector.setLevel(ResourceLeakDetector.Level.DISABLED);
        try {
            takeTurns(cached, uncached, numThreads, numCallsPerThread);
        } finally {
            ResourceLeakDetector.setLevel(level);
        }
        return new CacheTime(numThreads, median(cached), median(uncached));
    }

    private static void takeTurns(double[] cached, double[] uncached, int numThreads, int numCallsPerThread) {
        for (int turn = -2; turn < cached.length; turn++) { // two turns to warm up
            double with = nanosPerCall(allocator(true), numThreads, numCallsPerThread);
            double without = nanosPerCall(allocator(false), numThreads, numCallsPerThread);
            if (turn >= 0) {
                cached[turn] = with;
                uncached[turn] = without;
            }
        }
    }

    private static double median(double[] values) {
        Arrays.sort(values);
        return values[values.length / 2];
    }

    private static double nanosPerCall(PooledByteBufAllocator allocator, int numThreads, int numCalls) {
        var start = new CountDownLatch(1);
        var tasks = new ArrayList<FutureTask<Long>>();
        for (int i = 0; i < numThreads; i++) {
            var task = new FutureTask<>(() -> {
                start.await();
                long began = System.nanoTime();
                for (int call = 0; call < numCalls; call++) {
                    allocator.directBuffer(BUFFER_BYTES).release();
                }
                return System.nanoTime() - began;
            });
            tasks.add(task);
            new FastThreadLocalThread(task).start();
        }
        start.countDown();
        return tasks.stream().mapToLong(Versions::resultOf).average().orElseThrow() / numCalls;
    }

    /** One arena, with or without caches for every thread. */
    private static PooledByteBufAllocator allocator(boolean cached) {
        return new PooledByteBufAllocator(true, 1, 1, 8192, 9, cached ? 256 : 0, cached ? 64 : 0, cached);
    }

    private static <T> T on(Function<Runnable, Thread> newThread, Callable<T> work) {
        var task = new FutureTask<>(work);
        newThread.apply(task).start();
        return resultOf(task);
    }

    private static <T> T resultOf(FutureTask<T> task) {
        try {
            return task.get();
        } catch (InterruptedException interrupted) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while a thread worked", interrupted);
        } catch (ExecutionException failed) {
            throw new IllegalStateException("the work failed: " + failed.getCause(), failed.getCause());
        }
    }
}
