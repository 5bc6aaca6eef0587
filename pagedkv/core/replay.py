"""Replay: the state of a pool after any event of its recording.

A *reference* is one holder's claim on a block: who took it, and at which step. A block's refcount is the number of
its references. A block is *cached* while what it holds can be found again, by a prefix cache; a cached block without
references is free to take, and keeps its contents until somebody takes it. References and cached blocks are the whole
state.

Replay trusts no pool. Where an event cannot be, such as a block given out while somebody holds it, the event is
carried out as reported and a *fault* is noted: that is how a broken pool gives itself away.
"""

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from pagedkv.core.events import Event, Recording

_OPERATIONS = ("allocate", "retain", "release", "write", "cache", "evict")
_CHECKPOINTS = 16  # copies of the state kept along a recording: going back costs at most a sixteenth of it


class Reference(NamedTuple):
    """owner, and the step at which the reference was taken (-1: held before the recording began)."""

    owner: Hashable
    step: int


class Fault(NamedTuple):
    step: int
    block: int
    message: str


class PoolState:
    """Who holds which block.

    num_events  how many events have been carried out
    references  block → its references, oldest first; a block that nobody holds is not in it
    cached      the blocks whose contents can be found again, held or not
    faults      what the events did that no correct pool does
    """

    def __init__(self, num_blocks: int, initial_refcounts: dict[int, int] | None = None,
                 initial_cache: Iterable[Event] = ()):
        self.num_blocks = num_blocks
        self.num_events = 0
        self.references = {block: [Reference(None, -1)] * count
                           for block, count in (initial_refcounts or {}).items()}
        self.cached: set[int] = {block for event in initial_cache for block in event.blocks}
        self.faults: list[Fault] = []

    def copy(self) -> "PoolState":
        twin = PoolState(self.num_blocks)
        twin.num_events = self.num_events
        twin.references = {block: list(references) for block, references in self.references.items()}
        twin.cached = set(self.cached)
        twin.faults = list(self.faults)
        return twin

    @property
    def num_free_blocks(self) -> int:
        """Blocks that nobody holds, cached ones included: what could be handed out now."""
        return self.num_blocks - len(self.references)

    def refcount(self, block: int) -> int:
        return len(self.references.get(block, ()))

    def refcounts(self) -> list[int]:
        return [self.refcount(block) for block in range(self.num_blocks)]

    def owners(self, block: int) -> tuple:
        """The owner of each reference, oldest first; an owner stands there once per reference."""
        return tuple(reference.owner for reference in self.references.get(block, ()))

    def apply(self, event: Event) -> None:
        """Carry out one event. A refused call changed nothing, so it changes nothing here."""
        if event.op not in _OPERATIONS:
            raise ValueError(f"step {event.step}: replay does not know the operation {event.op!r}")
        carry_out = getattr(self, f"_{event.op}")
        if not event.refused:
            for block in event.blocks:
                carry_out(block, event)
        self.num_events += 1

    def _allocate(self, block: int, event: Event) -> None:
        held = self.references.get(block)
        if held:
            self._fault(event, block, f"block {block} was given to {_name(event.owner)} "
                                      f"while {_name(held[-1].owner)} holds it")
        self.cached.discard(block)  # its new owner overwrites what it held
        self._add(block, event)

    def _retain(self, block: int, event: Event) -> None:
        if block not in self.references and block not in self.cached:
            self._fault(event, block, f"block {block} was retained while it was free")
        self._add(block, event)

    def _release(self, block: int, event: Event) -> None:
        references = self.references.get(block)
        if not references:
            self._fault(event, block, f"block {block} was released while it was free")
            return
        if event.owner is not None and not {event.owner, None} & {reference.owner for reference in references}:
            self._fault(event, block, f"block {block} was released by {_name(event.owner)}, who holds no reference to it")
        references.pop(_released(references, event.owner))
        if not references:
            del self.references[block]

    def _write(self, block: int, event: Event) -> None:
        pass  # what is in a block is no part of the state

    def _cache(self, block: int, event: Event) -> None:
        self.cached.add(block)

    def _evict(self, block: int, event: Event) -> None:
        self.cached.discard(block)

    def _add(self, block: int, event: Event) -> None:
        self.references.setdefault(block, []).append(Reference(event.owner, event.step))

    def _fault(self, event: Event, block: int, message: str) -> None:
        self.faults.append(Fault(event.step, block, message))


class Replay:
    """A recording that can be gone through in both directions.

        replay = Replay(recording)
        replay.at(3).refcount(7)      # after the first three events
        replay.end().owners(7)

    The recording may still grow; `end()` follows it.
    """

    def __init__(self, recording: Recording):
        self.recording = recording
        self._checkpoints = [PoolState(recording.num_blocks, recording.initial_refcounts, recording.initial_cache)]

    def __len__(self) -> int:
        return len(self.recording.events)

    def at(self, num_events: int) -> PoolState:
        """The state after the first `num_events` events. Raises IndexError outside the recording."""
        if not 0 <= num_events <= len(self):
            raise IndexError(f"this recording has {len(self)} events, there is no state after {num_events}")
        state = max((checkpoint for checkpoint in self._checkpoints if checkpoint.num_events <= num_events),
                    key=lambda checkpoint: checkpoint.num_events).copy()
        spacing = max(1000, len(self) // _CHECKPOINTS)
        for event in self.recording.events[state.num_events:num_events]:
            state.apply(event)
            if state.num_events - self._checkpoints[-1].num_events >= spacing:
                self._checkpoints.append(state.copy())
        return state

    def end(self) -> PoolState:
        return self.at(len(self))


def _released(references: list[Reference], owner: Hashable) -> int:
    """Which reference a release gives up: the newest one of the owner it names. A release that names nobody, or
    somebody who holds nothing, gives up the newest one without an owner, else the newest of all."""
    for wanted in (owner, None):
        for i in range(len(references) - 1, -1, -1):
            if references[i].owner == wanted:
                return i
    return len(references) - 1


def _name(owner: Hashable) -> str:
    return "a caller without a name" if owner is None else str(owner)
