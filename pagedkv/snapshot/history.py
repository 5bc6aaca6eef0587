"""A device's trace as a recording: what memory looked like before the first entry, and after each one.

A snapshot shows the state at its *end*. So the trace is walked backwards from there: an "alloc" takes its block away, a
"free_completed" brings one back, a "segment_free" a segment. What is left before the first entry is the recording's
`initial` layout. Then the trace is walked forwards, and each entry becomes one event:

    alloc           take         size_bytes is what was asked for
    free_requested  hold         the tensor is gone; other streams may still use the memory
    free_completed  give
    segment_alloc   reserve      cudaMalloc
    segment_free    unreserve    cudaFree
    segment_map     reserve      more physical memory behind an expandable segment
    segment_unmap   unreserve
    oom             nothing      refused: "error" is in the detail
    others          nothing      such as "snapshot"

The trace tells only what was asked for, not how large the block became. PyTorch's own rules give it: the request is
rounded up; a block of the large pool is split only where more than 1 MiB would be left; so a gap of up to 1 MiB behind
a block belongs to it. Where the block is still there at the end, the snapshot says it.

Real traces do not always add up: recording was switched off before the snapshot, kinds of entries were left out.
Nothing here raises for that. What cannot be is left out of the changes and counted in `History.problems`, and last
events, "unrecorded", bring the memory to the state that the snapshot shows. Source of the rules:
c10/cuda/CUDACachingAllocator.cpp, as of torch 2.5.
"""

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pagedkv.core.memory import (GIVE, HOLD, RESERVE, TAKE, UNRESERVE, Change, Layout, MemoryEvent, MemoryRecording,
                                 Piece, Segment, as_text)
from pagedkv.core.memory_replay import EXPANDABLE, MemoryState
from pagedkv.rivals.caching_rules import (NO_LIMIT_BYTES, SMALL_LIMIT_BYTES, SMALL_SEGMENT_BYTES, read_divisions,
                                          round_size)
from pagedkv.snapshot.contents import INACTIVE, PENDING, PROGRESS_EVERY, Device, Entry, Snapshot, Stack

OLDER = "older than the trace"  # the owner of what was allocated before, where others are named by their stacks

# what History.problems counts
NOT_FREE = "allocations at memory that was in use"
NOT_THERE = "frees of memory that nobody had"
SEGMENT_IN_USE = "segments given back while memory in them was in use"
SEGMENT_TWICE = "segments taken where there was one"
SEGMENT_UNKNOWN = "segments given back that were never taken"
OUTSIDE = "blocks outside of any segment"
OVERWRITTEN = "blocks that some unrecorded call put where the trace has another"
UNRECORDED = "blocks and segments at the end that the trace does not explain"


@dataclass(frozen=True)
class Source:
    """Where a piece of memory came from: its stack, its stream, and the trace entry that allocated it (-1: before)."""

    stack: Stack
    stream: int
    entry: int


@dataclass(frozen=True)
class Refusal:
    """One "oom" entry: the request that failed, and who had what at that moment."""

    entry: Entry
    index: int
    layout: Layout
    sources: dict[int, Source]


@dataclass
class Peak:
    """The most of something, and after how many events it was first reached."""

    size_bytes: int = 0
    frame: int = 0


@dataclass
class History:
    """recording       one event for each trace entry, and perhaps last ones, "unrecorded"
    device          the records it was made from
    end             the state after the last event; the same as the snapshot's segments
    problems        what could not be reconciled, and how often
    num_older_frees  frees of memory that was allocated before the first entry
    sources         for each piece at the end, by address, where it came from
    refusals        the first and the last of the "oom" entries; num_refusals counts all
    peak_reserved, peak_used   over all events
    """

    recording: MemoryRecording
    device: Device
    end: MemoryState
    problems: Counter = field(default_factory=Counter)
    num_older_frees: int = 0
    sources: dict[int, Source] = field(default_factory=dict)
    refusals: tuple[Refusal, ...] = ()
    num_refusals: int = 0
    peak_reserved: Peak = field(default_factory=Peak)
    peak_used: Peak = field(default_factory=Peak)

    @property
    def trace(self) -> tuple[Entry, ...]:
        return self.device.trace


