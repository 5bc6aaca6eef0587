package pagedkv.article;

import java.util.ArrayDeque;
import java.util.Deque;
import pagedkv.pool.ObservedPool;
import pagedkv.pool.OutOfBlocksException;

/**
 * The article's pool of reference-counted blocks, faults included (N13).
 *
 * <p>It has the methods of the pool contract, so that it can be watched like any other pool, but it
 * does not keep the contract:
 *
 * <ul>
 *   <li>{@code retain} of a free block succeeds. The block stays on the free list and the next
 *       allocation hands it to somebody else.
 *   <li>{@code release} never checks the count. Released twice, a block stands on the free list
 *       twice: 9 of 8 blocks are free, and two owners are given the same block.
 *   <li>A call that fails keeps what it did so far. An allocation that finds too few blocks loses
 *       those it already took.
 *   <li>An id outside the pool ends in an {@link ArrayIndexOutOfBoundsException}, and no event
 *       tells of that call.
 * </ul>
 *
 * <p>As in the article one {@code synchronized} monitor guards every method (N12): threads are
 * safe, but they queue at one lock.
 */
public final class RefCountedBlockPool extends ObservedPool {

    public static final int DEFAULT_NUM_BLOCKS = 1024;

    private final RefCountedBlock[] blocks;
    /** Last in, first out: filled with 0, 1, 2, …, so the highest id leaves first (N14). */
    private final Deque<RefCountedBlock> freeList = new ArrayDeque<>();

    public RefCountedBlockPool() {
        this(DEFAULT_NUM_BLOCKS);
    }

    public RefCountedBlockPool(int numBlocks) {
        blocks = new RefCountedBlock[requireAtLeastOne("numBlocks", numBlocks)];
        for (int id = 0; id < numBlocks; id++) {
            blocks[id] = new RefCountedBlock(id);
            freeList.push(blocks[id]);
        }
    }

    @Override
    protected int[] take(int n) {
        var taken = new int[n];
        for (int i = 0; i < n; i++) {
            if (freeList.isEmpty()) {
                throw new OutOfBlocksException(
                        "need %d blocks, found %d; those are lost now".formatted(n, i));
            }
            var block = freeList.pop();
            block.reset();
            taken[i] = block.id();
        }
        return taken;
    }

    @Override
    protected void addReferences(int[] ids) {
        for (int id : ids) {
            blocks[id].retain();
        }
    }

    @Override
    protected void dropReferences(int[] ids) {
        for (int id : ids) {
            if (blocks[id].release()) {
                freeList.push(blocks[id]);
            }
        }
    }

    /** The count as it is; after a double release it is negative. */
    @Override
    public synchronized int refcount(int block) {
        return blocks[block].refCount();
    }

    /** The length of the free list; after a double release more than there are. */
    @Override
    public synchronized int numFreeBlocks() {
        return freeList.size();
    }

    @Override
    public int numBlocks() {
        return blocks.length;
    }
}
