"""Static reservation: what is set aside under each policy."""

import pytest

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import FILL, GIVE, TAKE, record_memory
from pagedkv.rivals.static import StaticReservation


def pieces(allocator):
    return [(owner, address, size, requested) for address, size, owner, requested, _ in allocator.layout().pieces]


def test_max_gives_everybody_a_slot_of_the_greatest_length():
    allocator = StaticReservation(1000, 300)
    for owner, size in (("A", 1), ("B", 300), ("C", 20)):
        allocator.allocate(owner, size)
    assert pieces(allocator) == [("A", 0, 300, 1), ("B", 300, 300, 300), ("C", 600, 300, 20)]
    with pytest.raises(OutOfMemory, match="300 B wanted, 100 B free"):
        allocator.allocate("D", 1)


def test_slots_are_reused():
    allocator = StaticReservation(1000, 300)
    handles = [allocator.allocate(owner, 10) for owner in "ABC"]
    allocator.free(handles[1])
    allocator.allocate("D", 299)
    assert [piece[:2] for piece in pieces(allocator)] == [("A", 0), ("D", 300), ("C", 600)]


def test_growing_within_the_slot_is_a_fill_and_beyond_it_a_refusal():
    allocator = StaticReservation(1000, 300)
    handle = allocator.allocate("A", 10)
    with record_memory(allocator) as recording:
        handle = allocator.grow(handle, 300)
        with pytest.raises(OutOfMemory, match="301 B wanted; no request may have more than 300 B"):
            allocator.grow(handle, 301)
        with pytest.raises(OutOfMemory):
            allocator.allocate("B", 301)
    assert [tuple(change) for change in recording.events[0].changes] == [(FILL, 0, 300, 300, "")]
    assert recording.events[1].changes == recording.events[2].changes == ()
    assert pieces(allocator) == [("A", 0, 300, 300)]


@pytest.mark.parametrize("asked, slot", [(1, 3), (3, 3), (4, 6), (6, 6), (7, 12), (25, 48), (48, 48), (49, 90),
                                         (90, 90)])
def test_pow2_counts_in_units_and_stops_at_the_greatest_length(asked, slot):
    allocator = StaticReservation(1000, 90, "pow2", unit_bytes=3)
    allocator.allocate("A", asked)
    assert pieces(allocator) == [("A", 0, slot, asked)]


def test_pow2_moves_when_it_is_full_and_both_places_exist_for_a_moment():
    allocator = StaticReservation(100, 64, "pow2")
    handle = allocator.allocate("A", 30)
    with record_memory(allocator) as recording:
        handle = allocator.grow(handle, 32)
        handle = allocator.grow(handle, 33)
    filled, moved = recording.events
    assert [change.kind for change in filled.changes] == [FILL]
    assert [tuple(change)[:4] for change in moved.changes] == [(TAKE, 32, 64, 33), (GIVE, 0, 32, 32)]
    assert moved.detail["moved_bytes"] == 32
    allocator.free(handle)
    # 64 + 32 fit into 100, 64 + 32 + 8 do not: the growth fails though the old slot would be free afterwards
    handle = allocator.allocate("A", 32)
    other = allocator.allocate("B", 8)
    with pytest.raises(OutOfMemory, match="64 B wanted, 60 B free"):
        allocator.grow(handle, 33)
    assert pieces(allocator) == [("A", 0, 32, 32), ("B", 32, 8, 8)]
    allocator.free(other)
    allocator.grow(handle, 33)


def test_the_oracle_sets_aside_what_it_was_told():
    allocator = StaticReservation(100, 90, "oracle", final_bytes={"A": 40, "B": 61, "C": 60})
    handle = allocator.allocate("A", 1)
    with pytest.raises(OutOfMemory):
        allocator.allocate("B", 1)
    allocator.allocate("C", 1)
    allocator.grow(handle, 40)
    assert pieces(allocator) == [("A", 0, 40, 40), ("C", 40, 60, 1)]
    with pytest.raises(OutOfMemory, match="41 B wanted; its reservation was to be 40 B"):
        allocator.grow(handle, 41)
    with pytest.raises(ValueError, match="does not tell what D will have"):
        allocator.allocate("D", 1)


def test_settings_that_cannot_be():
    with pytest.raises(ValueError, match="max, pow2, oracle, got 'least'"):
        StaticReservation(100, 10, "least")
    with pytest.raises(ValueError, match="needs final_bytes"):
        StaticReservation(100, 10, "oracle")
    with pytest.raises(ValueError):
        StaticReservation(100, 0)
    with pytest.raises(ValueError, match="unit_bytes"):
        StaticReservation(100, 10, "pow2", unit_bytes=0)
