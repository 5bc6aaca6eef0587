package pagedkv.netty.tiers;

import java.util.List;
import java.util.Map;

/**
 * An arena in numbers, under the names of Netty's {@code PoolArenaMetric}.
 *
 * @param numActiveChunks chunks taken from the device and not yet given back
 * @param usagePercent by chunk list: how full each of its chunks is, in the order in which they are asked
 * @param allocations by size class; what a thread cache served does not count
 * @param deallocations by size class; what went into a thread cache does not count
 * @param numActiveBytes all chunks and huge pieces
 */
public record ArenaMetrics(int numThreadCaches, int numActiveChunks, Map<String, List<Integer>> usagePercent,
        Map<SizeClass, Long> allocations, Map<SizeClass, Long> deallocations, long numActiveBytes) {
}
