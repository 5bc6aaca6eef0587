package pagedkv.concurrent;

/**
 * WRONG ON PURPOSE: evicts at once, under the pool's lock. For that it needs the lock of the victim, whose thread may
 * hold it and wait for the pool's: a deadlock ({@link Deadlock}).
 */
public final class EvictUnderLock implements Evictor {

    @Override
    public void whenShort(ActiveRequest victim) throws InterruptedException {
        victim.evict();
    }

    @Override
    public void betweenSteps(ActiveRequest request) {
        // nothing is left to do
    }
}
