package pagedkv.shared;

/** The pool is still being created, or its creator died before it was done. */
public class NotReadyException extends SharedPoolException {

    private static final long serialVersionUID = 1L;

    public NotReadyException(String message) {
        super(message);
    }
}
