package pagedkv.article;

import pagedkv.experiments.ContiguousAllocator;

/**
 * Experiment 3 of the article: fragmentation of contiguous memory (N15).
 *
 * <p>Fault: 100 blocks, A takes 20, B takes 30, A leaves, and C is said to find no room for 25. But
 * blocks 50 to 99 were never used: C fits at 50. {@link pagedkv.experiments.FragmentationDemo} has
 * a layout in which the request does fail.
 */
public final class FragmentationDemo {

    private static final String CLAIM = "C (25 blocks) cannot be placed";

    /**
     * @param claim what the article says
     * @param totalFree the free blocks before C comes
     * @param largestFreeRun the most free blocks in a row before C comes
     * @param placedAt C's first block, or -1 if there is no room
     * @param layout one letter per block after C came, {@code .} for a free one
     */
    public record Result(String claim, int totalFree, int largestFreeRun, int placedAt, String layout) {}

    private FragmentationDemo() {}

    public static Result run() {
        var memory = new ContiguousAllocator(100);
        memory.allocate("A", 20);
        memory.allocate("B", 30);
        memory.free("A");
        int totalFree = memory.numFreeBlocks();
        int largestFreeRun = memory.largestFreeRun();
        int placedAt = memory.allocate("C", 25).orElse(-1);
        return new Result(CLAIM, totalFree, largestFreeRun, placedAt, memory.layout());
    }

    public static void main(String[] args) {
        var result = run();
        System.out.printf("claim: %s%n", result.claim());
        System.out.printf("free: %d blocks, at most %d in a row%n", result.totalFree(), result.largestFreeRun());
        System.out.printf("C is placed at %d%n", result.placedAt());
        System.out.println(result.layout());
    }
}
