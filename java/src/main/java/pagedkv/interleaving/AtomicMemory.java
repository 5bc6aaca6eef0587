package pagedkv.interleaving;

import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;

/**
 * Real memory for real threads: each access is atomic, and seen by all in one order (as with {@code volatile}). A
 * thread that was interrupted has no access any more, so that an endless loop of a stack ends.
 */
final class AtomicMemory implements Memory {

    private final AtomicLong head;
    private final AtomicIntegerArray below;

    /** All blocks are on the stack, the last one on top. */
    AtomicMemory(int numBlocks) {
        head = new AtomicLong(numBlocks - 1);
        below = new AtomicIntegerArray(Memory.links(numBlocks, numBlocks));
    }

    @Override
    public int numBlocks() {
        return below.length();
    }

    @Override
    public long head() {
        checkNotInterrupted();
        return head.get();
    }

    @Override
    public void setHead(long head) {
        checkNotInterrupted();
        Memory.checkHead(head, numBlocks());
        this.head.set(head);
    }

    @Override
    public boolean compareAndSetHead(long seen, long wanted) {
        checkNotInterrupted();
        Memory.checkHead(wanted, numBlocks());
        return head.compareAndSet(seen, wanted);
    }

    @Override
    public int below(int block) {
        checkNotInterrupted();
        Memory.checkBlock(block, numBlocks(), "below(" + block + ")");
        return below.get(block);
    }

    @Override
    public void setBelow(int block, int below) {
        checkNotInterrupted();
        Memory.checkBelow(block, below, numBlocks());
        this.below.set(block, below);
    }

    private static void checkNotInterrupted() {
        if (Thread.currentThread().isInterrupted()) {
            throw new IllegalStateException("interrupted");
        }
    }
}
