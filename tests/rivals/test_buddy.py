"""Netty's buddy chunk."""

import random

import pytest

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import FILL, RESERVE, TAKE, Look, Segment, record_memory
from pagedkv.rivals.buddy import BuddyChunk, BuddyChunkAllocator

KIB, MIB = 1 << 10, 1 << 20


def addresses(allocator):
    return [(piece.owner, piece.address, piece.size_bytes) for piece in allocator.layout().pieces]


def test_a_chunk_of_netty_4_1_48():
    chunk = BuddyChunk(0, 8192, 11)
    assert chunk.size_bytes == 16 * MIB
    assert len(chunk.memory_map) == 4096  # 4095 nodes over 2048 pages; entry 0 is not used
    assert chunk.memory_map[1] == 0 and chunk.memory_map[2048] == chunk.memory_map[4095] == 11
    assert chunk.unusable == 12
    assert chunk.address_of(1) == 0 and chunk.address_of(3) == 8 * MIB and chunk.address_of(4095) == 16 * MIB - 8192


def test_the_tree_by_hand():
    chunk = BuddyChunk(0, 1, 2)  # the picture in the module's docstring
    assert chunk.find(2) == 4
    chunk.take(4)
    assert chunk.memory_map[1:] == [1, 2, 1, 3, 2, 2, 2]
    assert chunk.find(1) == 3 and chunk.find(2) == 5 and chunk.find(0) is None
    chunk.take(3)
    assert chunk.memory_map[1:] == [2, 2, 3, 3, 2, 2, 2] and chunk.find(1) is None
    chunk.give(4)
    assert chunk.memory_map[1:] == [1, 1, 3, 2, 2, 2, 2]
    chunk.give(3)
    assert chunk.memory_map == BuddyChunk(0, 1, 2).memory_map


@pytest.mark.parametrize("asked, rounded", [(1, 8192), (8192, 8192), (8193, 16384), (24 * KIB, 32 * KIB),
                                            (9 * MIB, 16 * MIB), (16 * MIB, 16 * MIB)])
def test_a_page_times_a_power_of_two(asked, rounded):
    allocator = BuddyChunkAllocator(16 * MIB)
    assert allocator.rounded_bytes(asked) == rounded
    allocator.allocate("A", asked)
    piece, = allocator.layout().pieces
    assert (piece.size_bytes, piece.requested_bytes) == (rounded, asked)


def test_more_than_a_chunk_and_no_room_for_another():
    allocator = BuddyChunkAllocator(40 * MIB)
    with pytest.raises(OutOfMemory, match=r"17 MiB wanted, and a chunk has 16 MiB"):
        allocator.allocate("A", 17 * MIB)
    assert allocator.layout().segments == ()  # a refusal makes no chunk
    first, second = allocator.allocate("A", 9 * MIB), allocator.allocate("B", 9 * MIB)
    with pytest.raises(OutOfMemory, match="8 MiB are left of the device: too little for a chunk"):
        allocator.allocate("C", 1)
    allocator.free(first)
    allocator.free(second)
    assert allocator.layout().segments == (Segment(0, 16 * MIB, "chunk"), Segment(16 * MIB, 16 * MIB, "chunk"))


def test_chunks_are_searched_from_the_first_and_made_on_demand():
    allocator = BuddyChunkAllocator(64, page_bytes=1, max_order=4)
    with record_memory(allocator) as recording:
        for owner, size in (("A", 9), ("B", 8), ("C", 4), ("D", 2)):
            allocator.allocate(owner, size)
    assert addresses(allocator) == [("A", 0, 16), ("B", 16, 8), ("C", 24, 4), ("D", 28, 2)]
    made = [event.owner for event in recording.events if any(change.kind == RESERVE for change in event.changes)]
    assert made == ["A", "B"]
    assert recording.events[1].detail["device_calls"] == {"malloc": 1}
    assert "device_calls" not in recording.events[2].detail


def test_looks_show_the_way_through_the_tree():
    allocator = BuddyChunkAllocator(16, page_bytes=1, max_order=3)
    allocator.allocate("A", 1)
    with record_memory(allocator) as recording:
        allocator.allocate("B", 2)
        allocator.allocate("C", 8)
    assert recording.events[0].detail["decision"].looks == (
        Look("node 1", 0, 8, "→ go on below it"), Look("node 2", 0, 4, "→ go on below it"),
        Look("node 4", 0, 2, "no free node of 2 B below it"), Look("node 5", 2, 2, "chosen"))
    assert recording.events[1].detail["decision"].looks == (
        Look("node 1", 0, 8, "no free node of 8 B below it"), Look("node 1", 8, 8, "chosen"))
    assert recording.events[1].detail["decision"].notes == ("no chunk has room: a new one is made",)


def test_growing_within_the_node_and_out_of_it():
    allocator = BuddyChunkAllocator(16, page_bytes=1, max_order=4)
    handle = allocator.allocate("A", 3)
    with record_memory(allocator) as recording:
        handle = allocator.grow(handle, 4)
        handle = allocator.grow(handle, 5)
        with pytest.raises(OutOfMemory):
            allocator.grow(handle, 9)
    assert [change.kind for change in recording.events[0].changes] == [FILL]
    assert [change.address for change in recording.events[1].changes if change.kind == TAKE] == [8]
    assert recording.events[1].detail["moved_bytes"] == 4
    assert addresses(allocator) == [("A", 8, 8)]


def test_one_page_that_stays_pins_its_chunk():
    """netty#11998: fill a chunk with pages, free all but one."""
    allocator = BuddyChunkAllocator(32 * MIB)
    handles = [allocator.allocate(number, 8192) for number in range(2048)]
    assert len(allocator.chunks) == 1
    for handle in handles[:1000] + handles[1001:]:
        allocator.free(handle)
    allocator.allocate("large", 16 * MIB)
    assert len(allocator.chunks) == 2 and allocator.used_bytes == 16 * MIB + 8192


def above(node):
    """The node and all that it is part of."""
    return {node >> k for k in range(node.bit_length())}


def map_by_definition(max_order, taken):
    """node → the smallest depth of a node below it, or itself, that overlaps no taken one; without the nodes below a
    taken one, which nobody reads."""
    nodes = range(1, 2 << max_order)
    free = [node for node in nodes if not any(node in above(other) or other in above(node) for other in taken)]
    return {node: min((one.bit_length() - 1 for one in free if node in above(one)), default=max_order + 1)
            for node in nodes if not above(node // 2) & set(taken)}


def test_memory_map_is_what_it_says_after_any_calls():
    rng, chunk, taken = random.Random(5), BuddyChunk(0, 1, 4), []
    for _ in range(200):
        if taken and rng.random() < 0.45:
            chunk.give(taken.pop(rng.randrange(len(taken))))
        else:
            depth = rng.randint(1, 4)
            node = chunk.find(depth)
            if node is None:
                assert map_by_definition(4, taken)[1] > depth
            else:
                assert node.bit_length() - 1 == depth
                chunk.take(node)
                taken.append(node)
        assert all(chunk.memory_map[node] == entry for node, entry in map_by_definition(4, taken).items())


def test_settings_that_cannot_be():
    with pytest.raises(ValueError, match="power of two"):
        BuddyChunkAllocator(100, page_bytes=12)
    with pytest.raises(ValueError, match="at most 14"):
        BuddyChunkAllocator(100, max_order=15)
