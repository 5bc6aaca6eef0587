package pagedkv.sharing;

import pagedkv.pool.Pool;

/**
 * Writes into the block, whoever else reads it.
 *
 * <p>Fault: after a fork the partly filled tail belongs to two sequences. Both think that the next place in it is
 * theirs; the one that writes last wins, and the other reads a token that it never wrote. No count is wrong and
 * nothing leaks: only the text is.
 */
public final class NaiveFork implements WriteRule {

    @Override
    public int blockToWrite(int block, Pool pool, TokenStore store, String owner) {
        return block;
    }
}
