package pagedkv.shared;

import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import java.util.stream.IntStream;

/**
 * Guard mode: who wrote beyond a block?
 *
 * <p>Each block has 64 bytes in front of it and at least as many behind it that nobody has a reason to write to. In
 * front stand a magic number, the block's id, and whom it was handed out to; the rest are <em>canaries</em>, bytes of
 * a known pattern. They are looked at when a block is released, and for all blocks by {@link SharedPool#verify}. A
 * write that ran over the end of a block, or began before it, is then found with the block, its owner and the first
 * byte that is not as it was. A write far outside, past the canaries, is not.
 *
 * <p>A Java ByteBuffer does not let anybody write beyond its end; who does is native code, or a process in another
 * language, or Java code that was handed the wrong offset of a larger buffer.
 */
final class Guards {

    private static final long MAGIC = 0x004B434F4C42564BL; // "KVBLOCK" and a zero
    private static final int BLOCK = 8;
    private static final int OWNER = 16;
    private static final int GENERATION = 24;
    private static final int CANARIES = 32;
    private static final int MOST_FOUND_BYTES = 16;

    private final Mapping mapping;
    private final byte[] front;
    private final byte[] tail;

    Guards(Mapping mapping) {
        this.mapping = mapping;
        front = canaries(CANARIES, Layout.GUARD_BYTES);
        int behind = mapping.layout.strideBytes() - Layout.GUARD_BYTES - mapping.layout.blockBytes;
        tail = canaries(0, behind);
    }

    private static byte[] canaries(int from, int to) {
        var canaries = new byte[to - from];
        for (int i = from; i < to; i++) {
            canaries[i - from] = (byte) (0xA5 ^ i);
        }
        return canaries;
    }

    /** Puts the guards of a block there, whatever is there now. */
    void write(int block, long owner, long generation) {
        var stride = mapping.stride(block);
        stride.putLong(0, MAGIC).putLong(BLOCK, block).putLong(OWNER, owner).putLong(GENERATION, generation);
        stride.put(CANARIES, front);
        stride.put(stride.capacity() - tail.length, tail);
    }

    /** Notes whom the block was handed out to. */
    void handOut(int block, long owner, long generation) {
        mapping.stride(block).putLong(OWNER, owner).putLong(GENERATION, generation);
    }

    /** What is not as it should be around these blocks, in front of each or behind it. */
    List<Overrun> overruns(IntStream blocks) {
        var found = new ArrayList<Overrun>();
        blocks.forEach(block -> look(block, found));
        return List.copyOf(found);
    }

    private void look(int block, List<Overrun> found) {
        var stride = mapping.stride(block);
        long owner = stride.getLong(OWNER);
        long generation = stride.getLong(GENERATION);
        // owner and generation change, and there is nothing to compare them with
        var expected = ByteBuffer.allocate(Layout.GUARD_BYTES).order(stride.order());
        expected.putLong(0, MAGIC).putLong(BLOCK, block).putLong(OWNER, owner).putLong(GENERATION, generation);
        expected.put(CANARIES, front);
        compare(stride, 0, expected.array(), -Layout.GUARD_BYTES, block, found);
        compare(stride, stride.capacity() - tail.length, tail, mapping.layout.blockBytes, block, found);
    }

    private static void compare(ByteBuffer stride, int at, byte[] expected, int firstByte, int block,
            List<Overrun> found) {
        var there = new byte[expected.length];
        stride.get(at, there);
        int first = 0;
        while (first < there.length && there[first] == expected[first]) {
            first++;
        }
        if (first == there.length) {
            return;
        }
        int last = there.length - 1;
        while (there[last] == expected[last]) {
            last--;
        }
        var bytes = HexFormat.ofDelimiter(" ")
                .formatHex(there, first, Math.min(last + 1, first + MOST_FOUND_BYTES));
        found.add(new Overrun(block, firstByte + first, last - first + 1, bytes, stride.getLong(OWNER),
                stride.getLong(GENERATION), firstByte >= 0));
    }
}
