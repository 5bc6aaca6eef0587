package pagedkv.netty;

import io.netty.buffer.ByteBuf;
import io.netty.buffer.ByteBufAllocator;
import io.netty.buffer.PooledByteBufAllocator;
import io.netty.buffer.Unpooled;
import io.netty.util.IllegalReferenceCountException;
import java.util.ArrayDeque;
import java.util.Arrays;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.stream.IntStream;
import pagedkv.pool.DoubleFreeException;
import pagedkv.pool.ObservedPool;
import pagedkv.pool.UseAfterFreeException;

/**
 * The pool contract kept by real Netty: a block is one {@link ByteBuf}.
 *
 * <p>The pool counts nothing itself: {@code refcount} is the buffer's {@code refCnt()}, and retain
 * and release are the buffer's. It adds what a single buffer cannot know: a call on many blocks is
 * all or nothing. When it refuses, it lets Netty refuse first; Netty's own
 * {@link IllegalReferenceCountException} is the cause of the exception thrown.
 *
 * <p>Each free block holds the same <em>dead</em> buffer, one that was released long ago. The last
 * release of a block must drop the reference to its buffer at once: on Netty's own threads
 * ({@code FastThreadLocalThread}) the {@code ByteBuf} objects are used again too, so an old
 * reference would show the count of the next owner.
 *
 * <p>One monitor guards everything. Closing the pool releases every reference that is left.
 */
public final class NettyPool extends ObservedPool implements AutoCloseable {

    private final ByteBufAllocator allocator;
    private final int blockBytes;
    private final ByteBuf dead = releasedBuffer();
    private final ByteBuf[] buffers;
    private final Deque<Integer> freeIds = new ArrayDeque<>();

    /** A pool on a Netty allocator of its own; direct memory where Netty prefers it. */
    public NettyPool(int numBlocks, int blockBytes) {
        this(numBlocks, blockBytes, new PooledByteBufAllocator(true));
    }

    public NettyPool(int numBlocks, int blockBytes, ByteBufAllocator allocator) {
        this.allocator = allocator;
        this.blockBytes = requireAtLeastOne("blockBytes", blockBytes);
        buffers = new ByteBuf[requireAtLeastOne("numBlocks", numBlocks)];
        Arrays.fill(buffers, dead);
        for (int block = 0; block < numBlocks; block++) {
            freeIds.add(block);
        }
    }

    @Override
    protected int[] take(int n) {
        requireFree(n);
        var fresh = newBuffers(n);
        var blocks = new int[n];
        for (int i = 0; i < n; i++) {
            blocks[i] = freeIds.pop();
            buffers[blocks[i]] = fresh[i];
        }
        return blocks;
    }

    /** Netty may run out of memory half-way; then the buffers made so far go back. */
    private ByteBuf[] newBuffers(int n) {
        var fresh = new ByteBuf[n];
        int made = 0;
        try {
            while (made < n) {
                fresh[made] = allocator.buffer(blockBytes, blockBytes);
                made++;
            }
            return fresh;
        } catch (OutOfMemoryError outOfMemory) {
            for (int i = 0; i < made; i++) {
                fresh[i].release();
            }
            throw outOfMemory;
        }
    }

    @Override
    protected void addReferences(int[] blocks) {
        requireBlocks(blocks);
        var times = timesPerBlock(blocks);
        times.forEach((block, n) -> {
            if (buffers[block].refCnt() == 0) {
                throw UseAfterFreeException.of(block, refusalOf(() -> buffers[block].retain(n)));
            }
        });
        times.forEach((block, n) -> buffers[block].retain(n));
    }

    @Override
    protected void dropReferences(int[] blocks) {
        requireBlocks(blocks);
        var times = timesPerBlock(blocks);
        times.forEach((block, n) -> {
            int refCnt = buffers[block].refCnt();
            if (refCnt < n) {
                throw DoubleFreeException.of(block, refCnt, n, refusalOf(() -> buffers[block].release(n)));
            }
        });
        times.forEach(this::drop);
    }

    private void drop(int block, int times) {
        if (buffers[block].release(times)) {
            buffers[block] = dead;
            freeIds.push(block);
        }
    }

    /** The exception with which Netty refuses a call that cannot succeed. */
    private static IllegalReferenceCountException refusalOf(Runnable call) {
        try {
            call.run();
        } catch (IllegalReferenceCountException refusal) {
            return refusal;
        }
        throw new AssertionError("Netty accepted a call that its own refCnt() forbids");
    }

    private static Map<Integer, Integer> timesPerBlock(int[] blocks) {
        var times = new LinkedHashMap<Integer, Integer>();
        for (int block : blocks) {
            times.merge(block, 1, Integer::sum);
        }
        return times;
    }

    /**
     * The live buffer of a block. It is lent: the caller reads and writes it, but retains and
     * releases the block through the pool.
     *
     * @throws UseAfterFreeException if the block is free
     */
    public synchronized ByteBuf buffer(int block) {
        requireBlock(block);
        if (buffers[block].refCnt() == 0) {
            throw UseAfterFreeException.of(block, null);
        }
        return buffers[block];
    }

    @Override
    public synchronized int refcount(int block) {
        requireBlock(block);
        return buffers[block].refCnt();
    }

    @Override
    public synchronized int numFreeBlocks() {
        return freeIds.size();
    }

    @Override
    public int numBlocks() {
        return buffers.length;
    }

    /** One last release of every reference that is left, seen by the observer like any other. */
    @Override
    public synchronized void close() {
        var left = IntStream.range(0, buffers.length)
                .flatMap(block -> IntStream.generate(() -> block).limit(buffers[block].refCnt()))
                .toArray();
        if (left.length > 0) {
            release(left, null);
        }
    }

    private static ByteBuf releasedBuffer() {
        var buffer = Unpooled.buffer(1);
        buffer.release();
        return buffer;
    }
}
