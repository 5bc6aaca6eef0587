package pagedkv.shared;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ReadOnlyBufferException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import pagedkv.pool.OutOfBlocksException;
import pagedkv.pool.PoolEvent;
import pagedkv.pool.UseAfterFreeException;

class ContentIndexTest {

    private static final PoolOptions OPTIONS = PoolOptions.DEFAULT.withTokensPerBlock(2);
    private static final int[] NOTHING = {};

    @RegisterExtension
    final PoolName pools = new PoolName();

    private final SharedPool pool = pools.create(8, 64, OPTIONS);
    private final SharedPool other = pools.closedLater(SharedPool.join(pool.name()));

    @Test
    void anAllocationThatIsRefusedEvictsNothing() {
        int[] blocks = pool.allocate(2);
        pool.publish(new int[] {1, 2, 3, 4}, blocks);
        pool.release(blocks);
        pool.reuse(new int[] {1, 2}); // its hint stays
        assertThrows(OutOfBlocksException.class, () -> pool.allocate(8));
        assertArrayEquals(blocks, pool.find(new int[] {1, 2, 3, 4}));
    }

    @Test
    void whatOneMemberPublishesTheOtherFindsAndReuses() {
        int[] blocks = pool.allocate(3);
        assertEquals(3, pool.publish(new int[] {1, 2, 3, 4, -5, 6, 7}, blocks));
        assertArrayEquals(blocks, other.find(new int[] {1, 2, 3, 4, -5, 6, 9, 9}));
        assertArrayEquals(Arrays.copyOf(blocks, 2), other.find(new int[] {1, 2, 3, 4, 5, 6}));
        assertArrayEquals(NOTHING, other.find(new int[] {3, 4}));
        assertArrayEquals(NOTHING, other.find(new int[] {1}));
        assertArrayEquals(Arrays.copyOf(blocks, 2), other.reuse(new int[] {1, 2, 3, 4}));
        assertEquals(2, pool.refcount(blocks[1]));
        assertEquals(1, pool.refcount(blocks[2]));
    }

    @Test
    void contentOutlivesItsMemberUntilTheBlockIsHandedOutAgain() {
        int[] blocks = pool.allocate(2);
        pool.publish(new int[] {1, 2, 3, 4}, blocks);
        pool.close();
        assertEquals(8, other.numFreeBlocks());
        assertEquals(2, other.numCachedBlocks());
        assertArrayEquals(blocks, other.reuse(new int[] {1, 2, 3, 4}));
        assertEquals(6, other.numFreeBlocks());
        other.release(blocks);
        assertThrows(OutOfBlocksException.class, () -> other.allocate(9));
        other.allocate(6);
        assertEquals(2, other.find(new int[] {1, 2, 3, 4}).length); // empty blocks go first
        other.allocate(2);
        assertArrayEquals(NOTHING, other.find(new int[] {1, 2, 3, 4}));
        assertEquals(0, other.numCachedBlocks());
    }

    @Test
    void saltsKeepContentsApart() {
        int[] blocks = pool.allocate(2);
        pool.publish(new int[] {1, 2}, new int[] {blocks[0]}, "a");
        pool.publish(new int[] {1, 2}, new int[] {blocks[1]}, "b");
        assertArrayEquals(new int[] {blocks[0]}, other.find(new int[] {1, 2}, "a"));
        assertArrayEquals(new int[] {blocks[1]}, other.find(new int[] {1, 2}, "b"));
        assertArrayEquals(NOTHING, other.find(new int[] {1, 2}));
        assertArrayEquals(new int[] {blocks[1]}, other.reuse(new int[] {1, 2}, "b", null));
    }

    @Test
    void knownContentStaysWhereItIs() {
        int[] first = pool.allocate(2);
        pool.publish(new int[] {1, 2, 3, 4}, first);
        int[] second = other.allocate(3);
        assertEquals(1, other.publish(new int[] {1, 2, 3, 4, 5, 6}, second)); // the third, under the first two
        assertArrayEquals(new int[] {first[0], first[1], second[2]}, pool.find(new int[] {1, 2, 3, 4, 5, 6}));
    }

    @Test
    void whatOthersMayWriteToCannotBePublished() {
        int[] blocks = pool.allocate(2);
        other.retain(blocks[1]);
        assertEquals(1, pool.publish(new int[] {1, 2, 3, 4}, blocks));
        assertEquals(0, pool.publish(new int[] {7, 8}, new int[] {blocks[0]})); // it has other content
        assertArrayEquals(new int[] {blocks[0]}, pool.find(new int[] {1, 2, 3, 4}));
    }

    @Test
    void unpublishedContentIsNotFoundAndLeavesNothingAfterIt() {
        int[] blocks = pool.allocate(2);
        pool.publish(new int[] {1, 2, 3, 4}, blocks);
        pool.unpublish(blocks[0]);
        assertArrayEquals(NOTHING, other.find(new int[] {1, 2, 3, 4}));
        pool.publish(new int[] {1, 2}, new int[] {blocks[0]}); // another node: the old one's child is not below it
        assertArrayEquals(new int[] {blocks[0]}, other.find(new int[] {1, 2, 3, 4}));
    }

    @Test
    void contentThatCanBeFoundIsOnlyForReading() {
        int[] blocks = pool.allocate(1);
        pool.buffer(blocks[0]).putLong(8, 42);
        pool.publish(new int[] {1, 2}, blocks);
        var seen = pool.buffer(blocks[0]);
        assertEquals(42, seen.getLong(8));
        assertThrows(ReadOnlyBufferException.class, () -> seen.putLong(8, 43));
        other.reuse(new int[] {1, 2});
        assertTrue(other.buffer(blocks[0]).isReadOnly());
        pool.unpublish(blocks[0]);
        pool.buffer(blocks[0]).putLong(8, 43);
    }

