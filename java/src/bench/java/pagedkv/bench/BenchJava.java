package pagedkv.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;
import java.util.stream.IntStream;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.RunResult;
import org.openjdk.jmh.runner.Runner;
import org.openjdk.jmh.runner.RunnerException;
import org.openjdk.jmh.runner.options.ChainedOptionsBuilder;
import org.openjdk.jmh.runner.options.OptionsBuilder;
import org.openjdk.jmh.runner.options.TimeValue;
import org.openjdk.jmh.runner.options.VerboseMode;

/**
 * {@code make bench-java}: all pools by threads and batch, and the size of the thread cache from 0 to 64.
 *
 * <pre>
 *   --quick         short runs, in less than three minutes
 *   --forks N       JVMs for each figure: 3, in a quick run 1
 *   --json FILE     where the results go, with the machine named
 *   --only WORD     only the pools with this word in their name; may be repeated
 * </pre>
 *
 * <p>Every figure comes twice: per second by the clock, and per second of CPU time of the threads, which other work on
 * the machine disturbs less. The second does not see time that a thread sleeps, waiting for a lock.
 */
public final class BenchJava {

    private static final List<String> POOLS =
            List.of("monitor", "sharded", "lock-free", "cached", "netty pooled", "netty adaptive");
    /** After the few warm-ups of a quick run it has a hundredth of its speed. */
    private static final String SLOW_TO_WARM_UP = "netty adaptive";
    private static final String[] CACHE_SIZES = {"0", "1", "2", "4", "8", "16", "32", "64"};
    /** For the sweep: blocks that a thread takes and gives back one by one, the last one first. */
    private static final String SWEEP_BATCH = "8";

    private static final String[] FEW_CACHE_SIZES = {"0", "2", "4", "8", "64"};

    private final boolean quick;
    private final int forks;
    private final Path json;
    private final List<String> pools;
    private final List<Map<String, Object>> results = new ArrayList<>();

    private BenchJava(boolean quick, int forks, Path json, List<String> pools) {
        this.quick = quick;
        this.forks = forks > 0 ? forks : quick ? 1 : 3;
        this.json = json;
        this.pools = pools;
    }

    public static void main(String[] args) throws RunnerException, IOException {
        boolean quick = false;
        int forks = 0;
        Path json = null;
        var only = new ArrayList<String>();
        for (int i = 0; i < args.length; i++) {
            switch (args[i]) {
                case "--quick" -> quick = true;
                case "--forks" -> forks = Integer.parseInt(args[++i]);
                case "--json" -> json = Path.of(args[++i]);
                case "--only" -> only.add(args[++i]);
                default -> {
                    System.err.println("unknown: " + args[i] + " (there are --quick, --forks N, --json FILE, --only WORD)");
                    System.exit(2);
                }
            }
        }
        var pools = new ArrayList<>(POOLS);
        if (!only.isEmpty()) {
            pools.removeIf(pool -> only.stream().noneMatch(pool::contains));
        } else if (quick) {
            pools.remove(SLOW_TO_WARM_UP);
        }
        new BenchJava(quick, forks, json, pools).run();
    }

    private void run() throws RunnerException, IOException {
        var machine = Machine.description();
        int cores = Runtime.getRuntime().availableProcessors();
        System.out.printf("%-15s %7s %5s %7s %5s  %s%n", "pool", "threads", "batch", "calls", "cache",
                "million pairs: per second, per second of CPU time; median (quartiles); hit rate");
        for (int threads : quick ? new int[] {1, cores, 2 * cores} : upTo(2 * cores)) {
            for (String pool : pools) {
                measure(threads, "threads", builder -> builder.param("pool", pool)
                        .param("batchBlocks", quick ? new String[] {"1", "8"} : new String[] {"1", "8", "64"}));
            }
        }
        if (pools.contains("cached")) {
            measure(cores, "cache size", builder -> builder.param("pool", "cached").param("calls", "single")
                    .param("batchBlocks", SWEEP_BATCH).param("cacheBlocks", quick ? FEW_CACHE_SIZES : CACHE_SIZES));
        }
        if (json != null) {
            var report = new LinkedHashMap<String, Object>();
            report.put("benchmark", "allocate + write 8 bytes + release, Java");
            report.put("quick", quick);
            report.put("forks", forks);
            report.put("machine", machine);
            report.put("netty_settings",
                    "thread caches on for all threads, on FastThreadLocalThreads; leak detection off");
            report.put("results", results);
            Files.writeString(json, Json.of(report) + "\n");
            System.out.println("written: " + json);
        }
    }

