package pagedkv.interleaving;

import java.util.Arrays;
import java.util.List;

/** The head, the links and who holds what, after the events so far. */
final class State {

    private static final int NOBODY = -1;

    private final int[] below;
    private final int[] holders; // by block: the thread that holds it, or pushes it and has not got to the end
    private long head;

    State(Program program) {
        head = program.stacked() == 0 ? Memory.NONE & 0xFFFF_FFFFL : program.stacked() - 1;
        below = Memory.links(program.numBlocks(), program.stacked());
        holders = new int[program.numBlocks()];
        Arrays.fill(holders, NOBODY);
        program.heldFirst().forEach((block, thread) -> holders[block] = thread);
    }

    void apply(Event event) {
        switch (event.kind()) {
            case WRITE_HEAD -> head = event.a();
            case SWAP_HEAD -> head = event.swapped() ? event.b() : head;
            case WRITE_BELOW -> below[(int) event.a()] = (int) event.b();
            case CALL_PUSH -> holders[(int) event.a()] = NOBODY;
            case RETURN_POP -> {
                if (event.a() >= 0 && event.a() < holders.length) {
                    holders[(int) event.a()] = event.thread();
                }
            }
            default -> { }
        }
    }

    long head() {
        return head;
    }

    int[] below() {
        return below;
    }

    /** The blocks on the stack, the top first. */
    List<Integer> stack() {
        return Memory.walk(head, below);
    }

    /** Of this block, or −1. */
    int holder(int block) {
        return holders[block];
    }
}
