package pagedkv.interleaving;

/**
 * Something that a thread did. Events are all that is kept of a run; what a trace shows is worked out from them.
 *
 * @param a the block (calls, below, returns), the head (read, written), or what was seen (compare-and-set)
 * @param b what lies below, or what was wanted
 * @param found what a compare-and-set found in the head
 */
record Event(int thread, Kind kind, long a, long b, long found) {

    enum Kind {
        CALL_POP, CALL_PUSH, READ_HEAD, WRITE_HEAD, SWAP_HEAD, READ_BELOW, WRITE_BELOW, RETURN_POP, RETURN_PUSH,
        /** Waits for a lock; {@code a} is the thread that has it, or −1. */
        WAIT,
        /** Goes round in a loop without a step. */
        SPIN,
        /** Is never given another step. */
        STOP
    }

    /** Else it belongs to the step before, or to none. */
    boolean isStep() {
        return switch (kind) {
            case CALL_POP, CALL_PUSH, READ_HEAD, WRITE_HEAD, SWAP_HEAD, READ_BELOW, WRITE_BELOW -> true;
            default -> false;
        };
    }

    static Event of(int thread, Kind kind, long a) {
        return new Event(thread, kind, a, 0, 0);
    }

    static Event of(int thread, Kind kind, long a, long b) {
        return new Event(thread, kind, a, b, 0);
    }

    boolean swapped() {
        return kind == Kind.SWAP_HEAD && found == a;
    }

    /** In a few words, without the thread's name. */
    String text() {
        return switch (kind) {
            case CALL_POP -> "calls pop()";
            case CALL_PUSH -> "calls push(" + a + ")";
            case READ_HEAD -> "reads head: " + Memory.headText(a);
            case WRITE_HEAD -> "writes head: " + Memory.headText(a);
            case SWAP_HEAD -> "compare-and-set head " + Memory.headText(a) + " → " + Memory.headText(b)
                    + (swapped() ? ": done" : ": refused, it is " + Memory.headText(found));
            case READ_BELOW -> "reads below " + a + ": " + Memory.blockText((int) b);
            case WRITE_BELOW -> "writes below " + a + ": " + Memory.blockText((int) b);
            case RETURN_POP -> "pop() returns " + (a == Memory.NONE ? "NONE" : a);
            case RETURN_PUSH -> "push(" + a + ") returns";
            case WAIT -> a < 0 ? "has to wait" : "has to wait for a lock that " + Program.threadName((int) a) + " has";
            case SPIN -> "goes round in a loop and waits";
            case STOP -> "is stopped here, and never goes on";
        };
    }
}
