"""The numbers of fragmentation, each defined once.

Sums, at one moment (see `MemoryState`):

    capacity   what the allocator may have of the device
    reserved   what it has taken: the segments
    used       the pieces that an owner has                           used ≤ reserved ≤ capacity
    requested  what the owners asked for, or have filled, so far      requested ≤ used
    free       reserved and in no piece

Where a request fails although enough is free, *external fragmentation* is to blame: the free memory lies in pieces.
What is lost inside the pieces is *internal*; it is divided further in `Waste`.
"""

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from pagedkv.core.memory import FILL, GIVE, HOLD, TAKE, MemoryRecording
from pagedkv.core.memory_replay import MemoryState, replay_memory


class Metrics(NamedTuple):
    """The state of an allocator in numbers, after one event.

    unallocated_bytes          reserved − used: what it holds and nobody has
    largest_free_bytes         the longest free run
    num_free_runs              how many there are
    largest_fitting_bytes      the largest request that the free memory could serve: the longest run; all that is free
                               where a request may be served in pieces, as by paging
    external_fragmentation     1 − largest fitting request / free; 0 with nothing free
    scattering                 1 − Σ run² / free²; 0 with at most one run, near 1 with many equal ones
    utilization                used / reserved; 1 with nothing reserved
    internal_bytes             used − requested
    """

    capacity_bytes: int | None
    reserved_bytes: int
    used_bytes: int
    requested_bytes: int
    free_bytes: int
    largest_free_bytes: int
    num_free_runs: int
    largest_fitting_bytes: int
    scattering: float

    @property
    def unallocated_bytes(self) -> int:
        return self.reserved_bytes - self.used_bytes

    @property
    def internal_bytes(self) -> int:
        return self.used_bytes - self.requested_bytes

    @property
    def external_fragmentation(self) -> float:
        return 1 - self.largest_fitting_bytes / self.free_bytes if self.free_bytes else 0.0

    @property
    def utilization(self) -> float:
        return self.used_bytes / self.reserved_bytes if self.reserved_bytes else 1.0

    @classmethod
    def of(cls, state: MemoryState, capacity_bytes: int | None = None, in_pieces: bool = False) -> "Metrics":
        free = state.free.total_bytes
        squares = sum(size * size for _, size in state.free)
        return cls(capacity_bytes, state.reserved_bytes, state.used_bytes, state.requested_bytes, free,
                   state.largest_free_bytes, len(state.free), free if in_pieces else state.largest_free_bytes, 1 - squares / (free * free) if free else 0.0)


class Waste(NamedTuple):
    """What a memory of capacity_bytes holds at one moment, in the four parts of the PagedAttention paper's figure 2
    (arXiv 2309.06180). They add up to the capacity.

    filled_bytes    hold tokens
    reserved_bytes  set aside for an owner who will fill them before it ends
    internal_bytes  set aside for an owner who never will
    external_bytes  set aside for nobody, or held. The paper calls it "external fragmentation and others": as long as a
                    request waits for memory, all of it is waste
    """

    filled_bytes: int
    reserved_bytes: int
    internal_bytes: int
    external_bytes: int

    def shares(self) -> "Waste":
        """The same as parts of 1."""
        total = sum(self) or 1
        return Waste(*(part / total for part in self))


def waste_over_time(recording: MemoryRecording) -> Iterator[Waste]:
    """The waste after 0, 1, … events. An owner "will fill" what it has filled when it gives its memory back, or at the
    recording's end. Raises ValueError for a recording whose capacity is not known."""
    if recording.capacity_bytes is None:
        raise ValueError("how much memory is left is not known: the recording has no capacity_bytes")
    finals = _final_fill(recording)
    lives: dict[int, int] = {}  # address → how often a piece has begun there
    reserved = internal = 0
    before: dict[int, tuple[int, int]] = {}  # address → what the piece there adds to the two
    events = iter(recording.events)
    state_before_first = True
    for state in replay_memory(recording):
        changes = () if state_before_first else next(events).changes
        if state_before_first:
            for address, piece in state.pieces.items():
                if piece.held:
                    continue
                before[address] = _parts(piece.size_bytes, piece.requested_bytes, finals[address, 0])
                reserved, internal = reserved + before[address][0], internal + before[address][1]
            state_before_first = False
        for change in changes:
            if change.kind == TAKE:
                lives[change.address] = lives.get(change.address, 0) + 1
            if change.kind in (TAKE, FILL, GIVE, HOLD):
                old = before.pop(change.address, (0, 0))
                piece = state.pieces.get(change.address)
                if piece is not None and not piece.held:
                    new = _parts(piece.size_bytes, piece.requested_bytes,
                                 finals[change.address, lives.get(change.address, 0)])
                    before[change.address] = new
                else:
                    new = (0, 0)
                reserved, internal = reserved + new[0] - old[0], internal + new[1] - old[1]
        yield Waste(state.requested_bytes, reserved, internal, recording.capacity_bytes - state.used_bytes)


def _parts(size_bytes: int, filled_bytes: int, final_bytes: int) -> tuple[int, int]:
    """Of a piece: what will be filled, and what never will."""
    return max(0, final_bytes - filled_bytes), size_bytes - max(final_bytes, filled_bytes)


def _final_fill(recording: MemoryRecording) -> dict[tuple[int, int], int]:
    """(address, number of the piece's life there) → how many bytes its owner filled in the end. The pieces that were there
    at the beginning are life 0."""
    finals = {(piece.address, 0): piece.requested_bytes for piece in recording.initial.pieces}
    lives: dict[int, int] = {}
    for event in recording.events:
        for change in event.changes:
            if change.kind == TAKE:
                lives[change.address] = lives.get(change.address, 0) + 1
            if change.kind in (TAKE, FILL):
                finals[change.address, lives.get(change.address, 0)] = change.requested_bytes
    return finals


class Cost(NamedTuple):
    """What an allocator did for its answers, counted and not timed.

    calls         allocate, grow and free, the skipped ones left out
    refused       how many of them were
    looks         candidates that were looked at: the steps of its searches, where decisions were recorded
    device_calls  per kind, such as {"malloc": 3, "free": 1}
    moved_bytes   copied by grow
    """

    calls: int
    refused: int
    looks: int
    device_calls: dict[Hashable, int]
    moved_bytes: int


def cost_of(recording: MemoryRecording) -> Cost:
    device_calls: dict[Hashable, int] = {}
    calls = refused = looks = moved = 0
    for event in recording.events:
        detail = event.detail
        calls += not detail.get("skipped", False)
        refused += event.refused
        looks += detail["decision"].num_looks if "decision" in detail else 0
        moved += detail.get("moved_bytes", 0)
        for kind, count in detail.get("device_calls", {}).items():
            device_calls[kind] = device_calls.get(kind, 0) + count
    return Cost(calls, refused, looks, device_calls, moved)
