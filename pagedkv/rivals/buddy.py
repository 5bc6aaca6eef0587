"""Netty's buddy chunk, as it was up to 4.1.51 (PoolChunk of Netty 4.1.48; its Java twin is in `pagedkv.netty.tiers`).

A *chunk* is 2^max_order *pages*. A complete binary tree stands over it: node 1 is the chunk, the nodes 2i and 2i + 1
are the halves of node i, the leaves are the pages. An allocation is one node: a page times a power of two.

    memory_map[i]  the smallest depth below (and including) node i at which a free node can be found: its own depth if
                   all of it is free, more if only parts are, max_order + 1 if nothing is. The nodes below one that is
                   taken keep what they said before: nobody gets there

                        1                node 1: depth 0, the whole chunk
                    2       3            with node 4 taken:  memory_map[4] = max_order + 1
                  4   5   6   7                              memory_map[2] = 2, only its right half is free
                                                             memory_map[1] = 1, node 3 is the largest that is free

A node of depth d is searched from the top: a left child that can serve depth d is entered, else the right one. Taking a
node and giving it back change one path to the root, so both cost max_order steps, whatever the chunk's size.
"""

from collections.abc import Hashable
from typing import Any

from pagedkv.core.arguments import as_count
from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import FILL, GIVE, LEADS_ON, RESERVE, TAKE, Layout, Piece, Segment, as_text
from pagedkv.rivals.base import Setting, as_size
from pagedkv.rivals.handles import Handle, RivalWithHandles


class BuddyChunk:
    """The tree over one chunk.

    memory_map  as above, one entry per node; entry 0 is not used
    """

    def __init__(self, address: int, page_bytes: int, max_order: int):
        self.address = address
        self.size_bytes = page_bytes << max_order
        self.max_order = max_order
        self.memory_map = [0] + [node.bit_length() - 1 for node in range(1, 2 << max_order)]

    @property
    def unusable(self) -> int:
        """The entry of a node below which nothing is free."""
        return self.max_order + 1

    def bytes_at(self, depth: int) -> int:
        """The size of a node of this depth."""
        return self.size_bytes >> depth

    def address_of(self, node: int) -> int:
        depth = node.bit_length() - 1
        return self.address + (node - (1 << depth)) * self.bytes_at(depth)

    def find(self, depth: int, look: Any = None) -> int | None:
        """The free node of this depth that an allocation gets, or None. `look(node, verdict)` is told of every node on
        the way."""
        memory_map, node = self.memory_map, 1
        if memory_map[1] > depth:
            if look is not None:
                look(1, f"no free node of {as_text(self.bytes_at(depth))} below it")
            return None
        while node.bit_length() - 1 < depth:
            if look is not None:
                look(node, f"{LEADS_ON}go on below it")
            node *= 2
            if memory_map[node] > depth:
                if look is not None:
                    look(node, f"no free node of {as_text(self.bytes_at(depth))} below it")
                node += 1
        if look is not None:
            look(node, "chosen")
        return node

    def take(self, node: int) -> None:
        self.memory_map[node] = self.unusable
        while node > 1:
            node //= 2
            self.memory_map[node] = min(self.memory_map[2 * node], self.memory_map[2 * node + 1])

    def give(self, node: int) -> None:
        depth = node.bit_length() - 1
        self.memory_map[node] = depth
        while node > 1:
            node, depth = node // 2, depth - 1
            left, right = self.memory_map[2 * node], self.memory_map[2 * node + 1]
            # two buddies that are wholly free are their parent again
            self.memory_map[node] = depth if left == right == depth + 1 else min(left, right)


class Run(Handle):
    """One node of one chunk."""

    __slots__ = ("chunk", "node", "size_bytes")

    def __init__(self, owner: Hashable, requested_bytes: int, chunk: BuddyChunk, node: int):
        super().__init__(owner, requested_bytes)
        self.chunk, self.node = chunk, node
        self.size_bytes = chunk.bytes_at(node.bit_length() - 1)

    @property
    def address(self) -> int:
        return self.chunk.address_of(self.node)


