package pagedkv.jvm;

import java.util.ArrayList;
import java.util.EnumMap;
import java.util.List;
import java.util.Map;
import java.util.regex.Pattern;

/**
 * G1's heap at one moment: its regions and what each of them holds.
 *
 * <p>Source: the table "Heap Regions" in the JVM's answer to {@code VM.info}, which it writes while no collection can
 * run.
 *
 * @param regionSizeBytes the size of every region
 * @param firstAddress where region 0 starts
 * @param maxRegions how many regions the heap's address range has room for
 * @param committed the regions that are backed by memory, in the order of their addresses
 */
public record HeapRegions(long regionSizeBytes, long firstAddress, int maxRegions,
        List<HeapRegion> committed) {

    private static final Pattern HEAP = Pattern.compile(
            "garbage-first heap .*\\[0x([0-9a-f]+), 0x([0-9a-f]+)\\)");
    // |   3|0x00000000fc300000, 0x00000000fc400000, 0x00000000fc400000|100%|HC| …
    private static final Pattern REGION = Pattern.compile(
            "^\\| *(\\d+)\\|0x([0-9a-f]+), 0x([0-9a-f]+), 0x([0-9a-f]+)\\| *\\d+%\\| *(\\w+)\\|", Pattern.MULTILINE);

    /**
     * The heap as it is now.
     *
     * @throws IllegalStateException if this JVM runs another collector, or says what is not understood here
     */
    public static HeapRegions now() {
        Collector.requireG1();
        return parse(Diagnostics.ask("vmInfo"), Diagnostics.flag("G1HeapRegionSize"));
    }

    static HeapRegions parse(String vmInfo, long regionSizeBytes) {
        var heap = HEAP.matcher(vmInfo);
        var regions = new ArrayList<HeapRegion>();
        var row = REGION.matcher(vmInfo);
        while (row.find()) {
            long used = address(row.group(3)) - address(row.group(2));
            regions.add(new HeapRegion(Integer.parseInt(row.group(1)), RegionKind.ofLetters(row.group(5)), used));
        }
        if (!heap.find() || regions.isEmpty()) {
            throw new IllegalStateException("this JVM's answer to VM.info has no table of heap regions");
        }
        long first = address(heap.group(1));
        long reservedBytes = address(heap.group(2)) - first;
        return new HeapRegions(regionSizeBytes, first, (int) (reservedBytes / regionSizeBytes), List.copyOf(regions));
    }

    private static long address(String hexadecimal) {
        return Long.parseUnsignedLong(hexadecimal, 16);
    }

    /** How many committed regions there are of each kind. */
    public Map<RegionKind, Integer> counts() {
        var counts = new EnumMap<RegionKind, Integer>(RegionKind.class);
        for (RegionKind kind : RegionKind.values()) {
            counts.put(kind, 0);
        }
        committed.forEach(region -> counts.merge(region.kind(), 1, Integer::sum));
        return counts;
    }

    public int count(RegionKind kind) {
        return counts().get(kind);
    }

    public long usedBytes() {
        return committed.stream().mapToLong(HeapRegion::usedBytes).sum();
    }

    /** In one line, as {@code 64 regions of 1 MiB, 18 committed: 4 eden, 0 survivor, …}. */
    @Override
    public String toString() {
        var kinds = new ArrayList<String>();
        counts().forEach((kind, number) -> kinds.add(number + " " + kind));
        return "%d regions of %d MiB, %d committed: %s".formatted(
                maxRegions, regionSizeBytes >> 20, committed.size(), String.join(", ", kinds));
    }
}
