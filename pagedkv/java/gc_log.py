"""The JVM's garbage collection log, read back: pauses, sizes of generations, and the regions of G1 as a recording.

G1 cuts the heap into *regions* of equal size and keeps each one for one *kind* of contents at a time: eden, survivor,
old, humongous (one object larger than half a region, which gets whole regions for itself), archive. That makes the heap
a pool of blocks: the block is a region, the owner its kind. The log line of a region

    [0.047s][trace][gc,region] G1HR ALLOC(HUMS) [0x00000000fc100000, 0x00000000fc200000, 0x00000000fc200000]

gives what happened, the kind, and three addresses: where the region starts, how far it is filled, where it ends. Newer
JDKs put the region's number before the word. Here it becomes an event: `ALLOC` allocates for the kind, `CLEANUP`
(JDK 17) or `…-RECLAIM` (newer) releases; after a full collection `POST-COMPACTION` gives the kind of every region, and
where that has changed the old kind releases and the new one allocates. Lines that change no kind (`RETIRE`, `CSET`, …)
make no event. Regions that are not backed by memory yet look free.

Formats seen: JDK 17 and 25. Needs nothing but the standard library and no JVM.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from pagedkv.core.events import Event, Recording

REGION_FLAGS = "-XX:+UseG1GC -Xlog:gc*,gc+region=trace:file=gc.log"

_KINDS = {"EDEN": "eden", "SURV": "survivor", "OLD": "old", "HUMS": "humongous", "HUMC": "humongous",
          "OARC": "archive", "CARC": "archive", "FREE": None}
_UNITS = {"B": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}

_REGION = re.compile(r"(?:GC\((\d+)\) )?G1HR +(\d+ )?([A-Z-]+)\(([A-Z]+)\) "
                     r"\[0x([0-9a-f]+), 0x([0-9a-f]+), 0x([0-9a-f]+)\]$")
_PAUSE = re.compile(r"GC\((\d+)\) (?:[YyOo]: )?Pause (.+?)"
                    r"(?: (\d+[KMG])->(\d+[KMG])\((\d+[KMG])\))? (\d+[.,]\d+)ms$")
_GENERATION = re.compile(r"\[gc,heap *\] GC\((\d+)\) (\w+): (\d+K)\((\d+K)\)->(\d+K)\((\d+K)\)")
_COLLECTOR = re.compile(r"\] Using (?:The )?(Serial|Parallel|G1|Z Garbage Collector|Shenandoah|Epsilon)\b")
_REGION_SIZE = re.compile(r"Heap Region Size: (\d+[KMG])")
_MAX_CAPACITY = re.compile(r"Heap Max Capacity: (\d+[KMG])")

# What the words before the parentheses mean for a region's kind.
_TAKEN = {"ALLOC", "ALLOC-FORCE"}
_FREED = {"CLEANUP", "EVAC-RECLAIM", "EAGER-RECLAIM", "MARK-RECLAIM"}
_EMPTY = {"COMMIT", "ACTIVE", "INACTIVE", "UNCOMMIT"}  # whether memory is behind the region; it holds nothing
_UNCHANGED = {"RETIRE", "REUSE", "CSET"}
_ACTIONS = _TAKEN | _FREED | _EMPTY | _UNCHANGED | {"POST-COMPACTION", "EVAC-FAILURE"}


class Pause(NamedTuple):
    """One time at which the program stood still.

    number   of the collection it belongs to; a collection may have several pauses
    what     the log's words, such as "Young (Normal) (G1 Evacuation Pause)"
    before_bytes, after_bytes, capacity_bytes   of the heap, rounded by the log to K or M; None where it does not say
    """

    number: int
    what: str
    before_bytes: int | None
    after_bytes: int | None
    capacity_bytes: int | None
    milliseconds: float

    @property
    def is_full(self) -> bool:
        return self.what.startswith("Full")

    def __str__(self) -> str:
        sizes = "" if self.before_bytes is None else \
            f"  {_mib(self.before_bytes)} → {_mib(self.after_bytes)} of {_mib(self.capacity_bytes)}"
        return f"{self.number:>3}  {self.milliseconds:8.3f} ms{sizes}  {self.what}"


class GenerationChange(NamedTuple):
    """How full one generation was before and after one collection; Serial and Parallel have two of them."""

    number: int
    generation: str
    before_bytes: int
    after_bytes: int
    capacity_bytes: int

    def __str__(self) -> str:
        return (f"{self.number:>3}  {self.generation:<10}  {_mib(self.before_bytes)} → {_mib(self.after_bytes)} "
                f"of {_mib(self.capacity_bytes)}")


class HeapAtStart(NamedTuple):
    """What a log that begins in the middle of a JVM's life does not say.

    first_address   of region 0
    kinds           region → kind, of every region that is not free
    """

    first_address: int
    num_regions: int
    kinds: Mapping[int, str]


def read_collector(text: str) -> str | None:
    """The collector's name, "ZGC" for "The Z Garbage Collector"; None if the log does not say."""
    match = _COLLECTOR.search(text)
    return match and match[1].replace("Z Garbage Collector", "ZGC")


