package pagedkv.interleaving;

import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/**
 * One schedule, carried out: real threads, of which one runs at a time.
 *
 * <p>The first steps are taken by the threads that the schedule names. After them a thread goes on for as long as it
 * can, then the first that can.
 *
 * <p>A thread that waits for a lock takes no step. So when the one that runs has not come to its gate after a while, it
 * is looked at: it is <em>blocked</em> if it waits for a lock that another thread has, and <em>spinning</em> if it goes
 * round in a loop without a step. As long as one is blocked the others are granted one step at a time, and after each
 * it is looked at again.
 */
final class Run {

    private static final int MOST_STEPS = 300;
    private static final long POLL_NANOS = TimeUnit.MICROSECONDS.toNanos(100);
    /** A thread that waits for something that has no owner, such as a semaphore: this long, and it is blocked. */
    private static final long OWNERLESS_NANOS = TimeUnit.MILLISECONDS.toNanos(100);
    /** More than the JVM needs to load the classes that a first call uses. */
    private static final long SPINNING_CPU_NANOS = TimeUnit.MILLISECONDS.toNanos(100);
    /** Either of the two, for a thread that waited already before somebody else took a step. */
    private static final long STILL_NANOS = TimeUnit.MILLISECONDS.toNanos(10);
    private static final long WAKE_NANOS = TimeUnit.MILLISECONDS.toNanos(1_500);
    private static final long TO_END_MILLIS = 1_000;
    private static final ThreadMXBean BEAN = ManagementFactory.getThreadMXBean();

    /**
     * Who took a step.
     *
     * @param enabled bit t: thread t could have taken it
     * @param costs whether it would be a preemption to give it to another thread than the one before
     */
    record Decision(int thread, int enabled, int before, boolean costs) {
    }

    /** Where a thread that is not at its gate is. */
    private enum Place { ON_ITS_WAY, BLOCKED, SPINNING }

    final Thread controller = Thread.currentThread();
    final Program program;
    private final List<ProgramThread> threads = new ArrayList<>();
    // written by whichever thread runs, and read by the controller when that one has stopped: the gate's volatile
    // fields lie between
    private final List<Event> events = new ArrayList<>();
    private final List<Decision> decisions = new ArrayList<>();
    private int enabledNow;
    private volatile boolean over;
    private final int[] schedule;
    private final int stopped;      // the thread that is stopped for good, or -1
    private final int stoppedAfter; // so many of its steps
    private final int[] stepsOf;
    private boolean slow;
    private Finding finding;

    private Run(Class<? extends SharedStack> type, Program program, int[] schedule, int stopped, int stoppedAfter) {
        this.program = program;
        this.schedule = schedule;
        this.stopped = stopped;
        this.stoppedAfter = stoppedAfter;
        stepsOf = new int[program.numThreads()];
        var stack = SharedStack.make(type, new StepMemory(this, program));
        for (int thread = 0; thread < program.numThreads(); thread++) {
            threads.add(new ProgramThread(this, thread, program.threads().get(thread), stack));
        }
    }

    /**
     * @param schedule which thread takes the first steps
     * @throws InterruptedException if the caller is interrupted; the threads are ended then, too
     */
    static Run of(Class<? extends SharedStack> type, Program program, int... schedule) throws InterruptedException {
        var run = new Run(type, program, schedule, -1, 0);
        run.carryOut();
        return run;
    }

    /** The same, but one thread is stopped for good after so many steps; it takes them before all others. */
    static Run stopping(Class<? extends SharedStack> type, Program program, int stopped, int after)
            throws InterruptedException {
        int[] schedule = new int[after];
        java.util.Arrays.fill(schedule, stopped);
        var run = new Run(type, program, schedule, stopped, after);
        run.carryOut();
        return run;
    }

    List<Event> events() {
        return events;
    }

    List<Decision> decisions() {
        return decisions;
    }

    /** What kept it from coming to its end, or null. */
    Finding finding() {
        return finding;
    }

    /** Whether a thread had to be looked at for long until it was clear that it waits. */
    boolean isSlow() {
        return slow;
    }

    int steps(int thread) {
        return stepsOf[thread];
    }

    // ── the controller ──

