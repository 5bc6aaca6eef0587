"""First, best and next fit: which run each chooses, and how they grow."""

import pytest

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import GIVE, MOST_LOOKS, TAKE, Look, record_memory
from pagedkv.rivals.fits import BestFit, FirstFit, NextFit
from pagedkv.rivals.workload import Workload, run

# free runs afterwards: 0–30, 40–50, 60–80 and 90–100
HOLES = "a A 30\na x 10\na B 10\na y 10\na C 20\na z 10\nf A\nf B\nf C\n"
CHOSEN = "chosen"


def last(kind, text, capacity_bytes=100):
    return run(Workload.parse(text), kind(capacity_bytes)).events[-1]


@pytest.mark.parametrize("kind, size, address", [
    (FirstFit, 10, 0), (FirstFit, 31, None), (FirstFit, 30, 0),
    (BestFit, 10, 40), (BestFit, 11, 60), (BestFit, 20, 60), (BestFit, 21, 0), (BestFit, 31, None),
    (NextFit, 10, 90), (NextFit, 11, 0), (NextFit, 30, 0), (NextFit, 31, None),  # its last search ended at 90, behind z
])
def test_which_run(kind, size, address):
    event = last(kind, HOLES + f"a D {size}")
    taken = [change.address for change in event.changes if change.kind == TAKE]
    assert taken == ([address] if address is not None else [])
    assert event.detail.get("error") == (None if taken else "OutOfMemory")


def test_next_fit_goes_on_where_it_ended_and_round():
    text = HOLES + "a D 5\na E 5\na F 5\na G 15"
    recording = run(Workload.parse(text), NextFit(100))
    places = [event.changes[0].address for event in recording.events[-4:]]
    assert places == [90, 95, 0, 5]
    assert recording.events[-4].detail["decision"].notes == ("the search begins at 0x5a (90 B)",)


def test_next_fit_does_not_cut_a_run_in_the_middle():
    # the rover is at 20, in the middle of the run 10 … 100: that run is looked at after all others, from its beginning
    event = last(NextFit, "a A 10\na B 10\nf B\na C 5")
    assert event.changes[0].address == 10


def test_looks_tell_the_rule():
    def looks(kind, size):
        return last(kind, HOLES + f"a D {size}").detail["decision"].looks

    assert looks(FirstFit, 10) == (Look("free run", 0, 30, CHOSEN),)
    assert looks(BestFit, 15) == (Look("free run", 40, 10, "too short"),
                                  Look("free run", 0, 30, "long enough, but a later one is shorter"),
                                  Look("free run", 90, 10, "too short"), Look("free run", 60, 20, CHOSEN))
    assert looks(NextFit, 25) == (Look("free run", 90, 10, "too short"), Look("free run", 0, 30, CHOSEN))
    assert [look.verdict for look in looks(FirstFit, 31)] == ["too short"] * 4


def test_of_many_looks_the_first_and_the_chosen_are_kept():
    allocator = FirstFit(1000)
    handles = [allocator.allocate(i, 10) for i in range(50)]
    for handle in handles[::2]:
        allocator.free(handle)
    with record_memory(allocator) as recording:
        allocator.allocate("long", 11)
    decision = recording.events[0].detail["decision"]
    assert decision.num_looks == 26 and len(decision.looks) == MOST_LOOKS
    assert [look.address for look in decision.looks] == [*range(0, 220, 20), 500]


def test_refusals_say_which_of_the_two_reasons():
    allocator = FirstFit(100)
    run(Workload.parse(HOLES), allocator)
    with pytest.raises(OutOfMemory, match="31 B wanted; 70 B free, the largest run 30 B"):
        allocator.allocate("D", 31)
    with pytest.raises(OutOfMemory, match="71 B wanted, 70 B free"):
        allocator.allocate("D", 71)


@pytest.mark.parametrize("kind", [FirstFit, BestFit, NextFit])
def test_growing_in_place_and_by_moving(kind):
    allocator = kind(100)
    with record_memory(allocator) as recording:
        a = allocator.allocate("A", 10)
        b = allocator.allocate("B", 10)
        b = allocator.grow(b, 30)
        a = allocator.grow(a, 20)
        with pytest.raises(OutOfMemory):
            allocator.grow(b, 61)  # 50 behind A, 10 before B: neither is enough
        assert [(piece.owner, piece.address, piece.size_bytes) for piece in allocator.layout().pieces] == [
            ("B", 10, 30), ("A", 40, 20)]
        allocator.free(a)
        allocator.grow(b, 90)
    in_place, moved, refused, _, all_of_it = recording.events[2:]
    assert [change[:3] for change in in_place.changes] == [(GIVE, 10, 10), (TAKE, 10, 30)]
    assert [change[:3] for change in moved.changes] == [(TAKE, 40, 20), (GIVE, 0, 10)]
    assert "moved_bytes" not in in_place.detail and moved.detail["moved_bytes"] == 10
    assert refused.changes == () and "moved_bytes" not in refused.detail
    assert [change.address for change in all_of_it.changes] == [10, 10]
    assert allocator.layout().pieces[0].size_bytes == 90


def test_growing_to_the_same_size_changes_nothing():
    allocator = FirstFit(10)
    handle = allocator.grow(allocator.allocate("A", 10), 10)
    assert allocator.layout().pieces[0].size_bytes == 10
    allocator.free(handle)
