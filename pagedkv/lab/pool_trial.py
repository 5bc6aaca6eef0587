"""A learner's pool next to the model: the first call after which they differ, in words and as two pictures.

Stricter than it looks and laxer than the conformance suite. What counts is what a caller can notice: which blocks are
given out, the refcounts, the number of free blocks, and that a refused call changes nothing. With which exception a
call is refused is the learner's choice.
"""

import io
import random
from collections.abc import Callable
from typing import Any, NamedTuple

from pagedkv.core.events import refcounts
from pagedkv.core.model import PoolModel
from pagedkv.core.replay import PoolState
from pagedkv.lab.grading import NotYet, Wrong, describe_error, is_java

MakePool = Callable[[int], Any]


class Call(NamedTuple):
    """One call of a scenario. names: for an allocation what to call the blocks, else which blocks are meant, as in
    "a b" (the same one may stand there twice)."""

    op: str
    names: str
    n: int = 0


def allocate(n: int, names: str = "") -> Call:
    return Call("allocate", names, n)


def retain(names: str) -> Call:
    return Call("retain", names)


def release(names: str) -> Call:
    return Call("release", names)


class _Trial:
    """A pool and the model of it, called alike."""

    def __init__(self, make_pool: MakePool, num_blocks: int, length: int):
        self.pool = make_pool(num_blocks)
        self.model = PoolModel(num_blocks)
        self._num_blocks, self._length, self._step = num_blocks, length, 0
        self._given: list[tuple[str, list, list]] = []

    def allocate(self, n: int) -> list[int]:
        before = self._begin()
        refusal = self.model.refuse_allocate(n)
        answer = self._call(f"allocate({n})", before, refusal, lambda: self.pool.allocate(n))
        if refusal is not None:
            return []
        blocks = self._read(n, answer, before)
        self.model.given(blocks)
        self._given.append((f"allocate({n})", answer, blocks))
        self._compare(f"allocate({n})", before)
        return blocks

    def change(self, op: str, blocks: list[int]) -> None:
        """retain or release."""
        before = self._begin()
        refusal = getattr(self.model, op)(blocks)
        text = f"{op}({blocks})" + self._why(op, blocks, before)
        self._call(text, before, refusal, lambda: getattr(self.pool, op)(list(blocks)))
        self._compare(text, before)

    def _begin(self) -> list[int]:
        self._step += 1
        return list(self.model.refcounts)

    def _call(self, text: str, before: list[int], refusal, call: Callable[[], Any]) -> Any:
        try:
            answer = call()
        except NotYet:
            raise
        except Exception as error:
            if is_java(error, "pagedkv.exercise.NotYet"):
                raise
            if isinstance(error, AssertionError) or is_java(error, "java.lang.AssertionError"):
                raise Wrong(f"{text}: refused with assert, which production switches off (java without -ea, python -O). "
                            "Throw an exception instead") from None
            if refusal is None:
                self._differs(text, f"raised {describe_error(error)}", "the call goes through", before)
            if self._state() != (before, before.count(0)):
                self._differs(text, f"raised {type(error).__name__}, but {self._said(before)}",
                              "a refused call leaves everything as it was", before)
            return None
        if refusal is not None:
            self._differs(text, f"the call went through, {self._said(before)}",
                          f"an exception, and {before.count(0)} blocks still free", before)
        return answer

    def _read(self, n: int, answer: Any, before: list[int]) -> list[int]:
        try:
            blocks = [int(block) for block in answer]
        except (TypeError, ValueError):
            self._differs(f"allocate({n})", f"returned {answer!r}", f"a list of {_blocks(n)}", before)
        if len(blocks) != n or len(set(blocks)) != n:
            self._differs(f"allocate({n})", f"returned {blocks}", f"{_blocks(n)}, each different", before)
        for block in blocks:
            if block not in range(self._num_blocks):
                self._differs(f"allocate({n})", f"returned {blocks}",
                              f"blocks from 0 to {self._num_blocks - 1}", before)
            if before[block]:
                self._differs(f"allocate({n})", f"returned {blocks}, and block {block} is held already",
                              "blocks that are free", before, mark=[block])
        return blocks

    def _compare(self, text: str, before: list[int]) -> None:
        counts, free = self._state()
        if counts != self.model.refcounts or free != self.model.num_free_blocks:
            self._differs(text, self._said(self.model.refcounts), self._expected(), before)
        for call, answer, blocks in self._given:
            if list(answer) != blocks:
                self._differs(text, f"the list that {call} had returned is now {list(answer)}",
                              f"it stays {blocks}: what was given out belongs to the caller", before)

    def _state(self) -> tuple[list[int], int]:
        return [int(count) for count in refcounts(self.pool)], int(self.pool.num_free_blocks)

    def _said(self, expected: list[int]) -> str:
        """What the pool says now, where it is not what was expected."""
        counts, free = self._state()
        wrong = [f"refcount({block}) is {count}" for block, count in enumerate(counts) if count != expected[block]]
        return ", ".join([*wrong[:3], *["…"] * (len(wrong) > 3), f"{free} of {self._num_blocks} blocks are free"])

    def _expected(self) -> str:
        counts = self._state()[0]
        wrong = [f"refcount({block}) is {count}" for block, count in enumerate(self.model.refcounts)
                 if counts[block] != count]
        return ", ".join([*wrong[:3], *["…"] * (len(wrong) > 3),
                          f"{self.model.num_free_blocks} of {self._num_blocks} blocks are free"])

    def _why(self, op: str, blocks: list[int], before: list[int]) -> str:
        """Why the call is to be refused, if it is."""
        for block in dict.fromkeys(blocks):
            if block not in range(self._num_blocks):
                return f" when there is no block {block}"
            if not before[block]:
                return f" when block {block} is free"
            if op == "release" and blocks.count(block) > before[block]:
                return f" when block {block} has refcount {before[block]}"
        return ""

    def _differs(self, text: str, yours: str, expected: str, before: list[int], mark: list[int] | None = None) -> None:
        step = f"call {self._step} of {self._length}"
        message = f"{step}: {text}\n   yours:     {yours}\n   expected:  {expected}"
        raise Wrong(message, self._picture(step, before, mark))

    def _picture(self, step: str, before: list[int], mark: list[int] | None) -> tuple[bytes, str] | None:
        counts = self._state()[0]
        expected = self.model.refcounts
        mark = mark or [block for block, count in enumerate(expected) if counts[block] != count]
        return draw_two(counts, expected, mark, step)


