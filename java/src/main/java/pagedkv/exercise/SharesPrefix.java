package pagedkv.exercise;

import pagedkv.pool.Pool;

/** An exercise: a second table that begins with blocks of a first one (N16). */
@FunctionalInterface
public interface SharesPrefix {

    /**
     * A new table: the first {@code sharedBlocks} blocks of {@code a}, then {@code ownBlocks} new ones.
     *
     * <p>Either table may be closed first; once both are, every block is free. If the pool has too few blocks, its
     * {@link pagedkv.pool.OutOfBlocksException} reaches the caller, and every count is as before.
     *
     * @param a a table that holds at least that many blocks
     * @param pool the pool that all blocks come from
     * @param owner the name of the new table
     */
    BareTable share(BareTable a, int sharedBlocks, int ownBlocks, Pool pool, String owner);
}
