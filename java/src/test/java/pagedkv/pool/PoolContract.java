package pagedkv.pool;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.function.Function;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/** The rules of {@link Pool}, one test each; a subclass says which pool has to keep them. */
public abstract class PoolContract {

    private static final int NUM_BLOCKS = 8;
    private static final int NUM_RANDOM_OPERATIONS = 20_000;

    protected abstract Pool newPool(int numBlocks);

    private Pool pool;

    @BeforeEach
    void makePool() {
        pool = newPool(NUM_BLOCKS);
    }

    // sizes

    @Test
    void aNewPoolIsFree() {
        assertEquals(NUM_BLOCKS, pool.numBlocks());
        assertEquals(new PoolState(NUM_BLOCKS, List.of(0, 0, 0, 0, 0, 0, 0, 0)), PoolState.of(pool));
    }

    @Test
    void aPoolHasAtLeastOneBlock() {
        assertThrows(IllegalArgumentException.class, () -> newPool(0));
        assertThrows(IllegalArgumentException.class, () -> newPool(-1));
    }

    // allocate

    @Test
    void allocateGivesDistinctBlocksWithRefcountOne() {
        var blocks = pool.allocate(5, "A");
        assertEquals(5, IntStream.of(blocks).distinct().count());
        for (int block : blocks) {
            assertEquals(1, pool.refcount(block));
        }
        assertEquals(3, pool.numFreeBlocks());
    }

    @Test
    void everyBlockCanBeAllocatedOnce() {
        var blocks = pool.allocate(NUM_BLOCKS);
        Arrays.sort(blocks);
        assertArrayEquals(IntStream.range(0, NUM_BLOCKS).toArray(), blocks);
        assertEquals(0, pool.numFreeBlocks());
    }

    @Test
    void allocateZeroGivesAnEmptyArray() {
        assertEquals(0, pool.allocate(0).length);
        pool.allocate(NUM_BLOCKS);
        assertEquals(0, pool.allocate(0).length);
    }

    @Test
    void allocateRefusesANegativeNumber() {
        var error = assertThrows(IllegalArgumentException.class, () -> pool.allocate(-1));
        assertEquals("cannot allocate -1 blocks: ask for 0 or more", error.getMessage());
    }

    @Test
    void allocateRefusesMoreThanIsFree() {
        pool.allocate(5);
        var error = refused(OutOfBlocksException.class, () -> pool.allocate(4));
        assertEquals("need 4 blocks, 3 of 8 are free: release some or ask for fewer", error.getMessage());
    }

    // retain

    @Test
    void retainAddsOnePerOccurrence() {
        int block = pool.allocate(1)[0];
        pool.retain(block);
        assertEquals(2, pool.refcount(block));
        pool.retain(block, block);
        assertEquals(4, pool.refcount(block));
        assertEquals(NUM_BLOCKS - 1, pool.numFreeBlocks());
    }

    @Test
    void retainRefusesABlockNeverAllocated() {
        var error = refused(UseAfterFreeException.class, () -> pool.retain(3));
        assertEquals(
                "block 3 is free (refcount 0): use it before its last release, or allocate again",
                error.getMessage());
    }

    @Test
    void retainRefusesAReleasedBlock() {
        int block = pool.allocate(1)[0];
        pool.release(block);
        refused(UseAfterFreeException.class, () -> pool.retain(block));
    }

    @Test
    void retainIsAllOrNothing() {
        var held = pool.allocate(2);
        int free = freeBlock();
        refused(UseAfterFreeException.class, () -> pool.retain(held[0], held[1], free));
        refused(UseAfterFreeException.class, () -> pool.retain(free, held[0]));
        refused(NotABlockException.class, () -> pool.retain(held[0], NUM_BLOCKS));
    }

    // release

    @Test
    void releaseDropsOneReference() {
        int block = pool.allocate(1)[0];
        pool.retain(block);
        pool.release(block);
        assertEquals(1, pool.refcount(block));
        assertEquals(NUM_BLOCKS - 1, pool.numFreeBlocks());
    }

    @Test
    void theLastReleaseFreesTheBlock() {
        var blocks = pool.allocate(NUM_BLOCKS);
        pool.release(blocks[2]);
        assertEquals(0, pool.refcount(blocks[2]));
        assertEquals(1, pool.numFreeBlocks());
        assertArrayEquals(new int[] {blocks[2]}, pool.allocate(1));
    }

    @Test
    void releaseMayNameABlockAsOftenAsItHasReferences() {
        var blocks = pool.allocate(2);
        pool.retain(blocks[0], blocks[0]);
        pool.release(blocks[0], blocks[1], blocks[0]);
        assertEquals(1, pool.refcount(blocks[0]));
        pool.retain(blocks[0]);
        pool.release(blocks[0], blocks[0]);
        assertEquals(NUM_BLOCKS, pool.numFreeBlocks());
        assertEquals(NUM_BLOCKS, IntStream.of(pool.allocate(NUM_BLOCKS)).distinct().count());
    }

