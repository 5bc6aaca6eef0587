"""Workloads: their text form, what is no workload, and running them."""

import pytest

from pagedkv.core.memory import TAKE
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.setup import Setup
from pagedkv.rivals.static import StaticReservation
from pagedkv.rivals.workload import Request, Workload, run

TEXT = """\
# a comment
a A 64
a B 2k   # sizes have units

g A 3M
f B
a B 1G
"""


def test_the_text_form():
    workload = Workload.parse(TEXT, "mine")
    assert workload.name == "mine" and len(workload) == 5
    assert list(workload.requests) == [
        Request("allocate", "A", 64), Request("allocate", "B", 2048), Request("grow", "A", 3 << 20),
        Request("free", "B"), Request("allocate", "B", 1 << 30)]
    assert workload.text() == "a A 64\na B 2048\ng A 3145728\nf B\na B 1073741824\n"
    assert Workload.parse(workload.text(), "mine") == workload
    assert Workload.parse("").requests == ()


def test_reading_a_file(tmp_path):
    path = tmp_path / "seven lines.txt"
    path.write_text(TEXT, encoding="utf-8")
    assert Workload.read(path) == Workload.parse(TEXT, "seven lines")


def test_owners_may_be_anything_and_are_written_by_name():
    workload = Workload("w", [Request("allocate", 7, 1), Request("allocate", "request 3", 2), Request("free", 7)])
    assert workload.text() == "a 7 1\na request_3 2\nf 7\n"


@pytest.mark.parametrize("text, message", [
    ("a A 1\nb A 2", "line 2: expected .*got: b A 2"), ("a A", "line 1: expected"), ("a A 1 2", "line 1: expected"),
    ("a A 1\n\nf A 1", "line 3: expected"), ("f", "line 1"),
    ("a A x", "line 1: a size is written as 64, 64K, 64M or 1G, got x"),
    ("a A -1", "line 1: a size"), ("a A 1.5M", "line 1: a size"), ("a A 64KB", "line 1: a size"),
    ("a A 1\na A 1", "line 2: A allocates again before"), ("a A 0", "line 1: A asks for 0 bytes"),
    ("f A", "line 1: A has nothing to free"), ("a A 1\nf A\ng A 2", "line 3: A has nothing to grow"),
    ("a A 5\ng A 4", "line 2: A has 5 bytes and cannot grow to 4"),
])
def test_what_is_no_workload(text, message):
    with pytest.raises(ValueError, match=message):
        Workload.parse(text)


def test_a_sequence_without_lines_is_counted():
    with pytest.raises(ValueError, match="request 1: A allocates again before"):
        Workload("twice", [Request("allocate", "A", 1), Request("allocate", "A", 1)])


def test_an_unknown_request():
    with pytest.raises(ValueError, match="request 0: 'shrink' is not one of allocate, grow, free"):
        Workload("w", [Request("shrink", "A", 1)])


def test_event_i_belongs_to_request_i():
    """What an owner does after it was refused is skipped, so that two recordings can be stepped through together."""
    workload = Workload.parse("a A 60\na B 50\ng B 55\nf B\na B 40\ng A 61\nf A\nf B")
    recording = run(workload, FirstFit(100))
    assert [event.step for event in recording.events] == list(range(len(workload)))
    assert [(event.op, event.owner) for event in recording.events] == [request[:2] for request in workload.requests]
    assert [event.refused for event in recording.events] == [False, True, False, False, False, True, False, False]
    assert [event.step for event in recording.events if event.detail.get("skipped")] == [2, 3]
    assert recording.events[5].size_bytes == 61 and recording.events[6].size_bytes == 60  # A keeps what it had
    roomy = run(workload, FirstFit(1000))
    assert len(roomy) == len(recording)
    assert not any(event.refused or event.detail.get("skipped") for event in roomy.events)


def test_running_on_an_allocator_in_use_keeps_steps_and_start():
    allocator = FirstFit(100)
    allocator.allocate("there already", 10)
    run(Workload.parse("a A 5\nf A"), allocator)
    recording = run(Workload.parse("a A 5\nf A"), allocator)
    assert [event.step for event in recording.events] == [0, 1]
    assert [change.address for change in recording.events[0].changes if change.kind == TAKE] == [10]
    assert [piece.owner for piece in recording.initial.pieces] == ["there already"]
    assert allocator.observer is None


def test_an_error_that_is_no_answer_comes_through():
    allocator = StaticReservation(100, 50, "oracle", final_bytes={})
    with pytest.raises(ValueError, match="does not tell"):
        run(Workload.parse("a A 5"), allocator)
    assert allocator.observer is None


def test_progress():
    told = []
    requests = [Request("allocate", "A", 1), Request("free", "A")] * 1500
    run(Workload("w", requests), FirstFit(10), on_progress=told.append)
    assert told == [0, 1024, 2048]


def test_setups():
    setup = Setup(StaticReservation, {"max_request_bytes": 50}, "static")
    assert [one.keyword for one in setup.known_settings] == ["policy", "max_request_bytes"]
    changed = setup.with_settings(policy="pow2")
    assert changed.settings == {"max_request_bytes": 50, "policy": "pow2"}
    assert setup.settings == {"max_request_bytes": 50}
    assert changed.title == "static" and changed.make(100).policy == "pow2" and changed.make(70).capacity_bytes == 70
    with pytest.raises(ValueError, match="static has no setting 'size'; it has max_request_bytes, policy"):
        setup.with_settings(size=1)
    with pytest.raises(ValueError, match="FirstFit has no setting 'size'; it has none"):
        Setup(FirstFit).with_settings(size=1)
