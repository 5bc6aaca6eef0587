package pagedkv.jvm;

import java.lang.ref.Reference;
import java.util.ArrayDeque;
import java.util.ArrayList;

/**
 * A server's day in one method: requests come and go, a few sessions stay, and at the end a file is read at once.
 *
 * <p>Made to be watched in a JVM of its own, with a young generation so small that collections come while requests are
 * in flight: these are copied, then die. Prints what it did as lines {@code name=value}.
 */
public final class Requests {

    private static final int NUM_REQUESTS = 1_500;
    private static final int NUM_IN_FLIGHT = 20;
    private static final int REQUESTS_PER_SESSION = 50;
    private static final int BODY_BYTES = 100_000;
    private static final int FILE_BYTES = 20 << 20;

    private Requests() {
    }

    public static void main(String[] args) {
        var inFlight = new ArrayDeque<byte[]>();
        var sessions = new ArrayList<byte[]>();
        for (int request = 0; request < NUM_REQUESTS; request++) {
            var body = new byte[BODY_BYTES];
            inFlight.add(body);
            if (inFlight.size() > NUM_IN_FLIGHT) {
                inFlight.remove();
            }
            if (request % REQUESTS_PER_SESSION == 0) {
                sessions.add(body);
            }
        }
        var file = new byte[FILE_BYTES];
        System.out.println("requests=" + NUM_REQUESTS);
        System.out.println("inFlight=" + inFlight.size());
        System.out.println("sessions=" + sessions.size());
        System.out.println("bodyBytes=" + BODY_BYTES);
        System.out.println("fileBytes=" + file.length);
        Reference.reachabilityFence(file);
    }
}
