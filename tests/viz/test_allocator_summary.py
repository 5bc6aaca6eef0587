"""The table of what several allocators did with one workload. The numbers are counted by hand."""

from pagedkv.core.memory import GIVE, RESERVE, TAKE, Change, Decision, MemoryEvent, MemoryRecording
from pagedkv.core.memory_metrics import Metrics
from pagedkv.core.memory_replay import end_of
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.workload import Workload, run
from pagedkv.viz.allocator_summary import Outcome, Summary, outcome_of
from pagedkv.viz.memory_tape import MemoryTape

M = 1 << 20


def event(step, op, *changes, **detail):
    return MemoryEvent(step, op, "A", 4 * M, changes, detail)


RECORDED = MemoryRecording(64 * M, "by hand", events=[
    event(0, "allocate", Change(RESERVE, 0, 16 * M), Change(TAKE, 0, 4 * M, 4 * M), device_calls={"malloc": 1},
          decision=Decision(4 * M, 4 * M, (), 3)),
    event(1, "allocate", Change(TAKE, 8 * M, 4 * M, 3 * M), decision=Decision(4 * M, 4 * M, (), 5)),
    event(2, "grow", Change(TAKE, 12 * M, 4 * M, 4 * M), Change(GIVE, 8 * M, 4 * M), moved_bytes=3 * M),
    event(3, "allocate", error="OutOfMemory", message="no", device_calls={"malloc": 1, "free": 2}),
    event(4, "free", skipped=True),
    event(5, "free", Change(GIVE, 12 * M, 4 * M)),
])


def outcome_after(num_events):
    recording = MemoryRecording(64 * M, "by hand", events=RECORDED.events[:num_events])
    return outcome_of(recording, MemoryTape(recording))


def test_an_outcome():
    # at the end 4 … 16 MiB is free, in one run; what is in use is read after each event, not in the middle of the grow
    assert outcome_after(6) == Outcome(1, 8 * M, 16 * M, 12 * M, 48 * M, 0.0, 8, 4, 3 * M)
    assert outcome_after(5) == Outcome(1, 8 * M, 16 * M, 8 * M, 48 * M, 0.0, 8, 4, 3 * M)
    assert outcome_after(2) == Outcome(0, 8 * M, 16 * M, 4 * M, 48 * M, 0.5, 8, 1, 0)
    nothing = MemoryRecording(None)
    assert outcome_of(nothing, MemoryTape(nothing)) == Outcome(0, 0, 0, 0, 0, 0.0, 0, 0, 0)


def test_its_fragmentation_is_that_of_the_metrics():
    workload = Workload.parse("a A 20M\na B 30M\na C 21M\na D 30M\nf A\nf C", "holes")
    for kind in (FirstFit, PagedAllocator):
        recording = run(workload, kind(128 * M))
        end = Metrics.of(end_of(recording), recording.capacity_bytes, recording.in_pieces)
        assert end.free_bytes > 0
        assert outcome_of(recording, MemoryTape(recording)).external_fragmentation == end.external_fragmentation


def outcome(**numbers):
    return Outcome(*range(9))._replace(**{"refused_requests": 0, **numbers})


def marks_of(summary):
    return {row.name: "".join(mark or "-" for mark in row.marks) for row in summary.rows}


def test_the_best_of_a_row_is_marked_unless_all_are_alike():
    summary = Summary(["one", "two", "three"], [outcome(looks=5, largest_free_bytes=9),
                                                outcome(looks=5, largest_free_bytes=7),
                                                outcome(looks=6, largest_free_bytes=9)])
    marks = marks_of(summary)
    assert marks["looks"] == "★★-"
    assert marks["largest free run, at the end"] == "★-★", "of free runs the longest is best"
    assert marks["moved"] == "---"
    assert summary.note == "★ best of its row"
    assert Summary(["one"], [outcome()]).note == ""


def test_who_refuses_more_has_a_hollow_mark():
    summary = Summary(["one", "two", "three"],
                      [outcome(looks=5), outcome(looks=4), outcome(looks=1, refused_requests=2)])
    marks = marks_of(summary)
    assert marks["refused requests"] == "★★-" and marks["looks"] == "--☆" and marks["moved"] == "---"
    assert summary.note == ("★ best of its row · "
                            "☆ best of its row, but refused more requests than another and had less to do")


def test_the_table_in_text():
    summary = Summary(["first fit", "paged"],
                      [outcome(looks=1500, peak_used_bytes=64 * M, external_fragmentation=0.125),
                       outcome(looks=2, peak_used_bytes=65 * M, external_fragmentation=0.0)])
    lines = str(summary).splitlines()
    assert lines[0] == "                                    first fit     paged"
    assert lines[2] == "peak used                              64 MiB ★  65 MiB"
    assert lines[6] == "external fragmentation, at the end      12.5%      0.0% ★"
    assert lines[7] == "looks                                   1,500         2 ★"
    assert lines[-1] == "★ best of its row"
    assert repr(summary) == str(summary)


def test_as_data():
    assert Summary(["one"], [outcome(looks=3)]).as_dicts()["one"]["looks"] == 3
    assert Summary(["one"], [outcome()]).rows[1].values == (1,)
