package pagedkv.shared;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Assumptions;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.NullSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Creating, joining and removing; and everything that is refused on the way. */
class FilesTest {

    private static final PoolOptions AT_ONCE = PoolOptions.DEFAULT.withWaitSeconds(0);

    @RegisterExtension
    final PoolName pools = new PoolName();

    @TempDir
    Path folder;

    private static void patch(String name, long at, byte[] bytes) throws IOException {
        try (var channel = FileChannel.open(PoolName.file(name), StandardOpenOption.WRITE)) {
            channel.write(ByteBuffer.wrap(bytes), at);
        }
    }

    private static byte[] number(long number) {
        return ByteBuffer.allocate(8).order(ByteOrder.LITTLE_ENDIAN).putLong(number).array();
    }

    @ParameterizedTest
    @NullSource
    @ValueSource(strings = {"a/b", "", ".hidden", "with space", "größe", "line\n",
        "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"})
    void namesThatCannotBe(String wrong) {
        for (Runnable call : List.<Runnable>of(() -> SharedPool.create(wrong, 4, 64), () -> SharedPool.join(wrong),
                () -> SharedPool.remove(wrong))) {
            var error = assertThrows(IllegalArgumentException.class, call::run);
            assertTrue(error.getMessage().contains("no slash"), error.getMessage());
        }
    }

    @ParameterizedTest
    @CsvSource({"0, 64", "4, 0", "-1, 64", "4, -5", "2147483647, 64", "4, 2147483647"})
    void sizesThatCannotBe(int numBlocks, int blockBytes) {
        var name = pools.fresh();
        assertThrows(IllegalArgumentException.class, () -> SharedPool.create(name, numBlocks, blockBytes));
        assertEquals(List.of(), PoolName.leftOver(name));
    }

    @Test
    void optionsThatCannotBe() {
        assertThrows(IllegalArgumentException.class, () -> PoolOptions.DEFAULT.withCacheBlocks(-1));
        assertThrows(IllegalArgumentException.class, () -> PoolOptions.DEFAULT.withCacheBlocks(1025));
        assertThrows(IllegalArgumentException.class, () -> PoolOptions.DEFAULT.withWaitSeconds(-1));
        assertThrows(IllegalArgumentException.class, () -> PoolOptions.DEFAULT.withWaitSeconds(Double.NaN));
    }

    @ParameterizedTest
    @CsvSource(delimiter = '|', textBlock = """
            0  | 8 | 1      | its magic number: found 0x1, expected 0x564b4445474150
            8  | 4 | 7      | its version: found 7, expected 2: remove it, and create it again
            12 | 4 | 64     | its number of slots: found 64, expected 48
            16 | 8 | 4096   | longer than it was made
            16 | 8 | 999999 | the file is truncated
            24 | 8 | 0      | header is damaged: 8 blocks of 0 bytes
            24 | 8 | 65     | bytes from one block to the next: found 64, expected 128
            24 | 8 | 9999999999 | more than Java can map
            32 | 8 | -1     | it has 18446744073709551615 blocks of 64 bytes, more than Java can map
            32 | 8 | 0      | header is damaged: 0 blocks
            52 | 4 | 64     | its index entries: found 64, expected 0
            56 | 8 | 2      | its flags: found 2, expected 0
            56 | 8 | 1      | bytes from one block to the next: found 64, expected 192
            72 | 8 | 7169   | the offset of its empty hints: found 7169, expected 7168
            112 | 8 | 0     | the offset of its data: found 0, expected
            120 | 8 | 0     | header is damaged""")
    void aHeaderThatDoesNotFit(long at, int bytes, long value, String message) throws IOException {
        var pool = pools.create(8, 64);
        patch(pool.name(), at, Arrays.copyOf(number(value), bytes));
        var error = assertThrows(IncompatiblePoolException.class, () -> SharedPool.join(pool.name()));
        assertTrue(error.getMessage().contains("cannot be joined: ") && error.getMessage().contains(message),
                error.getMessage());
    }

    @ParameterizedTest
    @CsvSource({"4095, a header alone takes 4096", "8192, its header says"})
    void aTruncatedFile(int size, String message) throws IOException {
        var pool = pools.create(8, 64);
        var copy = pools.fresh();
        Files.write(PoolName.file(copy),
                Arrays.copyOf(Files.readAllBytes(PoolName.file(pool.name())), size));
        var error = assertThrows(IncompatiblePoolException.class, () -> SharedPool.join(copy));
        assertTrue(error.getMessage().contains("truncated") && error.getMessage().contains(message));
    }

