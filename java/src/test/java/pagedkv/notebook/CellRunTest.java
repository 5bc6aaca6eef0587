package pagedkv.notebook;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertSame;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.locks.LockSupport;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

class CellRunTest {
    private static final boolean HAS_THREAD_STOP = Runtime.version().feature() < 20;
    private static final long LONG_MILLIS = 20_000;

    private final Notebook notebook = new Notebook();
    /** Lets the loops that cannot be stopped on newer JDKs end after their test. */
    private volatile boolean testOver;

    @AfterEach
    void letLoopsEnd() {
        testOver = true;
    }

    private CellRun start(String source) {
        return CellRun.start(notebook.accept(source).body());
    }

    private static StackTraceElement waitForFrame(CellRun run) throws InterruptedException {
        while (run.where().isEmpty()) {
            Thread.sleep(1);
        }
        return run.where().get(run.where().size() - 1);
    }

    @Test
    void aBodyThatEndsWell() {
        CellRun run = CellRun.start(() -> { });
        assertTrue(run.await(LONG_MILLIS));
        assertNull(run.failure());
        assertTrue(run.where().isEmpty());
    }

    @Test
    void theThreadIsADaemonNamedCellWithTheCellsLoader() {
        CellRun run = start("class A { }\nThread t = Thread.currentThread();\nif (!t.getName().equals(\"cell\") || !t.isDaemon()"
                + " || t.getContextClassLoader() != A.class.getClassLoader()) throw new Error(t.toString());");
        assertTrue(run.await(LONG_MILLIS));
        assertNull(run.failure());
    }

    @Test
    void awaitZeroDoesNotWait() {
        CountDownLatch latch = new CountDownLatch(1);
        CellRun run = CellRun.start(latch::await);
        assertFalse(run.await(0));
        latch.countDown();
        assertTrue(run.await(LONG_MILLIS));
    }

    @Test
    void awaitAnswersWhenTheWaitingThreadIsInterrupted() {
        CountDownLatch latch = new CountDownLatch(1);
        CellRun run = CellRun.start(latch::await);
        Thread.currentThread().interrupt();
        assertFalse(run.await(LONG_MILLIS));
        assertTrue(Thread.interrupted());
        latch.countDown();
    }

    @Test
    void aFailureHasOnlyTheCellsFrames() {
        CellRun run = start("void deep() {\n    throw new IllegalStateException(\"x\", new Error());\n}\ndeep();");
        assertTrue(run.await(LONG_MILLIS));
        assertInstanceOf(IllegalStateException.class, run.failure());
        assertEquals("[CellMethods.deep(cell:3), Cell.run(cell:5)]", plain(List.of(run.failure().getStackTrace())));
        assertEquals("[CellMethods.deep(cell:3), Cell.run(cell:5)]", plain(List.of(run.failure().getCause().getStackTrace())));
    }

    private static String plain(List<StackTraceElement> frames) {
        return frames.stream().map(frame -> frame.toString().replaceFirst(".*/", "")).toList().toString();
    }

    @Test
    void errorsOfTheVirtualMachineAreFailures() {
        CellRun overflow = start("void down() { down(); }\ndown();");
        assertTrue(overflow.await(LONG_MILLIS));
        assertInstanceOf(StackOverflowError.class, overflow.failure());
        CellRun memory = start("long[] hoard = new long[Integer.MAX_VALUE];");
        assertTrue(memory.await(LONG_MILLIS));
        assertInstanceOf(OutOfMemoryError.class, memory.failure());
    }

    @Test
    void theFailureIsTheVeryObjectThrown() {
        Throwable thrown = new Throwable("neither Exception nor Error");
        CellRun run = CellRun.start(() -> {
            throw thrown;
        });
        assertTrue(run.await(LONG_MILLIS));
        assertSame(thrown, run.failure());
    }

