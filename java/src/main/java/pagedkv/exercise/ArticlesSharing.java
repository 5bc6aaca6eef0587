package pagedkv.exercise;

import java.util.Arrays;
import pagedkv.pool.Pool;

/**
 * What the article's experiment 4 does, with a {@link BareTable}: here the learner begins (N16).
 *
 * <p>Fault: the shared blocks are counted for the new table, and stand in no table. It cannot read them, and it will
 * not release them. {@link pagedkv.article.PrefixCachingDemo} is the experiment itself.
 */
public final class ArticlesSharing implements SharesPrefix {

    @Override
    public BareTable share(BareTable a, int sharedBlocks, int ownBlocks, Pool pool, String owner) {
        pool.retain(Arrays.copyOf(a.blocks(), sharedBlocks), owner);
        BareTable b = new BareTable(pool, owner);
        b.allocate(ownBlocks);
        return b;
    }
}
