"""A pool so simple that one can see it is right: one count per block, every rule written out.

Slow on purpose. It never chooses block ids: it is told which ones the pool under test gave, and says what must follow.
"""

from collections import Counter
from collections.abc import Sequence

from pagedkv.core.errors import DoubleFree, NotABlock, OutOfBlocks, PoolError, UseAfterFree


class PoolModel:
    """What a correct pool's refcounts are. Each method returns the error type that the call must be refused with, or
    None; the counts change only when the call goes through."""

    def __init__(self, num_blocks: int):
        self.refcounts = [0] * num_blocks

    @property
    def num_free_blocks(self) -> int:
        return self.refcounts.count(0)

    def refuse_allocate(self, n: int) -> type[PoolError] | None:
        return OutOfBlocks if n > self.num_free_blocks else None

    def given(self, blocks: Sequence[int]) -> None:
        """The pool under test answered an allocation with these blocks."""
        for block in blocks:
            self.refcounts[block] = 1

    def retain(self, blocks: Sequence[int]) -> type[PoolError] | None:
        if not self._all_inside(blocks):
            return NotABlock
        if any(self.refcounts[block] == 0 for block in blocks):
            return UseAfterFree
        for block in blocks:
            self.refcounts[block] += 1
        return None

    def release(self, blocks: Sequence[int]) -> type[PoolError] | None:
        if not self._all_inside(blocks):
            return NotABlock
        if any(times > self.refcounts[block] for block, times in Counter(blocks).items()):
            return DoubleFree
        for block in blocks:
            self.refcounts[block] -= 1
        return None

    def _all_inside(self, blocks: Sequence[int]) -> bool:
        return all(0 <= block < len(self.refcounts) for block in blocks)
