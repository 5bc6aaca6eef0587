package pagedkv.netty.tiers;

/**
 * How much a thread cache keeps.
 *
 * @param tinyEntries per size: how many pieces below 512 bytes
 * @param smallEntries per size: how many from 512 bytes, below a page
 * @param normalEntries per size: how many of a page or more
 * @param maxCachedBytes larger pieces are never kept
 * @param trimInterval after this many requests to the cache, what was not used goes back to the arena
 */
public record CacheSettings(int tinyEntries, int smallEntries, int normalEntries, int maxCachedBytes,
        int trimInterval) {

    /** Netty 4.1.48 as it comes. */
    public static final CacheSettings DEFAULT = new CacheSettings(512, 256, 64, 32 << 10, 8192);

    public CacheSettings {
        if (tinyEntries < 0 || smallEntries < 0 || normalEntries < 0 || maxCachedBytes < 0 || trimInterval < 1) {
            throw new IllegalArgumentException("sizes of a cache are 0 or more and trimInterval is at least 1");
        }
    }
}
