"""The exercises of notebook 02, arenas and regions."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from pagedkv.core.memory import as_text
from pagedkv.java import jclass
from pagedkv.java.child_jvm import region_size_by_rule
from pagedkv.java.memory import run_java
from pagedkv.lab.arenas_netty import PINNED, PINNED_BYTES, PINNED_ORDER, netty_arena, netty_settings
from pagedkv.lab.arenas_tree import is_below_taken, is_taken, leftmost_path, plot_tree
from pagedkv.lab.exercises.java_classes import is_java_class, static_method
from pagedkv.lab.grading import Exercise, NotYet, Wrong, describe_error, is_java
from pagedkv.rivals.buddy import BuddyChunk
from pagedkv.rivals.workload import Request, Workload
from pagedkv.viz.memory_plot import still_memory
from pagedkv.viz.memory_tape import MemoryTape

_MIB = 1 << 20

# ── 02.1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

# On both sides of every limit; these are put to real Netty too.
_ROUNDED = (1, 15, 16, 17, 200, 496, 497, 511, 512, 513, 1023, 1024, 1025, 3000, 4096, 4097, 8192, 8193, 100_000,
            1 << 20, (1 << 20) + 1, (8 << 20) + 1, (16 << 20) - 1, 16 << 20, (16 << 20) + 1, 20_000_000)


def rounded_like_netty(rounding) -> str:
    """Every size is rounded up to what Netty 4.1.48 sets aside for it."""
    normalize = static_method(rounding, "normalizeCapacity")
    netty = jclass("pagedkv.netty.tiers.RealNetty")(netty_settings())
    ours = jclass("pagedkv.netty.tiers.SizeClasses").normalizeCapacity
    for size in _ROUNDED:
        yours = _int_from_java(lambda size=size: normalize(size), "normalizeCapacity(int)", "int")
        buffer = netty.allocate(size)
        expected = int(buffer.roundedBytes())
        buffer.release()
        _compare_rounding(size, yours, expected, "Netty 4.1.48")
    rng = random.Random(1)
    others = [*range(1, 2_100), *(rng.randrange(1 << bits, 2 << bits) for bits in range(11, 31) for _ in range(45))]
    for size in (*others, 2**31 - 1):
        _compare_rounding(size, int(normalize(size)), int(ours(size)), "expected")
    return f"{len(_ROUNDED)} sizes agree with Netty 4.1.48, and {len(others) + 1:,} more with its rule"


def _compare_rounding(size: int, yours: int, expected: int, whose: str) -> None:
    if yours == expected:
        return
    why = "below 512 bytes, up to a multiple of 16; one that is a multiple already stays" if size < 512 else \
        "from 512 bytes on, to a power of two; one that is a power of two already stays" if size < 16 << 20 else \
        "a request of a whole chunk, or of more, is not rounded"
    raise Wrong(f"normalizeCapacity({size:,})\n   {'yours:':<14} {yours:,}\n   {whose + ':':<14} {expected:,}\n"
                f"   {'the rule:':<14} {why}")


# ── 02.2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def searched_like_netty(search) -> str:
    """The search finds the leftmost free node of a depth, or says that there is none."""
    hook = jclass("pagedkv.netty.tiers.TreeSearch")
    if not is_java_class(search) or not issubclass(search, hook):
        raise Wrong(f"check gets your Java class that implements TreeSearch, such as MySearch; got {search!r}")
    try:
        mine = search()
    except TypeError:
        raise Wrong("your class needs a public constructor without parameters, or none at all") from None
    cases = 0
    for name, values, depth in (*_named_trees(), *_random_trees()):
        _try_search(mine, name, values, depth)
        cases += 1
    settings = netty_settings(max_order=5).withSearch(mine)
    mix = jclass("pagedkv.netty.tiers.Mix")("pages", 0, 1, 9, 0, 1 << 20)
    result = jclass("pagedkv.netty.tiers.Comparison").of(mix, settings, 1, 400)
    if not result.allEqual():  # cannot be: whoever finds all leftmost nodes places all buffers where Netty does
        raise Wrong(f"with your search, the allocator and Netty 4.1.48 part at {result.firstDifference()}")
    return (f"{cases:,} searches, as Netty makes them. Then {result.numCalls():,} calls to an allocator with your "
            "search and to real Netty 4.1.48: every buffer lies at the same place")


def _named_trees() -> Iterator[tuple[str, list[int], int]]:
    """What the chunk looks like, its tree, the depth that is wanted. Small ones first."""
    def tree(max_order: int, *taken: int) -> list[int]:
        chunk = BuddyChunk(0, 1, max_order)
        for node in taken:
            chunk.take(node)
        return chunk.memory_map

    yield "a chunk of 8 pages, all free", tree(3), 3
    yield "a chunk of 8 pages, all free", tree(3), 0
    yield "the first page is taken", tree(3, 8), 3
    yield "the first page is taken", tree(3, 8), 2
    yield "the first page is taken", tree(3, 8), 1
    yield "the first page is taken", tree(3, 8), 0
    yield "the left half is taken", tree(3, 2), 3
    yield "the left half is taken, and one page of the right one", tree(3, 2, 12), 2
    yield "everything is taken, page by page", tree(3, *range(8, 16)), 3
    yield "everything is taken, as a whole", tree(3, 1), 3
    yield "everything is taken, in halves", tree(3, 2, 3), 1
    yield "every second page is taken", tree(3, 8, 10, 12, 14), 2
    yield "only the last page is free", tree(3, 2, 6, 14), 3
    yield "a chunk of a single page", tree(0), 0
    yield "a chunk of a single page, taken", tree(0, 1), 0


def _random_trees() -> Iterator[tuple[str, list[int], int]]:
    rng = random.Random(2)
    for _ in range(40):
        chunk = BuddyChunk(0, 1, rng.randint(1, 5))
        taken: list[int] = []
        for _ in range(25):
            node = chunk.find(rng.randint(0, chunk.max_order))
            if node is not None and rng.random() < 0.7:
                chunk.take(node)
                taken.append(node)
            elif taken:
                chunk.give(taken.pop(rng.randrange(len(taken))))
            yield f"a chunk of {1 << chunk.max_order} pages", list(chunk.memory_map), rng.randint(0, chunk.max_order)


def _try_search(mine, name: str, values: list[int], depth: int) -> None:
    path, expected = leftmost_path(values, depth)
    pages = len(values) // 2 >> depth
    situation = f"{name}; wanted: depth {depth}, which is {pages} page{'s' * (pages > 1)}"
    try:
        node = int(mine.allocateNode(jclass("byte[]")(values), depth))
    except Exception as error:
        if is_java(error, "pagedkv.exercise.NotYet") or isinstance(error, KeyboardInterrupt):
            raise
        raise Wrong(f"{situation}:\n   yours:     threw {describe_error(error)}\n"
                    f"   expected:  {'-1' if expected is None else f'node {expected}'}",
                    _tree_picture(values, path, {} if expected is None else {expected: "expected"})) from None
    if node == (-1 if expected is None else expected):
        return
    marks = {} if expected is None else {expected: "expected"}
    if 1 <= node < len(values):
        marks[node] = "yours"
    right = f"-1: the root's value is {values[1]}, so nothing of depth {depth} is free" if expected is None else \
        f"node {expected}, by way of {', '.join(map(str, path[:-1])) or 'nothing else'}"
    raise Wrong(f"{situation}:\n   yours:     {_about(values, node, depth)}\n   expected:  {right}",
                _tree_picture(values, (), marks))


def _about(values: Sequence[int], node: int, depth: int) -> str:
    """What is wrong with an answer, in words."""
    if node == -1:
        return "-1, as if nothing were free"
    if not 1 <= node < len(values):
        return f"{node}, which is no node: they are 1 to {len(values) - 1}, and -1 says that there is none"
    at = node.bit_length() - 1
    if at != depth:
        return f"node {node}, which has depth {at}"
    if is_taken(values, node):
        return f"node {node}, which is taken: its value is {values[node]}"
    if is_below_taken(values, node):
        return f"node {node}, which is part of a larger run that is taken"
    if values[node] != depth:
        return f"node {node}, of which a part is taken: its value is {values[node]}, not {depth}"
    return f"node {node}, which is free; another one lies further to the left"


def _tree_picture(values: list[int], path: Sequence[int], marks: dict[int, str]) -> tuple[bytes, str]:
    picture = plot_tree(values, path, marks)
    return picture.png(), picture.alt


# ── 02.3 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_CALLS = 1_000
_SIZES = (256, 32 << 10)  # of each kind that a cache keeps in queues of their own: small sizes, and larger ones
_MOST_FROM_ARENA = 10  # the first request has to; a thread may ask once more
_THREAD_SECONDS = 5


class _Run(NamedTuple):
    """What was counted of one thread: how many of its calls the arenas served, what kind of thread it was."""

    side: str
    buffer_bytes: int
    served: int
    thread: str

    def asked(self) -> str:
        return (f"{self.side}: {_CALLS:,} buffers of {as_text(self.buffer_bytes)} are taken and given back, one at a "
                f"time, on {self.thread}\n   yours:     the arena served {self.served:,} of them, the thread's cache "
                f"{_CALLS - self.served:,}\n")


def fair_comparison(duel) -> str:
    """One side is served by the thread's cache, the other one by the arena; nothing else differs."""
    allocator, new_thread = static_method(duel, "allocator"), static_method(duel, "newThread")
    runs, layouts = {True: [], False: []}, {}
    for cached in (True, False):
        side = f"allocator({str(cached).lower()})"
        made = _call(lambda cached=cached: allocator(cached), side, "allocator(boolean)")
        if made is None or not isinstance(made, jclass("io.netty.buffer.PooledByteBufAllocator")):
            raise Wrong(f"{side} returns a new PooledByteBufAllocator; got {made!r}")
        runs[cached] = [_run_on_a_thread(made, new_thread, side, size) for size in _SIZES]
        layouts[cached] = _layout(made)
        _compare_threads(runs)
        for run in runs[True] if cached else ():
            if run.served > _MOST_FROM_ARENA:
                raise Wrong(f"{run.asked()}   expected:  the arena serves the first one, the cache all others\n"
                            f"{_why_no_cache(made, run)}")
    for run in runs[False]:
        if run.served != _CALLS:
            raise Wrong(f"{run.asked()}   expected:  the arena serves all {_CALLS:,}. Netty's own threads have a cache "
                        "whatever useCacheForAllThreads says; what has a cache of size 0 is not kept")
    differences = [f"   {what + ':':<14} {with_cache} with the cache, {layouts[False][what]} without"
                   for what, with_cache in layouts[True].items() if with_cache != layouts[False][what]]
    if differences:
        raise Wrong("the two sides differ in more than the cache\n" + "\n".join(differences))
    return (f"of {_CALLS:,} calls the arena served {runs[True][0].served} with the cache and {runs[False][0].served:,} "
            f"without, for buffers of {' and of '.join(map(as_text, _SIZES))}; both sides run on "
            f"{runs[True][0].thread}, and have the same "
            f"{', '.join(f'{what} ({value})' for what, value in layouts[True].items())}")


