"""Why did this request fail? The first question about any out-of-memory, answered with numbers.

    fits        a free run is long enough, or the device still has enough: not the memory is to blame but a rule of the
                allocator (the decision in the event's detail tells which)
    fragmented  enough is free in total, but in pieces that are too short
    held        enough would be free if the memory whose owner has let go of it were free already (pending stream work)
    set aside   enough would be free if owners had only what they have filled: reserved for them, and unused
    exhausted   less is free than was asked for, whatever way one counts: every allocator refuses this
    too large   more was asked for than the device has

*Free in total* is what lies free in segments, plus what the device could still give.
"""

from typing import NamedTuple

from pagedkv.core.memory import as_text
from pagedkv.core.memory_replay import MemoryState

FITS, FRAGMENTED, HELD, SET_ASIDE, EXHAUSTED, TOO_LARGE = \
    "fits", "fragmented", "held", "set aside", "exhausted", "too large"


class Reason(NamedTuple):
    """kind                one of the words above
    size_bytes          what was asked for
    free_bytes          free in segments
    largest_free_bytes  the longest free run
    num_free_runs       how many there are
    device_bytes        what the device could still give; 0 where the capacity is not known
    held_bytes          let go of, and not free yet
    unfilled_bytes      in pieces, and not (yet) filled by their owners
    capacity_bytes      None if not known
    """

    kind: str
    size_bytes: int
    free_bytes: int
    largest_free_bytes: int
    num_free_runs: int
    device_bytes: int
    held_bytes: int
    unfilled_bytes: int
    capacity_bytes: int | None

    @property
    def total_free_bytes(self) -> int:
        return self.free_bytes + self.device_bytes

    @property
    def missing_bytes(self) -> int:
        """How much more would have to be free in total; 0 if enough is."""
        return max(0, self.size_bytes - self.total_free_bytes)

    def __str__(self) -> str:
        asked, free = as_text(self.size_bytes), as_text(self.total_free_bytes)
        if self.kind == TOO_LARGE:
            return f"Too large: {asked} wanted, and the device has {as_text(self.capacity_bytes)}."
        if self.kind == EXHAUSTED:
            return f"Exhausted: {asked} wanted, {free} free in total. Every allocator refuses this."
        if self.kind == HELD:
            return (f"Held: {asked} wanted, {free} free. {as_text(self.held_bytes)} more were let go of, but queued "
                    "work may still use them.")
        if self.kind == SET_ASIDE:
            return (f"Set aside: {asked} wanted, {free} free. {as_text(self.unfilled_bytes)} more are set aside for "
                    "owners who have not filled them.")
        if self.kind == FRAGMENTED:
            runs = "run" if self.num_free_runs == 1 else "runs"
            device = f", {as_text(self.device_bytes)} are left of the device" if self.device_bytes else ""
            return (f"Fragmented: {asked} wanted, {free} free in total, but the largest of {self.num_free_runs} free "
                    f"{runs} has {as_text(self.largest_free_bytes)}{device}.")
        if self.largest_free_bytes >= self.size_bytes:
            room = f"a free run has {as_text(self.largest_free_bytes)}"
        elif self.device_bytes >= self.size_bytes:
            room = f"the device could give {as_text(self.device_bytes)}"
        else:
            room = f"{free} are free in pieces"
        return f"A rule of the allocator: {asked} wanted, and {room}. What its rule is, the decision tells."


def why_refused(state: MemoryState, capacity_bytes: int | None, size_bytes: int, *, in_pieces: bool = False) -> Reason:
    """What speaks against `size_bytes` more in this state. `in_pieces` is for allocators that may answer with several
    pieces, as paging does: they need no long run, so nothing can be too fragmented for them. Raises ValueError for a
    size below 1."""
    if size_bytes < 1:
        raise ValueError(f"a request is for at least 1 byte, got {size_bytes}")
    free, largest = state.free_bytes, state.largest_free_bytes
    device = max(0, capacity_bytes - state.reserved_bytes) if capacity_bytes is not None else 0
    held, unfilled = state.held_bytes, state.used_bytes - state.requested_bytes
    total = free + device
    if capacity_bytes is not None and size_bytes > capacity_bytes:
        kind = TOO_LARGE
    elif max(largest, device) >= size_bytes or (in_pieces and total >= size_bytes):
        kind = FITS
    elif total >= size_bytes:
        kind = FRAGMENTED
    elif total + held >= size_bytes:
        kind = HELD
    elif total + held + unfilled >= size_bytes:
        kind = SET_ASIDE
    else:
        kind = EXHAUSTED
    return Reason(kind, size_bytes, free, largest, len(state.free), device, held, unfilled, capacity_bytes)