    @ParameterizedTest
    @ValueSource(ints = {0, 8192})
    void oneThatIsNotReady(int size) throws IOException {
        var name = pools.fresh();
        Files.write(PoolName.file(name), new byte[size]);
        var error = assertThrows(NotReadyException.class, () -> SharedPool.join(name, AT_ONCE));
        assertTrue(error.getMessage().contains("still being created, or its creator died"));
        assertThrows(PoolExistsException.class, () -> SharedPool.create(name, 8, 64));
        pools.closedLater(SharedPool.create(name, 8, 64, PoolOptions.DEFAULT.withReplace()));
    }

    @Test
    void joiningWaitsForOneThatIsBeingMade() throws Exception {
        var pool = pools.create(8, 64);
        patch(pool.name(), Layout.STATE_AT, new byte[8]);
        var ready = new Thread(() -> {
            try {
                TimeUnit.MILLISECONDS.sleep(100);
                patch(pool.name(), Layout.STATE_AT, number(1));
            } catch (IOException | InterruptedException error) {
                throw new AssertionError(error);
            }
        });
        ready.start();
        var joined = SharedPool.join(pool.name(), PoolOptions.DEFAULT.withWaitSeconds(20));
        assertEquals(1, pools.closedLater(joined).slot());
        ready.join();
    }

    @Test
    void oneThatIsNotThere() {
        var error = assertThrows(NoSuchPoolException.class, () -> SharedPool.join(pools.fresh()));
        assertTrue(error.getMessage().contains("create it first"));
    }

    @Test
    void filesAreTheirOwnersAloneAndReserved() throws IOException {
        var pool = pools.create(16, 65_536);
        var files = PoolName.leftOver(pool.name());
        assertEquals(2, files.size());
        for (Path file : files) {
            assertEquals("rw-------", PosixFilePermissions.toString(Files.getPosixFilePermissions(file)));
        }
        // "unix:blocks" is not to be had: du tells what is really there
        var du = new ProcessBuilder("du", "-B1", PoolName.file(pool.name()).toString()).start();
        long there = Long.parseLong(new String(du.getInputStream().readAllBytes()).split("\\s")[0]);
        assertTrue(there >= Files.size(PoolName.file(pool.name())), "only %d bytes are there".formatted(there));
    }

    @Test
    void otherSystemsAreRefusedWithAReason() {
        var files = new PoolFiles(folder);
        files.checkSystem("Linux", "64", ByteOrder.LITTLE_ENDIAN);
        for (Runnable call : List.<Runnable>of(
                () -> files.checkSystem("Windows 11", "64", ByteOrder.LITTLE_ENDIAN),
                () -> files.checkSystem("Mac OS X", "64", ByteOrder.LITTLE_ENDIAN),
                () -> files.checkSystem("Linux", "32", ByteOrder.LITTLE_ENDIAN),
                () -> files.checkSystem("Linux", "64", ByteOrder.BIG_ENDIAN),
                () -> new PoolFiles(folder.resolve("missing"))
                        .checkSystem("Linux", "64", ByteOrder.LITTLE_ENDIAN))) {
            var error = assertThrows(UnsupportedOperationException.class, call::run);
            assertTrue(error.getMessage().startsWith("shared pools work on Linux only: "));
        }
    }

    @Test
    void aFullFileSystemIsAnExceptionAndNothingIsLeft() throws Exception {
        Assumptions.assumeTrue(run("mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", folder.toString()),
                "no right to mount a small file system here");
        try {
            var files = new PoolFiles(folder);
            var error = assertThrows(NoSharedMemoryException.class,
                    () -> files.make("big", 1024, 4096, false, 0, mapping -> { }));
            assertTrue(error.getMessage().contains("a pool of 1,024 blocks of 4,096 bytes takes 4,")
                    && error.getMessage().contains("262,144 are free") && error.getMessage().contains("--shm-size"),
                    error.getMessage());
            try (var left = Files.list(folder)) {
                assertEquals(List.of(), left.toList());
            }
            files.make("small", 8, 4096, false, 0, mapping -> mapping.block(7).put(4095, (byte) 1));
            assertTrue(files.remove("small"));
        } finally {
            // lazily: the lock file stays open to the end of the process
            run("umount", "--lazy", folder.toString());
        }
    }

    private static boolean run(String... command) throws IOException, InterruptedException {
        return new ProcessBuilder(command).start().waitFor() == 0;
    }

