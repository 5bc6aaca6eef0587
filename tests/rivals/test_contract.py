"""Every rival keeps the contract of `pagedkv.core.memory`, whatever its rules are."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pagedkv.core.errors import DoubleFree, OutOfMemory
from pagedkv.core.memory import MOST_LOOKS, TAKE, Allocator, record_memory
from pagedkv.core.memory_replay import MemoryState, end_of
from pagedkv.rivals.base import Rival
from pagedkv.rivals.buddy import BuddyChunkAllocator
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.fits import BestFit, FirstFit, NextFit
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.setup import Setup
from pagedkv.rivals.static import StaticReservation

KIB, MIB = 1 << 10, 1 << 20
CAPACITY = 96 * MIB

OWNERS = "ABCDEFGH"


def oracle(finals):
    return Setup(StaticReservation, {"policy": "oracle", "final_bytes": finals, "max_request_bytes": 64 * MIB})


# each is given what its owners will have in the end
RIVALS = {
    "static, max": lambda finals: Setup(StaticReservation, {"max_request_bytes": 40 * MIB}),
    "static, pow2": lambda finals: Setup(StaticReservation, {"policy": "pow2", "unit_bytes": 48 * KIB}),
    "static, oracle": oracle,
    "first fit": lambda finals: Setup(FirstFit),
    "best fit": lambda finals: Setup(BestFit),
    "next fit": lambda finals: Setup(NextFit),
    "buddy": lambda finals: Setup(BuddyChunkAllocator, {"page_bytes": 64 * KIB, "max_order": 8}),
    "paged": lambda finals: Setup(PagedAllocator, {"block_bytes": 3 * MIB + 1}),
    "caching": lambda finals: Setup(CachingAllocator),
    "caching, max split": lambda finals: Setup(CachingAllocator, {"max_split_size_mb": 20}),
    "caching, expandable": lambda finals: Setup(CachingAllocator, {"expandable_segments": True}),
}

every_rival = pytest.mark.parametrize("make", RIVALS.values(), ids=RIVALS.keys())

# small, medium and large in equal parts, so that both many pieces and refusals come up
SIZES = st.one_of(st.integers(1, 4 * KIB), st.integers(4 * KIB, MIB), st.integers(MIB, 48 * MIB))
OPS = st.sampled_from(["allocate", "allocate", "grow", "free"])
CALLS = st.lists(st.tuples(OPS, st.sampled_from(OWNERS), SIZES), max_size=60)


def possible(calls):
    """The calls that make sense, each owner once, and what each will have in the end if all of them go through."""
    kept, has, finals = [], {}, {}
    for number, (op, letter, size) in enumerate(calls):
        if op == "allocate" and letter not in has:
            has[letter] = f"{letter}{number}", size
        elif op == "grow" and letter in has:
            has[letter] = has[letter][0], has[letter][1] + size // 8
        elif op != "free" or letter not in has:
            continue
        owner, size = has[letter]
        finals[owner] = size
        kept.append((op, owner, size))
        if op == "free":
            del has[letter]
    return kept, finals


def call(allocator, handles, op, owner, size):
    """The name of the refusal, or None."""
    try:
        if op == "allocate":
            handles[owner] = allocator.allocate(owner, size)
        elif op == "grow":
            handles[owner] = allocator.grow(handles[owner], size)
        else:
            allocator.free(handles.pop(owner))
    except OutOfMemory:
        return "OutOfMemory"


def check_layout(layout, requested):
    """Pieces lie in one segment each, none overlaps another, and each owner has exactly what it asked for."""
    for things in layout:
        assert list(things) == sorted(things, key=lambda thing: thing.address)
        for one, next_one in zip(things, things[1:]):
            assert one.address + one.size_bytes <= next_one.address
    had = dict.fromkeys(requested, 0)
    for piece in layout.pieces:
        end = piece.address + piece.size_bytes
        assert any(segment.address <= piece.address and end <= segment.address + segment.size_bytes
                   for segment in layout.segments)
        assert 0 < piece.requested_bytes <= piece.size_bytes
        had[piece.owner] += piece.requested_bytes
    assert had == requested
    assert sum(segment.size_bytes for segment in layout.segments) <= CAPACITY


@every_rival
@settings(max_examples=40, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(calls=CALLS)
def test_any_sequence_of_calls(make, calls):
    calls, finals = possible(calls)
    allocator, unobserved = make(finals).make(CAPACITY), make(finals).make(CAPACITY)
    state = MemoryState(allocator.layout())
    handles, twins, requested = {}, {}, {}
    with record_memory(allocator) as recording:
        for op, owner, size in calls:
            if op != "allocate" and owner not in handles:
                continue  # it was refused before
            before = allocator.layout()
            error = call(allocator, handles, op, owner, size)
            assert call(unobserved, twins, op, owner, size) == error
            event = recording.events[-1]
            assert (event.op, event.owner, event.detail.get("error")) == (op, owner, error)
            if error:
                assert allocator.layout().pieces == before.pieces
                assert not any(change.kind == TAKE for change in event.changes)
            elif op == "free":
                del requested[owner]
            else:
                requested[owner] = size
                check_decision(event, size)
            state.apply(event)
            assert not state.faults
            assert state.layout() == allocator.layout() == unobserved.layout()
            check_layout(allocator.layout(), requested)
            if hasattr(allocator, "set_aside_bytes"):
                assert allocator.used_bytes == state.used_bytes == sum(map(allocator.set_aside_bytes, handles.values()))
        for handle in handles.values():
            allocator.free(handle)
    assert [event.step for event in recording.events] == list(range(len(recording)))
    end = end_of(recording)
    assert not end.faults and not end.pieces and end.used_bytes == end.requested_bytes == end.held_bytes == 0
    assert allocator.layout().pieces == ()


def check_decision(event, size):
    decision = event.detail["decision"]
    assert decision.asked_bytes == size <= decision.rounded_bytes
    assert len(decision.looks) == min(MOST_LOOKS, decision.num_looks)
    chosen = [look.address for look in decision.looks if look.verdict == "chosen"]
    assert set(chosen) <= {change.address for change in event.changes if change.kind == TAKE}
    assert all(look.verdict for look in decision.looks)


@every_rival
def test_a_handle_that_is_not_live(make):
    allocator = make({"A": MIB, "B": MIB}).make(CAPACITY)
    handle, other = allocator.allocate("A", MIB), allocator.allocate("B", MIB)
    allocator.free(handle)
    before = allocator.layout()
    with record_memory(allocator) as recording:
        with pytest.raises(DoubleFree):
            allocator.free(handle)
        with pytest.raises(DoubleFree):
            allocator.grow(handle, 2 * MIB)
    assert [(event.op, event.detail["error"], event.changes) for event in recording.events] == [
        ("free", "DoubleFree", ()), ("grow", "DoubleFree", ())]
    for nothing in (None, "A", 0, object()):
        with pytest.raises(DoubleFree):
            allocator.free(nothing)
    assert allocator.layout() == before
    allocator.free(other)


@every_rival
def test_what_another_allocator_returned_is_not_live_here(make):
    here, there = make({"A": MIB}).make(CAPACITY), make({"A": MIB}).make(CAPACITY)
    mine, other = here.allocate("A", MIB), there.allocate("A", MIB)
    with pytest.raises(DoubleFree):
        here.free(other)
    here.free(mine)
    there.free(other)


@every_rival
@pytest.mark.parametrize("wrong, error", [(0, ValueError), (-1, ValueError), (True, TypeError), (1.0, TypeError),
                                          ("1", TypeError), (None, TypeError)], ids=repr)
def test_sizes_are_whole_and_at_least_1(make, wrong, error):
    allocator = make({"A": MIB, "B": MIB}).make(CAPACITY)
    handle = allocator.allocate("A", 1024)
    before = allocator.layout()
    with pytest.raises(error):
        allocator.allocate("B", wrong)
    with pytest.raises(error):
        allocator.grow(handle, wrong)
    assert allocator.layout() == before
    with pytest.raises(error):
        make({}).make(wrong)


@every_rival
def test_nothing_shrinks_by_growing(make):
    allocator = make({"A": MIB}).make(CAPACITY)
    handle = allocator.allocate("A", MIB)
    with pytest.raises(ValueError, match="A has 1 MiB and cannot grow to 1,023 KiB"):
        allocator.grow(handle, MIB - 1024)
    allocator.free(handle)


@every_rival
def test_more_than_all_of_it_is_refused_and_nothing_is_lost(make):
    allocator = make({"A": 2 * CAPACITY}).make(CAPACITY)
    with record_memory(allocator) as recording:
        with pytest.raises(OutOfMemory, match=r"192(\.00)? MiB"):
            allocator.allocate("A", 2 * CAPACITY)
    assert recording.events[0].refused and recording.events[0].detail["message"]
    allocator.allocate("A", MIB)


@every_rival
def test_is_an_allocator_with_settings_for_a_form(make):
    setup = make({})
    allocator = setup.make(CAPACITY)
    assert isinstance(allocator, Allocator) and allocator.capacity_bytes == CAPACITY and allocator.source != "allocator"
    for setting in allocator.SETTINGS:
        assert setting.label and (setting.choices or setting.span)
        assert not setting.choices or setting.default in setting.choices
        assert setting.span is None or setting.span[0] <= setting.default <= setting.span[1]


@pytest.mark.parametrize("kind", [FirstFit, BestFit, NextFit, BuddyChunkAllocator, PagedAllocator, StaticReservation,
                                  CachingAllocator])
def test_defaults_and_every_choice_can_be_made(kind):
    kind(CAPACITY)
    for setting in kind.SETTINGS:
        for value in setting.choices or setting.span[:2]:
            if value == "oracle":  # it has to be told
                continue
            Setup(kind).with_settings(**{setting.keyword: value}).make(4096 * MIB)


def test_half_a_rival_cannot_be_made():
    class Half(Rival):
        def _place(self, owner, size_bytes):
            return 0

    with pytest.raises(TypeError, match="_about"):
        Half(100)
