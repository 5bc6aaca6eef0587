package pagedkv.prefix;

import java.lang.ref.Reference;
import java.lang.ref.WeakReference;
import java.util.Arrays;

/**
 * {@code String.intern} beside a prefix cache (N17).
 *
 * <p>Both answer: has somebody stored the same contents already? then take theirs. "Aa" and "BB" have the same hash, so
 * they show what the answer rests on: {@code intern} compares the characters and keeps them apart, as
 * {@link PrefixIndex} does with tokens; {@link HashOnlyIndex} with the same hash takes one for the other.
 *
 * <p>The likeness ends where memory does. The JVM's string table holds its strings weakly: one that nobody refers to is
 * gone after the next collection. A prefix cache keeps what nobody refers to, in the hope that it is asked for again,
 * until the memory is needed.
 */
public final class Interning {

    private static final String ONE = "Aa";
    private static final String OTHER = "BB";
    private static final int BLOCK_SIZE_TOKENS = 2;
    private static final int BLOCK_OF_ONE = 0;
    private static final int BLOCK_OF_OTHER = 1;
    private static final int MOST_COLLECTIONS = 50;

    /**
     * @param hashOfOne the hash of "Aa"
     * @param hashOfOther the hash of "BB"
     * @param copiesAreTwoObjects whether two equal strings made at run time are two objects
     * @param internedCopiesAreOne whether they are one object after {@code intern}
     * @param internConfuses whether {@code intern} takes "BB" for "Aa"
     * @param foundByContents the block that an index that compares contents finds for "BB"; "Aa" lies in 0, "BB" in 1
     * @param foundByHash the block that an index finds for "BB" which trusts the hash
     */
    public record Result(
            int hashOfOne,
            int hashOfOther,
            boolean copiesAreTwoObjects,
            boolean internedCopiesAreOne,
            boolean internConfuses,
            int foundByContents,
            int foundByHash) {
    }

    private Interning() {
    }

    public static Result run() {
        String copy = copyOf(ONE);
        String another = copyOf(ONE);
        return new Result(
                ONE.hashCode(),
                OTHER.hashCode(),
                copy != another,
                copy.intern() == another.intern(),
                copyOf(OTHER).intern() == copy.intern(),
                foundForTheOther(new PrefixIndex(BLOCK_SIZE_TOKENS)),
                foundForTheOther(new HashOnlyIndex(BLOCK_SIZE_TOKENS, ChainHash.likeString())));
    }

    /**
     * Whether an interned string is gone after a collection once nobody refers to it. Asks for collections until it is,
     * 50 times at most.
     *
     * @param somebodyRefersToIt if true, somebody keeps it, and it stays
     */
    public static boolean isCollected(boolean somebodyRefersToIt) {
        String kept = "a prompt that nobody else has, " + System.nanoTime();
        WeakReference<String> interned = internCopyOf(kept);
        String held = somebodyRefersToIt ? interned.get() : null;
        for (int i = 0; i < MOST_COLLECTIONS && interned.get() != null; i++) {
            System.gc();
        }
        boolean collected = interned.get() == null;
        Reference.reachabilityFence(held);
        return collected;
    }

    /** In a method of its own, so that no local variable keeps the interned string. */
    private static WeakReference<String> internCopyOf(String text) {
        return new WeakReference<>(copyOf(text).intern());
    }

    private static int foundForTheOther(PromptIndex index) {
        index.insert(tokensOf(ONE), new int[] {BLOCK_OF_ONE});
        index.insert(tokensOf(OTHER), new int[] {BLOCK_OF_OTHER});
        return index.longestPrefix(tokensOf(OTHER))[0];
    }

    private static int[] tokensOf(String text) {
        return text.chars().toArray();
    }

    /** Equal, and another object. */
    private static String copyOf(String text) {
        return new String(text.toCharArray());
    }

    public static void main(String[] args) {
        var result = run();
        System.out.printf("\"%s\" = %s has hash %d%n", ONE, Arrays.toString(tokensOf(ONE)), result.hashOfOne());
        System.out.printf("\"%s\" = %s has hash %d%n", OTHER, Arrays.toString(tokensOf(OTHER)), result.hashOfOther());
        System.out.printf("two copies of \"%s\" are two objects: %s, interned: one: %s%n", ONE,
                result.copiesAreTwoObjects(), result.internedCopiesAreOne());
        System.out.printf("intern takes \"%s\" for \"%s\": %s%n", OTHER, ONE, result.internConfuses());
        System.out.printf("\"%s\" lies in block %d, \"%s\" in block %d; asked for \"%s\":%n", ONE, BLOCK_OF_ONE, OTHER,
                BLOCK_OF_OTHER, OTHER);
        System.out.printf("   an index that compares contents finds block %d%n", result.foundByContents());
        System.out.printf("   an index that trusts the hash finds block %d%n", result.foundByHash());
    }
}
