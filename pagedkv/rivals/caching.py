"""PyTorch's CUDA caching allocator, as a simulator: what `torch.empty(…, device="cuda")` and its end do to memory.

    allocate  round the size; take the smallest free block of the same pool and stream that fits (*best fit*), and split
              it if enough would be left; without one, take a new segment from the device (see caching_segments)
    free      the block is free, and one with its free neighbours; the device gets nothing back

The rules in small are in caching_rules, the blocks in caching_blocks. Nothing here is a GPU: time, CUDA graphs, private
pools and garbage collection callbacks are left out.

Two streams may use one block: `record_stream` says so. Its free is then only *held* until the other stream is through
with it. A GPU finds out by itself; here a stream is busy until `synchronize()`, or until the allocator itself waits for
all streams because memory has run out.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Hashable, Mapping
from typing import ClassVar

from pagedkv.core.arguments import as_count
from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import GIVE, HOLD, TAKE, as_text
from pagedkv.rivals.base import Setting, as_size
from pagedkv.rivals.caching_blocks import FREE, HELD, USED, Block, Pool, live
from pagedkv.rivals.caching_device import ADDRESS_BITS
from pagedkv.rivals.caching_expandable import size_with_room
from pagedkv.rivals.caching_rules import (BLOCK_BYTES, NO_LIMIT_BYTES, SMALL_LIMIT_BYTES, CachingSettings, oom_message,
                                          round_size, segment_size)
from pagedkv.rivals.caching_segments import SegmentCache

_NEAREST_SMALLER = 5  # of the blocks that are too small, so many are told of a search


class CachingAllocator(SegmentCache):
    """The keywords after capacity_bytes are those of `CachingSettings`; the counters are described at `SegmentCache`.

    oom_message  what the last refusal said, or None
    """

    source = "PyTorch caching allocator (simulated)"
    SETTINGS: ClassVar[tuple[Setting, ...]] = (
        Setting("max_split_size_mb", "max_split_size_mb", None, choices=(None, 20, 32, 64, 128, 256, 512), unit="MiB"),
        Setting("roundup_power2_divisions", "roundup_power2_divisions", 0, choices=(0, 2, 4, 8, 16)),
        Setting("expandable_segments", "expandable_segments", False, choices=(False, True)),
        Setting("garbage_collection_threshold", "garbage_collection_threshold", 0.0, choices=(0.0, 0.5, 0.6, 0.8, 0.9)),
        Setting("memory_fraction", "memory fraction", None, choices=(None, 0.5, 0.8, 0.9, 1.0)),
        Setting("large_segment_mb", "large_segment_size_mb", 20, choices=(12, 16, 20, 32, 64), unit="MiB"))

    def __init__(self, capacity_bytes: int, *, max_split_size_mb: int | None = None,
                 roundup_power2_divisions: int | str | Mapping = 0, expandable_segments: bool = False,
                 garbage_collection_threshold: float = 0.0, memory_fraction: float | None = None,
                 large_segment_mb: int = 20):
        settings = CachingSettings(max_split_size_mb, roundup_power2_divisions, expandable_segments,
                                   garbage_collection_threshold, memory_fraction, large_segment_mb)
        super().__init__(capacity_bytes, settings)
        self.oom_message: str | None = None
        self._divisions = settings.divisions
        # While no setting interferes, the best fit is simply the next key.
        self._search_has_rules = (max_split_size_mb is not None or expandable_segments
                                  or self._collect_above is not None)
        self._split_below_bytes = NO_LIMIT_BYTES if expandable_segments else self._max_split_bytes

    # Without an observer these two do without the base class, which goes through a closure for every call.

    def allocate(self, owner: Hashable, size_bytes: int, stream: int = 0) -> Block:
        """Raises OutOfMemory. Segments and pages that were wholly free have then been given back to the device, held
        blocks are free, and of expandable segments pages may have been mapped that were not enough."""
        if type(size_bytes) is not int or size_bytes < 1:
            size_bytes = as_size(size_bytes)
        if self.observer is None:
            return self._place(owner, size_bytes, stream)
        return self._observed("allocate", owner, size_bytes, lambda: self._place(owner, size_bytes, stream))

    def free(self, handle: Block) -> None:
        if self.observer is not None:
            return super().free(handle)
        if type(handle) is not Block or handle.state != USED or handle.pool.allocator is not self:
            live(handle, self)
        if handle.streams is not None:
            return self._release(handle)
        self.allocated_bytes -= handle.size_bytes
        self.requested_bytes -= handle.requested_bytes
        self._merge(handle)

    def record_stream(self, handle: Block, stream: int) -> None:
        """Another stream uses the block too: after its free it is held until that stream is through.
        Raises DoubleFree."""
        block, stream = live(handle, self), as_count(stream, "a stream")
        if stream != block.pool.stream:
            block.streams = (block.streams or frozenset()) | {stream}

    def synchronize(self) -> None:
        """All streams are through with their work: what is held becomes free."""
        self._carry_out("synchronize", self._finish_held)

    def empty_cache(self) -> None:
        """torch.cuda.empty_cache(): wait for all streams, give back all that is wholly free."""
        self._carry_out("empty_cache", self._release_cached)

    def _carry_out(self, op: str, call: Callable[[], None]) -> None:
        if self.observer is None:
            return call()
        return self._observed(op, None, 0, call)

    # allocate

    def _place(self, owner: Hashable, size_bytes: int, stream: int = 0) -> Block:
        rounded = ((size_bytes + BLOCK_BYTES - 1) & -BLOCK_BYTES if self._divisions is None
                   else round_size(size_bytes, self._divisions))
        pool = (self._pools.get(stream) or self._open_stream(stream))[rounded > SMALL_LIMIT_BYTES]
        keys = pool.keys
        at = bisect_left(keys, rounded << ADDRESS_BITS)
        if self._report is not None or self._search_has_rules:
            at = self._search(pool, size_bytes, rounded, at)
        if at < len(keys):
            block = pool.blocks.pop(keys[at])
        else:
            block = self._miss(pool, rounded)
            if block is None:
                raise self._refusal(rounded)
            at = -1

        address, rest = block.address, block.size_bytes - rounded
        if rest >= pool.least_rest_bytes and (rounded < self._split_below_bytes or pool.small):
            new = Block(address, rounded, USED, block.prev, block, pool, owner, size_bytes)
            block.address = address + rounded
            block.size_bytes = rest
            block.born = pool.searches
            block.key = key = rest << ADDRESS_BITS | address + rounded
            pool.blocks[key] = block
            if at < 0:
                insort(keys, key)
            elif at == 0 or keys[at - 1] < key:
                keys[at] = key  # the rest keeps its place in the order, as it mostly does
            else:
                del keys[at]
                insort(keys, key)
        else:
            if at >= 0:
                del keys[at]
            rounded += rest
            new = Block(address, rounded, USED, block.prev, block.next, pool, owner, size_bytes)
        self.allocated_bytes += rounded
        self.requested_bytes += size_bytes
        if self._report is not None:
            self._tell_split(rest, rounded, pool)
            self._changed(TAKE, address, rounded, size_bytes)
        return new

    def _search(self, pool: Pool, size_bytes: int, rounded: int, at: int) -> int:
        """The best fit under all rules: an index into pool.keys, or their number if none may be taken."""
        telling = self._report is not None and self.explain
        if telling:
            self._tell_request(pool, size_bytes, rounded, at)
        if self._collect_above is not None:
            pool.searches += 1
        keys, blocks = pool.keys, pool.blocks
        if at == len(keys):
            return at
        block = blocks[keys[at]]
        if self._expandable:
            # A free block counts with the unmapped addresses behind it, so the segment's growing end is taken last.
            while at + 1 < len(keys) and size_with_room(blocks[keys[at + 1]]) < size_with_room(block):
                if telling:
                    self._look_at(block, f"can grow to {as_text(size_with_room(block))}; the next can grow to less")
                at += 1
                block = blocks[keys[at]]
        verdict = None
        if rounded < self._max_split_bytes <= block.size_bytes:
            verdict = (f"max_split_size_mb: a block of {as_text(block.size_bytes)} is kept for requests of at least "
                       f"{as_text(self._max_split_bytes)}")
        elif rounded >= self._max_split_bytes and block.size_bytes >= rounded + self._large_segment_bytes:
            verdict = (f"max_split_size_mb: it would not be split, and {as_text(block.size_bytes - rounded)} more than "
                       "needed is too much")
        if telling:
            self._look_at(block, verdict or "chosen")
        return at if verdict is None else len(keys)

    def _refusal(self, rounded: int) -> OutOfMemory:
        self.num_ooms += 1
        self.oom_message = oom_message(tried_bytes=segment_size(rounded, self._large_segment_bytes),
                                       capacity_bytes=self.capacity_bytes, device_free_bytes=self.device.free_bytes,
                                       allowed_bytes=self._allowed_bytes, allocated_bytes=self.allocated_bytes,
                                       reserved_bytes=self.reserved_bytes)
        return OutOfMemory(self.oom_message)

    # free

    def _release(self, handle: Block) -> None:
        self.allocated_bytes -= handle.size_bytes
        if handle.streams is not None:
            handle.state = HELD
            self.held_bytes += handle.size_bytes
            self._held.append(handle)
            self._changed(HOLD, handle.address, handle.size_bytes)
            return
        self.requested_bytes -= handle.requested_bytes
        if self._report is not None:
            self._changed(GIVE, handle.address, handle.size_bytes)
        self._merge(handle)

    def _merge(self, block: Block) -> None:
        pool, address, size = block.pool, block.address, block.size_bytes
        keys, blocks = pool.keys, pool.blocks
        neighbour = block.prev
        if neighbour.state == FREE:
            key = neighbour.key
            del keys[bisect_left(keys, key)]
            del blocks[key]
            address = neighbour.address
            size += neighbour.size_bytes
            block.prev = neighbour.prev
            block.prev.next = block
        neighbour = block.next
        if neighbour.state == FREE:
            key = neighbour.key
            del keys[bisect_left(keys, key)]
            del blocks[key]
            size += neighbour.size_bytes
            block.next = neighbour.next
            block.next.prev = block
        block.state, block.address, block.size_bytes, block.born = FREE, address, size, pool.searches
        block.key = key = size << ADDRESS_BITS | address
        insort(keys, key)
        blocks[key] = block

    def _about(self, handle: Block) -> tuple[Hashable, int]:
        block = live(handle, self)
        return block.owner, block.requested_bytes

    def _regrow(self, handle: Block, size_bytes: int) -> Block:
        """As torch.cat does it: a new block on the same stream, a copy, and the old block is free."""
        new = self._place(handle.owner, size_bytes, handle.pool.stream)
        if self._report is not None:
            self._report.moved_bytes += handle.requested_bytes
        self._release(handle)
        return new

    # for the events

    def _look_at(self, block: Block, verdict: str) -> None:
        self._look("free block", block.address, block.size_bytes, verdict)

    def _tell_request(self, pool: Pool, size_bytes: int, rounded: int, at: int) -> None:
        self._rounded(rounded)
        if rounded != size_bytes:
            rule = "a multiple of 512 B" if self._divisions is None else "a step of roundup_power2_divisions"
            self._note(f"rounded up by {as_text(rounded - size_bytes)}, to {rule}")
        self._note(f"{pool.label} pool, stream {pool.stream}: {len(pool.keys)} free, {at} of them too small")
        for key in pool.keys[max(0, at - _NEAREST_SMALLER):at]:
            block, wanted = pool.blocks[key], as_text(rounded)
            missing = f" by {as_text(rounded - block.size_bytes)}" if as_text(block.size_bytes) == wanted else ""
            self._look_at(block, f"smaller than {wanted}{missing}")
        if at == len(pool.keys):
            elsewhere = sum(block.size_bytes for block in self._free_blocks() if block.pool is not pool)
            if elsewhere:
                self._note(f"not looked at: {as_text(elsewhere)} free in other pools or for other streams")

    def _tell_split(self, rest: int, taken_bytes: int, pool: Pool) -> None:
        """rest: what was more than needed; taken_bytes: the block that was handed out."""
        if not rest:
            return
        if rest < pool.least_rest_bytes:
            self._note(f"not split: the rest, {as_text(rest)}, is at most {as_text(SMALL_LIMIT_BYTES)} and goes along")
        elif taken_bytes < self._split_below_bytes:
            self._note(f"split: {as_text(rest)} stay free behind it")
        else:
            self._note(f"not split: blocks from {as_text(self._max_split_bytes)} on are whole (max_split_size_mb); "
                       f"{as_text(rest)} go along")
