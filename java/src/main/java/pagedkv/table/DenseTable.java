package pagedkv.table;

import java.util.Arrays;

/**
 * One rectangle: a row per sequence, a column per logical block, everything reserved in advance (B6).
 *
 * <pre>
 *               0   1   2   3   …   columns - 1
 *   row 0     [ 9 | 4 | 7 | · | · | · ]      3 blocks
 *   row 1     [ · | · | · | · | · | · ]      free
 *   row 2     [ 2 | 8 | · | · | · | · ]      2 blocks
 * </pre>
 *
 * <p>A lookup is a multiplication and an index; nothing is searched and nothing is ever allocated. The price is that
 * each row is as wide as the longest sequence may become, and that a sequence's id has to be the number of its row.
 * GPU kernels read such a rectangle; it is then as wide as the longest sequence of one batch.
 */
public final class DenseTable implements TableStore {

    private final int rows;
    private final int columns;
    private final int[] cells;
    private final int[] lengths;

    /**
     * @param rows how many sequences there may be at once
     * @param columns how many blocks the longest of them may have
     */
    public DenseTable(int rows, int columns) {
        if (rows < 1 || columns < 1) {
            throw new IllegalArgumentException("a table has at least 1 row and 1 column, not %d and %d"
                    .formatted(rows, columns));
        }
        this.rows = rows;
        this.columns = columns;
        cells = new int[Math.multiplyExact(rows, columns)];
        lengths = new int[rows];
    }

    /** The cells alone of a table of this size, without making one: 4 bytes each. */
    public static long cellBytes(int rows, int columns) {
        return (long) Integer.BYTES * rows * columns;
    }

    @Override
    public void append(long sequence, int physicalBlock) {
        if (sequence < 0 || sequence >= rows) {
            throw new IllegalArgumentException("no row for sequence %d: a dense table of %d rows takes ids 0 to %d"
                    .formatted(sequence, rows, rows - 1));
        }
        int row = (int) sequence;
        if (lengths[row] == columns) {
            throw new IllegalStateException("sequence %d has %d blocks already: the table is not wider"
                    .formatted(sequence, columns));
        }
        cells[row * columns + lengths[row]++] = physicalBlock;
    }

    @Override
    public int lookup(long sequence, int logicalBlock) {
        int row = rowOf(sequence);
        Stores.requireInside(logicalBlock, lengths[row], sequence);
        return cells[row * columns + logicalBlock];
    }

    @Override
    public int[] remove(long sequence) {
        int row = rowOf(sequence);
        int[] blocks = Arrays.copyOfRange(cells, row * columns, row * columns + lengths[row]);
        lengths[row] = 0;
        return blocks;
    }

    @Override
    public long numBytes() {
        return ObjectSizes.object(2 * Integer.BYTES + 2 * ObjectSizes.REFERENCE_BYTES)
                + ObjectSizes.intArray(cells.length) + ObjectSizes.intArray(lengths.length);
    }

    private int rowOf(long sequence) {
        if (sequence < 0 || sequence >= rows || lengths[(int) sequence] == 0) {
            throw Stores.unknown(sequence);
        }
        return (int) sequence;
    }
}
