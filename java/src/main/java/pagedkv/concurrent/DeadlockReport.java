package pagedkv.concurrent;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * What the JVM itself says of a deadlock: which threads wait for each other in a circle.
 *
 * <p>It is the search behind {@code jstack}. It knows monitors and locks with an owner, such as {@code ReentrantLock};
 * who waits for a signal, a permit or a queue waits for nobody in particular, and is not found.
 *
 * @param waits one for each thread in the circle
 * @param text the JVM's own words, with the addresses of this run
 */
public record DeadlockReport(List<Wait> waits, String text) {

    /**
     * @param thread the name of the thread that waits
     * @param lock the class of the lock it waits for
     * @param heldBy the name of the thread that has it
     * @param at the methods it is in, those of the JDK left out, the innermost first
     */
    public record Wait(String thread, String lock, String heldBy, List<String> at) {

        @Override
        public String toString() {
            return "\"%s\" waits for a %s that \"%s\" holds%n    in %s"
                    .formatted(thread, lock, heldBy, String.join("%n    from ".formatted(), at));
        }
    }

    /** The deadlock that some of these threads are in, or null. */
    public static DeadlockReport of(Collection<Thread> threads) {
        ThreadMXBean bean = ManagementFactory.getThreadMXBean();
        long[] deadlocked = bean.findDeadlockedThreads();
        if (deadlocked == null) {
            return null;
        }
        Set<Long> ours = threads.stream().map(Thread::getId).collect(Collectors.toSet());
        long[] ids = Arrays.stream(deadlocked).filter(ours::contains).toArray();
        List<ThreadInfo> infos =
                Arrays.stream(bean.getThreadInfo(ids, true, true)).filter(info -> info != null).toList();
        if (infos.isEmpty()) {
            return null;
        }
        return new DeadlockReport(infos.stream().map(DeadlockReport::waitOf).toList(),
                infos.stream().map(ThreadInfo::toString).collect(Collectors.joining()));
    }

    private static Wait waitOf(ThreadInfo info) {
        var at = Arrays.stream(info.getStackTrace())
                .filter(frame -> !frame.getClassName().matches("(java|jdk|sun)\\..*|.*\\$\\$Lambda.*"))
                .filter(frame -> !frame.getMethodName().contains("$"))
                .map(frame -> frame.getClassName().replaceFirst(".*\\.", "") + "." + frame.getMethodName())
                .toList();
        var lock = info.getLockInfo();
        return new Wait(info.getThreadName(),
                lock == null ? "lock" : lock.getClassName().replaceFirst(".*\\.", "").replaceFirst("\\$.*", ""),
                String.valueOf(info.getLockOwnerName()), at);
    }

    /** Without addresses: the same on every run. */
    @Override
    public String toString() {
        return waits.stream().sorted((a, b) -> a.thread.compareTo(b.thread)).map(Wait::toString)
                .collect(Collectors.joining(System.lineSeparator()));
    }
}
