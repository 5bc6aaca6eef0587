package pagedkv.netty;

import io.netty.buffer.PooledByteBufAllocator;
import io.netty.util.ResourceLeakDetector;
import io.netty.util.ResourceLeakDetector.Level;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.logging.Handler;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import java.util.regex.Pattern;

/**
 * Netty's leak detector, provoked: runs code that forgets a buffer and brings back what the detector logged.
 *
 * <p>The detector notices a buffer that was collected by the GC before its last {@code release()}, and says so at the
 * next allocation. So after the code has run, this class collects garbage and allocates until the report is there. The
 * report is cut to what is in the reader's own code: the line of the notebook cell for each recorded access.
 */
public final class LeakReports {

    private static final int ATTEMPTS = 100;
    private static final Pattern CELL_LINE = Pattern.compile("\\(cell:(\\d+)\\)");

    private LeakReports() {
    }

    /** What the detector says after {@code forgetful} has run, or "no report" if it forgot nothing. */
    public static String of(Runnable forgetful) throws InterruptedException {
        var logger = Logger.getLogger(ResourceLeakDetector.class.getName());
        var messages = new LinkedBlockingQueue<String>();
        var handler = new Collector(messages);
        var level = ResourceLeakDetector.getLevel();
        boolean parents = logger.getUseParentHandlers();
        logger.setUseParentHandlers(false);
        try {
            collectAndAllocate(); // what was forgotten before is not ours to report
            ResourceLeakDetector.setLevel(Level.PARANOID);
            logger.addHandler(handler);
            forgetful.run();
            return shorten(awaitReport(messages));
        } finally {
            logger.setUseParentHandlers(parents);
            logger.removeHandler(handler);
            ResourceLeakDetector.setLevel(level);
        }
    }

    private static String awaitReport(BlockingQueue<String> messages) throws InterruptedException {
        String report = null;
        for (int i = 0; i < ATTEMPTS && report == null; i++) {
            collectAndAllocate();
            report = messages.poll(10, TimeUnit.MILLISECONDS);
        }
        return report;
    }

    private static void collectAndAllocate() {
        System.gc();
        PooledByteBufAllocator.DEFAULT.directBuffer(16).release();
    }

    private static String shorten(String report) {
        if (report == null) {
            return "no report";
        }
        List<String> lines = new ArrayList<>();
        lines.add(report.lines().findFirst().orElseThrow().replaceAll(" See https?:.*", ""));
        String record = null;
        for (String line : report.lines().toList()) {
            var cell = CELL_LINE.matcher(line);
            if (line.startsWith("#") || line.startsWith("Created at:")) {
                record = line.startsWith("#") ? "accessed" : "created";
            } else if (record != null && cell.find()) {
                lines.add("    %s at line %s of the cell".formatted(record, cell.group(1)));
                record = null;
            }
        }
        return String.join("\n", lines);
    }

    private static final class Collector extends Handler {

        private final BlockingQueue<String> messages;

        Collector(BlockingQueue<String> messages) {
            this.messages = messages;
        }

        @Override
        public void publish(LogRecord logged) {
            if (logged.getMessage().startsWith("LEAK")) {
                messages.add(logged.getMessage());
            }
        }

        @Override
        public void flush() {
        }

        @Override
        public void close() {
        }
    }
}
