"""The golden table: real reports of fragmentation as short sequences, and what the caching allocator makes of them.

    python -m pagedkv.rivals.golden

prints every row's figures beside the expected ones, and ends with status 1 if one differs. Those of PR 193400 were read
off a real GPU by its author; the others follow from the allocator's rules, step by step.

A sequence is written in MiB: `530` allocates and keeps, `530-` allocates and frees at once, `A=91` gives an allocation
a name and `-A` frees it, `8x(…)` repeats, `?` takes a reading. A sequence ends at its first refusal, as the program
did.
"""

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pagedkv.core.errors import OutOfMemory
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.caching_rules import MIB
from pagedkv.rivals.workload import Request, Workload

ROOMY_MIB = 80 * 1024


@dataclass(frozen=True)
class Golden:
    """One row. `sequence` is the compact text; where that cannot say it, `make` yields the requests and it only tells.

    expected  figure → MiB, or a tuple of one for each reading, or a plain count for "refused allocation"
    """

    report: str
    sequence: str
    expected: dict[str, Any]
    capacity_mib: int = ROOMY_MIB
    settings: dict[str, Any] = field(default_factory=dict)
    make: Callable[[], Iterator[Request]] | None = None

    @property
    def workload(self) -> Workload:
        return Workload(self.report, tuple(self._steps(readings=False)))

    def measure(self) -> dict[str, Any]:
        """The same figures, measured."""
        allocator = CachingAllocator(self.capacity_mib * MIB, **self.settings)
        seen, refused = play(self._steps(readings=True), allocator)
        figures = _figures(allocator, refused)
        for name in self.expected:
            if name not in figures:
                figures[name] = tuple(reading[name.removesuffix(" over time")] for reading in seen)
        return {name: figures[name] for name in self.expected}

    def _steps(self, readings: bool) -> Iterator[Request | None]:
        steps = self.make() if self.make else expand(self.sequence)
        return steps if readings else (step for step in steps if step is not None)


def play(steps: Iterator[Request | None], allocator: CachingAllocator) -> tuple[list[dict[str, float]], int | None]:
    """Put requests to an allocator until one is refused; None takes a reading. The readings, and which allocation
    (from 1) was refused."""
    handles, seen, allocations = {}, [], 0
    for step in steps:
        if step is None:
            seen.append(_figures(allocator, None))
        elif step.op == "free":
            allocator.free(handles.pop(step.owner))
        else:
            allocations += 1
            try:
                handles[step.owner] = allocator.allocate(step.owner, step.size_bytes)
            except OutOfMemory:
                return seen, allocations
    return seen, None


def _figures(allocator: CachingAllocator, refused: int | None) -> dict[str, Any]:
    largest = max((size_bytes for _, size_bytes in allocator.free_runs()), default=0)
    in_bytes = {"live": allocator.allocated_bytes, "reserved": allocator.reserved_bytes,
                "unallocated": allocator.reserved_bytes - allocator.allocated_bytes,
                "device free": allocator.device.free_bytes, "largest block": largest,
                "inactive split": allocator.inactive_split_bytes}
    return {**{name: _mib(number) for name, number in in_bytes.items()}, "refused allocation": refused}


def _mib(size_bytes: int) -> float | int:
    return size_bytes // MIB if size_bytes % MIB == 0 else size_bytes / MIB


_TOKEN = re.compile(r"\s*(?:(?P<times>\d+)x|(?P<open>\()|(?P<close>\))|(?P<sep>;)|(?P<read>\?)|-(?P<free>[A-Z]\w*)"
                    r"|(?:(?P<name>[A-Z]\w*)=)?(?P<size>\d+(?:\.\d+)?)(?P<brief>-?))")


def expand(sequence: str) -> Iterator[Request | None]:
    """The requests of a compact sequence; None for a reading. Raises ValueError for what it cannot read."""
    number = 0
    for token in _unrolled(_tokens(sequence)):
        if token["read"]:
            yield None
        elif token["free"]:
            yield Request("free", token["free"])
        else:
            number += 1
            owner = token["name"] or str(number)
            yield Request("allocate", owner, int(float(token["size"]) * MIB))
            if token["brief"]:
                yield Request("free", owner)


def _tokens(sequence: str) -> list[dict[str, str | None]]:
    tokens, at, text = [], 0, sequence.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"cannot read {text[at:]!r} in the sequence {sequence!r}")
        tokens.append(match.groupdict())
        at = match.end()
    return tokens


def _unrolled(tokens: list[dict[str, str | None]]) -> Iterator[dict[str, str | None]]:
    """The tokens with all repetitions carried out."""
    at, times = 0, 1
    while at < len(tokens):
        token = tokens[at]
        if token["times"]:
            times = int(token["times"])
        elif token["open"]:
            end, depth = at, 0
            while end < len(tokens):
                depth += bool(tokens[end]["open"]) - bool(tokens[end]["close"])
                if not depth:
                    break
                end += 1
            else:
                raise ValueError("a bracket is not closed")
            for _ in range(times):
                yield from _unrolled(tokens[at + 1:end])
            at, times = end, 1
        elif token["close"]:
            raise ValueError("a bracket closes that was not opened")
        elif not token["sep"]:
            for _ in range(times):
                yield token
            times = 1
        at += 1


def growing_cache(old_is_held: bool) -> Iterator[Request]:
    """A KV cache that grows by concatenation: 16 tensors from 8 to 16 MiB, 8 KiB more at each of 1,024 steps. A step
    makes each new tensor and frees the one it replaces, at once or when all 16 are made."""
    def name(tensor: int, step: int) -> str:
        return f"T{tensor}.{step}"

    for tensor in range(16):
        yield Request("allocate", name(tensor, 0), 8 * MIB)
    for step in range(1, 1025):
        for tensor in range(16):
            yield Request("allocate", name(tensor, step), 8 * MIB + step * 8 * 1024)
            if not old_is_held:
                yield Request("free", name(tensor, step - 1))
        if old_is_held:
            for tensor in range(16):
                yield Request("free", name(tensor, step - 1))


