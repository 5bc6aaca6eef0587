package pagedkv.notebook;

import java.util.Arrays;
import java.util.Collections;
import java.util.IdentityHashMap;
import java.util.List;
import java.util.Set;

/** Stack traces without the frames below the cell's own code: how the notebook came to run it is of no use to a learner. */
final class CellStack {
    private static final Set<String> RUNNERS = Set.of(LoadedBody.class.getName(), CellRun.class.getName());

    /** The frames of the method handle that calls a body; some JDKs show them. */
    private static final String METHOD_HANDLES = "java.lang.invoke.";

    private CellStack() {
    }

    static List<StackTraceElement> cut(StackTraceElement[] frames) {
        List<StackTraceElement> above = Arrays.stream(frames)
                .takeWhile(frame -> !RUNNERS.contains(frame.getClassName())).toList();
        int end = above.size();
        while (end > 0 && above.get(end - 1).getClassName().startsWith(METHOD_HANDLES)) {
            end--;
        }
        return above.subList(0, end);
    }

    /** Cuts the traces of an exception and its causes. */
    static void cut(Throwable failure) {
        Set<Throwable> seen = Collections.newSetFromMap(new IdentityHashMap<>());
        for (Throwable each = failure; each != null && seen.add(each); each = each.getCause()) {
            each.setStackTrace(cut(each.getStackTrace()).toArray(StackTraceElement[]::new));
        }
    }
}
