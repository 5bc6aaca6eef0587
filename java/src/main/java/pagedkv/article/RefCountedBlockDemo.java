package pagedkv.article;

/**
 * Experiment 1 of the article: allocate, retain, release (N13), and then what it does not try.
 *
 * <p>The first three steps are the article's and work. The faults show when a block is released
 * twice or retained while free: see {@link RefCountedBlockPool}.
 */
public final class RefCountedBlockDemo {

    private static final int NUM_BLOCKS = 8;

    /**
     * @param sharedRefcount the count after allocate and retain
     * @param freeAfterAllReleases what is free after the two releases that are due
     * @param freeAfterDoubleRelease what is free after one release too many
     * @param refcountAfterDoubleRelease the count of that block
     * @param blockOfA what the next owner is given
     * @param blockOfB what the owner after that is given
     * @param refcountAfterRetainOfFree the count of a free block that somebody retained
     */
    public record Result(
            int numBlocks,
            int sharedRefcount,
            int freeAfterAllReleases,
            int freeAfterDoubleRelease,
            int refcountAfterDoubleRelease,
            int blockOfA,
            int blockOfB,
            int refcountAfterRetainOfFree) {}

    private RefCountedBlockDemo() {}

    public static Result run() {
        var pool = new RefCountedBlockPool(NUM_BLOCKS);
        int block = pool.allocate(1)[0];
        pool.retain(block);
        int sharedRefcount = pool.refcount(block);
        pool.release(block);
        pool.release(block);
        int freeAfterAllReleases = pool.numFreeBlocks();

        pool.release(block);
        int freeAfterDoubleRelease = pool.numFreeBlocks();
        int refcountAfterDoubleRelease = pool.refcount(block);
        int blockOfA = pool.allocate(1, "A")[0];
        int blockOfB = pool.allocate(1, "B")[0];

        return new Result(
                NUM_BLOCKS,
                sharedRefcount,
                freeAfterAllReleases,
                freeAfterDoubleRelease,
                refcountAfterDoubleRelease,
                blockOfA,
                blockOfB,
                refcountAfterRetainOfFree());
    }

    private static int refcountAfterRetainOfFree() {
        var pool = new RefCountedBlockPool(NUM_BLOCKS);
        pool.retain(0);
        return pool.refcount(0);
    }

    public static void main(String[] args) {
        var result = run();
        System.out.printf("allocate, retain:      refcount %d%n", result.sharedRefcount());
        System.out.printf("release, release:      %d of %d free%n", result.freeAfterAllReleases(), result.numBlocks());
        System.out.printf(
                "release once too often: %d of %d free, refcount %d%n",
                result.freeAfterDoubleRelease(), result.numBlocks(), result.refcountAfterDoubleRelease());
        System.out.printf("A is given block %d, B is given block %d%n", result.blockOfA(), result.blockOfB());
        System.out.printf("retain of a free block: refcount %d, no complaint%n", result.refcountAfterRetainOfFree());
    }
}
