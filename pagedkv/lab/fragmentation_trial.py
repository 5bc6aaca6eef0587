"""A learner's first fit next to the course's: the first call after which they differ, in words and as two pictures.

First fit leaves no choice: every call has one right answer, so starts are compared as they are. What a caller can see
is which start `allocate` returns, or None; how the holes are kept inside is the learner's choice.
"""

import io
import operator
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.free_runs import FreeRuns
from pagedkv.lab.grading import NotYet, Wrong, describe_error
from pagedkv.rivals.fits import FirstFit

MakeFirstFit = Callable[[int], Any]
Placed = tuple[int | None, int]  # the start of a new piece, None if it has no place, and its size
_MOST_TOLD = 8  # calls before the one that went wrong


class Call(NamedTuple):
    """allocate `size` and call the piece `name`; a size of 0 frees the piece of that name."""

    name: str
    size: int = 0


class Piece(NamedTuple):
    start: int
    size: int

    @property
    def end(self) -> int:
        return self.start + self.size


def calls(text: str) -> list[Call]:
    """`a=30 b=10 -a c=20`: allocate a and b, free a, allocate c."""
    return [Call(word[1:]) if word[0] == "-" else Call(word.partition("=")[0], int(word.partition("=")[2]))
            for word in text.split()]


class _Trial:
    """The learner's allocator and first fit, called alike. Pieces are called by names."""

    def __init__(self, make: MakeFirstFit, capacity: int, length: int):
        self.capacity, self._length = capacity, length
        self._mine, self._right = make(capacity), FirstFit(capacity)
        self._pieces: dict[str, Piece] = {}  # those that are in use
        self._handles: dict[str, Any] = {}
        self._told: list[str] = []

    def allocate(self, name: str, size: int) -> None:
        text = f"allocate({size})"
        before = sorted(self._pieces.values())
        try:
            handle = self._right.allocate(name, size)
            expected = handle.address
        except OutOfMemory:
            handle = expected = None
        because = self._because(size, expected)
        answer = self._call(text, lambda: self._mine.allocate(size), because, before, size, expected)
        start = self._read(text, answer, before, size, expected)
        if start != expected:
            self._differs(text, f"{start}{self._what_is_wrong_with(start, size, before)}", because, before,
                          (start, size), (expected, size))
        if handle is not None:
            self._pieces[name], self._handles[name] = Piece(expected, size), handle
        self._told.append(f"{text} → {expected}")

    def free(self, name: str) -> None:
        before, piece = sorted(self._pieces.values()), self._pieces[name]
        text = f"free({piece.start})"
        self._call(text, lambda: self._mine.free(piece.start), f"the piece {_range(piece)} is free again", before)
        del self._pieces[name]
        self._right.free(self._handles.pop(name))
        self._told.append(text)

    def is_live(self, name: str) -> bool:
        return name in self._pieces

    def names(self) -> list[str]:
        return list(self._pieces)

    def _call(self, text: str, call: Callable[[], Any], because: str, before: list[Piece], size: int = 0,
              expected: int | None = None) -> Any:
        try:
            return call()
        except NotYet:
            raise
        except Exception as error:
            self._differs(text, f"raised {describe_error(error)}", because, before, None, (expected, size))

    def _read(self, text: str, answer: Any, before: list[Piece], size: int, expected: int | None) -> int | None:
        """The start that the learner's allocate returned."""
        if answer is None:
            return None
        try:
            if isinstance(answer, bool):
                raise TypeError
            return operator.index(answer)
        except TypeError:
            self._differs(text, f"{answer!r}, which is neither a start nor None", self._because(size, expected), before,
                          None, (expected, size))

    def _holes(self) -> list[Piece]:
        return _holes(sorted(self._pieces.values()), self.capacity)

    def _because(self, size: int, expected: int | None) -> str:
        holes = [hole for hole in self._holes() if hole.size >= size]
        if expected is None:
            return f"None: no hole has {size}; {_listed(self._holes(), 'free')}"
        exactly = ", exactly as long as needed" if holes[0].size == size else ""
        return f"{expected}: the lowest hole that is long enough is {_range(holes[0])}{exactly}"

    def _what_is_wrong_with(self, start: int | None, size: int, before: list[Piece]) -> str:
        if start is None:
            return ""
        if start < 0:
            return ", which is before the memory's beginning"
        if start + size > self.capacity:
            return f", but the memory ends at {self.capacity}"
        inside = next((piece for piece in before if piece.start < start + size and start < piece.end), None)
        return f", but {_range(inside)} is in use" if inside else ""

    def _differs(self, text: str, yours: str, expected: str, before: list[Piece], mine: Placed | None = None,
                 right: Placed | None = None) -> None:
        number = len(self._told) + 1
        told = ["…"] * (number - 1 > _MOST_TOLD) + self._told[-_MOST_TOLD:]
        so_far = f"\n   before:    {', '.join(told)}" if told else ""
        message = (f"{self.capacity} units, call {number} of {self._length}: {text}{so_far}\n"
                   f"   {_listed(before, 'in use')}\n   yours:     {yours}\n   expected:  {expected}")
        raise Wrong(message, draw_two(before, self.capacity, mine, right, f"at call {number}, {text}"))


