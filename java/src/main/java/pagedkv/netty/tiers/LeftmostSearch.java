package pagedkv.netty.tiers;

import pagedkv.memory.Look;

/**
 * Netty's search: down from the root, to the left wherever the left half has room
 * (4.1.48, {@code PoolChunk.allocateNode}).
 *
 * <p>A node has room for a run of depth d if its value is at most d. If the root has none, nobody has; else one of
 * the two children of a node that has room has it too, and so d steps are enough, whatever the size of the chunk.
 */
public final class LeftmostSearch implements TreeSearch {

    static final String NO_ROOM = "no free run of this size below";
    static final String GO_DOWN = Look.LEADS_ON + "has room below: try its left half";

    @Override
    public int allocateNode(byte[] memoryMap, int depth) {
        return allocateNode(memoryMap, depth, NodeVisitor.NONE);
    }

    int allocateNode(byte[] memoryMap, int depth, NodeVisitor visitor) {
        int node = 1;
        if (memoryMap[node] > depth) {
            visitor.visit(node, NO_ROOM);
            return -1;
        }
        for (int level = 0; level < depth; level++) {
            visitor.visit(node, GO_DOWN);
            node = 2 * node;
            if (memoryMap[node] > depth) {
                visitor.visit(node, NO_ROOM);
                node++; // its sibling to the right
            }
        }
        visitor.visit(node, Look.CHOSEN);
        return node;
    }
}
