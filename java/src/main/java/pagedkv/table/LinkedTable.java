package pagedkv.table;

/**
 * A chain of nodes per sequence, one node per block: what an append likes and a lookup does not (B6).
 *
 * <pre>
 *   sequence 7 ──▶ (9) ──▶ (4) ──▶ (7)
 * </pre>
 *
 * <p>Logical block i is i steps away, and each step may be a cache miss. A node takes 24 bytes for a number of 4. The
 * sequence itself is found by the same hash table as in {@link TwoLevelTable}, so the two differ in the second level
 * only.
 */
public final class LinkedTable implements TableStore {

    private final IdMap<Chain> chains = new IdMap<>();

    private static final class Chain {
        private Node first;
        private Node last;
        private int length;
    }

    private static final class Node {
        private final int physicalBlock;
        private Node next;

        Node(int physicalBlock) {
            this.physicalBlock = physicalBlock;
        }
    }

    @Override
    public void append(long sequence, int physicalBlock) {
        Chain chain = chains.get(sequence);
        Node node = new Node(physicalBlock);
        if (chain == null) {
            chain = new Chain();
            chain.first = node;
            chains.put(sequence, chain);
        } else {
            chain.last.next = node;
        }
        chain.last = node;
        chain.length++;
    }

    @Override
    public int lookup(long sequence, int logicalBlock) {
        Chain chain = Stores.known(chains.get(sequence), sequence);
        Stores.requireInside(logicalBlock, chain.length, sequence);
        Node node = chain.first;
        for (int i = 0; i < logicalBlock; i++) {
            node = node.next;
        }
        return node.physicalBlock;
    }

    @Override
    public int[] remove(long sequence) {
        Chain chain = Stores.known(chains.remove(sequence), sequence);
        int[] blocks = new int[chain.length];
        int i = 0;
        for (Node node = chain.first; node != null; node = node.next) {
            blocks[i++] = node.physicalBlock;
        }
        return blocks;
    }

    @Override
    public long numBytes() {
        long chainBytes = ObjectSizes.object(2 * ObjectSizes.REFERENCE_BYTES + Integer.BYTES);
        long nodeBytes = ObjectSizes.object(Integer.BYTES + ObjectSizes.REFERENCE_BYTES);
        var total = new Stores.Sum(ObjectSizes.object(ObjectSizes.REFERENCE_BYTES) + chains.numBytes());
        chains.forEachValue(chain -> total.add(chainBytes + nodeBytes * chain.length));
        return total.bytes();
    }
}
