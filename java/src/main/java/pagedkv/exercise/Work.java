package pagedkv.exercise;

import io.netty.buffer.ByteBuf;
import java.util.function.Consumer;

/**
 * What somebody may do with a buffer that is handed to them: read it, keep it, fail. Exercises hand these to a learner's
 * code, to see who gives up which reference, and whether the work was done at all.
 */
public final class Work implements Consumer<ByteBuf> {

    private final boolean keeps;
    private final Throwable failure;
    private int calls;

    private Work(boolean keeps, Throwable failure) {
        this.keeps = keeps;
        this.failure = failure;
    }

    public static Work reads() {
        return new Work(false, null);
    }

    public static Work fails() {
        return new Work(false, new IllegalArgumentException("this work fails"));
    }

    /** Fails with something that {@code catch (Exception e)} does not catch. */
    public static Work failsBadly() {
        return new Work(false, new StackOverflowError("this work fails badly"));
    }

    public static Work keeps() {
        return new Work(true, null);
    }

    public static Work keepsAndFails() {
        return new Work(true, new IllegalArgumentException("this work keeps the buffer, and fails"));
    }

    @Override
    public void accept(ByteBuf buffer) {
        calls++;
        buffer.getByte(0);
        if (keeps) {
            buffer.retain();
        }
        if (failure instanceof RuntimeException exception) {
            throw exception;
        }
        if (failure instanceof Error error) {
            throw error;
        }
    }

    /** How often the work was done. */
    public int calls() {
        return calls;
    }

    /** What {@link #accept} throws, or null. */
    public Throwable failure() {
        return failure;
    }
}
