package pagedkv.interleaving;

import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;

/** Real memory for real threads: each access is atomic, and seen by all in one order (as with {@code volatile}). */
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
        return head.get();
    }

    @Override
    public void setHead(long head) {
        Memory.checkHead(head, numBlocks());
        this.head.set(head);
    }

    @Override
    public boolean compareAndSetHead(long seen, long wanted) {
        Memory.checkHead(wanted, numBlocks());
        return head.compareAndSet(seen, wanted);
    }

    @Override
    public int below(int block) {
        Memory.checkBlock(block, numBlocks(), "below(" + block + ")");
        return below.get(block);
    }

    @Override
    public void setBelow(int block, int below) {
        Memory.checkBelow(block, below, numBlocks());
        this.below.set(block, below);
    }
}
