package pagedkv.netty.tiers;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.util.ResourceLeakDetector;
import java.util.List;
import org.junit.jupiter.api.Test;
import pagedkv.netty.tiers.Versions.CacheUse;
import pagedkv.netty.tiers.Versions.Default;
import pagedkv.netty.tiers.Versions.Rounding;

class VersionsTest {

    @Test
    void n3SizeClassesBecameFinerIn4_1_52() {
        var rows = Versions.rounding(16, 520, 5_000, 9_000);
        assertEquals(List.of(16, 1024, 8192, 16_384), rows.stream().map(Rounding::pooled4148).toList());
        assertEquals(List.of(16, 640, 5120, 10_240), rows.stream().map(Rounding::pooled42).toList());
        for (Rounding row : rows) {
            assertEquals(row.pooled4148(), SizeClasses.normalizeCapacity(row.sizeBytes()));
            assertTrue(row.adaptive42() >= row.sizeBytes());
        }
    }

    @Test
    void n3DefaultsThenAndNow() {
        var rows = Versions.defaults();
        assertTrue(rows.contains(
                new Default("ByteBufAllocator.DEFAULT", "PooledByteBufAllocator", "AdaptiveByteBufAllocator")));
        assertTrue(rows.contains(new Default("chunk, bytes", "16777216", "4194304")));
        assertTrue(rows.contains(new Default("thread caches for all threads", "true", "false")));
        assertTrue(Versions.onClassPath().startsWith("4.2."));
    }

    @Test
    void n4APlainThreadHasNoCacheSince4_1_75() {
        assertEquals(List.of(new CacheUse("plain thread", 500, 0), new CacheUse("FastThreadLocalThread", 500, 499),
                new CacheUse("plain thread, useCacheForAllThreads", 500, 499)), Versions.cacheUse(500));
    }

    /** What it measures is the machine's affair; that it measures, and puts the leak detector back, is ours. */
    @Test
    void n4TimesBothWays() {
        var level = ResourceLeakDetector.getLevel();
        var time = Versions.cacheTime(2, 1_000);
        assertTrue(time.cachedNanos() > 0 && time.uncachedNanos() > 0, time.toString());
        assertEquals(level, ResourceLeakDetector.getLevel());
    }
}
