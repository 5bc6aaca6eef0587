package pagedkv.concurrent;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteOrder;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import pagedkv.pool.NotABlockException;
import pagedkv.pool.OutOfBlocksException;

class PoolsTest {

    @Test
    void theSmokeTestRunsAllFive() throws InterruptedException {
        var results = PoolSmoke.runAll(2, 30);
        assertEquals(PoolKind.values().length, results.size());
        for (var result : results) {
            assertTrue(result.allBlocksBack(), result.pool());
            assertTrue(result.pairs() > 0, result.pool());
        }
    }

    @Test
    void aPoolCanBeMadeByItsName() {
        for (PoolKind kind : PoolKind.values()) {
            assertEquals(kind, PoolKind.labelled(kind.label()));
            assertEquals(10, kind.make(10).numFreeBlocks());
        }
        var error = assertThrows(IllegalArgumentException.class, () -> PoolKind.labelled("locks"));
        assertEquals("no pool is called locks: there are monitor, sharded, lock-free, cached and netty",
                error.getMessage());
    }

    @Test
    void anAbsurdNumberOfBlocksIsRefusedLikeAnyOther() {
        for (PoolKind kind : PoolKind.values()) {
            var error = assertThrows(OutOfBlocksException.class, () -> kind.make(10).allocate(Integer.MAX_VALUE));
            assertEquals("need 2147483647 blocks, 10 of 10 are free: release some or ask for fewer",
                    error.getMessage());
        }
    }

    @Test
    void aCallTooLargeForOneShardGoesOnToTheNext() {
        var pool = new ShardedPool(12, 3);
        assertEquals(3, pool.numShards());
        var five = pool.allocate(5);
        assertEquals(5, IntStream.of(five).distinct().count());
        pool.release(five[0]);
        assertEquals(8, pool.allocate(8).length);
        assertThrows(OutOfBlocksException.class, () -> pool.allocate(1));
    }

    @Test
    void shardsNeedNotBeEquallyLarge() {
        assertEquals(3, new ShardedPool(10, 3).numShards());
        assertEquals(10, new ShardedPool(10, 64).numShards());
        assertEquals(64, new ShardedPool(1_000_000, 64).numShards());
        assertThrows(IllegalArgumentException.class, () -> new ShardedPool(10, 0));
        assertThrows(IllegalArgumentException.class, () -> new ShardedPool(10, 65));
    }

    @Test
    void eachBlockHasBytesOfItsOwn() {
        var memory = new BlockMemory(4, 16);
        for (int block = 0; block < 4; block++) {
            assertEquals(16, memory.buffer(block).remaining());
            assertEquals(ByteOrder.nativeOrder(), memory.buffer(block).order());
            memory.buffer(block).putLong(0, block).putLong(8, -block);
        }
        for (int block = 0; block < 4; block++) {
            assertEquals(block, memory.buffer(block).getLong(0));
            assertEquals(-block, memory.buffer(block).getLong(8));
        }
        assertThrows(IndexOutOfBoundsException.class, () -> memory.buffer(1).putLong(9, 0));
        assertThrows(NotABlockException.class, () -> memory.buffer(4));
        assertThrows(IllegalArgumentException.class, () -> new BlockMemory(1 << 20, 1 << 12));
    }
}
