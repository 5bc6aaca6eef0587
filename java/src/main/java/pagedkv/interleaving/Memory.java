package pagedkv.interleaving;

import java.util.ArrayList;
import java.util.List;

/** What the threads of a {@link SharedStack} share. */
interface Memory {

    int NONE = SharedStack.NONE;

    int numBlocks();

    long head();

    void setHead(long head);

    boolean compareAndSetHead(long seen, long wanted);

    int below(int block);

    void setBelow(int block, int below);

    /** The block that a head names, or NONE. */
    static int block(long head) {
        return (int) head;
    }

    /**
     * @throws IllegalArgumentException if {@code block} is none of {@code numBlocks}
     */
    static void checkBlock(int block, int numBlocks, String call) {
        if (block < 0 || block >= numBlocks) {
            String why = block == NONE ? ": where there is no block, there is none below it" : "";
            throw new IllegalArgumentException(call + ": there is no block " + block + why);
        }
    }

    static void checkBelow(int block, int below, int numBlocks) {
        String call = "setBelow(" + block + ", " + below + ")";
        checkBlock(block, numBlocks, call);
        if (below != NONE) {
            checkBlock(below, numBlocks, call);
        }
    }

    static void checkHead(long head, int numBlocks) {
        int block = block(head);
        if (block != NONE && (block < 0 || block >= numBlocks)) {
            throw new IllegalArgumentException(
                    "a head of 0x%016x: its lower 32 bits name block %d, and there is no such block".formatted(head, block));
        }
    }

    /** "3", "none", "3 (tag 7)". */
    static String headText(long head) {
        int block = block(head);
        long upper = head >>> 32;
        String name = block == NONE ? "none" : String.valueOf(block);
        boolean plain = upper == 0 || head == NONE;
        return plain ? name : name + " (tag " + (upper < 1 << 20 ? String.valueOf(upper) : "0x%x".formatted(upper)) + ")";
    }

    static String blockText(int block) {
        return block == NONE ? "none" : String.valueOf(block);
    }

    /** The blocks from the head down; up to the first that comes a second time. */
    static List<Integer> walk(long head, int[] below) {
        var blocks = new ArrayList<Integer>();
        for (int block = block(head); block != NONE && !blocks.contains(block); block = below[block]) {
            blocks.add(block);
        }
        return blocks;
    }

    /** Whether the way down from the head comes to a block twice. */
    static boolean isCircle(long head, int[] below) {
        var blocks = walk(head, below);
        return !blocks.isEmpty() && below[blocks.get(blocks.size() - 1)] != NONE;
    }

    /** The links of a stack that holds blocks 0 to {@code stacked} − 1, the last one on top. */
    static int[] links(int numBlocks, int stacked) {
        int[] below = new int[numBlocks];
        for (int block = 0; block < numBlocks; block++) {
            below[block] = block < stacked ? block - 1 : NONE; // below block 0 is −1, which is NONE
        }
        return below;
    }
}
