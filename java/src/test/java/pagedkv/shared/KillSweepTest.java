package pagedkv.shared;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.function.BiConsumer;
import java.util.function.BiFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import pagedkv.pool.OutOfBlocksException;
import pagedkv.pool.PoolException;
import pagedkv.pool.UseAfterFreeException;

/**
 * A member dies before each single write of each operation.
 *
 * <p>In this JVM, since a real kill takes a new one each time: at the n-th write an error is thrown, and at every write
 * after it, so that nothing is tidied up; then the slot's byte is unlocked, as the kernel would do. What is left in
 * shared memory is what a kill leaves. (Real kills, at random moments, are for the crash test.)
 */
class KillSweepTest {

    private static final int NUM_BLOCKS = 80; // two numbers of hints, the second not whole
    private static final int MOST_STEPS = 1000;
    private static final int[] TOKENS = IntStream.range(0, 12).toArray(); // three blocks of four

    @RegisterExtension
    final PoolName pools = new PoolName();

    private static final class Killed extends Error {
        private static final long serialVersionUID = 1L;
    }

    private static Arguments operation(String name, int leastKills, int cacheBlocks,
            BiFunction<SharedPool, SharedPool, int[]> prepare, BiConsumer<SharedPool, int[]> act) {
        return Arguments.of(name, leastKills, cacheBlocks, prepare, act);
    }

    static List<Arguments> operations() {
        BiFunction<SharedPool, SharedPool, int[]> nothing = (survivor, dying) -> new int[0];
        BiFunction<SharedPool, SharedPool, int[]> three = (survivor, dying) -> dying.allocate(3);
        return List.of(
                // one hint; of each block a count and a word
                operation("allocate", 7, 0, nothing, (dying, blocks) -> dying.allocate(3)),
                operation("allocate from the cache", 6, 3, (survivor, dying) -> {
                    dying.release(dying.allocate(3));
                    return new int[0];
                }, (dying, blocks) -> dying.allocate(3)),
                operation("allocate, refused", 100, 0, nothing, (dying, blocks) ->
                        refused(OutOfBlocksException.class, () -> dying.allocate(NUM_BLOCKS - 1))),
                operation("retain", 8, 0, KillSweepTest::theirs, (dying, blocks) -> {
                    dying.retain(blocks);
                    dying.retain(blocks[0], blocks[1]);
                }),
                operation("retain, refused", 6, 0, KillSweepTest::theirs, (dying, blocks) -> {
                    var oneTooMany = Arrays.copyOf(blocks, 4);
                    oneTooMany[3] = IntStream.range(0, NUM_BLOCKS)
                            .filter(block -> dying.refcount(block) == 0).findFirst().orElseThrow();
                    refused(UseAfterFreeException.class, () -> dying.retain(oneTooMany));
                }),
                operation("release", 9, 0, three, (dying, blocks) -> dying.release(blocks)),
                operation("release into the cache", 6, 3, three, (dying, blocks) -> dying.release(blocks)),
                operation("release of shared blocks", 7, 0, (survivor, dying) -> {
                    var blocks = theirs(survivor, dying);
                    dying.retain(blocks);
                    dying.retain(blocks[0]);
                    return blocks;
                }, (dying, blocks) -> dying.release(blocks[0], blocks[1], blocks[2], blocks[0])),
                // of each block a number for its node, a record of eleven numbers, a word and a bucket
                operation("publish", 42, 0, three, (dying, blocks) ->
                        assertEquals(3, dying.publish(TOKENS, blocks))),
                operation("unpublish", 3, 0, (survivor, dying) -> {
                    var blocks = dying.allocate(3);
                    dying.publish(TOKENS, blocks);
                    return blocks;
                }, (dying, blocks) -> dying.unpublish(blocks)),
                operation("reuse", 6, 0, (survivor, dying) -> {
                    survivor.publish(TOKENS, theirs(survivor, dying));
                    return new int[0];
                }, (dying, blocks) -> assertEquals(3, dying.reuse(TOKENS).length)),
                operation("reuse of free blocks", 6, 0, (survivor, dying) -> {
                    var blocks = survivor.allocate(3);
                    survivor.publish(TOKENS, blocks);
                    survivor.release(blocks);
                    return new int[0];
                }, (dying, blocks) -> assertEquals(3, dying.reuse(TOKENS).length)),
                operation("close", 10, 0, three, (dying, blocks) -> dying.close()));
    }

    /** Not by assertThrows, which would take a death for the wrong exception. */
    private static void refused(Class<? extends PoolException> type, Runnable call) {
        try {
            call.run();
        } catch (PoolException refusal) {
            assertEquals(type, refusal.getClass());
            return;
        }
        throw new AssertionError("not refused");
    }

