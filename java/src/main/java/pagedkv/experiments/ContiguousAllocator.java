package pagedkv.experiments;

import java.util.Arrays;
import java.util.OptionalInt;

/**
 * Memory without paging: each owner has one run of neighbouring blocks.
 *
 * <p><em>First fit</em>: a request goes to the first free run that is long enough, counted from
 * block 0. Nothing is ever moved, so free blocks that are not neighbours cannot serve one request:
 * that is <em>external fragmentation</em>. It looks at every block; fine for a demonstration.
 */
public final class ContiguousAllocator {

    private static final char FREE = '.';

    /** The owner of each block, null for a free one. */
    private final String[] owners;

    public ContiguousAllocator(int numBlocks) {
        if (numBlocks < 1) {
            throw new IllegalArgumentException("numBlocks must be at least 1, not " + numBlocks);
        }
        owners = new String[numBlocks];
    }

    /** The first block of the owner's new run, or nothing if no free run is long enough. */
    public OptionalInt allocate(String owner, int numBlocks) {
        if (owner == null || owner.isEmpty() || Arrays.asList(owners).contains(owner)) {
            throw new IllegalArgumentException("an owner has a name and one run, not: " + owner);
        }
        if (numBlocks < 1) {
            throw new IllegalArgumentException("a run has at least 1 block, not " + numBlocks);
        }
        for (int start = 0; start < owners.length; start++) {
            if (freeRunAt(start) >= numBlocks) {
                Arrays.fill(owners, start, start + numBlocks, owner);
                return OptionalInt.of(start);
            }
        }
        return OptionalInt.empty();
    }

    /** Gives the owner's run back. */
    public void free(String owner) {
        if (owner == null || !Arrays.asList(owners).contains(owner)) {
            throw new IllegalArgumentException("nothing to free: no run belongs to " + owner);
        }
        Arrays.setAll(owners, block -> owner.equals(owners[block]) ? null : owners[block]);
    }

    public int numBlocks() {
        return owners.length;
    }

    public int numFreeBlocks() {
        int free = 0;
        for (String owner : owners) {
            if (owner == null) {
                free++;
            }
        }
        return free;
    }

    /** The longest request that would succeed now. */
    public int largestFreeRun() {
        int largest = 0;
        for (int start = 0; start < owners.length; start++) {
            largest = Math.max(largest, freeRunAt(start));
        }
        return largest;
    }

    /** A picture: for each block the first letter of its owner, or a dot. */
    public String layout() {
        var picture = new StringBuilder();
        for (String owner : owners) {
            picture.appendCodePoint(owner == null ? FREE : owner.codePointAt(0));
        }
        return picture.toString();
    }

    private int freeRunAt(int start) {
        int end = start;
        while (end < owners.length && owners[end] == null) {
            end++;
        }
        return end - start;
    }
}
