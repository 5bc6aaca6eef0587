package pagedkv.memory;

/**
 * Hears of every call of an allocator, in the order in which they were carried out.
 *
 * <p>It runs while the allocator holds its lock, after the state has changed. So it should be quick, must not throw and
 * must not call the allocator.
 */
@FunctionalInterface
public interface MemoryObserver {

    void onEvent(MemoryEvent event);
}
