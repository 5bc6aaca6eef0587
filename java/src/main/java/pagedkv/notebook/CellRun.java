package pagedkv.notebook;

import java.util.List;

/**
 * One run of a cell's body on a daemon thread of its own named "cell", so that the thread that waits for it stays free
 * to be interrupted.
 *
 * <p>Whatever the body throws ends here and is kept as the failure, {@link StackOverflowError} and
 * {@link OutOfMemoryError} included; nothing is printed. Only the {@code ThreadDeath} that {@link #stop(long)} brings
 * about is no failure.
 */
public final class CellRun {
    private final CellBody body;
    private final Thread thread;
    private volatile Throwable failure;
    private volatile boolean stopRequested;

    private CellRun(CellBody body) {
        this.body = body;
        this.thread = new Thread(this::run, "cell");
        thread.setDaemon(true);
        thread.setContextClassLoader(loaderOf(body));
        thread.setUncaughtExceptionHandler((dead, thrown) -> { });
    }

    public static CellRun start(CellBody body) {
        CellRun run = new CellRun(body);
        run.thread.start();
        return run;
    }

    private static ClassLoader loaderOf(CellBody body) {
        return body instanceof LoadedBody loaded ? loaded.loader() : body.getClass().getClassLoader();
    }

    private void run() {
        try {
            body.run();
        } catch (Throwable thrown) {
            if (!isOurStop(thrown)) {
                failure = thrown;
                CellStack.cut(thrown);
            }
        }
    }

    /** Compared by name, as a later JDK will have no such class. */
    private boolean isOurStop(Throwable thrown) {
        return stopRequested && thrown.getClass().getName().equals("java.lang.ThreadDeath");
    }

    /** Waits for the end at most this long (0: not at all); true if it has ended. */
    public boolean await(long millis) {
        try {
            if (millis > 0) {
                thread.join(millis);
            }
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
        }
        return !thread.isAlive();
    }

    /** The stack now, innermost call first, without what lies below the cell's own code; empty once it has ended. */
    public List<StackTraceElement> where() {
        return CellStack.cut(thread.getStackTrace());
    }

    /** What the body threw, its trace cut like {@link #where()}; null if it ended well, was stopped, or still runs. */
    public Throwable failure() {
        return failure;
    }

    /** Stops this run; interrupting and stopping each get {@code graceMillis} to take effect. */
    public StopResult stop(long graceMillis) {
        stopRequested = true;
        return Stopper.stop(thread, () -> !thread.isAlive(), graceMillis);
    }

    /**
     * The same for any thread, such as one on which Python called Java directly. That thread itself lives on, so here the
     * end is that no Java call is left on its stack. {@code Thread.stop()} comes first there, and an interrupt only on a
     * JDK without it.
     */
    public static StopResult stop(Thread thread, long graceMillis) {
        return Stopper.stopForeign(thread, () -> thread.getStackTrace().length == 0, graceMillis);
    }
}