    private void carryOut() throws InterruptedException {
        try {
            threads.forEach(Thread::start);
            for (var thread : threads) {
                settle(thread);
            }
            int last = -1;
            while (finding == null) {
                int enabled = enabled();
                if (enabled == 0 && somebodyWakes()) {
                    continue;
                }
                if (enabled == 0) {
                    end();
                    return;
                }
                if (decisions.size() >= MOST_STEPS) {
                    finding = Finding.of(Finding.Kind.ENDLESS, "after %d steps no end is in sight".formatted(MOST_STEPS),
                            "each call comes to an end");
                    return;
                }
                int next = choose(last, enabled);
                enabledNow = enabled;
                boolean othersWait = threads.stream().anyMatch(thread -> !thread.isDone() && !thread.isWaitingForStep());
                threads.get(next).grant(othersWait ? 1 : budget(next));
                last = next;
                settleAll(next);
                lookForFailures();
            }
        } finally {
            endThreads();
        }
    }

    private int enabled() {
        int enabled = 0;
        for (int thread = 0; thread < threads.size(); thread++) {
            boolean mayGoOn = thread != stopped || stepsOf[thread] < stoppedAfter;
            if (mayGoOn && threads.get(thread).isWaitingForStep()) {
                enabled |= 1 << thread;
            }
        }
        return enabled;
    }

    private int choose(int last, int enabled) {
        int step = decisions.size();
        if (step < schedule.length && (enabled >> schedule[step] & 1) != 0) {
            return schedule[step];
        }
        if (last >= 0 && (enabled >> last & 1) != 0) {
            return last;
        }
        return Integer.numberOfTrailingZeros(enabled);
    }

    /** How many steps this thread takes before somebody else is chosen. */
    private int budget(int thread) {
        int step = decisions.size();
        int budget = 0;
        while (step + budget < schedule.length && schedule[step + budget] == thread) {
            budget++;
        }
        if (step + budget >= schedule.length && (thread != stopped)) {
            budget = MOST_STEPS - step; // to its end
        }
        return Math.max(1, budget);
    }

    private void settleAll(int ran) throws InterruptedException {
        settle(threads.get(ran));
        for (var thread : threads) {
            if (!thread.isDone() && !thread.isWaitingForStep()) {
                settle(thread);
            }
        }
    }

    /** Waits until this thread is at its gate or done, or surely does not come there by itself. */
    private void settle(ProgramThread thread) throws InterruptedException {
        long began = System.nanoTime();
        long cpu = BEAN.getThreadCpuTime(thread.getId());
        while (!thread.isDone() && !thread.isWaitingForStep()) {
            if (placeOf(thread, began, cpu) != Place.ON_ITS_WAY) {
                thread.takeBackSteps();
                tellOfWaiting(thread);
                return;
            }
            LockSupport.parkNanos(this, POLL_NANOS);
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
        }
    }

    private Place placeOf(ProgramThread thread, long began, long cpu) {
        var state = thread.getState();
        long waited = System.nanoTime() - began;
        boolean again = waits(threads.indexOf(thread));
        if (waited < POLL_NANOS || thread.isAtGate()) { // there it has a step, and has not woken yet
            return Place.ON_ITS_WAY;
        }
        if (state == Thread.State.BLOCKED || state == Thread.State.WAITING || state == Thread.State.TIMED_WAITING) {
            ThreadInfo info = BEAN.getThreadInfo(thread.getId());
            if (info == null || thread.isAtGate()) {
                return Place.ON_ITS_WAY;
            }
            if (info.getLockOwnerId() >= 0) {
                return ownerOf(info) >= 0 ? Place.BLOCKED : Place.ON_ITS_WAY;
            }
            // a lock that was given up just now has no owner, and this thread will wake
            boolean canHaveOwner = state == Thread.State.BLOCKED
                    || info.getLockName() != null && info.getLockName().contains("ReentrantLock");
            return !canHaveOwner && waited > (again ? STILL_NANOS : OWNERLESS_NANOS) ? Place.BLOCKED : Place.ON_ITS_WAY;
        }
        long now = BEAN.getThreadCpuTime(thread.getId());
        return now >= 0 && now - cpu > (again ? STILL_NANOS : SPINNING_CPU_NANOS) ? Place.SPINNING : Place.ON_ITS_WAY;
    }

    /** The thread of this run that has the lock, or −1. */
    private int ownerOf(ThreadInfo info) {
        for (int thread = 0; thread < threads.size(); thread++) {
            if (threads.get(thread).getId() == info.getLockOwnerId()) {
                return thread;
            }
        }
        return -1;
    }

    private void tellOfWaiting(ProgramThread thread) {
        int number = threads.indexOf(thread);
        boolean spins = thread.getState() == Thread.State.RUNNABLE;
        ThreadInfo info = !spins ? BEAN.getThreadInfo(thread.getId()) : null;
        int owner = info == null ? -1 : ownerOf(info);
        slow |= owner < 0;
        var event = Event.of(number, spins ? Event.Kind.SPIN : Event.Kind.WAIT, owner);
        if (!waits(number)) { // once, until it does something else
            events.add(event);
        }
    }