def _run_on_a_thread(allocator, new_thread, side: str, buffer_bytes: int) -> _Run:
    """How many of the calls reached an arena, and on what kind of thread."""
    traffic = jclass("pagedkv.exercise.TakeAndGiveBack")
    work = traffic(allocator, _CALLS, buffer_bytes)
    before = int(traffic.servedByArenas(allocator))
    thread = _call(lambda: new_thread(work), "newThread(work)", "newThread(Runnable)")
    if thread is None or not isinstance(thread, jclass("java.lang.Thread")):
        raise Wrong(f"newThread(work) returns a thread that will do the work; got {thread!r}")
    if str(thread.getState()) != "NEW":
        raise Wrong("newThread(work) returns a thread that has been started already: leave that to whoever asks for "
                    "it, as a ThreadFactory does")
    thread.start()
    thread.join(_THREAD_SECONDS * 1000)
    if int(work.done()) != _CALLS:
        raise Wrong(f"{side}: the thread from newThread(work) did {int(work.done()):,} of {_CALLS:,} calls. Hand "
                    "`work` to the thread's constructor")
    return _Run(side, buffer_bytes, int(traffic.servedByArenas(allocator)) - before,
                f"a {work.thread().getClass().getSimpleName()}")


def _compare_threads(runs: dict[bool, list[_Run]]) -> None:
    every = [*runs[True], *runs[False]]
    for run in every:
        if run.thread != every[0].thread:
            raise Wrong(f"newThread(work) made {every[0].thread} for {every[0].side}, and {run.thread} for {run.side}: "
                        "both sides run on the same kind of thread, so that only the cache differs")


