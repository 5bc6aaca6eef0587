package pagedkv.netty;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.PooledByteBufAllocator;
import org.junit.jupiter.api.Test;

/** What sharing means in real Netty; nothing of this project takes part. */
class NettySharingTest {

    private final PooledByteBufAllocator allocator = new PooledByteBufAllocator(true);

    @Test
    void n9RetainedDuplicateSharesWithoutCopyOnWrite() {
        var original = allocator.buffer(16, 16).writeLong(1);
        var duplicate = original.retainedDuplicate();
        assertEquals(2, original.refCnt());

        duplicate.setLong(0, 42);
        assertEquals(42, original.getLong(0));
        original.setLong(0, 7);
        assertEquals(7, duplicate.getLong(0));

        duplicate.release();
        original.release();
        assertEquals(0, original.refCnt());
    }

    @Test
    void onNettysOwnThreadsAnOldReferenceMayBeTheNextOwnersBuffer() throws Exception {
        assertTrue(NettyThread.call(this::seesTheNextOwnersCount));
    }

    @Test
    void onAPlainThreadNoByteBufObjectIsUsedAgain() {
        assertFalse(seesTheNextOwnersCount());
    }

    /** Whether a released buffer ever looks alive because its object serves somebody else. */
    private boolean seesTheNextOwnersCount() {
        boolean seen = false;
        for (int round = 0; round < 100; round++) {
            var old = allocator.buffer(16, 16);
            old.release();
            var next = allocator.buffer(16, 16);
            seen |= old.refCnt() > 0;
            next.release();
        }
        return seen;
    }
}
