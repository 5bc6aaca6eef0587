package pagedkv.pool;

import java.util.ArrayList;
import java.util.List;
import java.util.stream.IntStream;

/** Records the events of a pool and counts references from them alone. */
public final class EventReplay implements PoolObserver {

    private final List<PoolEvent> events = new ArrayList<>();

    @Override
    public void onEvent(PoolEvent event) {
        events.add(event);
    }

    public List<PoolEvent> events() {
        return events;
    }

    public PoolEvent only() {
        if (events.size() != 1) {
            throw new AssertionError("one event expected, not " + events);
        }
        return events.get(0);
    }

    /** The reference counts after the last event. */
    public List<Integer> refcounts(int numBlocks) {
        var counts = new int[numBlocks];
        for (PoolEvent event : events) {
            if (event.detail().containsKey("error")) {
                continue;
            }
            int change = event.op().equals("release") ? -1 : 1;
            for (int block : event.blocks()) {
                counts[block] += change;
            }
        }
        return IntStream.of(counts).boxed().toList();
    }
}
