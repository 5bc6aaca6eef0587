package pagedkv.pool;

/** An id lies outside the pool. */
public class NotABlockException extends PoolException {

    private static final long serialVersionUID = 1L;

    public NotABlockException(String message) {
        super(message);
    }

    public NotABlockException(String message, Throwable cause) {
        super(message, cause);
    }

    public static NotABlockException of(int block, int numBlocks) {
        return new NotABlockException(
                "%d is not a block of this pool: its ids go from 0 to %d".formatted(block, numBlocks - 1));
    }
}
