package pagedkv.bench;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;

/** On a Netty allocator itself, without anything of this project's around it. */
final class NettyWork extends PairWork {

    private final ByteBufAllocator allocator;
    private final int blockBytes;
    private final ByteBuf[] held;

    NettyWork(ByteBufAllocator allocator, int blockBytes, int batchBlocks) {
        this.allocator = allocator;
        this.blockBytes = blockBytes;
        held = new ByteBuf[batchBlocks];
    }

    @Override
    long batch(long stamp) {
        long sum = 0;
        for (int i = 0; i < held.length; i++) {
            held[i] = allocator.directBuffer(blockBytes, blockBytes);
            held[i].setLongLE(0, stamp + i);
            sum += held[i].getLongLE(0);
        }
        for (ByteBuf buffer : held) {
            buffer.release();
        }
        return sum;
    }
}
