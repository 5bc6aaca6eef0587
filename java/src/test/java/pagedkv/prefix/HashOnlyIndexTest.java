package pagedkv.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.junit.jupiter.api.Test;

class HashOnlyIndexTest {

    @Test
    void withoutACollisionItIsRight() {
        var index = new HashOnlyIndex(2, 64);
        index.insert(new int[] {1, 2, 3, 4, 5, 6}, new int[] {10, 11, 12});
        assertArrayEquals(new int[] {10, 11}, index.longestPrefix(new int[] {1, 2, 3, 4, 9, 9}));
        assertArrayEquals(new int[0], index.longestPrefix(new int[] {3, 4, 1, 2}));
    }

    @Test
    void n17ACollisionServesAnotherPromptsBlock() { // N17
        var collision = Collision.byChance(ChainHash.sha256().cutTo(16), 4, 10_000).orElseThrow();
        assertFalse(Arrays.equals(collision.first(), collision.second()));
        var index = new HashOnlyIndex(4, 16);
        index.insert(collision.first(), new int[] {10});
        assertArrayEquals(new int[] {10}, index.longestPrefix(collision.second()));

        var exact = new PrefixIndex(4);
        exact.insert(collision.first(), new int[] {10});
        assertArrayEquals(new int[0], exact.longestPrefix(collision.second()));
    }

    @Test
    void n17WhatFollowsACollisionIsWrongToo() { // N17
        var collision = Collision.onPurpose(7, 40);
        var index = new HashOnlyIndex(2, ChainHash.likeString());
        index.insert(new int[] {7, 40, 5, 5, 6, 6}, new int[] {10, 11, 12});
        int[] other = {collision.second()[0], collision.second()[1], 5, 5, 6, 6};
        assertArrayEquals(new int[] {10, 11, 12}, index.longestPrefix(other));
    }

    @Test
    void n17EachBitMoreMakesChanceRarer() { // N17: about 2^(bits / 2) blocks, within a factor of 8
        for (int bits : new int[] {8, 16, 24}) {
            var collision = Collision.byChance(ChainHash.sha256().cutTo(bits), 4, 100_000).orElseThrow();
            double expected = Math.pow(2, bits / 2.0);
            assertTrue(collision.blocksTried() > expected / 8 && collision.blocksTried() < expected * 8,
                    () -> bits + " bits: " + collision.blocksTried());
        }
        assertTrue(Collision.byChance(ChainHash.sha256(), 4, 100_000).isEmpty());
    }

    @Test
    void n17AWeakHashCollidesOnPurpose() { // N17
        var collision = Collision.onPurpose("Aa".chars().toArray());
        assertArrayEquals("BB".chars().toArray(), collision.second());
        assertEquals(Arrays.hashCode(collision.first()), Arrays.hashCode(collision.second()));
        assertEquals("Aa".hashCode(), ChainHash.likeString().hash(ChainHash.SEED, collision.second()));
        assertEquals("[65, 97] and [66, 66]", collision.toString());
        assertThrows(IllegalArgumentException.class, () -> Collision.onPurpose(1));
    }

    @Test
    void theHashDependsOnAllTokensBefore() {
        for (ChainHash hash : new ChainHash[] {ChainHash.sha256(), ChainHash.likeString()}) {
            long after1 = hash.hash(hash.hash(ChainHash.SEED, new int[] {1, 1}), new int[] {7, 7});
            long after2 = hash.hash(hash.hash(ChainHash.SEED, new int[] {1, 2}), new int[] {7, 7});
            assertFalse(after1 == after2);
        }
    }

    @Test
    void aHashIsCutToItsLowestBits() {
        ChainHash ones = (parent, tokens) -> -1L;
        assertEquals(1, ones.cutTo(1).hash(0, new int[0]));
        assertEquals(0xFFFF, ones.cutTo(16).hash(0, new int[0]));
        assertEquals(-1L, ones.cutTo(64).hash(0, new int[0]));
        assertThrows(IllegalArgumentException.class, () -> ones.cutTo(0));
        assertThrows(IllegalArgumentException.class, () -> new HashOnlyIndex(4, 65));
    }
}
