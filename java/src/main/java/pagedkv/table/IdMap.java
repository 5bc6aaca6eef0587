package pagedkv.table;

import java.util.function.Consumer;

/**
 * A hash table from sequence ids to objects, in two arrays: no node and no boxed id per entry.
 *
 * <pre>
 *   ids      [  · |  7 |  · |  3 ]      an id lies at its hash, or at the next free place after it
 *   values   [  · | t7 |  · | t3 ]      null marks a free place
 * </pre>
 *
 * <p>At most three quarters of the places are taken, so a search ends at a free one. The arrays never shrink.
 */
final class IdMap<V> {

    private static final int FIRST_CAPACITY = 16;
    /** 2<sup>64</sup> / golden ratio: multiplied by it, ids that follow each other lie far apart in the upper bits. */
    private static final long SPREAD = 0x9E3779B97F4A7C15L;

    private long[] ids = new long[FIRST_CAPACITY];
    private V[] values = newArray(FIRST_CAPACITY);
    private int size;

    /** The value of this id, or null. */
    V get(long id) {
        return values[placeOf(id)];
    }

    /** Enters the value; one that was there is replaced. */
    void put(long id, V value) {
        int place = placeOf(id);
        if (values[place] == null) {
            if (4 * (size + 1L) > 3L * ids.length) {
                grow();
                place = placeOf(id);
            }
            size++;
        }
        ids[place] = id;
        values[place] = value;
    }

    /** Takes the value out and returns it; null if there was none. */
    V remove(long id) {
        int hole = placeOf(id);
        V removed = values[hole];
        if (removed == null) {
            return null;
        }
        size--;
        int mask = ids.length - 1;
        // Close the gap: a later entry that a search would now miss, because it would stop at the hole, moves into it.
        for (int place = hole + 1 & mask; values[place] != null; place = place + 1 & mask) {
            int stepsFromHome = place - homeOf(ids[place]) & mask;
            int stepsFromHole = place - hole & mask;
            if (stepsFromHome >= stepsFromHole) {
                ids[hole] = ids[place];
                values[hole] = values[place];
                hole = place;
            }
        }
        values[hole] = null;
        return removed;
    }

    void forEachValue(Consumer<V> consumer) {
        for (V value : values) {
            if (value != null) {
                consumer.accept(value);
            }
        }
    }

    /** This object and its two arrays; the values are the caller's. */
    long numBytes() {
        return ObjectSizes.object(2 * ObjectSizes.REFERENCE_BYTES + Integer.BYTES)
                + ObjectSizes.longArray(ids.length) + ObjectSizes.referenceArray(values.length);
    }

    /** Where the id lies, or the free place where it would go. */
    private int placeOf(long id) {
        int mask = ids.length - 1;
        int place = homeOf(id);
        while (values[place] != null && ids[place] != id) {
            place = place + 1 & mask;
        }
        return place;
    }

    private int homeOf(long id) {
        return (int) (id * SPREAD >>> 64 - Integer.numberOfTrailingZeros(ids.length));
    }

    private void grow() {
        long[] oldIds = ids;
        V[] oldValues = values;
        ids = new long[2 * oldIds.length];
        values = newArray(2 * oldIds.length);
        for (int old = 0; old < oldIds.length; old++) {
            if (oldValues[old] != null) {
                int place = placeOf(oldIds[old]);
                ids[place] = oldIds[old];
                values[place] = oldValues[old];
            }
        }
    }

    @SuppressWarnings("unchecked") // the array never leaves this class, and only a V is ever put into it
    private static <V> V[] newArray(int length) {
        return (V[]) new Object[length];
    }
}
