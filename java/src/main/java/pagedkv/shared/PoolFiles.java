package pagedkv.shared;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.nio.file.attribute.BasicFileAttributes;
import java.nio.file.attribute.FileAttribute;
import java.nio.file.attribute.PosixFilePermissions;
import java.security.SecureRandom;
import java.util.Arrays;
import java.util.Locale;
import java.util.Set;
import java.util.function.Consumer;
import java.util.function.Predicate;
import java.util.regex.Pattern;

/**
 * The files of pools in one folder: making, opening and removing them.
 *
 * <p>A pool is one file of the shared memory file system, beside it an empty one that has only locks on it. The pages
 * of a new pool are reserved by writing zeros (Java has no {@code posix_fallocate}), so that too little memory is an
 * exception then, and not a SIGBUS at some later write, which would end the JVM.
 */
final class PoolFiles {

    static final PoolFiles SHARED_MEMORY = new PoolFiles(Path.of("/dev/shm"));
    static final FileAttribute<?> ONLY_FOR_THE_OWNER =
            PosixFilePermissions.asFileAttribute(PosixFilePermissions.fromString("rw-------"));

    private static final Pattern NAME = Pattern.compile("[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}");
    private static final int ZEROS_BYTES = 1 << 20;

    private final Path folder;

    PoolFiles(Path folder) {
        this.folder = folder;
    }

    /** @throws UnsupportedOperationException where shared pools cannot be had; it says what is missing */
    void checkSystem() {
        checkSystem(System.getProperty("os.name"), System.getProperty("sun.arch.data.model"), ByteOrder.nativeOrder());
    }

    void checkSystem(String system, String pointerBits, ByteOrder order) {
        String why = null;
        if (!system.equals("Linux")) {
            why = system + " has no /dev/shm, or no locks that a killed process loses and a stopped one keeps";
        } else if (order != ByteOrder.LITTLE_ENDIAN || !"64".equals(pointerBits)) {
            why = "the layout is that of 64-bit, little-endian processors";
        } else if (!Files.isDirectory(folder)) {
            why = "there is no " + folder;
        }
        if (why != null) {
            throw new UnsupportedOperationException("shared pools work on Linux only: " + why
                    + ". Everything else in this package does not need them");
        }
    }

    /** @throws IllegalArgumentException for a name that cannot be one */
    Path poolPath(String name) {
        if (name == null || !NAME.matcher(name).matches()) {
            throw new IllegalArgumentException("a pool's name is 1 to 64 of A-Z a-z 0-9 . _ - and does not begin with "
                    + "a dot (it becomes the name of a file, so no slash either), got "
                    + (name == null ? "null" : "'" + name + "'"));
        }
        return folder.resolve("pagedkv." + name);
    }

    /** With the pool's id in it, so that locks are never mixed up with those of another pool of the same name. */
    Path lockPath(String name, long poolId) {
        return folder.resolve("pagedkv-lock.%s.%016x".formatted(name, poolId));
    }

    /** An opened pool, mapped. */
    record Opened(Mapping mapping, LockFile locks) {
    }

    /**
     * Makes the files of a new pool, with all blocks free. {@code fill} writes what else there is to write, before
     * anybody can join. After an exception nothing is left.
     *
     * @throws PoolExistsException if the name is taken
     * @throws NoSharedMemoryException if there is too little
     */
    void make(String name, int numBlocks, int blockBytes, boolean guard, int tokensPerBlock,
            Consumer<Mapping> fill) {
        var path = poolPath(name);
        var layout = new Layout(numBlocks, blockBytes, guard, tokensPerBlock, newId());
        Object key;
        try (var channel = openNew(name, path)) {
            key = keyOf(path);
            try {
                reserve(channel, layout);
                var mapping = map(channel, layout);
                layout.writeHeader(mapping.header);
                LockFile.create(lockPath(name, layout.poolId));
                hintEveryBlock(mapping);
                fill.accept(mapping);
                new Atomics().put(mapping.header, Layout.STATE_AT, Layout.READY);
            } catch (IOException | RuntimeException | Error error) {
                Files.deleteIfExists(lockPath(name, layout.poolId));
                removeIf(name, file -> key.equals(file.key()));
                throw error;
            }
        } catch (IOException error) {
            throw new UncheckedIOException("cannot make " + path, error);
        }
    }

    private FileChannel openNew(String name, Path path) throws IOException {
        try {
            return FileChannel.open(path,
                    Set.of(StandardOpenOption.READ, StandardOpenOption.WRITE, StandardOpenOption.CREATE_NEW),
                    ONLY_FOR_THE_OWNER);
        } catch (FileAlreadyExistsException exists) {
            throw new PoolExistsException(("there is a pool '%s' already (%s): join it; or, if nobody needs it any "
                    + "more, create it with PoolOptions.DEFAULT.withReplace()").formatted(name, path));
        }
    }

    private static long newId() {
        long id = new SecureRandom().nextLong();
        return id == 0 ? 1 : id;
    }

