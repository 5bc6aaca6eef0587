package pagedkv.table;

/**
 * What objects and arrays take on the heap, in bytes, by HotSpot's rules on a 64-bit machine.
 *
 * <p>They hold for heaps below 32 GiB, where references are compressed to 4 bytes, and for the usual headers: 12 bytes
 * for an object, 16 for an array (a length more). Everything is rounded up to 8. With a larger heap, or with JDK 24's
 * compact headers switched on, the figures differ.
 */
public final class ObjectSizes {

    private static final int OBJECT_HEADER_BYTES = 12;
    private static final int ARRAY_HEADER_BYTES = 16;
    private static final int ALIGNMENT_BYTES = 8;

    public static final int REFERENCE_BYTES = 4;

    private ObjectSizes() {
    }

    /** @param fieldBytes the fields together: 4 for an int or a reference, 8 for a long */
    public static long object(int fieldBytes) {
        return align(OBJECT_HEADER_BYTES + (long) fieldBytes);
    }

    public static long intArray(long length) {
        return align(ARRAY_HEADER_BYTES + Integer.BYTES * length);
    }

    public static long longArray(long length) {
        return align(ARRAY_HEADER_BYTES + Long.BYTES * length);
    }

    public static long referenceArray(long length) {
        return align(ARRAY_HEADER_BYTES + REFERENCE_BYTES * length);
    }

    private static long align(long bytes) {
        return (bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
    }
}
