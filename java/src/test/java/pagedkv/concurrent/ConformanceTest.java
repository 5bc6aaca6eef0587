package pagedkv.concurrent;

import org.junit.jupiter.api.Nested;
import pagedkv.pool.Pool;
import pagedkv.pool.PoolContract;

/** The pools of this package keep the contract; {@code NettyPoolTest} says so of real Netty. */
class ConformanceTest {

    @Nested
    class Monitor extends PoolContract {
        @Override
        protected Pool newPool(int numBlocks) {
            return new MonitorPool(numBlocks);
        }
    }

    @Nested
    class ShardsOfThreeBlocks extends PoolContract {
        @Override
        protected Pool newPool(int numBlocks) {
            return new ShardedPool(numBlocks, 3);
        }
    }

    @Nested
    class AShardForEachBlock extends PoolContract {
        @Override
        protected Pool newPool(int numBlocks) {
            return new ShardedPool(numBlocks, ShardedPool.MOST_SHARDS);
        }
    }

    @Nested
    class LockFree extends PoolContract {
        @Override
        protected Pool newPool(int numBlocks) {
            return new LockFreePool(numBlocks);
        }
    }

    @Nested
    class CacheOff extends PoolContract {
        @Override
        protected Pool newPool(int numBlocks) {
            return new CachedLockFreePool(numBlocks, 0);
        }
    }

    @Nested
    class CacheOfThree extends PoolContract {
        @Override
        protected Pool newPool(int numBlocks) {
            return new CachedLockFreePool(numBlocks, 3);
        }
    }

    @Nested
    class CacheLargerThanThePool extends PoolContract {
        @Override
        protected Pool newPool(int numBlocks) {
            return new CachedLockFreePool(numBlocks, CachedLockFreePool.MOST_CACHE_BLOCKS);
        }
    }

    @Nested
    class NettyThatCaches extends PoolContract {
        @Override
        protected Pool newPool(int numBlocks) {
            return PoolKind.NETTY.make(numBlocks);
        }
    }
}
