package pagedkv.jvm;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What only a JVM with G1 can show. The small machines of some build services start with Serial. */
class G1DemosTest {

    private static final Path TEMPORARY = Path.of(System.getProperty("java.io.tmpdir"));

    @BeforeEach
    void needsG1() {
        assumeTrue(Collector.running() == Collector.G1, "this JVM does not run G1");
    }

    @Test
    void humongousArraysTakeWholeRegions() throws IOException {
        long region = Diagnostics.flag("G1HeapRegionSize");
        long header = Humongous.headerBytes();
        var results = Humongous.aroundTheLimits();
        assertEquals(List.of(0, 1, 1, 2, 2, 4), results.stream().map(Humongous.Result::regions).toList());
        for (var result : results) {
            assertEquals(result.arrayBytes() + header, result.objectBytes());
            long given = result.regions() * region;
            assertEquals(given == 0 ? 0 : given - result.objectBytes(), result.wastedBytes());
        }
    }

    @Test
    void theLogTellsOfAHumongousArrayAndIsGoneAfterwards() throws IOException {
        byte[] array;
        String text;
        try (var log = new RegionLog()) {
            array = new byte[(int) log.before().regionSizeBytes()];
            text = log.text();
            assertEquals(1, leftovers("pagedkv-regions-").size());
            log.close();
        }
        assertTrue(text.contains("ALLOC(HUMS)") && text.contains("ALLOC(HUMC)"), text);
        assertTrue(array.length > 0);
        assertEquals(List.of(), leftovers("pagedkv-regions-"));
        assertFalse(Diagnostics.ask("vmLog", "list").contains("pagedkv-regions-"));
    }

    @Test
    void mostObjectsAreAllocatedWithoutAnEvent() throws IOException, InterruptedException {
        int large = (int) Diagnostics.flag("G1HeapRegionSize");
        var rounds = TlabTrace.run(new int[] {20_000, 100_000}, 48, large);
        assertEquals(List.of(20_000, 100_000), rounds.stream().map(TlabTrace.Result::objects).toList());
        for (var round : rounds) {
            assertTrue(round.tlabBytes().size() + round.outsideBytes().size() < round.objects() / 10, round.toString());
            assertEquals(large + Humongous.headerBytes(),
                    round.outsideBytes().get(round.outsideBytes().size() - 1));
        }
        assertEquals(List.of(), leftovers("pagedkv-jfr-"));
    }

    @Test
    void aYoungCollectionCopiesWhatIsAlive() throws IOException {
        var move = ObjectMoves.ofOneYoungCollection(1 << 20);
        assertEquals(1 << 20, move.keptBytes());
        assertTrue(move.copiedBytes() >= move.keptBytes(), move.toString());
        assertTrue(move.collectedBytes() >= move.copiedBytes(), move.toString());
        assertTrue(move.collectedRegions() > 0, move.toString());
        assertEquals(move.collectedRegions(), move.freedRegions());
        assertEquals(List.of(), leftovers("pagedkv-jfr-"));
    }

    private static List<Path> leftovers(String prefix) throws IOException {
        var found = new ArrayList<Path>();
        try (var files = Files.newDirectoryStream(TEMPORARY, prefix + ProcessHandle.current().pid() + "-*")) {
            files.forEach(found::add);
        }
        return found;
    }
}