    private static int[] upTo(int most) {
        return IntStream.rangeClosed(1, most).toArray();
    }

    private void measure(int threads, String series, UnaryOperator<ChainedOptionsBuilder> parameters)
            throws RunnerException {
        var builder = new OptionsBuilder()
                .include(PairBenchmark.class.getName())
                .threads(threads)
                .forks(forks)
                // shorter ones do Netty an injustice: it has more code to compile
                .warmupIterations(quick ? 4 : 5).warmupTime(TimeValue.milliseconds(quick ? 500 : 1000))
                .measurementIterations(quick ? 8 : 5).measurementTime(TimeValue.milliseconds(quick ? 100 : 1000))
                .jvmArgsAppend("-Djmh.executor=CUSTOM", "-Djmh.executor.class=" + NettyThreads.class.getName(),
                        "-Dio.netty.leakDetection.level=disabled", "-Xms512m", "-Xmx512m",
                        "--add-opens=java.base/java.nio=ALL-UNNAMED",
                        "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED",
                        "-Dio.netty.tryReflectionSetAccessible=true")
                .shouldFailOnError(true)
                .timeout(TimeValue.seconds(60))
                .verbosity(VerboseMode.SILENT);
        for (RunResult result : sorted(new Runner(parameters.apply(builder).build()).run())) {
            add(series, result);
        }
    }

    private static Collection<RunResult> sorted(Collection<RunResult> results) {
        return results.stream().sorted(Comparator.comparingInt(
                result -> 100 * number(result, "batchBlocks") + number(result, "cacheBlocks"))).toList();
    }

    private void add(String series, RunResult result) {
        BenchmarkParams parameters = result.getParams();
        int batch = number(result, "batchBlocks");
        String pool = parameters.getParam("pool");
        boolean cached = pool.equals("cached");
        var iterations = result.getBenchmarkResults().stream()
                .flatMap(fork -> fork.getIterationResults().stream()).toList();
        var samples = iterations.stream()
                .mapToDouble(one -> batch * one.getPrimaryResult().getScore()).sorted().toArray();
        var byCpu = iterations.stream()
                .mapToDouble(one -> 1e9 * batch * counter(one, "batches") / counter(one, "cpuNanos"))
                .sorted().toArray();
        double hits = iterations.stream().mapToDouble(one -> counter(one, "hits")).sum();
        double misses = iterations.stream().mapToDouble(one -> counter(one, "misses")).sum();

        var row = new LinkedHashMap<String, Object>();
        row.put("series", series);
        row.put("pool", pool);
        row.put("threads", parameters.getThreads());
        row.put("batch_blocks", batch);
        row.put("calls", parameters.getParam("calls"));
        row.put("cache_blocks", cached ? number(result, "cacheBlocks") : null);
        row.put("pairs_per_s", spread(samples));
        row.put("pairs_per_cpu_s", spread(byCpu));
        row.put("hit_rate", cached ? hits / (hits + misses) : null);
        results.add(row);
        System.out.printf("%-15s %7d %5d %7s %5s  %s  %s  %s%n", pool, parameters.getThreads(), batch, row.get("calls"),
                cached ? row.get("cache_blocks") : "", shown(samples), shown(byCpu),
                cached ? "%.3f".formatted(hits / (hits + misses)) : "");
    }

    private static Map<String, Object> spread(double[] sorted) {
        var spread = new LinkedHashMap<String, Object>();
        spread.put("median", at(sorted, 0.5));
        spread.put("first_quartile", at(sorted, 0.25));
        spread.put("third_quartile", at(sorted, 0.75));
        spread.put("lowest", sorted[0]);
        spread.put("highest", sorted[sorted.length - 1]);
        spread.put("samples", sorted.length);
        return spread;
    }

    private static String shown(double[] sorted) {
        return "%7.2f (%6.2f … %6.2f)".formatted(at(sorted, 0.5) / 1e6, at(sorted, 0.25) / 1e6, at(sorted, 0.75) / 1e6);
    }

    private static double at(double[] sorted, double part) {
        double place = part * (sorted.length - 1);
        int below = (int) place;
        int above = Math.min(below + 1, sorted.length - 1);
        return sorted[below] + (place - below) * (sorted[above] - sorted[below]);
    }

    private static double counter(IterationResult iteration, String name) {
        var counter = iteration.getSecondaryResults().get(name);
        return counter == null ? 0 : counter.getScore();
    }

    private static int number(RunResult result, String parameter) {
        return Integer.parseInt(result.getParams().getParam(parameter));
    }
}
