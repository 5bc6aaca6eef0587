"""Guard mode: who wrote beyond a block?

With `SharedPool.create(…, guard=True)`, each block has 64 bytes in front of it and at least as many behind it that
nobody has a reason to write to. In front stand a magic number, the block's id, and whom it was handed out to; the rest
are *canaries*, bytes of a known pattern. They are looked at when a block is released, and for all blocks by `verify()`.
A write that ran over the end of a block, or began before it, is then found with the block, its owner and the first byte
that is not as it was. A write far outside, past the canaries, is not.

Off by default: it costs some microseconds for each block that is allocated or released, and 128 bytes of memory.
Whether a pool has guards is settled when it is created, since all its members have to agree on where blocks begin.
"""

from collections.abc import Iterable
from typing import NamedTuple

from pagedkv.shared.layout import BLOCK_MAGIC, CANARY, GUARD_BYTES, GUARD_HEAD, NO_OWNER, Layout


class Overrun(NamedTuple):
    """Bytes around a block that somebody has overwritten.

    block          the block beside which it happened
    first_byte     the first overwritten byte, counted from the block's first: negative in front of the block, from
                   block_bytes on behind it
    num_bytes      from the first to the last overwritten one, at this side of the block
    found          up to 16 of these bytes
    owner          the slot that the block was last handed out to, or None
    generation     which handing-out of the block that was
    behind         whether it is behind the block
    """

    block: int
    first_byte: int
    num_bytes: int
    found: bytes
    owner: int | None
    generation: int
    behind: bool

    def __str__(self) -> str:
        owner = "nobody yet" if self.owner is None else f"slot {self.owner}"
        where = "behind its end" if self.behind else "in front of it"
        return (f"block {self.block}, last handed out to {owner} (generation {self.generation}): byte "
                f"{self.first_byte} of it, {where}, is the first that was overwritten, {self.num_bytes} bytes up to the last; found "
                f"{self.found!r}")


class Guards:
    """The guards of a mapped pool that has them; `view` is all of it, as bytes."""

    def __init__(self, view: memoryview, layout: Layout):
        self._view, self._layout = view, layout
        self._front = bytes(CANARY ^ i for i in range(GUARD_HEAD.size, GUARD_BYTES))
        tail_bytes = layout.stride_bytes - GUARD_BYTES - layout.block_bytes
        self._tail = bytes(CANARY ^ i & 0xFF for i in range(tail_bytes))

    def write(self, blocks: Iterable[int], owner: int = NO_OWNER, generation: int = 0) -> None:
        """Put the guards of these blocks there, whatever is there now."""
        for block in blocks:
            at = self._layout.stride_at(block)
            self._view[at:at + GUARD_BYTES] = GUARD_HEAD.pack(BLOCK_MAGIC, block, owner, generation) + self._front
            end = at + self._layout.stride_bytes
            self._view[end - len(self._tail):end] = self._tail

    def hand_out(self, block: int, owner: int, generation: int) -> None:
        """Note whom the block was handed out to."""
        at = self._layout.stride_at(block)
        self._view[at + 16:at + GUARD_HEAD.size] = GUARD_HEAD.pack(0, 0, owner, generation)[16:]

    def overruns(self, blocks: Iterable[int]) -> tuple[Overrun, ...]:
        """What is not as it should be around these blocks, in front of each or behind it."""
        found = []
        view, stride, tail = self._view, self._layout.stride_bytes, self._tail
        for block in blocks:
            at = self._layout.stride_at(block)
            front = bytes(view[at:at + GUARD_BYTES])
            magic, number, owner, generation = GUARD_HEAD.unpack_from(front)
            # owner and generation change, and there is nothing to compare them with
            expected = GUARD_HEAD.pack(BLOCK_MAGIC, block, owner, generation) + self._front
            behind = bytes(view[at + stride - len(tail):at + stride])
            for got, wanted, begins in ((front, expected, -GUARD_BYTES), (behind, tail, self._layout.block_bytes)):
                if got != wanted:
                    wrong = [i for i, (is_there, was) in enumerate(zip(got, wanted)) if is_there != was]
                    first, last = wrong[0], wrong[-1]
                    found.append(Overrun(block, begins + first, last - first + 1, got[first:last + 1][:16],
                                         None if owner == NO_OWNER else owner, generation, begins >= 0))
        return tuple(found)
