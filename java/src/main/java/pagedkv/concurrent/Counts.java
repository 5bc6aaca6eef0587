package pagedkv.concurrent;

import java.util.concurrent.atomic.AtomicLongArray;

/**
 * The reference counts of all blocks, one 64-bit word each, changed by compare-and-swap alone.
 *
 * <pre>
 *   | generation 23 | cached 1 | leaving 20 | count 20 |
 *
 *   count > 0                 held by that many references
 *   count = 0, cached         free, in the cache of some thread; whoever sets the count to 1 first has it
 *   count = 0, not cached     free, and in one pair of hands: of the stack, or of the thread that took it from there
 * </pre>
 *
 * <p><b>leaving</b>: how many of the references are about to be released by calls that are not finished yet. It makes
 * a release of several blocks all or nothing: first each reference is reserved, which can be undone; only when all are,
 * they are dropped, which cannot fail any more. A single block needs no reservation, nor does the last reference of a
 * block: with count 0 and in one pair of hands, it can still be given its 1 back.
 *
 * <p><b>generation</b>: goes up whenever a block stops being held. Two looks that find the same generations thus know
 * that no block became free in between ({@link #freeIfFewerThan}).
 *
 * <p><b>Memory order.</b> All words are read and swapped volatile. The swap that takes a count from 1 to 0 and the one
 * that takes it from 0 to 1 are on the same word, hence the one happens-before the other: what was written into a
 * block before its release is seen by whoever gets it next. A count of 0 is raised by {@link #claim} and {@link
 * #claimCached} alone, never by {@link #retain}: a reference can be copied only from one that is there.
 */
final class Counts {

    /** What fits in 20 bits. */
    static final int MOST_REFERENCES = (1 << 20) - 1;

    private static final long ONE_REFERENCE = 1L;
    private static final long ONE_LEAVING = 1L << 20;
    private static final long CACHED = 1L << 40;
    private static final long ONE_GENERATION = 1L << 41;
    private static final int GENERATION_SHIFT = 41;

    private final AtomicLongArray words;

    Counts(int numBlocks) {
        words = new AtomicLongArray(requireNumBlocks(numBlocks));
    }

    static int requireNumBlocks(int numBlocks) {
        if (numBlocks < 1) {
            throw new IllegalArgumentException("numBlocks must be at least 1, not " + numBlocks);
        }
        return numBlocks;
    }

    int numBlocks() {
        return words.length();
    }

    int count(int block) {
        return count(words.get(block));
    }

    int[] counts() {
        var counts = new int[words.length()];
        for (int block = 0; block < counts.length; block++) {
            counts[block] = count(block);
        }
        return counts;
    }

    // free to held

    /**
     * The first reference to a block that came from the stack.
     *
     * @throws IllegalStateException if somebody else has it: then the stack has handed it out twice
     */
    void claim(int block) {
        long word = words.get(block);
        if (count(word) != 0 || isCached(word) || !words.compareAndSet(block, word, word + ONE_REFERENCE)) {
            throw new IllegalStateException("block " + block + " was handed out twice: the free stack is broken");
        }
    }

    /** The first reference to a block that lies in a cache; false if it no longer does. */
    boolean claimCached(int block) {
        long word = words.get(block);
        return isCached(word) && words.compareAndSet(block, word, word - CACHED + ONE_REFERENCE);
    }

    // free in a cache to free in one's own hands, and back

    /** Takes a block out of whatever cache it is in, into the caller's hands; false if it is in none any more. */
    boolean withdraw(int block) {
        long word = words.get(block);
        return isCached(word) && words.compareAndSet(block, word, word - CACHED);
    }

    /** Puts a free block from the caller's hands into a cache, from where anybody may take it. */
    void deposit(int block) {
        // nobody else changes the word of a block that is in the caller's hands: no swap is needed
        words.setRelease(block, words.getPlain(block) + CACHED);
    }

    // held to held

    /** One more reference; false for a free block. */
    boolean retain(int block) {
        while (true) {
            long word = words.get(block);
            if (count(word) == 0) {
                return false;
            }
            if (count(word) == MOST_REFERENCES) {
                throw new IllegalStateException(
                        "block %d has %d references, more cannot be counted".formatted(block, MOST_REFERENCES));
            }
            if (words.compareAndSet(block, word, word + ONE_REFERENCE)) {
                return true;
            }
        }
    }

