package pagedkv.prefix;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertNotEquals;

import org.junit.jupiter.api.Test;

class BlockKeyTest {

    @Test
    void keysWithEqualContentsAreEqual() {
        var key = new BlockKey(3, new int[] {1, 2});
        assertEquals(key, new BlockKey(3, new int[] {1, 2}));
        assertEquals(key.hashCode(), new BlockKey(3, new int[] {1, 2}).hashCode());
        assertNotEquals(key, new BlockKey(4, new int[] {1, 2}));
        assertNotEquals(key, new BlockKey(3, new int[] {2, 1}));
        assertNotEquals(key, new BlockKey(3, new int[] {1, 2, 0}));
    }

    @Test
    void n17EqualHashesDoNotMakeKeysEqual() { // N17
        var one = new BlockKey(BlockKey.ROOT, "Aa".chars().toArray());
        var other = new BlockKey(BlockKey.ROOT, "BB".chars().toArray());
        assertEquals(one.hashCode(), other.hashCode());
        assertNotEquals(one, other);
    }

    @Test
    void aKeyKeepsItsOwnTokens() {
        int[] tokens = {1, 2};
        var key = new BlockKey(3, tokens);
        tokens[0] = 99;
        key.tokens()[1] = 99;
        assertArrayEquals(new int[] {1, 2}, key.tokens());
        assertEquals("BlockKey[parent=3, tokens=[1, 2]]", key.toString());
    }
}
