package pagedkv.shared;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.channels.FileChannel;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Random;
import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.api.function.Executable;
import pagedkv.pool.DoubleFreeException;
import pagedkv.pool.EventReplay;
import pagedkv.pool.OutOfBlocksException;
import pagedkv.pool.UseAfterFreeException;

/** Several members of one pool, all in this JVM. */
class SharedPoolTest {

    @RegisterExtension
    final PoolName pools = new PoolName();

    private SharedPool join(SharedPool pool) {
        return pools.closedLater(SharedPool.join(pool.name()));
    }

    @Test
    void twoMembersSeeTheSamePool() {
        var pool = pools.create(10, 100);
        var other = join(pool);
        assertEquals(List.of(10, 100, 1), List.of(other.numBlocks(), other.blockBytes(), other.slot()));
        var blocks = pool.allocate(4);
        assertEquals(6, other.numFreeBlocks());
        assertArrayEquals(pool.refcounts(), other.refcounts());
        other.retain(blocks[0]);
        pool.buffer(blocks[0]).put(0, "hello".getBytes());
        assertEquals('o', other.buffer(blocks[0]).get(4));
        assertArrayEquals(new int[] {0, 1}, pool.holders(blocks[0]));
        assertEquals(2, pool.refcount(blocks[0]));
        var rest = other.allocate(6);
        assertTrue(IntStream.of(rest).noneMatch(block -> IntStream.of(blocks).anyMatch(mine -> mine == block)));
        assertEquals("slot 1: process %d (Java)".formatted(ProcessHandle.current().pid()),
                pool.members().get(1).toString());
    }

    @Test
    void onlyWhoTookAReferenceCanReleaseIt() {
        var pool = pools.create(8, 64);
        var other = join(pool);
        int block = pool.allocate(1)[0];
        var error = assertThrows(DoubleFreeException.class, () -> other.release(block));
        assertEquals("block %d has no reference of this member (but 1 of others, who alone can release them): release "
                .formatted(block) + "each reference only once", error.getMessage());
        other.retain(block);
        error = assertThrows(DoubleFreeException.class, () -> other.release(block, block));
        assertTrue(error.getMessage().contains("has 1 references of this member but stands 2 times"));
        pool.release(block);
        assertEquals(1, other.refcount(block));
        assertThrows(UseAfterFreeException.class, () -> pool.buffer(block));
        other.release(block);
        assertEquals(8, pool.numFreeBlocks());
    }

    @Test
    void aGenerationTellsOneHandingOutFromTheNext() {
        var pool = pools.create(1, 64);
        var other = join(pool);
        pool.allocate(1);
        assertEquals(1, pool.generation(0));
        var log = new EventReplay();
        other.setObserver(log);
        other.retain(new int[] {0, 0}, new int[] {1, 1}, "A");
        other.release(0, 0);
        pool.release(0);
        pool.allocate(1);
        var error = assertThrows(UseAfterFreeException.class,
                () -> other.retain(new int[] {0}, new int[] {1}, "A"));
        assertEquals("block 0 has been handed out again: its generation is 2, asked for was 1", error.getMessage());
        assertEquals(List.of("retain", "release", "retain"), log.events().stream().map(event -> event.op()).toList());
        assertEquals("UseAfterFree", log.events().get(2).detail().get("error"));
        assertEquals("A", log.events().get(0).owner());
        assertThrows(IllegalArgumentException.class, () -> other.retain(new int[] {0}, new int[0], null));
        other.retain(0); // any generation, after a call that asked for one
        assertEquals(2, pool.refcount(0));
    }

    @Test
    void generationsComeRound() {
        var pool = pools.create(1, 64);
        for (int i = 0; i < 16_384; i++) {
            pool.release(pool.allocate(1));
        }
        assertEquals(0, pool.generation(0));
        pool.allocate(1);
        assertEquals(1, pool.generation(0));
    }

    @Test
    void aBufferIsTheBlockItself() {
        var pool = pools.create(3, 100);
        var other = join(pool);
        var blocks = pool.allocate(3);
        other.retain(blocks);
        for (int block : blocks) {
            var buffer = pool.buffer(block);
            assertTrue(buffer.isDirect() && !buffer.isReadOnly() && buffer.order() == ByteOrder.LITTLE_ENDIAN);
            assertEquals(100, buffer.remaining());
            IntStream.range(0, 100).forEach(i -> buffer.put(i, (byte) (block + i)));
        }
        for (int block : blocks) {
            var seen = other.buffer(block);
            assertTrue(IntStream.range(0, 100).allMatch(i -> seen.get(i) == (byte) (block + i)));
        }
    }

