package pagedkv.netty.tiers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotEquals;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.buffer.PooledByteBufAllocator;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import pagedkv.memory.Workload;

/** Ours and real Netty 4.1.48, call by call. */
class ComparisonTest {

    @ParameterizedTest
    @ValueSource(longs = {1, 20_200_317})
    void n3SeveralMixesWithAndWithoutThreadCache(long seed) {
        var results = Comparison.all(1_500, seed);
        assertEquals(24, results.size());
        results.forEach(result -> assertTrue(result.allEqual(), result.toString()));
        long hits = results.stream().flatMap(result -> result.rows().stream())
                .filter(row -> row.name().equals("served by the thread cache"))
                .mapToLong(row -> Long.parseLong(row.real())).sum();
        assertTrue(hits > 1_000, "the caches served " + hits);
    }

    /** More than 8192 requests: the caches are trimmed several times. */
    @Test
    void n4TrimsInStep() {
        var mix = new Mix("tiny, small and pages", 4, 3, 1, 0, 1 << 20);
        var result = Comparison.of(mix, Settings.DEFAULT.withChunk(8192, 6), 3, 40_000);
        assertTrue(result.allEqual(), result.toString());
        var row = result.rows().stream().filter(r -> r.name().equals("given back to it, tiny"))
                .findFirst().orElseThrow();
        assertNotEquals("0", row.real()); // only trims bring tiny pieces back here
    }

    @Test
    void aWorkloadAsTextCanBeCompared() {
        var result = Comparison.of("mine", Workload.parse("a A 5000\ng A 9000\na B 17M\nf A\nf B"), Settings.DEFAULT);
        assertTrue(result.allEqual(), result.toString());
        assertEquals(5, result.numCalls());
    }

    /** The comparison notices: a search that takes the rightmost run gives other places. */
    @Test
    void anotherSearchIsFoundDifferent() {
        TreeSearch rightmost = (memoryMap, depth) -> {
            int node = 1;
            if (memoryMap[1] > depth) {
                return -1;
            }
            while (BuddyTree.depthOf(node) < depth) {
                node = memoryMap[2 * node + 1] <= depth ? 2 * node + 1 : 2 * node;
            }
            return node;
        };
        var result = Comparison.of("rightmost", Workload.parse("a A 8192"), Settings.DEFAULT.withSearch(rightmost));
        assertFalse(result.allEqual());
        assertNotNull(result.firstDifference());
        var same = Comparison.of("Netty's", Workload.parse("a A 8192"),
                Settings.DEFAULT.withSearch(new LeftmostSearch()));
        assertTrue(same.allEqual());
    }

    /** And ours without a cache against ours with one: other numbers, so that equal ones mean something. */
    @Test
    void theThreadCacheChangesWhatIsCompared() {
        var mix = new Mix("tiny", 1, 0, 0, 0, 10_000);
        var cached = Comparison.of(mix, Settings.DEFAULT, 1, 500);
        var uncached = Comparison.of(mix, Settings.DEFAULT.withoutCache(), 1, 500);
        assertNotEquals(cached.rows(), uncached.rows());
    }

    @Test
    void theTwoNettysAreTwoVersions() {
        assertEquals(11, RealNetty.setting("defaultMaxOrder"));
        assertEquals(9, PooledByteBufAllocator.defaultMaxOrder());
        assertTrue(RealNetty.isThere());
        assertEquals(List.of(), new RealNetty(Settings.DEFAULT).metrics(0).usagePercent().get("qInit"));
    }
}
