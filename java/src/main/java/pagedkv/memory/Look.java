package pagedkv.memory;

/**
 * One candidate that an allocator looked at.
 *
 * @param what such as "node 5" or "chunk 0"
 * @param verdict the rule that rejected it or led on from it, or {@link #CHOSEN}
 */
public record Look(String what, long address, long sizeBytes, String verdict) {

    public static final String CHOSEN = "chosen";

    /** How a verdict begins that rejects nothing: the search goes on within this candidate. */
    public static final String LEADS_ON = "→ ";
}
