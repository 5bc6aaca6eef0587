package pagedkv.bench;

import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Fork;
import org.openjdk.jmh.annotations.Level;
import org.openjdk.jmh.annotations.Measurement;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Param;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;
import org.openjdk.jmh.annotations.Threads;
import org.openjdk.jmh.annotations.Warmup;
import pagedkv.shared.PoolOptions;
import pagedkv.shared.SharedPool;

/**
 * Batches per second through the shared pool, with a member for each thread: as if each were a process of its own.
 *
 * <pre>
 *   mvn -q -f java/pom.xml -Pbench -Dmaven.test.skip=true package
 *   java -cp 'java/target/bench/pagedkv.jar:java/target/bench/lib/*' org.openjdk.jmh.Main SharedPoolBenchmark
 * </pre>
 *
 * <p>{@code pairs} allocates a batch and releases it. {@code pairsWithData} also writes 8 bytes to each block, through
 * a view of it, as {@link PairBenchmark} does with the pools of one process.
 */
@BenchmarkMode(Mode.Throughput)
@OutputTimeUnit(TimeUnit.SECONDS)
@Fork(2)
@Warmup(iterations = 3, time = 1)
@Measurement(iterations = 5, time = 1)
@Threads(1)
public class SharedPoolBenchmark {

    /** One pool for all threads. */
    @State(Scope.Benchmark)
    public static class Pool {

        private static final int NUM_BLOCKS = 4096;

        final String name = "bench-" + ProcessHandle.current().pid();
        private SharedPool made;

        @Setup
        public void setUp() {
            made = SharedPool.create(name, NUM_BLOCKS, 1024);
        }

        @TearDown
        public void tearDown() {
            made.reap();
            int free = made.numFreeBlocks();
            made.unlink();
            made.close();
            if (free != NUM_BLOCKS) {
                throw new IllegalStateException("lost blocks: " + free + " are free");
            }
        }
    }

    /** The member of one thread. */
    @State(Scope.Thread)
    public static class Worker {

        @Param({"1", "64"})
        public int batchBlocks;

        @Param({"0", "64"})
        public int cacheBlocks;

        private SharedPool member;
        private long stamp;

        @Setup(Level.Trial)
        public void setUp(Pool pool) {
            member = SharedPool.join(pool.name, PoolOptions.DEFAULT.withCacheBlocks(cacheBlocks));
        }

        @TearDown(Level.Trial)
        public void tearDown(Pool pool) {
            member.close();
        }
    }

    @Benchmark
    public int[] pairs(Worker worker) {
        int[] blocks = worker.member.allocate(worker.batchBlocks);
        worker.member.release(blocks);
        return blocks;
    }

    @Benchmark
    public long pairsWithData(Worker worker) {
        int[] blocks = worker.member.allocate(worker.batchBlocks);
        long sum = 0;
        for (int block : blocks) {
            var view = worker.member.buffer(block);
            view.putLong(0, worker.stamp++);
            sum += view.getLong(0);
        }
        worker.member.release(blocks);
        return sum;
    }
}
