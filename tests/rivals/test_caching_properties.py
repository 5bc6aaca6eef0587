"""Whatever is asked of the caching allocator, in any order and with any settings: nothing overlaps, the counters add
up, replay of the events gives the same memory, and in the end all of it is back."""

import importlib.util
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import record_memory
from pagedkv.core.memory_replay import end_of
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.caching_rules import MIB

CAPACITY_BYTES = 120 * MIB
SIZES = (1, 511, 512, 513, 40_000, MIB - 1, MIB, MIB + 1, 2 * MIB, 9 * MIB + 77, 10 * MIB - 512, 10 * MIB, 12 * MIB + 1,
         19 * MIB, 20 * MIB, 25 * MIB, 33 * MIB, 61 * MIB)
SETTINGS = ({}, {"max_split_size_mb": 20}, {"max_split_size_mb": 32, "large_segment_mb": 12},
            {"roundup_power2_divisions": 4}, {"expandable_segments": True},
            {"expandable_segments": True, "max_split_size_mb": 20},
            {"memory_fraction": 0.8, "garbage_collection_threshold": 0.5}, {"memory_fraction": 0.5})

OPS = ["allocate"] * 6 + ["free"] * 5 + ["grow", "use", "synchronize", "empty_cache"]

calls = st.lists(st.tuples(st.sampled_from(OPS), st.integers(0, 1 << 16), st.sampled_from(SIZES), st.integers(0, 1)),
                 max_size=60)


def carry_out(allocator, wanted, after_each=lambda allocator: None):
    """The handles that are live in the end."""
    handles = []
    for number, (op, pick, size, stream) in enumerate(wanted):
        try:
            if op == "allocate":
                handles.append(allocator.allocate(number, size, stream))
            elif op == "synchronize":
                allocator.synchronize()
            elif op == "empty_cache":
                allocator.empty_cache()
            elif handles:
                at = pick % len(handles)
                if op == "free":
                    allocator.free(handles.pop(at))
                elif op == "grow":
                    handles[at] = allocator.grow(handles[at], max(size, handles[at].requested_bytes))
                else:
                    allocator.record_stream(handles[at], stream)
        except OutOfMemory:
            pass
        after_each(allocator)
    return handles


def check(allocator):
    """The allocator's account against its layout."""
    layout = allocator.layout()
    in_use = [piece for piece in layout.pieces if not piece.held]
    assert allocator.reserved_bytes == allocator.device.used_bytes == sum(s.size_bytes for s in layout.segments)
    assert allocator.reserved_bytes <= CAPACITY_BYTES
    assert allocator.allocated_bytes == sum(piece.size_bytes for piece in in_use)
    assert allocator.active_bytes == sum(piece.size_bytes for piece in layout.pieces)
    assert allocator.requested_bytes == sum(piece.requested_bytes for piece in layout.pieces)

    # The free blocks are exactly the gaps, so neighbours have merged and nothing overlaps; the pools are in order.
    pieces, gaps, split = list(layout.pieces), [], 0
    for segment in layout.segments:
        at, end, before = segment.address, segment.address + segment.size_bytes, len(gaps)
        pieces_here = 0
        while pieces and pieces[0].address < end:
            piece = pieces.pop(0)
            assert at <= piece.address and piece.address + piece.size_bytes <= end
            if at < piece.address:
                gaps.append((at, piece.address - at))
            at = piece.address + piece.size_bytes
            pieces_here += 1
        if at < end:
            gaps.append((at, end - at))
        if pieces_here:
            split += sum(size for _, size in gaps[before:])
    assert not pieces
    assert allocator.free_runs() == gaps
    for pool in allocator._all_pools():
        assert pool.keys == sorted(pool.blocks)
        assert all(block.key == key for key, block in pool.blocks.items())
    assert allocator.inactive_split_bytes == (0 if allocator.settings.expandable_segments else split)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SETTINGS), calls)
def test_the_account_is_right_after_every_call(keywords, wanted):
    carry_out(CachingAllocator(CAPACITY_BYTES, **keywords), wanted, check)


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SETTINGS), calls)
def test_replay_gives_the_same_memory_and_observing_changes_nothing(keywords, wanted):
    observed, plain = (CachingAllocator(CAPACITY_BYTES, **keywords) for _ in range(2))
    with record_memory(observed) as recording:
        carry_out(observed, wanted)
    carry_out(plain, wanted)
    assert plain.layout() == observed.layout()
    state = end_of(recording)
    assert state.faults == []
    assert state.layout() == observed.layout()
    assert (state.reserved_bytes, state.used_bytes) == (observed.reserved_bytes, observed.allocated_bytes)
    assert list(state.free) == observed.free_runs()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SETTINGS), calls)
def test_all_memory_comes_back(keywords, wanted):
    allocator = CachingAllocator(CAPACITY_BYTES, **keywords)
    for handle in carry_out(allocator, wanted):
        allocator.free(handle)
    allocator.empty_cache()
    assert allocator.layout() == ((), ())
    assert allocator.reserved_bytes == allocator.device.used_bytes == 0
    assert allocator.requested_bytes == allocator.active_bytes == 0
    if not allocator.settings.expandable_segments:  # whose range of addresses stays if nothing was ever mapped in it
        assert len(allocator.device._addresses) == 1


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(SETTINGS), calls, st.sampled_from((61 * MIB, 500 * MIB)))
def test_a_refusal_leaves_the_pieces(keywords, wanted, size):
    allocator = CachingAllocator(CAPACITY_BYTES, **keywords)
    carry_out(allocator, wanted)
    before = [piece for piece in allocator.layout().pieces if not piece.held]
    try:
        allocator.free(allocator.allocate("last", size))
    except OutOfMemory:
        assert allocator.held_bytes == 0  # it has waited for them
    assert [piece for piece in allocator.layout().pieces if not piece.held] == before


@pytest.fixture(scope="module")
def benchmark():
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "caching.py"
    spec = importlib.util.spec_from_file_location("benchmarks_caching", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("seed", range(3))
def test_the_linear_scan_of_the_benchmark_places_every_block_alike(benchmark, seed):
    """A second implementation of the rules, written without any of the lists and links of the first."""
    simulator, scan, handles = CachingAllocator(200 << 30), benchmark.LinearScan(), {}
    for key, size in benchmark.random_requests(count=3000, most_live=100, seed=seed):
        if size:
            handles[key] = simulator.allocate(key, size)
            assert scan.allocate(key, size) == handles[key].address
        else:
            handle = handles.pop(key)
            scan.free(handle.address)
            simulator.free(handle)
    assert simulator.reserved_bytes == scan.reserved_bytes
