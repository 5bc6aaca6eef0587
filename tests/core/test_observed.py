"""Observed: events of a pool that reports none."""

import pytest

from pagedkv import BlockPool, DoubleFree, Replay, record
from pagedkv.core.conformance import check_rules
from pagedkv.core.observed import Observed


def test_a_wrapped_pool_keeps_the_whole_contract_events_included():
    report = check_rules(lambda num_blocks: Observed(BlockPool(num_blocks)))
    assert report.passed, report
    assert "an event for each call" in [result.rule for result in report.results]


def test_any_exception_is_reported_and_raised_on():
    class Refuses(BlockPool):
        def release(self, blocks, owner=None):
            raise RuntimeError("my own words")

    pool = Observed(Refuses(4), source="mine")
    with record(pool) as recording:
        pool.allocate(1, owner="A")
        with pytest.raises(RuntimeError, match="my own words"):
            pool.release([0], owner="A")
    assert recording.source == "mine"
    assert recording.events[1].detail == {"error": "RuntimeError", "message": "my own words"}
    assert Replay(recording).end().owners(0) == ("A",)


def test_without_an_observer_nothing_is_in_the_way():
    pool = Observed(BlockPool(4))
    with pytest.raises(DoubleFree):
        pool.release([1])
    assert repr(pool.allocate(2)) == "[0, 1]" and pool.num_free_blocks == 2
