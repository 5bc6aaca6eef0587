package pagedkv.netty.tiers;

import java.util.Arrays;

/**
 * One page cut into equal elements, with one bit for each (Netty's {@code PoolSubpage}).
 *
 * <pre>
 *   elements of 2048 bytes:   [ used | free | used | free ]      bitmap …0101, numFree = 2
 * </pre>
 *
 * <p>A page of 8 KiB has at most 512 elements of 16 bytes, so its bitmap is 8 longs. The element freed last is handed
 * out next, without a search: it is likely to be in the CPU's cache. Else the lowest free bit is taken.
 */
public final class Subpage {

    private static final int NO_HINT = -1;

    private final Chunk chunk;
    private final int node;
    private final long address;
    private final int elementBytes;
    private final int numElements;
    private final long[] bitmap;
    private int numFree;
    private int nextAvailable;

    /** A page at {@code address}, which the node of the chunk's tree stands for; all elements free. */
    Subpage(Chunk chunk, int node, long address, int pageBytes, int elementBytes) {
        this.chunk = chunk;
        this.node = node;
        this.address = address;
        this.elementBytes = elementBytes;
        numElements = pageBytes / elementBytes;
        bitmap = new long[(numElements + Long.SIZE - 1) / Long.SIZE];
        numFree = numElements;
    }

    /** The next element; only while there is one. */
    Slot allocate() {
        int element = nextAvailable != NO_HINT ? nextAvailable : lowestFree();
        nextAvailable = NO_HINT;
        bitmap[element / Long.SIZE] |= 1L << element;
        numFree--;
        return new Slot(chunk, node, this, element, address + (long) element * elementBytes, elementBytes);
    }

    void free(int element) {
        bitmap[element / Long.SIZE] &= ~(1L << element);
        numFree++;
        nextAvailable = element;
    }

    private int lowestFree() {
        for (int word = 0; word < bitmap.length; word++) {
            if (~bitmap[word] != 0) {
                return word * Long.SIZE + Long.numberOfTrailingZeros(~bitmap[word]);
            }
        }
        throw new IllegalStateException("no element is free");
    }

    boolean isFull() {
        return numFree == 0;
    }

    boolean isEmpty() {
        return numFree == numElements;
    }

    public int node() {
        return node;
    }

    public int elementBytes() {
        return elementBytes;
    }

    public int numElements() {
        return numElements;
    }

    public int numFree() {
        return numFree;
    }

    /** One bit per element, the lowest first; set while it is in use. A copy. */
    public long[] bitmap() {
        return Arrays.copyOf(bitmap, bitmap.length);
    }
}
