package pagedkv.pool;

import java.util.stream.IntStream;

/**
 * A fixed number of equal blocks with a reference count each: the contract that every pool keeps.
 *
 * <p>A <em>block</em> is an int from 0 to {@code numBlocks() - 1}. It is <em>free</em> while its
 * reference count is 0. Whoever allocates or retains a block owns one <em>reference</em> to it and
 * releases exactly that one later; the pool owns the blocks, a table of blocks only borrows them.
 *
 * <ul>
 *   <li>Which ids come in which order is not part of the contract.
 *   <li>A call is all or nothing: when it throws, the pool is exactly as before.
 *   <li>A block may stand in one call several times, and then counts that many times:
 *       {@code release(b, b)} is right if {@code refcount(b)} is at least 2.
 *   <li>The owner is a label for observers and may be null; the pool does not check it.
 *   <li>A negative count is an {@link IllegalArgumentException}, a missing array a
 *       {@link NullPointerException}. Everything else that can be wrong is a {@link PoolException}.
 * </ul>
 */
public interface Pool {

    /**
     * Takes {@code n} free blocks and sets their count to 1.
     *
     * @throws OutOfBlocksException if fewer than {@code n} are free
     */
    int[] allocate(int n, String owner);

    /** {@link #allocate(int, String)} without an owner. */
    default int[] allocate(int n) {
        return allocate(n, null);
    }

    /**
     * Adds one reference to each block, once per occurrence.
     *
     * @throws UseAfterFreeException if one of them is free
     * @throws NotABlockException if an id is outside the pool
     */
    void retain(int[] blocks, String owner);

    /** {@link #retain(int[], String)} without an owner. */
    default void retain(int... blocks) {
        retain(blocks, null);
    }

    /**
     * Takes one reference from each block, once per occurrence; a block without references is free.
     *
     * @throws DoubleFreeException if a block stands in the call more often than it has references
     * @throws NotABlockException if an id is outside the pool
     */
    void release(int[] blocks, String owner);

    /** {@link #release(int[], String)} without an owner. */
    default void release(int... blocks) {
        release(blocks, null);
    }

    /**
     * The references to this block; 0 means free.
     *
     * @throws NotABlockException if the id is outside the pool
     */
    int refcount(int block);

    /** The references to every block, by block: one call where a caller from another language needs them all. */
    default int[] refcounts() {
        return IntStream.range(0, numBlocks()).map(this::refcount).toArray();
    }

    int numFreeBlocks();

    int numBlocks();

    /** Reports every later call to {@code observer}; null ends the reports. */
    void setObserver(PoolObserver observer);
}