    /** Whether that it waits is the last thing that is known of a thread. */
    private boolean waits(int thread) {
        for (int i = events.size() - 1; i >= 0; i--) {
            var event = events.get(i);
            if (event.thread() == thread) {
                return event.kind() == Event.Kind.WAIT || event.kind() == Event.Kind.SPIN;
            }
        }
        return false;
    }

    /**
     * No thread can take a step. One that waits for something without an owner may have been woken just now, and had no
     * turn yet: it is given time, which is lost only where threads wait for ever.
     */
    private boolean somebodyWakes() throws InterruptedException {
        var waiting = new ArrayList<ProgramThread>();
        for (int thread = 0; thread < threads.size(); thread++) {
            if (thread != stopped && !threads.get(thread).isDone() && !waitsForAnOwner(threads.get(thread))) {
                waiting.add(threads.get(thread));
            }
        }
        long until = System.nanoTime() + WAKE_NANOS;
        while (!waiting.isEmpty() && System.nanoTime() < until) {
            if (waiting.stream().anyMatch(thread -> thread.isDone() || thread.isWaitingForStep())) {
                return true;
            }
            LockSupport.parkNanos(this, POLL_NANOS);
            if (Thread.interrupted()) {
                throw new InterruptedException();
            }
        }
        return false;
    }

    private boolean waitsForAnOwner(ProgramThread thread) {
        ThreadInfo info = BEAN.getThreadInfo(thread.getId());
        return info != null && ownerOf(info) >= 0;
    }

    private void end() {
        lookForFailures();
        var left = new ArrayList<String>();
        for (int thread = 0; thread < threads.size(); thread++) {
            if (thread != stopped && !threads.get(thread).isDone()) {
                left.add(Program.threadName(thread));
            }
        }
        if (finding == null && !left.isEmpty()) {
            String who = String.join(" and ", left);
            finding = Finding.of(Finding.Kind.STUCK,
                    stopped < 0 ? who + (left.size() > 1 ? " wait for each other" : " waits for ever")
                            : who + " cannot finish while " + Program.threadName(stopped) + " is stopped",
                    stopped < 0 ? "each call comes to an end" : "whoever runs comes to an end, wherever the others are");
        }
    }

    private void lookForFailures() {
        for (int thread = 0; thread < threads.size(); thread++) {
            Throwable failure = threads.get(thread).isDone() ? threads.get(thread).failure() : null;
            if (failure != null && finding == null) {
                finding = new Finding(Finding.Kind.THREW, "%s: %s".formatted(Program.threadName(thread), failure),
                        "no exception", failure);
            }
        }
    }

    private void endThreads() {
        over = true;
        for (var thread : threads) {
            LockSupport.unpark(thread);
            thread.interrupt();
        }
        long until = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(TO_END_MILLIS);
        boolean interrupted = false;
        for (var thread : threads) {
            try {
                thread.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(until - System.nanoTime()) / (spins(thread) ? 10 : 1)));
            } catch (InterruptedException e) {
                interrupted = true;
            }
            if (thread.isAlive()) {
                stop(thread);
            }
        }
        if (interrupted) {
            controller.interrupt();
        }
    }

    private static boolean spins(Thread thread) {
        return thread.getState() == Thread.State.RUNNABLE;
    }

    @SuppressWarnings({"deprecation", "removal"}) // nothing else ends a loop that looks at nothing
    private static void stop(Thread thread) {
        try {
            thread.stop();
            thread.join(TO_END_MILLIS);
        } catch (UnsupportedOperationException | InterruptedException e) {
            // newer JDKs cannot: it is a daemon, and goes on for nobody
        }
    }

    // ── called by the threads ──

    boolean isOver() {
        return over;
    }

    /** The calling thread takes a step. Returns its number. */
    int step() {
        if (!(Thread.currentThread() instanceof ProgramThread thread)) {
            throw new IllegalStateException("pop and push use head and below in the thread that called them");
        }
        thread.gate();
        return threads.indexOf(thread);
    }

    void took(int thread) {
        int before = decisions.isEmpty() ? -1 : decisions.get(decisions.size() - 1).thread();
        boolean costs = before >= 0 && (enabledNow >> before & 1) != 0 && threads.get(before).isInCall();
        decisions.add(new Decision(thread, enabledNow, before, costs));
        stepsOf[thread]++;
    }

    void add(Event event) {
        events.add(event);
    }
}
