package pagedkv.jvm;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The JVM's log of its regions, turned on while this is open: one line for each region that G1 takes, fills or frees.
 *
 * <p>What {@code -Xlog:gc+region=trace,gc,gc+heap:file=…} does from the start of a JVM, done for a while in the
 * middle of its life. The file is a temporary one, and is gone when this is closed.
 */
public final class RegionLog implements AutoCloseable {

    private static final String WHAT = "gc+region=trace,gc=info,gc+heap=info";

    private final Path file;
    private final HeapRegions before;
    private final long linesBefore;

    /**
     * Turns the log on.
     *
     * @throws IllegalStateException if this JVM runs another collector than G1
     */
    public RegionLog() throws IOException {
        Collector.requireG1();
        HeapRegions.now(); // the first time takes long, and a collection may come in between
        file = Files.createTempFile("pagedkv-regions-" + ProcessHandle.current().pid() + "-", ".log");
        try {
            configure("what=" + WHAT, "decorators=uptime,level,tags", "output_options=filecount=0");
            // Lines that are written while the table is made tell twice what it tells already: harmless.
            linesBefore = Files.size(file);
            before = HeapRegions.now();
        } catch (IOException | RuntimeException failed) {
            close();
            throw failed;
        }
    }

    /** The regions as they were when the log began. */
    public HeapRegions before() {
        return before;
    }

    /** What has been logged so far. */
    public String text() throws IOException {
        byte[] bytes = Files.readAllBytes(file);
        int start = (int) Math.min(linesBefore, bytes.length);
        return new String(bytes, start, bytes.length - start, StandardCharsets.UTF_8);
    }

    /** Turns the log off and removes its file. A second call changes nothing. */
    @Override
    public void close() {
        try {
            if (Files.exists(file)) {
                configure("what=all=off");
                Files.delete(file);
            }
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    private void configure(String... options) {
        var all = new String[options.length + 1];
        all[0] = "output=\"file=" + file + "\""; // quoted: the folder for temporary files may have a space in its name
        System.arraycopy(options, 0, all, 1, options.length);
        String answer = Diagnostics.ask("vmLog", all);
        if (!answer.isBlank()) {
            throw new IllegalStateException("this JVM refused to change its log: " + answer.strip());
        }
    }
}
