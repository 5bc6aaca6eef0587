package pagedkv.sharing;

import pagedkv.pool.Pool;

/**
 * Copy first, if anybody else reads the block (S11).
 *
 * <p>The order matters. The copy is allocated first, for the pool may refuse; the old block is given up last, for until
 * then it is what is copied from.
 */
public final class CopyOnWrite implements WriteRule {

    @Override
    public int blockToWrite(int block, Pool pool, TokenStore store, String owner) {
        if (pool.refcount(block) == 1) {
            return block;
        }
        int copy = pool.allocate(1, owner)[0];
        store.copyBlock(block, copy);
        pool.release(new int[] {block}, owner);
        return copy;
    }
}
