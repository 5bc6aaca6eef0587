"""Java allocators behind the Python contract, and beside their Python twin."""

import random
import time

import pytest

from pagedkv.core.errors import DoubleFree, OutOfMemory
from pagedkv.core.memory import Allocator, Layout, Piece, record_memory
from pagedkv.core.memory_replay import end_of, replay_memory
from pagedkv.java import jclass
from pagedkv.java.memory import JavaAllocator, run_java
from pagedkv.rivals.buddy import BuddyChunkAllocator
from pagedkv.rivals.workload import Request, Workload, run

BUDDY = "pagedkv.netty.tiers.BuddyChunkAllocator"
PAGE = 8192


def netty(capacity_bytes=1 << 30, settings=None):
    """Chunks of 16 pages and no thread cache, unless the settings say something else."""
    if settings is None:
        settings = jclass("pagedkv.netty.tiers.Settings").DEFAULT.withoutCache().withChunk(PAGE, 4)
    return JavaAllocator.of("pagedkv.netty.tiers.NettyAllocator", capacity_bytes, settings)


def cached_netty():
    settings = jclass("pagedkv.netty.tiers.Settings").DEFAULT
    return netty(settings=settings.withCache(jclass("pagedkv.netty.tiers.CacheSettings")(8, 8, 8, 32 << 10, 50)))


def random_workload(seed, num_requests, most_bytes):
    dice, requests, live = random.Random(seed), [], {}
    for number in range(num_requests):
        kind = dice.random()
        if live and kind < 0.4:
            requests.append(Request("free", owner := dice.choice(list(live))))
            del live[owner]
        elif live and kind < 0.5:
            owner = dice.choice(list(live))
            live[owner] += dice.randrange(live[owner] + 1)
            requests.append(Request("grow", owner, live[owner]))
        else:
            live[number] = 1 + dice.randrange(1 + most_bytes >> dice.randrange(12))
            requests.append(Request("allocate", number, live[number]))
    return Workload("random", tuple(requests))


def test_the_contract_and_its_errors():
    allocator = JavaAllocator.of(BUDDY, 2 * 8 * 64, 64, 3)
    assert isinstance(allocator, Allocator) and allocator.source == "buddy chunks (Java)"
    a = allocator.allocate("A", 100)
    b = allocator.allocate(("B", 1), 1)
    assert allocator.layout().pieces == (Piece(0, 128, "A", 100), Piece(128, 64, "('B', 1)", 1))
    a = allocator.grow(a, 300)
    assert [piece.address for piece in allocator.layout().pieces] == [128, 512]
    before = allocator.layout()
    for wrong, error in ((lambda: allocator.allocate("C", 600), OutOfMemory),
                         (lambda: allocator.allocate("C", 2**70), OutOfMemory),
                         (lambda: allocator.grow(b, 600), OutOfMemory),
                         (lambda: allocator.free("B"), DoubleFree), (lambda: netty().free(b), DoubleFree),
                         (lambda: allocator.allocate("C", 0), ValueError), (lambda: allocator.grow(a, 299), ValueError),
                         (lambda: allocator.allocate("C", 1.5), TypeError)):
        with pytest.raises(error):
            wrong()
    assert allocator.layout() == before
    allocator.free(a)
    with pytest.raises(DoubleFree, match="handle of A is not live here"):
        allocator.free(a)
    allocator.free(b)
    assert allocator.layout().pieces == ()


def test_events_come_over_one_by_one():
    allocator = netty(settings=jclass("pagedkv.netty.tiers.Settings").DEFAULT)
    with record_memory(allocator) as recording:
        allocator.free(allocator.allocate("A", 1000))
        allocator.allocate("é\n\"", 20 << 20)
        with pytest.raises(OutOfMemory):
            allocator.allocate("C", 2 << 30)
    first, second, third, fourth = recording.events
    assert [str(change.kind) for change in first.changes] == ["reserve", "take"]
    assert first.detail["decision"].rounded_bytes == 1024 and first.detail["device_calls"] == {"malloc": 1}
    assert first.detail["decision"].looks[0].verdict == "has no piece of this size"
    assert second.changes[0].kind == "hold" and third.owner == "é\n\"" and third.changes[0].label == "huge"
    assert fourth.refused and fourth.detail["error"] == "OutOfMemory"
    assert "2147483648 bytes wanted" in fourth.detail["message"]
    assert end_of(recording).layout() == allocator.layout()
    assert allocator.observer is None


