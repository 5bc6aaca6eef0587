package pagedkv.shared;

/** There is too little shared memory for a pool of this size. */
public class NoSharedMemoryException extends SharedPoolException {

    private static final long serialVersionUID = 1L;

    public NoSharedMemoryException(String message) {
        super(message);
    }
}
