"""`check_pool`: any pool, ours or a learner's, against the whole contract.

First the named rules of `pagedkv.core.conformance`, then thousands of random operations next to a model that is too
simple to be wrong. When pool and model differ, Hypothesis looks for the shortest sequence that still shows it, and
that sequence is what the report prints.
"""

from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from pagedkv.core.conformance import (ConformanceReport, MakePool, RuleBroken, RuleResult, as_blocks, check_rule,
                                      check_rules, describe, expect_equal)
from pagedkv.core.errors import PoolError
from pagedkv.core.events import refcounts
from pagedkv.core.model import PoolModel

_NUM_BLOCKS = 6  # few, so that a call often names a block twice, and the pool is often full
_SECONDS = 60.0  # a few seconds, more where a long story is being shortened


def check_pool(make_pool: MakePool, examples: int = 100, calls: int = 50) -> ConformanceReport:
    """Put pools made by `make_pool(num_blocks)` to the named rules, then to `examples` random sequences of up to
    `calls` calls. The sequences are the same each time. Never raises."""
    report = check_rules(make_pool)
    if any(result.hung for result in report.results) or len(report.results) == 1:
        return report
    return ConformanceReport((*report.results, check_random_calls(make_pool, examples, calls)))


def check_random_calls(make_pool: MakePool, examples: int = 100, calls: int = 50) -> RuleResult:
    """The random part of `check_pool` alone."""
    return check_rule("random calls", "Any sequence of calls does what the model says.",
                      lambda: _run(make_pool, examples, calls), make_pool, _SECONDS)


def _run(make_pool: MakePool, examples: int, calls: int) -> None:
    run_state_machine_as_test(
        lambda: _PoolMachine(make_pool),
        settings=settings(max_examples=examples, stateful_step_count=calls, derandomize=True, database=None,
                          deadline=None, report_multiple_bugs=False, suppress_health_check=list(HealthCheck)))


_any_ids = st.lists(st.integers(-1, _NUM_BLOCKS), min_size=1, max_size=3)
_picks = st.lists(st.integers(0, _NUM_BLOCKS - 1), min_size=1, max_size=4)  # of the blocks held at that moment
_something_held = precondition(lambda machine: any(machine._model.refcounts))


class _PoolMachine(RuleBasedStateMachine):
    """Calls pool and model alike, and compares every answer and, after each call, every refcount."""

    def __init__(self, make_pool: MakePool):
        super().__init__()
        self._pool = make_pool(_NUM_BLOCKS)
        self._model = PoolModel(_NUM_BLOCKS)
        self._calls: list[str] = []

    @rule(n=st.integers(0, 3) | st.integers(0, _NUM_BLOCKS + 1))
    def allocate(self, n: int) -> None:
        refusal = self._model.refuse_allocate(n)
        answer = self._call(f"allocate({n})", refusal, lambda: self._pool.allocate(n))
        if refusal is None:
            with self._story():
                blocks = as_blocks(answer, n)
                for block in blocks:
                    if block not in range(_NUM_BLOCKS) or self._model.refcounts[block]:
                        raise RuleBroken(f"allocate({n}) gave {block!r}, which is not a free block")
            self._model.given(blocks)
            self._calls[-1] += f" → {blocks}"

    @_something_held
    @rule(picks=_picks)
    def retain_held(self, picks: list[int]) -> None:
        self.retain(self._held(picks))

    @_something_held
    @rule(picks=_picks)
    def release_held(self, picks: list[int]) -> None:
        self.release(self._held(picks))

    @_something_held
    @rule(pick=st.integers(0, _NUM_BLOCKS - 1))
    def release_the_last_reference(self, pick: int) -> None:
        for block in self._held([pick]):
            self.release([block] * self._model.refcounts[block])

    @rule(blocks=_any_ids)
    def retain(self, blocks: list[int]) -> None:
        self._call(f"retain({blocks})", self._model.retain(blocks), lambda: self._pool.retain(blocks))

    @rule(blocks=_any_ids)
    def release(self, blocks: list[int]) -> None:
        self._call(f"release({blocks})", self._model.release(blocks), lambda: self._pool.release(blocks))

    @invariant()
    def counts_agree(self) -> None:
        with self._story():
            expect_equal("the refcounts", list(refcounts(self._pool)), self._model.refcounts)
            expect_equal("num_free_blocks", self._pool.num_free_blocks, self._model.num_free_blocks)

    def _held(self, picks: list[int]) -> list[int]:
        held = [block for block, count in enumerate(self._model.refcounts) if count]
        return [held[pick % len(held)] for pick in picks]

    def _call(self, text: str, refusal: type[PoolError] | None, call: Callable[[], Any]) -> Any:
        """The pool's answer, which has to be a refusal exactly if the model refuses."""
        self._calls.append(text)
        answer = error = None
        try:
            answer = call()
        except Exception as raised:
            error = raised
        with self._story():
            if refusal is None and error is not None:
                raise RuleBroken(f"expected the call to go through, got {describe(error)}")
            if refusal is not None and not isinstance(error, refusal):
                raise RuleBroken(f"expected {refusal.__name__}, "
                                 + ("but the call went through" if error is None else f"got {describe(error)}"))
        if refusal is not None:
            self._calls[-1] += f" ✗ {refusal.__name__}"
        return answer

    def _story(self) -> "_Story":
        return _Story(self._calls)


class _Story:
    """Puts the calls so far in front of a broken rule's message."""

    def __init__(self, calls: list[str]):
        self._calls = calls

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind, error, traceback) -> None:
        if isinstance(error, RuleBroken):
            raise RuleBroken("\n    ".join([f"{_NUM_BLOCKS} blocks;", *self._calls, f"⇒ {error}"])) from None