    @Test
    void aCacheIsForItsMemberAlone() {
        var pool = pools.create(4, 64, PoolOptions.DEFAULT.withCacheBlocks(2));
        var other = join(pool);
        pool.release(pool.allocate(4));
        assertEquals(4, pool.numFreeBlocks());
        assertEquals(2, other.numFreeBlocks());
        assertThrows(OutOfBlocksException.class, () -> other.allocate(3));
        for (int block = 0; block < 4; block++) {
            assertEquals(0, other.refcount(block));
            assertEquals(0, other.holders(block).length);
            int free = block;
            assertThrows(UseAfterFreeException.class, () -> other.retain(free));
        }
        other.release(other.allocate(2));
        assertEquals(4, pool.allocate(4).length);
    }

    @Test
    void closingGivesEverythingBack() {
        var pool = pools.create(8, 64);
        var other = SharedPool.join(pool.name(), PoolOptions.DEFAULT.withCacheBlocks(2));
        var blocks = other.allocate(5);
        pool.retain(blocks[0]);
        other.retain(blocks[0], blocks[1]);
        other.release(blocks[3], blocks[4]);
        var buffer = other.buffer(blocks[0]);
        other.close();
        assertEquals(7, pool.numFreeBlocks());
        assertEquals(1, pool.refcount(blocks[0]));
        assertEquals(1, pool.members().size());
        assertEquals(0, pool.numReaps());
        other.close();
        List<Executable> calls = List.of(() -> other.allocate(1), other::numFreeBlocks, () -> other.retain(0),
                other::refcounts, () -> other.release(0), () -> other.refcount(0), () -> other.buffer(0), other::reap,
                other::members, () -> other.holders(0), () -> other.generation(0), other::verify,
                () -> other.repair(0), other::numReaps);
        for (Executable call : calls) {
            assertThrows(PoolClosedException.class, call);
        }
        assertTrue(other.toString().contains("closed"));
        buffer.putInt(0, 7); // still mapped
        assertEquals(7, pool.buffer(blocks[0]).getInt(0));
    }

    @Test
    void membersOfOneProcessDoNotReapEachOther() {
        var pool = pools.create(8, 64);
        var other = join(pool);
        other.allocate(4);
        assertEquals(List.of(), pool.reap().dead());
        assertEquals(List.of(), other.reap().dead());
        assertTrue(pool.members().stream().allMatch(Member::alive));
    }

    @Test
    void the49thMemberIsRefused() {
        var pool = pools.create(60, 64);
        var others = IntStream.range(0, 47).mapToObj(i -> join(pool)).toList();
        assertEquals(47, others.get(46).slot());
        var error = assertThrows(NoFreeSlotException.class,
                () -> SharedPool.join(pool.name(), PoolOptions.DEFAULT.withWaitSeconds(0.02)));
        assertTrue(error.getMessage().contains("48 members already"));
        assertEquals(48, error.getMessage().split("\\(Java\\)", -1).length - 1);
        others.get(20).close();
        assertEquals(others.get(20).slot(), join(pool).slot());
    }

    @Test
    void unlinkLetsMembersGoOn() {
        var pool = pools.create(8, 64);
        var other = join(pool);
        pool.unlink();
        assertEquals(List.of(), PoolName.leftOver(pool.name()));
        other.retain(pool.allocate(3));
        assertThrows(NoSuchPoolException.class, () -> SharedPool.join(pool.name()));
        pools.closedLater(SharedPool.create(pool.name(), 5, 64));
        other.unlink(); // the name is another pool's by now
        assertEquals(5, join(pool).numBlocks());
        assertFalse(SharedPool.remove("test-java-nobody"));
    }

    @Test
    void replacingLeavesTheOldMembersAlone() {
        var pool = pools.create(8, 64);
        pool.allocate(8);
        var error = assertThrows(PoolExistsException.class, () -> SharedPool.create(pool.name(), 3, 64));
        assertTrue(error.getMessage().contains("join it; or"));
        var replaced = SharedPool.create(pool.name(), 3, 64, PoolOptions.DEFAULT.withReplace());
        pools.closedLater(replaced).allocate(3);
        assertEquals(0, pool.numFreeBlocks());
        assertEquals(3, join(pool).numBlocks());
    }

