package pagedkv.shared;

/**
 * Bytes around a block that somebody has overwritten.
 *
 * @param block the block beside which it happened
 * @param firstByte the first overwritten byte, counted from the block's first: negative in front of the block, from
 *     its size on behind it
 * @param numBytes from the first to the last overwritten one, at this side of the block
 * @param found up to 16 of these bytes, in hexadecimal
 * @param owner the slot that the block was last handed out to; {@link #NOBODY} if it never was
 * @param generation which handing-out of the block that was
 * @param behind whether it is behind the block
 */
public record Overrun(int block, int firstByte, int numBytes, String found, long owner, long generation,
        boolean behind) {

    /** The owner of a block that was never handed out. */
    public static final long NOBODY = -1;

    @Override
    public String toString() {
        return ("block %d, last handed out to %s (generation %d): byte %d of it, %s, is the first that was "
                + "overwritten, %d bytes up to the last; found %s").formatted(block,
                owner == NOBODY ? "nobody yet" : "slot " + Long.toUnsignedString(owner), generation, firstByte,
                behind ? "behind its end" : "in front of it", numBytes, found);
    }
}
