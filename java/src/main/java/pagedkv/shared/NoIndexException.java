package pagedkv.shared;

/** The pool was made without a prefix index, and something is to be found in it or published. */
public class NoIndexException extends SharedPoolException {

    private static final long serialVersionUID = 1L;

    public NoIndexException(String message) {
        super(message);
    }
}