@pytest.mark.parametrize("make", [netty, cached_netty, lambda: JavaAllocator.of(BUDDY, 1 << 24)], ids=str)
def test_replay_of_a_whole_workload_ends_where_java_is(make):
    workload, allocator = random_workload(48, 2000, 200_000), make()
    recording = run_java(workload, allocator)
    assert [event.step for event in recording.events] == list(range(len(workload)))
    assert [event.owner for event in recording.events] == [request.owner for request in workload.requests]
    state = end_of(recording)
    assert state.faults == []
    segments, pieces = state.layout()
    assert (segments, tuple(piece._replace(owner=str(piece.owner)) for piece in pieces)) == allocator.layout()


@pytest.mark.parametrize(("capacity_bytes", "max_order"), [(1 << 20, 5), (1 << 28, 11)])
def test_n3_java_and_python_put_the_same_trace_in_the_same_places(capacity_bytes, max_order):
    workload = random_workload(3, 1500, 150_000)
    ours = run(workload, BuddyChunkAllocator(capacity_bytes, PAGE, max_order))
    java = run_java(workload, JavaAllocator.of(BUDDY, capacity_bytes, PAGE, max_order))
    assert any(event.refused for event in ours.events) == (capacity_bytes == 1 << 20)
    for mine, its in zip(ours.events, java.events, strict=True):
        assert mine[:5] == its[:5]
        for key in ("error", "skipped", "device_calls", "moved_bytes"):
            assert mine.detail.get(key) == its.detail.get(key), (mine, its)
        if mine.op == "allocate":
            a, b = mine.detail["decision"], its.detail["decision"]
            assert (a.num_looks, [look[:3] for look in a.looks]) == (b.num_looks, [look[:3] for look in b.looks])


def test_twenty_thousand_events_take_seconds():
    workload, allocator = random_workload(9, 20_000, 100_000), netty(1 << 34)
    started = time.perf_counter()
    recording = run_java(workload, allocator)
    assert len(recording) == 20_000 and time.perf_counter() - started < 60


def test_a_text_and_a_recording_in_the_middle():
    allocator = netty()
    allocator.allocate("earlier", 100)
    recording = run_java("a A 64K  # half a chunk\nf A\n", allocator)
    assert recording.initial == Layout(recording.initial.segments, (Piece(0, 112, "earlier", 100),))
    assert [state.used_bytes for state in replay_memory(recording)] == [112, 112 + 65536, 112]
    with pytest.raises(ValueError, match='line 2, "f B": B has nothing to free'):
        run_java("a A 5\nf B", allocator)
    allocator.observer = print
    with pytest.raises(RuntimeError, match="already reports"):
        run_java("a A 5", allocator)


@pytest.mark.parametrize("no_allocator", [lambda: 7, lambda: jclass("java.util.ArrayList")()])
def test_only_java_allocators_can_be_adapted(no_allocator):
    with pytest.raises(TypeError, match=r"(int|java.util.ArrayList) is not an allocator: .*MemoryAllocator"):
        JavaAllocator(no_allocator())
    with pytest.raises(ValueError, match="less than one chunk"):
        netty(1000)


def test_n3_n4_real_netty_4_1_48_runs_beside_the_newer_one():
    """What notebook 02 shows live, from a plain thread of Python's."""
    results = jclass("pagedkv.netty.tiers.Comparison").all(200, 7)
    assert len(results) == 24 and all(bool(result.allEqual()) for result in results)
    versions = jclass("pagedkv.netty.tiers.Versions")
    assert [int(use.numCached()) for use in versions.cacheUse(50)] == [0, 49, 49]
