package pagedkv.netty.tiers;

/**
 * How a free node is found in the tree of a chunk. {@link LeftmostSearch} is Netty's way; a tree takes any other too.
 */
@FunctionalInterface
public interface TreeSearch {

    /**
     * The node to allocate.
     *
     * @param memoryMap for node 1 … {@code memoryMap.length - 1}: the depth of the largest free run at or below the
     *     node; {@code maxOrder + 1} where nothing is free. The children of a node are {@code 2 * node} and {@code 2
     *     * node + 1}. Only to be read: the tree itself marks the node.
     * @param depth the depth of the wanted node: 0 for the whole chunk, {@code maxOrder} for one page
     * @return a free node of that depth, or -1 if there is none
     */
    int allocateNode(byte[] memoryMap, int depth);
}
