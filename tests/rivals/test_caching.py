"""The caching allocator: search, split, merge, misses, streams, and what its events tell."""

import pytest

from pagedkv.core.errors import DoubleFree, OutOfMemory
from pagedkv.core.memory import Allocator, Piece, Segment, record_memory
from pagedkv.core.memory_replay import end_of
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.caching_rules import KIB, MIB


def sizes(allocator):
    """Segments as lists of blocks in MiB, free ones negative."""
    layout, drawn = allocator.layout(), []
    for segment in layout.segments:
        row, at = [], segment.address
        end = segment.address + segment.size_bytes
        for piece in [piece for piece in layout.pieces if segment.address <= piece.address < end] + [None]:
            start = end if piece is None else piece.address
            if start > at:
                row.append(-(start - at) / MIB)
            if piece is not None:
                row.append(piece.size_bytes / MIB)
                at = piece.address + piece.size_bytes
        drawn.append(row)
    return drawn


def filled(allocator, *sizes_mib):
    return [allocator.allocate(f"{size}", int(size * MIB)) for size in sizes_mib]


def decision(allocator, *sizes_mib):
    """What the last allocation of these decided."""
    with record_memory(allocator) as recording:
        filled(allocator, *sizes_mib)
    return recording.events[-1].detail["decision"]


def test_it_is_an_allocator():
    assert isinstance(CachingAllocator(MIB), Allocator)


def test_small_and_large_requests_never_share_a_segment():
    allocator = CachingAllocator(100 * MIB)
    filled(allocator, 1, 0.5, 2, 1.5)
    assert sizes(allocator) == [[1, 0.5, -0.5], [2, 1.5, -16.5]]
    assert [segment.label for segment in allocator.layout().segments] == ["small", "large"]


def test_the_best_fit_is_the_smallest_block_and_of_equal_ones_the_lowest():
    allocator = CachingAllocator(100 * MIB)
    handles = filled(allocator, 30, 12, 12)
    big, one, two = (handle.address for handle in handles)
    for handle in reversed(handles):
        allocator.free(handle)
    assert [filled(allocator, size)[0].address for size in (11, 12, 12)] == [one, two, big]


def test_the_front_is_taken_and_the_tail_stays_free():
    allocator = CachingAllocator(100 * MIB)
    filled(allocator, 5, 4)
    assert sizes(allocator) == [[5, 4, -11]]


def test_a_large_rest_of_up_to_a_mebibyte_goes_with_the_block():
    allocator = CachingAllocator(200 * MIB)
    handle, = filled(allocator, 39)
    assert (handle.size_bytes, handle.requested_bytes) == (40 * MIB, 39 * MIB)
    allocator.allocate("more", 39 * MIB - 512)
    assert sizes(allocator) == [[40], [39 - 512 / MIB, -(1 + 512 / MIB)]]
    assert (allocator.allocated_bytes, allocator.requested_bytes) == (79 * MIB - 512, 78 * MIB - 512)


def test_a_small_rest_stays_free_from_512_bytes_on():
    allocator = CachingAllocator(100 * MIB)
    filled(allocator, 1)
    allocator.allocate("most", MIB - 512)
    assert sizes(allocator) == [[1, 1 - 512 / MIB, -512 / MIB]]


def test_a_freed_block_merges_with_both_neighbours():
    allocator = CachingAllocator(100 * MIB)
    handles = filled(allocator, 4, 4, 4, 4)
    for at in (0, 2):
        allocator.free(handles[at])
    assert sizes(allocator) == [[-4, 4, -4, 4, -4]]
    allocator.free(handles[1])
    assert sizes(allocator) == [[-12, 4, -4]]
    allocator.free(handles[3])
    assert sizes(allocator) == [[-20]]


def test_blocks_of_different_segments_do_not_merge_even_where_they_touch():
    allocator = CachingAllocator(100 * MIB)
    handles = filled(allocator, 12, 12)
    for handle in handles:
        allocator.free(handle)
    assert handles[1].address == handles[0].address + 12 * MIB
    assert sizes(allocator) == [[-12], [-12]]
    filled(allocator, 24)
    assert allocator.num_device_mallocs == 3


