"""The rebuilt tiers of Netty 4.1.48, and the workloads that notebook 02 puts to them.

Chunks are made small where they are to be looked at: the rules do not depend on how many pages a chunk has.
"""

from pagedkv.java import jclass
from pagedkv.java.memory import JavaAllocator
from pagedkv.rivals.workload import Workload

PAGE_BYTES = 8192


def netty_settings(max_order: int = 11, cached: bool = False):
    """The settings (Java's `pagedkv.netty.tiers.Settings`) of one arena with chunks of 2^max_order pages of 8 KiB."""
    settings = jclass("pagedkv.netty.tiers.Settings").DEFAULT.withChunk(PAGE_BYTES, max_order)
    return settings if cached else settings.withoutCache()


def netty_arena(capacity_bytes: int, max_order: int = 11, cached: bool = False) -> JavaAllocator:
    """One arena of the rebuilt tiers. Its chunks have 2^max_order pages of 8 KiB; `cached` puts a thread cache before
    it. Needs a running JVM."""
    return JavaAllocator.of("pagedkv.netty.tiers.NettyAllocator", capacity_bytes, netty_settings(max_order, cached))


# On a chunk of 8 pages: rounding up, splitting, a refusal although two pages are free side by side (F), joining again.
TREE_CALLS = Workload.parse("""
a A 3000
a B 20000
a C 8K
a D 8K
a E 8K
f C
f D
a F 16K
f A
a G 16K
""", "ten requests to a chunk of 8 pages")

# On chunks of 16 pages: one is a quarter full and one three quarters full when F comes.
LIST_CALLS = Workload.parse("""
a A 64K
a B 32K
a C 32K
a D 64K
a E 32K
f A
f B
a F 8K
""", "two chunks, and one request more")

# On chunks of 16 pages: an hour of traffic, after which five buffers keep four chunks.
PINNED_ORDER, PINNED_BYTES = 4, 512 << 10
PINNED = Workload.parse("""
a get1 32K
a session 8K
a log 8K
a get2 16K
a get3 64K
a get4 64K
a metrics 8K
a get5 8K
a get6 16K
a get7 32K
a upload 64K
a get8 64K
a ping 8K
f get1
f get2
f get3
f get4
f get5
f get6
f get7
f get8
""", "an hour of traffic")
