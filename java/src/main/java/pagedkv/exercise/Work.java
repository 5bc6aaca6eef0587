package pagedkv.exercise;

import io.netty.buffer.ByteBuf;
import java.util.function.Consumer;

/**
 * What somebody may do with a buffer that is handed to them: read it, keep it, or fail. Exercises hand these to a
 * learner's code, to see who gives up which reference.
 */
public final class Work {

    private Work() {
    }

    public static Consumer<ByteBuf> reads() {
        return ByteBuf::readableBytes;
    }

    public static Consumer<ByteBuf> fails() {
        return buffer -> {
            throw new IllegalArgumentException("this work fails");
        };
    }

    public static Consumer<ByteBuf> keeps() {
        return ByteBuf::retain;
    }

    public static Consumer<ByteBuf> keepsAndFails() {
        return buffer -> {
            buffer.retain();
            throw new IllegalArgumentException("this work fails after it kept the buffer");
        };
    }
}
