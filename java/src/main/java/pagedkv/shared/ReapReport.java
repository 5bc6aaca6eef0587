package pagedkv.shared;

import java.util.List;
import java.util.stream.Collectors;

/**
 * What a reap found.
 *
 * @param dead one entry for each dead member
 * @param numHealedHints free blocks that had been hard to find since some member was killed, or is stopped, in the
 *     middle of an operation
 */
public record ReapReport(List<Reaped> dead, int numHealedHints) {

    public ReapReport {
        dead = List.copyOf(dead);
    }

    @Override
    public String toString() {
        var lines = dead.isEmpty() ? "no dead member"
                : dead.stream().map(Reaped::toString).collect(Collectors.joining("\n"));
        return lines + "\n" + numHealedHints + " hints healed";
    }
}
