package pagedkv.concurrent;

import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;

/**
 * Treiber's stack of free blocks, with a tag beside its head.
 *
 * <pre>
 *   head  [ tag 7 | block 4 ]        one 64-bit word
 *   links      4 → 1 → 3 → end       each with the depth: how many blocks there are from it down
 *   depth      3   2   1
 * </pre>
 *
 * <p>A <em>pop</em> reads the head, follows the links as far as it needs, and swaps the head for the block below, if it
 * is still the same. A <em>push</em> links its blocks above the head and swaps it for the topmost. A swap that fails
 * means that another thread's swap succeeded: so somebody always gets on.
 *
 * <p><b>Why the tag.</b> Without one, "still the same" would mean the same block on top. Between the read and the swap
 * others may pop blocks 4 and 1 and push back 4 alone: block 4 is on top again, but the link to block 1, which was
 * read before, leads to a block in use. The swap would succeed and the stack be broken; this is the <em>ABA
 * problem</em>. Every swap raises the tag, so a head with the same tag has not been changed in between. (The tag has
 * 32 bits. It would have to go all the way round, 4 billion swaps, while one thread stands between two instructions.)
 *
 * <p><b>Memory order.</b> The head is changed by compare-and-swap alone, which is a volatile read and write: each one
 * happens-before the next.
 * <ul>
 *   <li>A push writes its links before its swap. So all links of the stack as it stands under some head were written
 *       before that head, and whoever read the head sees them.</li>
 *   <li>A link that a pop reads may be younger than its head: the block was popped and pushed again meanwhile. Then the
 *       tag has changed, and the swap fails; what was read is thrown away. It is a number or the end, never garbage:
 *       nothing breaks while it is being followed.</li>
 *   <li>Links are read with <em>acquire</em>, so that the second look at the head in {@link #pop} and {@link #size}
 *       cannot move up before them. They are written <em>opaque</em>, that is in one piece and no more: the swap that
 *       follows orders them.</li>
 *   <li>What a thread did to a block before it pushed it happens-before what the thread does that pops it.</li>
 * </ul>
 *
 * <p>Nothing is ever freed to the system: the links are an array, and a block that is looked at late is still there. So
 * the other trouble of such stacks, when to give nodes back, does not arise.
 */
final class TaggedStack implements FreeStack {

    private static final int END = -1;
    private static final long ONE_TAG = 1L << 32;

    private final AtomicLong head;
    private final AtomicLongArray links;

    /** All blocks, block 0 on top. */
    TaggedStack(int numBlocks) {
        links = new AtomicLongArray(numBlocks);
        for (int block = 0; block < numBlocks; block++) {
            int below = block + 1 < numBlocks ? block + 1 : END;
            links.setPlain(block, pair(numBlocks - block, below));
        }
        head = new AtomicLong(pair(0, 0));
    }

    @Override
    public int pop(int[] into, int from, int least, int most) {
        while (true) {
            long seen = head.get();
            int n = Math.min(depthAt(seen), most);
            if (n < least || n == 0) {
                if (head.get() == seen) {
                    return 0;
                }
                continue;
            }
            int block = low(seen);
            int done = 0;
            while (done < n && block != END) {
                into[from + done++] = block;
                block = low(links.getAcquire(block));
            }
            if (done == n && head.compareAndSet(seen, nextHead(seen, block))) {
                return n;
            }
        }
    }

    @Override
    public void push(int[] blocks, int from, int n) {
        if (n == 0) {
            return;
        }
        while (true) {
            long seen = head.get();
            int below = low(seen);
            int depth = depthAt(seen);
            for (int i = from; i < from + n; i++) {
                links.setOpaque(blocks[i], pair(++depth, below));
                below = blocks[i];
            }
            if (head.compareAndSet(seen, nextHead(seen, below))) {
                return;
            }
        }
    }

    @Override
    public int size() {
        while (true) {
            long seen = head.get();
            int size = depthAt(seen);
            if (head.get() == seen) {
                return size;
            }
        }
    }

    private int depthAt(long head) {
        return low(head) == END ? 0 : high(links.getAcquire(low(head)));
    }

    private static long nextHead(long head, int block) {
        return pair(high(head + ONE_TAG), block);
    }

    private static long pair(int high, int low) {
        return (long) high << 32 | low & 0xFFFF_FFFFL;
    }

    private static int high(long pair) {
        return (int) (pair >>> 32);
    }

    private static int low(long pair) {
        return (int) pair;
    }
}
