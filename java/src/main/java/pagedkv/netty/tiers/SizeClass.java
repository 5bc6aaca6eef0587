package pagedkv.netty.tiers;

/** The four kinds of requests, by their size after rounding up. */
public enum SizeClass {
    /** Below 512 bytes: an element of a page. */
    TINY,
    /** From 512 bytes, below a page: an element of a page. */
    SMALL,
    /** From a page to a chunk: a run of pages. */
    NORMAL,
    /** More than a chunk: memory of its own, in no pool. */
    HUGE
}
