package pagedkv.shared;

import static pagedkv.shared.Layout.CACHED;
import static pagedkv.shared.Layout.CONTENT;
import static pagedkv.shared.Layout.GENERATION_SHIFT;
import static pagedkv.shared.Layout.HOLDERS;
import static pagedkv.shared.Layout.NUM_SLOTS;
import static pagedkv.shared.Layout.ONE_GENERATION;

import java.nio.ByteBuffer;

/**
 * The operations of one member on the shared memory: the same steps, in the same order, as in C and Python.
 *
 * <p>The steps are specified in {@code pagedkv/shared/layout.py}. Why a kill between any two of them does no harm, and
 * why nobody has to wait and no block is handed out twice, is argued in {@code portable_operations.py}. In short:
 *
 * <ul>
 *   <li>The word of a block is the truth about it; hints say where to look first, and counts mean something only for
 *       who is a holder by the word. So a member that dies with hints in hand, or with a count written and no holder
 *       bit set, has taken nothing.
 *   <li>Only the swap of a word from "no holder" hands a block out, and only one of two such swaps succeeds.
 *   <li>A first reference writes the count, then the word; a last release the word, then the count. So a holder's count
 *       is never 0 to whoever adds counts up.
 * </ul>
 *
 * <p><b>Memory order.</b> Words and hints are read and swapped volatile. A member's release of a block swaps the word
 * that the next holder swaps to get it, so what was written into the block before is seen by the next holder, in
 * whichever process and language: a compare-and-swap of Java and one of C are the same instruction on the same line.
 *
 * <p>One call at a time: the caller sees to that. Block ids have been checked.
 */
final class Operations {

    private final Mapping mapping;
    private final Atomics atomics;
    private final ByteBuffer words;
    private final ByteBuffer ownCounts;
    private final int numBlocks;
    private final int numHints;
    private final long me;

    /** The number of the hints at which the last search ended. */
    private int emptyCursor;
    private int contentCursor;

    /** Blocks that are CACHED by this member. */
    private final int[] cache;
    private int numCached;

    /** How often each block stands in a release; all 0 between calls. Made when it is needed first. */
    private int[] times;

    Operations(Mapping mapping, Atomics atomics, int slot, int cacheBlocks) {
        this.mapping = mapping;
        this.atomics = atomics;
        words = mapping.words;
        ownCounts = mapping.counts[slot];
        numBlocks = mapping.layout.numBlocks;
        numHints = mapping.layout.numHints();
        me = 1L << slot;
        emptyCursor = (int) ((long) slot * numHints / NUM_SLOTS);
        contentCursor = emptyCursor;
        cache = new int[cacheBlocks];
    }

    // allocate

    /** {@code n} blocks, or null if there are not enough; then none is taken. */
    int[] allocate(int n) {
        if (n > numBlocks) {
            return null;
        }
        var blocks = new int[n];
        int got = takeCached(blocks);
        got = takeEmpty(blocks, got);
        // a call that will be refused must not cost anybody's content
        if (got < n && canTake(n - got)) {
            got = takeWithContent(blocks, got);
            for (int block = 0; block < numBlocks && got < n; block++) {
                if (claim(block)) {
                    blocks[got++] = block;
                }
            }
        }
        if (got == n) {
            return blocks;
        }
        while (got > 0) {
            releaseOne(blocks[--got], false);
        }
        return null;
    }

    /** Whether the block is ours now, with one reference; else somebody holds it. */
    private boolean claim(int block) {
        long seen = word(block);
        if ((seen & HOLDERS) != 0) {
            return false;
        }
        setCount(block, 1);
        while ((seen & HOLDERS) == 0) {
            long found = atomics.swap(words, 8 * block, seen, handedOut(seen));
            if (found == seen) {
                return true;
            }
            seen = found;
        }
        setCount(block, 0);
        return false;
    }

    /** The generation goes round after 2^14: it has the uppermost bits of the word. */
    private long handedOut(long word) {
        return (word & -ONE_GENERATION) + ONE_GENERATION | me;
    }

    private int takeCached(int[] blocks) {
        int got = 0;
        while (got < blocks.length && numCached > 0) {
            int block = cache[--numCached];
            setCount(block, 1);
            // nobody else changes a word that we have cached
            long seen = word(block);
            atomics.swap(words, 8 * block, seen, handedOut(seen));
            blocks[got++] = block;
        }
        return got;
    }

