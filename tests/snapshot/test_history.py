"""The trace walked back and forth: it has to lead from the true beginning to the file's own end, whatever is
missing."""

import random

import pytest

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import record_memory
from pagedkv.core.memory_replay import end_of
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.snapshot import history as histories
from pagedkv.snapshot.contents import INACTIVE, PENDING, from_plain
from pagedkv.snapshot.history import history_of, last_events
from pagedkv.snapshot.write import plain_of_recording
from tests.snapshot.files import (BASE, MIB, REAL, block, entry, frames, free, freed, needs_real_files, real, segment,
                                  snapshot)


def pieces(layout):
    return [(piece.address, piece.size_bytes, piece.requested_bytes, piece.held) for piece in layout.pieces]


def at_the_end(device):
    """What the file itself says."""
    return [(each.address, each.size_bytes, each.requested_bytes, each.state == PENDING)
            for record in device.segments for each in record.blocks if each.state != INACTIVE]


def checked(plain, device=None):
    """The history, after what has to hold for all of them: replay finds no fault, and the end is the file's."""
    read = from_plain(plain)
    history = history_of(read, device)
    end = end_of(history.recording)
    assert not end.faults
    assert pieces(end.layout()) == at_the_end(history.device)
    assert end.reserved_bytes == history.device.reserved_bytes
    assert end.layout() == history.end.layout()
    assert len(history.recording) >= len(history.trace)
    assert [event.step for event in history.recording.events] == list(range(len(history.recording)))
    return history


@needs_real_files
@pytest.mark.parametrize("name, older", [("inference", 0), ("training", 438)])
def test_the_real_snapshots_add_up(name, older):
    history = checked(real(name))
    assert not history.problems and history.num_older_frees == older
    assert len(history.recording) == len(history.trace), "one event for each entry"
    if name == "training":
        assert sum(source.entry >= 0 for source in history.sources.values()) == 659
        assert sum(source.entry < 0 for source in history.sources.values()) == 226


@needs_real_files
@pytest.mark.parametrize("name", REAL)
def test_the_rules_alone_give_every_size_of_a_real_gpu(name):
    """The sizes at the end are known; without looking at them, the rules lead to the same."""
    read = from_plain(real(name))
    device = read.device()
    rules = histories._Rules.of(read.settings)
    before = histories._Before(device, {})
    before.walk(None)
    initial = before.layout(rules)
    before.true_size.clear()
    forward = histories._Forward(device, initial, before, rules, {})
    forward.walk(None)
    assert pieces(forward.state.layout()) == at_the_end(device)


SETTINGS = [{}, {"expandable_segments": True}, {"max_split_size_mb": 32}, {"roundup_power2_divisions": 4}]
SIZES = [512, 700, 100_000, MIB, 3 * MIB, 9 * MIB + 5, 12 * MIB, 30 * MIB + 1, 70 * MIB]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("seed", range(6))
def test_the_beginning_is_found_from_the_end(settings, seed):
    """Any part of an allocator's life, recorded from the middle on."""
    chance = random.Random(seed)
    allocator = CachingAllocator(600 * MIB, **settings)
    live = []

    def live_on(steps):
        for _ in range(steps):
            if live and chance.random() < 0.48:
                allocator.free(live.pop(chance.randrange(len(live))))
            else:
                try:
                    live.append(allocator.allocate("x", chance.choice(SIZES)))
                except OutOfMemory:
                    pass
            if chance.random() < 0.01:
                allocator.empty_cache()

    live_on(chance.randrange(300))
    truth = allocator.layout()
    with record_memory(allocator) as recording:
        live_on(400)
    written = {"roundup_power2_divisions": settings.get("roundup_power2_divisions", 0),
               "max_split_size": settings.get("max_split_size_mb", 0) * MIB or -1}
    history = checked(plain_of_recording(recording, written))
    assert not history.problems
    assert pieces(history.recording.initial) == pieces(truth)
    assert sum(each.size_bytes for each in history.recording.initial.segments) == sum(each.size_bytes
                                                                                      for each in truth.segments)