    @Test
    void releaseRefusesABlockNeverAllocated() {
        refused(DoubleFreeException.class, () -> pool.release(3));
    }

    @Test
    void releaseRefusesAReleasedBlock() {
        int block = pool.allocate(1)[0];
        pool.release(block);
        var error = refused(DoubleFreeException.class, () -> pool.release(block));
        assertEquals(
                "block %d is already free (refcount 0): release each reference only once".formatted(block),
                error.getMessage());
    }

    @Test
    void releaseRefusesABlockNamedMoreOftenThanItHasReferences() {
        int block = pool.allocate(1)[0];
        pool.retain(block);
        var error = refused(DoubleFreeException.class, () -> pool.release(block, block, block));
        assertEquals(
                "block %d has refcount 2 but stands 3 times in this release: release each reference only once"
                        .formatted(block),
                error.getMessage());
    }

    @Test
    void releaseIsAllOrNothing() {
        var held = pool.allocate(2);
        int free = freeBlock();
        refused(DoubleFreeException.class, () -> pool.release(held[0], held[1], free));
        refused(DoubleFreeException.class, () -> pool.release(held[0], held[1], held[0]));
        refused(NotABlockException.class, () -> pool.release(held[0], -1));
    }

    // arguments

    @Test
    void anIdOutsideThePoolIsNotABlock() {
        for (int id : new int[] {-1, NUM_BLOCKS, Integer.MIN_VALUE, Integer.MAX_VALUE}) {
            refused(NotABlockException.class, () -> pool.refcount(id));
            refused(NotABlockException.class, () -> pool.retain(id));
            var error = refused(NotABlockException.class, () -> pool.release(id));
            assertEquals(id + " is not a block of this pool: its ids go from 0 to 7", error.getMessage());
        }
    }

    @Test
    void anEmptyArrayChangesNothing() {
        pool.allocate(2);
        var before = PoolState.of(pool);
        pool.retain();
        pool.release();
        assertEquals(before, PoolState.of(pool));
    }

    @Test
    void aMissingArrayIsRefusedWithAReason() {
        var onRetain = refused(NullPointerException.class, () -> pool.retain(null, "A"));
        assertEquals("retain needs an array of blocks (an empty one is fine), not null", onRetain.getMessage());
        var onRelease = refused(NullPointerException.class, () -> pool.release((int[]) null));
        assertEquals("release needs an array of blocks (an empty one is fine), not null", onRelease.getMessage());
    }

    @Test
    void theCallersArrayIsNotKept() {
        var blocks = pool.allocate(2);
        int block = blocks[0];
        blocks[0] = 99;
        assertEquals(1, pool.refcount(block));
        pool.release(block);
        assertEquals(0, pool.refcount(block));
    }

    // events

    @Test
    void everyCallIsOneEventWithItsStep() {
        var log = observe();
        var blocks = pool.allocate(2, "A");
        pool.retain(blocks, "B");
        pool.release(blocks, "A");
        pool.allocate(0, null);

        var events = log.events();
        assertEquals(List.of("allocate", "retain", "release", "allocate"), list(events, PoolEvent::op));
        assertEquals(List.of(0L, 1L, 2L, 3L), list(events, PoolEvent::step));
        assertEquals("A", events.get(0).owner());
        assertEquals("B", events.get(1).owner());
        assertNull(events.get(3).owner());
        for (PoolEvent event : events.subList(0, 3)) {
            assertArrayEquals(blocks, event.blocks());
            assertEquals(Map.of(), event.detail());
        }
        assertEquals(0, events.get(3).blocks().length);
    }

    @Test
    void anEventComesAfterTheChange() {
        var refcounts = new int[1];
        pool.setObserver(event -> refcounts[0] = pool.refcount(event.blocks()[0]));
        int block = pool.allocate(1)[0];
        assertEquals(1, refcounts[0]);
        pool.retain(block);
        assertEquals(2, refcounts[0]);
    }

    @Test
    void anEventKeepsItsOwnCopyOfTheBlocks() {
        var log = observe();
        var blocks = pool.allocate(2);
        var kept = blocks.clone();
        pool.retain(blocks);
        Arrays.fill(blocks, 99);
        assertArrayEquals(kept, log.events().get(0).blocks());
        assertArrayEquals(kept, log.events().get(1).blocks());
    }

    @Test
    void aRefusedAllocateIsAnEventWithoutBlocks() {
        var log = observe();
        assertThrows(OutOfBlocksException.class, () -> pool.allocate(9, "A"));
        var event = log.only();
        assertEquals("allocate", event.op());
        assertEquals("A", event.owner());
        assertEquals(0, event.blocks().length);
        assertEquals(
                Map.of(
                        "error", "OutOfBlocks",
                        "message", "need 9 blocks, 8 of 8 are free: release some or ask for fewer",
                        "requested_blocks", 9),
                event.detail());
    }

