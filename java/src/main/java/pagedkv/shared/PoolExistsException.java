package pagedkv.shared;

/** A pool is to be created under a name that is taken. */
public class PoolExistsException extends SharedPoolException {

    private static final long serialVersionUID = 1L;

    public PoolExistsException(String message) {
        super(message);
    }
}