    @Test
    void anErrorWhileFillingLeavesNothing() throws IOException {
        var files = new PoolFiles(folder);
        assertThrows(IllegalStateException.class, () -> files.make("pool", 4, 64, false, 0, mapping -> {
            throw new IllegalStateException("planted");
        }));
        try (var left = Files.list(folder)) {
            assertEquals(List.of(), left.toList());
        }
    }

    @Test
    void aFailedCreationDoesNotRemoveWhatCameInItsPlace() throws IOException {
        var files = new PoolFiles(folder);
        assertThrows(IllegalStateException.class, () -> files.make("pool", 4, 64, false, 0, mapping -> {
            files.remove("pool");
            files.make("pool", 7, 64, false, 0, ignored -> { });
            throw new IllegalStateException("planted");
        }));
        assertEquals(7, files.open("pool").mapping().layout.numBlocks);
    }

    /** As if a ByteBuffer ended at 1 KiB: the same bytes, in many pieces. */
    @ParameterizedTest
    @CsvSource({"100, 100, false", "65, 64, true", "3, 5000, true", "1, 1, false"})
    void piecesMakeNoDifference(int numBlocks, int blockBytes, boolean guard) throws IOException {
        var files = new PoolFiles(folder);
        files.make("pool", numBlocks, blockBytes, guard, 0, mapping -> {
            for (int block = 0; block < numBlocks; block++) {
                mapping.block(block).put(0, (byte) block).put(blockBytes - 1, (byte) block);
            }
        });
        try (var channel = FileChannel.open(folder.resolve("pagedkv.pool"), StandardOpenOption.READ,
                StandardOpenOption.WRITE)) {
            var whole = files.open("pool").mapping();
            var cut = new Mapping(channel, whole.layout, 1024);
            assertEquals(1, whole.numPieces());
            assertTrue(numBlocks == 1 || cut.numPieces() > 1);
            for (int block = 0; block < numBlocks; block++) {
                assertEquals(whole.stride(block), cut.stride(block));
                assertEquals((byte) block, cut.block(block).get(blockBytes - 1));
                cut.block(block).put(0, (byte) 77);
                assertEquals(77, whole.block(block).get(0));
            }
            for (int slot = 0; slot < Layout.NUM_SLOTS; slot++) {
                cut.counts[slot].putInt(4 * (numBlocks - 1), 1000 + slot);
            }
            cut.words.putLong(8 * (numBlocks - 1), 5);
            for (int slot = 0; slot < Layout.NUM_SLOTS; slot++) {
                assertEquals(1000 + slot, whole.counts[slot].getInt(4 * (numBlocks - 1)));
            }
            assertEquals(5, whole.words.getLong(8 * (numBlocks - 1)));
            assertEquals(whole.emptyHints, cut.emptyHints);
        }
    }

    @Test
    void offsetsOfALargePool() {
        var layout = new Layout(Layout.MOST_BLOCKS, 1 << 20, true, 0, 1);
        assertEquals(4096 + 48 * 64 + 2 * ((1L << 28) / 8) + 8 * (1L << 28), layout.rowAt(0));
        assertTrue(layout.dataAt() > 48L * 4 * Layout.MOST_BLOCKS);
        assertTrue(layout.capacityBytes() > (1L << 48), "no overflow");
    }

    /** With room for it: more data than one ByteBuffer can have. */
    @Test
    void moreThan2GiBOfData() throws IOException {
        long wanted = (2L << 30) + (256 << 20);
        Assumptions.assumeTrue(Files.isDirectory(Path.of("/dev/shm"))
                && Files.getFileStore(Path.of("/dev/shm")).getUsableSpace() > 2 * wanted, "too little shared memory");
        Assumptions.assumeTrue(freeMemoryBytes() > 2 * wanted, "too little memory");
        int blockBytes = 64 << 20;
        int numBlocks = (int) (wanted / blockBytes);
        var pool = pools.create(numBlocks, blockBytes);
        var other = pools.closedLater(SharedPool.join(pool.name()));
        for (int block : pool.allocate(numBlocks)) {
            pool.buffer(block).putLong(blockBytes - 8, 1000L + block);
        }
        for (int block = 0; block < numBlocks; block++) {
            other.retain(block);
            assertEquals(1000L + block, other.buffer(block).getLong(blockBytes - 8));
        }
    }

    private static long freeMemoryBytes() throws IOException {
        try (var lines = Files.lines(Path.of("/proc/meminfo"))) {
            return lines.filter(line -> line.startsWith("MemAvailable:"))
                    .mapToLong(line -> 1024 * Long.parseLong(line.replaceAll("\\D", ""))).findFirst().orElse(0);
        }
    }
}
