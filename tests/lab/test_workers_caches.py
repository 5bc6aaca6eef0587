"""Where the blocks of Java's pool with thread caches are, call by call (claims N12, S16)."""

import pytest

from pagedkv.java import start
from pagedkv.lab.workers_caches import CACHE_CALLS, STACK, cache_trace
from pagedkv.viz.steps_tape import StepsTape


@pytest.fixture(autouse=True, scope="module")
def jvm():
    start()


def places(trace, step=-1):
    return trace["steps"][step]["blocks"]


def texts(trace):
    return [step["text"] for step in trace["steps"]]


def test_it_is_a_trace_and_the_same_on_every_run():
    trace = cache_trace()
    tape = StepsTape(trace)
    assert len(tape) == len(CACHE_CALLS) and tape.source == "Java CachedLockFreePool"
    assert trace == cache_trace()


def test_every_block_is_in_one_place_after_every_call():
    for cache_blocks in (0, 1, 3, 4, 12, 64):
        for step in cache_trace(cache_blocks=cache_blocks)["steps"]:
            assert sorted(sum(step["blocks"].values(), [])) == list(range(12))
            caches = [blocks for name, blocks in step["blocks"].items() if name.startswith("cache of")]
            assert all(len(blocks) <= cache_blocks for blocks in caches)


def test_a_miss_fills_half_a_cache_and_the_next_call_hits():
    trace = cache_trace([("T1", "allocate", 1), ("T1", "allocate", 2)], cache_blocks=4)
    assert texts(trace)[1:] == ["allocate(1) gives 0: 1 miss; 1, 2 from the stack into its cache",
                                "allocate(2) gives 1, 2: 2 hits"]
    assert [step["blocks"]["cache of T1"] for step in trace["steps"]] == [[], [1, 2], []]
    assert (trace["hits"], trace["misses"], trace["hunted"]) == (2, 1, 0)
    assert trace["steps"][-1]["notes"] == {"T1": "2 of 3 from its own cache"}


def test_a_full_cache_gives_its_older_half_back():
    trace = cache_trace([("T1", "allocate", 5), ("T1", "release", 5)], cache_blocks=4)
    before, after = places(trace, 1), places(trace)
    assert len(before["cache of T1"]) == 2 and len(after["cache of T1"]) < 4 + 1
    gone = set(after[STACK]) - set(before[STACK])
    assert gone >= set(before["cache of T1"]), "what was put there first goes first"
    assert texts(trace)[-1].endswith(" to the stack")


def test_no_cache_no_hits():
    trace = cache_trace(cache_blocks=0)
    assert (trace["hits"], trace["misses"]) == (0, sum(n for _, call, n in CACHE_CALLS if call == "allocate"))
    assert not any("cache" in text for text in texts(trace))


def test_a_cache_too_large_keeps_blocks_from_the_other_thread():
    """Claim S16: too small does not help, too large skews where the free blocks are."""
    traces = {size: cache_trace(cache_blocks=size) for size in (0, 2, 4, 12)}
    assert traces[0]["hits"] < traces[2]["hits"] < traces[4]["hits"] < traces[12]["hits"]
    assert traces[0]["hunted"] == 0 < traces[2]["hunted"] < traces[4]["hunted"] < traces[12]["hunted"]
    assert traces[4]["hunted"] < traces[4]["misses"] and traces[12]["hunted"] >= traces[12]["misses"] - 1
    before_the_last = places(traces[12], -2)
    assert before_the_last[STACK] == [] and len(before_the_last["cache of T2"]) == 6
    assert texts(traces[12])[-1].endswith("out of the cache of T2")


def test_a_block_that_was_hunted_and_put_aside_again_is_in_one_cache():
    """The first thread's list still names it."""
    calls = [("T1", "allocate", 4), ("T1", "release", 4), ("T2", "allocate", 4), ("T2", "release", 4)]
    trace = cache_trace(calls, num_blocks=4, cache_blocks=8)
    assert [sorted(places(trace, step)["cache of T1"]) for step in (2, 3, 4)] == [[0, 1, 2, 3], [], []]
    assert sorted(places(trace)["cache of T2"]) == [0, 1, 2, 3]
    assert trace["hunted"] == 4


def test_a_refused_call_is_a_step_with_a_mark():
    trace = cache_trace([("T1", "allocate", 3), ("T2", "allocate", 2), ("T1", "release", 1)], num_blocks=4)
    assert [step["mark"] for step in trace["steps"]] == [None, None, "refused", None]
    assert texts(trace)[2].startswith("allocate(2): need 2 blocks, 1 of 4 are free")
    assert places(trace, 2)["T2 holds"] == [] and trace["misses"] == 3
    assert StepsTape(trace).telling_frame() == 2


@pytest.mark.parametrize("call, said", [(("T1", "retain", 1), "an allocate or a release, not 'retain'"),
                                        (("T1", "allocate", 0), "would show nothing"),
                                        (("T1", "release", 1), "holds 0 blocks and cannot give back 1")])
def test_calls_that_cannot_be(call, said):
    with pytest.raises(ValueError, match=said):
        cache_trace([call])
    with pytest.raises(ValueError, match="from 0 to 64"):
        cache_trace(cache_blocks=65)
