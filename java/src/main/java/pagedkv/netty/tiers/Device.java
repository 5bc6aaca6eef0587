package pagedkv.netty.tiers;

import java.util.BitSet;
import java.util.TreeMap;
import pagedkv.memory.Ledger;
import pagedkv.memory.OutOfDeviceMemoryException;

/**
 * The memory that all arenas take their chunks from; simulated.
 *
 * <p>Chunk i lies at address {@code i · chunkBytes}; a new one gets the lowest free i. Huge pieces lie behind all
 * places for chunks, the first gap that is long enough. Together they are never more than the capacity.
 */
final class Device {

    private final long capacityBytes;
    private final int chunkBytes;
    private final int pageBytes;
    private final BitSet chunks = new BitSet();
    private final TreeMap<Long, Long> hugeSizes = new TreeMap<>(); // by address
    private long reservedBytes;

    Device(long capacityBytes, int chunkBytes, int pageBytes) {
        if (capacityBytes < chunkBytes) {
            throw new IllegalArgumentException(
                    "a capacity of %d bytes is less than one chunk of %d".formatted(capacityBytes, chunkBytes));
        }
        this.capacityBytes = capacityBytes;
        this.chunkBytes = chunkBytes;
        this.pageBytes = pageBytes;
    }

    /** The address of a new chunk. */
    long reserveChunk(Ledger log) {
        requireFree(chunkBytes, "a new chunk");
        int index = chunks.nextClearBit(0);
        chunks.set(index);
        reservedBytes += chunkBytes;
        long address = (long) index * chunkBytes;
        log.reserve(address, chunkBytes, "chunk");
        return address;
    }

    void returnChunk(long address, Ledger log) {
        chunks.clear((int) (address / chunkBytes));
        reservedBytes -= chunkBytes;
        log.unreserve(address);
    }

    /** The address of a huge piece. */
    long reserveHuge(long sizeBytes, Ledger log) {
        requireFree(sizeBytes, "a huge buffer, which is more than a chunk");
        long address = capacityBytes / chunkBytes * chunkBytes;
        for (var huge : hugeSizes.entrySet()) {
            if (address + sizeBytes <= huge.getKey()) {
                break;
            }
            long end = huge.getKey() + huge.getValue();
            address = (end + pageBytes - 1) / pageBytes * pageBytes;
        }
        hugeSizes.put(address, sizeBytes);
        reservedBytes += sizeBytes;
        log.reserve(address, sizeBytes, "huge");
        return address;
    }

    void returnHuge(long address, Ledger log) {
        reservedBytes -= hugeSizes.remove(address);
        log.unreserve(address);
    }

    long capacityBytes() {
        return capacityBytes;
    }

    private void requireFree(long sizeBytes, String what) {
        long leftBytes = capacityBytes - reservedBytes;
        if (sizeBytes > leftBytes) {
            throw new OutOfDeviceMemoryException("%d bytes wanted for %s, %d of %d are left on the device"
                    .formatted(sizeBytes, what, leftBytes, capacityBytes));
        }
    }
}
