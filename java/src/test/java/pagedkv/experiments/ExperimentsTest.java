package pagedkv.experiments;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.Arrays;
import org.junit.jupiter.api.Test;

/** The values of the correct experiments. */
class ExperimentsTest {

    @Test
    void n15TwentyFiveBlocksFailContiguouslyAndSucceedPaged() {
        var result = FragmentationDemo.run();
        assertEquals(25, result.requestedBlocks());
        assertEquals(40, result.contiguousFree());
        assertEquals(20, result.largestFreeRun());
        assertFalse(result.contiguousFits());
        assertEquals(40, result.pagedFree());
        assertTrue(result.pagedFits());
    }

    @Test
    void n16SixBlocksInsteadOfNineAndAllComeBack() {
        var result = PrefixSharingDemo.run();
        assertEquals(9, result.blocksWithoutSharing());
        assertEquals(6, result.blocksUsed());
        assertEquals(1024, result.numBlocks());
        assertEquals(1024, result.freeAfterClose());
    }

    @Test
    void n16BReadsItsPrefixThroughItsTable() {
        var result = PrefixSharingDemo.run();
        assertTrue(result.samePrefix());
        assertEquals(5, result.tableOfA().length);
        assertEquals(4, result.tableOfB().length);
        assertArrayEquals(Arrays.copyOf(result.tableOfA(), 3), Arrays.copyOf(result.tableOfB(), 3));
    }
}
