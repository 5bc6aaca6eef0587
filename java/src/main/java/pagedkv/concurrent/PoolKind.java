package pagedkv.concurrent;

import io.netty.buffer.PooledByteBufAllocator;
import pagedkv.netty.NettyPool;
import pagedkv.pool.Pool;

/** The five pools, by name. */
public enum PoolKind {

    MONITOR("monitor") {
        @Override
        public Pool make(int numBlocks, int cacheBlocks) {
            return new MonitorPool(numBlocks);
        }
    },
    SHARDED("sharded") {
        @Override
        public Pool make(int numBlocks, int cacheBlocks) {
            return new ShardedPool(numBlocks);
        }
    },
    LOCK_FREE("lock-free") {
        @Override
        public Pool make(int numBlocks, int cacheBlocks) {
            return new LockFreePool(numBlocks);
        }
    },
    CACHED("cached") {
        @Override
        public Pool make(int numBlocks, int cacheBlocks) {
            return new CachedLockFreePool(numBlocks, cacheBlocks);
        }
    },
    /** Real Netty behind the contract: its thread caches are on, but the pool's own monitor stands before them. */
    NETTY("netty") {
        @Override
        public Pool make(int numBlocks, int cacheBlocks) {
            return new NettyPool(numBlocks, NETTY_BLOCK_BYTES, cachingNetty());
        }
    };

    private static final int NETTY_BLOCK_BYTES = 256;

    private final String label;

    PoolKind(String label) {
        this.label = label;
    }

    /** @param cacheBlocks of each thread; only {@link #CACHED} has a use for it */
    public abstract Pool make(int numBlocks, int cacheBlocks);

    public Pool make(int numBlocks) {
        return make(numBlocks, CachedLockFreePool.DEFAULT_CACHE_BLOCKS);
    }

    public String label() {
        return label;
    }

    /** @throws IllegalArgumentException if there is no such pool; the message names all */
    public static PoolKind labelled(String label) {
        for (PoolKind kind : values()) {
            if (kind.label.equals(label)) {
                return kind;
            }
        }
        throw new IllegalArgumentException(
                "no pool is called " + label + ": there are monitor, sharded, lock-free, cached and netty");
    }

    /**
     * Netty's pooled allocator with thread caches for threads of every kind. Since 4.1.75 only Netty's own threads have
     * one unless it is told so. All other settings are its defaults.
     */
    public static PooledByteBufAllocator cachingNetty() {
        boolean useCacheForAllThreads = true;
        return new PooledByteBufAllocator(true, PooledByteBufAllocator.defaultNumHeapArena(),
                PooledByteBufAllocator.defaultNumDirectArena(), PooledByteBufAllocator.defaultPageSize(),
                PooledByteBufAllocator.defaultMaxOrder(), PooledByteBufAllocator.defaultSmallCacheSize(),
                PooledByteBufAllocator.defaultNormalCacheSize(), useCacheForAllThreads);
    }
}
