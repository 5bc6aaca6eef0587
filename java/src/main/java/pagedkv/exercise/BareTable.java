package pagedkv.exercise;

import java.util.ArrayList;
import java.util.List;
import pagedkv.pool.Pool;

/**
 * A block table without help: it notes blocks, and when it is closed it releases what it has noted. That each of them
 * was counted for it is up to whoever enters them.
 */
public final class BareTable implements AutoCloseable {

    private final Pool pool;
    private final String owner;
    private final List<Integer> blocks = new ArrayList<>();

    public BareTable(Pool pool, String owner) {
        this.pool = pool;
        this.owner = owner;
    }

    /**
     * Takes new blocks from the pool and enters them at the end.
     *
     * @throws pagedkv.pool.OutOfBlocksException if there are not so many; the table is as before
     */
    public void allocate(int numBlocks) {
        enter(pool.allocate(numBlocks, owner));
    }

    /** Enters blocks at the end. Counts nothing: {@code retain} them first, if somebody else holds them. */
    public void enter(int... more) {
        for (int block : more) {
            blocks.add(block);
        }
    }

    /** The physical blocks in logical order; a copy. */
    public int[] blocks() {
        return blocks.stream().mapToInt(Integer::intValue).toArray();
    }

    /** In whose name the pool is called. */
    public String owner() {
        return owner;
    }

    /** Releases every block that was entered, once; a second call does nothing. */
    @Override
    public void close() {
        pool.release(blocks(), owner);
        blocks.clear();
    }
}
