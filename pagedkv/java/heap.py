"""The heap of the JVM inside this process: its regions, and what allocating and collecting do to them.

    from pagedkv.java import start
    from pagedkv.java.heap import heap_summary, record_regions
    start()
    heap_summary()
    BlockGrid(record_regions(my_runnable))

A *region* is one of the equal parts that G1 cuts the heap into; a *humongous* object is larger than half of one and
gets whole regions; a *TLAB* is the piece of a region in which one thread allocates without asking anybody. Java does
the looking (package pagedkv.jvm); here its answers become values that print themselves. Every function needs a running
JVM with G1, and raises JvmError otherwise. Experiments that need other flags run in a child: see
`pagedkv.java.child_jvm`, whose functions can be imported from here too. What this JVM has done before matters to
`trace_tlabs` and `move_objects`; with `in_child` they run in a JVM that has done nothing yet.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jpype

from pagedkv.core.events import Recording
from pagedkv.java.child_jvm import (
    ChildJvmFailed,
    ChildRun,
    check_region_sizes,
    compare_collectors,
    region_size_by_rule,
    run_child_jvm,
)
from pagedkv.java.gc_log import HeapAtStart, read_regions
from pagedkv.java.jvm import JvmError, jclass

__all__ = ["ChildJvmFailed", "ChildRun", "HeapSummary", "HumongousTable", "MoveReport", "TlabReport",
           "allocate_humongous", "check_region_sizes", "compare_collectors", "heap_summary", "move_objects",
           "record_regions", "region_size_by_rule", "run_child_jvm", "trace_tlabs"]

_MIB = 1 << 20


@dataclass(frozen=True)
class HeapSummary:
    """The heap at one moment.

    num_regions         how many regions the heap has room for when it is as large as it may become
    committed_regions   how many are backed by memory now
    counts              kind → how many committed regions are of that kind, "free" included
    by_rule_bytes       the region size that the rule gives for this maximum (see `region_size_by_rule`)
    """

    region_size_bytes: int
    num_regions: int
    committed_regions: int
    counts: dict[str, int]
    used_bytes: int
    by_rule_bytes: int

    @property
    def max_heap_bytes(self) -> int:
        return self.region_size_bytes * self.num_regions

    def __str__(self) -> str:
        return "\n".join([
            f"region size   {_mib(self.region_size_bytes)} (by the rule: {_mib(self.by_rule_bytes)})",
            f"largest heap  {_mib(self.max_heap_bytes)} = {self.num_regions:,} regions",
            f"committed     {_mib(self.committed_regions * self.region_size_bytes)} = "
            f"{self.committed_regions:,} regions",
            f"in use        {_mib(self.used_bytes)}",
            "of each kind  " + ", ".join(f"{n} {kind}" for kind, n in self.counts.items()),
        ])


def heap_summary() -> HeapSummary:
    """The heap of this process's JVM now. Raises JvmError if no JVM runs, or one with another collector."""
    regions = _answer(jclass("pagedkv.jvm.HeapRegions").now)
    size, number = int(regions.regionSizeBytes()), int(regions.maxRegions())
    return HeapSummary(size, number, int(regions.committed().size()),
                       {str(kind): int(n) for kind, n in regions.counts().items()},
                       int(regions.usedBytes()), region_size_by_rule(size * number))


def record_regions(run: Callable[[], Any] | Any) -> Recording:
    """What happens to the JVM's regions while `run` runs, as the recording of a pool: owners are kinds of contents.

    `run` is a function, or a Java Runnable. The first events say what the heap holds at the beginning; they cannot be
    told from taken regions otherwise. Threads other than this one allocate too, so two recordings are seldom equal.
    What `run` raises is raised, and nothing is left behind. Raises JvmError if the JVM runs another collector.
    """
    if not callable(run):
        run = run.run
    log = _answer(jclass("pagedkv.jvm.RegionLog"))
    try:
        run()
        text = str(log.text())
        before = log.before()
    finally:
        log.close()
    kinds = {int(region.number()): str(region.kind()) for region in before.committed()}
    at_start = HeapAtStart(int(before.firstAddress()), int(before.maxRegions()),
                           {number: kind for number, kind in kinds.items() if kind != "free"})
    return read_regions(text, at_start, f"JVM heap, G1 regions of {_mib(int(before.regionSizeBytes()))}")


