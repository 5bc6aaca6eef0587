package pagedkv.bench;

/** Allocates a batch of blocks, writes one long into each, and releases them: what one thread does again and again. */
abstract class PairWork {

    /** @return a number that depends on what was written, so that no compiler takes the work for useless */
    abstract long batch(long stamp);
}
