"""What several allocators did with one workload, in a table: a column for each allocator, a row for each number.

    refused requests       could not be served; what a workload does later with memory it never got is not counted
    peak used              the most that owners had at one time
    peak reserved          the most that was taken from the device
    largest free run       at the end: the longest stretch of free memory that it has reserved
    left with the device   at the end: what it could still reserve
    external fragmentation at the end: 1 − largest request that fits / free (see `pagedkv.core.memory_metrics`)
    looks                  candidates that were looked at in all searches
    device calls           cudaMalloc, cudaFree and the like
    moved                  bytes that grows copied

The best of a row is marked, with a hollow mark if it refused more requests than another: it had less to do.
"""

from collections.abc import Sequence
from typing import NamedTuple

from pagedkv.core.memory import MemoryRecording, as_text
from pagedkv.core.memory_metrics import cost_of
from pagedkv.viz.memory_tape import MemoryTape

MARK, HOLLOW_MARK = "★", "☆"


class Outcome(NamedTuple):
    """What one allocator did with a workload."""

    refused_requests: int
    peak_used_bytes: int
    peak_reserved_bytes: int
    largest_free_bytes: int
    left_with_device_bytes: int
    external_fragmentation: float
    looks: int
    device_calls: int
    moved_bytes: int


class Row(NamedTuple):
    """One number of all allocators. texts: as people read them; marks: a mark, or "", for each; none where all are
    equal."""

    name: str
    explanation: str
    values: tuple
    texts: tuple[str, ...]
    marks: tuple[str, ...]


_COUNT, _SIZE, _SHARE = "{:,}".format, as_text, "{:.1%}".format

# field of Outcome, its name and explanation for people, how to write it, which end is the good one
_ROWS = (
    ("refused_requests", "refused requests", "could not be served", _COUNT, min),
    ("peak_used_bytes", "peak used", "the most that owners had at one time", _SIZE, min),
    ("peak_reserved_bytes", "peak reserved", "the most that was taken from the device", _SIZE, min),
    ("largest_free_bytes", "largest free run, at the end", "the longest stretch of free memory that is reserved", _SIZE,
     max),
    ("left_with_device_bytes", "left with the device, at the end", "what could still be reserved", _SIZE, max),
    ("external_fragmentation", "external fragmentation, at the end", "1 − largest request that fits / free, of what is reserved",
     _SHARE, min),
    ("looks", "looks", "candidates that were looked at, in all searches", _COUNT, min),
    ("device_calls", "device calls", "cudaMalloc, cudaFree and the like", _COUNT, min),
    ("moved_bytes", "moved", "what grows copied", _SIZE, min),
)

_LEGEND = ((MARK, f"{MARK} best of its row"),
           (HOLLOW_MARK, f"{HOLLOW_MARK} best of its row, but refused more requests than another and had less to do"))


def outcome_of(recording: MemoryRecording, tape: MemoryTape) -> Outcome:
    """tape: of this recording."""
    end, cost = len(tape), cost_of(recording)
    free, largest, reserved = tape.free_at(end), int(tape.largest_free[end]), int(tape.reserved[end])
    left = max(0, recording.capacity_bytes - reserved) if recording.capacity_bytes is not None else 0
    return Outcome(cost.refused, int(max(tape.used)), int(max(tape.reserved)), largest, left,
                   1 - tape.largest_fitting(end) / free if free else 0.0, cost.looks, sum(cost.device_calls.values()), cost.moved_bytes)


class Summary:
    """The table. `print` it, or read it as data:

    titles    the allocators
    outcomes  an `Outcome` for each
    rows      a `Row` for each number
    note      what the marks mean; empty if there are none
    """

    def __init__(self, titles: Sequence[str], outcomes: Sequence[Outcome]):
        self.titles, self.outcomes = tuple(titles), tuple(outcomes)
        fewest = min((outcome.refused_requests for outcome in outcomes), default=0)
        marks = [MARK if outcome.refused_requests == fewest else HOLLOW_MARK for outcome in outcomes]
        self.rows = tuple(self._row(*row, marks) for row in _ROWS)
        used = {mark for row in self.rows for mark in row.marks}
        self.note = " · ".join(text for mark, text in _LEGEND if mark in used)

    def _row(self, field: str, name: str, explanation: str, write, good, marks: list[str]) -> Row:
        values = tuple(getattr(outcome, field) for outcome in self.outcomes)
        differ = len(set(values)) > 1
        return Row(name, explanation, values, tuple(map(write, values)),
                   tuple(mark if differ and value == good(values) else "" for value, mark in zip(values, marks)))

    def as_dicts(self) -> dict[str, dict]:
        """title → {field: value}"""
        return {title: outcome._asdict() for title, outcome in zip(self.titles, self.outcomes)}

    def __str__(self) -> str:
        head = ("", *(f"{title}  " for title in self.titles))
        lines = [head, *((row.name, *(f"{text} {mark or ' '}" for text, mark in zip(row.texts, row.marks)))
                         for row in self.rows)]
        first, *others = [max(map(len, column)) for column in zip(*lines)]
        table = ["  ".join([name.ljust(first), *(cell.rjust(width) for cell, width in zip(cells, others))]).rstrip()
                 for name, *cells in lines]
        return "\n".join(table + [self.note] * bool(self.note))

    __repr__ = __str__
