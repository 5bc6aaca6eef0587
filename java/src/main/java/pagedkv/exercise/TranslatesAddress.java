package pagedkv.exercise;

/** An exercise: from a token's position to its slot. */
@FunctionalInterface
public interface TranslatesAddress {

    /**
     * The slot of a token in the memory of the pool: physical block · block size + offset. Larger than an int can hold
     * where the pool is large.
     *
     * @param table the physical blocks, in logical order
     * @param position the token's position in its sequence
     * @throws IndexOutOfBoundsException for a position that is negative, or that no block of the table holds
     */
    long slot(int[] table, int position, int blockSizeTokens);
}