def _why_no_cache(allocator, run: _Run) -> str:
    metric = allocator.metric()
    small = run.buffer_bytes == _SIZES[0]
    if int(metric.smallCacheSize() if small else metric.normalCacheSize()) == 0:
        return f"   a {'small' if small else 'normal'}CacheSize of 0 keeps nothing"
    return ("   since 4.1.75 a plain thread gets no cache: either the thread is one of Netty's own, or the allocator "
            "is told to cache for all threads")


def _layout(allocator) -> dict[str, str]:
    """What the two sides must have in common, as the allocator itself tells."""
    metric = allocator.metric()
    buffer = allocator.buffer(_SIZES[0])
    try:
        kind = "direct" if buffer.isDirect() else "heap"
        arenas = metric.directArenas() if buffer.isDirect() else metric.heapArenas()
        pages = [int(subpage.pageSize()) for arena in arenas for subpage in arena.smallSubpages()]
    finally:
        buffer.release()
    return {"buffers": kind, "direct arenas": str(metric.numDirectArenas()), "heap arenas": str(metric.numHeapArenas()),
            "page size": as_text(pages[0]) if pages else "unknown", "chunk size": as_text(int(metric.chunkSize()))}


# ── 02.4 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_HEAPS_MIB = (64, 512, 1024, 2048, 2049, 3 << 10, 4 << 10, 6 << 10, 8 << 10, 31 << 10, 32 << 10, 33 << 10, 64 << 10,
              256 << 10)


