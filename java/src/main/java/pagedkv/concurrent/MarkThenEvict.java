package pagedkv.concurrent;

/**
 * Marks the victim, which needs no lock; its own thread evicts it at the next place where it holds none.
 *
 * <p><b>Why it never deadlocks.</b> A thread that holds the pool's lock now never waits for another one. So the only
 * thing left to wait for while holding a lock is the pool's lock, and whoever has that will let go of it.
 */
public final class MarkThenEvict implements Evictor {

    @Override
    public void whenShort(ActiveRequest victim) {
        victim.mark();
    }

    @Override
    public void betweenSteps(ActiveRequest request) throws InterruptedException {
        if (request.isMarked()) {
            request.evict();
        }
    }
}
