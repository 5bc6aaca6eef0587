package pagedkv.memory;

import java.util.Collections;
import java.util.List;
import java.util.Map;

/**
 * One call of an allocator. Replaying the changes of all events in order gives the layout at every step.
 *
 * @param step how many observed calls came before this one
 * @param op {@code allocate}, {@code grow} or {@code free}; an allocator's own work has a name of its own
 * @param owner the caller's label, or null
 * @param sizeBytes what was asked for (allocate, grow), or what the owner had asked for (free)
 * @param changes what the call did, in order
 * @param detail {@code decision} (a {@link Decision}); of a refused call {@code error} and {@code message};
 *     {@code device_calls} (a map such as malloc → 1); of a grow that copied {@code moved_bytes}; {@code skipped} for
 *     a call of a workload that has lost its object
 */
public record MemoryEvent(long step, String op, String owner, long sizeBytes, List<Change> changes,
        Map<String, Object> detail) {

    public MemoryEvent {
        changes = List.copyOf(changes);
        detail = Collections.unmodifiableMap(detail);
    }

    public boolean refused() {
        return detail.containsKey("error");
    }

    MemoryEvent withStep(long otherStep) {
        return new MemoryEvent(otherStep, op, owner, sizeBytes, changes, detail);
    }
}
