package pagedkv.experiments;

import pagedkv.pool.BlockPool;
import pagedkv.pool.OutOfBlocksException;
import pagedkv.pool.Pool;

/**
 * The same workload on contiguous and on paged memory (N15, correct form).
 *
 * <p>It shows fragmentation, and not just a full memory, because both hold when E asks for 25 of
 * 100 blocks: enough are free in total (40), and no free run is long enough (20 at most).
 *
 * <pre>
 *   A 20 | B 30 | C 20 | D 30      then A and C leave
 *   .... | BBBB | .... | DDDD
 * </pre>
 */
public final class FragmentationDemo {

    private static final int NUM_BLOCKS = 100;
    private static final int REQUEST = 25;

    /**
     * @param requestedBlocks what E asks for
     * @param contiguousFree the free blocks when E comes, contiguous memory
     * @param largestFreeRun the most of them in a row
     * @param contiguousFits whether E finds room there
     * @param pagedFree the free blocks when E comes, paged memory
     * @param pagedFits whether E finds room there
     * @param layout contiguous memory when E comes, one letter per block
     */
    public record Result(
            int requestedBlocks,
            int contiguousFree,
            int largestFreeRun,
            boolean contiguousFits,
            int pagedFree,
            boolean pagedFits,
            String layout) {}

    private FragmentationDemo() {}

    public static Result run() {
        var contiguous = contiguousWithHoles();
        var layout = contiguous.layout();
        int contiguousFree = contiguous.numFreeBlocks();
        int largestFreeRun = contiguous.largestFreeRun();
        boolean contiguousFits = contiguous.allocate("E", REQUEST).isPresent();

        var paged = pagedWithHoles();
        int pagedFree = paged.numFreeBlocks();
        boolean pagedFits = fits(paged);
        return new Result(REQUEST, contiguousFree, largestFreeRun, contiguousFits, pagedFree, pagedFits, layout);
    }

    private static ContiguousAllocator contiguousWithHoles() {
        var memory = new ContiguousAllocator(NUM_BLOCKS);
        memory.allocate("A", 20);
        memory.allocate("B", 30);
        memory.allocate("C", 20);
        memory.allocate("D", 30);
        memory.free("A");
        memory.free("C");
        return memory;
    }

    private static Pool pagedWithHoles() {
        var pool = new BlockPool(NUM_BLOCKS);
        var a = pool.allocate(20, "A");
        pool.allocate(30, "B");
        var c = pool.allocate(20, "C");
        pool.allocate(30, "D");
        pool.release(a, "A");
        pool.release(c, "C");
        return pool;
    }

    private static boolean fits(Pool pool) {
        try {
            pool.allocate(REQUEST, "E");
            return true;
        } catch (OutOfBlocksException full) {
            return false;
        }
    }

    public static void main(String[] args) {
        var result = run();
        System.out.println(result.layout());
        System.out.printf(
                "contiguous: %d free, at most %d in a row; a request for %d %s%n",
                result.contiguousFree(), result.largestFreeRun(), result.requestedBlocks(),
                outcome(result.contiguousFits()));
        System.out.printf(
                "paged:      %d free; a request for %d %s%n",
                result.pagedFree(), result.requestedBlocks(), outcome(result.pagedFits()));
    }

    private static String outcome(boolean fits) {
        return fits ? "succeeds" : "fails";
    }
}
