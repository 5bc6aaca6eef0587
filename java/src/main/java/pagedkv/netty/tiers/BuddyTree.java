package pagedkv.netty.tiers;

import java.util.ArrayList;
import java.util.List;
import pagedkv.memory.Look;

/**
 * Which runs of a chunk's pages are free: a full binary tree in one array (Netty's {@code memoryMap}).
 *
 * <pre>
 *   node      1                 depth 0: the chunk
 *           /   \
 *          2     3              depth 1: its halves, buddies of each other
 *         / \   / \
 *        4   5 6   7            depth 2 = maxOrder: four pages
 *
 *   value of a node = the depth of the largest free run at or below it; maxOrder + 1 if nothing is free there
 *   all free:          [-, 0, 1, 1, 2, 2, 2, 2]      index 0 is unused
 *   node 4 allocated:  [-, 1, 2, 1, 3, 2, 2, 2]      a half is free at most, below node 2 only a page
 * </pre>
 *
 * <p>2<sup>maxOrder</sup> pages need 2<sup>maxOrder+1</sup> − 1 nodes: 4095 for the 2048 pages of a 16 MiB chunk, in an
 * array of 4096.
 */
public final class BuddyTree {

    private static final LeftmostSearch NETTYS = new LeftmostSearch();

    private final byte[] memoryMap;
    private final int maxOrder;
    private final byte unusable;
    private final TreeSearch search;

    /** A tree over 2<sup>maxOrder</sup> free pages, searched in Netty's way. */
    public BuddyTree(int maxOrder) {
        this(maxOrder, NETTYS);
    }

    /** A tree that another search drives. Its answers are checked before anything is marked. */
    public BuddyTree(int maxOrder, TreeSearch search) {
        if (maxOrder < 0 || maxOrder > 24) {
            throw new IllegalArgumentException("maxOrder must be 0 to 24, not " + maxOrder);
        }
        this.maxOrder = maxOrder;
        this.search = search;
        unusable = (byte) (maxOrder + 1);
        memoryMap = new byte[2 << maxOrder];
        for (int node = 1; node < memoryMap.length; node++) {
            memoryMap[node] = (byte) depthOf(node);
        }
    }

    /**
     * Takes a free node of this depth; -1 if there is none.
     *
     * @throws IllegalStateException if the search that drives this tree answers wrongly; nothing is marked then
     */
    public int allocateNode(int depth) {
        return allocateNode(depth, NodeVisitor.NONE);
    }

    int allocateNode(int depth, NodeVisitor visitor) {
        if (depth < 0 || depth > maxOrder) {
            throw new IllegalArgumentException("a depth is 0 to %d here, not %d".formatted(maxOrder, depth));
        }
        int node = find(depth, visitor);
        if (node != -1) {
            memoryMap[node] = unusable;
            updateParents(node);
        }
        return node;
    }

    /** Gives an allocated node back; halves that are both free again become one free run. */
    public void freeNode(int node) {
        if (!isAllocated(node)) {
            throw new IllegalStateException("node " + node + " was not allocated, or was freed already");
        }
        memoryMap[node] = (byte) depthOf(node);
        updateParents(node);
    }

    /**
     * Whether this very node was handed out: its value says that nothing is free, and yet its children look free.
     * (Where two halves were handed out one by one, the children say so.)
     */
    public boolean isAllocated(int node) {
        if (node < 1 || node >= memoryMap.length || memoryMap[node] != unusable) {
            return false;
        }
        int depth = depthOf(node);
        return depth == maxOrder || memoryMap[2 * node] == depth + 1;
    }

    private int find(int depth, NodeVisitor visitor) {
        if (search == NETTYS) {
            return NETTYS.allocateNode(memoryMap, depth, visitor);
        }
        int node = search.allocateNode(memoryMap.clone(), depth);
        requireRight(node, depth);
        visitor.visit(node == -1 ? 1 : node, node == -1 ? LeftmostSearch.NO_ROOM : Look.CHOSEN);
        return node;
    }

