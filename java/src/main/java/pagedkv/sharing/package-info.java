/**
 * Two sequences on the same blocks, and what happens when one of them writes.
 *
 * <p>The words used here:
 * <ul>
 *   <li><b>fork</b>: a second sequence with the same tokens, on the same blocks; each gets one reference more;</li>
 *   <li><b>shared</b>: a block with more than one reference;</li>
 *   <li><b>tail</b>: the last block of a sequence; while it is not full, the next token goes into it;</li>
 *   <li><b>copy-on-write</b>: whoever wants to write into a shared block copies it first, and writes into the
 *       copy.</li>
 * </ul>
 *
 * <p>{@link SharedSequence} is the sequence, {@link WriteRule} decides where it writes: {@link CopyOnWrite} is right,
 * {@link NaiveFork} is not. {@link TokenStore} stands for the memory of the blocks and holds tokens where an engine
 * holds keys and values: so one can see what is overwritten.
 */
package pagedkv.sharing;
