"""The segments of the caching allocator: taking memory from the device, and giving it back.

When no cached block fits (a *miss*), PyTorch tries in this order:

    1. garbage collection      only with a memory fraction and a threshold: old, unsplit large blocks go back
    2. cudaMalloc
    3. oversize blocks go back only with max_split_size: one that is large enough, or the largest ones; cudaMalloc again
    4. all that is wholly free goes back, after waiting for the blocks that other streams use; cudaMalloc again
    5. out of memory

PyTorch also asks callbacks before 1, which nobody registers here, and skips 4 while it captures a CUDA graph.
With expandable segments step 2 maps pages (see caching_expandable) and step 3 does nothing.
"""

from abc import abstractmethod
from collections.abc import Iterator

from pagedkv.core.arguments import as_count
from pagedkv.core.memory import GIVE, RESERVE, UNRESERVE, Layout, Piece, Segment, as_text
from pagedkv.core.memory_replay import EXPANDABLE
from pagedkv.rivals.base import Rival
from pagedkv.rivals.caching_blocks import FREE, HELD, UNMAPPED, USED, Block, CachedSegment, Pool
from pagedkv.rivals.caching_device import END_ADDRESS, FIRST_ADDRESS, SimulatedDevice
from pagedkv.rivals.caching_expandable import map_pages, unmap_pages
from pagedkv.rivals.caching_rules import CachingSettings, least_rest, segment_size