def history_of(snapshot: Snapshot, device: int | None = None,
               on_progress: Callable[[int, int], None] | None = None) -> History:
    """Of this device, or of the one that holds most. Raises SnapshotError for a device the snapshot does not have."""
    record = snapshot.device(device)
    rules = _Rules.of(snapshot.settings)
    problems: Counter = Counter()
    before = _Before(record, problems)
    before.walk(on_progress)
    initial = before.layout(rules)
    num_older = before.num_older_frees
    forward = _Forward(record, initial, before, rules, problems)
    forward.walk(on_progress)
    forward.finish()
    source = f"CUDA snapshot, device {record.number}"
    if snapshot.origin:  # torch's own files have none, so this one is not from a GPU
        source = f"memory snapshot, {snapshot.origin}, device {record.number}"
    capacity = capacity_of(record, forward.reserved_at_oom)
    recording = MemoryRecording(capacity, source, initial, forward.events)
    return History(recording, record, forward.state, problems, num_older, forward.sources, tuple(forward.refusals),
                   len(forward.reserved_at_oom), forward.peak_reserved, forward.peak_used)


def capacity_of(device: Device, reserved_at_oom: list[int]) -> int | None:
    """What PyTorch could have had in all when it ran out: what it had, and what the device still reported free. The
    most of all "oom" entries; None without one."""
    ooms = [entry for entry in device.trace if entry.action == "oom"]
    known = [reserved + entry.device_free_bytes for entry, reserved in zip(ooms, reserved_at_oom)
             if entry.device_free_bytes is not None]
    return max(known, default=0) or None


def roundup_divisions(settings: Mapping) -> tuple[int, ...] | None:
    """`roundup_power2_divisions` as the file has it: 16 numbers, for requests from 1, 2, 4, … MiB. None where it is
    off, or holds what torch would have refused."""
    given = settings.get("roundup_power2_divisions")
    try:
        if isinstance(given, Mapping):
            given = {int(size_mib): number for size_mib, number in given.items()}
        numbers = read_divisions(given) if given is not None else ()
    except (TypeError, ValueError):
        return None
    return numbers if any(number > 1 for number in numbers) else None


def owner_of(stack: Stack, requested_bytes: int) -> str:
    """Who is named as a piece's owner: the line that asked for it, or, without frames, its size. Pieces of one site, or
    of one size, belong together for whoever looks at the memory."""
    return stack.site or as_text(requested_bytes)


def label_of(kind: str, expandable: bool) -> str:
    return EXPANDABLE if expandable else kind


def last_events(recording: MemoryRecording, most: int) -> MemoryRecording:
    """The same recording, begun `most` events before its end: a picture of a million events is more than a
    browser takes."""
    skipped = len(recording) - most
    if skipped <= 0:
        return recording
    state = MemoryState(recording.initial)
    for event in recording.events[:skipped]:
        state.apply(event)
    return MemoryRecording(recording.capacity_bytes, recording.source, state.layout(), recording.events[skipped:])


class _Rules(NamedTuple):
    """What decides how large a block becomes, as far as a file tells its settings."""

    divisions: tuple[int, ...] | None
    max_split_bytes: int

    @classmethod
    def of(cls, settings: Mapping) -> "_Rules":
        split = settings.get("max_split_size")
        return cls(roundup_divisions(settings), split if type(split) is int and split > 0 else NO_LIMIT_BYTES)

    def block_size(self, requested: int, room: int, label: str) -> int:
        """For this request, at the beginning of `room` bytes of free memory. From max_split_size on, no block is
        split."""
        rounded = round_size(max(requested, 1), self.divisions)
        unsplit = label == "large" and (rounded + SMALL_LIMIT_BYTES >= room or rounded >= self.max_split_bytes)
        return room if unsplit and rounded <= room else rounded


