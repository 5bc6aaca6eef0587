package pagedkv.prefix;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.OptionalInt;
import java.util.Set;
import java.util.function.IntPredicate;

/**
 * The exact index: a tree of full blocks, each found by the node before it and its own tokens (S15).
 *
 * <pre>
 *   root ── [1 2 3 4] ── [5 6 7 8] ── [9 9 9 9]        blocks 10, 11, 12
 *                   └─── [5 5 5 5]                     block 13
 *
 *   prompt 1 2 3 4 5 6 7 8 0 0 0 0:   found 10, 11
 * </pre>
 *
 * <p>A search hashes each block's tokens once and then compares them: a hash collision costs a comparison, and never
 * serves another prompt's block (N17).
 *
 * <p>A node is known by its block. Nothing ever stays below a node that is evicted: it would be found again below
 * whatever that block holds next.
 *
 * <p><b>Who goes first.</b> Whenever a node is used, all before it are used too, and are noted <em>after</em> it, from
 * the tail to the head. So every node stands behind all that are below it: the tail of a chain goes before its head. A
 * node whose tail may not go stays as long as that, so that no node is ever cut off.
 */
public final class PrefixIndex implements PromptIndex {

    private final int blockSizeTokens;
    private final Map<BlockKey, Node> nodes = new HashMap<>();
    private final Map<Integer, Node> nodesByBlock = new HashMap<>();
    /** In the order of their last use, the longest ago first. */
    private final Set<Node> byLastUse = new LinkedHashSet<>();

    private static final class Node {
        private final BlockKey key;
        private final int block;
        private final Node parent;
        private final Set<Node> children = new LinkedHashSet<>();

        Node(BlockKey key, int block, Node parent) {
            this.key = key;
            this.block = block;
            this.parent = parent;
        }
    }

    public PrefixIndex(int blockSizeTokens) {
        this.blockSizeTokens = Prompts.requireBlockSize(blockSizeTokens);
    }

    /**
     * {@inheritDoc}
     *
     * @throws IllegalArgumentException if there are too few blocks, or one is negative, or entered already for other
     *     contents; the index is as before
     */
    @Override
    public void insert(int[] tokens, int[] blocks) {
        int full = Prompts.requireFullBlocks(tokens, blocks, blockSizeTokens);
        List<Node> chain = walk(tokens);
        requireNew(blocks, chain.size(), full);
        for (int logicalBlock = chain.size(); logicalBlock < full; logicalBlock++) {
            chain.add(enter(last(chain), tokens, logicalBlock, blocks[logicalBlock]));
        }
        use(chain);
    }

    /** {@inheritDoc} All of them count as used. */
    @Override
    public int[] longestPrefix(int[] tokens) {
        List<Node> chain = walk(tokens);
        use(chain);
        return blocksOf(chain);
    }

    /**
     * Evicts the block that was not used for the longest time, of those that may go and have none below them.
     *
     * @param mayGo whether nobody holds this block
     * @return the block, or empty if none may go
     */
    public OptionalInt evictLeastRecentlyUsed(IntPredicate mayGo) {
        for (Node node : byLastUse) {
            if (node.children.isEmpty() && mayGo.test(node.block)) {
                forget(node);
                return OptionalInt.of(node.block);
            }
        }
        return OptionalInt.empty();
    }

    /**
     * Evicts this block and all below it, which nobody could find without it.
     *
     * @return the blocks that lost their entry, tails first
     * @throws IllegalArgumentException if the block has no entry
     */
    public int[] evict(int block) {
        Node head = nodesByBlock.get(block);
        if (head == null) {
            throw new IllegalArgumentException("block " + block + " has no entry in the index");
        }
        Deque<Node> headFirst = new ArrayDeque<>(List.of(head));
        Deque<Node> tailFirst = new ArrayDeque<>();
        while (!headFirst.isEmpty()) {
            Node node = headFirst.pop();
            tailFirst.push(node);
            headFirst.addAll(node.children);
        }
        tailFirst.forEach(this::forget);
        return blocksOf(tailFirst);
    }

    /** Whether the block can be found. */
    public boolean holds(int block) {
        return nodesByBlock.containsKey(block);
    }

    /** How many blocks can be found. */
    public int numBlocks() {
        return nodes.size();
    }

    /** All blocks, the one that was not used for the longest time first: the order in which they would go. */
    public int[] evictionOrder() {
        return blocksOf(byLastUse);
    }

    /** The nodes of the longest known beginning, from the head. A look: they do not count as used. */
    private List<Node> walk(int[] tokens) {
        List<Node> chain = new ArrayList<>();
        for (int logicalBlock = 0; logicalBlock < tokens.length / blockSizeTokens; logicalBlock++) {
            Node node = nodes.get(BlockKey.of(blockOf(last(chain)), tokens, logicalBlock, blockSizeTokens));
            if (node == null) {
                break;
            }
            chain.add(node);
        }
        return chain;
    }

    /** Moves each to the end of the order, the head last. */
    private void use(List<Node> chain) {
        for (int i = chain.size() - 1; i >= 0; i--) {
            byLastUse.remove(chain.get(i));
            byLastUse.add(chain.get(i));
        }
    }

    private Node enter(Node parent, int[] tokens, int logicalBlock, int block) {
        BlockKey key = BlockKey.of(blockOf(parent), tokens, logicalBlock, blockSizeTokens);
        Node node = new Node(key, block, parent);
        nodes.put(key, node);
        nodesByBlock.put(block, node);
        if (parent != null) {
            parent.children.add(node);
        }
        return node;
    }

    private void forget(Node node) {
        nodes.remove(node.key);
        nodesByBlock.remove(node.block);
        byLastUse.remove(node);
        if (node.parent != null) {
            node.parent.children.remove(node);
        }
    }

    private void requireNew(int[] blocks, int from, int to) {
        Set<Integer> seen = new HashSet<>();
        for (int i = from; i < to; i++) {
            if (blocks[i] < 0) {
                throw new IllegalArgumentException("%d is not a block: ids begin at 0".formatted(blocks[i]));
            }
            if (holds(blocks[i]) || !seen.add(blocks[i])) {
                throw new IllegalArgumentException(
                        "block %d has an entry already, for other tokens: evict it first".formatted(blocks[i]));
            }
        }
    }

    private static Node last(List<Node> chain) {
        return chain.isEmpty() ? null : chain.get(chain.size() - 1);
    }

    private static int blockOf(Node node) {
        return node == null ? BlockKey.ROOT : node.block;
    }

    private static int[] blocksOf(Iterable<Node> nodes) {
        var blocks = new ArrayList<Integer>();
        nodes.forEach(node -> blocks.add(node.block));
        return blocks.stream().mapToInt(Integer::intValue).toArray();
    }
}
