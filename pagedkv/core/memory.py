"""The contract of an allocator in bytes: what hands out pieces of one memory, whatever its rules are.

An *allocator* manages up to `capacity_bytes` of a *device*'s memory. It takes *segments* from the device (a cudaMalloc, a
chunk of Netty's, one arena at the start) and carves *pieces* out of them for *owners*. What a segment has and no piece
covers is free. Some allocators give an owner one piece, paging gives many.

    allocate  an owner gets size_bytes
    grow      the same owner has size_bytes in total from now on; where that means a new place, the contents are copied
    free      an owner gives back all that a handle stands for

The first contract (`pagedkv.core.contract`) counts references to blocks; this one knows addresses and sizes, and nothing
is shared. Like a pool, an allocator tells an observer about every call, once it is over, refusals included, and whatever
people look at is made from these *events* alone. All sizes and addresses are ints, in bytes.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, runtime_checkable

MOST_LOOKS = 12  # kept of one decision; a first fit may look at thousands of holes

CHOSEN = "chosen"
LEADS_ON = "→ "  # how a verdict begins that rejects nothing: the search goes on within this candidate

RESERVE, UNRESERVE, TAKE, FILL, GIVE, HOLD = "reserve", "unreserve", "take", "fill", "give", "hold"


class Change(NamedTuple):
    """One thing that a call did to the memory.

    kind  "reserve"    a segment was taken from the device; label is its kind, such as "small" or "expandable"
          "unreserve"  memory was given back to the device: a segment, or part of an expandable one
          "take"       a piece is in use from now on; requested_bytes of it are what its owner asked for
          "fill"       requested_bytes of the piece at this address are what its owner asked for by now
          "give"       the piece is free
          "hold"       its owner has let go of the piece, but work that was queued before may still use it
    """

    kind: str
    address: int
    size_bytes: int
    requested_bytes: int = 0
    label: str = ""


class Look(NamedTuple):
    """One candidate that an allocator looked at, and the rule that rejected it (CHOSEN for the one it took, a text that
    begins with LEADS_ON for one that holds others, and is looked into).

    what  such as "free block", "node 5", "chunk 0"
    """

    what: str
    address: int
    size_bytes: int
    verdict: str


class Decision(NamedTuple):
    """How an allocator came to its answer.

    asked_bytes, rounded_bytes  the request, and what the allocator's rules made of it
    looks      the candidates in the order in which they were looked at, the chosen one last of those that are kept
    num_looks  how many there were; the first MOST_LOOKS are kept, and always the chosen one
    notes      what else was decided, such as "split: 12 MiB stay free"
    """

    asked_bytes: int
    rounded_bytes: int
    looks: tuple[Look, ...] = ()
    num_looks: int = 0
    notes: tuple[str, ...] = ()


class MemoryEvent(NamedTuple):
    """One call of an allocator.

    step        counts the calls, from 0
    op          "allocate", "grow" or "free"; recordings of a GPU have others, see `pagedkv.snapshot`
    owner       who the call was made for
    size_bytes  what was asked for (allocate, grow), or what the owner had asked for (free)
    changes     what it did, in order
    detail      a refused call has "error" (the error's name) and "message"; further "decision", "device_calls" (such as
                {"malloc": 1}), "moved_bytes" (copied by a grow), "skipped" (a workload's call that has lost its object,
                because the allocation before was refused)
    """

    step: int
    op: str
    owner: Hashable
    size_bytes: int
    changes: tuple[Change, ...]
    detail: dict[str, Any]

    @property
    def refused(self) -> bool:
        return "error" in self.detail

    def __str__(self) -> str:
        """In one line, as `allocate(A, 64.0 MiB) → 0x200000`."""
        asked = f"{self.op}({self.owner})" if self.op == "free" else f"{self.op}({self.owner}, {as_text(self.size_bytes)})"
        if self.refused:
            return f"{asked} ✗ {self.detail['error']}"
        if self.detail.get("skipped"):
            return f"{asked} – skipped"
        taken = [change.address for change in self.changes if change.kind == TAKE]
        return asked + (f" → {taken[0]:#x}" + (f" and {len(taken) - 1} more" if len(taken) > 1 else "") if taken else "")


class Segment(NamedTuple):
    """Memory that an allocator has taken from the device."""

    address: int
    size_bytes: int
    label: str = ""


class Piece(NamedTuple):
    """Memory in use. Of its size_bytes the owner asked for requested_bytes; the rest is lost inside the piece.

    held  its owner has let go of it, and it is not free yet
    """

    address: int
    size_bytes: int
    owner: Hashable
    requested_bytes: int
    held: bool = False


class Layout(NamedTuple):
    """All segments and pieces, in order of their addresses."""

    segments: tuple[Segment, ...] = ()
    pieces: tuple[Piece, ...] = ()


@runtime_checkable
class Allocator(Protocol):
    """What manages memory in bytes. A handle is whatever `allocate` returned; who holds it never looks inside."""

    capacity_bytes: int
    source: str
    observer: Callable[[MemoryEvent], None] | None

    def allocate(self, owner: Hashable, size_bytes: int) -> Any:
        """Memory for an owner. Raises `OutOfMemory`; all that may have changed then is that segments without any piece were
        given back to the device."""

    def grow(self, handle: Any, size_bytes: int) -> Any:
        """size_bytes in total for the same owner; the handle to use from now on. Raises `OutOfMemory`, and the owner keeps
        what it had, or `DoubleFree`."""

    def free(self, handle: Any) -> None:
        """Raises `DoubleFree` for a handle that is not live (any more)."""

    def layout(self) -> Layout: ...


@dataclass
class MemoryRecording:
    """The events of one allocator, in order.

    capacity_bytes  the memory it could have; None if that is not known
    source          what kind of allocator it was, for people to read
    initial         what there was when the recording began
    in_pieces       whether one request may be served with several pieces, as paging does: then no free run has to be long
    """

    capacity_bytes: int | None
    source: str = "allocator"
    initial: Layout = Layout()
    events: list[MemoryEvent] = field(default_factory=list)
    in_pieces: bool = False

    def __len__(self) -> int:
        return len(self.events)

    def __str__(self) -> str:
        return "\n".join([self.source, *(f"{event.step:>4}  {event}" for event in self.events)])


class record_memory:
    """Record what an allocator does, until `stop()` or the end of the `with` block.

        with record_memory(allocator) as recording:
            ...

    Raises TypeError for an object that cannot be observed, RuntimeError if it already has an observer.
    """

    def __init__(self, allocator: Allocator, source: str | None = None):
        if not hasattr(allocator, "observer"):
            raise TypeError(f"{type(allocator).__name__} reports no events: it has no attribute 'observer'")
        if allocator.observer is not None:
            raise RuntimeError("this allocator already reports to another observer; stop that recording first")
        self._allocator = allocator
        self.recording = MemoryRecording(allocator.capacity_bytes, source or allocator.source, allocator.layout(),
                                         in_pieces=getattr(allocator, "in_pieces", False))
        allocator.observer = self.recording.events.append

    def stop(self) -> MemoryRecording:
        """End the recording and return it. A second call changes nothing."""
        if self._allocator is not None:
            self._allocator.observer = None
            self._allocator = None
        return self.recording

    def __enter__(self) -> MemoryRecording:
        return self.recording

    def __exit__(self, *exc_info) -> None:
        self.stop()


def as_text(size_bytes: int) -> str:
    """A size for people: `512 B`, `1.5 KiB`, `20 MiB`, `3.05 GiB`. Units are powers of 1024."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if abs(size_bytes) >= unit:
            digits = 2 if unit == 1 << 30 else 1
            return f"{size_bytes / unit:,.{digits}f}".removesuffix(".0").removesuffix(".00") + f" {name}"
    return f"{size_bytes:,} B"
