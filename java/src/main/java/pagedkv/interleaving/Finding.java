package pagedkv.interleaving;

/**
 * What is wrong with a run.
 *
 * @param yours what the stack did
 * @param expected what a right one does
 * @param thrown what it threw, or null
 */
public record Finding(Kind kind, String yours, String expected, Throwable thrown) {

    public enum Kind {
        /** A block is lost, or in two places, or the stack goes in a circle. */
        BLOCKS,
        /** A call returned what no order of the calls explains. */
        RETURNED,
        /** It threw an exception. */
        THREW,
        /** Threads wait for each other, or for a thread that is stopped or done. */
        STUCK,
        /** A call has taken so many steps that it looks endless. */
        ENDLESS
    }

    static Finding of(Kind kind, String yours, String expected) {
        return new Finding(kind, yours, expected, null);
    }
}
