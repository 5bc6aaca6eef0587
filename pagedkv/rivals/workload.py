"""A workload: the same requests for every allocator.

    a OWNER SIZE    the owner allocates SIZE bytes
    g OWNER SIZE    the owner's memory grows to SIZE bytes in total
    f OWNER         the owner frees what it has
    # …             a comment

is its text form, one request a line; Java reads the same. Sizes may be written as 64, 64K, 64M or 1G (powers of 1024). An
owner has one allocation at a time, and may come back after it has freed it.
"""

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import Allocator, MemoryEvent, MemoryRecording, record_memory

_OPERATIONS = {"a": "allocate", "g": "grow", "f": "free"}
_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
_SIZE = re.compile(r"(\d+)([KMG]?)")


class Request(NamedTuple):
    """op "allocate", "grow" or "free"; size_bytes is 0 for a free."""

    op: str
    owner: Hashable
    size_bytes: int = 0


@dataclass(frozen=True)
class Workload:
    """Requests in order. Raises ValueError, with the number of the request, for a sequence that no program can make: two
    allocations of one owner at a time, a free or a growth without one, a growth to less."""

    name: str
    requests: tuple[Request, ...]

    def __post_init__(self):
        object.__setattr__(self, "requests", tuple(self.requests))
        _check(self.requests)

    def __len__(self) -> int:
        return len(self.requests)

    @classmethod
    def parse(cls, text: str, name: str = "workload") -> "Workload":
        """From the text form. Raises ValueError that names the line."""
        requests, places = [], []
        for number, line in enumerate(text.splitlines(), start=1):
            words = line.partition("#")[0].split()
            if words:
                places.append(f"line {number}")
                requests.append(_parse_line(words, places[-1]))
        _check(requests, places)
        return cls(name, tuple(requests))

    @classmethod
    def read(cls, path: str | Path) -> "Workload":
        return cls.parse(Path(path).read_text(encoding="utf-8"), Path(path).stem)

    def text(self) -> str:
        """The text form. Owners are written by their names; what would not come back, spaces and #, becomes an underline."""
        lines = []
        for op, owner, size_bytes in self.requests:
            name = re.sub(r"[\s#]", "_", str(owner))
            lines.append(f"{op[0]} {name}" + (f" {size_bytes}" if op != "free" else ""))
        return "".join(line + "\n" for line in lines)


def run(workload: Workload, allocator: Allocator, on_progress: Callable[[int], None] | None = None) -> MemoryRecording:
    """Put a workload to an allocator. Event i of the recording belongs to request i, so that the recordings of several
    allocators can be stepped through together: what an owner does after it was refused is reported as skipped. `on_progress`
    is told now and then how many requests are done."""
    handles: dict[Hashable, object] = {}
    with record_memory(allocator) as recording:
        for number, (op, owner, size_bytes) in enumerate(workload.requests):
            try:
                if op == "allocate":
                    handles[owner] = allocator.allocate(owner, size_bytes)
                elif owner not in handles:
                    recording.events.append(MemoryEvent(number, op, owner, size_bytes, (), {"skipped": True}))
                elif op == "grow":
                    handles[owner] = allocator.grow(handles[owner], size_bytes)
                else:
                    allocator.free(handles.pop(owner))
            except OutOfMemory:
                pass  # the event tells
            if on_progress is not None and number % 1024 == 0:
                on_progress(number)
    recording.events[:] = [event if event.step == number else event._replace(step=number)
                           for number, event in enumerate(recording.events)]
    return recording


def _parse_line(words: Sequence[str], where: str) -> Request:
    op = _OPERATIONS.get(words[0])
    if op is None or len(words) != (2 if op == "free" else 3):
        raise ValueError(f"{where}: expected `a OWNER SIZE`, `g OWNER SIZE` or `f OWNER`, got: {' '.join(words)}")
    size = _SIZE.fullmatch(words[2].upper()) if op != "free" else None
    if op != "free" and size is None:
        raise ValueError(f"{where}: a size is written as 64, 64K, 64M or 1G, got {words[2]}")
    return Request(op, words[1], int(size[1]) * _UNITS[size[2]] if size else 0)


def _check(requests: Sequence[Request], places: Sequence[str] = ()) -> None:
    """places: what to call each request; its number otherwise."""
    live: dict[Hashable, int] = {}
    for number, (op, owner, size_bytes) in enumerate(requests):
        place = places[number] if places else f"request {number}"
        if op not in _OPERATIONS.values():
            raise ValueError(f"{place}: {op!r} is not one of allocate, grow, free")
        if op != "free" and size_bytes < 1:
            raise ValueError(f"{place}: {owner} asks for {size_bytes} bytes; at least 1 is needed")
        if op == "allocate" and owner in live:
            raise ValueError(f"{place}: {owner} allocates again before it has freed what it has")
        if op != "allocate" and owner not in live:
            raise ValueError(f"{place}: {owner} has nothing to {op}")
        if op == "grow" and size_bytes < live[owner]:
            raise ValueError(f"{place}: {owner} has {live[owner]} bytes and cannot grow to {size_bytes}")
        if op == "free":
            del live[owner]
        else:
            live[owner] = size_bytes
