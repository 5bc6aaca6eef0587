package pagedkv.interleaving;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What each of a few threads does with a stack: "pop a, pop b, push a, push b".
 *
 * <p>A name stands for what that pop returned; if it was no block, its push is left out. A number, as in "push 4", is a
 * block that the thread holds from the beginning. The stack then holds the blocks from 0 to {@code stacked} − 1, the
 * last one on top. The threads are called A, B, C.
 *
 * @param stacked how many blocks are on the stack in the beginning
 * @param threads the calls of each thread, one after the other
 */
public record Program(int stacked, List<List<Call>> threads) {

    private static final int MOST_THREADS = 3;
    private static final int MOST_CALLS = 10;
    private static final Pattern CALL = Pattern.compile("\\s*(pop|push)\\s+(\\w+)\\s*");

    /**
     * @param pop else it is a push
     * @param slot where the thread keeps what it popped; −1 if the block is {@code block}
     * @param block held from the beginning, or −1
     */
    record Call(boolean pop, int slot, int block, String name) {

        @Override
        public String toString() {
            return (pop ? "pop " : "push ") + name;
        }
    }

    public Program {
        if (stacked < 0 || stacked > 16) {
            throw new IllegalArgumentException("0 to 16 blocks can be on the stack, not " + stacked);
        }
        if (threads.isEmpty() || threads.size() > MOST_THREADS) {
            throw new IllegalArgumentException("a program has 1 to " + MOST_THREADS + " threads, not " + threads.size());
        }
        threads = threads.stream().map(List::copyOf).toList();
        if (threads.stream().mapToInt(List::size).sum() > MOST_CALLS) {
            throw new IllegalArgumentException("a program has no more than " + MOST_CALLS + " calls, all threads together");
        }
    }

    /**
     * @param stacked how many blocks are on the stack in the beginning
     * @param threads one text for each thread
     * @throws IllegalArgumentException which says what cannot be read
     */
    public static Program of(int stacked, String... threads) {
        var parsed = new ArrayList<List<Call>>();
        var held = new HashMap<Integer, Integer>(); // block → thread
        for (String text : threads) {
            parsed.add(parse(text, stacked, parsed.size(), held));
        }
        for (int block = stacked; block < stacked + held.size(); block++) {
            if (!held.containsKey(block)) {
                throw new IllegalArgumentException("blocks held from the beginning are numbered on from the stack's: "
                        + "one is " + block);
            }
        }
        return new Program(stacked, parsed);
    }

    private static List<Call> parse(String text, int stacked, int thread, Map<Integer, Integer> held) {
        var calls = new ArrayList<Call>();
        var slots = new HashMap<String, Integer>();
        for (String part : text.split(",")) {
            Matcher matcher = CALL.matcher(part);
            if (!matcher.matches()) {
                throw new IllegalArgumentException("\"" + part.strip() + "\" is no call; one is \"pop a\", \"push a\" or, "
                        + "for a block held from the beginning, \"push 4\"");
            }
            boolean pop = matcher.group(1).equals("pop");
            String name = matcher.group(2);
            if (!pop && name.matches("\\d+")) {
                int block = Integer.parseInt(name);
                if (block < stacked || held.put(block, thread) != null) {
                    throw new IllegalArgumentException("nobody else may have block " + block + " in the beginning");
                }
                calls.add(new Call(false, -1, block, name));
            } else if (pop) {
                slots.put(name, slots.size());
                calls.add(new Call(true, slots.get(name), -1, name));
            } else {
                Integer slot = slots.get(name);
                if (slot == null) {
                    throw new IllegalArgumentException("\"push " + name + "\": nothing called " + name + " was popped yet");
                }
                calls.add(new Call(false, slot, -1, name));
            }
        }
        return calls;
    }

    int numThreads() {
        return threads.size();
    }

    int numBlocks() {
        return stacked + heldFirst().size();
    }

    /** Which thread holds a block in the beginning: block → thread. */
    Map<Integer, Integer> heldFirst() {
        var held = new HashMap<Integer, Integer>();
        for (int thread = 0; thread < threads.size(); thread++) {
            for (Call call : threads.get(thread)) {
                if (call.block >= 0) {
                    held.put(call.block, thread);
                }
            }
        }
        return held;
    }

    static String threadName(int thread) {
        return String.valueOf((char) ('A' + thread));
    }

    /** "A: pop a, push a; B: pop a, push a; blocks on the stack, from the top: 1, 0". */
    @Override
    public String toString() {
        var text = new StringBuilder();
        for (int thread = 0; thread < threads.size(); thread++) {
            text.append(threadName(thread)).append(": ");
            text.append(String.join(", ", threads.get(thread).stream().map(Call::toString).toList())).append("; ");
        }
        var blocks = Memory.walk(stacked - 1, Memory.links(stacked, stacked)).stream().map(String::valueOf).toList();
        return text + (blocks.isEmpty() ? "the stack is empty" : "on the stack, from the top: " + String.join(", ", blocks));
    }
}