def test_each_entry_becomes_one_event():
    who = frames(("torch/functional.py", 1, "cat"), ("cache.py", 12, "append"))
    history = checked(snapshot(
        [segment(BASE, block(4 * MIB, frames=who), free(16 * MIB))],
        [entry("segment_alloc", BASE, 20 * MIB, time_us=1), entry("alloc", BASE, 4 * MIB, time_us=2, frames=who),
         entry("alloc", BASE + 4 * MIB, 3 * MIB, time_us=3), *freed(BASE + 4 * MIB, 3 * MIB),
         {"action": "oom", "size": 64 * MIB, "stream": 0, "device_free": 30 * MIB, "frames": who},
         entry("segment_alloc", BASE + 64 * MIB, 2 * MIB), entry("segment_free", BASE + 64 * MIB, 2 * MIB),
         entry("snapshot", 0, 0)]))
    assert not history.problems and history.recording.capacity_bytes == 50 * MIB
    events = history.recording.events
    assert [(event.op, [change.kind for change in event.changes], event.owner) for event in events] == [
        ("segment_alloc", ["reserve"], None), ("alloc", ["take"], "cache.py:12 append"), ("alloc", ["take"], "3 MiB"),
        ("free_requested", ["hold"], "3 MiB"), ("free_completed", ["give"], "3 MiB"), ("oom", [], "cache.py:12 append"),
        ("segment_alloc", ["reserve"], None), ("segment_free", ["unreserve"], None), ("snapshot", [], None)]
    assert events[5].refused and events[5].detail["device_free_bytes"] == 30 * MIB
    assert events[1].detail["time_us"] == 2 and events[1].detail["frames"].site == "cache.py:12 append"
    assert (history.peak_reserved.size_bytes, history.peak_reserved.frame) == (22 * MIB, 7)
    assert (history.peak_used.size_bytes, history.peak_used.frame) == (7 * MIB, 3)
    refusal = history.refusals[0]
    assert refusal.index == 5 and pieces(refusal.layout) == [(BASE, 4 * MIB, 4 * MIB, False)]


def test_a_rest_of_up_to_1_mib_goes_with_its_block():
    """19.5 MiB of a segment of 20: nothing is split off."""
    history = checked(snapshot([segment(BASE, free(20 * MIB))],
                               [entry("alloc", BASE, 19 * MIB + 512), *freed(BASE, 19 * MIB + 512)]))
    assert history.recording.events[0].changes[0][2:4] == (20 * MIB, 19 * MIB + 512)


def test_without_a_trace_there_is_the_last_state():
    history = checked(snapshot([segment(BASE, block(MIB, requested=700), free(MIB))]))
    assert len(history.recording) == 0 and pieces(history.recording.initial) == [(BASE, MIB, 700, False)]


def test_an_empty_device_has_an_empty_history():
    assert len(checked(snapshot([], [])).recording) == 0
    assert len(checked(snapshot()).recording) == 0


def test_a_trace_that_begins_in_the_middle():
    history = checked(snapshot([segment(BASE, free(2 * MIB))], freed(BASE, 700)))
    assert pieces(history.recording.initial) == [(BASE, 1024, 700, False)]
    assert history.num_older_frees == 1 and not history.problems


def test_who_frees_is_not_who_owns():
    who = frames(("garbage.py", 1, "collect"))
    history = checked(snapshot([segment(BASE, free(2 * MIB))], freed(BASE, 700, frames=who)))
    assert {event.owner for event in history.recording.events} == {histories.OLDER}


def test_a_trace_that_begins_between_the_two_entries_of_a_free():
    history = checked(snapshot([segment(BASE, free(2 * MIB))], freed(BASE, 700)[1:]))
    assert pieces(history.recording.initial) == [(BASE, 1024, 700, True)], "it is held"
    assert not history.problems


def test_a_free_that_is_pending_at_the_end():
    for state in ("active_pending_free", "active_awaiting_free"):
        history = checked(snapshot([segment(BASE, block(1024, state, 700), free(2 * MIB - 1024))],
                                   [entry("alloc", BASE, 700), entry("free_requested", BASE, 700)]))
        assert history.end.held_bytes == 1024 and history.end.used_bytes == 0 and not history.problems


def test_a_free_that_is_completed_long_after():
    other = BASE + 1024
    history = checked(snapshot([segment(BASE, free(2 * MIB))],
                               [entry("alloc", BASE, 700), entry("free_requested", BASE, 700),
                                entry("alloc", other, 512),
                                *freed(other, 512), entry("free_completed", BASE, 700)]))
    assert not history.problems
    assert [event.changes[0].kind for event in history.recording.events] == ["take", "hold", "take", "hold", "give",
                                                                             "give"]