    /**
     * Writes zeros over the whole file. Its last byte comes first: from then on the file has its full size, and a
     * header of zeros, by which others see that it is still being made.
     */
    private void reserve(FileChannel channel, Layout layout) throws IOException {
        try {
            write(channel, ByteBuffer.allocateDirect(1), layout.capacityBytes() - 1);
            var zeros = ByteBuffer.allocateDirect(ZEROS_BYTES);
            for (long at = 0; at < layout.capacityBytes(); at += ZEROS_BYTES) {
                write(channel, zeros.clear().limit((int) Math.min(ZEROS_BYTES, layout.capacityBytes() - at)), at);
            }
        } catch (IOException error) {
            channel.truncate(0); // what is free is said without what this try has taken
            throw tooLittleOr(error, layout);
        }
    }

    private static void write(FileChannel channel, ByteBuffer bytes, long at) throws IOException {
        while (bytes.hasRemaining()) {
            at += channel.write(bytes, at);
        }
    }

    private static void hintEveryBlock(Mapping mapping) {
        int numBlocks = mapping.layout.numBlocks;
        for (int i = 0; i < numBlocks / 64; i++) {
            mapping.emptyHints.putLong(8 * i, -1L);
        }
        if (numBlocks % 64 != 0) {
            mapping.emptyHints.putLong(numBlocks / 64 * 8, (1L << numBlocks % 64) - 1);
        }
    }

    /**
     * Opens and maps a pool.
     *
     * @throws NoSuchPoolException if there is none of this name
     * @throws NotReadyException if it is still being made
     * @throws IncompatiblePoolException if this version of Java's side cannot use it
     */
    Opened open(String name) {
        var path = poolPath(name);
        try (var channel = FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            var layout = readLayout(name, path, channel);
            return new Opened(map(channel, layout), LockFile.of(lockPath(name, layout.poolId)));
        } catch (NoSuchFileException missing) {
            throw new NoSuchPoolException("there is no pool '%s' (%s): create it first".formatted(name, path));
        } catch (IOException error) {
            throw new UncheckedIOException("cannot open " + path, error);
        }
    }

    private static Layout readLayout(String name, Path path, FileChannel channel) throws IOException {
        try {
            return Layout.readHeader(headerOf(channel), channel.size());
        } catch (IncompatiblePoolException error) {
            throw new IncompatiblePoolException(path + " cannot be joined: " + error.getMessage());
        } catch (NotReadyException error) {
            throw new NotReadyException(("the pool '%s' is not ready: it is still being created, or its creator died "
                    + "before it was done. In that case create it with PoolOptions.DEFAULT.withReplace()")
                    .formatted(name));
        }
    }

    private static byte[] headerOf(FileChannel channel) throws IOException {
        var header = ByteBuffer.allocate(Layout.HEADER_BYTES);
        while (header.hasRemaining() && channel.read(header, header.position()) > 0) {
            continue;
        }
        return Arrays.copyOf(header.array(), header.position());
    }

    private Mapping map(FileChannel channel, Layout layout) throws IOException {
        try {
            return new Mapping(channel, layout, Mapping.PIECE_BYTES);
        } catch (IOException error) {
            throw tooLittleOr(error, layout);
        }
    }

    /** What is at a pool's name: which file, and with which id in its header (0: none yet). */
    private record Found(Object key, long poolId) {
    }

    /** Unlinks a pool's files, in whichever state it is. False if there is none. */
    boolean remove(String name) {
        return removeIf(name, file -> true);
    }

    /** The same, but leaves the name alone if it is another pool's by now. */
    boolean remove(String name, long poolId) {
        return removeIf(name, file -> file.poolId() == poolId);
    }

    private boolean removeIf(String name, Predicate<Found> wanted) {
        var path = poolPath(name);
        try {
            Found found;
            try (var channel = FileChannel.open(path, StandardOpenOption.READ)) {
                var header = headerOf(channel);
                found = new Found(keyOf(path), header.length < Layout.HEADER_BYTES ? 0
                        : ByteBuffer.wrap(header).order(ByteOrder.LITTLE_ENDIAN).getLong(Layout.ID_AT));
            }
            if (!wanted.test(found)) {
                return false;
            }
            Files.deleteIfExists(path);
            if (found.poolId() != 0) {
                Files.deleteIfExists(lockPath(name, found.poolId()));
            }
            return true;
        } catch (NoSuchFileException none) {
            return false;
        } catch (IOException error) {
            throw new UncheckedIOException("cannot remove " + path, error);
        }
    }

    private static Object keyOf(Path path) throws IOException {
        return Files.readAttributes(path, BasicFileAttributes.class).fileKey();
    }

    /** Java has no number for "no space": what is free tells. */
    private IOException tooLittleOr(IOException error, Layout layout) throws IOException {
        var text = String.valueOf(error.getMessage());
        boolean full = text.contains("No space left") || text.contains("Disk quota") || text.contains("File too large")
                || error.getCause() instanceof OutOfMemoryError;
        if (!full) {
            return error;
        }
        throw new NoSharedMemoryException(String.format(Locale.ROOT,
                "a pool of %,d blocks of %,d bytes takes %,d bytes of shared memory; %,d are free in %s: take fewer "
                + "blocks, remove pools that nobody needs, or enlarge it (in Docker: --shm-size)",
                layout.numBlocks, layout.blockBytes, layout.capacityBytes(),
                Files.getFileStore(folder).getUsableSpace(), folder));
    }
}
