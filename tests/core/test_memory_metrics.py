"""The numbers of fragmentation, by hand and against their definitions."""

import random

import pytest

from pagedkv.core.memory import (GIVE, HOLD, RESERVE, TAKE, Change, Layout, MemoryEvent, MemoryRecording, Piece,
                                 Segment, record_memory)
from pagedkv.core.memory_metrics import Cost, Metrics, Waste, cost_of, waste_over_time
from pagedkv.core.memory_replay import MemoryState, replay_memory
from pagedkv.rivals.buddy import BuddyChunkAllocator
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.kv_workload import KVRequest, as_workload
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.static import StaticReservation
from pagedkv.rivals.workload import Workload, run


def test_metrics_by_hand():
    state = MemoryState(Layout((Segment(0, 100),), (Piece(10, 20, "A", 15), Piece(60, 10, "B", 10))))
    metrics = Metrics.of(state, 200)
    assert tuple(metrics) == (200, 100, 30, 25, 70, 30, 3, 30, pytest.approx(1 - (10**2 + 30**2 + 30**2) / 70**2))
    assert metrics.unallocated_bytes == 70 and metrics.internal_bytes == 5 and metrics.utilization == 0.3
    assert metrics.external_fragmentation == pytest.approx(4 / 7)
    assert Metrics.of(state, 200, in_pieces=True).external_fragmentation == 0  # paging can use all three runs at once


def test_metrics_at_the_edges():
    empty = Metrics.of(MemoryState())
    assert (empty.external_fragmentation, empty.scattering, empty.utilization) == (0, 0, 1)
    one_run = Metrics.of(MemoryState(Layout((Segment(0, 100),), ())))
    assert (one_run.external_fragmentation, one_run.scattering, one_run.utilization) == (0, 0, 0)
    full = Metrics.of(MemoryState(Layout((Segment(0, 10),), (Piece(0, 10, "A", 10),))))
    assert (full.external_fragmentation, full.scattering, full.utilization) == (0, 0, 1)


def test_waste_of_one_request_by_hand():
    """Of a slot of 10, 4 are filled at first and 7 in the end."""
    allocator = StaticReservation(30, 10)
    recording = run(Workload.parse("a A 4\ng A 6\ng A 7\nf A"), allocator)
    assert [tuple(waste) for waste in waste_over_time(recording)] == [
        (0, 0, 0, 30), (4, 3, 3, 20), (6, 1, 3, 20), (7, 0, 3, 20), (0, 0, 0, 30)]
    assert Waste(1, 1, 2, 4).shares() == (0.125, 0.125, 0.25, 0.5) and Waste(0, 0, 0, 0).shares() == (0, 0, 0, 0)


def test_what_is_still_there_at_the_end_is_filled_as_far_as_it_will_be():
    recording = run(Workload.parse("a A 4\ng A 6"), StaticReservation(30, 10))
    assert [tuple(waste) for waste in waste_over_time(recording)][-1] == (6, 0, 4, 20)


def test_an_address_that_is_used_twice_has_two_lives():
    recording = run(Workload.parse("a A 2\ng A 9\nf A\na B 3\nf B"), StaticReservation(10, 10))
    assert [tuple(waste) for waste in waste_over_time(recording)] == [
        (0, 0, 0, 10), (2, 7, 1, 0), (9, 0, 1, 0), (0, 0, 0, 10), (3, 0, 7, 0), (0, 0, 0, 10)]


def test_what_was_there_before_the_recording():
    allocator = StaticReservation(30, 10)
    handle = allocator.allocate("A", 4)
    with record_memory(allocator) as recording:
        handle = allocator.grow(handle, 8)
        allocator.free(handle)
        allocator.allocate("B", 1)
    assert [tuple(waste) for waste in waste_over_time(recording)] == [
        (4, 4, 2, 20), (8, 0, 2, 20), (0, 0, 0, 30), (1, 0, 9, 20)]


@pytest.mark.parametrize("make", [lambda: StaticReservation(4000, 400), lambda: PagedAllocator(4000, 64),
                                  lambda: FirstFit(4000), lambda: BuddyChunkAllocator(4096, 16, 5)],
                         ids=["static", "paged", "first fit", "buddy"])
def test_the_parts_add_up_at_every_moment(make):
    rng = random.Random(2)
    requests = [KVRequest(f"r{i}", rng.randint(1, 30), rng.randint(1, 9)) for i in range(40)]
    recording = run(as_workload(requests, 10, concurrent=6), make())
    for waste, state in zip(waste_over_time(recording), replay_memory(recording), strict=True):
        assert sum(waste) == recording.capacity_bytes and min(waste) >= 0
        assert waste.filled_bytes == state.requested_bytes
    assert max(waste.filled_bytes for waste in waste_over_time(recording)) > 1000


def test_memory_that_is_held_belongs_to_nobody():
    events = [MemoryEvent(0, "allocate", "A", 6, (Change(RESERVE, 0, 20), Change(TAKE, 0, 10, 6)), {}),
              MemoryEvent(1, "free", "A", 6, (Change(HOLD, 0, 10, 6),), {}),
              MemoryEvent(2, "synchronize", None, 0, (Change(GIVE, 0, 10),), {})]
    assert [tuple(waste) for waste in waste_over_time(MemoryRecording(20, events=events))] == [
        (0, 0, 0, 20), (6, 0, 4, 10), (0, 0, 0, 20), (0, 0, 0, 20)]
    held = Layout((Segment(0, 20),), (Piece(0, 10, "A", 6, held=True),))
    before = MemoryRecording(20, initial=held, events=events[2:])
    assert [tuple(waste) for waste in waste_over_time(before)] == [(0, 0, 0, 20), (0, 0, 0, 20)]


def test_waste_needs_a_capacity():
    with pytest.raises(ValueError, match="no capacity_bytes"):
        list(waste_over_time(MemoryRecording(None)))


def test_cost_is_counted():
    recording = run(Workload.parse("a A 10\na B 10\ng A 15\na C 60\ng C 65\nf C\nf A\na D 20"), FirstFit(40))
    # A moves to 20; C is refused, so what C does is skipped; the looks: 1, 1, 1, 2, then 2 for D
    assert cost_of(recording) == Cost(calls=6, refused=1, looks=7, device_calls={}, moved_bytes=10)
    chunks = run(Workload.parse("a A 8\na B 8\na C 4"), BuddyChunkAllocator(24, 1, 3))
    assert cost_of(chunks).device_calls == {"malloc": 3}
    assert cost_of(MemoryRecording(1)) == Cost(0, 0, 0, {}, 0)