@pytest.mark.parametrize("left_out", ["free_requested", "free_completed"])
def test_kinds_of_entries_that_were_not_recorded(left_out):
    """skip_actions of `_record_memory_history`."""
    trace = [each for each in [entry("alloc", BASE, 700), *freed(BASE, 700), entry("alloc", BASE, 512),
                               *freed(BASE, 512)]
             if each["action"] != left_out]
    history = checked(snapshot([segment(BASE, free(2 * MIB))], trace))
    assert not history.problems
    assert [event.changes[0].kind for event in history.recording.events] == ["take", "give"] * 2


def test_segments_that_were_not_recorded():
    trace = [entry("alloc", BASE, 700), *freed(BASE,
                                               700)]  # in a segment that is gone, by a segment_free nobody recorded
    history = checked(snapshot([segment(BASE + 64 * MIB, free(2 * MIB))], trace))
    assert history.problems == {histories.NOT_FREE: 1, histories.NOT_THERE: 2}


def test_recording_that_stopped_before_the_snapshot():
    """What happened in between appears in last events, and the end is the file's."""
    history = checked(snapshot(
        [segment(BASE, block(3 * MIB, frames=frames(("late.py", 1, "f"))), block(4 * MIB, "active_pending_free"),
                 free(13 * MIB)),
         segment(BASE + 64 * MIB, block(2 * MIB))],
        [entry("alloc", BASE + MIB, 2 * MIB), entry("alloc", BASE + 8 * MIB, 5 * MIB)]))
    assert history.problems[histories.OVERWRITTEN] and history.problems[histories.UNRECORDED]
    late = [event for event in history.recording.events if event.op == "unrecorded"]
    assert "late.py:1 f" in {event.owner for event in late}


def test_a_recording_that_was_started_twice_with_nothing_in_between():
    history = checked(snapshot([segment(BASE, block(1024), free(2 * MIB - 1024))],
                               [entry("alloc", BASE, 1024), entry("alloc", BASE, 700)]))
    assert history.problems


def test_expandable_segments():
    pages = [entry("segment_map", BASE, 20 * MIB), entry("alloc", BASE, 15 * MIB),
             entry("segment_map", BASE + 20 * MIB, 20 * MIB),
             entry("alloc", BASE + 15 * MIB, 20 * MIB), *freed(BASE, 15 * MIB), *freed(BASE + 15 * MIB, 20 * MIB),
             entry("segment_unmap", BASE + 20 * MIB, 20 * MIB)]
    history = checked(snapshot([segment(BASE, free(20 * MIB), is_expandable=True)], pages))
    assert not history.problems and history.recording.initial.segments == ()
    assert history.peak_reserved.size_bytes == 40 * MIB
    middle = snapshot([segment(BASE, free(20 * MIB), is_expandable=True)], pages[4:])
    history = checked(middle)
    assert not history.problems and pieces(history.recording.initial) == [(BASE, 15 * MIB, 15 * MIB, False),
                                                                         (BASE + 15 * MIB, 20 * MIB, 20 * MIB, False)]


def test_several_devices_and_streams():
    plain = snapshot([segment(BASE, free(2 * MIB)), segment(BASE, block(2 * MIB), device=1, stream=7)],
                     [entry("alloc", BASE, 512, stream=3), *freed(BASE, 512, stream=3)],
                     [entry("alloc", BASE, 2 * MIB, stream=7)])
    assert checked(plain, 0).recording.events[0].detail["stream"] == 3
    assert checked(plain, 1).sources[BASE].stream == 7


def test_the_first_and_the_last_refusal_are_kept():
    trace = [{"action": "oom", "size": size * MIB, "device_free": 0} for size in (1, 2, 3)]
    history = checked(snapshot([segment(BASE, free(2 * MIB))], trace))
    assert [refusal.entry.size_bytes for refusal in history.refusals] == [MIB, 3 * MIB] and history.num_refusals == 3


def test_the_last_events_alone():
    history = checked(snapshot([segment(BASE, block(1024), free(2 * MIB - 1024))],
                               [entry("alloc", BASE, 700), *freed(BASE, 700), entry("alloc", BASE, 1024)]))
    short = last_events(history.recording, 2)
    assert len(short) == 2 and end_of(short).layout() == end_of(history.recording).layout() and not end_of(short).faults
    assert last_events(history.recording, 9) is history.recording
