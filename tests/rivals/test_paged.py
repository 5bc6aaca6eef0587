"""Paging behind the bytes contract."""

import pytest

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import FILL, GIVE, TAKE, Segment, record_memory
from pagedkv.rivals.paged import PagedAllocator


def pieces(allocator):
    return [tuple(piece)[:4] for piece in allocator.layout().pieces]


def test_one_piece_per_block_and_the_last_one_partly_filled():
    allocator = PagedAllocator(100, 10)
    allocator.allocate("A", 25)
    assert pieces(allocator) == [(0, 10, "A", 10), (10, 10, "A", 10), (20, 10, "A", 5)]


def test_of_a_capacity_that_is_no_multiple_the_rest_is_not_reserved():
    allocator = PagedAllocator(109, 10)
    assert allocator.layout().segments == (Segment(0, 100, "pool"),)
    allocator.allocate("A", 100)
    with pytest.raises(OutOfMemory, match="1 B wanted: 1 more blocks of 10 B, 0 of 10 free"):
        allocator.allocate("B", 1)
    with pytest.raises(ValueError, match="9 B hold no block of 10 B"):
        PagedAllocator(9, 10)


def test_growing_takes_a_block_only_when_the_last_one_is_full():
    allocator = PagedAllocator(100, 10)
    handle = allocator.allocate("A", 8)
    with record_memory(allocator) as recording:
        for size in (9, 10, 11, 35):
            handle = allocator.grow(handle, size)
    assert [[tuple(change)[:4] for change in event.changes] for event in recording.events] == [
        [(FILL, 0, 10, 9)], [(FILL, 0, 10, 10)], [(TAKE, 10, 10, 1)],
        [(FILL, 10, 10, 10), (TAKE, 20, 10, 10), (TAKE, 30, 10, 5)]]
    assert [event.detail["decision"].rounded_bytes for event in recording.events] == [10, 10, 20, 40]
    assert all("moved_bytes" not in event.detail for event in recording.events)


def test_pieces_need_not_be_neighbours():
    allocator = PagedAllocator(100, 10)
    a, b, c = (allocator.allocate(owner, size) for owner, size in (("A", 20), ("B", 30), ("C", 50)))
    allocator.free(a)
    allocator.free(c)
    with record_memory(allocator) as recording:
        allocator.allocate("D", 65)
    assert sorted(change.address for change in recording.events[0].changes) == [0, 10, 50, 60, 70, 80, 90]
    assert [look.verdict for look in recording.events[0].detail["decision"].looks] == ["chosen"] * 7


def test_a_growth_that_is_refused_fills_nothing():
    allocator = PagedAllocator(30, 10)
    handle = allocator.allocate("A", 15)
    with record_memory(allocator) as recording:
        with pytest.raises(OutOfMemory, match="31 B wanted: 2 more blocks of 10 B, 1 of 3 free"):
            allocator.grow(handle, 31)
    assert recording.events[0].changes == ()
    assert pieces(allocator) == [(0, 10, "A", 10), (10, 10, "A", 5)] and allocator.used_bytes == 20
    allocator.grow(handle, 30)


def test_all_of_an_owner_goes_back():
    allocator = PagedAllocator(30, 10)
    handle = allocator.allocate("A", 25)
    with record_memory(allocator) as recording:
        allocator.free(handle)
    assert [tuple(change)[:4] for change in recording.events[0].changes] == [
        (GIVE, 0, 10, 10), (GIVE, 10, 10, 10), (GIVE, 20, 10, 5)]
    assert allocator.pool.num_free_blocks == 3 and allocator.used_bytes == 0
    allocator.allocate("B", 25)
    assert pieces(allocator) == [(0, 10, "B", 10), (10, 10, "B", 10), (20, 10, "B", 5)]
