package pagedkv.notebook;

import java.lang.reflect.InvocationTargetException;
import java.util.concurrent.TimeUnit;
import java.util.function.BooleanSupplier;

/**
 * Ends Java that does not end by itself: first gently by {@link Thread#interrupt()}, which wakes a thread that sleeps or
 * waits, then by {@code Thread.stop()}, which also ends a bare loop.
 *
 * <p>{@code Thread.stop()} works up to JDK 19; later it throws {@link UnsupportedOperationException}, and one day it will
 * be gone. It is called by reflection so that this compiles without warnings everywhere.
 */
final class Stopper {
    private static final long POLL_MILLIS = 2;

    private Stopper() {
    }

    /** Each of the two attempts gets {@code graceMillis}. */
    static StopResult stop(Thread thread, BooleanSupplier ended, long graceMillis) {
        thread.interrupt();
        if (endsWithin(graceMillis, ended)) {
            return StopResult.INTERRUPTED;
        }
        if (threadStop(thread) && endsWithin(graceMillis, ended)) {
            return StopResult.STOPPED;
        }
        return StopResult.STILL_RUNNING;
    }

    /**
     * The same for a thread that is not ours: {@code Thread.stop()} first. An interrupt that the call does not notice would
     * leave the thread marked, and break whatever it waits for next, such as the bridge that hands the exception over.
     */
    static StopResult stopForeign(Thread thread, BooleanSupplier ended, long graceMillis) {
        if (threadStop(thread)) {
            return endsWithin(graceMillis, ended) ? StopResult.STOPPED : StopResult.STILL_RUNNING;
        }
        thread.interrupt();
        return endsWithin(graceMillis, ended) ? StopResult.INTERRUPTED : StopResult.STILL_RUNNING;
    }

    private static boolean endsWithin(long millis, BooleanSupplier ended) {
        long deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(millis);
        while (!ended.getAsBoolean()) {
            if (System.nanoTime() - deadline > 0 || !pause()) {
                return ended.getAsBoolean();
            }
        }
        return true;
    }

    private static boolean pause() {
        try {
            Thread.sleep(POLL_MILLIS);
            return true;
        } catch (InterruptedException e) {
            Thread.currentThread().interrupt();
            return false;
        }
    }

    private static boolean threadStop(Thread thread) {
        try {
            Thread.class.getMethod("stop").invoke(thread);
            return true;
        } catch (NoSuchMethodException | IllegalAccessException | InvocationTargetException e) {
            return false;
        }
    }
}