def region_sizes(region_size) -> str:
    """The size of a region, for a heap of any maximum size."""
    if not callable(region_size) or is_java_class(region_size):
        raise Wrong(f"check gets your function, region_size; got {region_size!r}")
    for heap_mib in _HEAPS_MIB:
        answer = region_size(heap_mib * _MIB)
        if answer is None or answer is ...:
            raise NotYet("region_size() returns nothing yet")
        expected = region_size_by_rule(heap_mib * _MIB)
        if isinstance(answer, bool) or not hasattr(answer, "__index__") and not isinstance(answer, float):
            raise Wrong(f"region_size() returns a number of bytes; got {answer!r}")
        if answer != expected:
            share = heap_mib / 2048
            raise Wrong(f"a heap of at most {_in_mib(heap_mib * _MIB)}; a 2,048th of it is {share:,g} MiB\n"
                        f"   yours:     {_in_mib(answer)}\n   expected:  {_in_mib(expected)}, which makes "
                        f"{-(-heap_mib * _MIB // expected):,} regions\n   {_region_rule(share)}")
    return f"{len(_HEAPS_MIB)} heaps, from 64 MiB to 256 GiB"


def _region_rule(share_mib: float) -> str:
    if share_mib < 1:
        return "1 MiB is the least"
    if share_mib > 32:
        return "32 MiB is the most that G1 takes by itself"
    return "a power of two is taken as it is, anything else is rounded up to the next one"


def _in_mib(size_bytes: float) -> str:
    if size_bytes % _MIB == 0:
        return f"{int(size_bytes) // _MIB:,} MiB"
    whole = size_bytes == int(size_bytes)
    return f"{int(size_bytes):,} byte{'s' * (size_bytes != 1)}" if whole else f"{size_bytes:,.2f} bytes"


# ── 02.5 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_MOST_RELEASED = 2


def chunks_given_back(released) -> str:
    """At most two buffers, and two chunks go back to the system."""
    names = released.replace(",", " ").split() if isinstance(released, str) else released
    try:
        names = [str(name) for name in names]
    except TypeError:
        raise Wrong(f'the answer is a list of names, such as ["ping"]; got {released!r}') from None
    left = list(dict.fromkeys(request.owner for request in PINNED.requests))
    for request in PINNED.requests:
        if request.op == "free":
            left.remove(request.owner)
    for name in names:
        if name not in left:
            raise Wrong(f"{name!r} holds no buffer; these do: {', '.join(left)}")
    if len(set(names)) != len(names):
        raise Wrong("a buffer is released once, not twice")
    if len(names) > _MOST_RELEASED:
        raise Wrong(f"{len(names)} buffers; {_MOST_RELEASED} at most")
    workload = Workload("released", (*PINNED.requests, *(Request("free", name) for name in names)))
    arena, untouched = (netty_arena(PINNED_BYTES, PINNED_ORDER) for _ in range(2))
    run_java(PINNED, untouched)
    before = len(untouched.layout().segments)
    recording = run_java(workload, arena)
    kept = arena.layout().segments
    if before - len(kept) < 2:
        released = " and ".join(names) or "nothing"
        picture = still_memory([MemoryTape(recording, row_bytes=kept[0].size_bytes)], len(recording),
                               f"After the release of {released}: a row is a chunk")
        raise Wrong(f"released: {released}\n   yours:     {before - len(kept)} of {before} chunks go back\n"
                    f"   expected:  2\n{_still_kept(arena)}", (picture.png(), picture.alt))
    result = jclass("pagedkv.netty.tiers.Comparison").of(
        "released", jclass("pagedkv.memory.Workload").parse(workload.text()), netty_settings(PINNED_ORDER))
    if not result.allEqual():  # cannot be, as long as ours follows Netty's rules
        raise Wrong(f"ours and Netty 4.1.48 part at {result.firstDifference()}")
    return f"{before - len(kept)} of {before} chunks go back; real Netty 4.1.48, given the same calls, agrees"


