package pagedkv.memory;

/** What an owner holds in its hand and gives back with {@link MemoryAllocator#free}. */
public interface MemoryHandle {

    String owner();

    /** What the owner asked for, in bytes. */
    long sizeBytes();
}