    private void requireRight(int node, int depth) {
        String problem = null;
        if (node == -1) {
            if (memoryMap[1] <= depth) {
                problem = "it found no free node of depth %d, but the root's value %d says that there is one"
                        .formatted(depth, memoryMap[1]);
            }
        } else if (node < 1 || node >= memoryMap.length) {
            problem = "it answered %d, and the nodes are 1 to %d (-1 for none)".formatted(node, memoryMap.length - 1);
        } else if (depthOf(node) != depth) {
            problem = "node %d has depth %d, and a node of depth %d was wanted".formatted(node, depthOf(node), depth);
        } else if (memoryMap[node] != depth || isInAllocatedRun(node)) {
            problem = "node %d is not free".formatted(node);
        }
        if (problem != null) {
            throw new IllegalStateException("the search is wrong: " + problem);
        }
    }

    /** Nodes below an allocated one keep their values, and look free. */
    private boolean isInAllocatedRun(int node) {
        for (int above = node / 2; above >= 1; above /= 2) {
            if (isAllocated(above)) {
                return true;
            }
        }
        return false;
    }

    /** Each node above has what the better of its children has, or all of itself if both are wholly free. */
    private void updateParents(int node) {
        for (int parent = node / 2; parent >= 1; parent /= 2) {
            int left = memoryMap[2 * parent];
            int right = memoryMap[2 * parent + 1];
            int childDepth = depthOf(parent) + 1;
            boolean bothFree = left == childDepth && right == childDepth;
            memoryMap[parent] = (byte) (bothFree ? childDepth - 1 : Math.min(left, right));
        }
    }

    /** 0 for the root; Netty keeps this in a second array. */
    public static int depthOf(int node) {
        return Integer.SIZE - 1 - Integer.numberOfLeadingZeros(node);
    }

    /** The first page of a node's run. */
    public int firstPage(int node) {
        int placeInRow = node - (1 << depthOf(node));
        return placeInRow * numPages(node);
    }

    /** The length of a node's run. */
    public int numPages(int node) {
        return 1 << (maxOrder - depthOf(node));
    }

    public int maxOrder() {
        return maxOrder;
    }

    public int numNodes() {
        return memoryMap.length - 1;
    }

    /** The value of every node, by node; index 0 is unused. A copy. */
    public int[] values() {
        var values = new int[memoryMap.length];
        for (int node = 0; node < values.length; node++) {
            values[node] = memoryMap[node];
        }
        return values;
    }

    /** The nodes that are handed out now. */
    public List<Integer> allocatedNodes() {
        var nodes = new ArrayList<Integer>();
        collectAllocated(1, nodes);
        return nodes;
    }

    private void collectAllocated(int node, List<Integer> nodes) {
        if (isAllocated(node)) {
            nodes.add(node);
        } else if (depthOf(node) < maxOrder && memoryMap[node] != depthOf(node)) {
            collectAllocated(2 * node, nodes);
            collectAllocated(2 * node + 1, nodes);
        }
    }

    /** The values as a picture, one row per depth, the allocated nodes in brackets. Of a large tree the upper rows. */
    public String draw() {
        int rows = Math.min(maxOrder + 1, 5);
        int width = 5 << (rows - 1);
        var picture = new StringBuilder();
        for (int depth = 0; depth < rows; depth++) {
            var row = new StringBuilder("depth " + depth + " ");
            for (int node = 1 << depth; node < 2 << depth; node++) {
                String value = isAllocated(node) ? "[" + memoryMap[node] + "]" : "" + memoryMap[node];
                row.append(centered(value, width >> depth));
            }
            picture.append(row.toString().stripTrailing()).append('\n');
        }
        if (rows <= maxOrder) {
            picture.append("… and ").append(maxOrder + 1 - rows).append(" more rows\n");
        }
        return picture.toString();
    }

    private static String centered(String text, int width) {
        int left = (width - text.length()) / 2;
        return " ".repeat(left) + text + " ".repeat(width - left - text.length());
    }
}