def _still_kept(arena) -> str:
    """Why each chunk that is left is left."""
    owners = {int(segment.address): [] for segment in arena.layout().segments}
    size = arena.layout().segments[0].size_bytes
    for piece in arena.layout().pieces:
        owners[piece.address // size * size].append(str(piece.owner))
    lines = []
    for address, names in owners.items():
        why = f"kept by {' and '.join(names)}" if names else \
            "empty, and stays: it was never a quarter full, so it is still in the list of new chunks (qInit)"
        lines.append(f"   chunk {address // size}: {why}")
    return "\n".join(lines)


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _call(call, what: str, signature: str):
    """What the learner's Java answers. NotYet goes on to whoever grades; anything else it throws is a wrong answer."""
    try:
        return call()
    except TypeError:
        raise Wrong(f"{what} cannot be called: it has to be public static … {signature}") from None
    except Exception as error:
        if is_java(error, "pagedkv.exercise.NotYet") or not hasattr(error, "getStackTrace"):
            raise
        raise Wrong(f"{what} threw {describe_error(error)}") from None


def _int_from_java(call, signature: str, kind: str) -> int:
    answer = _call(call, signature, signature)
    if not isinstance(answer, int):
        raise Wrong(f"{signature} returns an {kind}; got {answer!r}")
    return int(answer)


EXERCISES = (
    Exercise("02.1", "Round up as Netty does", 5, (
        "Three cases: a whole chunk or more, 512 bytes or more, less.",
        "The next multiple of 16: add 15, then drop the remainder. Integer.highestOneBit(n) is the largest power of "
        "two that is not larger than n.",
        "From 512 bytes on: the highest power of two is the answer if it is the request itself; if not, twice that. "
        "Below: add 15, divide by 16 as whole numbers do, multiply by 16."), rounded_like_netty),
    Exercise("02.2", "Search a chunk's tree", 10, (
        "Begin at node 1. When does its value already say that nothing will be found?",
        "On each level go to the left child, 2 * node. If its value is larger than depth, there is no room below it; "
        "then there is room below its sibling, 2 * node + 1.",
        "If the root's value is larger than depth, the answer is -1. If not, go down from node 1, depth times: to the "
        "left child, and one further where its value is larger than depth."), searched_like_netty),
    Exercise("02.3", "Make the comparison fair", 6, (
        "Which threads get a cache nowadays? Either change the thread, or tell the allocator.",
        "The last argument of the constructor is useCacheForAllThreads. The two before it say how many buffers a thread "
        "keeps, of each small size and of each larger one: with 0 none.",
        "One constructor call for both: new PooledByteBufAllocator(true, 1, 1, 8192, 9, cached ? 256 : 0, "
        "cached ? 64 : 0, true), and new Thread(work)."), fair_comparison),
    Exercise("02.4", "How large is a region?", 5, (
        "What is a 2,048th of 3 GiB? Which power of two is not smaller?",
        "First the 2,048th, then 1 MiB at least, 32 MiB at most, then up to a power of two.",
        "size = 1 MiB; while size is less than a 2,048th of the heap, and less than 32 MiB, double it."), region_sizes),
    Exercise("02.5", "Two chunks back", 5, (
        "A chunk goes back when nothing in it is in use. Which chunks are kept by a single buffer?",
        "There are three of those. One chunk has never been a quarter full, and Netty keeps such a chunk even when it "
        "is empty.",
        "How small a buffer is does not matter. Look at the second and the third chunk."), chunks_given_back),
)