def test_free_gives_the_device_nothing_and_empty_cache_what_is_whole():
    allocator = CachingAllocator(100 * MIB)
    one, two = filled(allocator, 12, 5)
    allocator.free(one)
    assert allocator.reserved_bytes == 32 * MIB
    allocator.empty_cache()
    assert sizes(allocator) == [[5, -15]]
    allocator.free(two)
    allocator.empty_cache()
    assert allocator.reserved_bytes == allocator.device.used_bytes == 0


def test_large_segments_go_back_before_small_ones():
    allocator = CachingAllocator(100 * MIB)
    for handle in filled(allocator, 1, 30, 12):
        allocator.free(handle)
    with record_memory(allocator) as recording:
        allocator.empty_cache()
    event = recording.events[0]
    assert (event.op, event.detail["device_calls"]) == ("empty_cache", {"sync": 1, "free": 3})
    assert [change.size_bytes // MIB for change in event.changes] == [12, 30, 2]


def test_the_split_rests_that_cannot_be_given_back_are_inactive_split():
    allocator = CachingAllocator(100 * MIB)
    one, two = filled(allocator, 12, 5)
    assert allocator.inactive_split_bytes == 15 * MIB
    allocator.free(one)
    assert allocator.inactive_split_bytes == 15 * MIB  # the 12 MiB are a whole segment
    allocator.free(two)
    assert allocator.inactive_split_bytes == 0


def test_a_double_free_and_a_foreign_handle_are_refused():
    allocator, other = CachingAllocator(100 * MIB), CachingAllocator(100 * MIB)
    one, two = filled(allocator, 4, 4)
    allocator.free(one)
    before = allocator.layout()
    for handle in (one, filled(other, 4)[0], None, 7):
        with pytest.raises(DoubleFree):
            allocator.free(handle)
    assert allocator.layout() == before
    filled(allocator, 4)  # the same place again, and the old handle is still dead
    with pytest.raises(DoubleFree, match="4 has freed"):
        allocator.free(one)
    with record_memory(allocator) as recording, pytest.raises(DoubleFree):
        allocator.free(one)
    assert recording.events[0].refused and recording.events[0].owner == "4"
    allocator.free(two)


def test_a_refused_size():
    for size, error in ((0, ValueError), (-1, ValueError), (True, TypeError), (1.5, TypeError)):
        with pytest.raises(error):
            CachingAllocator(100 * MIB).allocate("A", size)


def test_growth_is_a_new_block_a_copy_and_a_free():
    allocator = CachingAllocator(100 * MIB)
    handle = allocator.allocate("A", 4 * MIB, stream=3)
    with record_memory(allocator) as recording:
        handle = allocator.grow(handle, 5 * MIB)
    assert sizes(allocator) == [[-4, 5, -11]]
    assert recording.events[0].detail["moved_bytes"] == 4 * MIB
    assert handle.pool.stream == 3


# misses

def test_a_request_that_fits_only_after_whole_segments_went_back():
    allocator = CachingAllocator(100 * MIB)
    handles = filled(allocator, 30, 30, 30)
    for handle in handles[:2]:
        allocator.free(handle)
    with record_memory(allocator) as recording:
        filled(allocator, 60)
    assert sizes(allocator) == [[60], [30]]
    assert recording.events[0].detail["device_calls"] == {"sync": 1, "free": 2, "malloc": 1}
    assert (allocator.num_retries, allocator.num_device_frees, allocator.num_ooms) == (1, 2, 0)


def test_a_refusal_names_the_segment_and_leaves_the_pieces():
    allocator = CachingAllocator(100 * MIB)
    filled(allocator, 30, 30, 30)
    pieces = allocator.layout().pieces
    with record_memory(allocator) as recording, pytest.raises(OutOfMemory) as refusal:
        allocator.allocate("E", 3 * MIB)
    assert "Tried to allocate 20.00 MiB" in str(refusal.value)
    assert "of which 10.00 MiB is free" in str(refusal.value)
    assert str(refusal.value) == allocator.oom_message == recording.events[0].detail["message"]
    assert allocator.layout().pieces == pieces
    assert (allocator.num_ooms, allocator.num_retries) == (1, 1)
    assert any("cudaMalloc of 20 MiB refused" in note for note in recording.events[0].detail["decision"].notes)


def test_the_memory_fraction_is_a_wall_before_the_device():
    allocator = CachingAllocator(100 * MIB, memory_fraction=0.5)
    filled(allocator, 40)
    with pytest.raises(OutOfMemory, match="50.00 MiB allowed"):
        filled(allocator, 12)
    assert allocator.num_device_mallocs == 1


def test_garbage_collection_frees_the_oldest_first():
    allocator = CachingAllocator(100 * MIB, memory_fraction=1.0, garbage_collection_threshold=0.4)
    old, _ = filled(allocator, 12, 14)
    allocator.free(old)
    young, = filled(allocator, 16)
    allocator.free(young)
    told = decision(allocator, 30)  # 42 MiB are reserved, 2 above the threshold; the ages are 2 and 1 searches
    assert sizes(allocator) == [[14], [-16], [30]]
    assert "garbage collection: 12 MiB of 2 MiB over the threshold given back" in told.notes


def test_garbage_collection_needs_a_fraction_and_finishes_its_round():
    for fraction, left in ((None, 3), (1.0, 0)):
        allocator = CachingAllocator(100 * MIB, memory_fraction=fraction, garbage_collection_threshold=0.4)
        for handle in filled(allocator, 12, 14, 16):
            allocator.free(handle)
        filled(allocator, 30)
        assert len(allocator.layout().segments) == left + 1


def test_max_split_keeps_large_blocks_for_large_requests():
    allocator = CachingAllocator(200 * MIB, max_split_size_mb=20)
    allocator.free(filled(allocator, 30)[0])
    told = decision(allocator, 12)
    assert sizes(allocator) == [[-30], [12]]
    assert told.looks[-1].verdict == "max_split_size_mb: a block of 30 MiB is kept for requests of at least 20 MiB"
    told = decision(allocator, 25)
    assert sizes(allocator) == [[30], [12]]
    assert "not split: blocks from 20 MiB on are whole (max_split_size_mb); 5 MiB go along" in told.notes


def test_max_split_does_not_waste_a_whole_shared_segment():
    allocator = CachingAllocator(200 * MIB, max_split_size_mb=20)
    allocator.free(filled(allocator, 60)[0])
    told = decision(allocator, 40)
    assert sizes(allocator) == [[-60], [40]]
    assert told.looks[-1].verdict == "max_split_size_mb: it would not be split, and 20 MiB more than needed is too much"
    filled(allocator, 41)
    assert sizes(allocator) == [[60], [40]]


def test_max_split_gives_oversize_blocks_back_before_all_others():
    allocator = CachingAllocator(100 * MIB, max_split_size_mb=20)
    handles = filled(allocator, 30, 40, 12)
    for handle in handles:
        allocator.free(handle)
    filled(allocator, 60)
    assert sizes(allocator) == [[60], [-12]]
    assert (allocator.num_device_frees, allocator.num_retries) == (2, 0)


def test_of_several_oversize_blocks_the_largest_go_first():
    allocator = CachingAllocator(100 * MIB, max_split_size_mb=20)
    for handle in filled(allocator, 22, 30, 40):
        allocator.free(handle)
    filled(allocator, 66)
    assert sizes(allocator) == [[-22], [66]]


def test_max_split_gives_back_the_one_oversize_block_that_is_enough():
    allocator = CachingAllocator(100 * MIB, max_split_size_mb=20)
    for handle in filled(allocator, 45, 50):
        allocator.free(handle)
    filled(allocator, 19)
    assert sizes(allocator) == [[20], [-50]]  # the smaller of the two went
    assert allocator.num_device_frees == 1


# streams

def test_streams_have_their_own_blocks():
    allocator = CachingAllocator(100 * MIB)
    allocator.free(allocator.allocate("A", 12 * MIB))
    allocator.allocate("B", 12 * MIB, stream=1)
    assert sizes(allocator) == [[-12], [12]]
    told = decision(allocator, 13)
    assert told.looks[0].verdict == "smaller than 13 MiB"
    with pytest.raises(ValueError, match="stream"):
        allocator.allocate("C", 1, stream=-1)


def test_a_block_in_use_elsewhere_is_held_until_then():
    allocator = CachingAllocator(100 * MIB)
    handle, = filled(allocator, 12)
    allocator.record_stream(handle, 1)
    with record_memory(allocator) as recording:
        allocator.free(handle)
        assert allocator.layout().pieces[0].held
        assert (allocator.allocated_bytes, allocator.active_bytes, allocator.requested_bytes) == (0, 12 * MIB, 12 * MIB)
        with pytest.raises(DoubleFree):
            allocator.free(handle)
        allocator.allocate("B", 12 * MIB)
        allocator.synchronize()
    assert sizes(allocator) == [[-12], [12]]
    assert (allocator.active_bytes, allocator.requested_bytes) == (12 * MIB, 12 * MIB)
    assert [event.op for event in recording.events] == ["free", "free", "allocate", "synchronize"]
    assert end_of(recording).layout() == allocator.layout()


def test_held_neighbours_are_not_merged():
    allocator = CachingAllocator(100 * MIB)
    one, two, _ = filled(allocator, 4, 4, 4)
    allocator.record_stream(one, 1)
    allocator.free(one)
    allocator.free(two)
    assert sizes(allocator) == [[4, -4, 4, -8]]
    allocator.synchronize()
    assert sizes(allocator) == [[-8, 4, -8]]


def test_use_on_its_own_stream_changes_nothing():
    allocator = CachingAllocator(100 * MIB)
    handle = allocator.allocate("A", 12 * MIB, stream=1)
    allocator.record_stream(handle, 1)
    allocator.free(handle)
    assert allocator.active_bytes == 0


def test_when_memory_has_run_out_the_allocator_waits_for_all_streams():
    allocator = CachingAllocator(50 * MIB)
    handle, = filled(allocator, 40)
    allocator.record_stream(handle, 1)
    allocator.free(handle)
    filled(allocator, 30)
    assert sizes(allocator) == [[30]]
    assert allocator.num_syncs == 1


# what is told

def test_a_hit_tells_the_nearest_smaller_blocks_the_choice_and_the_split():
    allocator = CachingAllocator(200 * MIB)
    for handle in filled(allocator, 12, 14, 40):
        allocator.free(handle)
    told = decision(allocator, 16)
    assert [(look.size_bytes // MIB, look.verdict) for look in told.looks] == [
        (12, "smaller than 16 MiB"), (14, "smaller than 16 MiB"), (40, "chosen")]
    assert told.notes == ("large pool, stream 0: 3 free, 2 of them too small",
                          "split: 24 MiB stay free behind it")


def test_a_rejection_can_be_told_from_a_fit():
    allocator = CachingAllocator(200 * MIB)
    allocator.free(filled(allocator, 12)[0])
    with record_memory(allocator) as recording:
        allocator.allocate("A", 12 * MIB + 1)
    assert recording.events[0].detail["decision"].looks[0].verdict == "smaller than 12 MiB by 512 B"


def test_a_miss_tells_what_was_rounded_and_taken():
    allocator = CachingAllocator(200 * MIB)
    filled(allocator, 0.25)
    with record_memory(allocator) as recording:
        allocator.allocate("A", 3 * MIB + 1)
    told = recording.events[0].detail["decision"]
    assert (told.asked_bytes, told.rounded_bytes) == (3 * MIB + 1, 3 * MIB + 512)
    assert told.notes == ("rounded up by 511 B, to a multiple of 512 B",
                          "large pool, stream 0: 0 free, 0 of them too small",
                          "not looked at: 1.8 MiB free in other pools or for other streams",
                          "cudaMalloc: a large segment of 20 MiB", "split: 17 MiB stay free behind it")
    assert recording.events[0].detail["device_calls"] == {"malloc": 1}


def test_without_explanations_the_events_are_bare():
    allocator = CachingAllocator(200 * MIB)
    allocator.explain = False
    with record_memory(allocator) as recording:
        allocator.free(filled(allocator, 3)[0])
    assert [event.detail for event in recording.events] == [{"device_calls": {"malloc": 1}}, {}]


def test_addresses_are_the_same_every_time_and_a_device_has_always_enough():
    def play():
        allocator = CachingAllocator(100 * MIB)
        handles = filled(allocator, 20, 20, 20, 20)
        for at in (0, 2):
            allocator.free(handles[at])
        allocator.empty_cache()
        return filled(allocator, 60)[0].address  # 20 + 20 + 20 MiB left, nowhere in one piece

    assert play() == play()


# a state from elsewhere

def test_a_recorded_state_is_taken_over():
    allocator = CachingAllocator(100 * MIB)
    base = 0x7F0000000000
    handles = allocator.adopt([Segment(base, 20 * MIB, "large"), Segment(base + 20 * MIB, 2 * MIB, "small")],
                              [Piece(base + 4 * MIB, 4 * MIB, "A", 4 * MIB - 5), Piece(base + 20 * MIB, 512, "B", 1)])
    assert sizes(allocator) == [[-4, 4, -12], [512 / MIB, -(2 - 512 / MIB)]]
    assert (allocator.allocated_bytes, allocator.requested_bytes) == (4 * MIB + 512, 4 * MIB - 4)
    assert allocator.allocate("C", 5 * MIB).address == base + 8 * MIB
    allocator.free(handles[base + 4 * MIB])
    assert sizes(allocator)[0] == [-8, 5, -7]
    for handle in (handles[base + 20 * MIB],):
        allocator.free(handle)
    assert sizes(allocator)[1] == [-2]


@pytest.mark.parametrize("segments, pieces, words", [
    ([Segment(4096, 20 * MIB, "large")], [], "outside of a GPU's address space"),
    ([Segment((1 << 48) - MIB, 20 * MIB, "large")], [], "outside of a GPU's address space"),
    ([Segment(2 * MIB, 200 * MIB, "large")], [], "larger than capacity"),
    ([Segment(2 * MIB, 20 * MIB, "large"), Segment(12 * MIB, 20 * MIB, "large")], [], "segments overlap"),
    ([Segment(2 * MIB, 20 * MIB, "large")], [Piece(2 * MIB, MIB, "A", 1), Piece(2 * MIB + 512, MIB, "B", 1)],
     "pieces overlap"),
    ([Segment(2 * MIB, 20 * MIB, "large")], [Piece(21 * MIB, 2 * MIB, "A", 1)], "no segment"),
    ([Segment(2 * MIB, 20 * MIB, "large")], [Piece(40 * MIB, 2 * MIB, "A", 1)], "no segment"),
])
def test_an_impossible_state_is_refused_and_nothing_happens(segments, pieces, words):
    allocator = CachingAllocator(100 * MIB)
    with pytest.raises(ValueError, match=words):
        allocator.adopt(segments, pieces)
    assert allocator.layout().segments == () and allocator.reserved_bytes == allocator.device.used_bytes == 0


def test_only_a_new_allocator_takes_a_state():
    allocator = CachingAllocator(100 * MIB)
    allocator.allocate("A", KIB)
    for used in (allocator, CachingAllocator(100 * MIB, expandable_segments=True)):
        with pytest.raises(ValueError, match="only a new allocator"):
            used.adopt([], [])
