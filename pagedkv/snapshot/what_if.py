"""What if the same requests had met other settings?

The requests of the trace are put to PyTorch's allocator, simulated, under one setting after the other, and to a paged
pool of several block sizes. Each run begins with what was there before the trace, placed afresh in order of addresses;
then it follows the trace, entry by entry. A request that failed in the recording is made too.

How far the simulator itself is off is in the table. The first row is the recording. The second is the simulator with
the recording's own settings, begun in the recording's own segments: whatever differs there is its error. The third has
the same settings and begins afresh, as all that follow do, so it is the one to compare them with: an allocator that
begins afresh has not cached any free segments before the trace. After a request that is refused the real program went
another way, and the simulated ones do not.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import GIVE, TAKE, as_text
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.snapshot.contents import Snapshot
from pagedkv.snapshot.history import History, roundup_divisions

_MIB = 1 << 20
# Where the capacity is not known: more than any device has, and little enough for the addresses of _MOST_STREAMS
# streams, each of which reserves 1⅛ of it twice.
NO_LIMIT_BYTES = 1 << 40

SETTINGS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("expandable_segments:True", {"expandable_segments": True}),
    ("max_split_size_mb:64", {"max_split_size_mb": 64}),
    ("max_split_size_mb:128", {"max_split_size_mb": 128}),
    ("max_split_size_mb:256", {"max_split_size_mb": 256}),
    ("max_split_size_mb:512", {"max_split_size_mb": 512}),
    ("roundup_power2_divisions:4", {"roundup_power2_divisions": 4}),
    ("roundup_power2_divisions:8", {"roundup_power2_divisions": 8}),
)
# A threshold collects nothing without a fraction (set_per_process_memory_fraction), and both need a known capacity.
COLLECTING = ("garbage_collection_threshold:0.8", {"garbage_collection_threshold": 0.8, "memory_fraction": 1.0})
_MOST_STREAMS = 64
BLOCK_BYTES = (64 << 10, 512 << 10, 2 * _MIB)


class Row(NamedTuple):
    """start, peak, end  reserved bytes: when the trace begins, at most, and when it ends
    device_calls      cudaMalloc and cudaFree, or map and unmap, during the trace; 0 for a paged pool
    num_refused       requests that failed; None where the capacity is not known, so that none can
    baseline          whether it is the recording, or the simulator with the recording's own settings
    """

    title: str
    start_bytes: int
    peak_bytes: int
    end_bytes: int
    device_calls: int
    num_refused: int | None
    baseline: bool = False


def what_if(snapshot: Snapshot, history: History, capacity_bytes: int | None = None,
            on_progress: Callable[[str], None] | None = None) -> list[Row]:
    """The table, row by row; [] without a trace. capacity_bytes is what PyTorch could have had; if it is not given,
    what the recording tells. on_progress is told the title of each row before it is made."""
    if not history.trace:
        return []
    capacity = capacity_bytes or history.recording.capacity_bytes
    if capacity and capacity >= NO_LIMIT_BYTES:
        capacity = None
    streams = _Streams(history)
    requests = list(_requests(history, streams))
    told = on_progress or (lambda title: None)
    rows = [_recorded(history)]
    recorded = recorded_settings(snapshot.settings)
    told("simulated")
    in_place = _adopted(history, streams, capacity, recorded)
    if in_place is not None:
        rows.append(_simulated("simulated, from the recorded start", requests, *in_place))
    allocator = CachingAllocator(capacity or NO_LIMIT_BYTES, **recorded)
    rows.append(_simulated("simulated, begun afresh", requests, allocator))
    rows = [row._replace(baseline=True) for row in rows]
    for title, settings in SETTINGS + ((COLLECTING,) if capacity else ()):
        if any(recorded.get(key) != value for key, value in settings.items()):
            told(title)
            allocator = CachingAllocator(capacity or NO_LIMIT_BYTES, **{**recorded, **settings})
            rows.append(_simulated(title, requests, allocator))
    told("paged")
    return rows + [_paged(requests, capacity, block_bytes) for block_bytes in BLOCK_BYTES]


def table(rows: list[Row]) -> str:
    """The rows in columns, for a terminal."""
    head = ("", "at first", "peak", "at the end", "device calls", "refused")
    cells = [head] + [(row.title, as_text(row.start_bytes), as_text(row.peak_bytes), as_text(row.end_bytes),
                       f"{row.device_calls:,}", refused_text(row)) for row in rows]
    widths = [max(len(line[column]) for line in cells) for column in range(len(head))]
    return "\n".join("  ".join(text.ljust(width) if not column else text.rjust(width)
                               for column, (text, width) in enumerate(zip(line, widths))).rstrip() for line in cells)


def refused_text(row: Row) -> str:
    return "?" if row.num_refused is None else "no" if not row.num_refused else f"{row.num_refused:,}"


def recorded_settings(settings: Mapping) -> dict[str, Any]:
    """A file's `allocator_settings` as keywords of `CachingAllocator`. What it has that the simulator does not is left
    out, and so is a value that torch would refuse."""
    keywords: dict[str, Any] = {}
    split = settings.get("max_split_size")
    if type(split) is int and 20 * _MIB <= split < 1 << 62:
        keywords["max_split_size_mb"] = split // _MIB
    if settings.get("expandable_segments") is True:
        keywords["expandable_segments"] = True
    divisions = roundup_divisions(settings)
    if divisions is not None:
        keywords["roundup_power2_divisions"] = {1 << power: number for power, number in enumerate(divisions)}
    return keywords


class _Request(NamedTuple):
    """size_bytes 0: the piece is freed. passing: made, and freed at once, since the recording goes on without it."""

    number: int
    size_bytes: int
    stream: int = 0
    passing: bool = False


_BEGIN = _Request(-1, -1)  # between what was there before and the trace


class _Streams:
    """The simulator's number for each stream: they count from 0 there, and are pointers in a real file. More than
    _MOST_STREAMS are one."""

    def __init__(self, history: History):
        self._numbers: dict[int, int] = {}
        self._segments = {entry.address: entry.stream for entry in history.trace if entry.action.startswith("segment_")}
        self._segments |= {segment.address: segment.stream for segment in history.device.segments}
        self._starts = sorted(self._segments)

    def number(self, stream: int) -> int:
        return self._numbers.setdefault(stream, min(len(self._numbers), _MOST_STREAMS - 1))

    def of_address(self, address: int) -> int:
        """Of the segment that is there, or was."""
        at = bisect_right(self._starts, address) - 1
        return self.number(self._segments[self._starts[at]]) if at >= 0 else 0


def _requests(history: History, streams: _Streams) -> Iterator[_Request]:
    """What was there, the mark _BEGIN, and the trace. Each piece has a number. The frees are those that made memory
    free, so what another stream still held is held here as long."""
    live: dict[int, int] = {}
    number = 0
    for piece in history.recording.initial.pieces:
        live[piece.address] = number
        yield _Request(number, max(piece.requested_bytes, 1), streams.of_address(piece.address))
        number += 1
    yield _BEGIN
    for event in history.recording.events[:len(history.trace)]:
        if event.op == "oom":
            yield _Request(number, max(event.size_bytes, 1), streams.number(event.detail["stream"]), passing=True)
            number += 1
        for change in event.changes:
            if change.kind == TAKE:
                live[change.address] = number
                yield _Request(number, max(change.requested_bytes, 1), streams.number(event.detail["stream"]))
                number += 1
            elif change.kind == GIVE and change.address in live:
                yield _Request(live.pop(change.address), 0)


def _recorded(history: History) -> Row:
    calls = sum(entry.action.startswith("segment_") for entry in history.trace)
    start = sum(segment.size_bytes for segment in history.recording.initial.segments)
    return Row("as recorded", start, history.peak_reserved.size_bytes, history.end.reserved_bytes, calls,
               history.num_refusals if history.recording.capacity_bytes or history.num_refusals else None)


def _adopted(history: History, streams: _Streams, capacity: int | None, settings: dict[str, Any]) -> tuple | None:
    """An allocator in the recorded start and its handles by number; None where that start cannot be put in place:
    expandable segments, or more than the capacity."""
    initial = history.recording.initial
    allocator = CachingAllocator(capacity or NO_LIMIT_BYTES, **settings)
    try:
        handles = allocator.adopt(initial.segments, initial.pieces, lambda segment: streams.of_address(segment.address))
    except ValueError:
        return None
    return allocator, {number: handles[piece.address] for number, piece in enumerate(initial.pieces)}


def _simulated(title: str, requests: list[_Request], allocator: CachingAllocator,
               adopted: dict[int, Any] | None = None) -> Row:
    handles: dict[int, Any] = dict(adopted or {})
    start = peak = calls_before = refused = 0
    for number, size, stream, passing in requests:
        if size > 0:
            if adopted is not None and number in adopted:
                continue
            try:
                handle = allocator.allocate(number, size, stream)
            except OutOfMemory:
                refused += 1
                continue
            if allocator.reserved_bytes > peak:
                peak = allocator.reserved_bytes
            if passing:
                allocator.free(handle)
            else:
                handles[number] = handle
        elif size == 0:
            handle = handles.pop(number, None)
            if handle is not None:
                allocator.free(handle)
        else:
            start, calls_before = allocator.reserved_bytes, allocator.num_device_mallocs + allocator.num_device_frees
            peak = max(peak, start)
    calls = allocator.num_device_mallocs + allocator.num_device_frees - calls_before
    limited = allocator.capacity_bytes < NO_LIMIT_BYTES
    return Row(title, start, peak, allocator.reserved_bytes, calls, refused if limited else None)


def _paged(requests: list[_Request], capacity: int | None, block_bytes: int) -> Row:
    """Counted, not carried out: in a paged pool any free block will do, so a request fails exactly when too few are
    free. `pagedkv.rivals.paged` gives the same numbers, and takes a thousand times as long for a tensor of a thousand
    blocks. Reserved is what the pool has to have; it is taken once, so the figures are the blocks in use."""
    most = capacity // block_bytes if capacity else NO_LIMIT_BYTES
    used: dict[int, int] = {}
    in_use = peak = start = refused = 0
    for number, size, _, passing in requests:
        if size > 0:
            needed = -(-size // block_bytes)
            if in_use + needed > most:
                refused += 1
                continue
            peak = max(peak, in_use + needed)
            if not passing:
                in_use += needed
                used[number] = needed
        elif size == 0:
            in_use -= used.pop(number, 0)
        else:
            start = in_use
    return Row(f"paged, blocks of {as_text(block_bytes)}", start * block_bytes, peak * block_bytes,
               in_use * block_bytes, 0, refused if capacity else None)
