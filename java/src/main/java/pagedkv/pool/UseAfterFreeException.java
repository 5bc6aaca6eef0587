package pagedkv.pool;

/** A free block was used as if its caller still held it. */
public class UseAfterFreeException extends PoolException {

    private static final long serialVersionUID = 1L;

    public UseAfterFreeException(String message) {
        super(message);
    }

    public UseAfterFreeException(String message, Throwable cause) {
        super(message, cause);
    }

    public static UseAfterFreeException of(int block, Throwable cause) {
        return new UseAfterFreeException(
                "block %d is free (refcount 0): use it before its last release, or allocate again"
                        .formatted(block),
                cause);
    }
}
