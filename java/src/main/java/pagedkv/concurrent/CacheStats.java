package pagedkv.concurrent;

/**
 * How often blocks came from the caller's own cache.
 *
 * @param hits blocks that did
 * @param misses blocks that had to be fetched from the stack or from other threads' caches
 */
public record CacheStats(long hits, long misses) {

    /** 0 to 1; NaN if no block was allocated. */
    public double hitRate() {
        return (double) hits / (hits + misses);
    }

    CacheStats plus(CacheStats other) {
        return new CacheStats(hits + other.hits, misses + other.misses);
    }
}