class BuddyChunkAllocator(RivalWithHandles):
    """Chunks of page_bytes · 2^max_order, chunk i at i times that size. One is taken from the device when no other has
    room, and never given back. They are searched from the first; Netty keeps them in lists by usage and looks into half
    full ones first, which changes the order and nothing else.

    A request for more than a chunk is refused (Netty serves it outside its pool), and one for less than a page gets a
    page (Netty divides pages further). Raises ValueError if page_bytes is no power of two or max_order over 14.
    """

    SETTINGS = (Setting("page_bytes", "page", 8192, choices=tuple(4096 << k for k in range(11)), unit="B"),
                Setting("max_order", "chunk = page × 2 to the", 11, span=(0, 14, 1)))
    source = "buddy chunks"

    def __init__(self, capacity_bytes: int, page_bytes: int = 8192, max_order: int = 11):
        super().__init__(capacity_bytes)
        self.page_bytes = as_size(page_bytes)
        if self.page_bytes & (self.page_bytes - 1):
            raise ValueError(f"page_bytes is a power of two, got {page_bytes}")
        self.max_order = as_count(max_order, "max_order")
        if self.max_order > 14:
            raise ValueError(f"max_order is at most 14, got {max_order}")
        self.chunk_bytes = self.page_bytes << self.max_order
        self.chunks: list[BuddyChunk] = []

    def layout(self) -> Layout:
        runs = sorted(self._live, key=lambda run: run.address)
        return Layout(tuple(Segment(chunk.address, chunk.size_bytes, "chunk") for chunk in self.chunks),
                      tuple(Piece(run.address, run.size_bytes, run.owner, run.requested_bytes) for run in runs))

    def set_aside_bytes(self, handle: Run) -> int:
        return handle.size_bytes

    def rounded_bytes(self, size_bytes: int) -> int:
        """A page times the smallest power of two that is enough."""
        pages = -(-size_bytes // self.page_bytes)
        return self.page_bytes << (pages - 1).bit_length()

    def _place(self, owner: Hashable, size_bytes: int) -> Run:
        run_bytes = self.rounded_bytes(size_bytes)
        self._rounded(run_bytes)
        if run_bytes > self.chunk_bytes:
            raise OutOfMemory(f"{as_text(size_bytes)} wanted, and a chunk has {as_text(self.chunk_bytes)}: a larger "
                              "max_order makes larger chunks")
        depth = (self.chunk_bytes // run_bytes).bit_length() - 1
        for chunk in self.chunks:
            node = chunk.find(depth, self._looker(chunk))
            if node is not None:
                return self._occupy(owner, size_bytes, chunk, node)
        chunk = self._new_chunk(run_bytes)
        return self._occupy(owner, size_bytes, chunk, chunk.find(depth, self._looker(chunk)))

    def _release(self, run: Run) -> None:
        del self._live[run]
        run.chunk.give(run.node)
        self.used_bytes -= run.size_bytes
        self._changed(GIVE, run.address, run.size_bytes, run.requested_bytes)

    def _regrow(self, run: Run, size_bytes: int) -> Run:
        if size_bytes > run.size_bytes:
            self._note("its node is full: it moves to a larger one")
            return super()._regrow(run, size_bytes)
        run.requested_bytes = size_bytes
        self._rounded(run.size_bytes)
        self._note(f"it fits into the {as_text(run.size_bytes)} of its node")
        self._changed(FILL, run.address, run.size_bytes, size_bytes)
        return run

    def _new_chunk(self, run_bytes: int) -> BuddyChunk:
        address = len(self.chunks) * self.chunk_bytes
        left = self.capacity_bytes - address
        if left < self.chunk_bytes:
            free = address - self.used_bytes
            raise OutOfMemory(f"{as_text(run_bytes)} wanted; {as_text(free)} free in {len(self.chunks)} chunks, in no "
                              f"node of this size, and {as_text(left)} are left of the device: too little for a chunk")
        chunk = BuddyChunk(address, self.page_bytes, self.max_order)
        self.chunks.append(chunk)
        self._note("no chunk has room: a new one is made")
        self._device_call("malloc")
        self._changed(RESERVE, address, self.chunk_bytes, label="chunk")
        return chunk

    def _occupy(self, owner: Hashable, size_bytes: int, chunk: BuddyChunk, node: int) -> Run:
        chunk.take(node)
        run = Run(owner, size_bytes, chunk, node)
        self._live[run] = None
        self.used_bytes += run.size_bytes
        self._changed(TAKE, run.address, run.size_bytes, size_bytes)
        return run

    def _looker(self, chunk: BuddyChunk) -> Any:
        """What writes down the nodes that a search looks at; None while nobody wants to know."""
        if self._report is None or not self.explain:
            return None
        return lambda node, verdict: self._look(f"node {node}", chunk.address_of(node),
                                                chunk.bytes_at(node.bit_length() - 1), verdict)
