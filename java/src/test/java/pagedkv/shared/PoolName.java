package pagedkv.shared;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.logging.Level;
import java.util.logging.Logger;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** Names of pools for one test, and members that are closed after it; nothing is left in shared memory. */
final class PoolName implements AfterEachCallback {

    private static final Path FOLDER = Path.of("/dev/shm");
    // many tests end with references held, and each would be a warning
    private static final Logger LOG = Logger.getLogger("pagedkv.shared");
    private static final AtomicInteger NUMBERS = new AtomicInteger();

    private final List<SharedPool> members = new ArrayList<>();
    private final List<String> names = new ArrayList<>();

    static {
        LOG.setLevel(Level.OFF);
    }

    /** One that no pool has. */
    String fresh() {
        names.add("test-java-%d-%d".formatted(ProcessHandle.current().pid(), NUMBERS.incrementAndGet()));
        return names.get(names.size() - 1);
    }

    SharedPool create(int numBlocks, int blockBytes) {
        return create(numBlocks, blockBytes, PoolOptions.DEFAULT);
    }

    SharedPool create(int numBlocks, int blockBytes, PoolOptions options) {
        return closedLater(SharedPool.create(fresh(), numBlocks, blockBytes, options));
    }

    SharedPool closedLater(SharedPool member) {
        members.add(member);
        return member;
    }

    static Path file(String name) {
        return FOLDER.resolve("pagedkv." + name);
    }

    /** What is there of a pool of this name. */
    static List<Path> leftOver(String name) {
        try (var files = Files.list(FOLDER)) {
            return files.filter(file -> file.getFileName().toString().startsWith("pagedkv")
                    && file.getFileName().toString().contains("." + name)).toList();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Override
    public void afterEach(ExtensionContext context) throws IOException {
        members.forEach(SharedPool::close);
        for (String name : names) {
            for (Path file : leftOver(name)) {
                Files.delete(file);
            }
        }
        members.clear();
        names.clear();
    }
}
