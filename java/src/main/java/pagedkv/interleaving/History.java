package pagedkv.interleaving;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * What a run of calls amounts to: where every block is in the end, and whether there is an order of the calls, one
 * after the other, in which a stack would have answered the same (<em>linearizability</em>).
 */
final class History {

    /** @param pop else a push; @param block what it returned, or what it was given; the rest: places among the events */
    private record Call(boolean pop, int block, int begin, int end) {
    }

    private final Program program;
    private final List<Event> events;
    private final List<Call> calls = new ArrayList<>();

    History(Program program, List<Event> events) {
        this.program = program;
        this.events = events;
        Map<Integer, Integer> begun = new HashMap<>();
        for (int i = 0; i < events.size(); i++) {
            var event = events.get(i);
            switch (event.kind()) {
                case CALL_POP, CALL_PUSH -> begun.put(event.thread(), i);
                case RETURN_POP -> calls.add(new Call(true, (int) event.a(), begun.get(event.thread()), i));
                case RETURN_PUSH -> calls.add(new Call(false, (int) event.a(), begun.get(event.thread()), i));
                default -> { }
            }
        }
    }

    /** The first block that a pop gave to one thread while another one had it, or null. */
    Finding handedOutTwice() {
        var holder = new HashMap<>(program.heldFirst());
        for (var event : events) {
            int block = (int) event.a();
            if (event.kind() == Event.Kind.CALL_PUSH) {
                holder.remove(block);
            } else if (event.kind() == Event.Kind.RETURN_POP && block != SharedStack.NONE) {
                Integer other = holder.put(block, event.thread());
                if (other != null) {
                    return Finding.of(Finding.Kind.BLOCKS, "pop() gives block %d to %s, and %s has it already".formatted(block,
                            Program.threadName(event.thread()), Program.threadName(other)), "each block has one owner");
                }
            }
        }
        return null;
    }

    /** What is wrong in the end, after all calls, or null. */
    Finding atTheEnd() {
        var state = new State(program);
        events.forEach(state::apply);
        var problems = new ArrayList<String>();
        if (Memory.isCircle(state.head(), state.below())) {
            problems.add("the stack goes in a circle");
        }
        Set<Integer> lost = new TreeSet<>();
        Set<Integer> twice = new TreeSet<>();
        var onStack = state.stack();
        for (int block = 0; block < program.numBlocks(); block++) {
            boolean held = state.holder(block) >= 0;
            if (!held && !onStack.contains(block)) {
                lost.add(block);
            } else if (held && onStack.contains(block)) {
                twice.add(block);
            }
        }
        if (!lost.isEmpty()) {
            problems.add(named(lost) + (lost.size() > 1 ? " are" : " is") + " lost: neither on the stack nor held by anybody");
        }
        if (!twice.isEmpty()) {
            problems.add(named(twice) + (twice.size() > 1 ? " are" : " is") + " on the stack although somebody holds "
                    + (twice.size() > 1 ? "them" : "it"));
        }
        if (!problems.isEmpty()) {
            return Finding.of(Finding.Kind.BLOCKS, String.join("; ", problems), "each block is on the stack or held by one thread");
        }
        return isLinearizable(onStack) ? null : notLinearizable();
    }

    private Finding notLinearizable() {
        for (var call : calls) {
            if (call.pop && call.block == SharedStack.NONE) {
                return Finding.of(Finding.Kind.RETURNED, "a pop() returned NONE, and no order of the calls explains that",
                        "NONE only if the stack was empty at some moment of the call");
            }
        }
        return Finding.of(Finding.Kind.RETURNED, "no order of the calls explains what they returned",
                "the answers of a stack: last in, first out");
    }

    private boolean isLinearizable(List<Integer> end) {
        var stack = new ArrayDeque<Integer>();
        for (int block = 0; block < program.stacked(); block++) {
            stack.push(block);
        }
        return explains(new ArrayList<>(calls), stack, end);
    }

    private static boolean explains(List<Call> left, Deque<Integer> stack, List<Integer> end) {
        if (left.isEmpty()) {
            return new ArrayList<>(stack).equals(end);
        }
        int firstEnd = left.stream().mapToInt(Call::end).min().getAsInt();
        for (int i = 0; i < left.size(); i++) {
            var call = left.get(i);
            if (call.begin > firstEnd) {
                continue; // another one was over before it began
            }
            var rest = new ArrayList<>(left);
            rest.remove(i);
            var next = new ArrayDeque<>(stack);
            if (call.pop) {
                Integer top = next.poll();
                if ((top == null ? SharedStack.NONE : top) != call.block) {
                    continue;
                }
            } else {
                next.push(call.block);
            }
            if (explains(rest, next, end)) {
                return true;
            }
        }
        return false;
    }

    private static String named(Set<Integer> blocks) {
        var texts = blocks.stream().map(String::valueOf).toList();
        int last = texts.size() - 1;
        return last == 0 ? "block " + texts.get(0)
                : "blocks " + String.join(", ", texts.subList(0, last)) + " and " + texts.get(last);
    }
}
