package pagedkv.memory;

/** Memory that an allocator has taken from the device; the label is its kind, such as "chunk". */
public record Segment(long address, long sizeBytes, String label) {

    public long end() {
        return address + sizeBytes;
    }
}
