package pagedkv.table;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Random;
import java.util.function.Supplier;
import java.util.stream.Collectors;

/**
 * What a store of block tables costs: bytes, and nanoseconds per append and per lookup (B6).
 *
 * <p>Sequences grow together, one block each in turn, as they do while they are decoded. Then blocks are looked up at
 * random, the same ones in every store. All stores are filled and read in turn in each round, the first rounds are
 * thrown away, and the median of the rest is told with the lowest and the highest. The answers are added up and
 * compared: so the JVM cannot leave the work out, and a store that answers wrongly is found.
 *
 * <p>It is this thread's CPU time: on a machine with other work, waiting for a processor does not count, and neither
 * does a garbage collection in other threads. Times from within one JVM are good for orders of magnitude. A benchmark
 * runs each variant in a JVM of its own.
 */
public final class TableCost {

    private static final int WARM_UP_ROUNDS = 20;
    private static final int ROUNDS = 7;
    private static final int NUM_LOOKUPS = 20_000;
    private static final int SEED = 1;
    private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

    private TableCost() {
    }

    /** Of the rounds that were measured, per call. */
    public record Nanos(double median, double lowest, double highest) {

        static Nanos of(double[] rounds) {
            double[] sorted = rounds.clone();
            Arrays.sort(sorted);
            return new Nanos(sorted[sorted.length / 2], sorted[0], sorted[sorted.length - 1]);
        }

        @Override
        public String toString() {
            return String.format(Locale.ROOT, "%,.0f (%,.0f–%,.0f)", median, lowest, highest);
        }
    }

    /** @param bytes what the store says that it takes; -1 if it does not say */
    public record Row(String store, long bytes, Nanos append, Nanos lookup) {
    }

    /** One row per store. */
    public record Result(int numSequences, int blocksPerSequence, List<Row> rows) {

        /** 4 bytes for each block and 8 for each sequence: what is left when nothing but the contents is counted. */
        public long contentBytes() {
            return numSequences * (4L * blocksPerSequence + 8);
        }

        /** The row of this store. */
        public Row row(String store) {
            return rows.stream().filter(row -> row.store().equals(store)).findFirst()
                    .orElseThrow(() -> new IllegalArgumentException("no store is called " + store));
        }

        @Override
        public String toString() {
            String head = String.format(Locale.ROOT, "%,d sequences × %,d blocks; the contents alone: %,d bytes%n%-12s"
                    + "%14s%10s%24s%24s%n", numSequences, blocksPerSequence, contentBytes(), "store", "bytes",
                    "per seq.", "ns per append", "ns per lookup");
            return rows.stream().map(this::line).collect(Collectors.joining(System.lineSeparator(), head, ""));
        }

        private String line(Row row) {
            String bytes = row.bytes() < 0 ? "not told" : String.format(Locale.ROOT, "%,d", row.bytes());
            String each = row.bytes() < 0 ? "" : String.format(Locale.ROOT, "%,d", row.bytes() / numSequences);
            return String.format(Locale.ROOT, "%-12s%14s%10s%24s%24s", row.store(), bytes, each, row.append(),
                    row.lookup());
        }
    }

    /**
     * The three stores of this package, by the names "two-level", "linked" and "dense".
     *
     * @param denseColumns how many blocks the longest sequence may have: the width of the dense table
     */
    public static Result measure(int numSequences, int blocksPerSequence, int denseColumns) {
        Map<String, Supplier<TableStore>> stores = new LinkedHashMap<>();
        stores.put("two-level", TwoLevelTable::new);
        stores.put("linked", LinkedTable::new);
        stores.put("dense", () -> new DenseTable(numSequences, denseColumns));
        return measure(numSequences, blocksPerSequence, stores);
    }

    /**
     * Any stores, by name, such as one of your own.
     *
     * @throws IllegalStateException if one of them looks a block up wrongly
     */
    public static Result measure(int numSequences, int blocksPerSequence, Map<String, Supplier<TableStore>> stores) {
        if (numSequences < 1 || blocksPerSequence < 1) {
            throw new IllegalArgumentException("measure at least 1 sequence of 1 block, not %d of %d"
                    .formatted(numSequences, blocksPerSequence));
        }
        var lookups = new Lookups(numSequences, blocksPerSequence);
        List<Candidate> candidates = new ArrayList<>();
        stores.forEach((name, maker) -> candidates.add(new Candidate(name, maker)));
        for (int round = -WARM_UP_ROUNDS; round < ROUNDS; round++) {
            for (Candidate candidate : candidates) {
                candidate.run(round, lookups);
            }
        }
        return new Result(numSequences, blocksPerSequence, candidates.stream().map(Candidate::row).toList());
    }

    /** The physical block that is entered: any rule will do that a store cannot guess. */
    private static int blockOf(long sequence, int logicalBlock) {
        return (int) (sequence * 31 + logicalBlock * 7L) & Integer.MAX_VALUE;
    }

    /** Which blocks are looked up, chosen in advance: choosing is not part of what is timed. */
    private static final class Lookups {
        private final int numSequences;
        private final int blocksPerSequence;
        private final int[] sequences = new int[NUM_LOOKUPS];
        private final int[] logicalBlocks = new int[NUM_LOOKUPS];
        private long expected;

        Lookups(int numSequences, int blocksPerSequence) {
            this.numSequences = numSequences;
            this.blocksPerSequence = blocksPerSequence;
            var random = new Random(SEED);
            for (int i = 0; i < NUM_LOOKUPS; i++) {
                sequences[i] = random.nextInt(numSequences);
                logicalBlocks[i] = random.nextInt(blocksPerSequence);
                expected += blockOf(sequences[i], logicalBlocks[i]);
            }
        }

        void fill(TableStore store) {
            for (int logicalBlock = 0; logicalBlock < blocksPerSequence; logicalBlock++) {
                for (int sequence = 0; sequence < numSequences; sequence++) {
                    store.append(sequence, blockOf(sequence, logicalBlock));
                }
            }
        }

        long read(TableStore store) {
            long sum = 0;
            for (int i = 0; i < NUM_LOOKUPS; i++) {
                sum += store.lookup(sequences[i], logicalBlocks[i]);
            }
            return sum;
        }
    }

    /** One store under measurement: a new one for each round. */
    private static final class Candidate {
        private final String name;
        private final Supplier<TableStore> maker;
        private final double[] appendNanos = new double[ROUNDS];
        private final double[] lookupNanos = new double[ROUNDS];
        private long bytes;

        Candidate(String name, Supplier<TableStore> maker) {
            this.name = name;
            this.maker = maker;
        }

        void run(int round, Lookups lookups) {
            TableStore store = maker.get();
            long start = THREADS.getCurrentThreadCpuTime();
            lookups.fill(store);
            long filled = THREADS.getCurrentThreadCpuTime();
            long sum = lookups.read(store);
            long read = THREADS.getCurrentThreadCpuTime();
            if (sum != lookups.expected) {
                throw new IllegalStateException(name + " looks blocks up wrongly: their sum is %d, not %d"
                        .formatted(sum, lookups.expected));
            }
            if (round >= 0) {
                appendNanos[round] = (double) (filled - start) / lookups.numSequences / lookups.blocksPerSequence;
                lookupNanos[round] = (double) (read - filled) / NUM_LOOKUPS;
            }
            bytes = store.numBytes();
        }

        Row row() {
            return new Row(name, bytes, Nanos.of(appendNanos), Nanos.of(lookupNanos));
        }
    }
}
