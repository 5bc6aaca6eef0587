package pagedkv.shared;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.stream.Collectors;
import java.util.zip.CRC32;
import pagedkv.pool.DoubleFreeException;
import pagedkv.pool.OutOfBlocksException;
import pagedkv.pool.PoolException;
import pagedkv.pool.UseAfterFreeException;

/** A worker of the crash test, in Java. The protocol is explained in {@code tests/shared/worker.py}. */
final class CrashWorker {

    private static final int BOARD_NUMBERS = 64;
    private static final int MOST_HELD = 60;
    private static final String END = "quit";

    private final BlockingQueue<String> lines;
    private final SteppedAtomics atomics = new SteppedAtomics(CrashWorker::killThisProcess);
    private final Map<Integer, Integer> references = new TreeMap<>();
    private final Random random = new Random();
    private SharedPool pool;
    private ByteBuffer board;

    private CrashWorker(BlockingQueue<String> lines) {
        this.lines = lines;
    }

    public static void main(String[] args) throws InterruptedException {
        var lines = new LinkedBlockingQueue<String>();
        var reader = new Thread(() -> read(lines), "reader");
        reader.setDaemon(true);
        reader.start();
        var worker = new CrashWorker(lines);
        for (String line = lines.take(); !line.equals(END); line = lines.take()) {
            String answer;
            try {
                answer = worker.answer(line.strip().split(" +"));
            } catch (Exception | AssertionError error) {
                answer = ("bad " + error).replace("\n", " | ");
            }
            System.out.println(answer);
        }
        Runtime.getRuntime().halt(0);
    }

    /** A thread of its own, since one cannot ask whether a line has come. When there are no more, that is the end. */
    private static void read(BlockingQueue<String> lines) {
        try (var input = new BufferedReader(new InputStreamReader(System.in))) {
            input.lines().forEach(lines::add);
        } catch (IOException end) {
            System.err.println(end);
        }
        lines.add(END);
    }

    /** By SIGKILL; this thread does not go on. */
    private static void killThisProcess() {
        try {
            new ProcessBuilder("sh", "-c", "kill -9 " + ProcessHandle.current().pid()).start().waitFor();
            throw new IllegalStateException("still alive");
        } catch (IOException | InterruptedException error) {
            throw new IllegalStateException(error);
        }
    }

    private String answer(String[] line) throws IOException {
        int[] numbers = line[0].equals("join") ? null
                : Arrays.stream(line, 1, line.length).mapToInt(Integer::parseInt).toArray();
        return switch (line[0]) {
            case "join" -> join(line[1], Integer.parseInt(line[2]), line[3]);
            case "loop" -> loop(numbers[0], numbers[1]);
            case "held" -> "held " + references.entrySet().stream()
                    .map(held -> held.getKey() + ":" + held.getValue()).collect(Collectors.joining(" "));
            case "check" -> {
                references.keySet().forEach(this::check);
                yield "good";
            }
            case "allocate" -> allocate(numbers[0]);
            case "retain" -> change(numbers, 1);
            case "release" -> change(numbers, -1);
            case "reap" -> "reaped " + pool.reap().dead().stream().map(reaped -> String.valueOf(reaped.slot()))
                    .collect(Collectors.joining(" "));
            case "close" -> {
                pool.close();
                references.clear();
                yield "closed";
            }
            default -> throw new IllegalArgumentException("no such command: " + line[0]);
        };
    }

