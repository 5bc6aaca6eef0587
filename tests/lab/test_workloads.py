"""The workload of the first picture, on the Java pool and on the Python pool."""

from pagedkv import BlockPool, Replay, record
from pagedkv.java import JavaPool, start
from pagedkv.lab.workloads import NUM_BLOCKS, PROMPT_BLOCKS, a_few_requests


def recorded(pool):
    with record(pool) as recording:
        a_few_requests(pool)
    return recording


def test_the_pictures_agree_in_both_languages():
    start()
    python, java = recorded(BlockPool(NUM_BLOCKS)), recorded(JavaPool.of("pagedkv.pool.BlockPool", NUM_BLOCKS))
    assert java.events == python.events
    assert java.source != python.source


def test_what_the_notebook_asks_the_reader_to_look_for():
    """Claim N1: reclaimed without leaks, although A's blocks outlive A. A is the first to finish."""
    recording = recorded(BlockPool(NUM_BLOCKS))
    first_release = next(event for event in recording.events if event.op == "release")
    assert first_release.owner == "A"
    after = Replay(recording).at(first_release.step + 1)
    kept = [block for block in first_release.blocks if after.refcount(block)]
    assert kept == list(first_release.blocks[:PROMPT_BLOCKS])
    end = Replay(recording).end()
    assert end.num_free_blocks == NUM_BLOCKS and end.faults == []


def test_it_fills_most_of_the_pool():
    recording = recorded(BlockPool(NUM_BLOCKS))
    free = [Replay(recording).at(n).num_free_blocks for n in range(len(recording) + 1)]
    assert 0 < min(free) < NUM_BLOCKS // 4
    assert not any(event.refused for event in recording.events)
    assert {event.owner for event in recording.events} == set("ABCDEF")
