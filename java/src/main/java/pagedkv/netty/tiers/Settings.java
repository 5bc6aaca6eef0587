package pagedkv.netty.tiers;

/**
 * How a {@link NettyAllocator} is laid out.
 *
 * @param pageBytes a power of two, at least 4096
 * @param maxOrder a chunk has 2<sup>maxOrder</sup> pages, 0 to 14
 * @param numArenas at least 1
 * @param cache what each thread keeps; null for no thread caches
 * @param search how the tree of a chunk is searched; null for Netty's way
 */
public record Settings(int pageBytes, int maxOrder, int numArenas, CacheSettings cache, TreeSearch search) {

    /** Netty 4.1.48 as it comes, with one arena: pages of 8 KiB, chunks of 16 MiB, thread caches. */
    public static final Settings DEFAULT = new Settings(8192, 11, 1, CacheSettings.DEFAULT, null);

    private static final int MAX_CHUNK_BYTES = 1 << 30;

    public Settings {
        if (pageBytes < 4096 || Integer.bitCount(pageBytes) != 1) {
            throw new IllegalArgumentException("pageBytes must be a power of two and at least 4096, not " + pageBytes);
        }
        if (maxOrder < 0 || maxOrder > 14 || (long) pageBytes << maxOrder > MAX_CHUNK_BYTES) {
            throw new IllegalArgumentException(
                    "maxOrder must be 0 to 14 and a chunk at most 1 GiB; %d pages of %d bytes are not"
                            .formatted(1L << maxOrder, pageBytes));
        }
        if (numArenas < 1) {
            throw new IllegalArgumentException("numArenas must be at least 1, not " + numArenas);
        }
    }

    public int chunkBytes() {
        return pageBytes << maxOrder;
    }

    public Settings withChunk(int newPageBytes, int newMaxOrder) {
        return new Settings(newPageBytes, newMaxOrder, numArenas, cache, search);
    }

    public Settings withArenas(int newNumArenas) {
        return new Settings(pageBytes, maxOrder, newNumArenas, cache, search);
    }

    public Settings withCache(CacheSettings newCache) {
        return new Settings(pageBytes, maxOrder, numArenas, newCache, search);
    }

    public Settings withoutCache() {
        return withCache(null);
    }

    public Settings withSearch(TreeSearch newSearch) {
        return new Settings(pageBytes, maxOrder, numArenas, cache, newSearch);
    }

    /**
     * How many arenas Netty makes: two per core, but so few that three chunks in each take at most half of the memory.
     */
    public static int defaultNumArenas(int cores, long memoryBytes, int chunkBytes) {
        return (int) Math.min(2L * cores, memoryBytes / chunkBytes / 2 / 3);
    }
}
