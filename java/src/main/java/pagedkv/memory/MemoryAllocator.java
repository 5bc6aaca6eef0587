package pagedkv.memory;

/**
 * What manages up to {@link #capacityBytes()} of a device's memory: the contract that every allocator in bytes keeps.
 *
 * <ul>
 *   <li>The owner is a label for observers and may be null; the allocator does not check it.
 *   <li>A refused call leaves the state as it was, except that memory without an owner may have been given back.
 *   <li>A size below 1 and a grow to less are an {@link IllegalArgumentException}.
 * </ul>
 */
public interface MemoryAllocator {

    /**
     * Memory for an owner.
     *
     * @throws OutOfDeviceMemoryException if no free memory fits and the device has none left
     */
    MemoryHandle allocate(String owner, long sizeBytes);

    /**
     * The same owner has {@code sizeBytes} in total from now on. The memory may move; then its contents are copied.
     *
     * @return the handle to use from now on
     * @throws OutOfDeviceMemoryException if that does not fit; the owner keeps what it had
     * @throws pagedkv.pool.DoubleFreeException if the handle is not live any more
     */
    MemoryHandle grow(MemoryHandle handle, long sizeBytes);

    /**
     * Gives back all that the handle stands for.
     *
     * @throws pagedkv.pool.DoubleFreeException if the handle is not live any more, or another allocator's
     */
    void free(MemoryHandle handle);

    /** All segments and pieces there are now. */
    Layout layout();

    long capacityBytes();

    /** What kind of allocator this is, for people to read. */
    String source();

    /** Reports every later call to {@code observer}; null ends the reports. */
    void observe(MemoryObserver observer);
}
