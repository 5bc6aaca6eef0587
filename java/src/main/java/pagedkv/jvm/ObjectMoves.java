package pagedkv.jvm;

import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.lang.ref.Reference;
import java.util.Optional;
import jdk.jfr.consumer.RecordedEvent;

/**
 * What a collection moves, without looking at a single address.
 *
 * <p>G1 empties the regions that it collects: whatever lives in them is copied to other regions first, and then the
 * whole region is free. So an array that lay in eden before a young collection and is still there afterwards was moved.
 * The flight recorder's event of the collection counts the bytes; the memory pools' beans do not, as they count eden in
 * whole regions.
 */
public final class ObjectMoves {

    private static final String YOUNG = "G1 Young Generation";
    private static final String FULL = "G1 Old Generation";
    private static final String EVACUATION = "jdk.EvacuationInformation";
    private static final int ARRAY_BYTES = 16 << 10;
    private static final int ATTEMPTS = 5;
    private static final int GARBAGE_LIMIT = 1 << 20; // arrays: 16 GiB; no eden is larger

    private static volatile Object sink;

    private ObjectMoves() {
    }

    /**
     * One young collection.
     *
     * @param keptBytes the array elements that we held on to
     * @param collectedRegions the regions that were collected
     * @param collectedBytes what they held before, live or not
     * @param freedRegions how many of them were free afterwards
     * @param copiedBytes what was copied out of them
     */
    public record Result(long keptBytes, int collectedRegions, long collectedBytes, int freedRegions,
            long copiedBytes) {
    }

    /** The same in a JVM of its own. Argument: the bytes to keep. Prints the result as lines {@code name=value}. */
    public static void main(String[] args) throws IOException {
        var result = ofOneYoungCollection(Long.parseLong(args[0]));
        System.out.println("keptBytes=" + result.keptBytes);
        System.out.println("collectedRegions=" + result.collectedRegions);
        System.out.println("collectedBytes=" + result.collectedBytes);
        System.out.println("freedRegions=" + result.freedRegions);
        System.out.println("copiedBytes=" + result.copiedBytes);
    }

    /**
     * Fills part of eden with arrays that stay alive, then allocates short-lived ones until G1 has collected.
     *
     * @throws IllegalStateException if this JVM runs another collector than G1, or its eden has no room for
     *     {@code keepBytes}
     */
    public static Result ofOneYoungCollection(long keepBytes) throws IOException {
        Collector.requireG1();
        var kept = new byte[Math.toIntExact(keepBytes / ARRAY_BYTES)][];
        for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
            var evacuation = evacuate(kept);
            if (evacuation.isPresent()) {
                return result((long) kept.length * ARRAY_BYTES, evacuation.get());
            }
        }
        throw new IllegalStateException("G1 collected before " + keepBytes + " bytes were allocated, each time: keep "
                + "fewer, or start the JVM with a larger -Xmx");
    }

    /** The first collection after all arrays are there; nothing if another one came in between, which moved them. */
    private static Optional<RecordedEvent> evacuate(byte[][] kept) throws IOException {
        System.gc(); // what is alive now is old afterwards, and eden empty: our arrays are what is there to be copied
        long young = collections(YOUNG);
        long full = collections(FULL);
        for (int i = 0; i < kept.length; i++) {
            kept[i] = new byte[ARRAY_BYTES];
        }
        try (var recording = new FlightRecording(EVACUATION)) {
            boolean early = collections(YOUNG) != young;
            for (int i = 0; i < GARBAGE_LIMIT && collections(YOUNG) == young; i++) {
                sink = new byte[ARRAY_BYTES];
            }
            sink = null;
            Reference.reachabilityFence(kept);
            // Anybody may ask for a full collection at any time; JPype does so by itself.
            return early || collections(FULL) != full ? Optional.empty() : recording.stop().stream().findFirst();
        }
    }

    private static Result result(long keptBytes, RecordedEvent evacuation) {
        return new Result(keptBytes, evacuation.getInt("cSetRegions"), evacuation.getLong("cSetUsedBefore"),
                evacuation.getInt("regionsFreed"), evacuation.getLong("bytesCopied"));
    }

    private static long collections(String collector) {
        return ManagementFactory.getGarbageCollectorMXBeans().stream()
                .filter(bean -> bean.getName().equals(collector)).findFirst().orElseThrow().getCollectionCount();
    }
}
