package pagedkv.table;

import java.util.List;
import java.util.Locale;

/**
 * From a token's position to its slot, and what a position of -1 does where nobody refuses it (B7).
 *
 * <pre>
 *   position 37, blocks of 16 tokens:   logical block 37 / 16 = 2, offset 37 % 16 = 5
 *   table [ 9 | 4 | 7 ]:                physical block 7, slot 7 * 16 + 5 = 117
 * </pre>
 *
 * <p>For positions from 0 on, {@code /}, {@code >>} and {@code Math.floorDiv} agree. For -1 they do not, and none of
 * them complains: so a negative position is refused before it is divided.
 */
public final class AddressTranslation {

    private AddressTranslation() {
    }

    /**
     * The logical block of a position.
     *
     * @throws IndexOutOfBoundsException for a negative position
     */
    public static int logicalBlock(int position, int blockSizeTokens) {
        require(position, blockSizeTokens);
        return position / blockSizeTokens;
    }

    /**
     * The place of a position in its block, in tokens.
     *
     * @throws IndexOutOfBoundsException for a negative position
     */
    public static int offset(int position, int blockSizeTokens) {
        require(position, blockSizeTokens);
        return position % blockSizeTokens;
    }

    /**
     * The slot of a position in the memory of the pool; a long, because 134,217,728 blocks of 16 tokens are already
     * more slots than an int can number.
     *
     * @param table the physical blocks, in logical order
     * @throws IndexOutOfBoundsException for a position that is negative, or that no block of the table holds
     */
    public static long slot(int[] table, int position, int blockSizeTokens) {
        int logicalBlock = logicalBlock(position, blockSizeTokens);
        if (logicalBlock >= table.length) {
            throw new IndexOutOfBoundsException("position %d lies in logical block %d: the table has %d"
                    .formatted(position, logicalBlock, table.length));
        }
        return (long) table[logicalBlock] * blockSizeTokens + offset(position, blockSizeTokens);
    }

    /**
     * The same arithmetic without a look at the position: position -1 gives the slot <em>before</em> the sequence's
     * first block, in a block that belongs to somebody else, or to nobody.
     */
    public static long uncheckedSlot(int[] table, int position, int blockSizeTokens) {
        return (long) table[position / blockSizeTokens] * blockSizeTokens + position % blockSizeTokens;
    }

    private static void require(int position, int blockSizeTokens) {
        if (blockSizeTokens < 1) {
            throw new IllegalArgumentException("a block holds at least 1 token, not " + blockSizeTokens);
        }
        if (position < 0) {
            throw new IndexOutOfBoundsException("no token at position " + position + ": positions begin at 0");
        }
    }

    /**
     * @param expression as it would stand in the code
     * @param value what Java makes of it
     */
    public record Trap(String expression, long value) {

        @Override
        public String toString() {
            return String.format(Locale.ROOT, "%-34s %,21d", expression, value);
        }
    }

    /** What Java answers, without a complaint, where the position is wrong or the division is not an integer one. */
    public static List<Trap> traps() {
        int position = -1;
        int size = 16;
        long far = (1L << 53) + 15;
        return List.of(
                new Trap("-1 / 16", position / size),
                new Trap("-1 >> 4", position >> 4),
                new Trap("Math.floorDiv(-1, 16)", Math.floorDiv(position, size)),
                new Trap("(int) (-1 / 16.0)", (int) (position / 16.0)),
                new Trap("-1 % 16", position % size),
                new Trap("-1 & 15", position & 15),
                new Trap("Math.floorMod(-1, 16)", Math.floorMod(position, size)),
                new Trap("((1L << 53) + 15) / 16", far / size),
                new Trap("(long) (((1L << 53) + 15) / 16.0)", (long) (far / 16.0)));
    }

    public static void main(String[] args) {
        traps().forEach(System.out::println);
        int[] table = {9, 4, 7};
        System.out.println("table [9, 4, 7], position -1, unchecked: slot " + uncheckedSlot(table, -1, 16)
                + ", which is in block 8");
        try {
            slot(table, -1, 16);
        } catch (IndexOutOfBoundsException refused) {
            System.out.println("checked: " + refused.getMessage());
        }
    }
}
