"""Java pools behind the Python contract: the same suite as the Python pool."""

import re

import numpy
import pytest

from pagedkv import BlockPool, DoubleFree, NotABlock, OutOfBlocks, Replay, UseAfterFree, record
from pagedkv.core import conformance
from pagedkv.java import JavaPool, jclass, pool_maker
from pagedkv.lab.conformance import check_pool

POOLS = {"Java BlockPool": ("pagedkv.pool.BlockPool",), "NettyPool": ("pagedkv.netty.NettyPool", 64)}


@pytest.fixture(params=POOLS, ids=str)
def make(request):
    return pool_maker(*POOLS[request.param])


def test_conformance(make):
    report = check_pool(make)
    assert report.passed, report
    assert "an event for each call" in [result.rule for result in report.results]


def test_the_articles_pool_breaks_the_rules_that_it_is_known_to_break():
    report = check_pool(pool_maker("pagedkv.article.RefCountedBlockPool"), examples=40)
    broken = {result.rule: result.broken for result in report.broken}
    assert {"double free is refused", "twice in one release", "use after free is refused",
            "out of blocks takes none", "ids outside the pool", "random calls"} <= set(broken), report
    assert "expected DoubleFree, but the call went through" in broken["double free is refused"]
    assert "ArrayIndexOutOfBounds" in broken["ids outside the pool"]


def test_the_same_calls_give_the_same_events_in_both_languages(make):
    """And the same messages; up to the names of the blocks, which are not part of the contract."""
    def play(pool):
        with record(pool) as recording:
            a = pool.allocate(3, owner="A")
            pool.retain(a[:2], owner="B")
            pool.release(a, owner="A")
            for refused in (lambda: pool.release([a[2]]), lambda: pool.allocate(99, owner="C"),
                            lambda: pool.retain([a[2], a[0]]), lambda: pool.retain([77])):
                with pytest.raises((DoubleFree, OutOfBlocks, UseAfterFree, NotABlock)):
                    refused()
            pool.allocate(0)
        names = {}

        def without_ids(event):
            return re.sub(r"block \d+", "block ?", event.detail.get("message", ""))

        return [(event.step, event.op, event.owner, [names.setdefault(block, len(names)) for block in event.blocks],
                 {**event.detail, "message": without_ids(event)}) for event in recording.events]

    assert play(make(8)) == play(BlockPool(8))


def test_messages_of_java_come_through(make):
    pool = make(8)
    block = pool.allocate(1)
    with pytest.raises(OutOfBlocks, match="need 80 blocks, 7 of 8 are free"):
        pool.allocate(80)
    with pytest.raises(DoubleFree, match=f"block {block[0]} has refcount 1"):
        pool.release(block * 2)
    with pytest.raises(NotABlock, match="1099511627776 is not a block"):
        pool.release([2**40])
    with pytest.raises(NotABlock, match="-1099511627776 is not a block"):
        pool.refcount(-2**40)
    with pytest.raises(OutOfBlocks):
        pool.allocate(2**40)


def test_nettys_own_words_are_attached():
    pool = pool_maker(*POOLS["NettyPool"])(4)
    block = pool.allocate(1)
    pool.release(block)
    with pytest.raises(DoubleFree) as caught:
        pool.release(block)
    assert caught.value.__notes__ == ["caused by IllegalReferenceCountException: refCnt: 0, decrement: 1"]


def test_bulk_calls_and_numpy(make):
    pool = make(5000)
    blocks = pool.allocate(5000)
    assert type(blocks) is list and sorted(blocks) == list(range(5000))
    pool.retain(numpy.array(blocks))
    assert pool.refcounts() == [2] * 5000
    pool.release(numpy.array(blocks * 2))
    assert pool.num_free_blocks == 5000


def test_recording_a_java_pool_in_use(make):
    pool = make(8)
    held = pool.allocate(3)
    with record(pool) as recording:
        pool.release(held[:1])
    assert Replay(recording).end().refcounts() == pool.refcounts()
    assert recording.source == pool.source and recording.source.startswith("Java ")


def test_an_observer_that_raises_reaches_the_caller(make):
    pool = make(4)

    def observer(event):
        raise KeyError("observer's trouble")

    pool.observer = observer
    with pytest.raises(Exception, match="observer's trouble"):
        pool.allocate(1)
    pool.observer = None
    assert pool.num_free_blocks == 3


@pytest.mark.parametrize("no_pool", [lambda: 7, lambda: jclass("java.util.ArrayList")(), lambda: BlockPool(3)])
def test_only_java_pools_can_be_adapted(no_pool):
    with pytest.raises(TypeError, match=r"(int|java.util.ArrayList|BlockPool) is not a pool: .* pagedkv.pool.Pool"):
        JavaPool(no_pool())


def test_bad_sizes():
    for wrong, error in ((-1, ValueError), (True, TypeError), (1.5, TypeError), ("8", TypeError)):
        with pytest.raises(error):
            JavaPool.of("pagedkv.pool.BlockPool", wrong)


def test_a_java_pool_that_never_returns_is_stopped(monkeypatch):
    """JDK 17 can stop a thread; on newer ones the suite still answers."""
    monkeypatch.setattr(conformance, "RULE_SECONDS", 1.0)
    Stream, loop = jclass("java.util.stream.LongStream"), jclass("java.util.function.LongUnaryOperator").identity()

    def make(num_blocks):
        Stream.iterate(0, loop).count()

    make.abort_handle = pool_maker("pagedkv.pool.BlockPool").abort_handle
    report = conformance.check_rules(make)
    assert [result.rule for result in report.broken] == ["all free at first"] and report.broken[0].hung
