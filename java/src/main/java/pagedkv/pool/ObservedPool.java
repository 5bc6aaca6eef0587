package pagedkv.pool;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Objects;

/**
 * What all pools share: one monitor, the checks of arguments, and one event per call.
 *
 * <p>A pool states in three methods how it takes blocks and how it adds and drops references. They
 * run under the monitor of the pool and refuse by throwing a {@link PoolException}. Holding the
 * monitor until the event is out keeps the order of the events equal to the order of the changes.
 * Without an observer no event is built.
 */
public abstract class ObservedPool implements Pool {

    private PoolObserver observer;
    private long step;

    /** Takes {@code n} free blocks; {@code n} is not negative. */
    protected abstract int[] take(int n);

    /** Adds a reference for each entry. */
    protected abstract void addReferences(int[] blocks);

    /** Drops a reference for each entry; a block without references becomes free. */
    protected abstract void dropReferences(int[] blocks);

    @Override
    public final synchronized int[] allocate(int n, String owner) {
        if (n < 0) {
            throw new IllegalArgumentException("cannot allocate " + n + " blocks: ask for 0 or more");
        }
        int[] blocks;
        try {
            blocks = take(n);
        } catch (PoolException refusal) {
            reportRefusedAllocate(owner, n, refusal);
            throw refusal;
        }
        report("allocate", owner, blocks);
        return blocks;
    }

    @Override
    public final synchronized void retain(int[] blocks, String owner) {
        requireArray("retain", blocks);
        try {
            addReferences(blocks);
        } catch (PoolException refusal) {
            reportRefusal("retain", owner, blocks, refusal);
            throw refusal;
        }
        report("retain", owner, blocks);
    }

    @Override
    public final synchronized void release(int[] blocks, String owner) {
        requireArray("release", blocks);
        try {
            dropReferences(blocks);
        } catch (PoolException refusal) {
            reportRefusal("release", owner, blocks, refusal);
            throw refusal;
        }
        report("release", owner, blocks);
    }

    @Override
    public final synchronized void setObserver(PoolObserver observer) {
        this.observer = observer;
    }

    /** Refuses an id outside the pool. */
    protected final void requireBlock(int block) {
        if (block < 0 || block >= numBlocks()) {
            throw NotABlockException.of(block, numBlocks());
        }
    }

    /** Refuses the first id outside the pool. */
    protected final void requireBlocks(int[] blocks) {
        for (int block : blocks) {
            requireBlock(block);
        }
    }

    /** Refuses to take more blocks than are free. */
    protected final void requireFree(int n) {
        if (n > numFreeBlocks()) {
            throw OutOfBlocksException.of(n, numFreeBlocks(), numBlocks());
        }
    }

    /** The size given to a constructor, if it is one. */
    protected static int requireAtLeastOne(String what, int value) {
        if (value < 1) {
            throw new IllegalArgumentException(what + " must be at least 1, not " + value);
        }
        return value;
    }

    private static void requireArray(String op, int[] blocks) {
        Objects.requireNonNull(blocks, () -> op + " needs an array of blocks (an empty one is fine), not null");
    }

    /** Tells the observer, if there is one, of a call that went through. */
    protected final void report(String op, String owner, int[] blocks) {
        if (observer != null) {
            observer.onEvent(new PoolEvent(step++, op, owner, blocks, Map.of()));
        }
    }

    private void reportRefusal(String op, String owner, int[] blocks, PoolException refusal) {
        if (observer != null) {
            observer.onEvent(new PoolEvent(step++, op, owner, blocks, detailOf(refusal)));
        }
    }

    private void reportRefusedAllocate(String owner, int requested, PoolException refusal) {
        if (observer != null) {
            var detail = detailOf(refusal);
            detail.put("requested_blocks", requested);
            observer.onEvent(new PoolEvent(step++, "allocate", owner, new int[0], detail));
        }
    }

    private static Map<String, Object> detailOf(PoolException refusal) {
        var detail = new LinkedHashMap<String, Object>();
        detail.put("error", refusal.kind());
        detail.put("message", refusal.getMessage());
        return detail;
    }
}
