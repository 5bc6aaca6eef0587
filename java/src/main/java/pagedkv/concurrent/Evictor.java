package pagedkv.concurrent;

/**
 * How a request is made to give its blocks up when the pool is short. One object serves all threads.
 *
 * <p>{@link EvictUnderLock} is the obvious way, and wrong; {@link MarkThenEvict} is right. {@link DeadlockTrial} tells.
 */
public interface Evictor {

    /**
     * The pool is short and has chosen a victim. Called by whichever thread noticed, with the pool's lock held and
     * perhaps that of a request of its own; the victim is in use by another thread.
     */
    void whenShort(ActiveRequest victim) throws InterruptedException;

    /** Called by the thread of a request between two of its steps, with no lock held at all. */
    void betweenSteps(ActiveRequest request) throws InterruptedException;
}
