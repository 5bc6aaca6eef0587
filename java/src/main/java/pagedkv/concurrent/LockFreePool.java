package pagedkv.concurrent;

import pagedkv.pool.DoubleFreeException;
import pagedkv.pool.OutOfBlocksException;
import pagedkv.pool.UseAfterFreeException;

/**
 * No locks: a stack of the free blocks ({@link TaggedStack}) and a count per block ({@link Counts}).
 *
 * <p>A call of any length takes its blocks from the stack in one swap, and puts them back in one swap. So allocate
 * is all or nothing without any undoing, and it refuses only if at one moment of the call the stack was too short.
 *
 * <p><b>In which order.</b> The count of a block says whether it is held, the stack says whether it can be had.
 * They change one after the other, and always so that a block is never in both:
 * <ul>
 *   <li>allocate: off the stack, <em>then</em> count 0 → 1. In between nobody but this thread can reach the block;</li>
 *   <li>release: count 1 → 0, <em>then</em> onto the stack. The other way round, another thread could be given a block
 *       that still counts as held;</li>
 *   <li>retain: only n → n + 1 with n at least 1. A block of count 0 is never brought back to life: it may be on the
 *       stack.</li>
 * </ul>
 * Each step is a compare-and-swap, in Java a volatile read and write, so all threads see the steps in one order. A
 * block counts as allocated from the swap of the stack on, and as free from the swap that put it back.
 *
 * <p><b>What lock-free does not mean.</b> A thread that is stopped between two steps blocks nobody, but the blocks in
 * its hands are neither held nor on the stack until it goes on. And of many threads that swap the same head at once one
 * succeeds; the others try again. That is what {@link CachedLockFreePool} avoids.
 */
public class LockFreePool extends ConcurrentPool {

    private final Counts counts;
    private final FreeStack free;

    public LockFreePool(int numBlocks) {
        this(numBlocks, new TaggedStack(Counts.requireNumBlocks(numBlocks)));
    }

    LockFreePool(int numBlocks, FreeStack free) {
        this.counts = new Counts(numBlocks);
        this.free = free;
    }

    @Override
    protected final int[] take(int n) {
        if (n == 0) {
            return new int[0];
        }
        if (n > counts.numBlocks()) { // else an array of that size would be made first
            throw OutOfBlocksException.of(n, free.size(), counts.numBlocks());
        }
        var blocks = new int[n];
        while (free.pop(blocks, 0, n, n) == 0) {
            int size = free.size();
            if (size < n) {
                throw OutOfBlocksException.of(n, size, counts.numBlocks());
            } // else some came back meanwhile
        }
        for (int block : blocks) {
            counts.claim(block);
        }
        return blocks;
    }

    @Override
    protected final void addReferences(int[] blocks) {
        retainAll(counts, free, blocks);
    }

    /** Adds one reference for each entry, or none and refuses. */
    static void retainAll(Counts counts, FreeStack free, int[] blocks) {
        Blocks.requireBlocks(blocks, counts.numBlocks());
        int done = 0;
        try {
            while (done < blocks.length) {
                if (!counts.retain(blocks[done])) {
                    throw UseAfterFreeException.of(blocks[done], null);
                }
                done++;
            }
        } finally {
            if (done < blocks.length) {
                dropAgain(counts, free, blocks, done);
            }
        }
    }

    /** Undoes a retain half-way. If all other references went meanwhile, these were the last ones. */
    private static void dropAgain(Counts counts, FreeStack free, int[] blocks, int n) {
        for (int i = 0; i < n; i++) {
            if (counts.drop(blocks[i]) == Counts.Drop.FREE) {
                free.push(blocks, i, 1);
            }
        }
    }

    @Override
    protected final void dropReferences(int[] blocks) {
        Blocks.requireBlocks(blocks, counts.numBlocks());
        if (blocks.length == 1) {
            dropOne(blocks);
        } else {
            reserveAll(counts, blocks);
            var freed = new int[blocks.length];
            int n = 0;
            for (int block : blocks) {
                if (counts.finish(block)) {
                    freed[n++] = block;
                }
            }
            free.push(freed, 0, n);
        }
    }

    private void dropOne(int[] blocks) {
        switch (counts.drop(blocks[0])) {
            case REFUSED -> throw doubleFree(counts, blocks, 0);
            case FREE -> free.push(blocks, 0, 1);
            default -> { }
        }
    }

    /** Reserves one reference for each entry, or none and refuses. */
    static void reserveAll(Counts counts, int[] blocks) {
        for (int i = 0; i < blocks.length; i++) {
            if (!counts.reserve(blocks[i])) {
                for (int j = 0; j < i; j++) {
                    counts.undo(blocks[j]);
                }
                throw doubleFree(counts, blocks, i);
            }
        }
    }

    static DoubleFreeException doubleFree(Counts counts, int[] blocks, int at) {
        int block = blocks[at];
        return DoubleFreeException.of(block, counts.count(block), Blocks.timesIn(blocks, block), null);
    }

    @Override
    public final int refcount(int block) {
        Blocks.requireBlock(block, counts.numBlocks());
        return counts.count(block);
    }

    @Override
    public final int[] refcounts() {
        return counts.counts();
    }

    /** The blocks on the stack; those in the hands of a thread in the middle of a call do not count. */
    @Override
    public final int numFreeBlocks() {
        return free.size();
    }

    @Override
    public final int numBlocks() {
        return counts.numBlocks();
    }
}
