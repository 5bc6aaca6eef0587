package pagedkv.pool;

/** More blocks were asked for than are free. */
public class OutOfBlocksException extends PoolException {

    private static final long serialVersionUID = 1L;

    public OutOfBlocksException(String message) {
        super(message);
    }

    public OutOfBlocksException(String message, Throwable cause) {
        super(message, cause);
    }

    public static OutOfBlocksException of(int requested, int free, int total) {
        return new OutOfBlocksException(
                "need %d blocks, %d of %d are free: release some or ask for fewer"
                        .formatted(requested, free, total));
    }
}
