"""Paging: the memory is a pool of blocks of one size, and an owner gets as many as it needs, from anywhere.

One block is one piece. All are full but an owner's last one, so at most block_bytes − 1 are lost per owner, and no
request is ever refused because free memory lies in the wrong places. The price is a table per owner that says which
block comes first, second, third, and a kernel that reads through it.

Which blocks are free is kept by the course's own `BlockPool`.
"""

from collections.abc import Hashable

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import FILL, GIVE, TAKE, Layout, Piece, Segment, as_text
from pagedkv.core.pool import BlockPool
from pagedkv.rivals.base import Setting, as_size
from pagedkv.rivals.handles import Handle, RivalWithHandles

_MIB = 1 << 20


class Pages(Handle):
    """blocks is the owner's table: its logical block i is the pool's blocks[i]."""

    __slots__ = ("blocks",)

    def __init__(self, owner: Hashable, requested_bytes: int, blocks: list[int]):
        super().__init__(owner, requested_bytes)
        self.blocks = blocks


class PagedAllocator(RivalWithHandles):
    """Block b is the memory at b · block_bytes. Of a capacity that is not a multiple of the block size the rest is not
    reserved: it belongs to no block. Raises ValueError if not even one block fits."""

    SETTINGS = (Setting("block_bytes", "block", 2 * _MIB, choices=tuple(_MIB << k for k in range(7)), unit="B"),)
    source = "paged"
    in_pieces = True

    def __init__(self, capacity_bytes: int, block_bytes: int = 2 * _MIB):
        super().__init__(capacity_bytes)
        self.block_bytes = as_size(block_bytes)
        self.pool = BlockPool(self.capacity_bytes // self.block_bytes)
        if not self.pool.num_blocks:
            raise ValueError(f"{as_text(self.capacity_bytes)} hold no block of {as_text(self.block_bytes)}")

    def layout(self) -> Layout:
        size = self.block_bytes
        pieces = [Piece(block * size, size, pages.owner, self._filled(pages.requested_bytes, index))
                  for pages in self._live for index, block in enumerate(pages.blocks)]
        return Layout((Segment(0, self.pool.num_blocks * self.block_bytes, "pool"),), tuple(sorted(pieces)))

    def set_aside_bytes(self, handle: Pages) -> int:
        return len(handle.blocks) * self.block_bytes

    def _place(self, owner: Hashable, size_bytes: int) -> Pages:
        pages = Pages(owner, size_bytes, self._take(size_bytes, 0))
        self._live[pages] = None
        return pages

    def _regrow(self, pages: Pages, size_bytes: int) -> Pages:
        before, old_bytes = len(pages.blocks), pages.requested_bytes
        more = self._blocks_for(size_bytes) - before
        if more > 0:
            self._check(more, size_bytes)
        if self._report is not None and size_bytes > old_bytes and old_bytes % self.block_bytes:
            last = pages.blocks[-1]
            self._changed(FILL, last * self.block_bytes, self.block_bytes, self._filled(size_bytes, before - 1))
            self._note(f"its last block has room for {as_text(self.block_bytes - old_bytes % self.block_bytes)} more")
        pages.blocks += self._take(size_bytes, before)
        pages.requested_bytes = size_bytes
        return pages

    def _release(self, pages: Pages) -> None:
        del self._live[pages]
        if self._report is not None:
            for index, block in enumerate(pages.blocks):
                filled = self._filled(pages.requested_bytes, index)
                self._changed(GIVE, block * self.block_bytes, self.block_bytes, filled)
        # from the last to the first, so that they are handed out in the same order as before
        self.pool.release(pages.blocks[::-1])
        self.used_bytes -= len(pages.blocks) * self.block_bytes

    def _take(self, size_bytes: int, before: int) -> list[int]:
        """The blocks that an owner who has `before` of them lacks."""
        needed = self._blocks_for(size_bytes)
        self._rounded(needed * self.block_bytes)
        self._check(needed - before, size_bytes)
        blocks = self.pool.allocate(needed - before)
        self.used_bytes += len(blocks) * self.block_bytes
        if self._report is not None:
            for index, block in enumerate(blocks, start=before):
                address, filled = block * self.block_bytes, self._filled(size_bytes, index)
                self._look(f"block {block}", address, self.block_bytes, "chosen")
                self._changed(TAKE, address, self.block_bytes, filled)
        return blocks

    def _check(self, more: int, size_bytes: int) -> None:
        if more > self.pool.num_free_blocks:
            raise OutOfMemory(f"{as_text(size_bytes)} wanted: {more} more blocks of {as_text(self.block_bytes)}, "
                              f"{self.pool.num_free_blocks} of {self.pool.num_blocks} free")

    def _blocks_for(self, size_bytes: int) -> int:
        return -(-size_bytes // self.block_bytes)

    def _filled(self, requested_bytes: int, index: int) -> int:
        """How much of the owner's block of this index is filled when it has asked for so much in total."""
        return min(self.block_bytes, requested_bytes - index * self.block_bytes)
