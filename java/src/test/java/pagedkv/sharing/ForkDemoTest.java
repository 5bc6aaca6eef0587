package pagedkv.sharing;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

class ForkDemoTest {

    @Test
    void s11WithoutACopyTheLastWriteWins() { // S11
        var result = ForkDemo.run(new NaiveFork());
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, 6, 8}, result.tokensOfA());
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, 6, 8}, result.tokensOfB());
        assertArrayEquals(result.blocksOfA(), result.blocksOfB());
        assertEquals(2, result.blocksUsed());
        assertEquals(0, result.copies());
        assertEquals(8, result.freeAfterClose());
    }

    @Test
    void s11WithACopyEachReadsWhatItWrote() { // S11
        var result = ForkDemo.run(new CopyOnWrite());
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, 6, 7}, result.tokensOfA());
        assertArrayEquals(new int[] {1, 2, 3, 4, 5, 6, 8}, result.tokensOfB());
        assertEquals(3, result.blocksUsed());
        assertEquals(1, result.copies());
        assertEquals(8, result.freeAfterClose());
    }
}
