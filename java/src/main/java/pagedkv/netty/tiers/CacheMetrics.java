package pagedkv.netty.tiers;

/**
 * A thread cache in numbers.
 *
 * @param hits requests that it served
 * @param misses requests of sizes that it keeps, when it had none of that size
 * @param numCached pieces that it keeps now
 * @param cachedBytes their bytes
 * @param numGivenBack pieces that went back to the arena by trims, or at the thread's end
 */
public record CacheMetrics(long hits, long misses, int numCached, long cachedBytes, long numGivenBack) {
}
