package pagedkv.shared;

/**
 * What a dead member held.
 *
 * @param numReferences so many references
 * @param numFreeBlocks so many of their blocks became free with it; of several dead, the lowest slot has them
 */
public record Reaped(int slot, long pid, String language, long numReferences, int numFreeBlocks) {

    @Override
    public String toString() {
        return "slot %d: process %d (%s) had died with %d references; %d blocks became free"
                .formatted(slot, pid, language, numReferences, numFreeBlocks);
    }
}
