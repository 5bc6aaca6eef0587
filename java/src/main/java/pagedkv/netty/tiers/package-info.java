/**
 * Netty's pooled allocator rebuilt by the rules of version 4.1.48, the last shape with 16 MiB chunks and a buddy tree
 * that has tiny sizes too, and compared with the real one.
 *
 * <p>The words used here, from the outside in:
 * <ul>
 *   <li><b>thread cache</b>: what one thread freed last and gets again first ({@link ThreadCache});</li>
 *   <li><b>arena</b>: the chunks that some threads share ({@link Arena}); a thread stays with one arena;</li>
 *   <li><b>chunk list</b>: the chunks of an arena that are about equally full ({@link ChunkList});</li>
 *   <li><b>chunk</b>: 16 MiB taken from the device at once ({@link Chunk});</li>
 *   <li><b>run</b>: 2<sup>k</sup> neighbouring pages of a chunk, found in its buddy tree ({@link BuddyTree});</li>
 *   <li><b>page</b>: 8 KiB, the smallest run;</li>
 *   <li><b>subpage</b>: a page cut into equal elements for requests below a page ({@link Subpage});</li>
 *   <li><b>size class</b>: what a request is rounded up to ({@link SizeClasses}).</li>
 * </ul>
 *
 * <p>{@link NettyAllocator} puts them together, {@link BuddyChunkAllocator} is a chunk's tree alone. {@link Comparison}
 * runs the same requests on real Netty 4.1.48, {@link Versions} shows what later versions changed, and {@link Reports}
 * replays four reports of its users. No memory is touched: addresses are numbers.
 */
package pagedkv.netty.tiers;
