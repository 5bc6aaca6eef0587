package pagedkv.prefix;

/**
 * From the beginning of a prompt to the blocks that hold it already.
 *
 * <p>A prompt of n tokens has n / block size full blocks; the rest of it is never entered and never found.
 */
public interface PromptIndex {

    /**
     * Enters the full blocks of a prompt that was computed.
     *
     * <p>A block whose contents can be found already is not entered: the first one stays, and the second one remains
     * private to whoever computed it.
     *
     * @param tokens the prompt
     * @param blocks the physical blocks that hold it, in logical order; at least one for each full block
     */
    void insert(int[] tokens, int[] blocks);

    /** The physical blocks that hold the longest known beginning of the prompt, in logical order; maybe none. */
    int[] longestPrefix(int[] tokens);
}
