package pagedkv.netty.tiers;

import java.util.Map;
import java.util.TreeMap;
import pagedkv.memory.Ledger;
import pagedkv.memory.Look;

/**
 * A large piece of the device's memory, 16 MiB by default, that hands out runs of pages (Netty's {@code PoolChunk}).
 *
 * <p>A request of a page or more gets the first free run of its size. A smaller one gets an element of a page, and that
 * page is a run of its own.
 */
public final class Chunk {

    private final long address;
    private final int pageBytes;
    private final int chunkBytes;
    private final BuddyTree tree;
    private final Map<Integer, Subpage> subpages = new TreeMap<>(); // by node
    private int freeBytes;

    /** The list this chunk is in; its lists keep it up to date. */
    ChunkList list;

    Chunk(long address, int pageBytes, BuddyTree tree) {
        this.address = address;
        this.pageBytes = pageBytes;
        this.tree = tree;
        chunkBytes = pageBytes << tree.maxOrder();
        freeBytes = chunkBytes;
    }

    /** A free run for {@code pageBytes · 2^k} bytes, or null. Looks name the nodes, {@code prefix} says of what. */
    Slot allocateRun(int normBytes, String prefix, Ledger log) {
        int node = takeNode(normBytes, prefix, Look.CHOSEN, log);
        return node == -1 ? null : new Slot(this, node, null, 0, addressOf(node), normBytes);
    }

    /** A page to be cut into elements of the pool's size, which joins the pool; or null. */
    Subpage allocateSubpage(SubpagePool pool, String prefix, Ledger log) {
        int elementBytes = pool.elementBytes();
        int node = takeNode(pageBytes, prefix, Look.LEADS_ON + "is cut into elements of " + elementBytes + " bytes", log);
        if (node == -1) {
            return null;
        }
        var subpage = new Subpage(this, node, addressOf(node), pageBytes, elementBytes);
        subpages.put(node, subpage);
        pool.add(subpage);
        return subpage;
    }

    private int takeNode(int runBytes, String prefix, String verdictOnChosen, Ledger log) {
        int depth = tree.maxOrder() - SizeClasses.log2(runBytes / pageBytes);
        int node = tree.allocateNode(depth, log.isWatched() ? (visited, verdict) -> log.look(prefix + "node " + visited,
                addressOf(visited), bytesOf(visited), verdict.equals(Look.CHOSEN) ? verdictOnChosen : verdict)
                : NodeVisitor.NONE);
        if (node != -1) {
            freeBytes -= runBytes;
        }
        return node;
    }

    /** Gives a run back: of a run's slot its own, of an element's slot the whole page. */
    void freeRun(Slot slot) {
        tree.freeNode(slot.node());
        freeBytes += bytesOf(slot.node());
        if (slot.subpage() != null) {
            subpages.remove(slot.node());
        }
    }

    /** Percent in use, as Netty counts: rounded up, but 100 only when nothing at all is free. */
    public int usagePercent() {
        int freePercent = (int) (freeBytes * 100L / chunkBytes);
        if (freePercent == 0 && freeBytes > 0) {
            return 99;
        }
        return 100 - freePercent;
    }

    /** How many chunks fit below its address. */
    public int index() {
        return (int) (address / chunkBytes);
    }

    public long address() {
        return address;
    }

    public int chunkBytes() {
        return chunkBytes;
    }

    /** Free in whole pages; free elements of a page that is cut up do not count. */
    public int freeBytes() {
        return freeBytes;
    }

    /** To be looked at: whoever allocates nodes here brings the chunk's books into disorder. */
    public BuddyTree tree() {
        return tree;
    }

    /** The pages that are cut into elements, by their node. */
    public Map<Integer, Subpage> subpages() {
        return Map.copyOf(subpages);
    }

    private long addressOf(int node) {
        return address + (long) tree.firstPage(node) * pageBytes;
    }

    private int bytesOf(int node) {
        return tree.numPages(node) * pageBytes;
    }

    @Override
    public String toString() {
        return "chunk %d, %d %% used".formatted(index(), usagePercent());
    }
}