    private static int[] theirs(SharedPool survivor, SharedPool dying) {
        return IntStream.range(0, NUM_BLOCKS).filter(block -> dying.refcount(block) > 0).toArray();
    }

    @ParameterizedTest(name = "{0}")
    @MethodSource("operations")
    void diesBeforeEachWrite(String name, int leastKills, int cacheBlocks,
            BiFunction<SharedPool, SharedPool, int[]> prepare, BiConsumer<SharedPool, int[]> act) {
        for (int steps = 0; steps < MOST_STEPS; steps++) {
            var survivor = pools.create(NUM_BLOCKS, 64, PoolOptions.DEFAULT.withTokensPerBlock(4));
            var held = survivor.allocate(3);
            var atomics = new SteppedAtomics(KillSweepTest::die);
            var dying = SharedPool.join(survivor.name(), PoolOptions.DEFAULT.withCacheBlocks(cacheBlocks), atomics);
            var blocks = prepare.apply(survivor, dying);
            atomics.arm(steps);
            boolean died = dies(() -> act.accept(dying, blocks));
            atomics.disarm();
            if (!died) {
                assertTrue(steps >= leastKills, name + " had only " + steps + " writes");
                dying.close();
                survivor.unlink();
                return;
            }
            dropLock(survivor.name(), dying.slot());
            check(survivor, held, name + ", before write " + steps, steps % 2 == 1);
            survivor.close();
            survivor.unlink();
        }
        throw new AssertionError(name + " has no end");
    }

    private static void die() {
        throw new Killed();
    }

    private static boolean dies(Runnable act) {
        try {
            act.run();
            return false;
        } catch (Killed killed) {
            return true;
        }
    }

    /** What the kernel does when a process ends. */
    private static void dropLock(String name, int slot) {
        PoolFiles.SHARED_MEMORY.open(name).locks().unlock(slot);
    }

    /**
     * Only holders have counts: whoever gets the slot next must not find a dead member's there. Nothing is in the cache
     * of nobody, and every free block has its hint.
     */
    private static void requireSoundState(String name, String when) {
        var mapping = PoolFiles.SHARED_MEMORY.open(name).mapping();
        for (int block = 0; block < NUM_BLOCKS; block++) {
            long word = mapping.words.getLong(8 * block);
            var where = when + ": block " + block;
            for (int slot = 0; slot < Layout.NUM_SLOTS; slot++) {
                assertEquals((word >>> slot & 1) != 0, mapping.counts[slot].getInt(4 * block) != 0, where);
            }
            assertEquals(0, word & Layout.CACHED, where);
            var hints = (word & Layout.CONTENT) != 0 ? mapping.contentHints : mapping.emptyHints;
            boolean hinted = (hints.getLong(block / 64 * 8) >>> block % 64 & 1) != 0;
            assertTrue((word & Layout.HOLDERS) != 0 || hinted, where + " has no hint");
        }
    }

    private void check(SharedPool survivor, int[] held, String when, boolean byJoin) {
        var expected = new int[NUM_BLOCKS];
        IntStream.of(held).forEach(block -> expected[block] = 1);
        // the survivor goes on, with the dead one still in the table
        survivor.release(survivor.allocate(Math.min(2, survivor.numFreeBlocks())));
        if (byJoin) {
            // whoever joins gets the dead one's slot, reaped; no hint is healed, but every block can be had
            try (var other = SharedPool.join(survivor.name())) {
                assertEquals(1, other.slot(), when);
                assertArrayEquals(expected, other.refcounts(), when);
                other.release(other.allocate(NUM_BLOCKS - held.length));
            }
        }
        var report = survivor.reap();
        assertTrue(!byJoin || report.dead().isEmpty(), when);
        assertArrayEquals(expected, survivor.refcounts(), when);
        requireSoundState(survivor.name(), when);
        // whatever is known already, and whatever the dead one left unfinished
        var published = survivor.allocate(3);
        survivor.publish(TOKENS, published);
        assertEquals(3, survivor.find(TOKENS).length, when);
        survivor.release(published);
        var rest = survivor.allocate(NUM_BLOCKS - held.length);
        assertEquals(NUM_BLOCKS, IntStream.concat(IntStream.of(rest), IntStream.of(held)).distinct().count(), when);
        survivor.release(rest);
        survivor.release(held);
        assertEquals(NUM_BLOCKS, survivor.numFreeBlocks(), when);
        assertEquals(new ReapReport(List.of(), 0), survivor.reap(), when);
    }
}