class HumongousRow(NamedTuple):
    """array_bytes: the length of a byte[]; object_bytes: what the JVM took for it; num_regions: whole regions it was
    given, 0 if it shares an eden region; wasted_bytes: what it leaves empty of them."""

    array_bytes: int
    object_bytes: int
    num_regions: int
    wasted_bytes: int


@dataclass(frozen=True)
class HumongousTable:
    region_size_bytes: int
    header_bytes: int
    rows: tuple[HumongousRow, ...]

    def __str__(self) -> str:
        lines = [f"regions of {self.region_size_bytes:,} bytes; a byte[] has a header of {self.header_bytes} bytes",
                 "    byte[] length     object bytes   regions           wasted bytes"]
        for row in self.rows:
            given = row.num_regions * self.region_size_bytes
            share = f" ({row.wasted_bytes / given:.0%})" if given else ""
            regions = str(row.num_regions) if given else "–"
            lines.append(f"{row.array_bytes:>17,}{row.object_bytes:>17,}{regions:>10}{row.wasted_bytes:>16,}{share}")
        return "\n".join(lines)


def allocate_humongous(*array_bytes: int) -> HumongousTable:
    """Allocate a byte[] of each length and report the regions that G1 gave it; all are dropped at the end.

    Without arguments: the lengths at which something changes. An object of exactly half a region is an ordinary one,
    eight bytes more make it humongous; a byte[] of one region's size needs two, because of its header. Raises
    JvmError if the JVM runs another collector; a Java OutOfMemoryError if the heap has no such run of regions.
    """
    humongous = jclass("pagedkv.jvm.Humongous")
    size = int(_answer(jclass("pagedkv.jvm.HeapRegions").now).regionSizeBytes())
    results = _answer(humongous.allocate, jpype.JArray(jpype.JLong)(array_bytes)) if array_bytes else \
        _answer(humongous.aroundTheLimits)
    return HumongousTable(size, int(humongous.headerBytes()), tuple(
        HumongousRow(int(row.arrayBytes()), int(row.objectBytes()), int(row.regions()), int(row.wastedBytes()))
        for row in results))


class TlabRound(NamedTuple):
    """num_objects: small objects that were allocated; tlab_bytes: the size of each TLAB that was taken for them, in
    order; outside_bytes: the size of each object that was placed outside a TLAB."""

    num_objects: int
    tlab_bytes: tuple[int, ...]
    outside_bytes: tuple[int, ...]

    @property
    def num_without_event(self) -> int:
        """Objects for which a pointer was moved and nothing else happened; the large array is not counted."""
        return self.num_objects + 1 - len(self.tlab_bytes) - len(self.outside_bytes)


@dataclass(frozen=True)
class TlabReport:
    object_bytes: int
    large_bytes: int
    rounds: tuple[TlabRound, ...]

    def __str__(self) -> str:
        lines = [f"each round: small byte[{self.object_bytes}] objects, then one byte[{self.large_bytes:,}]; "
                 "a collection between rounds",
                 "round    small objects   no TLAB event   TLABs taken   their sizes in bytes        outside a TLAB"]
        for number, each in enumerate(self.rounds, 1):
            sizes = "–" if not each.tlab_bytes else f"{min(each.tlab_bytes):,} … {max(each.tlab_bytes):,}"
            outside = ", ".join(f"{size:,}" for size in each.outside_bytes[-3:]) or "–"
            lines.append(f"{number:>5}{each.num_objects:>17,}{each.num_without_event:>16,}{len(each.tlab_bytes):>14,}"
                         f"   {sizes:<26}  {outside}")
        return "\n".join(lines)


