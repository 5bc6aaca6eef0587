"""The suite passes a right pool, and names the broken rule of each wrong one."""

import functools
import threading

import pytest
from hypothesis import Phase, settings

from pagedkv import BlockPool
from pagedkv.core import conformance
from pagedkv.lab.conformance import check_pool, check_random_calls
from tests.core import broken_pools
from tests.core.broken_pools import BROKEN_POOLS


@pytest.fixture
def the_first_find_will_do(monkeypatch):
    """Hypothesis stops where it finds a fault. To shorten what it found takes most of the time, and one test of its own
    looks at that."""
    monkeypatch.setattr("pagedkv.lab.conformance.settings",
                        functools.partial(settings, phases=(Phase.explicit, Phase.generate)))


def test_the_python_pool_keeps_every_rule():
    report = check_pool(BlockPool)
    assert report.passed, report
    assert len(report.results) == len(conformance.RULES) + 1


@pytest.mark.parametrize("broken_pool", BROKEN_POOLS, ids=lambda pool: pool.__name__)
def test_a_broken_pool_is_named(broken_pool, monkeypatch, the_first_find_will_do):
    monkeypatch.setattr(conformance, "RULE_SECONDS", 1.0)
    report = check_pool(broken_pool) if broken_pool is broken_pools.CountsToFour else \
        conformance.check_rules(broken_pool)
    rule, message = BROKEN_POOLS[broken_pool]
    messages = {result.rule: result.broken for result in report.broken}
    assert rule in messages, report
    assert message in messages[rule], report
    assert not report.passed and message in str(report)


@pytest.mark.parametrize("broken_pool", [
    broken_pools.ListsAFreedBlockTwice, broken_pools.RetainsAFreeBlock, broken_pools.ForgetsToCheckWithinOneCall,
    broken_pools.TakesWhatItCanGet, broken_pools.KeepsOneBlockBack, broken_pools.FreesOnFirstRelease,
    broken_pools.ForgetsSharedBlocks, broken_pools.CountsToFour])
def test_random_calls_find_the_fault_without_the_named_rules(broken_pool, the_first_find_will_do):
    """The random calls are a second net, not an ornament."""
    assert check_random_calls(broken_pool).broken


def test_the_shortest_sequence_is_shown():
    class ReleasesEachBlockOnce(BlockPool):
        def release(self, blocks, owner=None):
            super().release(list(dict.fromkeys(blocks)), owner)

    story = check_random_calls(ReleasesEachBlockOnce).broken.split("\n    ")
    assert story[0] == "6 blocks;" and story[-1].startswith("⇒ ") and len(story) <= 5, story


@pytest.mark.parametrize("no_pool", [lambda n: 7, lambda n: None, lambda n: exit(), lambda n: {}[n], lambda: BlockPool(3)],
                         ids=["an int", "None", "exits", "raises", "takes no size"])
def test_what_is_no_pool_fails_the_first_rule_only(no_pool):
    report = check_pool(no_pool)
    assert [result.rule for result in report.results] == ["all free at first"]
    assert not report.passed


def test_a_pool_that_never_returns_leaves_no_thread_behind(monkeypatch):
    monkeypatch.setattr(conformance, "RULE_SECONDS", 0.3)
    before = threading.active_count()

    class NeverBorn(BlockPool):
        def __init__(self, num_blocks):
            while True:
                pass

    report = check_pool(NeverBorn)
    assert "did not return" in str(report)
    assert threading.active_count() == before


def test_events_are_asked_of_observed_pools_only():
    class Unobserved:
        """The bare contract: no observer, no owner on retain and release."""

        def __init__(self, num_blocks):
            self._pool = BlockPool(num_blocks)
            self.num_blocks = num_blocks
            self.allocate, self.refcount = self._pool.allocate, self._pool.refcount

        num_free_blocks = property(lambda self: self._pool.num_free_blocks)

        def retain(self, blocks):
            self._pool.retain(blocks)

        def release(self, blocks):
            self._pool.release(blocks)

    report = conformance.check_rules(Unobserved)
    assert report.passed, report
    assert "an event for each call" not in [result.rule for result in report.results]
    assert "an event for each call" in str(conformance.check_rules(Unobserved, observed=True))
