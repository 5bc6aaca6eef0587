package pagedkv.netty.tiers;

/**
 * What a request is rounded up to (Netty 4.1.48, {@code PoolArena.normalizeCapacity}).
 *
 * <pre>
 *   request          rounded up to
 *   below 512        the next multiple of 16          1 → 16, 17 → 32, 511 → 512
 *   from 512         the next power of two            513 → 1024, 5000 → 8192
 *   a chunk or more  itself; more than a chunk is huge
 * </pre>
 */
public final class SizeClasses {

    public static final int CHUNK_BYTES = 16 << 20;
    static final int QUANTUM_BYTES = 16;
    static final int FIRST_SMALL_BYTES = 512;

    private SizeClasses() {
    }

    /** {@link #normalizeCapacity(int, int)} with chunks of 16 MiB. */
    public static int normalizeCapacity(int reqCapacity) {
        return normalizeCapacity(reqCapacity, CHUNK_BYTES);
    }

    /**
     * @param reqCapacity the request, in bytes, 0 or more
     * @param chunkBytes a power of two
     */
    public static int normalizeCapacity(int reqCapacity, int chunkBytes) {
        if (reqCapacity < 0) {
            throw new IllegalArgumentException("a capacity is 0 or more bytes, not " + reqCapacity);
        }
        if (reqCapacity >= chunkBytes) {
            return reqCapacity;
        }
        if (reqCapacity >= FIRST_SMALL_BYTES) {
            int powerOfTwo = Integer.highestOneBit(reqCapacity);
            return powerOfTwo == reqCapacity ? powerOfTwo : powerOfTwo * 2;
        }
        return (reqCapacity + QUANTUM_BYTES - 1) / QUANTUM_BYTES * QUANTUM_BYTES;
    }

    /** The class of a size that has been rounded up. 511 bytes become 512, and so are small. */
    public static SizeClass of(long normBytes, int pageBytes, int chunkBytes) {
        if (normBytes > chunkBytes) {
            return SizeClass.HUGE;
        }
        if (normBytes >= pageBytes) {
            return SizeClass.NORMAL;
        }
        return normBytes < FIRST_SMALL_BYTES ? SizeClass.TINY : SizeClass.SMALL;
    }

    /** k for 2<sup>k</sup>. */
    static int log2(long powerOfTwo) {
        return Long.numberOfTrailingZeros(powerOfTwo);
    }
}
