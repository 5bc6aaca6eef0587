package pagedkv.table;

import java.util.NoSuchElementException;

/**
 * The block tables of many sequences.
 *
 * <p>A sequence has an id, and exists from its first {@link #append} until it is removed. Its logical blocks are
 * numbered 0, 1, 2, … in the order in which they were appended. A store keeps numbers only: references to blocks are
 * counted by the pool, and whoever removes a sequence gets its blocks, to release them. A call that throws changes
 * nothing. One thread at a time.
 */
public interface TableStore {

    /** Enters a physical block as the sequence's next logical block. */
    void append(long sequence, int physicalBlock);

    /**
     * The physical block of a logical one.
     *
     * @throws NoSuchElementException for a sequence that is not in the store
     * @throws IndexOutOfBoundsException for a logical block that is negative, or that the sequence does not have
     */
    int lookup(long sequence, int logicalBlock);

    /**
     * Forgets a sequence; its id may come again later.
     *
     * @return its physical blocks, in logical order
     * @throws NoSuchElementException for a sequence that is not in the store
     */
    int[] remove(long sequence);

    /**
     * The heap that the store takes now, in bytes, by the rules of {@link ObjectSizes}: every array and every object
     * that it keeps, whether filled or not. -1 where a store does not account for it.
     */
    default long numBytes() {
        return -1;
    }
}
