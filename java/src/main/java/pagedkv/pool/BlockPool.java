package pagedkv.pool;

/**
 * The correct pool: a reference count per block and a stack of the free blocks.
 *
 * <pre>
 *   refcounts   [ 2 | 0 | 1 | 0 | 0 ]      block 0 is shared, 1, 3 and 4 are free
 *   freeStack   [ 4 | 3 | 1 | · | · ]      numFree = 3; the next block is 1
 * </pre>
 *
 * <p>Every call first checks all that can be wrong and only then changes something; its cost grows
 * with the length of the call, never with the size of the pool. One monitor guards everything, so
 * calls of several threads are safe and take turns.
 */
public final class BlockPool extends ObservedPool {

    private final int[] refcounts;
    private final int[] freeStack;
    private int numFree;

    public BlockPool(int numBlocks) {
        refcounts = new int[requireAtLeastOne("numBlocks", numBlocks)];
        freeStack = new int[numBlocks];
        for (int block = numBlocks - 1; block >= 0; block--) {
            freeStack[numFree++] = block;
        }
    }

    @Override
    protected int[] take(int n) {
        requireFree(n);
        var blocks = new int[n];
        for (int i = 0; i < n; i++) {
            blocks[i] = freeStack[--numFree];
            refcounts[blocks[i]] = 1;
        }
        return blocks;
    }

    @Override
    protected void addReferences(int[] blocks) {
        requireBlocks(blocks);
        for (int block : blocks) {
            if (refcounts[block] == 0) {
                throw UseAfterFreeException.of(block, null);
            }
        }
        for (int block : blocks) {
            refcounts[block]++;
        }
    }

    @Override
    protected void dropReferences(int[] blocks) {
        requireBlocks(blocks);
        requireReferences(blocks);
        for (int block : blocks) {
            if (--refcounts[block] == 0) {
                freeStack[numFree++] = block;
            }
        }
    }

    /**
     * Rehearses a release: counts down as far as it goes, then puts every count back. That finds a
     * block that stands in the call too often, without a second table to count in.
     */
    private void requireReferences(int[] blocks) {
        int done = 0;
        while (done < blocks.length && refcounts[blocks[done]] > 0) {
            refcounts[blocks[done++]]--;
        }
        for (int i = 0; i < done; i++) {
            refcounts[blocks[i]]++;
        }
        if (done < blocks.length) {
            throw doubleFree(blocks[done], blocks);
        }
    }

    private DoubleFreeException doubleFree(int block, int[] blocks) {
        int times = 0;
        for (int other : blocks) {
            if (other == block) {
                times++;
            }
        }
        return DoubleFreeException.of(block, refcounts[block], times, null);
    }

    @Override
    public synchronized int refcount(int block) {
        requireBlock(block);
        return refcounts[block];
    }

    @Override
    public synchronized int numFreeBlocks() {
        return numFree;
    }

    @Override
    public int numBlocks() {
        return refcounts.length;
    }
}