class _Before:
    """The walk backwards. It knows the pieces and segments at one moment; `walk` moves that moment to before the
    trace."""

    def __init__(self, device: Device, problems: Counter):
        self._trace = device.trace
        self._problems = problems
        self._pieces: dict[int, tuple[int, int, bool, str]] = {}  # address → (size or 0, requested, held, owner)
        self._starts: list[int] = []
        self._segments: dict[int, tuple[int, str]] = {}
        self._mapped = _Ranges()
        self.true_size: dict[int, int] = {}  # index of an alloc whose block is still there at the end → its size
        self.at_once: set[int] = set()  # indices of the requests whose memory was free later, without a completion
        self.num_older_frees = 0
        for segment in device.segments:
            if segment.expandable:
                self._mapped.add(segment.address, segment.address + segment.size_bytes)
            else:
                self._segments[segment.address] = (segment.size_bytes, segment.kind)
            for block in segment.blocks:
                if block.state != INACTIVE:
                    self._add(block.address, block.size_bytes, block.requested_bytes, block.state == PENDING,
                              owner_of(block.stack, block.requested_bytes))

    def walk(self, on_progress: Callable[[int, int], None] | None) -> None:
        """The stack of a free says who freed; so whoever owns what only a free tells of stays unknown."""
        trace, pieces = self._trace, self._pieces
        for index in range(len(trace) - 1, -1, -1):
            action, address, size, _, _, stack, _ = trace[index]
            if on_progress is not None and index % PROGRESS_EVERY == 0:
                on_progress(len(trace) - index, 2 * len(trace))
            if action == "alloc":
                piece = pieces.get(address)
                if piece is None:
                    self._make_room(address, max(size, 1))
                else:
                    self._remove(address)
                    if piece[0]:
                        self.true_size[index] = piece[0]
            elif action == "free_completed":
                self._make_room(address, max(size, 1))
                self._add(address, 0, size, True, OLDER if stack else owner_of(stack, size))
            elif action == "free_requested":
                piece = pieces.get(address)
                if piece is None:
                    self.at_once.add(index)
                    self._make_room(address, max(size, 1))
                    self._add(address, 0, size, False, OLDER if stack else owner_of(stack, size))
                elif piece[2]:
                    pieces[address] = (piece[0], piece[1], False, piece[3])
            elif action == "segment_alloc":
                self._segments.pop(address, None)
            elif action == "segment_free":
                self._segments[address] = (size, _kind_of(size))
            elif action == "segment_map":
                self._mapped.remove(address, address + size)
            elif action == "segment_unmap":
                self._mapped.add(address, address + size)

    def layout(self, rules: _Rules) -> Layout:
        """Segments and pieces, with the sizes that the rules give. What lies outside of any segment is left out."""
        segments, end = [], 0
        whole = [Segment(start, size, kind) for start, (size, kind) in self._segments.items() if size > 0]
        whole += [Segment(start, stop - start, EXPANDABLE) for start, stop in self._mapped]
        for segment in sorted(whole):
            if segment.address < end:
                self._problems[SEGMENT_TWICE] += 1
                continue
            end = segment.address + segment.size_bytes
            segments.append(segment)
        starts = [segment.address for segment in segments]
        pieces: list[Piece] = []
        end = 0
        for number, address in enumerate(self._starts):
            size, requested, held, owner = self._pieces[address]
            at = bisect_right(starts, address) - 1
            segment = segments[at] if at >= 0 else None
            limit = segment.address + segment.size_bytes if segment else 0
            if number + 1 < len(self._starts):
                limit = min(limit, self._starts[number + 1])
            if address < end or limit <= address:
                self._problems[OUTSIDE] += 1
                continue
            if not size:
                size = rules.block_size(requested, limit - address, segment.label)
                self.num_older_frees += 1
            size = min(size, limit - address)
            pieces.append(Piece(address, size, owner, min(requested, size), held))
            end = address + size
        return Layout(tuple(segments), tuple(pieces))

    def _add(self, address: int, size: int, requested: int, held: bool, owner: str) -> None:
        self._pieces[address] = (size, requested, held, owner)
        insort(self._starts, address)

    def _remove(self, address: int) -> None:
        del self._pieces[address]
        del self._starts[bisect_left(self._starts, address)]

    def _make_room(self, address: int, size: int) -> None:
        """At this moment somebody else had this memory; so what we know to lie there came later, by a call that the
        trace does not have."""
        at = bisect_right(self._starts, address) - 1
        if at >= 0:
            start = self._starts[at]
            known, requested, _, _ = self._pieces[start]
            if start + max(known, requested, 1) > address:
                self._remove(start)
                self._problems[OVERWRITTEN] += 1
        at = bisect_left(self._starts, address)
        while at < len(self._starts) and self._starts[at] < address + size:
            self._remove(self._starts[at])
            self._problems[OVERWRITTEN] += 1


