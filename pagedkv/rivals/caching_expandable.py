"""Expandable segments: one range of addresses for each pool and stream, backed with memory page by page.

    used ⇄ free ⇄ unmapped ⇄ used ⇄ unmapped, to the end of the range

The range has 1⅛ times as many addresses as the device has memory. Pages are 2 MiB in the small pool and as large as a
large segment, 20 MiB, in the large one. A miss maps pages behind the lowest free or unmapped memory that has enough
addresses; giving back unmaps the pages that are wholly free. Unmapped memory is a block of the chain like any other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pagedkv.core.memory import as_text
from pagedkv.core.memory_replay import EXPANDABLE
from pagedkv.rivals.caching_blocks import FREE, UNMAPPED, Block, CachedSegment, Pool
from pagedkv.rivals.caching_rules import SMALL_SEGMENT_BYTES

if TYPE_CHECKING:
    from pagedkv.rivals.caching_segments import SegmentCache


def page_size(cache: SegmentCache, pool: Pool) -> int:
    return SMALL_SEGMENT_BYTES if pool.small else cache.settings.large_segment_bytes


def size_with_room(block: Block) -> int:
    """What a free block could grow to: its size and the unmapped addresses behind it."""
    return block.size_bytes + (block.next.size_bytes if block.next.state == UNMAPPED else 0)


def map_pages(cache: SegmentCache, pool: Pool, size_bytes: int) -> Block | None:
    """A free block of at least this size, out of its pool, or None if the device has too little left. Pages that were
    mapped by then stay mapped."""
    block = _find_room(pool, size_bytes) or _new_range(cache, pool)
    if block.state == UNMAPPED:
        block = _map(cache, block, min(block.size_bytes, size_bytes))
    while block is not None and block.size_bytes < size_bytes:
        # Behind a free block that is too small there is unmapped memory; what gets mapped merges with it.
        unmapped = block.next
        block = _map(cache, unmapped, min(unmapped.size_bytes, size_bytes - block.size_bytes))
    if block is not None:
        pool.remove(block)
    return block


def unmap_pages(cache: SegmentCache, block: Block) -> None:
    """Give back the pages that lie wholly in this free block; the rests before and behind stay free blocks."""
    pool, page = block.pool, page_size(cache, block.pool)
    segment = _range_of(cache, block)
    offset = block.address - segment.address
    start = segment.address + (offset + page - 1) // page * page
    end = segment.address + (offset + block.size_bytes) // page * page
    if start >= end:
        return
    pool.remove(block)
    if block.address < start:
        pool.add(Block(block.address, start - block.address, FREE, block.prev, block, pool))
    if end < block.address + block.size_bytes:
        pool.add(Block(end, block.address + block.size_bytes - end, FREE, block, block.next, pool))
    block.address, block.size_bytes, block.state = start, end - start, UNMAPPED
    cache.device.unmap(end - start)
    cache._unreserved(start, end - start, EXPANDABLE, "unmap")
    for neighbour in (block.prev, block.next):
        if neighbour.state == UNMAPPED:
            del pool.unmapped[neighbour.address]
            _absorb(block, neighbour)
    if block.size_bytes == segment.size_bytes:
        cache.device.release_addresses(segment.address, segment.size_bytes)
        cache._segments.pop(segment.address).take_apart()
    else:
        pool.unmapped[block.address] = block


def _find_room(pool: Pool, size_bytes: int) -> Block | None:
    """The lowest unmapped block that has enough addresses together with what is free or unmapped around it. If the
    block before it is free, that one is where to begin."""
    for address in sorted(pool.unmapped):
        first = pool.unmapped[address]
        if first.prev.state == FREE:
            first = first.prev
        block, found = first, 0
        while found < size_bytes and block.state in (FREE, UNMAPPED):
            found += block.size_bytes
            block = block.next
        if found >= size_bytes:
            return first
    return None


def _new_range(cache: SegmentCache, pool: Pool) -> Block:
    page = page_size(cache, pool)
    wanted = cache.capacity_bytes + cache.capacity_bytes // 8
    size_bytes = (wanted + page - 1) // page * page
    address = cache.device.reserve_addresses(size_bytes)
    segment = cache._segments[address] = CachedSegment(address, size_bytes, pool)
    block = pool.unmapped[address] = Block(address, size_bytes, UNMAPPED, segment.first, segment.last, pool)
    cache._note(f"a new expandable segment for the {pool.label} pool: addresses for {as_text(size_bytes)}, "
                "no memory yet")
    return block


def _map(cache: SegmentCache, block: Block, size_bytes: int) -> Block | None:
    """Map the first pages of an unmapped block, at least this much. The free block that they are in now."""
    pool, page = block.pool, page_size(cache, block.pool)
    size_bytes = (size_bytes + page - 1) // page * page
    if not cache.device.map(size_bytes):
        cache._note(f"mapping {as_text(size_bytes)} refused: the device has {as_text(cache.device.free_bytes)} left")
        return None
    cache._note(f"map {size_bytes // page} pages of {as_text(page)}")
    del pool.unmapped[block.address]
    if size_bytes < block.size_bytes:
        address = block.address + size_bytes
        pool.unmapped[address] = Block(address, block.size_bytes - size_bytes, UNMAPPED, block, block.next, pool)
        block.size_bytes = size_bytes
    block.state = FREE
    cache._reserved(block.address, size_bytes, EXPANDABLE, "map")
    for neighbour in (block.prev, block.next):
        if neighbour.state == FREE:
            pool.remove(neighbour)
            _absorb(block, neighbour)
    pool.add(block)
    return block


def _absorb(block: Block, neighbour: Block) -> None:
    """Make two adjacent blocks of one kind one."""
    if neighbour is block.prev:
        block.address = neighbour.address
        block.prev = neighbour.prev
        block.prev.next = block
    else:
        block.next = neighbour.next
        block.next.prev = block
    block.size_bytes += neighbour.size_bytes
    neighbour.prev = neighbour.next = None


def _range_of(cache: SegmentCache, block: Block) -> CachedSegment:
    """The expandable segment of a block. There are few, so a look at each is quick."""
    for segment in cache._segments.values():
        if segment.address <= block.address < segment.address + segment.size_bytes:
            return segment
    raise AssertionError(f"no segment at {block.address:#x}")
