package pagedkv.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import org.junit.jupiter.api.Test;

class HeapRegionsTest {

    private static final String JDK_17 = """
            Heap:
             garbage-first heap   total 18432K, used 9181K [0x00000000fc000000, 0x0000000100000000)
              region size 1024K, 4 young (4096K), 0 survivors (0K)
            Heap Regions: E=young(eden), S=young(survivor), O=old, HS=humongous(starts), HC=humongous(continues)
            |   0|0x00000000fc000000, 0x00000000fc100000, 0x00000000fc100000|100%|HS|  |TAMS 0x0|
            |   1|0x00000000fc100000, 0x00000000fc200000, 0x00000000fc200000|100%|HC|  |TAMS 0x0|
            |  12|0x00000000fcc00000, 0x00000000fcc0a548, 0x00000000fcd00000|  4%| E|CS|TAMS 0x0|
            |  13|0x00000000fcd00000, 0x00000000fcd00000, 0x00000000fce00000|  0%| F|  |TAMS 0x0|
            |  62|0x00000000ffe00000, 0x00000000ffe75000, 0x00000000fff00000| 45%|OA|  |TAMS 0x0|
            """;
    private static final String JDK_25 = """
             garbage-first heap   total reserved 65536K, used 14189K [0x00000000fc000000, 0x0000000100000000)
            |   8|0x00000000fc800000, 0x00000000fc8b7bb8, 0x00000000fc900000| 71%| E|  |TAMS 0x0| PB 0x0|
            |  62|0x00000000ffe00000, 0x00000000fff00000, 0x00000000fff00000|100%| O|  |TAMS 0x0| PB 0x0|
            """;

    @Test
    void readsTheTableOfJdk17() {
        var heap = HeapRegions.parse(JDK_17, 1 << 20);
        assertEquals(64, heap.maxRegions());
        assertEquals(0xfc000000L, heap.firstAddress());
        assertEquals("64 regions of 1 MiB, 5 committed: 1 eden, 0 survivor, 0 old, 2 humongous, 1 archive, 1 free",
                heap.toString());
        assertEquals(new HeapRegion(12, RegionKind.EDEN, 0xa548), heap.committed().get(2));
    }

    @Test
    void readsTheTableOfJdk25() {
        var heap = HeapRegions.parse(JDK_25, 1 << 20);
        assertEquals(1, heap.count(RegionKind.EDEN));
        assertEquals(1, heap.count(RegionKind.OLD));
        assertEquals(0xb7bb8 + (1 << 20), heap.usedBytes());
    }

    @Test
    void anAnswerWithoutTheTableIsRefused() {
        var error = assertThrows(IllegalStateException.class, () -> HeapRegions.parse("Heap: nothing", 1 << 20));
        assertTrue(error.getMessage().contains("no table of heap regions"), error.getMessage());
    }

    @Test
    void readsThisJvm() {
        assumeTrue(Collector.running() == Collector.G1, "this JVM does not run G1");
        var heap = HeapRegions.now();
        assertEquals(1, Long.bitCount(heap.regionSizeBytes()));
        assertTrue(heap.committed().size() <= heap.maxRegions());
        assertTrue(heap.usedBytes() > 0);
        assertEquals(heap.committed().size(), heap.counts().values().stream().mapToInt(Integer::intValue).sum());
    }

    @Test
    void anotherCollectorIsNamed() {
        assumeTrue(Collector.running() != Collector.G1, "this JVM runs G1");
        var error = assertThrows(IllegalStateException.class, HeapRegions::now);
        assertTrue(error.getMessage().contains("-XX:+UseG1GC"), error.getMessage());
    }
}
