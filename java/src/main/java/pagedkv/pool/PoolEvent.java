package pagedkv.pool;

import java.util.Arrays;
import java.util.Collections;
import java.util.Map;

/**
 * One call of a pool. Replaying the events in order gives the reference counts at every step.
 *
 * <p>The event keeps its own copy of {@code blocks}: what a caller later writes into its array does
 * not change the past. Compare events field by field; {@code equals} sees two arrays as different.
 *
 * @param step how many observed calls came before this one
 * @param op {@code allocate}, {@code retain} or {@code release}
 * @param owner the caller's label, or null
 * @param blocks the blocks given out or asked for; empty for a refused allocate
 * @param detail empty, or for a refused call {@code error} (its kind), {@code message}, and for
 *     allocate {@code requested_blocks}
 */
public record PoolEvent(long step, String op, String owner, int[] blocks, Map<String, Object> detail) {

    public PoolEvent {
        blocks = blocks.clone();
        detail = Collections.unmodifiableMap(detail);
    }

    @Override
    public String toString() {
        return "%d %s %s %s %s".formatted(step, op, owner, Arrays.toString(blocks), detail);
    }
}
