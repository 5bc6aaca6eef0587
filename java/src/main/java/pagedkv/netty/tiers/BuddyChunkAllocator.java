package pagedkv.netty.tiers;

import java.util.ArrayList;
import java.util.List;
import pagedkv.memory.Ledger;
import pagedkv.memory.ObservedAllocator;
import pagedkv.memory.OutOfDeviceMemoryException;

/**
 * The tree of a chunk alone: every request gets a run of 2<sup>k</sup> pages.
 *
 * <p>Chunks are asked in order, the first one first, and a new one is taken when none has room and the capacity
 * allows it. Chunk i lies at address {@code i · chunkBytes}. No chunk is ever given back. There are no chunk lists,
 * no elements smaller than a page and no thread cache: those are {@link NettyAllocator}'s.
 */
public final class BuddyChunkAllocator extends ObservedAllocator<BuddyChunkAllocator.Run> {

    private final long capacityBytes;
    private final int pageBytes;
    private final int maxOrder;
    private final long chunkBytes;
    private final TreeSearch search;
    private final List<BuddyTree> chunks = new ArrayList<>();

    public BuddyChunkAllocator(long capacityBytes) {
        this(capacityBytes, 8192, 11);
    }

    /**
     * @param capacityBytes what is left over behind the last whole chunk is not used
     * @param pageBytes a power of two
     * @param maxOrder a chunk has 2<sup>maxOrder</sup> pages; at most 14
     */
    public BuddyChunkAllocator(long capacityBytes, int pageBytes, int maxOrder) {
        this(capacityBytes, pageBytes, maxOrder, null);
    }

    /** With another search in the trees; null for Netty's. */
    public BuddyChunkAllocator(long capacityBytes, int pageBytes, int maxOrder, TreeSearch search) {
        if (pageBytes < 1 || Integer.bitCount(pageBytes) != 1) {
            throw new IllegalArgumentException("pageBytes must be a power of two, not " + pageBytes);
        }
        if (maxOrder < 0 || maxOrder > 14) {
            throw new IllegalArgumentException("maxOrder must be 0 to 14, not " + maxOrder);
        }
        if (capacityBytes < 1) {
            throw new IllegalArgumentException("capacityBytes must be at least 1, not " + capacityBytes);
        }
        this.capacityBytes = capacityBytes;
        this.pageBytes = pageBytes;
        this.maxOrder = maxOrder;
        this.search = search;
        chunkBytes = (long) pageBytes << maxOrder;
    }

    @Override
    protected Run take(String owner, long sizeBytes, Ledger log) {
        long runBytes = pageBytes;
        while (runBytes < sizeBytes && runBytes <= chunkBytes) {
            runBytes *= 2;
        }
        log.rounded(runBytes);
        if (sizeBytes > chunkBytes) {
            throw new OutOfDeviceMemoryException(
                    "%d bytes wanted, and a chunk has %d: a larger maxOrder makes larger chunks"
                            .formatted(sizeBytes, chunkBytes));
        }
        int depth = SizeClasses.log2(chunkBytes / runBytes);
        var run = findRun(depth, log);
        log.take(addressOf(run.chunk, run.node), runBytes, owner, sizeBytes);
        return run;
    }

    private Run findRun(int depth, Ledger log) {
        for (int chunk = 0; chunk < chunks.size(); chunk++) {
            int node = allocateNode(chunk, depth, log);
            if (node != -1) {
                return new Run(chunk, node);
            }
        }
        if ((chunks.size() + 1) * chunkBytes > capacityBytes) {
            throw new OutOfDeviceMemoryException(
                    "%d bytes wanted: no free run of this size in any of the %d chunks, and the capacity allows no more"
                            .formatted(chunkBytes >> depth, chunks.size()));
        }
        log.note("no chunk has room: a new one is made");
        log.reserve(chunks.size() * chunkBytes, chunkBytes, "chunk");
        chunks.add(newTree());
        int newest = chunks.size() - 1;
        return new Run(newest, allocateNode(newest, depth, log));
    }

    private int allocateNode(int chunk, int depth, Ledger log) {
        var tree = chunks.get(chunk);
        return tree.allocateNode(depth, log.isWatched() ? (node, verdict) -> log.look("node " + node,
                addressOf(chunk, node), bytesOf(tree, node), verdict) : NodeVisitor.NONE);
    }

    @Override
    protected boolean fill(Run run, long newBytes, Ledger log) {
        long runBytes = bytesOf(chunks.get(run.chunk), run.node);
        if (newBytes > runBytes) {
            return false;
        }
        log.rounded(runBytes);
        log.note("fits into the run it has");
        log.fill(addressOf(run.chunk, run.node), newBytes);
        return true;
    }

    @Override
    protected void give(Run run, Ledger log) {
        chunks.get(run.chunk).freeNode(run.node);
        log.give(addressOf(run.chunk, run.node));
    }

    private BuddyTree newTree() {
        return search == null ? new BuddyTree(maxOrder) : new BuddyTree(maxOrder, search);
    }

    private long addressOf(int chunk, int node) {
        return chunk * chunkBytes + (long) chunks.get(chunk).firstPage(node) * pageBytes;
    }

    private long bytesOf(BuddyTree tree, int node) {
        return (long) tree.numPages(node) * pageBytes;
    }

    /** The trees, to be looked at, one per chunk so far. */
    public List<BuddyTree> trees() {
        return List.copyOf(chunks);
    }

    @Override
    public long capacityBytes() {
        return capacityBytes;
    }

    @Override
    public String source() {
        return "buddy chunks (Java)";
    }

    /** A run of pages: which chunk, and which node of its tree. */
    record Run(int chunk, int node) {
    }
}
