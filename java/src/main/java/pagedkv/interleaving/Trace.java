package pagedkv.interleaving;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;

/**
 * What happened in a run, step by step, as plain maps and lists: what a picture is made of, and JSON.
 *
 * <p>After each step, where every block is: on the stack, with a thread, or lost. A thread has a block from the step on
 * that takes it off the stack, if its pop returns it in the end; and until the step that puts it on the stack, if it
 * pushes it.
 */
final class Trace {

    private static final String LOST = "lost";

    private final Program program;
    private final List<Event> events;
    private final String title;
    private final Finding finding;

    Trace(Program program, List<Event> events, String title, Finding finding) {
        this.program = program;
        this.events = events;
        this.title = title;
        this.finding = finding;
    }

    Map<String, Object> toMap() {
        var actors = new ArrayList<String>();
        var places = new ArrayList<Map<String, Object>>();
        places.add(Map.of("name", "stack", "kind", "stack"));
        for (int thread = 0; thread < program.numThreads(); thread++) {
            String name = Program.threadName(thread);
            actors.add(name);
            places.add(Map.of("name", name + " holds", "kind", "set", "actor", name));
        }
        places.add(Map.of("name", LOST, "kind", "lost"));
        var steps = steps();
        mark(steps);
        var trace = new LinkedHashMap<String, Object>();
        trace.put("version", 1);
        trace.put("title", title);
        trace.put("actors", actors);
        trace.put("places", places);
        trace.put("steps", steps);
        trace.put("result", finding == null ? "" : finding.yours());
        return trace;
    }

    private List<Map<String, Object>> steps() {
        var state = new State(program);
        var calls = new String[program.numThreads()];
        var notes = new String[program.numThreads()];
        var steps = new ArrayList<Map<String, Object>>();
        steps.add(step(null, null, "start", state, calls, notes, -1));
        for (int i = 0; i < events.size(); i++) {
            var event = events.get(i);
            state.apply(event);
            int thread = event.thread();
            switch (event.kind()) {
                case CALL_POP -> calls[thread] = "pop()";
                case CALL_PUSH -> calls[thread] = "push(" + event.a() + ")";
                case READ_HEAD -> notes[thread] = joined(notes[thread], "head " + Memory.headText(event.a()));
                case READ_BELOW -> notes[thread] = joined(notes[thread],
                        "below " + event.a() + " is " + Memory.blockText((int) event.b()));
                default -> { }
            }
            String call = calls[thread];
            if (event.kind() == Event.Kind.RETURN_POP || event.kind() == Event.Kind.RETURN_PUSH) {
                calls[thread] = null;
                notes[thread] = null;
            }
            steps.add(step(Program.threadName(thread), call, event.text(), state, calls, notes, i));
        }
        return steps;
    }

    private Map<String, Object> step(String actor, String call, String text, State state, String[] calls, String[] notes,
            int event) {
        var onStack = state.stack();
        Map<String, Collection<Integer>> blocks = new LinkedHashMap<>();
        blocks.put("stack", onStack);
        for (int thread = 0; thread < program.numThreads(); thread++) {
            blocks.put(Program.threadName(thread) + " holds", new TreeSet<>());
        }
        blocks.put(LOST, new TreeSet<>());
        for (int block = 0; block < program.numBlocks(); block++) {
            int thread = state.holder(block);
            if (thread < 0 && !onStack.contains(block)) {
                thread = inHand(block, event);
                if (thread < 0) {
                    blocks.get(LOST).add(block);
                }
            }
            if (thread >= 0) {
                blocks.get(Program.threadName(thread) + " holds").add(block);
            }
        }
        var allNotes = new LinkedHashMap<String, String>();
        for (int thread = 0; thread < program.numThreads(); thread++) {
            allNotes.put(Program.threadName(thread), calls[thread] == null ? ""
                    : calls[thread] + (notes[thread] == null ? "" : ": read " + notes[thread]));
        }
        var step = new LinkedHashMap<String, Object>();
        step.put("actor", actor);
        step.put("call", call);
        step.put("text", text);
        var plain = new LinkedHashMap<String, List<Integer>>();
        blocks.forEach((place, there) -> plain.put(place, new ArrayList<>(there)));
        step.put("blocks", plain);
        step.put("notes", allNotes);
        int head = Memory.block(state.head());
        step.put("head", head == Memory.NONE ? null : head);
        step.put("mark", null);
        return step;
    }

    private static String joined(String before, String more) {
        return before == null ? more : before + ", " + more;
    }

    /** The thread in whose call this block is, neither on the stack nor held: it pops it, or pushes it. Or −1. */
    private int inHand(int block, int event) {
        for (int thread = 0; thread < program.numThreads(); thread++) {
            for (int i = event; i >= 0; i--) { // the call that it is in
                var begin = events.get(i);
                if (begin.thread() != thread) {
                    continue;
                }
                if (begin.kind() == Event.Kind.RETURN_POP || begin.kind() == Event.Kind.RETURN_PUSH) {
                    break;
                }
                if (begin.kind() == Event.Kind.CALL_PUSH) {
                    if (begin.a() == block) {
                        return thread;
                    }
                    break;
                }
                if (begin.kind() == Event.Kind.CALL_POP) {
                    if (returns(thread, event, block)) {
                        return thread;
                    }
                    break;
                }
            }
        }
        return -1;
    }

    private boolean returns(int thread, int from, int block) {
        for (int i = from; i < events.size(); i++) {
            if (events.get(i).thread() == thread && events.get(i).kind() == Event.Kind.RETURN_POP) {
                return events.get(i).a() == block;
            }
        }
        return false;
    }

    /** The first step after which a block is in two places, or in none; else the last one. */
    private void mark(List<Map<String, Object>> steps) {
        var broken = steps.stream().filter(this::isBroken).findFirst();
        broken.orElse(steps.get(steps.size() - 1)).put("mark", "broken here");
    }

    @SuppressWarnings("unchecked")
    private boolean isBroken(Map<String, Object> step) {
        var blocks = (Map<String, List<Integer>>) step.get("blocks");
        long all = blocks.values().stream().mapToInt(List::size).sum();
        return !blocks.get(LOST).isEmpty() || all != program.numBlocks();
    }
}
