package pagedkv.jvm;

import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import jdk.jfr.Event;
import jdk.jfr.Name;
import jdk.jfr.StackTrace;
import jdk.jfr.consumer.RecordedEvent;

/**
 * Thread-local allocation buffers, as the flight recorder reports them.
 *
 * <p>A thread allocates in its TLAB by moving a pointer: nobody is asked and nothing is reported. Two things are
 * reported: an object that did not fit any more, so that the thread took a <em>new TLAB</em> for it, and an object for
 * which none was taken and which was placed <em>outside</em>, in the heap that all threads share. A collection takes
 * all TLABs away; the next ones get a size that suits what the thread has allocated lately.
 *
 * <p>One thread of our own does the work, and only its events are counted: the rest of the process allocates too.
 */
public final class TlabTrace {

    private static final String NEW_TLAB = "jdk.ObjectAllocationInNewTLAB";
    private static final String OUTSIDE = "jdk.ObjectAllocationOutsideTLAB";
    private static final String ROUND = "pagedkv.jvm.Round";

    private static volatile Object sink; // seen by other threads: the compiler cannot leave the objects out

    private TlabTrace() {
    }

    @Name(ROUND)
    @StackTrace(false)
    static final class Round extends Event {
    }

    /**
     * One round of the work. The collection before it has set the size of its TLABs.
     *
     * @param objects how many small objects were allocated
     * @param objectBytes the size of each of them, without its header
     * @param tlabBytes the size of every TLAB that the thread took, in order
     * @param outsideBytes the size of every object that was placed outside a TLAB, in order
     */
    public record Result(int objects, int objectBytes, List<Long> tlabBytes, List<Long> outsideBytes) {
    }

    /**
     * The same in a JVM of its own. Arguments: the size of the small objects, then their number in each round. The
     * large array has as many bytes as a region. Prints the results as lines {@code name=value}, one set for each round.
     */
    public static void main(String[] args) throws IOException, InterruptedException {
        Collector.requireG1();
        int[] numbers = Arrays.stream(args).mapToInt(Integer::parseInt).toArray();
        int largeBytes = Math.toIntExact(Diagnostics.flag("G1HeapRegionSize"));
        System.out.println("largeBytes=" + largeBytes);
        int round = 0;
        for (Result each : run(Arrays.copyOfRange(numbers, 1, numbers.length), numbers[0], largeBytes)) {
            System.out.println("objects." + round + "=" + each.objects);
            System.out.println("tlabBytes." + round + "=" + inOneLine(each.tlabBytes));
            System.out.println("outsideBytes." + round + "=" + inOneLine(each.outsideBytes));
            round++;
        }
    }

    private static String inOneLine(List<Long> sizes) {
        return sizes.stream().map(String::valueOf).collect(Collectors.joining(" "));
    }

    /**
     * For each number in {@code objects} one round: a collection, so many small arrays, then one array of
     * {@code largeBytes}. No TLAB is larger than half a G1 region, so an array longer than that goes outside.
     */
    public static List<Result> run(int[] objects, int objectBytes, int largeBytes)
            throws IOException, InterruptedException {
        var events = record(() -> {
            for (int number : objects) {
                var round = new Round(); // made before the collection, so that it takes none of the new buffers
                System.gc();
                round.commit();
                for (int i = 0; i < number; i++) {
                    sink = new byte[objectBytes];
                }
                sink = new byte[largeBytes];
            }
            sink = null;
        });
        var results = new ArrayList<Result>();
        for (RecordedEvent event : events) {
            switch (event.getEventType().getName()) {
                case ROUND -> results.add(new Result(objects[results.size()], objectBytes, new ArrayList<>(),
                        new ArrayList<>()));
                case NEW_TLAB -> results.get(results.size() - 1).tlabBytes().add(event.getLong("tlabSize"));
                default -> results.get(results.size() - 1).outsideBytes().add(event.getLong("allocationSize"));
            }
        }
        return results;
    }

    /** The events of a thread that runs {@code work}, from its first round on, in the order of time. */
    private static List<RecordedEvent> record(Runnable work) throws IOException, InterruptedException {
        var thread = new Thread(work, "tlab trace");
        try (var recording = new FlightRecording(NEW_TLAB, OUTSIDE, ROUND)) {
            thread.start();
            thread.join();
            return recording.stop().stream()
                    .filter(event -> event.getThread() != null
                            && event.getThread().getJavaThreadId() == thread.getId())
                    .dropWhile(event -> !event.getEventType().getName().equals(ROUND))
                    .toList();
        }
    }
}
