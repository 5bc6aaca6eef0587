package pagedkv.jvm;

/**
 * One committed region.
 *
 * @param number counts regions from the start of the heap's address range
 * @param usedBytes how far it is filled; a humongous object's last region counts as full
 */
public record HeapRegion(int number, RegionKind kind, long usedBytes) {
}
