/**
 * The shared pool: one pool of blocks for several processes, in Java and Python, in shared memory.
 *
 * <p>The words used here:
 * <ul>
 *   <li><b>member</b>: one joined pool object; it owns its references ({@link pagedkv.shared.SharedPool});</li>
 *   <li><b>slot</b>: a member's place in the table of the 48 that there can be;</li>
 *   <li><b>word</b>: the 64 bits that are the truth about one block;</li>
 *   <li><b>hint</b>: a bit that says that a block may be free;</li>
 *   <li><b>generation</b>: which handing-out of a block this is;</li>
 *   <li><b>reap</b>: to take back what a dead member held.</li>
 * </ul>
 *
 * <p>The bytes and the order of the steps are specified once for both languages, in {@code pagedkv/shared/layout.py}.
 * {@code Layout} has the offsets, {@code PoolFiles}, {@code Mapping} and {@code Pieces} the files, {@code LockFile} and
 * {@code SlotTable} say who lives. {@code Operations} takes the steps, and {@code ContentIndex} those that find blocks
 * by what they contain, by single {@code Atomics}.
 */
package pagedkv.shared;