    private int takeEmpty(int[] blocks, int got) {
        int at = emptyCursor;
        for (int passed = 0; got < blocks.length && passed <= numHints; ) {
            long taken = takeHints(mapping.emptyHints, at, blocks.length - got);
            if (taken == 0) {
                at = at + 1 < numHints ? at + 1 : 0;
                passed++;
            }
            for (; taken != 0; taken &= taken - 1) {
                int block = 64 * at + Long.numberOfTrailingZeros(taken);
                if ((word(block) & (HOLDERS | CONTENT)) == CONTENT) { // not for this search: its hint was wrong
                    setHint(mapping.contentHints, block);
                } else if (claim(block)) {
                    blocks[got++] = block;
                }
            }
        }
        emptyCursor = at;
        return got;
    }

    private int takeWithContent(int[] blocks, int got) {
        int at = contentCursor;
        for (int passed = 0; got < blocks.length && passed <= numHints; ) {
            long taken = takeHints(mapping.contentHints, at, blocks.length - got);
            if (taken == 0) {
                at = at + 1 < numHints ? at + 1 : 0;
                passed++;
            }
            for (; taken != 0; taken &= taken - 1) {
                int block = 64 * at + Long.numberOfTrailingZeros(taken);
                if (claim(block)) {
                    blocks[got++] = block;
                }
            }
        }
        contentCursor = at;
        return got;
    }

    /** Takes up to {@code most} of the lowest bits out of one number of hints; 0 if there are none. */
    private long takeHints(ByteBuffer hints, int at, int most) {
        long seen = atomics.get(hints, 8 * at);
        while (seen != 0) {
            long left = seen;
            for (int i = 0; i < most && left != 0; i++) {
                left &= left - 1;
            }
            long found = atomics.swap(hints, 8 * at, seen, left);
            if (found == seen) {
                return seen & ~left;
            }
            seen = found;
        }
        return 0;
    }

    /**
     * Whether there are n free blocks. The content hints alone do not say so: a block that is reused leaves its hint
     * there. This looks at first where {@link #takeWithContent} will look, so it is soon done.
     */
    private boolean canTake(int n) {
        int missing = n;
        for (int passed = 0; passed < numHints; passed++) {
            int at = (contentCursor + passed) % numHints;
            for (long seen = atomics.get(mapping.contentHints, 8 * at); seen != 0; seen &= seen - 1) {
                if ((word(64 * at + Long.numberOfTrailingZeros(seen)) & HOLDERS) == 0 && --missing == 0) {
                    return true;
                }
            }
        }
        return numFree() >= n;
    }

    // retain and release

    /**
     * One more reference to each block.
     *
     * @param generations what each must have, or null
     * @return -1, or the place of the first block that is refused: it is free, or of another generation. Then nothing
     *     has changed
     */
    int retain(int[] blocks, int[] generations) {
        for (int i = 0; i < blocks.length; i++) {
            if (!retainOne(blocks[i], generations == null ? -1 : generations[i])) {
                for (int done = i - 1; done >= 0; done--) {
                    releaseOne(blocks[done], false);
                }
                return i;
            }
        }
        return -1;
    }

    private boolean retainOne(int block, int generation) {
        int count = ownCount(block);
        long seen = word(block);
        if (count > 0) {
            if (isNot(generation, seen)) {
                return false;
            }
            setCount(block, count + 1);
            return true;
        }
        setCount(block, 1);
        while ((seen & HOLDERS) != 0 && (seen & CACHED) == 0 && !isNot(generation, seen)) {
            long found = atomics.swap(words, 8 * block, seen, seen | me);
            if (found == seen) {
                return true;
            }
            seen = found;
        }
        setCount(block, 0);
        return false;
    }

    private static boolean isNot(int generation, long word) {
        return generation != -1 && word >>> GENERATION_SHIFT != generation;
    }

    /**
     * One reference less for each block.
     *
     * @return -1, or the place of the first block that stands there more often than this member has references to it.
     *     Then nothing has changed
     */
    int release(int[] blocks) {
        int refused = blocks.length == 1 ? ownCount(blocks[0]) > 0 ? -1 : 0 : firstTooOften(blocks);
        if (refused < 0) {
            for (int block : blocks) {
                releaseOne(block, true);
            }
        }
        return refused;
    }

    private int firstTooOften(int[] blocks) {
        if (times == null) {
            times = new int[numBlocks];
        }
        int refused = -1;
        int done = 0;
        while (done < blocks.length && refused < 0) {
            int block = blocks[done];
            if (++times[block] > ownCount(block)) {
                refused = done;
            }
            done++;
        }
        for (int i = 0; i < done; i++) {
            times[blocks[i]] = 0;
        }
        return refused;
    }