    @Test
    void aRefusedRetainOrReleaseIsAnEventWithTheBlocksAskedFor() {
        expectRefusalEvent("retain", "UseAfterFree", 3, () -> pool.retain(new int[] {3}, "B"));
        expectRefusalEvent("release", "DoubleFree", 3, () -> pool.release(new int[] {3}, "B"));
        expectRefusalEvent("retain", "NotABlock", -1, () -> pool.retain(new int[] {-1}, "B"));
        expectRefusalEvent("release", "NotABlock", 8, () -> pool.release(new int[] {8}, "B"));
    }

    private void expectRefusalEvent(String op, String kind, int block, Executable call) {
        var log = observe();
        var error = assertThrows(PoolException.class, call);
        var event = log.only();
        assertEquals(op, event.op());
        assertEquals("B", event.owner());
        assertArrayEquals(new int[] {block}, event.blocks());
        assertEquals(Map.of("error", kind, "message", error.getMessage()), event.detail());
    }

    @Test
    void aWrongArgumentAndAQuestionAreNoEvents() {
        var log = observe();
        assertThrows(IllegalArgumentException.class, () -> pool.allocate(-1));
        assertThrows(NullPointerException.class, () -> pool.retain(null, "A"));
        assertThrows(NullPointerException.class, () -> pool.release(null, "A"));
        assertThrows(NotABlockException.class, () -> pool.refcount(-1));
        pool.refcount(0);
        assertEquals(List.of(), log.events());
    }

    @Test
    void stepsCountObservedCallsOnly() {
        var first = observe();
        pool.allocate(1);
        pool.setObserver(null);
        pool.allocate(1);
        var second = observe();
        pool.allocate(1);
        assertEquals(0, first.only().step());
        assertEquals(1, second.only().step());
    }

    // everything together

    @Test
    void randomCallsAgreeWithTheModelAndReplayToTheSameCounts() {
        var random = new Random(20_000);
        var model = new ModelPool(NUM_BLOCKS);
        var log = observe();
        for (int i = 0; i < NUM_RANDOM_OPERATIONS; i++) {
            String step = "operation " + i;
            switch (random.nextInt(4)) {
                case 0 -> {
                    int n = random.nextInt(5);
                    String due = model.verdictOnAllocate(n);
                    assertEquals(due, verdict(() -> model.allocated(pool.allocate(n))), step);
                }
                case 1 -> {
                    var blocks = randomBlocks(random);
                    assertEquals(model.retain(blocks), verdict(() -> pool.retain(blocks)), step);
                }
                default -> {
                    var blocks = randomBlocks(random);
                    assertEquals(model.release(blocks), verdict(() -> pool.release(blocks)), step);
                }
            }
            assertEquals(model.state(), PoolState.of(pool), step);
        }
        assertEquals(NUM_RANDOM_OPERATIONS, log.events().size());
        assertEquals(PoolState.of(pool).refcounts(), log.refcounts(NUM_BLOCKS));
        assertTrue(enoughOfEach(log.events()), "the random calls must meet every outcome");
    }

    /** Up to three ids, now and then one outside the pool. */
    private static int[] randomBlocks(Random random) {
        int outside = random.nextInt(20) == 0 ? 1 : 0;
        return random.ints(random.nextInt(4), -outside, NUM_BLOCKS + outside).toArray();
    }

    private static String verdict(Runnable call) {
        try {
            call.run();
            return "ok";
        } catch (PoolException refusal) {
            return refusal.kind();
        }
    }

    private static boolean enoughOfEach(List<PoolEvent> events) {
        for (String outcome : List.of("ok", "OutOfBlocks", "UseAfterFree", "DoubleFree", "NotABlock")) {
            long seen = events.stream()
                    .filter(event -> event.detail().getOrDefault("error", "ok").equals(outcome))
                    .count();
            if (seen < 50) {
                return false;
            }
        }
        return true;
    }

    /** The refusal, after a look that the pool is exactly as before. */
    private <E extends Exception> E refused(Class<E> type, Executable call) {
        var before = PoolState.of(pool);
        var error = assertThrows(type, call);
        assertNotNull(error.getMessage());
        assertEquals(before, PoolState.of(pool));
        assertEveryFreeBlockIsListedOnce();
        return error;
    }

    private void assertEveryFreeBlockIsListedOnce() {
        var before = PoolState.of(pool);
        var rest = pool.allocate(pool.numFreeBlocks());
        assertEquals(rest.length, IntStream.of(rest).distinct().count());
        for (int block : rest) {
            assertEquals(0, before.refcounts().get(block));
        }
        pool.release(rest);
        assertEquals(before, PoolState.of(pool));
    }

    private int freeBlock() {
        return IntStream.range(0, NUM_BLOCKS).filter(block -> pool.refcount(block) == 0).findFirst().orElseThrow();
    }

    private EventReplay observe() {
        var log = new EventReplay();
        pool.setObserver(log);
        return log;
    }

    private static <T> List<T> list(List<PoolEvent> events, Function<PoolEvent, T> field) {
        return events.stream().map(field).toList();
    }
}
