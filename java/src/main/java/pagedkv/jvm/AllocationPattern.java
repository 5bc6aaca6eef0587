package pagedkv.jvm;

import java.lang.management.ManagementFactory;
import java.lang.ref.Reference;

/**
 * One pattern of allocations for any collector: long-lived arrays between short-lived ones, then a large request.
 *
 * <p>The short-lived arrays die and leave holes, none of them longer than one array. An allocator that moves nothing
 * could not place the large array, although more than that is free. A collector that compacts can. With the numbers
 * below and {@code -Xmx64m} the heap has no room for all of it at once, so every collector has to do something.
 *
 * <p>Arguments: how many MiB each of the long- and the short-lived arrays take, the elements of each array in KiB, the
 * elements of the large array in MiB. Prints what happened as lines {@code name=value}.
 */
public final class AllocationPattern {

    private static final int MIB = 1 << 20;

    private AllocationPattern() {
    }

    public static void main(String[] args) {
        int eachMib = args.length > 0 ? Integer.parseInt(args[0]) : 23;
        int arrayKib = args.length > 1 ? Integer.parseInt(args[1]) : 64;
        int largeMib = args.length > 2 ? Integer.parseInt(args[2]) : 18;
        int pairs = eachMib * 1024 / arrayKib;
        var longLived = new byte[pairs][];
        var shortLived = new byte[pairs][];
        for (int i = 0; i < pairs; i++) {
            longLived[i] = new byte[arrayKib * 1024];
            shortLived[i] = new byte[arrayKib * 1024];
        }
        Reference.reachabilityFence(shortLived);
        shortLived = null; // all of them die at once
        byte[] large = null;
        try {
            large = new byte[largeMib * MIB];
        } catch (OutOfMemoryError notPlaced) {
            // told below, by placed=false
        }
        print("arrays", 2L * pairs);
        print("arrayBytes", arrayKib * 1024L);
        print("longLivedBytes", (long) pairs * arrayKib * 1024);
        print("largeBytes", (long) largeMib * MIB);
        System.out.println("placed=" + (large != null));
        print("usedBytes", ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed());
        Reference.reachabilityFence(longLived);
        Reference.reachabilityFence(large);
    }

    private static void print(String name, long value) {
        System.out.println(name + "=" + value);
    }
}