    private void releaseOne(int block, boolean mayCache) {
        int count = ownCount(block);
        if (count > 1) {
            setCount(block, count - 1);
            return;
        }
        boolean roomInCache = mayCache && numCached < cache.length;
        long seen = word(block);
        long left;
        while (true) {
            left = seen & ~me;
            if (roomInCache && (left & (HOLDERS | CONTENT)) == 0) {
                left = seen | CACHED;
            }
            long found = atomics.swap(words, 8 * block, seen, left);
            if (found == seen) {
                break;
            }
            seen = found;
        }
        setCount(block, 0);
        if ((left & CACHED) != 0) {
            cache[numCached++] = block;
        } else if ((left & HOLDERS) == 0) {
            setHintOfFree(block, left);
        }
    }

    // for the prefix index

    /** One more reference to a block with content, held or not; false, and nothing has changed, if it has none. */
    boolean holdContent(int block) {
        int count = ownCount(block);
        setCount(block, count + 1);
        if (count > 0) {
            return true;
        }
        long seen = word(block);
        while ((seen & (CONTENT | CACHED)) == CONTENT) {
            long found = atomics.swap(words, 8 * block, seen, seen | me);
            if (found == seen) {
                return true;
            }
            seen = found;
        }
        setCount(block, 0);
        return false;
    }

    /** One reference less, and not into the cache. */
    void giveBack(int block) {
        releaseOne(block, false);
    }

    // looking

    /** Blocks that this member could take now. */
    int numFree() {
        int free = numCached;
        for (int block = 0; block < numBlocks; block++) {
            if ((word(block) & HOLDERS) == 0) {
                free++;
            }
        }
        return free;
    }

    /** Of all members together. */
    int refcount(int block) {
        long word = word(block);
        if ((word & CACHED) != 0) {
            return 0;
        }
        int sum = 0;
        for (long rest = word & HOLDERS; rest != 0; rest &= rest - 1) {
            sum += atomics.getCount(mapping.counts[Long.numberOfTrailingZeros(rest)], 4 * block);
        }
        return sum;
    }

    int ownCount(int block) {
        return ownCounts.getInt(4 * block);
    }

    long word(int block) {
        return atomics.get(words, 8 * block);
    }

    int generation(int block) {
        return (int) (word(block) >>> GENERATION_SHIFT);
    }

    // after a death

    /** By slot: how many references were taken back, and how many blocks became free. */
    record Taken(long[] references, int[] blocks) {
    }

    /** Takes back what the members of these slots held (bit s: slot s); their locks are the caller's. */
    Taken reap(long dead) {
        var taken = new Taken(new long[NUM_SLOTS], new int[NUM_SLOTS]);
        for (int block = 0; block < numBlocks; block++) {
            if ((word(block) & dead) != 0) {
                reapBlock(block, dead, taken);
            }
        }
        for (long slots = dead; slots != 0; slots &= slots - 1) {
            var row = mapping.counts[Long.numberOfTrailingZeros(slots)];
            for (int block = 0; block < numBlocks; block++) {
                if (atomics.getCount(row, 4 * block) != 0) {
                    atomics.putCount(row, 4 * block, 0);
                }
            }
        }
        return taken;
    }

    private void reapBlock(int block, long dead, Taken taken) {
        long seen = word(block);
        long holders = seen & dead;
        if ((seen & CACHED) == 0) {
            for (long rest = holders; rest != 0; rest &= rest - 1) {
                int slot = Long.numberOfTrailingZeros(rest);
                taken.references[slot] += atomics.getCount(mapping.counts[slot], 4 * block);
            }
        }
        long left;
        while (true) {
            left = seen & ~(dead | CACHED); // a cached block has no other holder
            long found = atomics.swap(words, 8 * block, seen, left);
            if (found == seen) {
                break;
            }
            seen = found;
        }
        if ((left & HOLDERS) == 0) {
            setHintOfFree(block, left);
            taken.blocks[Long.numberOfTrailingZeros(holders)]++;
        }
    }

    /** Sets the hint of every free block; how many had none. */
    int heal() {
        int healed = 0;
        for (int block = 0; block < numBlocks; block++) {
            long word = word(block);
            if ((word & HOLDERS) == 0 && setHintOfFree(block, word)) {
                healed++;
            }
        }
        return healed;
    }

    // single steps

    private void setCount(int block, int count) {
        atomics.putCount(ownCounts, 4 * block, count);
    }

    private boolean setHintOfFree(int block, long word) {
        return setHint((word & CONTENT) != 0 ? mapping.contentHints : mapping.emptyHints, block);
    }

    private boolean setHint(ByteBuffer hints, int block) {
        int at = block / 64 * 8;
        long bit = 1L << block % 64;
        if ((atomics.get(hints, at) & bit) != 0) {
            return false;
        }
        atomics.setBits(hints, at, bit);
        return true;
    }
}
