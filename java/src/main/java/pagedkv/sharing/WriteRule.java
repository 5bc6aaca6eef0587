package pagedkv.sharing;

import pagedkv.pool.Pool;

/** Where a sequence may write that has this block in its table, and owns one reference to it. */
@FunctionalInterface
public interface WriteRule {

    /**
     * The block to write into: this one, or a copy that takes its place in the sequence's table.
     *
     * <p>If it is a copy, the sequence owns one reference to the copy afterwards, and none to the block any more. If
     * the pool refuses, nothing has changed.
     */
    int blockToWrite(int block, Pool pool, TokenStore store, String owner);
}
