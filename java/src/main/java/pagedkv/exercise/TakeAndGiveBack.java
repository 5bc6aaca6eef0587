package pagedkv.exercise;

import io.netty.buffer.PoolArenaMetric;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.util.concurrent.FastThreadLocalThread;
import java.lang.management.ManagementFactory;
import java.util.stream.Stream;

/**
 * Work for a thread: takes a buffer and gives it back, many times, one at a time. Afterwards it can be counted how often
 * the allocator's arenas were asked (what they did not serve, the thread's cache did), and how often the thread slept
 * because another one had an arena's lock.
 */
public final class TakeAndGiveBack implements Runnable {

    private static final int SMALL_BYTES = 256;

    private final PooledByteBufAllocator allocator;
    private final int numCalls;
    private final int bufferBytes;
    private volatile int done;
    private volatile Thread thread;
    private volatile long waits;

    public TakeAndGiveBack(PooledByteBufAllocator allocator, int numCalls) {
        this(allocator, numCalls, SMALL_BYTES);
    }

    /** With buffers of another size than 256 bytes. */
    public TakeAndGiveBack(PooledByteBufAllocator allocator, int numCalls, int bufferBytes) {
        this.allocator = allocator;
        this.numCalls = numCalls;
        this.bufferBytes = bufferBytes;
    }

    /** Several of Netty's own threads do this at the same time, {@code numCalls} each: how often they slept together. */
    public static long waitsTogether(PooledByteBufAllocator allocator, int numThreads, int numCalls)
            throws InterruptedException {
        var works = Stream.generate(() -> new TakeAndGiveBack(allocator, numCalls)).limit(numThreads).toList();
        var threads = works.stream().map(FastThreadLocalThread::new).toList();
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        return works.stream().mapToLong(TakeAndGiveBack::waits).sum();
    }

    @Override
    public void run() {
        thread = Thread.currentThread();
        long before = waitsSoFar();
        for (int call = 0; call < numCalls; call++) {
            allocator.directBuffer(bufferBytes).release();
            done = call + 1;
        }
        waits = waitsSoFar() - before;
    }

    /** How often this thread was put to sleep; short waits, which it spends spinning, do not count. */
    private static long waitsSoFar() {
        return ManagementFactory.getThreadMXBean().getThreadInfo(Thread.currentThread().getId()).getWaitedCount();
    }

    /** How many buffers were taken and given back. */
    public int done() {
        return done;
    }

    /** How often its thread slept while it did it. */
    public long waits() {
        return waits;
    }

    /** The thread that did it; null before it began. */
    public Thread thread() {
        return thread;
    }

    /** How many buffers the allocator's arenas have served since it was made. */
    public static long servedByArenas(PooledByteBufAllocator allocator) {
        return Stream.concat(allocator.metric().directArenas().stream(), allocator.metric().heapArenas().stream())
                .mapToLong(PoolArenaMetric::numAllocations).sum();
    }
}
