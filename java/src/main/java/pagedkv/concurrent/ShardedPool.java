package pagedkv.concurrent;

import java.util.concurrent.locks.ReentrantLock;
import pagedkv.pool.DoubleFreeException;
import pagedkv.pool.OutOfBlocksException;
import pagedkv.pool.UseAfterFreeException;

/**
 * The blocks dealt to shards, each with a lock, a free stack and the counts of its own blocks.
 *
 * <pre>
 *   10 blocks, 3 shards:   [ 0 1 2 3 | 4 5 6 7 | 8 9 ]      block 6 is block 2 of shard 1
 * </pre>
 *
 * <p>Each shard has neighbouring blocks, so that the counts of two shards do not lie in one cache line.
 *
 * <p>A thread allocates from its <em>home</em> shard while that can serve the whole call. Then it tries the others, one
 * at a time. Only a call that fits in no single shard locks several. A retain or release locks the shards of its
 * blocks, all of them before it looks at the first: so it is all or nothing.
 *
 * <p><b>Why it is right.</b> What belongs to a shard is read and written under that shard's lock; unlocking a lock
 * happens-before locking it again. A call on several shards holds all their locks at once at one moment, and at that
 * moment it takes effect.
 *
 * <p><b>Why it never deadlocks.</b> A thread that holds the lock of a shard only ever waits for that of a higher one.
 * In a circle of waiting threads one of them would have to wait for a lower one.
 */
public final class ShardedPool extends ConcurrentPool {

    /** As many as fit in one long, which names a set of shards. */
    public static final int MOST_SHARDS = 64;

    private final int numBlocks;
    private final int blocksPerShard;
    private final Shard[] shards;

    /** Twice as many shards as there are processors. */
    public ShardedPool(int numBlocks) {
        this(numBlocks, Math.min(MOST_SHARDS, 2 * Runtime.getRuntime().availableProcessors()));
    }

    /** @param numShards 1 to 64; a pool with fewer blocks than shards has a shard for each block */
    public ShardedPool(int numBlocks, int numShards) {
        if (numBlocks < 1) {
            throw new IllegalArgumentException("numBlocks must be at least 1, not " + numBlocks);
        }
        if (numShards < 1 || numShards > MOST_SHARDS) {
            throw new IllegalArgumentException("numShards must be from 1 to " + MOST_SHARDS + ", not " + numShards);
        }
        this.numBlocks = numBlocks;
        blocksPerShard = ceilDiv(numBlocks, numShards);
        shards = new Shard[ceilDiv(numBlocks, blocksPerShard)];
        for (int i = 0; i < shards.length; i++) {
            int first = i * blocksPerShard;
            shards[i] = new Shard(first, Math.min(blocksPerShard, numBlocks - first));
        }
    }

    public int numShards() {
        return shards.length;
    }

    @Override
    protected int[] take(int n) {
        int home = (int) (Thread.currentThread().getId() % shards.length);
        for (int i = 0; i < shards.length; i++) {
            int[] blocks = shards[(home + i) % shards.length].takeIfAllFit(n);
            if (blocks != null) {
                return blocks;
            }
        }
        return takeFromSeveral(n);
    }

    /** Locks upwards from shard 0, as many as it takes. */
    private int[] takeFromSeveral(int n) {
        int numLocked = 0;
        int numFree = 0;
        try {
            while (numFree < n && numLocked < shards.length) {
                shards[numLocked].lock();
                numFree += shards[numLocked++].numFree;
            }
            if (numFree < n) { // every lock is held here, so this is the exact number
                throw OutOfBlocksException.of(n, numFree, numBlocks);
            }
            var blocks = new int[n];
            int taken = 0;
            for (int i = 0; i < numLocked; i++) {
                taken += shards[i].take(blocks, taken, Math.min(n - taken, shards[i].numFree));
            }
            return blocks;
        } finally {
            unlock(lowest(numLocked));
        }
    }

