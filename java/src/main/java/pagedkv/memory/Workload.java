package pagedkv.memory;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * A list of calls for any allocator, as text that Java and Python both read:
 *
 * <pre>
 *   a A 1000     # A allocates 1000 bytes
 *   a B 64K
 *   g A 2000     # A has 2000 bytes in total from now on
 *   f A          # A frees
 * </pre>
 *
 * <p>An owner is any word without blanks and has one piece of memory at a time. Sizes may be written as 64, 64K, 64M or
 * 1G, in powers of 1024.
 */
public final class Workload {

    /**
     * One call.
     *
     * @param op {@code allocate}, {@code grow} or {@code free}
     * @param sizeBytes 0 for a free
     */
    public record Call(String op, String owner, long sizeBytes) {
    }

    private static final Pattern SIZE = Pattern.compile("(\\d{1,18})([KMG]?)");

    private final List<Call> calls;

    private Workload(List<Call> calls) {
        this.calls = List.copyOf(calls);
    }

    /**
     * Reads the text of a workload.
     *
     * @throws IllegalArgumentException with the number of the line, for one that cannot be read, and for one that no
     *     program can make: a second allocate of an owner, a grow or free of nothing, a grow to less
     */
    public static Workload parse(String text) {
        var calls = new ArrayList<Call>();
        var sizes = new HashMap<String, Long>();
        int number = 0;
        for (String line : text.lines().toList()) {
            number++;
            String code = line.replaceFirst("#.*", "").strip();
            if (!code.isEmpty()) {
                try {
                    var call = read(code.split("\\s+"));
                    requirePossible(call, sizes);
                    calls.add(call);
                } catch (IllegalArgumentException problem) {
                    throw new IllegalArgumentException(
                            "line %d, \"%s\": %s".formatted(number, code, problem.getMessage()));
                }
            }
        }
        return new Workload(calls);
    }

    /** Of calls that a program has made up; refused as in {@link #parse}. */
    public static Workload of(List<Call> calls) {
        var sizes = new HashMap<String, Long>();
        calls.forEach(call -> requirePossible(call, sizes));
        return new Workload(calls);
    }

    public List<Call> calls() {
        return calls;
    }

    private static Call read(String[] words) {
        String op = switch (words[0]) {
            case "a" -> "allocate";
            case "g" -> "grow";
            case "f" -> "free";
            default -> throw new IllegalArgumentException("a line begins with a (allocate), g (grow) or f (free)");
        };
        boolean hasSize = !op.equals("free");
        if (words.length != (hasSize ? 3 : 2)) {
            throw new IllegalArgumentException("write " + words[0] + " OWNER" + (hasSize ? " SIZE" : ""));
        }
        return new Call(op, words[1], hasSize ? size(words[2]) : 0);
    }

    private static long size(String word) {
        var size = SIZE.matcher(word.toUpperCase(Locale.ROOT));
        if (!size.matches() || Long.parseLong(size.group(1)) < 1) {
            throw new IllegalArgumentException("a size is 1 or more and written as 64, 64K, 64M or 1G");
        }
        long unit = 1L << switch (size.group(2)) {
            case "K" -> 10;
            case "M" -> 20;
            case "G" -> 30;
            default -> 0;
        };
        try {
            return Math.multiplyExact(Long.parseLong(size.group(1)), unit);
        } catch (ArithmeticException tooLarge) {
            throw new IllegalArgumentException("a size is less than 2^63 bytes", tooLarge);
        }
    }

    /** Keeps what each owner has, and refuses what that rules out. */
    private static void requirePossible(Call call, Map<String, Long> sizes) {
        Long has = sizes.get(call.owner());
        if (call.op().equals("allocate") && has != null) {
            throw new IllegalArgumentException(call.owner() + " has memory already: free it first, or use another");
        }
        if (!call.op().equals("allocate") && has == null) {
            throw new IllegalArgumentException(call.owner() + " has nothing to " + call.op());
        }
        if (call.op().equals("grow") && call.sizeBytes() < has) {
            throw new IllegalArgumentException(call.owner() + " has " + has + " bytes and cannot grow to less");
        }
        if (call.op().equals("free")) {
            sizes.remove(call.owner());
        } else {
            sizes.put(call.owner(), call.sizeBytes());
        }
    }
}
