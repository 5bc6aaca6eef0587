"""The demos of the claims: what each really shows (N10, N15)."""

import pytest

from pagedkv.core.memory import TAKE
from pagedkv.core.memory_replay import end_of
from pagedkv.core.why import why_refused
from pagedkv.rivals import demos
from pagedkv.rivals.demos import MIB
from pagedkv.rivals.fits import BestFit, FirstFit, NextFit
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.workload import run


def last(demo, kind, capacity_bytes, *settings):
    """The last request of a demo: where it was placed, in blocks, and why not, if it was not."""
    workload = demo()
    recording = run(workload, kind(capacity_bytes, *settings))
    event = recording.events[-1]
    assert [event.refused for event in recording.events[:-1]] == [False] * (len(recording) - 1)
    placed = sorted(change.address // MIB for change in event.changes if change.kind == TAKE)
    if not event.refused:
        return placed, None
    return placed, why_refused(end_of(recording), capacity_bytes, event.size_bytes, in_pieces=kind is PagedAllocator)


@pytest.mark.parametrize("kind", [FirstFit, BestFit, NextFit])
@pytest.mark.parametrize("capacity, reason, free, largest", [
    (demos.HOLE_EXHAUSTED_BYTES, "exhausted", 64, 64), (199 * MIB, "exhausted", 79, 64),
    (200 * MIB, "fragmented", 80, 64), (demos.HOLE_FRAGMENTED_BYTES, "fragmented", 136, 72),
    (263 * MIB, "fragmented", 143, 79), (demos.HOLE_FITS_BYTES, None, None, None)])
def test_n10_is_fragmentation_only_for_some_memories(kind, capacity, reason, free, largest):
    placed, why = last(demos.a_hole_of_64, kind, capacity)
    if reason is None:
        assert why is None and placed == [184]
    else:
        assert (why.kind, why.total_free_bytes, why.largest_free_bytes) == (reason, free * MIB, largest * MIB)


@pytest.mark.parametrize("capacity, served", [(demos.HOLE_EXHAUSTED_BYTES, False), (200 * MIB, True),
                                              (demos.HOLE_FRAGMENTED_BYTES, True)])
def test_n10_paged(capacity, served):
    placed, why = last(demos.a_hole_of_64, PagedAllocator, capacity, MIB)
    assert len(placed) == (80 if served else 0) and (why is None) == served
    assert served or why.kind == "exhausted"


@pytest.mark.parametrize("kind", [FirstFit, BestFit, NextFit])
def test_n15_the_articles_demo_does_not_fail(kind):
    assert last(demos.the_article, kind, demos.POOL_BYTES) == ([50], None)


@pytest.mark.parametrize("kind, settings", [(FirstFit, ()), (BestFit, ()), (NextFit, ()), (PagedAllocator, (MIB,))])
def test_n15_filled_it_fails_for_everybody(kind, settings):
    placed, why = last(demos.the_article_filled, kind, demos.POOL_BYTES, *settings)
    assert placed == [] and why.kind == "exhausted"
    assert (why.total_free_bytes, why.missing_bytes) == (20 * MIB, 5 * MIB)


@pytest.mark.parametrize("kind", [FirstFit, BestFit, NextFit])
def test_n15_done_right(kind):
    placed, why = last(demos.two_holes, kind, demos.POOL_BYTES)
    assert placed == [] and why.kind == "fragmented"
    assert (why.total_free_bytes, why.largest_free_bytes, why.num_free_runs) == (40 * MIB, 20 * MIB, 2)
    placed, why = last(demos.two_holes, PagedAllocator, demos.POOL_BYTES, MIB)
    assert len(placed) == 25 and why is None
    assert set(placed) <= {*range(20), *range(50, 70)}
