package pagedkv.shared;

import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.extension.RegisterExtension;
import pagedkv.pool.Pool;
import pagedkv.pool.PoolContract;

/** A member of a shared pool keeps the contract of every pool. */
class ConformanceTest {

    @Nested
    class NoCache extends PoolContract {

        @RegisterExtension
        final PoolName pools = new PoolName();

        @Override
        protected Pool newPool(int numBlocks) {
            return pools.create(numBlocks, 64);
        }
    }

    @Nested
    class CacheOfThree extends PoolContract {

        @RegisterExtension
        final PoolName pools = new PoolName();

        @Override
        protected Pool newPool(int numBlocks) {
            return pools.create(numBlocks, 64, PoolOptions.DEFAULT.withCacheBlocks(3));
        }
    }

    @Nested
    class Guarded extends PoolContract {

        @RegisterExtension
        final PoolName pools = new PoolName();

        @Override
        protected Pool newPool(int numBlocks) {
            return pools.create(numBlocks, 100, PoolOptions.DEFAULT.withGuard());
        }
    }
}
