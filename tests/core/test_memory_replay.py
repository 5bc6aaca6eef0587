"""Replay of memory events: the sums, segments that grow and shrink, and everything that no correct allocator does."""

import pytest

from pagedkv.core.memory import (FILL, GIVE, HOLD, RESERVE, TAKE, UNRESERVE, Change, Layout, MemoryEvent,
                                 MemoryRecording, Piece, Segment)
from pagedkv.core.memory_replay import EXPANDABLE, MemoryState, end_of, replay_memory


def play(*changes, initial=Layout(), owner="A"):
    """The state after one event per change."""
    state = MemoryState(initial)
    for step, change in enumerate(changes):
        state.apply(MemoryEvent(step, "allocate", owner, 0, (Change(*change),), {}))
    return state


def sums(state):
    return state.reserved_bytes, state.used_bytes, state.requested_bytes, state.held_bytes, state.free_bytes


def test_the_sums_of_a_life():
    state = MemoryState()
    for change, expected in [((RESERVE, 0, 100), (100, 0, 0, 0, 100)), ((TAKE, 10, 30, 20), (100, 30, 20, 0, 70)),
                             ((FILL, 10, 30, 25), (100, 30, 25, 0, 70)), ((TAKE, 40, 60, 60), (100, 90, 85, 0, 10)),
                             ((HOLD, 10, 30), (100, 60, 60, 30, 10)), ((GIVE, 10, 30), (100, 60, 60, 0, 40)),
                             ((GIVE, 40, 60), (100, 0, 0, 0, 100)), ((UNRESERVE, 0, 100), (0, 0, 0, 0, 0))]:
        state.apply(MemoryEvent(0, "x", "A", 0, (Change(*change),), {}))
        assert sums(state) == expected
    assert not state.faults and state.layout() == Layout()


def test_layout_and_lookups():
    state = play((RESERVE, 100, 50, 0, "small"), (RESERVE, 0, 50), (TAKE, 120, 10, 5), (TAKE, 0, 20, 20))
    assert state.layout() == Layout((Segment(0, 50), Segment(100, 50, "small")),
                                    (Piece(0, 20, "A", 20), Piece(120, 10, "A", 5)))
    assert [state.segment_of(address) for address in (-1, 0, 49, 50, 99, 149, 150)] == [
        None, Segment(0, 50), Segment(0, 50), None, None, Segment(100, 50, "small"), None]
    assert list(state.free) == [(20, 30), (100, 20), (130, 20)] and state.largest_free_bytes == 30
    again = MemoryState(state.layout())
    assert again.layout() == state.layout() and sums(again) == sums(state) and not again.faults


def test_initial_pieces_that_are_held():
    state = MemoryState(Layout((Segment(0, 10),), (Piece(0, 4, "A", 3, held=True),)))
    assert sums(state) == (10, 0, 0, 4, 6) and state.layout().pieces[0].held
    assert MemoryState(state.layout()).layout() == state.layout()


def test_neighbouring_segments_stay_two_unless_they_are_expandable():
    apart = play((RESERVE, 0, 10), (RESERVE, 10, 10))
    assert list(apart.free) == [(0, 10), (10, 10)] and len(apart.segments) == 2
    mixed = play((RESERVE, 0, 10, 0, EXPANDABLE), (RESERVE, 10, 10))
    assert len(mixed.segments) == 2
    grown = play((RESERVE, 0, 10, 0, EXPANDABLE), (RESERVE, 20, 10, 0, EXPANDABLE), (RESERVE, 10, 10, 0, EXPANDABLE))
    assert grown.layout().segments == (Segment(0, 30, EXPANDABLE),)
    assert list(grown.free) == [(0, 30)] and grown.reserved_bytes == 30 and not grown.faults


def test_part_of_an_expandable_segment_goes_back():
    state = play((RESERVE, 0, 30, 0, EXPANDABLE), (TAKE, 20, 10, 10), (UNRESERVE, 5, 10))
    assert state.layout().segments == (Segment(0, 5, EXPANDABLE), Segment(15, 15, EXPANDABLE))
    assert list(state.free) == [(0, 5), (15, 5)] and state.reserved_bytes == 20 and not state.faults


def test_what_was_carried_out_is_told_in_whole_segments():
    state = play((RESERVE, 0, 10, 0, EXPANDABLE))
    changes = Change(RESERVE, 10, 10, 0, EXPANDABLE), Change(UNRESERVE, 0, 5)
    done = state.apply(MemoryEvent(1, "x", "A", 0, changes, {}))
    assert [tuple(change) for change in done] == [
        (UNRESERVE, 0, 10, 0, EXPANDABLE), (RESERVE, 0, 20, 0, EXPANDABLE),
        (UNRESERVE, 0, 20, 0, EXPANDABLE), (RESERVE, 5, 15, 0, EXPANDABLE)]


START = ((RESERVE, 0, 100), (TAKE, 20, 20, 10), (TAKE, 60, 20, 20), (HOLD, 60, 20))


@pytest.mark.parametrize("wrong, message", [
    ((RESERVE, 99, 5), "a segment at 0x63 overlaps another"), ((RESERVE, 0, 100), "overlaps"),
    ((RESERVE, 200, 0), "overlaps"), ((UNRESERVE, 0, 100), "memory in use was given back to the device"),
    ((UNRESERVE, 100, 1), "there is no segment at 0x64"),
    ((UNRESERVE, 90, 11), "there is no segment"), ((UNRESERVE, 60, 20), "memory in use"),
    ((TAKE, 30, 5, 5), "memory that is not free was given to A, at 0x1e"), ((TAKE, 10, 11, 5), "not free"),
    ((TAKE, 95, 6, 6), "not free"), ((TAKE, 200, 1, 1), "not free"), ((TAKE, 0, 0, 0), "not free"),
    ((FILL, 20, 20, 21), "A filled memory it does not have, at 0x14"), ((FILL, 21, 5, 5), "filled memory"),
    ((FILL, 60, 20, 20), "filled memory"),
    ((GIVE, 0, 20), "A gave back memory that is free, at 0x0"), ((GIVE, 30, 10), "gave back"),
    ((HOLD, 60, 20), "A let go of memory it does not have, at 0x3c"), ((HOLD, 0, 20), "let go"),
])
def test_a_fault_is_noted_and_left_out(wrong, message):
    before, state = play(*START), play(*START, wrong)
    fault, = state.faults
    assert fault.step == len(START) and fault.address == wrong[1] and message in fault.message
    assert state.layout() == before.layout() and sums(state) == sums(before) and list(state.free) == list(before.free)


def test_an_unknown_change_is_an_error():
    with pytest.raises(ValueError, match="step 0: replay does not know the change 'vanish'"):
        play(("vanish", 0, 1))


def test_replay_gives_the_state_before_the_first_event_too():
    events = [MemoryEvent(0, "allocate", "A", 4, (Change(RESERVE, 0, 10), Change(TAKE, 0, 4, 4)), {}),
              MemoryEvent(1, "free", "A", 4, (Change(GIVE, 0, 4, 4),), {})]
    recording = MemoryRecording(10, events=events)
    assert [sums(state) for state in replay_memory(recording)] == [(0, 0, 0, 0, 0), (10, 4, 4, 0, 6), (10, 0, 0, 0, 10)]
    assert sums(end_of(recording)) == (10, 0, 0, 0, 10)
    assert sums(end_of(MemoryRecording(10))) == (0, 0, 0, 0, 0)