class _Ranges:
    """Address ranges that grow together where they touch: what is mapped of the expandable segments."""

    def __init__(self):
        self._starts: list[int] = []
        self._ends: list[int] = []

    def __iter__(self):
        return zip(self._starts, self._ends)

    def add(self, low: int, high: int) -> None:
        if high <= low:
            return
        first, last = bisect_left(self._ends, low), bisect_right(self._starts, high)
        if first < last:
            low, high = min(low, self._starts[first]), max(high, self._ends[last - 1])
        self._starts[first:last], self._ends[first:last] = [low], [high]

    def remove(self, low: int, high: int) -> None:
        first, last = bisect_right(self._ends, low), bisect_left(self._starts, high)
        if high <= low or first >= last:
            return
        rests = [(self._starts[first], low), (high, self._ends[last - 1])]
        rests = [(start, stop) for start, stop in rests if start < stop]
        self._starts[first:last], self._ends[first:last] = [start for start, _ in rests], [stop for _, stop in rests]


class _Forward:
    """The walk forwards: the events. The state is kept by the same replay that everybody uses, and what it would call a
    fault never gets into the recording."""

    def __init__(self, device: Device, initial: Layout, before: "_Before", rules: _Rules, problems: Counter):
        self._device = device
        self._true_size, self._at_once = before.true_size, before.at_once
        self._rules = rules
        self._problems = problems
        self.state = MemoryState(initial)
        self.events: list[MemoryEvent] = []
        self.sources: dict[int, Source] = {}
        self.reserved_at_oom: list[int] = []
        self.refusals: list[Refusal] = []
        self.peak_reserved, self.peak_used = Peak(self.state.reserved_bytes), Peak(self.state.used_bytes)

    def walk(self, on_progress: Callable[[int, int], None] | None) -> None:
        trace, state = self._device.trace, self.state
        ooms = [index for index, entry in enumerate(trace) if entry.action == "oom"]
        told = {*ooms[:1], *ooms[-1:]}
        for index, entry in enumerate(trace):
            if on_progress is not None and index % PROGRESS_EVERY == 0 and index:
                on_progress(len(trace) + index, 2 * len(trace))
            action, address, size, stream, time_us, stack, _ = entry
            change = self._change(index, entry)
            if action == "alloc" or action == "oom":
                owner = owner_of(stack, size)
            else:
                piece = state.pieces.get(address) if action.startswith("free_") else None
                owner = piece.owner if piece else None
            detail: dict = {"stream": stream}
            if time_us is not None:
                detail["time_us"] = time_us
            if stack:
                detail["frames"] = stack
            if action == "oom":
                detail |= _refusal(entry, state)
                self.reserved_at_oom.append(state.reserved_bytes)
                if index in told:
                    self.refusals.append(Refusal(entry, index, state.layout(), dict(self.sources)))
            event = MemoryEvent(index, action, owner, size, (change,) if change else (), detail)
            if change:
                state.apply(event)
                if state.faults:
                    state.faults.clear()
                    self._problems[_PROBLEM_OF[change.kind]] += 1
                    event = event._replace(changes=())
                elif change.kind == TAKE:
                    self.sources[address] = Source(stack, stream, index)
                    if state.used_bytes > self.peak_used.size_bytes:
                        self.peak_used = Peak(state.used_bytes, index + 1)
                elif change.kind == RESERVE and state.reserved_bytes > self.peak_reserved.size_bytes:
                    self.peak_reserved = Peak(state.reserved_bytes, index + 1)
            self.events.append(event)

    def _change(self, index: int, entry: Entry) -> Change | None:
        """What this entry did, or None. Counts what cannot be told."""
        action, address, size = entry.action, entry.address, entry.size_bytes
        state = self.state
        if action == "alloc":
            run = state.free.around(address)
            if run is None:
                return self._problem(NOT_FREE)
            block = self._true_size.get(index) or self._rules.block_size(size, run[1] - address,
                                                                         state.segment_of(address).label)
            return Change(TAKE, address, block, min(size, block))
        if action == "free_requested" or action == "free_completed":
            piece = state.pieces.get(address)
            if piece is None:
                return self._problem(NOT_THERE)
            kind = GIVE if action == "free_completed" or index in self._at_once else HOLD
            return Change(kind, address, piece.size_bytes, piece.requested_bytes)
        if action == "segment_alloc" or action == "segment_map":
            label = EXPANDABLE if action == "segment_map" else _kind_of(size)
            return Change(RESERVE, address, size, label=label)
        if action == "segment_free" or action == "segment_unmap":
            segment = state.segment_of(address)
            if segment is None:
                return self._problem(SEGMENT_UNKNOWN)
            return Change(UNRESERVE, address, size, label=segment.label)
        return None

    def _problem(self, what: str) -> None:
        self._problems[what] += 1

    def finish(self) -> None:
        """Further events where the state is not yet the snapshot's."""
        owners = {block.address: owner_of(block.stack, block.requested_bytes)
                  for segment in self._device.segments for block in segment.blocks}
        by_owner: dict[str | None, list[Change]] = {}
        for change in _difference(self.state.layout(), self._device):
            by_owner.setdefault(owners[change.address] if change.kind in (TAKE, HOLD) else None, []).append(change)
            if change.kind in (TAKE, RESERVE):
                self._problems[UNRECORDED] += 1
        for owner, changes in sorted(by_owner.items(), key=lambda item: item[0] is not None):
            event = MemoryEvent(len(self.events), "unrecorded", owner, 0, tuple(changes), {})
            self.state.apply(event)
            self.events.append(event)
        made, self.sources = self.sources, {}  # those of blocks that are gone are of no more use
        for segment in self._device.segments:
            for block in segment.blocks:
                if block.state == INACTIVE:
                    continue
                known = made.get(block.address) or Source(block.stack, segment.stream, -1)
                self.sources[block.address] = known if known.stack else replace(known, stack=block.stack)


