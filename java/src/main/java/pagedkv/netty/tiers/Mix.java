package pagedkv.netty.tiers;

import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import pagedkv.memory.Workload;

/**
 * Random requests of some kinds, the same for the same seed; at the end everything is freed.
 *
 * @param tiny how many of all requests are below 512 bytes; the next three likewise, as weights
 * @param small below a page
 * @param normal up to a chunk
 * @param huge up to two chunks
 * @param mostLiveBytes when the sizes asked for come to more than this, something is freed first
 */
public record Mix(String name, int tiny, int small, int normal, int huge, long mostLiveBytes) {

    /** A list of {@code numCalls} calls and the frees at the end. One call in twenty lets somebody's memory grow. */
    public Workload workload(Settings settings, long seed, int numCalls) {
        var random = new Random(seed);
        var calls = new ArrayList<Workload.Call>();
        var live = new ArrayList<Workload.Call>();
        long liveBytes = 0;
        while (calls.size() < numCalls) {
            boolean full = liveBytes > mostLiveBytes;
            int dice = random.nextInt(20);
            if (!live.isEmpty() && (full || dice < 8)) {
                var victim = live.remove(random.nextInt(live.size()));
                liveBytes -= victim.sizeBytes();
                calls.add(new Workload.Call("free", victim.owner(), 0));
            } else if (!live.isEmpty() && dice == 8) {
                int place = random.nextInt(live.size());
                var old = live.get(place);
                long more = old.sizeBytes() + 1 + random.nextInt((int) old.sizeBytes());
                more = Math.min(more, 2L * settings.chunkBytes());
                if (more > old.sizeBytes()) {
                    var grown = new Workload.Call("grow", old.owner(), more);
                    liveBytes += more - old.sizeBytes();
                    live.set(place, grown);
                    calls.add(grown);
                }
            } else {
                var call = new Workload.Call("allocate", "b" + calls.size(), size(settings, random));
                liveBytes += call.sizeBytes();
                live.add(call);
                calls.add(call);
            }
        }
        live.forEach(call -> calls.add(new Workload.Call("free", call.owner(), 0)));
        return Workload.of(calls);
    }

    private int size(Settings settings, Random random) {
        int kind = random.nextInt(tiny + small + normal + huge);
        if (kind < tiny) {
            return between(1, SizeClasses.FIRST_SMALL_BYTES - SizeClasses.QUANTUM_BYTES, random);
        }
        if (kind < tiny + small) {
            return spread(SizeClasses.FIRST_SMALL_BYTES, settings.pageBytes() / 2, random);
        }
        if (kind < tiny + small + normal) {
            return spread(settings.pageBytes() / 2 + 1, settings.chunkBytes(), random);
        }
        return between(settings.chunkBytes() + 1, 2 * settings.chunkBytes(), random);
    }

    private static int between(int least, int most, Random random) {
        return least + random.nextInt(most - least + 1);
    }

    /** Small sizes as often as large ones: each doubling is equally likely, and a power of two itself is frequent. */
    private static int spread(int least, int most, Random random) {
        if (random.nextInt(4) == 0) {
            int doublings = Integer.numberOfLeadingZeros(least) - Integer.numberOfLeadingZeros(most);
            return Math.max(least, Integer.highestOneBit(most) >> random.nextInt(doublings + 1));
        }
        return (int) Math.min(most, least * Math.pow((double) most / least, random.nextDouble()));
    }

    /** Several kinds of programs. */
    static List<Mix> all(long mostLiveBytes) {
        return List.of(new Mix("tiny and small", 6, 4, 0, 0, mostLiveBytes / 8),
                new Mix("single pages", 0, 1, 9, 0, mostLiveBytes),
                new Mix("all but huge", 4, 3, 3, 0, mostLiveBytes),
                new Mix("huge too", 3, 3, 3, 1, mostLiveBytes));
    }
}
