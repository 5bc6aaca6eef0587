package pagedkv.netty.tiers;

/** What is wanted of a chunk: a run, or a page to cut up. Null if this chunk has none. */
@FunctionalInterface
interface ChunkRequest<T> {

    T from(Chunk chunk, String prefix);
}