    @Override
    protected void addReferences(int[] blocks) {
        long involved = shardsOf(blocks);
        lock(involved);
        try {
            for (int block : blocks) {
                if (shardOf(block).refcount(block) == 0) {
                    throw UseAfterFreeException.of(block, null);
                }
            }
            for (int block : blocks) {
                shardOf(block).add(block, 1);
            }
        } finally {
            unlock(involved);
        }
    }

    @Override
    protected void dropReferences(int[] blocks) {
        long involved = shardsOf(blocks);
        lock(involved);
        try {
            requireReferences(blocks);
            for (int block : blocks) {
                shardOf(block).drop(block);
            }
        } finally {
            unlock(involved);
        }
    }

    /** Counts down as far as it goes, then puts every count back: finds a block named too often in the call. */
    private void requireReferences(int[] blocks) {
        int done = 0;
        while (done < blocks.length && shardOf(blocks[done]).refcount(blocks[done]) > 0) {
            shardOf(blocks[done]).add(blocks[done++], -1);
        }
        for (int i = 0; i < done; i++) {
            shardOf(blocks[i]).add(blocks[i], 1);
        }
        if (done < blocks.length) {
            int block = blocks[done];
            throw DoubleFreeException.of(block, shardOf(block).refcount(block), Blocks.timesIn(blocks, block), null);
        }
    }

    @Override
    public int refcount(int block) {
        Blocks.requireBlock(block, numBlocks);
        var shard = shardOf(block);
        shard.lock();
        try {
            return shard.refcount(block);
        } finally {
            shard.unlock();
        }
    }

    @Override
    public int numFreeBlocks() {
        lock(lowest(shards.length));
        try {
            int numFree = 0;
            for (Shard shard : shards) {
                numFree += shard.numFree;
            }
            return numFree;
        } finally {
            unlock(lowest(shards.length));
        }
    }

    @Override
    public int numBlocks() {
        return numBlocks;
    }

    private Shard shardOf(int block) {
        return shards[block / blocksPerShard];
    }

    /** The shards of these blocks, one bit each. */
    private long shardsOf(int[] blocks) {
        long set = 0;
        for (int block : blocks) {
            Blocks.requireBlock(block, numBlocks);
            set |= 1L << (block / blocksPerShard);
        }
        return set;
    }

    private static int ceilDiv(int a, int b) {
        return a / b + (a % b == 0 ? 0 : 1);
    }

    private static long lowest(int numShards) {
        return numShards == 64 ? -1L : (1L << numShards) - 1;
    }

    /** In rising order, on which the argument against deadlocks rests. */
    private void lock(long set) {
        for (long rest = set; rest != 0; rest &= rest - 1) {
            shards[Long.numberOfTrailingZeros(rest)].lock();
        }
    }

    private void unlock(long set) {
        for (long rest = set; rest != 0; rest &= rest - 1) {
            shards[Long.numberOfTrailingZeros(rest)].unlock();
        }
    }

    /** Its fields are guarded by itself: it is its own lock. */
    private static final class Shard extends ReentrantLock {

        private static final long serialVersionUID = 1L;

        private final int first;
        private final int[] refcounts;
        private final int[] freeStack;
        private int numFree;

        Shard(int first, int numBlocks) {
            this.first = first;
            refcounts = new int[numBlocks];
            freeStack = new int[numBlocks];
            for (int block = first + numBlocks - 1; block >= first; block--) {
                freeStack[numFree++] = block;
            }
        }

        int[] takeIfAllFit(int n) {
            lock();
            try {
                if (n > numFree) {
                    return null;
                }
                var blocks = new int[n];
                take(blocks, 0, n);
                return blocks;
            } finally {
                unlock();
            }
        }

        int take(int[] into, int from, int n) {
            for (int i = from; i < from + n; i++) {
                into[i] = freeStack[--numFree];
                refcounts[into[i] - first] = 1;
            }
            return n;
        }

        int refcount(int block) {
            return refcounts[block - first];
        }

        void add(int block, int change) {
            refcounts[block - first] += change;
        }

        void drop(int block) {
            if (--refcounts[block - first] == 0) {
                freeStack[numFree++] = block;
            }
        }
    }
}
