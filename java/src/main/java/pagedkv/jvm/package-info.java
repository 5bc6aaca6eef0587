/**
 * The JVM's own memory, read from inside the running JVM: G1's regions, humongous objects, thread-local buffers, and
 * the copying that a collection does.
 *
 * <p>The words used here:
 * <ul>
 *   <li><b>region</b>: one of the equal parts that G1 cuts the heap into; its size is a power of two;</li>
 *   <li><b>committed</b>: backed by memory now; the heap's address range is reserved up to its maximum at the start,
 *       and regions are committed as they are needed;</li>
 *   <li><b>kind</b>: what a region holds now: eden, survivor, old, humongous, archive (class data shared between JVMs,
 *       up to JDK 17), or nothing (free). A region changes its kind many times;</li>
 *   <li><b>humongous</b>: an object larger than half a region; it gets whole neighbouring regions for itself;</li>
 *   <li><b>TLAB</b>: thread-local allocation buffer, the piece of an eden region in which one thread allocates by
 *       moving a pointer.</li>
 * </ul>
 *
 * <p>Everything here is what the JVM says: its beans, its log, its flight recorder. Nothing reads memory by address.
 */
package pagedkv.jvm;