    // held to free

    /** What became of a block when a reference was dropped. */
    enum Drop { REFUSED, STILL_HELD, FREE }

    /** One reference less; a block that nobody holds any more is in the caller's hands. */
    Drop drop(int block) {
        return drop(block, 0);
    }

    /** The same; but a block that nobody holds any more goes to a cache at once. */
    Drop dropToCache(int block) {
        return drop(block, CACHED);
    }

    private Drop drop(int block, long whenFree) {
        while (true) {
            long word = words.get(block);
            if (count(word) <= leaving(word)) {
                return Drop.REFUSED;
            }
            boolean last = count(word) == 1;
            long next = word - ONE_REFERENCE + (last ? ONE_GENERATION + whenFree : 0);
            if (words.compareAndSet(block, word, next)) {
                return last ? Drop.FREE : Drop.STILL_HELD;
            }
        }
    }

    /** Reserves one reference for {@link #finish}; false if all are gone or reserved. */
    boolean reserve(int block) {
        while (true) {
            long word = words.get(block);
            if (count(word) <= leaving(word)) {
                return false;
            }
            long next = count(word) == 1 ? word - ONE_REFERENCE + ONE_GENERATION : word + ONE_LEAVING;
            if (words.compareAndSet(block, word, next)) {
                return true;
            }
        }
    }

    /** Takes a reservation back. */
    void undo(int block) {
        while (true) {
            long word = words.get(block);
            long next = count(word) == 0 ? word + ONE_REFERENCE : word - ONE_LEAVING;
            if (words.compareAndSet(block, word, next)) {
                return;
            }
        }
    }

    /** Drops a reserved reference; true if the block is free now, and in the caller's hands. */
    boolean finish(int block) {
        while (true) {
            long word = words.get(block);
            if (count(word) == 0) { // was the last one when it was reserved
                return true;
            }
            boolean last = count(word) == 1;
            long next = word - ONE_LEAVING - ONE_REFERENCE + (last ? ONE_GENERATION : 0);
            if (words.compareAndSet(block, word, next)) {
                return last;
            }
        }
    }

    // looks at all blocks; their time grows with the size of the pool

    /** Exact at quiescence; else each block counts as it was when it was looked at. */
    int numFree() {
        int numFree = 0;
        for (int block = 0; block < words.length(); block++) {
            if (count(block) == 0) {
                numFree++;
            }
        }
        return numFree;
    }

    int numCached() {
        int numCached = 0;
        for (int block = 0; block < words.length(); block++) {
            if (isCached(words.get(block))) {
                numCached++;
            }
        }
        return numCached;
    }

    boolean isCachedNow(int block) {
        return isCached(words.get(block));
    }

    /**
     * A number below {@code n} if at one moment during this call no more than that many blocks were free, else -1.
     *
     * <p>A single walk over the words proves nothing: a block that was looked at while held may become free, and a free
     * one be taken before its turn comes. So there are two walks, and the generations are summed up. If no generation
     * has changed from one to the other, then no block became free between the two looks at it. So every block that
     * was free at the moment between the walks was so already when the first walk looked at it, and was counted.
     */
    int freeIfFewerThan(int n) {
        while (true) {
            int numFree = 0;
            long generations = 0;
            for (int block = 0; block < words.length(); block++) {
                long word = words.get(block);
                generations += word >>> GENERATION_SHIFT;
                if (count(word) == 0) {
                    numFree++;
                }
            }
            if (numFree >= n) {
                return -1;
            }
            for (int block = 0; block < words.length(); block++) {
                generations -= words.get(block) >>> GENERATION_SHIFT;
            }
            if (generations == 0) {
                return numFree;
            }
        }
    }

    private static int count(long word) {
        return (int) word & MOST_REFERENCES;
    }

    private static int leaving(long word) {
        return (int) (word >>> 20) & MOST_REFERENCES;
    }

    private static boolean isCached(long word) {
        return (word & CACHED) != 0;
    }
}
