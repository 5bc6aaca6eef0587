"""Small workloads that people use to explain fragmentation: which of them show it, and which only seem to.

A request shows *fragmentation* if it fails although enough is free in total: no free run is long enough. If less is
free than it asks for, the memory is *exhausted*, and paging fails too. If a run is long enough, it *fits*.
`pagedkv.core.why.why_refused` tells which. One block of the articles is one MiB here.
"""

from pagedkv.rivals.workload import Workload

MIB = 1 << 20

# For `a_hole_of_64`: A, B and C are 184 together.
HOLE_EXHAUSTED_BYTES = 184 * MIB   # nothing behind C: 64 free
HOLE_FRAGMENTED_BYTES = 256 * MIB  # 72 behind C: 136 free, no run of 80. So it is with 200 … 263
HOLE_FITS_BYTES = 264 * MIB        # 80 behind C

POOL_BYTES = 100 * MIB  # for the others


def a_hole_of_64() -> Workload:
    """A 64, B 48, C 72; A frees its 64; D asks for 80 (claim N10).

    Whether D's refusal shows anything depends on a number that the story leaves out, the memory's size. With 184, all
    of it in use before, 64 are free and *no* allocator has 80 (HOLE_EXHAUSTED_BYTES). From 264 on, D goes behind C
    (HOLE_FITS_BYTES). Only from 200 to 263 are there at least 80 free and no run of 80 (HOLE_FRAGMENTED_BYTES): there a
    paged allocator serves D, in two parts."""
    return Workload.parse("a A 64M\na B 48M\na C 72M\nf A\na D 80M", "a hole of 64")


def the_article() -> Workload:
    """A 20, B 30; A frees its 20; C asks for 25, in 100 blocks (claim N15).

    The article says that C finds no room. But nobody ever used the blocks 50 to 99: 70 are free, the longest run has
    50, and C fits at 50."""
    return Workload.parse("a A 20M\na B 30M\nf A\na C 25M", "the article's demo")


def the_article_filled() -> Workload:
    """The same with D 50, which fills the memory (claim N15).

    Now C is refused. But only A's 20 are free: this is plain exhaustion, and paging refuses C as well."""
    return Workload.parse("a A 20M\na B 30M\na D 50M\nf A\na C 25M", "the article's demo, filled")


def two_holes() -> Workload:
    """A 20, B 30, C 20, D 30; A and C free; E asks for 25 (claim N15, done right).

    40 are free, in two runs of 20. A contiguous allocator refuses E; a paged one takes 20 blocks from one hole and 5
    from the other."""
    return Workload.parse("a A 20M\na B 30M\na C 20M\na D 30M\nf A\nf C\na E 25M", "two holes")