    @Test
    void whereTellsTheLineOfTheCell() throws InterruptedException {
        CellRun run = start("int x = 1;\nThread.sleep(100_000);");
        assertEquals("Cell.run(cell:3)", waitForFrame(run).toString().replaceFirst(".*/", ""));
        assertEquals(StopResult.INTERRUPTED, run.stop(LONG_MILLIS));
    }

    @Test
    void aSleepingThreadIsEndedGently() {
        CellRun run = start("synchronized (Object.class) { Object.class.wait(); }");
        assertEquals(StopResult.INTERRUPTED, run.stop(LONG_MILLIS));
        assertInstanceOf(InterruptedException.class, run.failure());
    }

    @Test
    void anEndlessLoopIsStoppedWhereTheJdkCan() throws InterruptedException {
        CellRun run = CellRun.start(() -> {
            while (!testOver) {
                Thread.onSpinWait();
            }
        });
        assertEquals(HAS_THREAD_STOP ? StopResult.STOPPED : StopResult.STILL_RUNNING, run.stop(500));
        assertEquals(HAS_THREAD_STOP, run.await(0));
        assertNull(run.failure());
    }

    @Test
    void anEndlessLoopTypedInACell() throws InterruptedException {
        notebook.accept("public class Loop { public static volatile boolean over; }");
        CellRun run = start("while (true) {\n    if (Loop.over) break;\n}");
        int line = waitForFrame(run).getLineNumber();
        assertTrue(line == 2 || line == 3, "line " + line);
        assertEquals(HAS_THREAD_STOP ? StopResult.STOPPED : StopResult.STILL_RUNNING, run.stop(500));
        notebook.run("Loop.over = true;");
        assertTrue(run.await(LONG_MILLIS));
        assertNull(run.failure());
    }

    @Test
    void aLoopThatSwallowsEverythingIsReportedAsRunning() {
        CellRun run = CellRun.start(() -> {
            while (!testOver) {
                try {
                    Thread.sleep(100_000);
                } catch (Throwable swallowed) {
                    LockSupport.parkNanos(1);
                }
            }
        });
        assertEquals(StopResult.STILL_RUNNING, run.stop(200));
    }

    @Test
    void anyThreadCanBeStopped() throws InterruptedException {
        Thread sleeper = new Thread(() -> LockSupport.park());
        sleeper.setUncaughtExceptionHandler((thread, thrown) -> { });
        startAndWaitForFrames(sleeper);
        assertEquals(HAS_THREAD_STOP ? StopResult.STOPPED : StopResult.INTERRUPTED, CellRun.stop(sleeper, LONG_MILLIS));
        Thread spinner = new Thread(() -> {
            while (!testOver) {
                Thread.onSpinWait();
            }
        });
        spinner.setUncaughtExceptionHandler((thread, thrown) -> { });
        startAndWaitForFrames(spinner);
        assertEquals(HAS_THREAD_STOP ? StopResult.STOPPED : StopResult.STILL_RUNNING, CellRun.stop(spinner, 500));
    }

    /** A thread without a frame counts as one that has left Java, and so does one that is just starting. */
    private static void startAndWaitForFrames(Thread thread) throws InterruptedException {
        thread.setDaemon(true);
        thread.start();
        while (thread.getStackTrace().length == 0) {
            Thread.sleep(1);
        }
    }

    @Test
    void aStoppedPrinterLeavesTheOutputUsable() throws InterruptedException {
        StringBuilder shown = new StringBuilder();
        CellOutput output = new CellOutput(shown::append, 1 << 20);
        PrintStream out = new PrintStream(output, true, StandardCharsets.UTF_8);
        CellRun run = CellRun.start(() -> {
            while (!testOver) {
                out.println("again");
            }
        });
        run.stop(100);
        testOver = true;
        assertTrue(run.await(LONG_MILLIS));
        output.newCell();
        shown.setLength(0);
        out.println("after");
        assertTrue(shown.toString().contains("after"));
    }
}
