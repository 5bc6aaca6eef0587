package pagedkv.netty.tiers;

import static org.junit.jupiter.api.Assertions.assertEquals;

import java.util.List;
import org.junit.jupiter.api.Test;
import pagedkv.netty.tiers.Reports.Line;

class ReportsTest {

    @Test
    void n10InterleavedLifetimesKeepTwiceTheMemory() {
        assertEquals(List.of(same("bytes in chunks", 32 << 20), same("bytes in live buffers", 16 << 20),
                same("used % of each chunk", "[50, 50]"), same("chunks", 2),
                same("chunks after a request for two pages", 3), same("chunks after everything is freed", 1)),
                Reports.interleavedLifetimes(2).lines());
    }

    @Test
    void n3OnePageKeepsItsChunk() {
        assertEquals(List.of(same("bytes in chunks, full", 16 << 20), same("bytes in chunks, one page left", 16 << 20),
                same("bytes in live buffers", 8192), same("bytes in chunks, no page left", 0)),
                Reports.allButOnePageFreed().lines());
    }

    @Test
    void n3EachArenaHasAChunkOfItsOwn() {
        assertEquals(List.of(same("bytes in chunks, arenas: 3", 48 << 20), same("bytes in chunks, arenas: 1", 16 << 20),
                same("bytes in live buffers", 3 * 1024)), Reports.oneChunkPerArena(3).lines());
    }

    @Test
    void aSliceWithItsOwnCountRefusesTheSecondRelease() {
        assertEquals(List.of(new Line("parent's refCnt, part handed out", "2", "2"),
                new Line("parent's refCnt, part released", "1", "1"),
                new Line("the part is released again", "works", "refused: refCnt: 0, decrement: 1"),
                new Line("parent's refCnt then", "0", "1"),
                new Line("the owner reads the parent", "refused: refCnt: 0", "works")),
                Reports.doubleReleaseOfASlice().lines());
    }

    private static Line same(String name, Object value) {
        return new Line(name, value.toString(), value.toString());
    }
}