def try_cases(make: MakeFirstFit, cases: dict[str, str], capacity: int = 100) -> None:
    """Play named cases, each on a fresh allocator; see `calls` for how they are written. Raises Wrong at the first call
    that differs."""
    for name, text in cases.items():
        todo = calls(text)
        try:
            trial = _Trial(make, capacity, len(todo))
            for each in todo:
                trial.allocate(each.name, each.size) if each.size else trial.free(each.name)
        except Wrong as wrong:
            raise Wrong(f"{name}\n   {wrong}", wrong.picture) from None


def try_random_calls(make: MakeFirstFit, length: int, seed: int, capacity: int) -> None:
    """Play seeded random calls. Sizes are up to a fifth of the memory, so that some of the calls are refused."""
    rng = random.Random(seed)
    trial = _Trial(make, capacity, length)
    for number in range(length):
        names = trial.names()
        if names and rng.random() < 0.45:
            trial.free(rng.choice(names))
        else:
            trial.allocate(str(number), rng.randint(1, max(1, capacity // 5)))


def _holes(pieces: list[Piece], capacity: int) -> list[Piece]:
    runs = FreeRuns()
    runs.add(0, capacity, 0, capacity)
    for piece in pieces:
        runs.take(piece.start, piece.size)
    return [Piece(start, size) for start, size in runs]


def _range(piece: Piece) -> str:
    return f"{piece.start}–{piece.end}"


def _listed(pieces: list[Piece], what: str) -> str:
    some = ", ".join(map(_range, pieces[:8])) + ", …" * (len(pieces) > 8)
    return f"{what}:{' ' * (10 - len(what))}{some or 'nothing'}" if what == "in use" else f"{what} {some or 'nothing'}"


def draw_two(before: list[Piece], capacity: int, mine: Placed | None, right: Placed | None, when: str) \
        -> tuple[bytes, str]:
    """The memory before a call, twice, as PNG with its alternative text: where the learner put the new piece, and where
    it belongs."""
    from matplotlib.figure import Figure

    from pagedkv.viz import palette
    from pagedkv.viz.picture import default_style
    with default_style():
        figure = Figure(figsize=(7.2, 1.5), layout="constrained")
        told = []
        for axes, title, placed in zip(figure.subplots(2, 1, sharex=True), ("yours", "expected"), (mine, right)):
            start, size = placed or (None, 0)
            axes.broken_barh([(0, capacity)], (0, 1), facecolor=palette.FREE)
            axes.broken_barh([(piece.start, piece.size) for piece in before], (0, 1), facecolor=palette.FAINT_INK,
                             edgecolor=palette.PAPER)
            if start is not None and size:
                axes.broken_barh([(start, size)], (0.12, 0.76), facecolor=palette.HUES[1], edgecolor=palette.INK)
            told.append(f"{title}: " + (f"the new piece at {start}–{start + size}" if start is not None and size else
                                        "nothing placed"))
            axes.set_yticks([])
            axes.set_ylabel(title, rotation=0, ha="right", va="center", fontsize=9)
            axes.set_xlim(min(0, start or 0), max(capacity, (start or 0) + size))
            for side in axes.spines.values():
                side.set_visible(False)
        figure.suptitle(f"{when}: in use (grey), the new piece (orange)", fontsize=9, x=0.01, ha="left")
        data = io.BytesIO()
        figure.savefig(data, format="png", dpi=100, metadata={"Software": None})
    in_use = ", ".join(map(_range, before[:12])) or "nothing"
    return data.getvalue(), f"The memory {when}. In use: {in_use}. {'; '.join(told)}"