def growing_batches() -> Iterator[Request]:
    """Batches of 16, 17, … 32: five activations in proportion to the batch, all freed before the next."""
    for batch in range(16, 33):
        for size in (4, 2, 3, 1.5, 5):
            yield Request("allocate", f"{batch}x{size}", int(batch * size * MIB))
        for size in (4, 2, 3, 1.5, 5):
            yield Request("free", f"{batch}x{size}")


_CYCLE = "A=91; B=45.5; 2; -A; -B"
_EVERY_20 = f"64; ({_CYCLE}); ?; 5x(20x({_CYCLE}); ?)"
_ALLOCATED = (66, 106, 146, 186, 226, 266)
_BATCHES = "n = 16…32: n·4, n·2, n·3, n·1.5, n·5, then all freed"
_GROWTH = "16 tensors 8 → 16, +8 KiB a step; "

TABLE = (
    Golden("pytorch#35901", "1100-; 4x16; 1100",
           {"refused allocation": 6, "device free": 948, "largest block": 1036}, capacity_mib=2048),
    Golden("vllm PR 41268", "8x(530-; 270)",
           {"refused allocation": 11, "device free": 350, "unallocated": 1300, "largest block": 260},
           capacity_mib=3000),
    Golden("pytorch#123548 / PR 193400", _EVERY_20,
           {"live over time": _ALLOCATED, "reserved over time": (220, 2980, 5760, 8520, 11300, 14060)},
           16 * 1024, {"max_split_size_mb": 128, "expandable_segments": True}),
    Golden("… expandable segments alone", _EVERY_20,
           {"live over time": _ALLOCATED, "reserved over time": (220, 260, 300, 340, 380, 420)},
           16 * 1024, {"expandable_segments": True}),
    Golden("vllm PR 37428", "500-; 150; 370; 384",
           {"refused allocation": 4, "device free": 330, "unallocated": 350}, capacity_mib=1200),
    Golden("transformers PR 30536", _GROWTH + "the old freed at once",
           {"live": 256, "reserved": 516, "inactive split": 32}, make=lambda: growing_cache(old_is_held=False)),
    Golden("… the old held for a step", _GROWTH + "the old freed at its end",
           {"live": 256, "reserved": 992, "inactive split": 32}, make=lambda: growing_cache(old_is_held=True)),
    Golden("… expandable segments", _GROWTH + "the old freed at once", {"live": 256, "reserved": 300},
           settings={"expandable_segments": True}, make=lambda: growing_cache(old_is_held=False)),
    Golden("… both", _GROWTH + "the old freed at its end", {"live": 256, "reserved": 540},
           settings={"expandable_segments": True}, make=lambda: growing_cache(old_is_held=True)),
    Golden("… preallocated", "16x16", {"live": 256, "reserved": 256}),
    Golden("torchtune#1185", _BATCHES, {"live": 0, "reserved": 2216}, make=growing_batches),
    Golden("… expandable segments", _BATCHES, {"live": 0, "reserved": 500},
           settings={"expandable_segments": True}, make=growing_batches),
    Golden("DeepSpeed#1611", "A=381.5; B=381.5; -A; -B; 763", {"live": 764, "reserved": 1528}),
)


def unseen_by_inactive_split(old_is_held: bool) -> tuple[float, float]:
    """(inactive split, reserved but unallocated) in MiB at the end of the growing cache. Most of the fragmentation is
    in segments that are wholly free, and too small for the tensors of the day; inactive_split_bytes sees none of it."""
    allocator = CachingAllocator(ROOMY_MIB * MIB)
    play(growing_cache(old_is_held), allocator)
    return _mib(allocator.inactive_split_bytes), _mib(allocator.reserved_bytes - allocator.allocated_bytes)


def stranded_by_max_split(max_split_size_mb: int, rounds: int = 10) -> tuple[float, float, float]:
    """(reserved, live, inactive split) in MiB after so many times `5-`. With max_split_size_mb = 20 a shared segment
    that has become wholly free is itself a block of 20 MiB: too large to be split, so no request below 20 MiB may have
    it, and each takes a new one. It goes back to the device when memory has run out."""
    allocator = CachingAllocator(ROOMY_MIB * MIB, max_split_size_mb=max_split_size_mb)
    play(expand(f"{rounds}x(5-)"), allocator)
    return _mib(allocator.reserved_bytes), _mib(allocator.allocated_bytes), _mib(allocator.inactive_split_bytes)


def as_lines() -> tuple[list[str], bool]:
    """The table, a line for each figure, and whether all are as expected."""
    lines, good = [f"{'report':28} {'figure (MiB)':20} {'measured':>38} {'expected':>38}"], True
    for row in TABLE:
        settings = ", ".join(f"{name}={value}" for name, value in row.settings.items())
        lines.append(f"{row.report:28} {row.sequence}"
                     + (f"   [device {row.capacity_mib}]" if row.capacity_mib != ROOMY_MIB else "")
                     + (f"   [{settings}]" if settings else ""))
        for name, measured in row.measure().items():
            expected = row.expected[name]
            same = measured == expected
            good = good and same
            lines.append(f"{'':28} {name:20} {_cell(measured):>38} {_cell(expected):>38}  "
                         + ("OK" if same else "DIFFERS"))
    return lines, good


def _cell(value: Any) -> str:
    return " / ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def main() -> int:
    lines, good = as_lines()
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
