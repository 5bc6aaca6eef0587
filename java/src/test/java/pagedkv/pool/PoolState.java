package pagedkv.pool;

import java.util.List;
import java.util.stream.IntStream;

/** All that can be seen of a pool, to be compared before and after a call. */
public record PoolState(int numFreeBlocks, List<Integer> refcounts) {

    public static PoolState of(Pool pool) {
        return new PoolState(
                pool.numFreeBlocks(),
                IntStream.range(0, pool.numBlocks()).map(pool::refcount).boxed().toList());
    }
}
