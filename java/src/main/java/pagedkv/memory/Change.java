package pagedkv.memory;

/**
 * One thing that a call did to the memory.
 *
 * @param kind one of the six constants below
 * @param requestedBytes of a piece: what its owner asked for of it; of a segment 0
 * @param label of a segment: its kind, such as "chunk"; else empty
 */
public record Change(String kind, long address, long sizeBytes, long requestedBytes, String label) {

    /** A segment was taken from the device. */
    public static final String RESERVE = "reserve";
    /** A segment was given back to the device. */
    public static final String UNRESERVE = "unreserve";
    /** A piece is in use from now on. */
    public static final String TAKE = "take";
    /** The owner of a piece asked for more of it; it stays where it is. */
    public static final String FILL = "fill";
    /** A piece is free. */
    public static final String GIVE = "give";
    /** The owner has let go of a piece, but it is not free yet: it waits in a thread's cache. */
    public static final String HOLD = "hold";
}