    private String join(String name, int cacheBlocks, String boardFile) throws IOException {
        pool = SharedPool.join(name, PoolOptions.DEFAULT.withCacheBlocks(cacheBlocks).withWaitSeconds(20), atomics);
        try (var file = FileChannel.open(Path.of(boardFile), StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            board = file.map(FileChannel.MapMode.READ_WRITE, 0, 8 * BOARD_NUMBERS).order(ByteOrder.LITTLE_ENDIAN);
        }
        return "joined " + pool.slot();
    }

    private String allocate(int n) {
        try {
            var blocks = pool.allocate(n);
            took(blocks);
            return "blocks " + Arrays.stream(blocks).mapToObj(String::valueOf).collect(Collectors.joining(" "));
        } catch (PoolException refusal) {
            return "refused " + refusal.kind();
        }
    }

    private String change(int[] blocks, int by) {
        try {
            if (by > 0) {
                pool.retain(blocks);
            } else {
                pool.release(blocks);
            }
        } catch (PoolException refusal) {
            return "refused " + refusal.kind();
        }
        count(blocks, by);
        return "done";
    }

    // the loop

    private String loop(int seed, int steps) {
        random.setSeed(seed);
        if (steps > 0) {
            atomics.arm(steps);
        }
        long operations = 0;
        while (lines.isEmpty()) {
            one();
            operations++;
        }
        atomics.disarm();
        if (lines.peek().equals(END)) {
            return "ended";
        }
        lines.remove();
        return "stopped " + operations;
    }

    private void one() {
        var held = new ArrayList<>(references.keySet());
        int total = references.values().stream().mapToInt(Integer::intValue).sum();
        int releases = total < MOST_HELD ? 400 : 4000;
        int what = random.nextInt(783 + releases);
        if (what < 300) {
            try {
                took(pool.allocate(1 + random.nextInt(8)));
            } catch (OutOfBlocksException full) {
                return;
            }
        } else if (what < 500) {
            retainFromBoard();
        } else if (what < 503) {
            pool.reap();
        } else if (held.isEmpty()) {
            return;
        } else if (what < 603) {
            var blocks = new int[] {any(held), any(held)};
            pool.retain(blocks);
            count(blocks, 1);
        } else if (what < 753) {
            int block = any(held);
            board.putLong(8 * random.nextInt(BOARD_NUMBERS), block + 1L << 16 | pool.generation(block));
        } else if (what < 783) {
            refused(held);
        } else {
            release(held);
        }
    }

    private int any(List<Integer> held) {
        return held.get(random.nextInt(held.size()));
    }

    private void release(List<Integer> held) {
        Collections.shuffle(held, random);
        var blocks = new ArrayList<Integer>();
        for (int block : held.subList(0, Math.min(held.size(), 1 + random.nextInt(8)))) {
            check(block);
            blocks.addAll(Collections.nCopies(1 + random.nextInt(references.get(block)), block));
        }
        var array = blocks.stream().mapToInt(Integer::intValue).toArray();
        pool.release(array);
        count(array, -1);
    }

    private void retainFromBoard() {
        long number = board.getLong(8 * random.nextInt(BOARD_NUMBERS));
        if (number == 0) {
            return;
        }
        int block = (int) (number >>> 16) - 1;
        int generation = (int) number & 0xFFFF;
        try {
            pool.retain(new int[] {block}, new int[] {generation}, null);
        } catch (UseAfterFreeException outOfDate) {
            return;
        }
        count(new int[] {block}, 1);
        require(pool.generation(block) == generation,
                "block " + block + " was retained at generation " + generation + ", has another");
        check(block);
    }

    /** Calls that must fail leave everything as it was; the check of counts later would show. */
    private void refused(List<Integer> held) {
        int other = random.nextInt(pool.numBlocks());
        while (references.containsKey(other)) {
            other = (other + 1) % pool.numBlocks();
        }
        try {
            pool.release(held.get(0), other);
            throw new AssertionError("block " + other + " was released without a reference");
        } catch (DoubleFreeException right) {
            // as it must be
        }
        int generation = pool.generation(held.get(0));
        try {
            int next = (generation + 1) % (1 << 14);
            pool.retain(new int[] {held.get(0), held.get(0)}, new int[] {generation, next}, null);
            throw new AssertionError("block " + held.get(0) + " was retained at another generation");
        } catch (UseAfterFreeException right) {
            // as it must be
        }
    }

    // the data

    private void took(int[] blocks) {
        for (int block : blocks) {
            require(!references.containsKey(block), "block " + block + " was handed out while this worker holds it");
            var data = new byte[pool.blockBytes() - 4];
            random.nextBytes(data);
            ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN).putLong(block).putLong(pool.generation(block));
            pool.buffer(block).put(data).putInt(crc(data));
        }
        count(blocks, 1);
    }

    private void check(int block) {
        var buffer = pool.buffer(block);
        var data = new byte[pool.blockBytes() - 4];
        buffer.get(data);
        var head = ByteBuffer.wrap(data).order(ByteOrder.LITTLE_ENDIAN);
        require(head.getLong() == block && head.getLong() == pool.generation(block) && buffer.getInt() == crc(data),
                "block " + block + " holds data of another one, or of another generation, or it was overwritten");
    }

    private static int crc(byte[] data) {
        var crc = new CRC32();
        crc.update(data);
        return (int) crc.getValue();
    }

    private void count(int[] blocks, int by) {
        for (int block : blocks) {
            references.merge(block, by, (count, more) -> count + more == 0 ? null : count + more);
        }
    }

    private static void require(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }
}