def read_region_size_bytes(text: str) -> int | None:
    """The region size that the log's beginning tells (-Xlog:gc+init); None if it does not."""
    match = _REGION_SIZE.search(text)
    return match and _bytes(match[1])


def read_pauses(text: str) -> list[Pause]:
    """Every pause, in order. Empty if there was none."""
    return [Pause(int(number), what, *(size and _bytes(size) for size in sizes), float(millis.replace(",", ".")))
            for line in text.splitlines() if (match := _PAUSE.search(line))
            for number, what, *sizes, millis in [match.groups()]]


def read_generations(text: str) -> list[GenerationChange]:
    """The generations before and after each collection of Serial or Parallel. Empty for other collectors."""
    return [GenerationChange(int(number), name, _bytes(before), _bytes(after), _bytes(capacity))
            for line in text.splitlines() if (match := _GENERATION.search(line))
            for number, name, before, _, after, capacity in [match.groups()] if name != "Metaspace"]


def read_regions(text: str, at_start: HeapAtStart | None = None, source: str | None = None) -> Recording:
    """The log's region lines as the recording of a pool whose blocks are the heap's regions.

    A block's number is (its address - the heap's first address) / region size. Without `at_start` the log has to begin
    with the JVM: then the lowest region is the first one, and all are free. Events that belong to a collection have
    its number in their detail, as "gc", and the log's words for its pause, as "pause".

    A last line that was cut off is left out. Raises ValueError for a text without region lines, naming the flags that
    make the JVM write them, and for a region line whose words are not known.
    """
    lines = _region_lines(text)
    if not lines and at_start is None:
        raise ValueError("this log has no lines about regions (… G1HR ALLOC(EDEN) …): run the JVM with " + REGION_FLAGS)
    size_bytes = lines[0].size_bytes if lines else None
    first = at_start.first_address if at_start else min(line.address for line in lines)
    num_regions = at_start.num_regions if at_start else _num_regions(text, lines, first)
    story = _Story({pause.number: pause.what for pause in read_pauses(text)})
    story.begin(at_start.kinds if at_start else {})
    for line in lines:
        story.tell((line.address - first) // size_bytes, line)
    story.end_batch()
    if source is None:
        source = f"JVM heap, G1 regions of {_mib(size_bytes)}" if size_bytes else "JVM heap, G1 regions"
    return Recording(num_regions, source, {}, story.events, owners_are="kinds")


class _Line(NamedTuple):
    gc: int | None
    action: str
    kind: str
    address: int
    size_bytes: int


class _Story:
    """Follows the kind of each region and writes down the events that change one.

    Neighbouring lines that belong to one thing make one event for each kind: the regions of a humongous object, the
    regions that a collection frees, the whole heap after a full collection.
    """

    def __init__(self, pauses: dict[int, str]):
        self.events: list[Event] = []
        self._pauses = pauses
        self._kinds: dict[int, str] = {}
        self._batch: list[tuple[int, str | None]] = []
        self._batch_key: tuple | None = None
        self._gc: int | None = None

    def begin(self, kinds: Mapping[int, str]) -> None:
        for kind in dict.fromkeys(kinds.values()):
            self._add("allocate", kind, [region for region, its in kinds.items() if its == kind])

    def tell(self, region: int, line: _Line) -> None:
        kind = _KINDS[line.kind]
        if line.action in _TAKEN:
            joins = line.kind == "HUMC"
            self._change(region, kind, line.gc, ("object",) if kind == "humongous" else None, starts=not joins)
        elif line.action in _FREED:
            self._change(region, None, line.gc, ("freed", line.gc))
        elif line.action in _EMPTY:
            self._change(region, None, line.gc, ("empty", line.gc))
        elif line.action == "POST-COMPACTION":
            self._change(region, kind, line.gc, ("compaction", line.gc))
        elif line.action == "EVAC-FAILURE":  # no room to copy what lives there: the region stays and counts as old
            self._change(region, "old", line.gc, None)
        elif region not in self._kinds and not self._is_pending(region):
            self._change(region, kind, line.gc, None)  # it was taken before the log began

    def end_batch(self) -> None:
        changes = [(region, kind) for region, kind in self._batch if self._kinds.get(region) != kind]
        for old in dict.fromkeys(self._kinds.get(region) for region, _ in changes):
            if old is not None:
                self._add("release", old, [region for region, _ in changes if self._kinds.get(region) == old])
        for new in dict.fromkeys(kind for _, kind in changes):
            if new is not None:
                self._add("allocate", new, [region for region, kind in changes if kind == new])
        for region, kind in changes:
            self._kinds.pop(region, None)
            if kind is not None:
                self._kinds[region] = kind
        self._batch, self._batch_key = [], None

    def _change(self, region: int, kind: str | None, gc: int | None, key: tuple | None, starts: bool = False) -> None:
        if key is None or key != self._batch_key or starts:
            self.end_batch()
        self._gc, self._batch_key = gc, key
        self._batch.append((region, kind))
        if key is None:
            self.end_batch()

    def _is_pending(self, region: int) -> bool:
        return any(region == each for each, _ in self._batch)

    def _add(self, op: str, kind: str, regions: list[int]) -> None:
        detail = {} if self._gc is None else {"gc": self._gc}
        if self._gc in self._pauses:
            detail["pause"] = self._pauses[self._gc]
        if op == "allocate":
            self._kinds.update(dict.fromkeys(regions, kind))
        self.events.append(Event(len(self.events), op, kind, tuple(regions), detail))


def _region_lines(text: str) -> list[_Line]:
    """The region lines of the log, read; the last line of the text may be cut off anywhere."""
    rows = text.split("\n")
    lines = []
    for number, row in enumerate(rows, 1):
        if "G1HR " not in row:
            continue
        match = _REGION.search(row.rstrip())
        if match is None and number == len(rows):
            continue
        if match is None or match[3] not in _ACTIONS or match[4] not in _KINDS:
            raise ValueError(f"line {number} of the log tells of a region in words that are not known here "
                             f"(known: JDK 17 to 25): {row.strip()}")
        gc, _, action, kind, bottom, _, end = match.groups()
        lines.append(_Line(gc and int(gc), action, kind, int(bottom, 16), int(end, 16) - int(bottom, 16)))
    return lines


def _num_regions(text: str, lines: list[_Line], first: int) -> int:
    """By the log's beginning, which rounds large sizes, so that a region beyond it counts too."""
    size_bytes = lines[0].size_bytes
    highest = max(line.address for line in lines)
    capacity = _MAX_CAPACITY.search(text)
    return max((highest - first) // size_bytes + 1, _bytes(capacity[1]) // size_bytes if capacity else 0)


def _bytes(size: str) -> int:
    return int(size[:-1]) * _UNITS[size[-1]]


def _mib(size_bytes: int) -> str:
    mib = size_bytes / (1 << 20)
    return f"{mib:.0f} MiB" if mib == int(mib) else f"{mib:.1f} MiB"