_PROBLEM_OF = {TAKE: NOT_FREE, GIVE: NOT_THERE, HOLD: NOT_THERE, RESERVE: SEGMENT_TWICE, UNRESERVE: SEGMENT_IN_USE}


def _kind_of(segment_bytes: int) -> str:
    return "small" if segment_bytes <= SMALL_SEGMENT_BYTES else "large"


def _refusal(entry: Entry, state: MemoryState) -> dict:
    free = "" if entry.device_free_bytes is None else f", the device has {as_text(entry.device_free_bytes)}"
    detail: dict = {"error": "OutOfMemory", "message": f"{as_text(entry.size_bytes)} wanted; "
                                                       f"{as_text(state.free_bytes)} free in "
                    f"the segments, the longest run {as_text(state.largest_free_bytes)}{free}"}
    if entry.device_free_bytes is not None:
        detail["device_free_bytes"] = entry.device_free_bytes
    return detail


def _difference(layout: Layout, device: Device) -> list[Change]:
    """What has to be done to this layout so that it is the device's own."""
    wanted = {block.address: block for segment in device.segments for block in segment.blocks
              if block.state != INACTIVE}
    segments = _grown_together(device)
    known = {segment.address: (segment.size_bytes, segment.label) for segment in layout.segments}
    gone = {address for address, value in known.items() if segments.get(address) != value}
    kept = [(address, address + size) for address, (size, _) in known.items() if address not in gone]
    changes: list[Change] = []
    live: set[int] = set()
    starts = [start for start, _ in kept]
    for piece in layout.pieces:
        block = wanted.get(piece.address)
        at = bisect_right(starts, piece.address) - 1
        stays = at >= 0 and piece.address < kept[at][1] and block is not None and block.size_bytes == piece.size_bytes \
            and (block.state == PENDING or not piece.held)
        if not stays:
            changes.append(Change(GIVE, piece.address, piece.size_bytes, piece.requested_bytes))
            continue
        live.add(piece.address)
        if block.state == PENDING and not piece.held:
            changes.append(Change(HOLD, piece.address, piece.size_bytes, piece.requested_bytes))
    changes += [Change(UNRESERVE, address, known[address][0], label=known[address][1]) for address in sorted(gone)]
    changes += [Change(RESERVE, address, size, label=label) for address, (size, label) in sorted(segments.items())
                if known.get(address) != (size, label)]
    for address, block in sorted(wanted.items()):
        if address not in live:
            changes.append(Change(TAKE, address, block.size_bytes, block.requested_bytes))
            if block.state == PENDING:
                changes.append(Change(HOLD, address, block.size_bytes, block.requested_bytes))
    return changes


def _grown_together(device: Device) -> dict[int, tuple[int, str]]:
    """address → (size, label) of the device's segments, as replay has them: expandable ones that touch are one."""
    segments: dict[int, tuple[int, str]] = {}
    last = None
    for segment in device.segments:
        label = label_of(segment.kind, segment.expandable)
        if label == EXPANDABLE and last is not None and segments[last][1] == EXPANDABLE and \
                last + segments[last][0] == segment.address:
            segments[last] = (segments[last][0] + segment.size_bytes, EXPANDABLE)
        else:
            last = segment.address
            segments[last] = (segment.size_bytes, label)
    return segments
