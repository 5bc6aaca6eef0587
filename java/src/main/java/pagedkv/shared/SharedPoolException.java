package pagedkv.shared;

/**
 * Anything about a shared pool as a whole that is not the answer to one call; refusals of a call are {@link
 * pagedkv.pool.PoolException}s.
 */
public class SharedPoolException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    public SharedPoolException(String message) {
        super(message);
    }
}
