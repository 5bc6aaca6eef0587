"""`Observed`: events for a pool that reports none itself.

Wraps any pool of the bare contract, such as one that a learner has written, and tells an observer about every call.
"""

from collections.abc import Callable, Hashable, Iterable

from pagedkv.core.events import Event


class Observed:
    """The pool `inner`, with an observer. Whatever the call raises, the event names it and it is raised on."""

    def __init__(self, inner, source: str | None = None):
        self.inner = inner
        self.source = source or type(inner).__name__
        self.observer: Callable[[Event], None] | None = None
        self._step = 0

    @property
    def num_blocks(self) -> int:
        return self.inner.num_blocks

    @property
    def num_free_blocks(self) -> int:
        return self.inner.num_free_blocks

    def refcount(self, block: int) -> int:
        return self.inner.refcount(block)

    def allocate(self, n: int, owner: Hashable = None) -> list[int]:
        return self._call("allocate", owner, (), lambda: self.inner.allocate(n), requested_blocks=n)

    def retain(self, blocks: Iterable[int], owner: Hashable = None) -> None:
        blocks = list(blocks)
        self._call("retain", owner, blocks, lambda: self.inner.retain(blocks))

    def release(self, blocks: Iterable[int], owner: Hashable = None) -> None:
        blocks = list(blocks)
        self._call("release", owner, blocks, lambda: self.inner.release(blocks))

    def _call(self, op: str, owner: Hashable, blocks, call: Callable, **asked):
        try:
            answer = call()
        except Exception as error:
            self._report(op, owner, blocks, {"error": type(error).__name__, "message": str(error), **asked})
            raise
        self._report(op, owner, answer if op == "allocate" else blocks, {})
        return answer

    def _report(self, op: str, owner: Hashable, blocks, detail: dict) -> None:
        if self.observer is not None:
            self.observer(Event(self._step, op, owner, tuple(blocks), detail))
            self._step += 1
