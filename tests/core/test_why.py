"""Why a request failed."""

import pytest

from pagedkv.core.memory import Layout, Piece, Segment
from pagedkv.core.memory_replay import MemoryState
from pagedkv.core.why import why_refused

MIB = 1 << 20


def state(*pieces, segments=((0, 100),)):
    """pieces: (address, size, requested) or (…, held), in MiB."""
    return MemoryState(Layout(
        tuple(Segment(address * MIB, size * MIB) for address, size in segments),
        tuple(Piece(piece[0] * MIB, piece[1] * MIB, f"at {piece[0]}", piece[2] * MIB, *piece[3:]) for piece in pieces)))


@pytest.mark.parametrize("memory, capacity, size, kind, text", [
    (state((0, 60, 60)), 100, 40, "fits",
     "A rule of the allocator: 40 MiB wanted, and a free run has 40 MiB. What its rule is, the decision tells."),
    (state((0, 60, 60)), 160, 60, "fits", "A rule of the allocator: 60 MiB wanted, and the device could give 60 MiB. What"),
    (state((20, 30, 30), (70, 30, 30)), 100, 25, "fragmented",
     "Fragmented: 25 MiB wanted, 40 MiB free in total, but the largest of 2 free runs has 20 MiB."),
    (state((0, 60, 60)), 130, 70, "fragmented",
     "Fragmented: 70 MiB wanted, 70 MiB free in total, but the largest of 1 free run has 40 MiB, 30 MiB are left of "
     "the device."),
    (state((0, 80, 80)), 100, 25, "exhausted",
     "Exhausted: 25 MiB wanted, 20 MiB free in total. Every allocator refuses this."),
    (state((0, 80, 40)), 100, 25, "set aside",
     "Set aside: 25 MiB wanted, 20 MiB free. 40 MiB more are set aside for owners who have not filled them."),
    (state((0, 70, 70), (70, 10, 10, True)), 100, 25, "held",
     "Held: 25 MiB wanted, 20 MiB free. 10 MiB more were let go of, but queued work may still use them."),
    (state((0, 80, 40)), 100, 61, "exhausted", "Exhausted"),
    (state(), 100, 101, "too large", "Too large: 101 MiB wanted, and the device has 100 MiB."),
    (state((0, 80, 80)), None, 10_000, "exhausted", "Exhausted"),
])
def test_kinds_and_sentences(memory, capacity, size, kind, text):
    reason = why_refused(memory, capacity and capacity * MIB, size * MIB)
    assert reason.kind == kind and str(reason).startswith(text)
    assert reason.missing_bytes == max(0, size * MIB - reason.total_free_bytes)
    assert (reason.missing_bytes > 0) == (kind in ("exhausted", "set aside", "held", "too large"))


def test_numbers():
    memory = state((10, 20, 15), (50, 10, 10, True), (80, 5, 5))
    assert tuple(why_refused(memory, 120 * MIB, 30 * MIB)) == (
        "fragmented", 30 * MIB, 65 * MIB, 20 * MIB, 4, 20 * MIB, 10 * MIB, 5 * MIB, 120 * MIB)


def test_who_takes_several_pieces_is_never_fragmented():
    memory = state((20, 30, 30), (70, 30, 30))
    reason = why_refused(memory, 100 * MIB, 40 * MIB, in_pieces=True)
    assert reason.kind == "fits" and str(reason).startswith("A rule of the allocator: 40 MiB wanted, and 40 MiB are free in pieces. What")
    assert why_refused(memory, 100 * MIB, 41 * MIB, in_pieces=True).kind == "exhausted"


def test_segments_that_touch_are_not_one_run():
    memory = state(segments=((0, 50), (50, 50)))
    assert why_refused(memory, 100 * MIB, 51 * MIB).kind == "fragmented"


def test_a_size_below_1():
    with pytest.raises(ValueError, match="at least 1 byte"):
        why_refused(state(), 100, 0)