class SegmentCache(Rival):
    """Segments, their blocks, and the counters. What is left for `CachingAllocator`: to search, split and merge.

    reserved_bytes      the segments                                        torch: reserved_bytes.all.current
    allocated_bytes     the blocks that an owner has                        allocated_bytes
    held_bytes          freed by their owners, in use on another stream     active_bytes − allocated_bytes
    requested_bytes     what was asked for of both                          requested_bytes
    num_device_mallocs  cudaMalloc, or the mapping of pages                 num_device_alloc
    num_device_frees    cudaFree, or the unmapping of pages                 num_device_free
    num_retries         cudaMalloc after everything was given back          num_alloc_retries
    num_ooms            refusals                                            num_ooms
    num_syncs           waits for all streams                               num_sync_all_streams
    """

    def __init__(self, capacity_bytes: int, settings: CachingSettings):
        super().__init__(capacity_bytes)
        self.settings = settings
        self.device = SimulatedDevice(self.capacity_bytes)
        self.reserved_bytes = self.allocated_bytes = self.held_bytes = self.requested_bytes = 0
        self.num_device_mallocs = self.num_device_frees = self.num_retries = self.num_ooms = self.num_syncs = 0
        self._expandable = settings.expandable_segments
        self._max_split_bytes = settings.max_split_bytes
        self._large_segment_bytes = settings.large_segment_bytes
        fraction, threshold = settings.memory_fraction, settings.garbage_collection_threshold
        self._allowed_bytes = None if fraction is None else int(fraction * self.capacity_bytes)
        self._collect_above = int(threshold * self._allowed_bytes) if fraction is not None and threshold else None
        self._segments: dict[int, CachedSegment] = {}
        self._pools: dict[int, tuple[Pool, Pool]] = {}
        self._held: list[Block] = []
        self._open_stream(0)

    # what there is

    @property
    def active_bytes(self) -> int:
        """In use, or held because another stream still uses it."""
        return self.allocated_bytes + self.held_bytes

    @property
    def inactive_split_bytes(self) -> int:
        """The free blocks that share their segment with others. Expandable segments do not count, and neither do
        segments that are wholly free, nor what is lost inside the blocks: this is less than reserved − allocated."""
        return 0 if self._expandable else sum(block.size_bytes for block in self._free_blocks() if block.is_split)

    def free_runs(self) -> list[tuple[int, int]]:
        """(address, size in bytes) of each free block, by address."""
        return sorted((block.address, block.size_bytes) for block in self._free_blocks())

    def layout(self) -> Layout:
        segments, pieces = [], []
        for address in sorted(self._segments):
            segment, start = self._segments[address], None
            for block in segment.blocks():
                if block.state == UNMAPPED:
                    start = None
                    continue
                if start is None:  # an expandable segment shows as its mapped parts
                    start = block.address
                    segments.append(Segment(start, 0, EXPANDABLE if self._expandable else segment.pool.label))
                segments[-1] = segments[-1]._replace(size_bytes=block.address + block.size_bytes - start)
                if block.state in (USED, HELD):
                    pieces.append(Piece(block.address, block.size_bytes, block.owner, block.requested_bytes,
                                        block.state == HELD))
        return Layout(tuple(segments), tuple(pieces))

    def _open_stream(self, stream: int) -> tuple[Pool, Pool]:
        stream = as_count(stream, "a stream")
        if stream not in self._pools:
            self._pools[stream] = tuple(Pool(self, small, stream, least_rest(small, self._expandable))
                                        for small in (True, False))
            self._pools = dict(sorted(self._pools.items()))
        return self._pools[stream]

    def _all_pools(self) -> Iterator[Pool]:
        return (pool for pools in self._pools.values() for pool in pools)

    def _free_blocks(self) -> Iterator[Block]:
        return (block for pool in self._all_pools() for block in pool)

    # a miss

    def _miss(self, pool: Pool, rounded_bytes: int) -> Block | None:
        """A free block, in no pool, that is large enough, or None."""
        segment_bytes = segment_size(rounded_bytes, self._large_segment_bytes)
        if self._collect_above is not None:
            self._collect_garbage()
        block = self._from_device(pool, rounded_bytes, segment_bytes)
        if block is None and self._release_oversize(pool, rounded_bytes):
            block = self._from_device(pool, rounded_bytes, segment_bytes)
        if block is None:
            self._note("retry: wait for all streams, give back all that is wholly free")
            self._release_cached()
            self.num_retries += 1
            block = self._from_device(pool, rounded_bytes, segment_bytes)
        return block

    def _from_device(self, pool: Pool, rounded_bytes: int, segment_bytes: int) -> Block | None:
        if self._allowed_bytes is not None and self.reserved_bytes + segment_bytes > self._allowed_bytes:
            self._note(f"memory_fraction: {as_text(segment_bytes)} more would be over the allowed "
                       f"{as_text(self._allowed_bytes)}")
            return None
        if self._expandable:
            return map_pages(self, pool, rounded_bytes)
        address = self.device.malloc(segment_bytes)
        if address is None:
            self._note(f"cudaMalloc of {as_text(segment_bytes)} refused: the device has "
                       f"{as_text(self.device.free_bytes)} left")
            return None
        self._note(f"cudaMalloc: a {pool.label} segment of {as_text(segment_bytes)}")
        return self._add_segment(address, segment_bytes, pool)

    def _add_segment(self, address: int, size_bytes: int, pool: Pool) -> Block:
        segment = self._segments[address] = CachedSegment(address, size_bytes, pool)
        self._reserved(address, size_bytes, pool.label, "malloc")
        return Block(address, size_bytes, FREE, segment.first, segment.last, pool)

    def _reserved(self, address: int, size_bytes: int, label: str, call: str) -> None:
        self.reserved_bytes += size_bytes
        self.num_device_mallocs += 1
        self._device_call(call)
        self._changed(RESERVE, address, size_bytes, label=label)

    def _unreserved(self, address: int, size_bytes: int, label: str, call: str) -> None:
        self.reserved_bytes -= size_bytes
        self.num_device_frees += 1
        self._device_call(call)
        self._changed(UNRESERVE, address, size_bytes, label=label)

    # giving back

    def _release_segment(self, block: Block) -> None:
        """cudaFree, for a free block that is a segment of its own."""
        block.pool.remove(block)
        self.device.free(block.address, block.size_bytes)
        self._unreserved(block.address, block.size_bytes, block.pool.label, "free")
        self._segments.pop(block.address).take_apart()

    def _collect_garbage(self) -> None:
        """Give back unsplit large blocks of at least the average age, until reserved memory is below the threshold or
        none is left. A round is always finished, so that the next collection is not due at once. The age is counted in
        searches of the pool. Expandable segments are left alone."""
        if self.reserved_bytes <= self._collect_above or self._expandable:
            return
        wanted = self.reserved_bytes - self._collect_above
        candidates = [block for _, large in self._pools.values() for block in large if not block.is_split]
        reclaimed, total_age = 0, sum(block.pool.age(block) for block in candidates)
        while candidates and reclaimed < wanted:
            average = total_age / len(candidates)
            old = [block for block in candidates if block.pool.age(block) >= average]
            candidates = [block for block in candidates if block.pool.age(block) < average]
            for block in old:
                total_age -= block.pool.age(block)
                reclaimed += block.size_bytes
                self._release_segment(block)
        self._note(f"garbage collection: {as_text(reclaimed)} of {as_text(wanted)} over the threshold given back")

    def _release_oversize(self, pool: Pool, rounded_bytes: int) -> bool:
        """Give back the smallest oversize block that the request would fit in, or the largest ones until they add up to
        as much. Whether that was enough."""
        if self._max_split_bytes > self.capacity_bytes or self._expandable:
            return False
        wanted = max(rounded_bytes, self._max_split_bytes)
        oversize = [block for block in pool if block.size_bytes >= self._max_split_bytes]
        enough = [block for block in oversize if block.size_bytes >= wanted]
        released = 0
        for block in enough[:1] or reversed(oversize):
            if released >= wanted:
                break
            released += block.size_bytes
            self._release_segment(block)
        self._note(f"retry: {as_text(released)} in oversize blocks given back, {as_text(wanted)} wanted")
        return released >= wanted

    def _release_cached(self) -> None:
        """Wait for the held blocks, then give back all segments that are wholly free, and whole free pages."""
        self._finish_held()
        for small in (False, True):
            for pools in self._pools.values():
                pool = pools[not small]
                for block in pool:
                    if self._expandable:
                        unmap_pages(self, block)
                    elif not block.is_split:
                        self._release_segment(block)

    def _finish_held(self) -> None:
        self.num_syncs += 1
        self._device_call("sync")
        held, self._held = self._held, []
        for block in held:
            self.held_bytes -= block.size_bytes
            self.requested_bytes -= block.requested_bytes
            self._changed(GIVE, block.address, block.size_bytes)
            self._merge(block)

    @abstractmethod
    def _merge(self, block: Block) -> None:
        """Make a block free, one with its free neighbours, and put it into its pool."""

    # a state from elsewhere

    def adopt(self, segments, pieces, stream_of=lambda segment: 0) -> dict[int, Block]:
        """Begin with the segments and pieces of a recorded state. address → handle of each piece. Free memory between
        two pieces is one block, as it always is in this allocator. `stream_of` tells a segment's stream.

        Raises ValueError, with nothing changed, for an allocator that has segments already, with expandable segments,
        and for pieces that lie outside the segments or overlap."""
        if self._segments or self._expandable:
            raise ValueError("only a new allocator without expandable segments can adopt a recorded state")
        pieces = sorted(pieces, key=lambda piece: piece.address)
        segments = sorted(segments, key=lambda segment: segment.address)
        _check_recorded(segments, pieces, self.capacity_bytes)
        handles, at = {}, 0
        for recorded in segments:
            pool = self._open_stream(stream_of(recorded))[recorded.label != "small"]
            self.device.place(recorded.address, recorded.size_bytes)
            segment = self._segments[recorded.address] = CachedSegment(recorded.address, recorded.size_bytes, pool)
            self.reserved_bytes += recorded.size_bytes
            free_from, end = recorded.address, recorded.address + recorded.size_bytes
            while at < len(pieces) and pieces[at].address < end:
                piece, at = pieces[at], at + 1
                self._adopt_free(free_from, piece.address, segment)
                handles[piece.address] = Block(piece.address, piece.size_bytes, USED, segment.last.prev,
                                               segment.last, pool, piece.owner, piece.requested_bytes)
                self.allocated_bytes += piece.size_bytes
                self.requested_bytes += piece.requested_bytes
                free_from = piece.address + piece.size_bytes
            self._adopt_free(free_from, end, segment)
        return handles

    def _adopt_free(self, start: int, end: int, segment: CachedSegment) -> None:
        if start < end:
            segment.pool.add(Block(start, end - start, FREE, segment.last.prev, segment.last, segment.pool))


def _check_recorded(segments, pieces, capacity_bytes: int) -> None:
    if sum(segment.size_bytes for segment in segments) > capacity_bytes:
        raise ValueError("the recorded segments are larger than capacity_bytes")
    for things, what in ((segments, "segments"), (pieces, "pieces")):
        for one, other in zip(things, things[1:]):
            if one.address + one.size_bytes > other.address:
                raise ValueError(f"two {what} overlap at {other.address:#x}")
    for segment in segments:
        if segment.address < FIRST_ADDRESS or segment.address + segment.size_bytes > END_ADDRESS:
            raise ValueError(f"the recorded address {segment.address:#x} is outside of a GPU's address space")
    at = 0
    for piece in pieces:
        while at < len(segments) and segments[at].address + segments[at].size_bytes <= piece.address:
            at += 1
        if at == len(segments) or not segments[at].address <= piece.address <= piece.address + piece.size_bytes \
                <= segments[at].address + segments[at].size_bytes:
            raise ValueError(f"the piece at {piece.address:#x} lies in no segment")
