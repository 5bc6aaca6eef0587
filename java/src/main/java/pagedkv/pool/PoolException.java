package pagedkv.pool;

/** A pool refused a call; the pool is exactly as it was before. */
public abstract class PoolException extends RuntimeException {

    private static final long serialVersionUID = 1L;

    protected PoolException(String message) {
        super(message);
    }

    protected PoolException(String message, Throwable cause) {
        super(message, cause);
    }

    /** The kind of error as events name it: {@code OutOfBlocks} for {@link OutOfBlocksException}. */
    public String kind() {
        return getClass().getSimpleName().replace("Exception", "");
    }
}
