package pagedkv.netty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;

import io.netty.buffer.AbstractByteBufAllocator;
import io.netty.buffer.ByteBuf;
import io.netty.buffer.Unpooled;
import io.netty.util.IllegalReferenceCountException;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import pagedkv.pool.DoubleFreeException;
import pagedkv.pool.EventReplay;
import pagedkv.pool.NotABlockException;
import pagedkv.pool.Pool;
import pagedkv.pool.PoolContract;
import pagedkv.pool.PoolState;
import pagedkv.pool.UseAfterFreeException;

class NettyPoolTest extends PoolContract {

    private static final int BLOCK_BYTES = 256;

    private final List<NettyPool> opened = new ArrayList<>();

    @Override
    protected Pool newPool(int numBlocks) {
        return open(new NettyPool(numBlocks, BLOCK_BYTES));
    }

    @AfterEach
    void closePools() {
        opened.forEach(NettyPool::close);
    }

    @Test
    void theCountIsNettysOwn() {
        var pool = open(new NettyPool(4, BLOCK_BYTES));
        int block = pool.allocate(1)[0];
        pool.retain(block, block);
        assertEquals(3, pool.buffer(block).refCnt());
        pool.buffer(block).release();
        assertEquals(2, pool.refcount(block));
    }

    @Test
    void aBufferHasExactlyTheSizeOfABlock() {
        var pool = open(new NettyPool(4, 100));
        var buffer = pool.buffer(pool.allocate(1)[0]);
        assertEquals(100, buffer.capacity());
        assertEquals(100, buffer.maxCapacity());
    }

    @Test
    void nettysOwnRefusalIsTheCauseOfADoubleFree() {
        var pool = open(new NettyPool(4, BLOCK_BYTES));
        int block = pool.allocate(1)[0];
        var tooOften = assertThrows(DoubleFreeException.class, () -> pool.release(block, block));
        assertNettySays("refCnt: 1, decrement: 2", tooOften);
        pool.release(block);
        var again = assertThrows(DoubleFreeException.class, () -> pool.release(block));
        assertNettySays("refCnt: 0, decrement: 1", again);
    }

    @Test
    void nettysOwnRefusalIsTheCauseOfAUseAfterFree() {
        var pool = open(new NettyPool(4, BLOCK_BYTES));
        int block = pool.allocate(1)[0];
        pool.release(block);
        var error = assertThrows(UseAfterFreeException.class, () -> pool.retain(block, block));
        assertNettySays("refCnt: 0, increment: 2", error);
    }

    private static void assertNettySays(String message, Throwable error) {
        var cause = assertInstanceOf(IllegalReferenceCountException.class, error.getCause());
        assertEquals(message, cause.getMessage());
    }

    @Test
    void onlyALiveBlockHasABuffer() {
        var pool = open(new NettyPool(4, BLOCK_BYTES));
        int block = pool.allocate(1)[0];
        ByteBuf buffer = pool.buffer(block);
        pool.release(block);
        assertEquals(0, buffer.refCnt());
        assertThrows(UseAfterFreeException.class, () -> pool.buffer(block));
        assertThrows(NotABlockException.class, () -> pool.buffer(4));
    }

    @Test
    void aFreedBlockDoesNotCountForTheNextOwnerOfItsByteBuf() throws Exception {
        var pool = open(new NettyPool(2, BLOCK_BYTES));
        assertEquals(Set.of(0), NettyThread.call(() -> countsOfTheFreeBlock(pool)));
    }

    /** Every count that the one free block shows while the other is used again and again. */
    private static Set<Integer> countsOfTheFreeBlock(NettyPool pool) {
        var counts = new HashSet<Integer>();
        for (int round = 0; round < 100; round++) {
            var blocks = pool.allocate(2);
            pool.release(blocks);
            int used = pool.allocate(1)[0];
            counts.add(pool.refcount(1 - used));
            pool.release(used);
        }
        return counts;
    }

    @Test
    void closeReleasesEveryReferenceAndReportsIt() {
        var pool = open(new NettyPool(4, BLOCK_BYTES));
        var log = new EventReplay();
        pool.setObserver(log);
        var blocks = pool.allocate(2);
        pool.retain(blocks[0], blocks[0]);
        ByteBuf buffer = pool.buffer(blocks[0]);
        pool.close();
        pool.close();
        assertEquals(0, buffer.refCnt());
        assertEquals(4, pool.numFreeBlocks());
        assertEquals(3, log.events().size());
        assertEquals(List.of(0, 0, 0, 0), log.refcounts(4));
    }

    @Test
    void memoryThatRunsOutHalfWayLeavesThePoolAsItWas() {
        var made = new ArrayList<ByteBuf>();
        var allocator = new AllocatorOfTwo(made);
        var pool = new NettyPool(4, BLOCK_BYTES, allocator);
        assertThrows(OutOfMemoryError.class, () -> pool.allocate(3));
        assertEquals(new PoolState(4, List.of(0, 0, 0, 0)), PoolState.of(pool));
        assertEquals(List.of(0, 0), made.stream().map(ByteBuf::refCnt).toList());
    }

    @Test
    void aBlockHasAtLeastOneByte() {
        assertThrows(IllegalArgumentException.class, () -> new NettyPool(4, 0));
    }

    private NettyPool open(NettyPool pool) {
        opened.add(pool);
        return pool;
    }

    /** Has memory for two buffers and keeps a list of them. */
    private static final class AllocatorOfTwo extends AbstractByteBufAllocator {

        private final List<ByteBuf> made;

        AllocatorOfTwo(List<ByteBuf> made) {
            this.made = made;
        }

        @Override
        protected ByteBuf newHeapBuffer(int initialCapacity, int maxCapacity) {
            if (made.size() == 2) {
                throw new OutOfMemoryError("no third buffer");
            }
            var buffer = Unpooled.buffer(initialCapacity, maxCapacity);
            made.add(buffer);
            return buffer;
        }

        @Override
        protected ByteBuf newDirectBuffer(int initialCapacity, int maxCapacity) {
            return newHeapBuffer(initialCapacity, maxCapacity);
        }

        @Override
        public boolean isDirectBufferPooled() {
            return false;
        }
    }
}
