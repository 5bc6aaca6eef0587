package pagedkv.memory;

import pagedkv.pool.PoolException;

/**
 * No free memory fits the request, and the device has none left to take.
 *
 * <p>In Python and in events it is called {@code OutOfMemory}. Here it has a longer name, so that nobody takes it for
 * the JVM's own {@link OutOfMemoryError}.
 */
public final class OutOfDeviceMemoryException extends PoolException {

    private static final long serialVersionUID = 1L;

    public OutOfDeviceMemoryException(String message) {
        super(message);
    }

    @Override
    public String kind() {
        return "OutOfMemory";
    }
}
