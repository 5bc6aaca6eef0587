package pagedkv.bench;

import io.netty.buffer.AdaptiveByteBufAllocator;
import io.netty.buffer.ByteBufAllocator;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.AuxCounters;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import pagedkv.concurrent.BlockMemory;
import pagedkv.concurrent.CacheStats;
import pagedkv.concurrent.CachedLockFreePool;
import pagedkv.concurrent.PoolKind;
import pagedkv.pool.Pool;

/** Batches per second; {@link BenchJava} makes pairs of them. */
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.SECONDS)
public class PairBenchmark {

    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    /** One pool for all threads. */
    @State(Scope.Benchmark)
    public static class Shared {

        @Param("cached")
        public String pool;

        @Param("1")
        public int batchBlocks;

        @Param("batch")
        public String calls;

        @Param("16")
        public int cacheBlocks;

        @Param("4096")
        public int numBlocks;

        @Param("1024")
        public int blockBytes;

        private Pool made;
        private BlockMemory memory;
        private ByteBufAllocator netty;

        @Setup
        public void setUp() {
            switch (pool) {
                case "netty pooled" -> netty = PoolKind.cachingNetty();
                case "netty adaptive" -> netty = new AdaptiveByteBufAllocator(true, true);
                default -> {
                    made = PoolKind.labelled(pool).make(numBlocks, cacheBlocks);
                    memory = new BlockMemory(numBlocks, blockBytes);
                }
            }
        }

        @TearDown
        public void tearDown() {
            if (made != null && made.numFreeBlocks() != numBlocks) {
                throw new IllegalStateException(pool + " has lost blocks: " + made.numFreeBlocks() + " are free");
            }
        }

        private PairWork work() {
            if (netty != null) {
                return new NettyWork(netty, blockBytes, batchBlocks);
            }
            return calls.equals("single") ? new SinglePoolWork(made, memory, batchBlocks)
                    : new PoolWork(made, memory, batchBlocks);
        }

        private CacheStats cacheStats() {
            return made instanceof CachedLockFreePool cached ? cached.cacheStatsOfThisThread() : new CacheStats(0, 0);
        }
    }

    /** Of each thread. The public fields are what JMH reads at the end of an iteration. */
    @State(Scope.Thread)
    @AuxCounters(AuxCounters.Type.EVENTS)
    public static class Worker {

        public long hits;
        public long misses;
        public long batches;
        public long cpuNanos;
        private PairWork work;
        private long stamp;
        private long stampBefore;
        private long cpuBefore;
        private CacheStats before;

        @Setup(Level.Iteration)
        public void setUp(Shared shared) {
            if (work == null) {
                work = shared.work();
            }
            before = shared.cacheStats();
            stampBefore = stamp;
            cpuBefore = THREADS.getCurrentThreadCpuTime();
        }

        @TearDown(Level.Iteration)
        public void tearDown(Shared shared) {
            cpuNanos = THREADS.getCurrentThreadCpuTime() - cpuBefore;
            batches = stamp - stampBefore;
            var after = shared.cacheStats();
            hits = after.hits() - before.hits();
            misses = after.misses() - before.misses();
        }
    }

    @Benchmark
    public long pairs(Worker worker) {
        return worker.work.batch(worker.stamp++);
    }
}
