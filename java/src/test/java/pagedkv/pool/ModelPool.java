package pagedkv.pool;

import java.util.Arrays;
import java.util.stream.IntStream;

/**
 * The contract in its most obvious form: one count per block, tried on a copy. It does not choose
 * blocks; the pool under test says which ones it gave out.
 */
final class ModelPool {

    private int[] counts;

    ModelPool(int numBlocks) {
        counts = new int[numBlocks];
    }

    int numFreeBlocks() {
        return (int) IntStream.of(counts).filter(count -> count == 0).count();
    }

    PoolState state() {
        return new PoolState(numFreeBlocks(), IntStream.of(counts).boxed().toList());
    }

    /** The kind of error that is due, or "ok". */
    String verdictOnAllocate(int n) {
        return n > numFreeBlocks() ? "OutOfBlocks" : "ok";
    }

    void allocated(int[] blocks) {
        for (int block : blocks) {
            if (counts[block] != 0) {
                throw new AssertionError("block " + block + " was handed out while in use");
            }
            counts[block] = 1;
        }
    }

    String retain(int[] blocks) {
        if (!allInside(blocks)) {
            return "NotABlock";
        }
        if (IntStream.of(blocks).anyMatch(block -> counts[block] == 0)) {
            return "UseAfterFree";
        }
        IntStream.of(blocks).forEach(block -> counts[block]++);
        return "ok";
    }

    String release(int[] blocks) {
        if (!allInside(blocks)) {
            return "NotABlock";
        }
        var after = counts.clone();
        IntStream.of(blocks).forEach(block -> after[block]--);
        if (Arrays.stream(after).anyMatch(count -> count < 0)) {
            return "DoubleFree";
        }
        counts = after;
        return "ok";
    }

    private boolean allInside(int[] blocks) {
        return IntStream.of(blocks).allMatch(block -> block >= 0 && block < counts.length);
    }
}
