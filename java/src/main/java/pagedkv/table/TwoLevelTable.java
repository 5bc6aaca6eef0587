package pagedkv.table;

import java.util.Arrays;

/**
 * Two levels: a hash table finds the sequence, a compact array holds its blocks (B6).
 *
 * <pre>
 *   sequence 7 ──▶ [ 9 | 4 | 7 ]      an int[] with exactly one place per block
 *   sequence 3 ──▶ [ 2 | 8 ]
 * </pre>
 *
 * <p>A lookup is one hash and one index, however long the sequence is. An append copies the array: with 16 tokens a
 * block that is one copy in 16 tokens, and no place is ever kept for a block that does not come. Where sequences become
 * very long, an array with places to spare is the better choice: the copies grow with the length.
 */
public final class TwoLevelTable implements TableStore {

    private final IdMap<int[]> tables = new IdMap<>();

    @Override
    public void append(long sequence, int physicalBlock) {
        int[] table = tables.get(sequence);
        int length = table == null ? 0 : table.length;
        int[] longer = length == 0 ? new int[1] : Arrays.copyOf(table, length + 1);
        longer[length] = physicalBlock;
        tables.put(sequence, longer);
    }

    @Override
    public int lookup(long sequence, int logicalBlock) {
        int[] table = Stores.known(tables.get(sequence), sequence);
        Stores.requireInside(logicalBlock, table.length, sequence);
        return table[logicalBlock];
    }

    @Override
    public int[] remove(long sequence) {
        return Stores.known(tables.remove(sequence), sequence);
    }

    @Override
    public long numBytes() {
        var total = new Stores.Sum(ObjectSizes.object(ObjectSizes.REFERENCE_BYTES) + tables.numBytes());
        tables.forEachValue(table -> total.add(ObjectSizes.intArray(table.length)));
        return total.bytes();
    }
}
