package pagedkv.pool;

/** A reference was released that does not exist (any more). */
public class DoubleFreeException extends PoolException {

    private static final long serialVersionUID = 1L;

    public DoubleFreeException(String message) {
        super(message);
    }

    public DoubleFreeException(String message, Throwable cause) {
        super(message, cause);
    }

    public static DoubleFreeException of(int block, int refcount, int timesReleased, Throwable cause) {
        var message = refcount == 0
                ? "block %d is already free (refcount 0): release each reference only once".formatted(block)
                : "block %d has refcount %d but stands %d times in this release: release each reference only once"
                        .formatted(block, refcount, timesReleased);
        return new DoubleFreeException(message, cause);
    }
}
