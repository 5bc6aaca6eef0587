/**
 * Memory in bytes: the contract of an allocator that hands out pieces of one memory, whatever its rules are.
 *
 * <p>The words used here:
 * <ul>
 *   <li><b>segment</b>: memory that the allocator has taken from the device, such as one chunk of Netty's;</li>
 *   <li><b>piece</b>: a part of a segment that an owner has; what no piece covers is free;</li>
 *   <li><b>event</b>: one call of an allocator, with all that it changed and how it was decided;</li>
 *   <li><b>workload</b>: a list of calls as text, the same for Java and Python.</li>
 * </ul>
 *
 * <p>The pools of {@code pagedkv.pool} count references to blocks. Allocators know addresses and sizes, and nothing is
 * shared. All sizes and addresses are in bytes; addresses are simulated, and the same on every run.
 */
package pagedkv.memory;