    @Test
    void guardsFindWhatWasWrittenBeyondABlock() {
        var pool = pools.create(4, 100, PoolOptions.DEFAULT.withGuard());
        var other = join(pool);
        int block = other.allocate(2)[1];
        assertEquals(List.of(), pool.verify());
        var stride = strideOf(other, block);
        stride.put(64 + 102, "xyz".getBytes());
        var error = assertThrows(BlockOverrunException.class, () -> other.release(block));
        var overrun = new Overrun(block, 102, 3, "78 79 7a", 1, 1, true);
        assertEquals(List.of(overrun), error.overruns());
        assertTrue(error.getMessage().startsWith(
                "block %d, last handed out to slot 1 (generation 1): byte 102 of it, behind its end".formatted(block)));
        assertEquals(1, other.refcount(block));
        stride.put(63, (byte) 0);
        assertEquals(List.of(new Overrun(block, -1, 1, "00", 1, 1, false), overrun), pool.verify());
        other.repair(block);
        assertEquals(List.of(), pool.verify());
        other.release(block);
        pool.buffer(pool.allocate(1)[0]).put(0, new byte[100]); // all of a block, and not more
        assertEquals(List.of(), pool.verify());
        strideOf(pool, 3).putLong(16, 99);
        assertEquals(List.of(), pool.verify()); // whom it was handed out to is not guarded
    }

    /** All bytes of a block and its guards, as somebody with a wild pointer reaches them. */
    private static ByteBuffer strideOf(SharedPool pool, int block) {
        try (var channel = FileChannel.open(PoolName.file(pool.name()),
                StandardOpenOption.READ, StandardOpenOption.WRITE)) {
            var layout = new Layout(pool.numBlocks(), pool.blockBytes(), true, 0, 1);
            return new Mapping(channel, layout, Mapping.PIECE_BYTES).stride(block);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    @Test
    void threadsWithAMemberEachShareTheBlocks() throws InterruptedException {
        int numBlocks = 90;
        var pool = pools.create(numBlocks, 64);
        var owners = new AtomicIntegerArray(numBlocks);
        var failures = Collections.synchronizedList(new ArrayList<Throwable>());
        var threads = IntStream.rangeClosed(1, 4).mapToObj(number -> new Thread(() -> {
            try (var member = SharedPool.join(pool.name(), PoolOptions.DEFAULT.withCacheBlocks(number % 2 * 4))) {
                takeAndGiveBack(member, number, owners);
            } catch (Throwable failure) {
                failures.add(failure);
            }
        })).toList();
        threads.forEach(Thread::start);
        for (Thread thread : threads) {
            thread.join();
        }
        assertEquals(List.of(), failures);
        assertEquals(numBlocks, pool.numFreeBlocks());
        assertEquals(0, pool.reap().numHealedHints());
    }

    private static void takeAndGiveBack(SharedPool member, int number,
            AtomicIntegerArray owners) {
        var random = new Random(number);
        var held = new ArrayList<Integer>();
        for (int round = 0; round < 20_000; round++) {
            if (random.nextBoolean()) {
                try {
                    for (int block : member.allocate(1 + random.nextInt(12))) {
                        assertEquals(0, owners.getAndSet(block, number), "somebody has block " + block);
                        held.add(block);
                    }
                } catch (OutOfBlocksException full) {
                    continue;
                }
            } else if (!held.isEmpty()) {
                Collections.shuffle(held, random);
                var part = held.subList(0, Math.min(held.size(), 1 + random.nextInt(12)));
                var blocks = part.stream().mapToInt(Integer::intValue).toArray();
                part.clear();
                for (int block : blocks) {
                    assertEquals(number, owners.getAndSet(block, 0), "somebody else has block " + block);
                }
                member.release(blocks);
            }
        }
        var rest = held.stream().mapToInt(Integer::intValue).toArray();
        IntStream.of(rest).forEach(block -> owners.set(block, 0));
        member.release(rest);
    }

    @Test
    void idsAreNewEachTime() {
        var first = pools.create(4, 64);
        assertNotEquals(PoolName.leftOver(first.name()), PoolName.leftOver(pools.create(4, 64).name()));
    }
}
