package pagedkv.pool;

/**
 * Hears of every call of a pool, in the order in which the pool carried them out.
 *
 * <p>It runs while the pool holds its lock, after the state has changed. So it should be quick, must
 * not throw (the caller would lose blocks it was just given) and must not change the pool.
 */
@FunctionalInterface
public interface PoolObserver {

    void onEvent(PoolEvent event);
}
