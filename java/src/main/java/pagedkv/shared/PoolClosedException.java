package pagedkv.shared;

/** A pool is used after its {@code close()}. */
public class PoolClosedException extends SharedPoolException {

    private static final long serialVersionUID = 1L;

    public PoolClosedException(String message) {
        super(message);
    }
}
