package pagedkv.shared;

/** The file is no shared pool, or one of another version or size, or it is truncated. */
public class IncompatiblePoolException extends SharedPoolException {

    private static final long serialVersionUID = 1L;

    public IncompatiblePoolException(String message) {
        super(message);
    }
}
