"""Expandable segments: mapping, best fit at the growing end, giving pages back."""

import pytest

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import record_memory
from pagedkv.core.memory_replay import end_of
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.caching_rules import MIB
from tests.rivals.test_caching import decision, filled, sizes


def expandable(capacity_mib=400, **settings):
    return CachingAllocator(capacity_mib * MIB, expandable_segments=True, **settings)


def test_pages_are_mapped_as_they_are_needed():
    allocator = expandable()
    filled(allocator, 15)
    assert sizes(allocator) == [[15, -5]]
    filled(allocator, 30)
    assert sizes(allocator) == [[15, 30, -15]]
    assert [segment.label for segment in allocator.layout().segments] == ["expandable"]
    assert allocator.reserved_bytes == 60 * MIB


def test_the_small_pool_has_small_pages():
    allocator = expandable()
    filled(allocator, 1, 0.5, 1)
    assert sizes(allocator) == [[1, 0.5, 1, -1.5]]


def test_the_large_page_is_the_large_segment():
    allocator = expandable(large_segment_mb=12)
    filled(allocator, 15)
    assert allocator.reserved_bytes == 24 * MIB


def test_every_rest_of_512_bytes_stays_free():
    allocator = expandable()
    allocator.allocate("A", 20 * MIB - 512)
    assert sizes(allocator) == [[20 - 512 / MIB, -512 / MIB]]


def test_a_hole_is_preferred_to_the_growing_end():
    allocator = expandable()
    hole, _, end = filled(allocator, 30, 5, 20)  # 5 MiB are free at the end of the third page
    allocator.free(hole)
    told = decision(allocator, 4)
    assert sizes(allocator) == [[4, -26, 5, 20, -5]]
    assert told.looks[0].verdict == "can grow to 405 MiB; the next can grow to less"
    assert told.looks[-1] == told.looks[1] and told.looks[1].verdict == "chosen"
    allocator.free(end)


def test_each_pool_and_stream_has_its_own_segment():
    allocator = expandable()
    filled(allocator, 1, 2)
    allocator.allocate("A", 2 * MIB, stream=1)
    assert sizes(allocator) == [[1, -1], [2, -18], [2, -18]]


def test_whole_free_pages_go_back_from_the_middle_too():
    allocator = expandable()
    handles = filled(allocator, 30, 50, 10)
    allocator.free(handles[1])
    with record_memory(allocator) as recording:
        allocator.empty_cache()
    assert sizes(allocator) == [[30, -10], [10, -10]]  # 40 … 80 went
    assert recording.events[0].detail["device_calls"] == {"sync": 1, "unmap": 1}
    assert allocator.reserved_bytes == allocator.device.used_bytes == 60 * MIB
    with record_memory(allocator) as recording:
        filled(allocator, 45)  # and are mapped again, before any new page at the end
    assert sizes(allocator) == [[30, 45, -5, 10, -10]]
    assert end_of(recording).layout() == allocator.layout()


def test_a_segment_with_nothing_left_gives_its_addresses_back():
    allocator = expandable()
    handle, = filled(allocator, 30)
    first = handle.address
    allocator.free(handle)
    allocator.empty_cache()
    assert sizes(allocator) == [] and allocator.reserved_bytes == 0
    assert filled(allocator, 30)[0].address == first


def test_pages_of_one_pool_serve_the_other_when_memory_has_run_out():
    allocator = expandable(100)
    handles = filled(allocator, 60)
    allocator.free(handles[0])
    allocator.allocate("B", 60 * MIB, stream=1)
    assert (allocator.num_retries, allocator.reserved_bytes) == (1, 60 * MIB)


def test_a_refusal():
    allocator = expandable(100)
    filled(allocator, 60)
    with pytest.raises(OutOfMemory, match="Tried to allocate 50.00 MiB"):
        filled(allocator, 50)
    assert sizes(allocator) == [[60]]


def test_the_device_may_be_too_small_for_half_a_page():
    allocator = expandable(30)
    filled(allocator, 15)
    with pytest.raises(OutOfMemory):
        filled(allocator, 6)
    filled(allocator, 5)


def test_inactive_split_leaves_expandable_segments_out():
    allocator = expandable()
    one, _ = filled(allocator, 15, 5)
    allocator.free(one)
    assert allocator.inactive_split_bytes == 0


def test_garbage_collection_and_oversize_blocks_are_not_for_expandable_segments():
    allocator = expandable(100, max_split_size_mb=20, garbage_collection_threshold=0.1, memory_fraction=1.0)
    allocator.free(filled(allocator, 60)[0])
    told = decision(allocator, 10)
    assert told.looks[-1].verdict.startswith("max_split_size_mb: a block of 60 MiB is kept")
    assert sizes(allocator) == [[10, -50]]  # found again, as the free memory before the segment's growing end
    assert (allocator.num_device_mallocs, allocator.num_device_frees) == (1, 0)
