package pagedkv.memory;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Runs a workload on an allocator and brings back one event per call: event i belongs to call i.
 *
 * <p>A call can lose its object: after a refused allocate there is nothing to grow or free. Such a call is not made,
 * and its event says {@code skipped}.
 */
public final class WorkloadRunner {

    private WorkloadRunner() {
    }

    /** The events of a new run; the allocator is observed by nobody afterwards. */
    public static List<MemoryEvent> run(Workload workload, MemoryAllocator allocator) {
        var events = new ArrayList<MemoryEvent>();
        var handles = new HashMap<String, MemoryHandle>();
        allocator.observe(event -> events.add(event.withStep(events.size())));
        try {
            for (Workload.Call call : workload.calls()) {
                if (!call.op().equals("allocate") && !handles.containsKey(call.owner())) {
                    events.add(new MemoryEvent(events.size(), call.op(), call.owner(), call.sizeBytes(), List.of(),
                            Map.of("skipped", true)));
                    continue;
                }
                try {
                    carryOut(call, allocator, handles);
                } catch (OutOfDeviceMemoryException refusal) {
                    // the event says so
                }
            }
        } finally {
            allocator.observe(null);
        }
        return events;
    }

    private static void carryOut(Workload.Call call, MemoryAllocator allocator, Map<String, MemoryHandle> handles) {
        switch (call.op()) {
            case "allocate" -> handles.put(call.owner(), allocator.allocate(call.owner(), call.sizeBytes()));
            case "grow" -> handles.put(call.owner(), allocator.grow(handles.get(call.owner()), call.sizeBytes()));
            default -> allocator.free(handles.remove(call.owner()));
        }
    }
}
