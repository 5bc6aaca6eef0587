"""Pools with one fault each, and the rule that has to name it: what a learner, or a real engine, gets wrong.

BROKEN_POOLS: class → (the rule that must be reported as broken, a piece of the message it must get).
"""

from itertools import count

from pagedkv import BlockPool, DoubleFree, OutOfBlocks


class ListsAFreedBlockTwice(BlockPool):
    """The count is checked only for zero after it was lowered, as in a pool that a published article shows."""

    def release(self, blocks, owner=None):
        for block in blocks:
            self._refcounts[block] -= 1
            if self._refcounts[block] <= 0:
                self._free.append(block)


class RetainsAFreeBlock(BlockPool):
    def retain(self, blocks, owner=None):
        for block in self._own_ids("retain", blocks, owner):
            self._refcounts[block] += 1


class ForgetsToCheckWithinOneCall(BlockPool):
    """Checks each block against its refcount, but not against the rest of the call (vllm#42571)."""

    def release(self, blocks, owner=None):
        blocks = self._own_ids("release", blocks, owner)
        if not all(self._refcounts[block] for block in blocks):
            super().release(blocks, owner)
        for block in blocks:
            self._refcounts[block] -= 1
            if self._refcounts[block] == 0:
                self._free.append(block)


class TakesWhatItCanGet(BlockPool):
    """Out of blocks, it has already taken the rest."""

    def allocate(self, n, owner=None):
        if type(n) is int and n > len(self._free):
            super().allocate(len(self._free), owner)
            raise OutOfBlocks("none left")
        return super().allocate(n, owner)


class ReleasesUpToTheBadBlock(BlockPool):
    def release(self, blocks, owner=None):
        for block in blocks:
            super().release([block], owner)


class CountsFromTheEnd(BlockPool):
    """A negative id is an index from the end, as in any Python list."""

    def retain(self, blocks, owner=None):
        super().retain([block % self.num_blocks if type(block) is int and -self.num_blocks <= block < 0 else block
                        for block in blocks], owner)


class TrueIsBlockOne(BlockPool):
    def retain(self, blocks, owner=None):
        super().retain([int(block) if isinstance(block, bool) else block for block in blocks], owner)


class OnlyPlainInts(BlockPool):
    def retain(self, blocks, owner=None):
        if not all(type(block) is int for block in blocks):
            raise TypeError("block ids are ints")
        super().retain(blocks, owner)


class KeepsOneBlockBack(BlockPool):
    """Off by one: the last block is never given out."""

    def allocate(self, n, owner=None):
        if type(n) is int and n >= len(self._free) > 0:
            raise OutOfBlocks("off by one")
        return super().allocate(n, owner)


class FreesOnFirstRelease(BlockPool):
    """No reference counts at all: who releases first, frees."""

    def release(self, blocks, owner=None):
        blocks = self._own_ids("release", blocks, owner)
        for block in set(blocks):
            self._refcounts[block] = min(self._refcounts[block], blocks.count(block))
        super().release(blocks, owner)


class ForgetsSharedBlocks(BlockPool):
    """A leak: a block that was ever shared does not come back."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self._shared = set()

    def retain(self, blocks, owner=None):
        blocks = list(blocks)
        super().retain(blocks, owner)
        self._shared.update(int(block) for block in blocks)

    def release(self, blocks, owner=None):
        super().release(blocks, owner)
        self._free = [block for block in self._free if block not in self._shared]


class RaisesAnythingButTheRightType(BlockPool):
    def release(self, blocks, owner=None):
        try:
            super().release(blocks, owner)
        except DoubleFree as error:
            raise RuntimeError(str(error)) from None


class AnswersWithNothing(BlockPool):
    """The learner's method computes the blocks and forgets `return`."""

    def allocate(self, n, owner=None):
        super().allocate(n, owner)


class AnswersWithoutEnd(BlockPool):
    def allocate(self, n, owner=None):
        return count()


class GivesTheSameBlockTwice(BlockPool):
    def allocate(self, n, owner=None):
        blocks = super().allocate(n, owner)
        return blocks if len(blocks) < 2 else blocks[:-1] + blocks[:1]


class NeverReturns(BlockPool):
    def retain(self, blocks, owner=None):
        while True:
            try:
                while True:
                    pass
            except Exception:
                pass


class LeavesTheInterpreter(BlockPool):
    def retain(self, blocks, owner=None):
        raise SystemExit


class ReportsOnlySuccess(BlockPool):
    def _refuse(self, error, op, owner, blocks, **detail):
        raise error


class ReportsTheWrongBlocks(BlockPool):
    def report(self, op, owner, blocks, detail=None):
        super().report(op, owner, sorted(set(blocks))[:1], detail)


class CountsToFour(BlockPool):
    """A counter too narrow: a block's fifth reference is not counted. No named rule goes that far."""

    def retain(self, blocks, owner=None):
        super().retain(blocks, owner)
        self._refcounts = [min(count, 4) for count in self._refcounts]


BROKEN_POOLS = {
    ListsAFreedBlockTwice: ("double free is refused", "expected DoubleFree, but the call went through"),
    RetainsAFreeBlock: ("use after free is refused", "expected UseAfterFree, but the call went through"),
    ForgetsToCheckWithinOneCall: ("twice in one release", "expected DoubleFree, but the call went through"),
    TakesWhatItCanGet: ("out of blocks takes none", "was refused with OutOfBlocks, but not all is as before"),
    ReleasesUpToTheBadBlock: ("release is all or nothing", "was refused with DoubleFree, but not all is as before"),
    CountsFromTheEnd: ("ids outside the pool", "expected NotABlock, but the call went through"),
    TrueIsBlockOne: ("ids are integers", "expected TypeError, but the call went through"),
    OnlyPlainInts: ("any integer type will do", "TypeError: block ids are ints"),
    KeepsOneBlockBack: ("allocate gives distinct blocks", "OutOfBlocks: off by one"),
    FreesOnFirstRelease: ("shared blocks stay", "while both blocks are held: expected OutOfBlocks"),
    ForgetsSharedBlocks: ("released blocks come back", "OutOfBlocks: need 6 blocks, 4 of 6 are free"),
    RaisesAnythingButTheRightType: ("double free is refused", "expected DoubleFree, got RuntimeError"),
    AnswersWithNothing: ("allocate gives distinct blocks", "allocate(3) gives a list of blocks, got None"),
    AnswersWithoutEnd: ("allocate gives distinct blocks", "allocate(3) gives 3 different blocks"),
    GivesTheSameBlockTwice: ("allocate gives distinct blocks", "allocate(3) gives 3 different blocks"),
    NeverReturns: ("allocate nothing", "a call did not return"),
    LeavesTheInterpreter: ("retain adds a reference", "the pool raised SystemExit"),
    ReportsOnlySuccess: ("an event for each call", "number of events for 5 observed calls: expected 5, got 3"),
    ReportsTheWrongBlocks: ("an event for each call", "event 0: expected"),
    CountsToFour: ("random calls", "the refcounts: expected"),
}
