"""Recorded requests of a real GPU, put to the simulated caching allocator.

A memory snapshot of PyTorch has two parts: the *segments* with their blocks as they were at its end, and the *trace* of
what happened before. The trace begins somewhere in the middle of a program's life, with memory that is in use already.
`read_history` walks back from the segments over the trace to what there was when it began:

    segments at the end  ──walk back──▶  segments and pieces at the start  ──replay──▶  the end again, simulated

Addresses are of no use to another allocator, so a history names each allocation by a *key*: a number, in order of
appearance, those that are older than the trace first. There are two ways to replay it:

    from the recorded start   `seed`, then the requests: the same settings have to lead to the same end
    from nothing              `History.from_nothing()`: the older pieces are allocated first, then the requests; for
                              other settings, where the recorded start could not have come about
"""

from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import Layout, Piece, Segment
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.caching_blocks import Block
from pagedkv.rivals.caching_rules import SMALL_LIMIT_BYTES, SMALL_SEGMENT_BYTES, round_size

ALLOC, FREE = "alloc", "free"


class TraceRow(NamedTuple):
    """One entry of a snapshot's device_traces: action as PyTorch names it, size_bytes as the program asked for it."""

    action: str
    address: int
    size_bytes: int
    stream: int = 0


class ReplayRequest(NamedTuple):
    """op "alloc" or "free"; any tuple of these four will do."""

    op: str
    key: Hashable
    size_bytes: int
    stream: int = 0


@dataclass(frozen=True)
class History:
    """start                          segments and pieces when the trace began; the owner of a piece is its key. Without
                                      segments if some were expandable: those cannot be put back in place
    segment_streams, key_streams      the stream of each segment of the start, by address, and of each of its pieces
    requests                          what followed
    addresses                         where the real allocator had each of them
    """

    start: Layout
    segment_streams: Mapping[int, int]
    key_streams: Mapping[int, int]
    requests: tuple[ReplayRequest, ...]
    addresses: tuple[int, ...]

    def from_nothing(self) -> list[ReplayRequest]:
        """The requests, after the pieces of the start in order of their addresses."""
        older = [ReplayRequest(ALLOC, piece.owner, piece.requested_bytes, self.key_streams[piece.owner])
                 for piece in self.start.pieces]
        return older + list(self.requests)


class Replayed(NamedTuple):
    """handles      key → handle of what is live at the end
    refused         the keys whose allocation was refused
    num_skipped     the frees that were left out because of that
    peak_…          the most at any time
    """

    handles: dict[Hashable, Block]
    refused: tuple[Hashable, ...]
    num_skipped: int
    peak_allocated_bytes: int
    peak_reserved_bytes: int


def read_history(segments: Iterable[Mapping[str, Any]], rows: Iterable[tuple]) -> History:
    """What a snapshot tells: its segments (as in `torch.cuda.memory._snapshot()["segments"]`, of one device) and the
    trace's rows (action, address, size, stream), oldest first. A free counts when it is completed.

    Raises ValueError if the two do not belong together, such as an allocation where nothing is in use afterwards."""
    segments, rows = list(segments), [TraceRow(*row) for row in rows]
    known = {_number(segment, "address"): segment for segment in segments}
    live: dict[int, tuple[int, int | None]] = {}  # address → requested, size of the block if it is known
    expandable = any(segment.get("is_expandable") for segment in segments)
    for segment in segments:
        address = segment["address"]
        for block in segment["blocks"]:
            address = block.get("address", address)  # older snapshots leave it to be added up
            if block["state"] != "inactive":
                live[address] = block.get("requested_size", block["size"]), block["size"]
            address += block["size"]

    for number, row in reversed(list(enumerate(rows))):
        if row.action == "alloc":
            if live.pop(row.address, (None,))[0] != row.size_bytes:
                raise ValueError(f"row {number} of the trace allocates {row.size_bytes} bytes at {row.address:#x}, "
                                 "and nothing like that is in use afterwards: segments and trace do not match")
        elif row.action == "free_completed":
            if row.address in live:
                raise ValueError(f"row {number} of the trace frees {row.address:#x}, which is in use afterwards")
            live[row.address] = row.size_bytes, None
        elif row.action == "segment_alloc":
            known.pop(row.address, None)
        elif row.action == "segment_free":
            known[row.address] = {"address": row.address, "total_size": row.size_bytes, "stream": row.stream,
                                  "segment_type": "small" if row.size_bytes <= SMALL_SEGMENT_BYTES else "large"}
        elif row.action in ("segment_map", "segment_unmap"):
            expandable = True

    segments_then = [known[address] for address in sorted(known)]
    keys = {address: key for key, address in enumerate(sorted(live))}
    streams = _streams_of(keys, segments_then, rows)
    pieces = tuple(Piece(address, size_bytes or round_size(requested), keys[address], requested)
                   for address, (requested, size_bytes) in sorted(live.items()))
    layout = Layout((), pieces)
    if not expandable:
        layout = _with_rests(tuple(Segment(segment["address"], segment["total_size"], segment["segment_type"])
                                   for segment in segments_then), pieces)
    return History(layout, {segment["address"]: segment["stream"] for segment in segments_then}, streams,
                   *_with_keys(rows, dict(keys), len(keys)))


