package pagedkv.shared;

/** No pool of this name, or no longer. */
public class NoSuchPoolException extends SharedPoolException {

    private static final long serialVersionUID = 1L;

    public NoSuchPoolException(String message) {
        super(message);
    }
}
