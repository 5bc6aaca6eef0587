package pagedkv.concurrent;

import pagedkv.pool.OutOfBlocksException;

/**
 * The lock-free pool with a small cache of free blocks for each thread in front of the stack.
 *
 * <pre>
 *   thread 1   [ 7 3 ]      thread 2   [ 9 ]        caches: no other thread's swap gets in the way
 *                  \            /
 *              stack  5 → 2 → 8 → end               refilled from, and emptied to, several blocks at a time
 * </pre>
 *
 * <p>A thread allocates from its own cache. If that is empty it takes what it needs from the stack, and half a cache
 * more in the same swap. A block whose last reference is released goes to the cache of the thread that released it; if
 * that is full, half of it goes to the stack first.
 *
 * <p><b>Who owns a cached block?</b> Nobody. The word of the block in {@link Counts} says "free, in some cache", and
 * whoever swaps its count to 1 first has it. What stands in a thread's own list ({@link ThreadCache}) is only a hint
 * where to try, and may be out of date. That gives three things at once:
 * <ul>
 *   <li>allocate and release cost one swap each, on a word that no other thread is using;</li>
 *   <li>a block in the cache of a thread that sleeps, or is dead, can be taken by any other;</li>
 *   <li>the lists need no synchronization: no other thread reads them.</li>
 * </ul>
 * A block goes into a cache by the swap of its word, and only then into the list. A thread that dies in between loses
 * a hint, not a block.
 *
 * <p><b>When the stack is too short.</b> Then the thread <em>hunts</em>: under a lock, so that two hunters do not take
 * from each other what each lacks, it takes blocks from its own cache, from the stack and from all caches until it has enough. It gives up
 * only if the counts prove that at one moment fewer blocks were free than it needs ({@link Counts#freeIfFewerThan}).
 * While blocks are free but in the hands of a thread in the middle of a call, it waits for that one: here, and only
 * here, a stopped thread can hold up others. Nobody waits for the lock with blocks in hand, hence no deadlock.
 *
 * <p>An observer sees no caches: a block in one is free.
 */
public final class CachedLockFreePool extends ConcurrentPool {

    public static final int DEFAULT_CACHE_BLOCKS = 16;
    public static final int MOST_CACHE_BLOCKS = 64;

    private final Counts counts;
    private final TaggedStack stack;
    private final int cacheBlocks;
    private final ThreadCaches caches;
    private final Object hunting = new Object();
    private int huntFrom; // guarded by hunting

    public CachedLockFreePool(int numBlocks) {
        this(numBlocks, DEFAULT_CACHE_BLOCKS);
    }

    /** @param cacheBlocks how many free blocks a thread keeps at most, 0 (no cache) to 64 */
    public CachedLockFreePool(int numBlocks, int cacheBlocks) {
        if (cacheBlocks < 0 || cacheBlocks > MOST_CACHE_BLOCKS) {
            throw new IllegalArgumentException(
                    "cacheBlocks must be from 0 to " + MOST_CACHE_BLOCKS + ", not " + cacheBlocks);
        }
        counts = new Counts(numBlocks);
        stack = new TaggedStack(numBlocks);
        this.cacheBlocks = cacheBlocks;
        caches = new ThreadCaches(cacheBlocks, this::takeOver);
    }

    // allocate

    @Override
    protected int[] take(int n) {
        if (n > counts.numBlocks()) { // else an array of that size would be made first
            throw OutOfBlocksException.of(n, numFreeBlocks(), counts.numBlocks());
        }
        var blocks = new int[n];
        var cache = caches.own();
        if (n == 1) {
            takeOne(cache, blocks);
        } else if (n > 1) {
            takeSeveral(cache, blocks);
        }
        return blocks;
    }

    private void takeOne(ThreadCache cache, int[] blocks) {
        while (cache.size() > 0) {
            int block = cache.pop();
            if (counts.claimCached(block)) {
                blocks[0] = block;
                cache.countHits(1);
                return;
            }
        }
        takeRest(cache, blocks, 0);
    }

    private void takeSeveral(ThreadCache cache, int[] blocks) {
        int got = withdraw(cache, blocks);
        if (got < blocks.length) {
            takeRest(cache, blocks, got);
        } else {
            claimAll(blocks);
            cache.countHits(got);
        }
    }

    /** Takes what the cache has, into the hand; returns how many blocks that is. */
    private int withdraw(ThreadCache cache, int[] blocks) {
        int got = 0;
        while (got < blocks.length && cache.size() > 0) {
            int block = cache.pop();
            if (counts.withdraw(block)) {
                blocks[got++] = block;
            }
        }
        return got;
    }

    /** What the cache did not have: from the stack, with half a cache on top, or by a hunt. The cache is empty. */
    private void takeRest(ThreadCache cache, int[] blocks, int got) {
        int missing = blocks.length - got;
        var popped = new int[missing + halfACache()];
        int n = stack.pop(popped, 0, missing, popped.length);
        if (n == 0) {
            putBack(cache, blocks, got); // whoever waits for a hunt must not keep free blocks from it
            int own = hunt(cache, blocks);
            cache.countHits(own);
            cache.countMisses(blocks.length - own);
            return;
        }
        System.arraycopy(popped, 0, blocks, got, missing);
        claimAll(blocks);
        for (int i = n - 1; i >= missing; i--) { // what was further up in the stack comes out of the cache first
            deposit(cache, popped[i]);
        }
        cache.countHits(got);
        cache.countMisses(missing);
    }

