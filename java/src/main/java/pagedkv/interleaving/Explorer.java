package pagedkv.interleaving;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Deque;
import java.util.List;
import java.util.Map;

/**
 * Tries schedules until one breaks a stack: first all without a preemption, then all with one, and so on.
 *
 * <p>The order is settled by the stack and the program alone, so the first one that is found is the same on every run.
 */
public final class Explorer {

    private static final int MOST_PREEMPTIONS = 3;
    /** Where a thread waits for something that has no owner, or goes round in a loop, a schedule takes long. */
    private static final int A_SLOW_ONE_COUNTS_AS = 40;

    /**
     * @param schedules how many were tried
     * @param finding what is wrong, or null
     * @param trace what happened step by step, for a picture; null if nothing is wrong
     * @param program the one that broke it, or the last one
     */
    public record Result(int schedules, Finding finding, Map<String, Object> trace, Program program) {

        public boolean passed() {
            return finding == null;
        }

        /** The trace, a line for each step. */
        @SuppressWarnings("unchecked")
        public String story() {
            var lines = new ArrayList<String>();
            for (var step : trace == null ? List.<Map<String, Object>>of() : (List<Map<String, Object>>) trace.get("steps")) {
                if (step.get("actor") != null) {
                    lines.add(step.get("actor") + "  " + step.get("text"));
                }
            }
            return String.join("\n", lines);
        }
    }

    private record Prefix(int[] schedule, int preemptions) {
    }

    private final Class<? extends SharedStack> type;
    private final int mostSchedules;
    private int tried;

    private Explorer(Class<? extends SharedStack> type, int mostSchedules) {
        this.type = type;
        this.mostSchedules = mostSchedules;
    }

    /**
     * All programs, one after the other, each under at most {@code mostSchedules} schedules; fewer if each takes long,
     * since threads wait for something whose owner cannot be told (a semaphore, a loop).
     *
     * @throws IllegalArgumentException if the class cannot be used
     * @throws InterruptedException if the caller is interrupted; no thread is left then
     */
    public static Result explore(Class<? extends SharedStack> type, int mostSchedules, Program... programs)
            throws InterruptedException {
        var explorer = new Explorer(type, mostSchedules);
        for (var program : programs) {
            var result = explorer.explore(program);
            if (!result.passed()) {
                return result;
            }
        }
        return explorer.result(null, programs[programs.length - 1], null);
    }

    /**
     * Stops each thread for good after each number of steps that it takes when it is alone: the others must come to an
     * end all the same. A stack with locks does not pass.
     */
    public static Result stopEverywhere(Class<? extends SharedStack> type, Program... programs) throws InterruptedException {
        var explorer = new Explorer(type, Integer.MAX_VALUE);
        for (var program : programs) {
            for (int thread = 0; thread < program.numThreads(); thread++) {
                int steps = Run.of(type, program, first(thread)).steps(thread);
                for (int after = 1; after < steps; after++) {
                    explorer.tried++;
                    var run = Run.stopping(type, program, thread, after);
                    if (run.finding() != null) {
                        return explorer.result(run, program, run.finding());
                    }
                }
            }
        }
        return explorer.result(null, programs[programs.length - 1], null);
    }

    /**
     * Lets the second thread make a whole call before each compare-and-set of the first one, for as long as it has calls.
     * The first one has to go on trying.
     */
    public static Result disturb(Class<? extends SharedStack> type, Program... programs) throws InterruptedException {
        var explorer = new Explorer(type, Integer.MAX_VALUE);
        for (var program : programs) {
            var result = explorer.disturb(program);
            if (!result.passed()) {
                return result;
            }
        }
        return explorer.result(null, programs[programs.length - 1], null);
    }

    private Result disturb(Program program) throws InterruptedException {
        int[] schedule = first(0);
        while (true) {
            var run = Run.of(type, program, schedule);
            tried++;
            var finding = judge(run);
            if (finding != null) {
                return result(run, program, finding);
            }
            int swap = stepOf(run, schedule.length, 0, Event.Kind.SWAP_HEAD);
            if (swap < 0) {
                return result(null, program, null);
            }
            int[] before = withSteps(schedule, swap - schedule.length, 0);
            int end = stepOf(Run.of(type, program, withSteps(before, 1, 1)), before.length, 1,
                    Event.Kind.RETURN_POP, Event.Kind.RETURN_PUSH);
            if (end < 0) {
                return result(null, program, null); // it has no calls left
            }
            schedule = withSteps(withSteps(before, end - before.length, 1), 1, 0);
        }
    }

    /** How many steps lie before the first event of these kinds that comes behind so many steps; −1 if there is none. */
    private static int stepOf(Run run, int behind, int thread, Event.Kind... kinds) {
        int steps = 0;
        for (var event : run.events()) {
            if (steps >= behind && event.thread() == thread && List.of(kinds).contains(event.kind())) {
                return steps;
            }
            steps += event.isStep() ? 1 : 0;
        }
        return -1;
    }

    private static int[] withSteps(int[] schedule, int more, int thread) {
        int[] longer = Arrays.copyOf(schedule, schedule.length + more);
        Arrays.fill(longer, schedule.length, longer.length, thread);
        return longer;
    }

    private static int[] first(int thread) {
        return new int[] {thread};
    }

    private Result explore(Program program) throws InterruptedException {
        List<Deque<Prefix>> waiting = new ArrayList<>();
        for (int i = 0; i <= MOST_PREEMPTIONS; i++) {
            waiting.add(new ArrayDeque<>());
        }
        waiting.get(0).add(new Prefix(new int[0], 0));
        int left = mostSchedules;
        for (int preemptions = 0; preemptions <= MOST_PREEMPTIONS; preemptions++) {
            while (!waiting.get(preemptions).isEmpty() && left-- > 0) {
                var prefix = waiting.get(preemptions).remove();
                var run = Run.of(type, program, prefix.schedule);
                tried++;
                var finding = judge(run);
                if (finding != null) {
                    return result(run, program, finding);
                }
                left -= run.isSlow() ? A_SLOW_ONE_COUNTS_AS - 1 : 0;
                branch(run, prefix, waiting);
            }
        }
        return result(null, program, null);
    }

    private static Finding judge(Run run) {
        var history = new History(run.program, run.events());
        var finding = history.handedOutTwice();
        if (finding == null) {
            finding = run.finding();
        }
        return finding == null ? history.atTheEnd() : finding;
    }

    /** At each step behind the prefix another thread could have come. */
    private static void branch(Run run, Prefix prefix, List<Deque<Prefix>> waiting) {
        var decisions = run.decisions();
        for (int step = prefix.schedule.length; step < decisions.size(); step++) {
            var decision = decisions.get(step);
            for (int thread = 0; thread < run.program.numThreads(); thread++) {
                if (thread == decision.thread() || (decision.enabled() >> thread & 1) == 0) {
                    continue;
                }
                int preemptions = prefix.preemptions + (decision.costs() && thread != decision.before() ? 1 : 0);
                if (preemptions > MOST_PREEMPTIONS) {
                    continue;
                }
                int[] schedule = new int[step + 1];
                for (int i = 0; i < step; i++) {
                    schedule[i] = decisions.get(i).thread();
                }
                schedule[step] = thread;
                waiting.get(preemptions).add(new Prefix(schedule, preemptions));
            }
        }
    }

    private Result result(Run run, Program program, Finding finding) {
        var trace = run == null ? null
                : new Trace(program, run.events(), type.getSimpleName() + " – " + program, finding).toMap();
        return new Result(tried, finding, trace, program);
    }
}