def seed(allocator: CachingAllocator, history: History) -> dict[int, Block]:
    """Put the start of a history into a new allocator; key → handle. Raises ValueError if the start has expandable
    segments or the allocator is not new."""
    if history.start.pieces and not history.start.segments:
        raise ValueError("the recording has expandable segments, which cannot be put back in place: use from_nothing()")
    handles = allocator.adopt(history.start.segments, history.start.pieces,
                              lambda segment: history.segment_streams[segment.address])
    return {handle.owner: handle for handle in handles.values()}


def replay_requests(requests: Iterable[tuple], allocator: CachingAllocator,
                    handles: dict[Hashable, Block] | None = None) -> Replayed:
    """Put requests (op, key, size_bytes, stream) to an allocator, without events. `handles` are those of what is live
    already, as `seed` returns them; it is not changed. An allocation that is refused is noted and its free is skipped.

    Raises ValueError for an op that is neither "alloc" nor "free", and for a free of a key that is not live."""
    live = dict(handles or {})
    refused: set[Hashable] = set()
    order, skipped = [], 0
    peak_allocated, peak_reserved = allocator.allocated_bytes, allocator.reserved_bytes
    allocate, free = allocator.allocate, allocator.free
    for op, key, size_bytes, stream in requests:
        if op == ALLOC:
            try:
                live[key] = allocate(key, size_bytes, stream)
            except OutOfMemory:
                refused.add(key)
                order.append(key)
                continue
            if allocator.allocated_bytes > peak_allocated:
                peak_allocated = allocator.allocated_bytes
            if allocator.reserved_bytes > peak_reserved:
                peak_reserved = allocator.reserved_bytes
        elif op != FREE:
            raise ValueError(f"a request is an 'alloc' or a 'free', got {op!r}")
        elif key in live:
            free(live.pop(key))
        elif key in refused:
            refused.discard(key)
            skipped += 1
        else:
            raise ValueError(f"{key!r} is freed and not live: its 'alloc' has to come before, or its handle be given")
    return Replayed(live, tuple(order), skipped, peak_allocated, peak_reserved)


def _number(segment: Mapping[str, Any], field: str) -> int:
    value = segment.get(field)
    if not isinstance(value, int):
        raise ValueError(f"a segment of a snapshot has a number {field!r}, got {value!r}")
    return value


def _streams_of(keys: Mapping[int, int], segments: list[Mapping[str, Any]], rows: list[TraceRow]) -> dict[int, int]:
    """The stream of each older piece: that of its segment, or of its free in the trace."""
    streams = {}
    for row in reversed(rows):
        if row.action == "free_completed" and row.address in keys:
            streams[keys[row.address]] = row.stream
    starts = [segment["address"] for segment in segments]
    for address, key in keys.items():
        segment = segments[bisect_right(starts, address) - 1] if starts else None
        if segment and segment["address"] <= address < segment["address"] + segment["total_size"]:
            streams[key] = segment["stream"]
    return streams


def _with_rests(segments: tuple[Segment, ...], pieces: tuple[Piece, ...]) -> Layout:
    """A large block is only split if more than 1 MiB is left, and free blocks only grow; so a gap of up to 1 MiB behind
    a large piece is no free block but belongs to the piece."""
    done = []
    ends = {segment.address: segment for segment in segments}
    starts = sorted(ends)
    at = 0
    for piece, following in zip(pieces, (*pieces[1:], None)):
        while at + 1 < len(starts) and starts[at + 1] <= piece.address:
            at += 1
        segment = ends[starts[at]] if starts else None
        if segment is not None and segment.label == "large":
            end = segment.address + segment.size_bytes
            until = min(end, following.address) if following is not None else end
            rest = until - piece.address - piece.size_bytes
            if 0 < rest <= SMALL_LIMIT_BYTES:
                piece = piece._replace(size_bytes=piece.size_bytes + rest)
        done.append(piece)
    return Layout(segments, tuple(done))


def _with_keys(rows: list[TraceRow], keys: dict[int, int], first_key: int) -> tuple[tuple, tuple]:
    """The allocations and completed frees of a trace, by key, and their addresses."""
    requests, addresses = [], []
    for row in rows:
        if row.action == "alloc":
            keys[row.address] = first_key
            requests.append(ReplayRequest(ALLOC, first_key, row.size_bytes, row.stream))
            first_key += 1
        elif row.action == "free_completed":
            requests.append(ReplayRequest(FREE, keys.pop(row.address), row.size_bytes, row.stream))
        else:
            continue
        addresses.append(row.address)
    return tuple(requests), tuple(addresses)
