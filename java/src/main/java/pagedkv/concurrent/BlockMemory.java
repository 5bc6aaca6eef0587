package pagedkv.concurrent;

import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The bytes behind the block ids: one direct buffer, cut into equal parts.
 *
 * <p>It knows nothing of owners and counts: whoever holds block b in a pool may use part b, and nobody else. The pool
 * is what makes one thread's writes visible to the next owner. All methods may be called by several threads.
 */
public final class BlockMemory {

    private final ByteBuffer memory;
    private final int numBlocks;
    private final int blockBytes;

    public BlockMemory(int numBlocks, int blockBytes) {
        if (numBlocks < 1 || blockBytes < 1 || (long) numBlocks * blockBytes > Integer.MAX_VALUE) {
            throw new IllegalArgumentException(
                    "cannot have %d blocks of %d bytes: at least 1 each, and at most 2 GiB - 1 byte together"
                            .formatted(numBlocks, blockBytes));
        }
        this.numBlocks = numBlocks;
        this.blockBytes = blockBytes;
        memory = ByteBuffer.allocateDirect(numBlocks * blockBytes);
    }

    /** A new view of the bytes of one block, from 0 to its size, in the byte order of this machine. */
    public ByteBuffer buffer(int block) {
        Blocks.requireBlock(block, numBlocks);
        return memory.slice(block * blockBytes, blockBytes).order(ByteOrder.nativeOrder());
    }

    public int blockBytes() {
        return blockBytes;
    }

    public int numBlocks() {
        return numBlocks;
    }
}
