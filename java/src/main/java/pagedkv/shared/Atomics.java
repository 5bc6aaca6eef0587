package pagedkv.shared;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * Single steps on mapped memory: every write to it goes through here, but those to the data of blocks. Places are
 * byte indices into a buffer, aligned to their size.
 *
 * <p>What several members change are u64 numbers, read and swapped volatile, which is sequentially consistent. A count
 * has one writer; it is stored with release, so that whoever reads it with acquire sees the swap before it too.
 *
 * <p>Not final, for tests: a member whose steps are counted can be killed before each of them.
 */
class Atomics {

    private static final VarHandle LONG =
            MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.LITTLE_ENDIAN);
    private static final VarHandle INT =
            MethodHandles.byteBufferViewVarHandle(int[].class, ByteOrder.LITTLE_ENDIAN);

    final long get(ByteBuffer memory, int at) {
        return (long) LONG.getVolatile(memory, at);
    }

    /** @return what was there: {@code seen} if {@code wanted} is there now, else something else, and nothing changed */
    long swap(ByteBuffer memory, int at, long seen, long wanted) {
        return (long) LONG.compareAndExchange(memory, at, seen, wanted);
    }

    void setBits(ByteBuffer memory, int at, long bits) {
        long ignored = (long) LONG.getAndBitwiseOr(memory, at, bits);
    }

    /** @return what was there */
    long add(ByteBuffer memory, int at, long number) {
        return (long) LONG.getAndAdd(memory, at, number);
    }

    /** What was read or written before is so for everybody before what is read or written after. */
    final void fence() {
        VarHandle.fullFence();
    }

    /** A number that has one writer. */
    void put(ByteBuffer memory, int at, long number) {
        LONG.setRelease(memory, at, number);
    }

    /** A count, from any thread. */
    final int getCount(ByteBuffer memory, int at) {
        return (int) INT.getAcquire(memory, at);
    }

    void putCount(ByteBuffer memory, int at, int count) {
        INT.setRelease(memory, at, count);
    }
}
