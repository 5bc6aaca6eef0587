package pagedkv.concurrent;

/**
 * WRONG ON PURPOSE: a lock-free pool whose stack has no tag. It is here to be caught ({@link PairTrial}).
 *
 * <p>Two threads that each allocate two blocks, one after the other, and release them in the same order, break it
 * within a moment: blocks get lost, or one is handed out to both. Threads that allocate one block at a time are too
 * few to break it when they are two. {@link #interruptNextAllocate} does the same on one thread, without chance.
 */
public final class UntaggedPool extends LockFreePool {

    private final UntaggedStack stack;

    public UntaggedPool(int numBlocks) {
        this(numBlocks, new UntaggedStack(Counts.requireNumBlocks(numBlocks)));
    }

    private UntaggedPool(int numBlocks, UntaggedStack stack) {
        super(numBlocks, stack);
        this.stack = stack;
    }

    /**
     * Runs {@code others} inside the next allocate, after it has read which block is on top and which lies below, and
     * before it takes the one on top: what other threads might do at the worst moment.
     */
    public void interruptNextAllocate(Runnable others) {
        stack.interruptNextPop(others);
    }
}