def _blocks(n: int) -> str:
    return "1 block" if n == 1 else f"{n} blocks"


def try_scenarios(make_pool: MakePool, scenarios: dict[str, list[Call]], num_blocks: int = 8) -> None:
    """Play named scenarios, each on a fresh pool. Raises Wrong at the first call that differs."""
    for name, calls in scenarios.items():
        trial = _Trial(make_pool, num_blocks, len(calls))
        blocks: dict[str, int] = {}
        for call in calls:
            try:
                if call.op == "allocate":
                    blocks.update(zip(call.names.split(), trial.allocate(call.n)))
                else:
                    trial.change(call.op, [blocks[each] for each in call.names.split()])
            except Wrong as wrong:
                raise Wrong(f"{name}\n   {wrong}", wrong.picture) from None


def try_random_calls(make_pool: MakePool, calls: int = 2_000, num_blocks: int = 8, seed: int = 1) -> None:
    """Play seeded random calls, about a third of which are to be refused. Raises Wrong at the first that differs."""
    rng = random.Random(seed)
    trial = _Trial(make_pool, num_blocks, calls)
    for _ in range(calls):
        held = [block for block, count in enumerate(trial.model.refcounts) if count]
        op = rng.choice(["allocate", "retain", "release", "release"])
        if op == "allocate":
            trial.allocate(rng.randint(0, 4))
        else:
            some = rng.choices(held, k=rng.randint(1, 3)) if held and rng.random() < 0.8 else []
            trial.change(op, some or [rng.randrange(num_blocks)])


def draw_two(yours: list[int], expected: list[int], mark: list[int], when: str) -> tuple[bytes, str]:
    """Two small grids side by side as PNG, with their alternative text."""
    from matplotlib.figure import Figure

    from pagedkv.viz import plot_grid
    figure = Figure(figsize=(6.4, 1.0), layout="constrained")
    for axes, title, counts in zip(figure.subplots(1, 2), ("yours", "expected"), (yours, expected)):
        state = PoolState(len(counts), {block: count for block, count in enumerate(counts) if count > 0})
        plot_grid(state, ax=axes, mark=mark, title=f"{title}, {when}")
    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=100, metadata={"Software": None})
    alt = "; ".join(f"{title}: refcounts {' '.join(map(str, counts))}"
                    for title, counts in (("yours", yours), ("expected", expected)))
    return data.getvalue(), f"The pool at {when}. {alt}"
