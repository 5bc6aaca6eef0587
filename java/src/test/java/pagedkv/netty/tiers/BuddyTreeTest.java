package pagedkv.netty.tiers;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import org.junit.jupiter.api.Test;

class BuddyTreeTest {

    @Test
    void n3AChunkOf2048PagesHas4095Nodes() {
        var tree = new BuddyTree(11);
        assertEquals(2048, tree.numPages(1));
        assertEquals(4095, tree.numNodes());
        assertEquals(4096, tree.values().length);
    }

    @Test
    void theValuesInTheClassCommentAreTrue() {
        var tree = new BuddyTree(2);
        assertArrayEquals(new int[] {0, 0, 1, 1, 2, 2, 2, 2}, tree.values());
        assertEquals(4, tree.allocateNode(2));
        assertArrayEquals(new int[] {0, 1, 2, 1, 3, 2, 2, 2}, tree.values());
    }

    @Test
    void n3GoesLeftWhereTheLeftHasRoom() {
        var tree = new BuddyTree(3);
        assertEquals(8, tree.allocateNode(3));
        assertEquals(5, tree.allocateNode(2)); // 4 is broken, its sibling is whole
        assertEquals(9, tree.allocateNode(3)); // the hole beside 8, not a page of a whole half
        assertEquals(3, tree.allocateNode(1));
        assertEquals(-1, tree.allocateNode(3));
        assertEquals(List.of(8, 9, 5, 3), tree.allocatedNodes());
        assertEquals(2, tree.firstPage(5));
        assertEquals(4, tree.numPages(3));
    }

    @Test
    void theSearchTellsWhatItLookedAtAndWhyItWentOn() {
        var tree = new BuddyTree(2);
        tree.allocateNode(1);
        var visits = new ArrayList<String>();
        tree.allocateNode(2, (node, verdict) -> visits.add(node + " " + verdict));
        assertEquals(List.of("1 → has room below: try its left half", "2 no free run of this size below",
                "3 → has room below: try its left half", "6 chosen"), visits);
        visits.clear();
        tree.allocateNode(1, (node, verdict) -> visits.add(node + " " + verdict));
        assertEquals(List.of("1 no free run of this size below"), visits);
    }

    @Test
    void n3BuddiesMergeWhenBothAreFree() {
        var tree = new BuddyTree(3);
        var fresh = tree.values();
        int left = tree.allocateNode(3);
        int right = tree.allocateNode(3);
        tree.freeNode(left);
        assertEquals(3, tree.values()[4]); // only one page below node 4: no merge yet
        tree.freeNode(right);
        assertArrayEquals(fresh, tree.values());
        assertEquals(1, tree.allocateNode(0));
        assertEquals(-1, tree.allocateNode(3));
    }

    @Test
    void onlyWhatWasAllocatedCanBeFreed() {
        var tree = new BuddyTree(2);
        int first = tree.allocateNode(2);
        tree.allocateNode(2);
        assertFalse(tree.isAllocated(2)); // both halves are, the node is not
        for (int wrong : new int[] {0, 2, 3, 6, 8, -1}) {
            assertThrows(IllegalStateException.class, () -> tree.freeNode(wrong));
        }
        tree.freeNode(first);
        assertThrows(IllegalStateException.class, () -> tree.freeNode(first));
        assertThrows(IllegalArgumentException.class, () -> tree.allocateNode(3));
    }

    /** The tree against a plain list of pages. */
    @Test
    void randomRunsNeverOverlapAndAreFoundWhereverThereIsOne() {
        var random = new Random(7);
        int order = 5;
        var tree = new BuddyTree(order);
        var used = new boolean[1 << order];
        for (int step = 0; step < 20_000; step++) {
            var live = tree.allocatedNodes();
            if (!live.isEmpty() && random.nextInt(100) < 48) {
                int node = live.get(random.nextInt(live.size()));
                tree.freeNode(node);
                setPages(used, tree, node, false);
            } else {
                int depth = random.nextInt(order + 1);
                int expected = firstFreeNode(used, order, depth);
                int node = tree.allocateNode(depth);
                assertEquals(expected != -1, node != -1);
                if (node != -1) {
                    assertEquals(depth, BuddyTree.depthOf(node));
                    setPages(used, tree, node, true);
                }
            }
        }
        tree.allocatedNodes().forEach(tree::freeNode);
        assertArrayEquals(new BuddyTree(order).values(), tree.values());
    }

    private static int firstFreeNode(boolean[] used, int order, int depth) {
        int pages = 1 << (order - depth);
        for (int run = 0; run < 1 << depth; run++) {
            boolean free = true;
            for (int page = run * pages; page < (run + 1) * pages; page++) {
                free &= !used[page];
            }
            if (free) {
                return (1 << depth) + run;
            }
        }
        return -1;
    }

    private static void setPages(boolean[] used, BuddyTree tree, int node, boolean value) {
        for (int page = tree.firstPage(node); page < tree.firstPage(node) + tree.numPages(node); page++) {
            assertEquals(!value, used[page]);
            used[page] = value;
        }
    }

    @Test
    void anotherSearchDrivesTheTree() {
        TreeSearch rightmost = (memoryMap, depth) -> {
            for (int node = (2 << depth) - 1; node >= 1 << depth; node--) {
                if (memoryMap[node] == depth && pathIsFree(memoryMap, node)) {
                    return node;
                }
            }
            return -1;
        };
        var tree = new BuddyTree(3, rightmost);
        assertEquals(15, tree.allocateNode(3));
        assertEquals(2, tree.allocateNode(1));
        assertEquals(-1, tree.allocateNode(1));
        assertEquals(6, tree.allocateNode(2));
    }

    private static boolean pathIsFree(byte[] memoryMap, int node) {
        for (int above = node / 2; above >= 1; above /= 2) {
            if (memoryMap[above] > BuddyTree.depthOf(node)) {
                return false;
            }
        }
        return true;
    }

    @Test
    void aWrongSearchIsFoundOutBeforeItDoesHarm() {
        assertRefused((memoryMap, depth) -> -1, 2, "the root's value 1 says that there is one");
        assertRefused((memoryMap, depth) -> 4, 2, "node 4 is not free");
        assertRefused((memoryMap, depth) -> 3, 2, "node 3 has depth 1, and a node of depth 2 was wanted");
        assertRefused((memoryMap, depth) -> 16, 2, "it answered 16, and the nodes are 1 to 15");
        assertRefused((memoryMap, depth) -> 9, 3, "node 9 is not free"); // below the allocated node 4
        assertRefused((memoryMap, depth) -> {
            memoryMap[1] = 99;
            return 0;
        }, 2, "it answered 0");
    }

    private static void assertRefused(TreeSearch wrong, int depth, String reason) {
        var turn = new int[1];
        var tree = new BuddyTree(3, (memoryMap, d) -> turn[0]++ == 0 ? 4 : wrong.allocateNode(memoryMap, d));
        tree.allocateNode(2);
        var before = tree.values();
        var refusal = assertThrows(IllegalStateException.class, () -> tree.allocateNode(depth));
        assertTrue(refusal.getMessage().contains(reason), refusal.getMessage());
        assertArrayEquals(before, tree.values());
    }

    @Test
    void drawsItself() {
        var tree = new BuddyTree(2);
        tree.allocateNode(2);
        assertEquals("""
                depth 0          1
                depth 1     2         1
                depth 2  [3]   2    2    2
                """, tree.draw());
        assertTrue(new BuddyTree(11).draw().endsWith("… and 7 more rows\n"));
    }
}