    private int halfACache() {
        return (cacheBlocks + 1) / 2;
    }

    private void claimAll(int[] blocks) {
        for (int block : blocks) {
            counts.claim(block);
        }
    }

    private void deposit(ThreadCache cache, int block) {
        counts.deposit(block);
        cache.push(block);
    }

    private void putBack(ThreadCache cache, int[] blocks, int n) {
        for (int i = n - 1; i >= 0; i--) {
            deposit(cache, blocks[i]);
        }
    }

    /**
     * Fills {@code blocks} from wherever free blocks are, or refuses. The caller has no blocks in its hands. Returns how
     * many came out of its own cache, which is looked at first.
     */
    private int hunt(ThreadCache cache, int[] blocks) {
        synchronized (hunting) {
            int own = withdraw(cache, blocks);
            int got = own;
            while (true) {
                got += stack.pop(blocks, got, 1, blocks.length - got);
                got = takeFromCaches(blocks, got);
                if (got == blocks.length) {
                    claimAll(blocks);
                    return own;
                }
                // the blocks in hand here have count 0 and are among the free ones
                int numFree = counts.freeIfFewerThan(blocks.length);
                if (numFree >= 0) {
                    stack.push(blocks, 0, got);
                    throw OutOfBlocksException.of(blocks.length, numFree, counts.numBlocks());
                }
                Thread.yield();
            }
        }
    }

    private int takeFromCaches(int[] blocks, int got) {
        int n = got;
        for (int i = 0; i < counts.numBlocks() && n < blocks.length; i++) {
            int block = huntFrom;
            huntFrom = block + 1 == counts.numBlocks() ? 0 : block + 1; // the next hunt goes on where this one stops
            if (counts.withdraw(block)) {
                blocks[n++] = block;
            }
        }
        return n;
    }

    // retain

    @Override
    protected void addReferences(int[] blocks) {
        LockFreePool.retainAll(counts, stack, blocks);
    }

    // release

    @Override
    protected void dropReferences(int[] blocks) {
        Blocks.requireBlocks(blocks, counts.numBlocks());
        if (blocks.length == 1) {
            dropOne(blocks);
        } else if (blocks.length > 1) {
            dropSeveral(blocks);
        }
    }

    private void dropOne(int[] blocks) {
        var cache = caches.own();
        int block = blocks[0];
        if (cacheBlocks == 0) {
            switch (counts.drop(block)) {
                case REFUSED -> throw LockFreePool.doubleFree(counts, blocks, 0);
                case FREE -> stack.push(blocks, 0, 1);
                default -> { }
            }
            return;
        }
        if (cache.size() == cacheBlocks) {
            spill(cache);
        }
        switch (counts.dropToCache(block)) {
            case REFUSED -> throw LockFreePool.doubleFree(counts, blocks, 0);
            case FREE -> cache.push(block);
            default -> { }
        }
    }

    /** The older half of a full cache goes to the stack, in one swap. */
    private void spill(ThreadCache cache) {
        var spilled = cache.popOldest(halfACache());
        int n = 0;
        for (int block : spilled) {
            if (counts.withdraw(block)) {
                spilled[n++] = block;
            }
        }
        stack.push(spilled, 0, n);
    }

    private void dropSeveral(int[] blocks) {
        LockFreePool.reserveAll(counts, blocks);
        var cache = caches.own();
        int[] rest = null;
        int numRest = 0;
        for (int block : blocks) {
            if (!counts.finish(block)) {
                continue;
            }
            if (cache.size() < cacheBlocks) {
                deposit(cache, block);
            } else {
                if (rest == null) {
                    rest = new int[blocks.length];
                }
                rest[numRest++] = block;
            }
        }
        if (numRest > 0) {
            stack.push(rest, 0, numRest);
        }
    }

    /** Brings what is left in a dead thread's list to the stack. */
    private void takeOver(ThreadCache ofDeadThread) {
        var blocks = ofDeadThread.popOldest(ofDeadThread.size());
        int n = 0;
        for (int block : blocks) {
            if (counts.withdraw(block)) {
                blocks[n++] = block;
            }
        }
        stack.push(blocks, 0, n);
    }

    // questions

    @Override
    public int refcount(int block) {
        Blocks.requireBlock(block, counts.numBlocks());
        return counts.count(block);
    }

    @Override
    public int[] refcounts() {
        return counts.counts();
    }

    /** On the stack, in caches and in the hands of threads; its time grows with the size of the pool. */
    @Override
    public int numFreeBlocks() {
        return counts.numFree();
    }

    @Override
    public int numBlocks() {
        return counts.numBlocks();
    }

    /** How many blocks a thread keeps at most. */
    public int cacheBlocks() {
        return cacheBlocks;
    }

    /** How many blocks lie in caches, of all threads together; exact at quiescence. */
    public int numCachedBlocks() {
        return counts.numCached();
    }

    /** Whether this free block lies in the cache of some thread, and not on the stack. */
    public boolean isCached(int block) {
        Blocks.requireBlock(block, counts.numBlocks());
        return counts.isCachedNow(block);
    }

    /** Of all threads, dead ones too; exact at quiescence. */
    public CacheStats cacheStats() {
        return caches.stats();
    }

    /** Of the calling thread alone. */
    public CacheStats cacheStatsOfThisThread() {
        return caches.own().stats();
    }

    /** The blocks in the calling thread's own cache, the next one first: for pictures. */
    public int[] cachedByThisThread() {
        return caches.own().hints().distinct().filter(counts::isCachedNow).toArray();
    }
}
