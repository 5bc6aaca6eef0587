package pagedkv.sharing;

import java.util.ArrayList;
import java.util.List;
import pagedkv.pool.Pool;

/**
 * A sequence of tokens that can be forked: the fork shares all blocks, the partly filled tail too.
 *
 * <pre>
 *   A  [ 1 2 3 4 | 5 6 · · ]      fork: B has the same two blocks, each counted twice
 *   B  append 8: the tail is shared, so it is copied: B [ 1 2 3 4 | 5 6 8 · ], A's tail is as it was
 *   A  append 7: the tail is A's alone again: no copy
 * </pre>
 *
 * <p>The sequence owns one reference to each block in its table and gives all of them back in {@link #close}. Only
 * appending writes, hence only the tail is ever copied. One thread at a time.
 */
public final class SharedSequence implements AutoCloseable {

    private final Pool pool;
    private final TokenStore store;
    private final WriteRule rule;
    private final String owner;
    private final List<Integer> blocks = new ArrayList<>();
    private final List<Boolean> written = new ArrayList<>();
    private int numTokens;
    private boolean closed;

    /** A sequence that copies on write. */
    public SharedSequence(Pool pool, TokenStore store, String owner) {
        this(pool, store, new CopyOnWrite(), owner);
    }

    /** A sequence, and all its forks, that write by another rule. */
    public SharedSequence(Pool pool, TokenStore store, WriteRule rule, String owner) {
        if (pool.numBlocks() > store.numBlocks()) {
            throw new IllegalArgumentException("the pool has %d blocks, the store memory for %d only"
                    .formatted(pool.numBlocks(), store.numBlocks()));
        }
        this.pool = pool;
        this.store = store;
        this.rule = rule;
        this.owner = owner;
    }

    /**
     * Writes one more token, into a new block if the tail is full, else where the rule says.
     *
     * @throws pagedkv.pool.OutOfBlocksException if a block is needed and none is free; the sequence is as before
     */
    public void append(int token) {
        requireOpen();
        int offset = numTokens % store.blockSizeTokens();
        int tail = blocks.size() - 1;
        if (offset == 0) {
            blocks.add(pool.allocate(1, owner)[0]);
            written.add(true);
            tail++;
        } else {
            blocks.set(tail, rule.blockToWrite(blocks.get(tail), pool, store, owner));
            written.set(tail, true);
        }
        store.write(blocks.get(tail), offset, token);
        numTokens++;
    }

    /** A second sequence with the same tokens on the same blocks. */
    public SharedSequence fork(String newOwner) {
        requireOpen();
        pool.retain(blocks(), newOwner);
        var fork = new SharedSequence(pool, store, rule, newOwner);
        fork.blocks.addAll(blocks);
        blocks.forEach(block -> fork.written.add(false));
        fork.numTokens = numTokens;
        return fork;
    }

    /** What the sequence reads now, through its table. */
    public int[] tokens() {
        int size = store.blockSizeTokens();
        int[] tokens = new int[numTokens];
        for (int position = 0; position < numTokens; position++) {
            tokens[position] = store.read(blocks.get(position / size), position % size);
        }
        return tokens;
    }

    /** The table, entry by entry. */
    public List<TableEntry> entries() {
        List<TableEntry> entries = new ArrayList<>();
        for (int i = 0; i < blocks.size(); i++) {
            int refcount = pool.refcount(blocks.get(i));
            entries.add(new TableEntry(blocks.get(i), refcount, written.get(i), refcount > 1));
        }
        return entries;
    }

    /** The physical blocks in logical order; a copy. */
    public int[] blocks() {
        return blocks.stream().mapToInt(Integer::intValue).toArray();
    }

    public int numTokens() {
        return numTokens;
    }

    /** Gives every reference back; a second call does nothing. */
    @Override
    public void close() {
        if (closed) {
            return;
        }
        pool.release(blocks(), owner);
        closed = true;
        blocks.clear();
        written.clear();
        numTokens = 0;
    }

    private void requireOpen() {
        if (closed) {
            throw new IllegalStateException("the sequence of " + owner + " is closed: its blocks are given back");
        }
    }
}
