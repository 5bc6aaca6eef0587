package pagedkv.sharing;

/**
 * One entry of a sequence's block table, as it is now (S11).
 *
 * <p>Only the block and {@code written} are kept in a table. The count is the pool's, and {@code readOnlyShared}
 * follows from it: kept in each table, it would be wrong as soon as another sequence forks or leaves.
 *
 * @param block the physical block
 * @param refcount how many references there are to it
 * @param written whether this sequence has written into it; false for a block that came with a fork
 * @param readOnlyShared whether a write has to copy first: somebody else refers to it too
 */
public record TableEntry(int block, int refcount, boolean written, boolean readOnlyShared) {
}
