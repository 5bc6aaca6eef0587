"""A kill at each step of an operation, and what a reap makes of it.

    print(kill_steps("retain"))

The operation is the pool's own, in Python (`pagedkv.shared.portable_operations`), on a pool of a few bytes in this
process's memory. It is cut off before its n-th write, for every n, as a SIGKILL would: nothing more is written. Then
another member reaps. Each row of the table is such a run.
"""

from array import array
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from pagedkv.lab.workers_watch import holders_in
from pagedkv.shared.layout import CACHED, CONTENT, GENERATION_SHIFT, Layout
from pagedkv.shared.portable_operations import PortableOperations

BLOCK, OTHER, VICTIM = 0, 1, 2  # a block, and the slots of who survives and who is killed


class _Killed(BaseException):
    """Not an Exception, so that nothing on the way puts things in order."""


class _Memory:
    """Atomic steps on memory that only this thread uses, at addresses from 0 on; counts all writes.

    left    how many more there may be; None: any number"""

    def __init__(self, sizes: Layout):
        self._words_at = sizes.words_at
        # The data are not touched, so only what comes before is there.
        self.view = memoryview(bytearray(sizes.data_at))
        self.numbers = self.view.cast("Q")
        self.left: int | None = None
        self.writes: list[str] = []

    def write(self, what: str) -> None:
        if self.left is not None:
            if not self.left:
                raise _Killed
            self.left -= 1
        self.writes.append(what)

    def compare_and_swap(self, at: int, seen: int, wanted: int) -> int:
        self.write("the word" if at >= self._words_at else "hints")
        found = self.numbers[at // 8]
        if found == seen:
            self.numbers[at // 8] = wanted
        return found

    def set_bits(self, at: int, bits: int) -> None:
        self.write("hints")
        self.numbers[at // 8] |= bits

    def add(self, at: int, number: int) -> int:
        self.write("a number")
        self.numbers[at // 8] += number
        return self.numbers[at // 8] - number

    def fence(self) -> None:
        pass


class _Operations(PortableOperations):
    def _set_count(self, at: int, count: int) -> None:
        self._atomics.write(f"counts[{VICTIM}] = {count}")
        super()._set_count(at, count)


class Found(NamedTuple):
    """What stands in the pool: the block's word, the victim's count, and whether the block has a hint."""

    word: int
    count: int
    has_hint: bool

    def __str__(self) -> str:
        holders = ", ".join(map(str, holders_in(self.word))) or "–"
        flags = " CONTENT" * bool(self.word & CONTENT) + " CACHED" * bool(self.word & CACHED)
        return f"{self.word >> GENERATION_SHIFT:>3}  {{{holders}}}{flags}".ljust(14) + f"{self.count:>5}   " + \
            ("yes" if self.has_hint else "no")


class KillRow(NamedTuple):
    """writes: those that came before the kill; killed, reaped: what stood there then, and after the reap; healed: how
    many hints the reap had to set that no operation would have set any more (pagedkv.shared.layout: heal)."""

    writes: tuple[str, ...]
    killed: Found
    reaped: Found
    healed: int


@dataclass(frozen=True)
class KillTable:
    title: str
    rows: tuple[KillRow, ...]

    def __str__(self) -> str:
        width = max(len(self._last(row)) for row in self.rows)
        lines = [self.title, f"{'':>{width}}  when it is killed                 after the reap",
                 f"{'killed after':<{width}}  gen  holders  count  hint         gen  holders  count  hint"]
        lines += [f"{self._last(row):<{width}}  {str(row.killed):<31}  {row.reaped}{', healed' * row.healed}"
                  for row in self.rows]
        return "\n".join(lines)

    @staticmethod
    def _last(row: KillRow) -> str:
        return f"{len(row.writes)}. {row.writes[-1]}" if row.writes else "0. nothing yet"


class _Case(NamedTuple):
    title: str
    before: Callable[[PortableOperations, PortableOperations], object]  # gets the operations of OTHER and of VICTIM
    run: Callable[[PortableOperations], object]


def _both_hold(other, victim) -> None:
    other.allocate(1)
    victim.retain(_ids())


_CASES = {
    "allocate": _Case(f"slot {VICTIM} allocates block {BLOCK}", lambda other, victim: None,
                      lambda victim: victim.allocate(1)),
    "retain": _Case(f"slot {VICTIM} retains block {BLOCK}, which slot {OTHER} holds",
                    lambda other, victim: other.allocate(1), lambda victim: victim.retain(_ids())),
    "release": _Case(f"slot {VICTIM} releases block {BLOCK}, which nobody else holds",
                     lambda other, victim: victim.allocate(1), lambda victim: victim.release(_ids())),
    "release, shared": _Case(f"slot {VICTIM} releases block {BLOCK}, which slot {OTHER} holds too", _both_hold,
                             lambda victim: victim.release(_ids())),
}


def kill_steps(operation: str) -> KillTable:
    """Cut the operation off before each of its writes, and after the last. operation: "allocate", "retain", "release",
    or "release, shared", of a block that somebody else holds too. Raises ValueError for another one."""
    if operation not in _CASES:
        raise ValueError(f"operation is one of {', '.join(map(repr, _CASES))}, got {operation!r}")
    case, rows = _CASES[operation], []
    while not rows or len(rows[-1].writes) == len(rows) - 1:
        rows.append(_kill(case, len(rows)))
    return KillTable(case.title, tuple(rows[:-1]))


def _kill(case: _Case, num_writes: int) -> KillRow:
    sizes = Layout(1, 64)
    memory = _Memory(sizes)
    memory.numbers[sizes.empty_at // 8] = 1  # as in a new pool: all blocks are free, and have a hint
    other, victim = (_Operations(memory.view, 0, sizes, slot, 0, atomics=memory) for slot in (OTHER, VICTIM))
    case.before(other, victim)
    memory.writes.clear()
    memory.left = num_writes
    try:
        case.run(victim)
    except _Killed:
        pass
    memory.left, writes = None, tuple(memory.writes)
    killed = _found(memory, sizes, victim)
    other.reap(1 << VICTIM)
    healed = other.heal()
    return KillRow(writes, killed, _found(memory, sizes, victim), healed)


def _found(memory: _Memory, sizes: Layout, victim: PortableOperations) -> Found:
    return Found(victim.word(BLOCK), victim.own_count(BLOCK), bool(memory.numbers[sizes.empty_at // 8] & 1))


def _ids() -> array:
    return array("q", [BLOCK])