def trace_tlabs(objects: tuple[int, ...] = (20_000, 200_000, 20_000), object_bytes: int = 48,
                in_child: bool = False) -> TlabReport:
    """What Java's flight recorder tells of one thread that allocates `objects` small arrays, round by round.

    After each round the thread allocates one array as large as a region, which no TLAB can hold; before each round
    there is a collection, after which the thread's TLABs may have another size. Takes about a second the first time.
    in_child: in a fresh JVM with a heap of at most 1 GiB; ChildJvmFailed if it fails. Otherwise raises JvmError if the
    JVM runs another collector than G1.
    """
    if in_child:
        values = _child_values("pagedkv.jvm.TlabTrace", object_bytes, *objects)
        return TlabReport(object_bytes, int(values["largeBytes"]), tuple(
            TlabRound(int(values[f"objects.{each}"]), _ints(values[f"tlabBytes.{each}"]),
                      _ints(values[f"outsideBytes.{each}"])) for each in range(len(objects))))
    large = int(_answer(jclass("pagedkv.jvm.HeapRegions").now).regionSizeBytes())
    results = _answer(jclass("pagedkv.jvm.TlabTrace").run, jpype.JArray(jpype.JInt)(objects), object_bytes, large)
    return TlabReport(object_bytes, large, tuple(
        TlabRound(int(each.objects()), tuple(map(int, each.tlabBytes())), tuple(map(int, each.outsideBytes())))
        for each in results))


@dataclass(frozen=True)
class MoveReport:
    """One young collection.

    kept_bytes         elements of the arrays that were held on to
    collected_regions  regions that were collected, holding collected_bytes, live or not
    freed_regions      how many of them were free afterwards
    copied_bytes       what was copied out of them first
    """

    kept_bytes: int
    collected_regions: int
    collected_bytes: int
    freed_regions: int
    copied_bytes: int

    def __str__(self) -> str:
        return "\n".join([
            f"held on to  {self.kept_bytes:>12,} bytes of arrays in eden",
            f"collected   {self.collected_bytes:>12,} bytes in {self.collected_regions} regions, "
            f"of which {self.freed_regions} are free now",
            f"copied      {self.copied_bytes:>12,} bytes to other regions: what was alive has moved",
        ])


def move_objects(keep_bytes: int = 1 * _MIB, in_child: bool = False) -> MoveReport:
    """One young collection of G1, with `keep_bytes` of live arrays in eden; counted by Java's flight recorder.

    The collected regions are free afterwards and the arrays are alive, so every one of them has been moved.
    in_child: in a fresh JVM with a heap of at most 1 GiB; ChildJvmFailed if it fails. Otherwise raises JvmError if the
    JVM runs another collector, or eden has no room for that much.
    """
    if in_child:
        values = _child_values("pagedkv.jvm.ObjectMoves", keep_bytes)
        return MoveReport(*(int(values[name]) for name in ("keptBytes", "collectedRegions", "collectedBytes",
                                                           "freedRegions", "copiedBytes")))
    result = _answer(jclass("pagedkv.jvm.ObjectMoves").ofOneYoungCollection, keep_bytes)
    return MoveReport(int(result.keptBytes()), int(result.collectedRegions()), int(result.collectedBytes()),
                      int(result.freedRegions()), int(result.copiedBytes()))


def _child_values(main_class: str, *arguments: int) -> dict[str, str]:
    """What a program prints in a fresh JVM. Raises ChildJvmFailed, with what it said, if it ends with an error."""
    run = run_child_jvm(main_class, *arguments, flags=("-XX:+UseG1GC", "-Xmx1g"))
    if run.exit_status:
        raise ChildJvmFailed(f"{main_class} failed in a JVM of its own:\n{run.errors.strip()}")
    return run.values


def _ints(text: str) -> tuple[int, ...]:
    return tuple(map(int, text.split()))


def _answer(question: Callable, *arguments):
    """What Java answers. Where this JVM is of the wrong kind, Java's sentence as a JvmError."""
    try:
        return question(*arguments)
    except jclass("java.lang.IllegalStateException") as refusal:
        raise JvmError(str(refusal.getMessage())) from refusal


def _mib(size_bytes: int) -> str:
    return f"{size_bytes / _MIB:,.0f} MiB"
