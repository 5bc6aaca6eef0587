"""The event stream: what a pool did, one event per call.

A pool with an observer tells it about every call of allocate, retain and release, once the call is over, also when
it was refused. Everything that people look at (snapshots, leak reports, figures, widgets) is made from this stream
alone, so whatever emits it can be watched, replayed and compared: a pool in Python, one in Java, a simulated one.

An *event* holds no clock time, only a step, so that a recording is the same on every run.
A *recording* is the events of one pool, together with what was held when it began.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Any, NamedTuple


class Event(NamedTuple):
    """One call of a pool.

    step    counts the pool's observed calls, from 0
    op      "allocate", "retain" or "release"; from a `KVCacheManager` also "write" (tokens came into these blocks),
            "cache" (from now on the contents of these blocks can be found) and "evict" (no longer)
    owner   who the call was made for, or None
    blocks  the blocks given out, retained or released, in call order; for a refused call the blocks asked about
    detail  empty if the call was carried out. A refused one has "error" (the error's name, such as "OutOfBlocks"),
            "message", and for allocate "requested_blocks".
    """

    step: int
    op: str
    owner: Hashable
    blocks: tuple[int, ...]
    detail: dict[str, Any]

    @property
    def refused(self) -> bool:
        return "error" in self.detail

    def __str__(self) -> str:
        """In one line, as `allocate(2, 'A') → [7, 6]` or `release([7]) ✗ DoubleFree`."""
        asked = self.detail.get("requested_blocks", len(self.blocks)) if self.op == "allocate" else _short(self.blocks)
        owner = "" if self.owner is None else f", {str(self.owner)!r}"
        if self.refused:
            answer = f" ✗ {self.detail['error']}"
        else:
            answer = f" → {_short(self.blocks)}" if self.op == "allocate" else ""
        return f"{self.op}({asked}{owner}){answer}"


@dataclass
class Recording:
    """The events of one pool, in order.

    num_blocks         the size of the pool
    source             what kind of pool it was, for people to read, such as "Python pool"
    initial_refcounts  block → refcount for the blocks held when the recording began
    initial_cache      what a prefix cache could find then: "cache" events, all at step -1
    owners_are         what the owners are, in the plural, for people to read
    """

    num_blocks: int
    source: str = "pool"
    initial_refcounts: dict[int, int] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    owners_are: str = "sequences"
    initial_cache: list[Event] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.events)

    def __str__(self) -> str:
        return side_by_side(self)


class record:
    """Record what a pool does, until `stop()` or the end of the `with` block.

        with record(pool) as recording:
            pool.allocate(4, owner="A")
        print(recording)

    Recording may begin in the middle of a pool's life: what is held then becomes the recording's beginning. A pool may
    have `source`, `owners_are` (as in `Recording`) and `cache_contents()`; the recording takes them over.
    Raises TypeError for a pool that cannot be observed, RuntimeError if it already has an observer.
    """

    def __init__(self, pool, source: str | None = None):
        if not hasattr(pool, "observer"):
            raise TypeError(f"{type(pool).__name__} reports no events: it has no attribute 'observer'")
        if pool.observer is not None:
            raise RuntimeError("this pool already reports to another observer; stop that recording first")
        self._pool = pool
        self.recording = Recording(pool.num_blocks, source or getattr(pool, "source", type(pool).__name__),
                                   _held(pool), owners_are=getattr(pool, "owners_are", Recording.owners_are))
        if hasattr(pool, "cache_contents"):
            self.recording.initial_cache = pool.cache_contents()
        pool.observer = self.recording.events.append

    def stop(self) -> Recording:
        """End the recording and return it. A second call changes nothing."""
        if self._pool is not None:
            self._pool.observer = None
            self._pool = None
        return self.recording

    def __enter__(self) -> Recording:
        return self.recording

    def __exit__(self, *exc_info) -> None:
        self.stop()


def refcounts(pool) -> Sequence[int]:
    """The refcount of every block, in one bulk call where the pool offers one."""
    if hasattr(pool, "refcounts"):
        return pool.refcounts()
    return [pool.refcount(block) for block in range(pool.num_blocks)]


def side_by_side(*recordings: Recording) -> str:
    """The events of several recordings as the columns of one text table, step by step."""
    columns = [[recording.source, *map(str, recording.events)] for recording in recordings]
    widths = [max(map(len, column)) for column in columns]
    rows = list(zip_longest(*columns, fillvalue=""))
    rows.insert(1, tuple("─" * width for width in widths))
    numbers = ["step", "────", *map(str, range(len(rows) - 2))]
    return "\n".join(
        "  ".join([number.rjust(4), *(cell.ljust(width) for cell, width in zip(row, widths))]).rstrip()
        for number, row in zip(numbers, rows))


def _held(pool) -> dict[int, int]:
    if pool.num_free_blocks == pool.num_blocks:  # the usual beginning; spares asking for every block
        return {}
    return {block: count for block, count in enumerate(refcounts(pool)) if count}


def _short(blocks: Sequence[int], most: int = 8) -> str:
    text = ", ".join(map(str, blocks[:most]))
    return f"[{text}]" if len(blocks) <= most else f"[{text}, … {len(blocks)} blocks]"
