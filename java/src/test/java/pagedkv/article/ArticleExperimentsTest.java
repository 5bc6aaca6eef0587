package pagedkv.article;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;

import org.junit.jupiter.api.Test;

/** The values of the article's four experiments as they really come out. */
class ArticleExperimentsTest {

    @Test
    void n13ADoubleReleaseGivesOneBlockToTwoOwners() {
        var result = RefCountedBlockDemo.run();
        assertEquals(new RefCountedBlockDemo.Result(8, 2, 8, 9, -1, 7, 7, 1), result);
    }

    @Test
    void n14LogicalBlock2LiesInPhysicalBlock1021() {
        var result = BlockTableDemo.run();
        assertEquals(2, result.logicalBlock());
        assertEquals(2, result.expected());
        assertEquals(1021, result.actual());
        assertArrayEquals(new int[] {1023, 1022, 1021}, result.table());
    }

    @Test
    void n15TheRequestThatCannotBePlacedFitsAt50() {
        var result = FragmentationDemo.run();
        assertEquals("C (25 blocks) cannot be placed", result.claim());
        assertEquals(70, result.totalFree());
        assertEquals(50, result.largestFreeRun());
        assertEquals(50, result.placedAt());
        assertEquals(".".repeat(20) + "B".repeat(30) + "C".repeat(25) + ".".repeat(25), result.layout());
    }

    @Test
    void n16SixBlocksInsteadOfNineAndThreeOfThemLeak() {
        var result = PrefixCachingDemo.run();
        assertEquals(9, result.blocksWithoutSharing());
        assertEquals(6, result.blocksUsed());
        assertEquals(3, result.leakedBlocks());
    }

    @Test
    void n16TheTableOfBLacksItsPrefix() {
        var result = PrefixCachingDemo.run();
        assertEquals(4, result.blocksNeededByB());
        assertArrayEquals(new int[] {1023, 1022, 1021, 1020, 1019}, result.tableOfA());
        assertArrayEquals(new int[] {1018}, result.tableOfB());
    }
}
