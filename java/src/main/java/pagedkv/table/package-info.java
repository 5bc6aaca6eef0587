/**
 * Page tables: from a position in a sequence to a place in the pool's memory, and three ways to keep many tables.
 *
 * <p>The words used here:
 * <ul>
 *   <li><b>position</b>: the number of a token in its sequence, from 0;</li>
 *   <li><b>logical block</b>: a place in the sequence for one block of tokens: position / block size;</li>
 *   <li><b>offset</b>: the token's place in its block: position % block size;</li>
 *   <li><b>physical block</b>: an id of the pool; the table says which one holds a logical block;</li>
 *   <li><b>slot</b>: the token's place in the memory of the whole pool: physical block · block size + offset;</li>
 *   <li><b>store</b>: the tables of all sequences, by sequence id ({@link TableStore}).</li>
 * </ul>
 *
 * <p>{@link AddressTranslation} is the arithmetic, {@link TableCost} measures what each store costs in bytes and time.
 */
package pagedkv.table;
