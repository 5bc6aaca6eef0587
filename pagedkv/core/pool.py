"""`BlockPool`: reference-counted blocks of one fixed size, by number.

The whole state is two lists. The pool *owns* the blocks; whoever allocated or retained one holds a reference and
owes a release. The pool knows nothing about what a block contains.

    refcounts  [0, 0, 1, 2]        block 2 has one holder, block 3 has two
    free       [0, 1]              handed out from the end, so the block that came back last goes out first:
                                   it is the one most likely to be warm in a cache

One thread at a time: the pool takes no lock.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from operator import length_hint

from pagedkv.core.arguments import as_block_id, as_block_ids, as_count, as_list
from pagedkv.core.errors import DoubleFree, OutOfBlocks, PoolError, UseAfterFree
from pagedkv.core.events import Event


class BlockPool:
    """A pool of `num_blocks` blocks under the contract of `pagedkv.core.contract`.

    Every call costs time in proportion to the blocks it names, none in proportion to the pool.

    observer  called with an `Event` after each call, refusals included; None (the default) costs nothing

    `detail`, in every call, is what the caller wants its event to say besides.
    """

    source = "Python pool"

    def __init__(self, num_blocks: int):
        self.num_blocks = as_count(num_blocks, "num_blocks")
        # The pool's ids, each one int object that the pool hands out and gets back. `ids[b] is b` then settles in one
        # comparison that b is an int (not True, not 3.0), in range, and not negative. Ids that arrive as other
        # objects, from NumPy or from a file, are just as good: they are looked up here first.
        self._ids = list(range(self.num_blocks))
        self._free = self._ids[::-1]
        self._refcounts = [0] * self.num_blocks
        self.observer: Callable[[Event], None] | None = None
        self._step = 0

    def __repr__(self) -> str:
        return f"BlockPool(num_blocks={self.num_blocks}, num_free_blocks={self.num_free_blocks})"

    @property
    def num_free_blocks(self) -> int:
        return len(self._free)

    def refcount(self, block: int) -> int:
        """How many references `block` has; 0 for a free one. Raises NotABlock outside the pool."""
        return self._refcounts[as_block_id(block, self.num_blocks)]

    def refcounts(self) -> list[int]:
        """The refcount of every block, by block id: a copy."""
        return self._refcounts.copy()

    def allocate(self, n: int, owner: Hashable = None, detail: dict | None = None) -> list[int]:
        """Take `n` free blocks, each with refcount 1. Raises OutOfBlocks, and takes none, if fewer are free."""
        if type(n) is not int or n < 0:
            n = as_count(n)
        free = self._free
        if n > len(free):
            self._refuse(OutOfBlocks(f"need {n} blocks, {len(free)} of {self.num_blocks} are free: release some or ask for "
                                     "fewer"), "allocate", owner, (), requested_blocks=n)
        split = len(free) - n
        blocks = free[:split - 1:-1] if split else free[::-1]
        del free[split:]
        refcounts = self._refcounts
        for block in blocks:
            refcounts[block] = 1
        if self.observer is not None:
            self.report("allocate", owner, blocks, detail)
        return blocks

    def retain(self, blocks: Iterable[int], owner: Hashable = None, detail: dict | None = None) -> None:
        """One more reference to each block. Raises UseAfterFree, and changes nothing, if one of them is free."""
        if type(blocks) is not list:
            blocks = as_list(blocks)
        ids, refcounts = self._ids, self._refcounts
        # One pass that checks and changes at once, and is taken back if a check fails.
        remaining = iter(blocks)
        try:
            for block in remaining:
                count = refcounts[block]
                if not count or ids[block] is not block:
                    break
                refcounts[block] = count + 1
            else:
                remaining = None
        except Exception:  # whatever an element does that cannot index a list: IndexError, TypeError, its own
            pass
        if remaining is not None:
            for block in blocks[:len(blocks) - length_hint(remaining) - 1]:
                refcounts[block] -= 1
            return self._retain_checked(blocks, owner, detail)
        if self.observer is not None:
            self.report("retain", owner, blocks, detail)

    def release(self, blocks: Iterable[int], owner: Hashable = None, detail: dict | None = None) -> None:
        """One reference less to each block; at zero it is free. Raises DoubleFree, and changes nothing, if one of
        them is free already or stands in `blocks` more often than it is referenced."""
        if type(blocks) is not list:
            blocks = as_list(blocks)
        ids, refcounts, free = self._ids, self._refcounts, self._free
        add_free, num_free = free.append, len(free)
        # One pass, as in `retain`: checking everything first would need a count per distinct block, which costs more
        # than the release itself.
        remaining = iter(blocks)
        try:
            for block in remaining:
                if ids[block] is not block:
                    break
                count = refcounts[block]
                if count == 1:
                    refcounts[block] = 0
                    add_free(block)
                elif count:
                    refcounts[block] = count - 1
                else:
                    break
            else:
                remaining = None
        except Exception:
            pass
        if remaining is not None:
            done = len(blocks) - length_hint(remaining) - 1
            for block in blocks[:done]:
                refcounts[block] += 1
            del free[num_free:]
            return self._release_checked(blocks, owner, detail)
        if self.observer is not None:
            self.report("release", owner, blocks, detail)

    def _retain_checked(self, blocks: list, owner: Hashable, detail: dict | None) -> None:
        """The second look at a retain that did not go through: name what is wrong, or carry it out."""
        blocks = self._own_ids("retain", blocks, owner)
        for block in blocks:
            if not self._refcounts[block]:
                self._refuse(UseAfterFree(f"block {block} is free (refcount 0): use it before its last release, or allocate "
                                          "again"), "retain", owner, blocks)
        self.retain(blocks, owner, detail)

    def _release_checked(self, blocks: list, owner: Hashable, detail: dict | None) -> None:
        """The second look at a release that did not go through: name what is wrong, or carry it out."""
        blocks = self._own_ids("release", blocks, owner)
        for block, times in Counter(blocks).items():
            count = self._refcounts[block]
            if times > count:
                what = "is already free (refcount 0)" if not count else \
                    f"has refcount {count} but stands {times} times in this release"
                self._refuse(DoubleFree(f"block {block} {what}: release each reference only once"),
                             "release", owner, blocks)
        self.release(blocks, owner, detail)

    def _own_ids(self, op: str, blocks: Iterable[int], owner: Hashable) -> list[int]:
        """`blocks` as the pool's own int objects."""
        blocks = as_list(blocks)
        try:
            checked = as_block_ids(blocks, self.num_blocks)
        except PoolError as error:
            self._refuse(error, op, owner, blocks)
        return [self._ids[block] for block in checked]

    def _refuse(self, error: PoolError, op: str, owner: Hashable, blocks: Sequence[int], **detail) -> None:
        if self.observer is not None:
            self.report(op, owner, blocks, {"error": type(error).__name__, "message": str(error), **detail})
        raise error

    def report(self, op: str, owner: Hashable, blocks: Sequence[int], detail: dict | None = None) -> None:
        step = self._step
        self._step = step + 1
        self.observer(Event(step, op, owner, tuple(blocks), {} if detail is None else detail))
