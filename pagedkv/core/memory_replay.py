"""Replay of an allocator's recording: segments, pieces and free runs after any event.

As with pools, replay trusts nobody: a change that cannot be, such as a piece that overlaps another, is noted as a
*fault* of its event and otherwise left out. So the state is always one that can be drawn.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import NamedTuple

from pagedkv.core.free_runs import FreeRuns
from pagedkv.core.memory import (FILL, GIVE, HOLD, RESERVE, TAKE, UNRESERVE, Change, Layout, MemoryEvent,
                                 MemoryRecording, Piece, Segment)

EXPANDABLE = "expandable"  # a segment of this label grows together with its neighbours, and can be given back in parts


class MemoryFault(NamedTuple):
    step: int
    address: int
    message: str


class MemoryState:
    """Who has which memory.

    segments, pieces  by address
    free              the free runs within the segments
    reserved_bytes    the sum of the segments
    used_bytes        the sum of the pieces that an owner has (in PyTorch's words: allocated)
    requested_bytes   what their owners asked for of it
    held_bytes        the sum of the pieces whose owner has let go, and which are not free yet
    faults            what the events did that no correct allocator does
    """

    def __init__(self, initial: Layout = Layout()):
        self.segments: dict[int, Segment] = {}
        self.pieces: dict[int, Piece] = {}
        self.free = FreeRuns()
        self.reserved_bytes = self.used_bytes = self.requested_bytes = self.held_bytes = 0
        self.faults: list[MemoryFault] = []
        self._segment_starts: list[int] = []
        self._piece_starts: list[int] = []
        start = MemoryEvent(-1, "initial", None, 0, (), {})
        for segment in initial.segments:
            self._reserve(Change(RESERVE, segment.address, segment.size_bytes, label=segment.label), start)
        for piece in initial.pieces:
            event = start._replace(owner=piece.owner)
            self._take(Change(TAKE, piece.address, piece.size_bytes, piece.requested_bytes), event)
            if piece.held:
                self._hold(Change(HOLD, piece.address, piece.size_bytes), event)

    @property
    def largest_free_bytes(self) -> int:
        return self.free.largest_bytes

    @property
    def free_bytes(self) -> int:
        """Free memory in segments; what the device could still give is not in it."""
        return self.free.total_bytes

    def layout(self) -> Layout:
        return Layout(tuple(self.segments[start] for start in self._segment_starts),
                      tuple(self.pieces[start] for start in self._piece_starts))

    def segment_of(self, address: int) -> Segment | None:
        at = bisect_right(self._segment_starts, address) - 1
        segment = self.segments[self._segment_starts[at]] if at >= 0 else None
        return segment if segment and address < segment.address + segment.size_bytes else None

    def apply(self, event: MemoryEvent) -> list[Change]:
        """Carry out one event. The changes that were carried out, in terms of whole segments: what was given back of an
        expandable segment appears as the segment's end and its rests' beginning."""
        carried_out: list[Change] = []
        for change in event.changes:
            carry_out = _CARRY_OUT.get(change.kind)
            if carry_out is None:
                raise ValueError(f"step {event.step}: replay does not know the change {change.kind!r}")
            carried_out += carry_out(self, change, event)
        return carried_out

    def _reserve(self, change: Change, event: MemoryEvent) -> list[Change]:
        low, high, done = change.address, change.address + change.size_bytes, []
        if change.size_bytes <= 0 or self._overlapped(self._segment_starts, self.segments, low, high):
            return self._fault(event, change, f"a segment at {low:#x} overlaps another")
        if change.label == EXPANDABLE:
            for neighbour in (self.segment_of(low - 1), self.segment_of(high)):
                if neighbour and neighbour.label == EXPANDABLE:
                    low, high = min(low, neighbour.address), max(high, neighbour.address + neighbour.size_bytes)
                    done.append(self._drop_segment(neighbour))
        done.append(self._add_segment(Segment(low, high - low, change.label)))
        self.free.add(change.address, change.size_bytes, low, high)
        self.reserved_bytes += change.size_bytes
        return done

    def _unreserve(self, change: Change, event: MemoryEvent) -> list[Change]:
        start, end = change.address, change.address + change.size_bytes
        segment, run = self.segment_of(start), self.free.around(start)
        if segment is None or end > segment.address + segment.size_bytes:
            return self._fault(event, change, f"there is no segment at {start:#x}")
        if run is None or end > run[1]:
            return self._fault(event, change, f"memory in use was given back to the device, at {start:#x}")
        self.free.take(start, change.size_bytes)
        self.reserved_bytes -= change.size_bytes
        rests = [(segment.address, start), (end, segment.address + segment.size_bytes)]
        return [self._drop_segment(segment), *(self._add_segment(Segment(low, high - low, segment.label))
                                               for low, high in rests if low < high)]

    def _take(self, change: Change, event: MemoryEvent) -> list[Change]:
        run = self.free.around(change.address)
        if run is None or change.address + change.size_bytes > run[1] or change.size_bytes <= 0:
            return self._fault(event, change, f"memory that is not free was given to {event.owner}, at {change.address:#x}")
        if change.requested_bytes > change.size_bytes:
            return self._fault(event, change, f"{event.owner} was given less than it asked for, at {change.address:#x}")
        self.free.take(change.address, change.size_bytes)
        insort(self._piece_starts, change.address)
        self.pieces[change.address] = Piece(change.address, change.size_bytes, event.owner, change.requested_bytes)
        self.used_bytes += change.size_bytes
        self.requested_bytes += change.requested_bytes
        return [change]

    def _fill(self, change: Change, event: MemoryEvent) -> list[Change]:
        piece = self.pieces.get(change.address)
        if piece is None or piece.held or change.requested_bytes > piece.size_bytes:
            return self._fault(event, change, f"{event.owner} filled memory it does not have, at {change.address:#x}")
        self.requested_bytes += change.requested_bytes - piece.requested_bytes
        self.pieces[change.address] = piece._replace(requested_bytes=change.requested_bytes)
        return [change]

    def _give(self, change: Change, event: MemoryEvent) -> list[Change]:
        piece = self.pieces.pop(change.address, None)
        if piece is None:
            return self._fault(event, change, f"{event.owner} gave back memory that is free, at {change.address:#x}")
        del self._piece_starts[bisect_left(self._piece_starts, piece.address)]
        segment = self.segment_of(piece.address)
        self.free.add(piece.address, piece.size_bytes, segment.address, segment.address + segment.size_bytes)
        if piece.held:
            self.held_bytes -= piece.size_bytes
        else:
            self.used_bytes -= piece.size_bytes
            self.requested_bytes -= piece.requested_bytes
        return [change]

    def _hold(self, change: Change, event: MemoryEvent) -> list[Change]:
        piece = self.pieces.get(change.address)
        if piece is None or piece.held:
            return self._fault(event, change, f"{event.owner} let go of memory it does not have, at {change.address:#x}")
        self.pieces[change.address] = piece._replace(held=True)
        self.used_bytes -= piece.size_bytes
        self.requested_bytes -= piece.requested_bytes
        self.held_bytes += piece.size_bytes
        return [change]

    def _add_segment(self, segment: Segment) -> Change:
        self.segments[segment.address] = segment
        insort(self._segment_starts, segment.address)
        return Change(RESERVE, segment.address, segment.size_bytes, label=segment.label)

    def _drop_segment(self, segment: Segment) -> Change:
        del self.segments[segment.address]
        del self._segment_starts[bisect_left(self._segment_starts, segment.address)]
        return Change(UNRESERVE, segment.address, segment.size_bytes, label=segment.label)

    def _overlapped(self, starts: list[int], things: dict, low: int, high: int) -> bool:
        at = bisect_left(starts, high) - 1
        return at >= 0 and things[starts[at]].address + things[starts[at]].size_bytes > low

    def _fault(self, event: MemoryEvent, change: Change, message: str) -> list[Change]:
        self.faults.append(MemoryFault(event.step, change.address, message))
        return []


_CARRY_OUT = {RESERVE: MemoryState._reserve, UNRESERVE: MemoryState._unreserve, TAKE: MemoryState._take,
              FILL: MemoryState._fill, GIVE: MemoryState._give, HOLD: MemoryState._hold}


def replay_memory(recording: MemoryRecording) -> Iterator[MemoryState]:
    """The state after 0, 1, … events of a recording. It is one object that moves on: read it before you ask for the next."""
    state = MemoryState(recording.initial)
    yield state
    for event in recording.events:
        state.apply(event)
        yield state


def end_of(recording: MemoryRecording) -> MemoryState:
    """The state after a recording's last event."""
    for state in replay_memory(recording):
        pass
    return state
