package pagedkv.concurrent;

import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicIntegerArray;

/**
 * WRONG ON PURPOSE. Treiber's stack without a tag: it loses blocks and hands them out twice.
 *
 * <p>It is {@link TaggedStack} with one block at a time and nothing but the block in its head. The swap in {@link
 * #popOne} compares the top block, and takes "the same block" for "nothing has changed".
 */
final class UntaggedStack implements FreeStack {

    private static final int END = -1;

    private final AtomicInteger head = new AtomicInteger(0);
    private final AtomicIntegerArray links;
    private volatile Runnable interruption;

    UntaggedStack(int numBlocks) {
        links = new AtomicIntegerArray(numBlocks);
        for (int block = 0; block < numBlocks; block++) {
            links.set(block, block + 1 < numBlocks ? block + 1 : END);
        }
    }

    /** Runs once, inside the next pop, between the read of the link and the swap. */
    void interruptNextPop(Runnable interruption) {
        this.interruption = interruption;
    }

    private int popOne() {
        while (true) {
            int block = head.get();
            if (block == END) {
                return END;
            }
            int below = links.get(block);
            runInterruption();
            if (head.compareAndSet(block, below)) { // ABA: the block is the same, below may not be
                return block;
            }
        }
    }

    private void runInterruption() {
        var once = interruption;
        if (once != null) {
            interruption = null;
            once.run();
        }
    }

    private void pushOne(int block) {
        int below;
        do {
            below = head.get();
            links.set(block, below);
        } while (!head.compareAndSet(below, block));
    }

    @Override
    public int pop(int[] into, int from, int least, int most) {
        int n = 0;
        while (n < most) {
            int block = popOne();
            if (block == END) {
                break;
            }
            into[from + n++] = block;
        }
        if (n < least) {
            push(into, from, n);
            return 0;
        }
        return n;
    }

    @Override
    public void push(int[] blocks, int from, int n) {
        for (int i = from; i < from + n; i++) {
            pushOne(blocks[i]);
        }
    }

    /** Of no more than all blocks: a broken stack may go in a circle. */
    @Override
    public int size() {
        int size = 0;
        for (int block = head.get(); block != END && size < links.length(); block = links.get(block)) {
            size++;
        }
        return size;
    }
}