    @Test
    void aCopyIsMadeWhereOthersRelyOnABlock() {
        int[] blocks = pool.allocate(2);
        int alone = blocks[0];
        pool.buffer(alone).putLong(0, 7);
        assertEquals(alone, pool.copyForWriting(alone, "seq"));
        other.retain(blocks[1]);
        assertNotEquals(blocks[1], pool.copyForWriting(blocks[1], "seq"));
        assertEquals(1, pool.refcount(blocks[1])); // the other member's
        assertThrows(UseAfterFreeException.class, () -> pool.copyForWriting(blocks[1], "seq"));
        pool.publish(new int[] {1, 2}, new int[] {alone});
        int copy = pool.copyForWriting(alone, "seq");
        assertEquals(7, pool.buffer(copy).putLong(8, 8).getLong(0));
        assertArrayEquals(new int[] {alone}, pool.find(new int[] {1, 2}));
        pool.retain(copy);
        pool.allocate(pool.numFreeBlocks());
        assertThrows(OutOfBlocksException.class, () -> pool.copyForWriting(copy, "seq"));
        assertEquals(2, pool.refcount(copy));
    }

    @Test
    void refusals() {
        var plain = pools.create(4, 64);
        int[] block = pool.allocate(1);
        assertTrue(assertThrows(NoIndexException.class, () -> plain.find(new int[] {1, 2})).getMessage()
                .contains("withTokensPerBlock"));
        assertThrows(NoIndexException.class, () -> plain.publish(new int[] {1, 2}, plain.allocate(1)));
        assertThrows(IllegalArgumentException.class, () -> pool.publish(new int[] {1}, block));
        assertThrows(UseAfterFreeException.class, () -> other.publish(new int[] {1, 2}, block));
        assertThrows(UseAfterFreeException.class, () -> other.unpublish(block));
        assertThrows(IllegalArgumentException.class, () -> OPTIONS.withTokensPerBlock(1 << 17));
        assertEquals(0, plain.tokensPerBlock());
        assertEquals(2, other.tokensPerBlock());
        other.close();
        assertThrows(PoolClosedException.class, () -> other.find(new int[] {1, 2}));
    }

    @Test
    void aReuseIsARetainToAnObserver() {
        int[] blocks = pool.allocate(1);
        pool.publish(new int[] {1, 2}, blocks);
        var events = new ArrayList<PoolEvent>();
        pool.setObserver(events::add);
        pool.reuse(new int[] {1, 2}, null, "A");
        pool.reuse(new int[] {7, 7}, null, "A");
        assertEquals(1, events.size());
        assertEquals("retain", events.get(0).op());
        assertArrayEquals(blocks, events.get(0).blocks());
    }

    /** Buckets and records that say something else: the tokens decide, and nothing else. */
    @Test
    void aTagThatIsRightAndARecordThatIsNot() {
        int[] blocks = pool.allocate(2);
        pool.publish(new int[] {1, 2}, new int[] {blocks[0]});
        pool.publish(new int[] {3, 4}, new int[] {blocks[1]});
        var mapping = PoolFiles.SHARED_MEMORY.open(pool.name()).mapping();
        for (int at = 0; at < 8 * mapping.layout.indexEntries(); at += 8) {
            long entry = mapping.buckets.getLong(at);
            if (entry != 0) { // both now lead to the other's block, and out of the pool
                int there = (int) entry - 1 == blocks[0] ? blocks[1] : blocks[0];
                mapping.buckets.putLong(at, entry >>> 32 << 32 | there + 1);
            }
        }
        assertArrayEquals(NOTHING, other.find(new int[] {1, 2}));
        assertArrayEquals(NOTHING, other.reuse(new int[] {3, 4}));
        assertEquals(1, other.refcount(blocks[0]) * other.refcount(blocks[1]));
    }

    /** Two members against a map: what is found is what was published into just this block and nothing else. */
    @Test
    void manyContentsInFewBlocks() {
        var random = new Random(7);
        var small = pools.create(40, 64, OPTIONS);
        var members = List.of(small, pools.closedLater(SharedPool.join(small.name())));
        Map<Integer, List<Integer>> contents = new HashMap<>(); // by block: the tokens that lead to it
        int numFound = 0;
        for (int round = 0; round < 3000; round++) {
            var member = members.get(round % 2);
            int[] tokens = random.ints(2 * (1 + random.nextInt(4)), 0, 3).toArray();
            int[] known = member.reuse(tokens);
            numFound += known.length;
            for (int i = 0; i < known.length; i++) {
                assertEquals(head(tokens, i), contents.get(known[i]), "round " + round);
            }
            int[] fresh = member.allocate(tokens.length / 2 - known.length);
            for (int block : fresh) {
                contents.remove(block);
            }
            int[] all = IntStream.concat(IntStream.of(known), IntStream.of(fresh)).toArray();
            assertEquals(all.length, member.publish(tokens, all), "round " + round);
            for (int i = 0; i < all.length; i++) {
                contents.put(all[i], head(tokens, i));
            }
            assertArrayEquals(all, member.find(tokens), "round " + round);
            member.release(all);
        }
        assertTrue(numFound > 1000);
        assertEquals(40, small.numFreeBlocks());
    }

    private static List<Integer> head(int[] tokens, int block) {
        return IntStream.of(tokens).limit(2L * block + 2).boxed().toList();
    }
}
