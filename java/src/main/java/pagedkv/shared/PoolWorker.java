package pagedkv.shared;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import pagedkv.pool.PoolException;

/**
 * A worker process in Java: a member of a shared pool that does what it is told, line by line.
 *
 * <p>The commands and answers are those of the worker in Python, and specified there
 * ({@code pagedkv/lab/workers_processes_child.py}). The process ends when its standard input does, at once and without
 * leaving the pool: as if it had been killed.
 */
public final class PoolWorker {

    private static final HexFormat HEX = HexFormat.of();

    private SharedPool pool;

    private PoolWorker() {}

    public static void main(String[] args) throws IOException {
        var lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        var answers = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        var worker = new PoolWorker();
        String line;
        while ((line = lines.readLine()) != null) {
            answers.print(worker.answer(line) + "\n");
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private String answer(String line) {
        try {
            var words = line.strip().split("\\s+");
            var result = carryOut(words[0], Arrays.copyOfRange(words, 1, words.length));
            return result.isEmpty() ? "ok" : "ok " + result;
        } catch (PoolException refusal) {
            return oneLine("refused " + refusal.kind() + " " + refusal.getMessage());
        } catch (RuntimeException problem) {
            return oneLine("failed " + problem.getClass().getSimpleName() + " " + problem.getMessage());
        }
    }

    private String carryOut(String command, String[] arguments) {
        switch (command) {
            case "join":
                pool = SharedPool.join(arguments[0]);
                return String.valueOf(pool.slot());
            case "allocate":
                return withGenerations(pool.allocate(Integer.parseInt(arguments[0])));
            case "retain":
                retain(arguments);
                return "";
            case "release":
                pool.release(numbers(Stream.of(arguments)));
                return "";
            case "generation":
                return String.valueOf(pool.generation(Integer.parseInt(arguments[0])));
            case "write":
                write(Integer.parseInt(arguments[0]), HEX.parseHex(arguments[1]));
                return "";
            case "read":
                var bytes = new byte[Integer.parseInt(arguments[1])];
                pool.buffer(Integer.parseInt(arguments[0])).get(0, bytes);
                return HEX.formatHex(bytes);
            case "publish":
                return String.valueOf(pool.publish(tokens(arguments[0]), numbers(Stream.of(arguments).skip(1))));
            case "find":
                return IntStream.of(pool.find(tokens(arguments[0]))).mapToObj(String::valueOf)
                        .collect(Collectors.joining(" "));
            case "reuse":
                return withGenerations(pool.reuse(tokens(arguments[0])));
            case "reap":
                return pool.reap().dead().stream()
                        .map(dead -> dead.slot() + ":" + dead.numReferences() + ":" + dead.numFreeBlocks())
                        .collect(Collectors.joining(" "));
            case "close":
                pool.close();
                return "";
            default:
                throw new IllegalArgumentException("no such command: " + command);
        }
    }

    /** Blocks, each as B or as B:G, with the generation that it must have. */
    private void retain(String[] named) {
        var blocks = numbers(Stream.of(named).map(each -> each.split(":")[0]));
        if (Stream.of(named).anyMatch(each -> each.contains(":"))) {
            pool.retain(blocks, numbers(Stream.of(named).map(each -> each.split(":")[1])), null);
        } else {
            pool.retain(blocks);
        }
    }

    private void write(int block, byte[] data) {
        if (data.length > pool.blockBytes()) {
            throw new IllegalArgumentException(
                    "%d bytes do not fit into a block of %d".formatted(data.length, pool.blockBytes()));
        }
        pool.buffer(block).put(0, data);
    }

    private String withGenerations(int[] blocks) {
        return IntStream.of(blocks).mapToObj(block -> block + ":" + pool.generation(block))
                .collect(Collectors.joining(" "));
    }

    private static int[] tokens(String text) {
        return numbers(Stream.of(text.split(",")));
    }

    private static int[] numbers(Stream<String> words) {
        return words.mapToInt(Integer::parseInt).toArray();
    }

    private static String oneLine(String text) {
        return text.replace('\n', ' ');
    }
}
