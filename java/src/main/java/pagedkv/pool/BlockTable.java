package pagedkv.pool;

import java.util.ArrayList;
import java.util.List;

/**
 * The page table of one sequence of tokens: which physical block holds which part of it.
 *
 * <p>A <em>logical block</em> is a place in the sequence (0, 1, 2, …), a <em>physical block</em> an
 * id of the pool. A <em>slot</em> numbers a token's place in the memory of the whole pool.
 *
 * <pre>
 *   position 37, blocks of 16 tokens:   logical block 37 / 16 = 2, offset 37 % 16 = 5
 *   table [ 9 | 4 | 7 ]:                physical block 7, slot 7 * 16 + 5 = 117
 * </pre>
 *
 * <p>The table owns one reference to each of its blocks and gives them all back in {@link #close}.
 * A sequence belongs to one thread at a time; the table itself has no lock.
 */
public final class BlockTable implements AutoCloseable {

    private final Pool pool;
    private final int blockSizeTokens;
    private final String owner;
    private final List<Integer> blocks = new ArrayList<>();
    private int numTokens;
    private boolean closed;

    public BlockTable(Pool pool, int blockSizeTokens, String owner) {
        if (blockSizeTokens < 1) {
            throw new IllegalArgumentException("a block holds at least 1 token, not " + blockSizeTokens);
        }
        this.pool = pool;
        this.blockSizeTokens = blockSizeTokens;
        this.owner = owner;
    }

    /**
     * Makes room for one more token, with a new block only if the last one is full.
     *
     * @return the slot of the new token
     * @throws OutOfBlocksException if a block is needed and none is free; the table is as before
     */
    public long appendToken() {
        requireOpen();
        if (numTokens == blocks.size() * blockSizeTokens) {
            blocks.add(pool.allocate(1, owner)[0]);
        }
        numTokens++;
        return slotOf(numTokens - 1);
    }

    /**
     * A second table that begins with the first {@code fullBlocks} blocks of this one, shared.
     *
     * <p>The new table retains the blocks <em>and</em> enters them: so it can read its prefix, and
     * gives the references back when it closes. Only full blocks are shared: nobody writes to them
     * any more, hence no copy is ever needed.
     */
    public BlockTable shareFullBlocks(int fullBlocks, String newOwner) {
        requireOpen();
        if (fullBlocks < 0 || fullBlocks > numTokens / blockSizeTokens) {
            throw new IllegalArgumentException(
                    "cannot share %d blocks: %d are full".formatted(fullBlocks, numTokens / blockSizeTokens));
        }
        var table = new BlockTable(pool, blockSizeTokens, newOwner);
        var shared = blocks.subList(0, fullBlocks);
        pool.retain(toArray(shared), newOwner);
        table.blocks.addAll(shared);
        table.numTokens = fullBlocks * blockSizeTokens;
        return table;
    }

    /** The block of the pool that holds this logical block. */
    public int physicalBlock(int logicalBlock) {
        if (logicalBlock < 0 || logicalBlock >= blocks.size()) {
            throw new IndexOutOfBoundsException(
                    "no logical block %d: the table has %d".formatted(logicalBlock, blocks.size()));
        }
        return blocks.get(logicalBlock);
    }

    /**
     * Where the token at this position lies.
     *
     * <p>A negative position is refused before it is divided: {@code -1 / 16} is 0 in Java, so the
     * first block would be read in silence (in Python it would be the last one).
     */
    public long slotOf(int position) {
        if (position < 0 || position >= numTokens) {
            throw new IndexOutOfBoundsException(
                    "no token at position %d: the sequence has %d".formatted(position, numTokens));
        }
        long block = physicalBlock(position / blockSizeTokens);
        return block * blockSizeTokens + position % blockSizeTokens;
    }

    public int numTokens() {
        return numTokens;
    }

    /** The physical blocks in logical order; a copy. */
    public int[] blocks() {
        return toArray(blocks);
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
        numTokens = 0;
    }

    private void requireOpen() {
        if (closed) {
            throw new IllegalStateException("the table of " + owner + " is closed: its blocks are given back");
        }
    }

    private static int[] toArray(List<Integer> blocks) {
        return blocks.stream().mapToInt(Integer::intValue).toArray();
    }
}
