"""What a member can do: the contract, and what several members on one pool add to it."""

import threading

import pytest

from pagedkv.core.conformance import check_rules
from pagedkv.core.contract import Pool
from pagedkv.core.errors import DoubleFree, NotABlock, OutOfBlocks, UseAfterFree
from pagedkv.core.events import record
from pagedkv.shared import SharedPool
from tests.shared.state import CONTENT, State, numbers


@pytest.mark.parametrize("cache_blocks", [0, 1, 4])
@pytest.mark.parametrize("guard", [False, True])
def test_the_contract(kind, name, cache_blocks, guard):
    made = []

    def make(num_blocks):
        made.append(SharedPool.create(f"{name}-{len(made)}", num_blocks, 100, operations=kind,
                                      cache_blocks=cache_blocks, guard=guard))
        return made[-1]

    try:
        report = check_rules(make)
        assert report.passed and len(report.results) == 18, report
        assert isinstance(made[0], Pool)
    finally:
        for pool in made:
            pool.unlink()
            pool.close()


def test_the_contract_for_the_second_member(kind, name):
    """As before, but beside another member that holds nothing."""
    made = []

    def make(num_blocks):
        made.append(SharedPool.create(f"{name}-{len(made)}", num_blocks, 100, operations=kind))
        made.append(SharedPool.join(made[-1].name, operations=kind))
        return made[-1]

    try:
        report = check_rules(make)
        assert report.passed, report
    finally:
        for pool in made:
            pool.unlink()
            pool.close()


def test_only_who_has_a_reference_can_release_it(create):
    pool, other = create(), create.join()
    a, b = pool.allocate(2)
    with pytest.raises(DoubleFree, match=f"block {a} has no reference of this member \\(but 1 of others"):
        other.release([a])
    other.retain([a])
    with pytest.raises(DoubleFree, match=f"block {a} has 1 references of this member but stands 2 times"):
        other.release([a, a])
    with pytest.raises(DoubleFree, match=f"block {b} has no reference"):
        other.release([a, b])
    assert pool.refcount(a) == 2 and pool.refcount(b) == 1
    pool.release([a])
    assert pool.refcount(a) == 1 and pool.holders(a) == (1,)
    with pytest.raises(DoubleFree, match="but 1 of others"):
        pool.release([a])
    pool.retain([a])
    other.release([a])
    pool.release([a, b])
    with pytest.raises(DoubleFree, match="already free"):
        pool.release([a])
    assert pool.num_free_blocks == 8


def test_a_retain_that_is_refused_changes_nothing(create, name):
    pool, other = create(), create.join()
    a, b, c = pool.allocate(3)
    other.retain([a])
    before = State(name)
    with pytest.raises(UseAfterFree, match="is free"):
        other.retain([b, a, b, 7 if 7 not in (a, b, c) else 6])
    with pytest.raises(NotABlock, match="8 is not a block of this pool: its ids go from 0 to 7"):
        other.retain([b, 8])
    with pytest.raises(NotABlock):
        other.retain([b, 2 ** 70])
    after = State(name)
    assert (after.words, after.counts) == (before.words, before.counts)


def test_retain_of_a_generation(create):
    pool, other = create(num_blocks=1), create.join()
    block, = pool.allocate(1)
    generation = other.generation(block)
    other.retain([block], generations=[generation])
    other.retain([block, block], generations=(generation, generation))
    other.release([block] * 3)
    pool.release([block])
    with pytest.raises(UseAfterFree, match="is free"):
        other.retain([block], generations=[generation])
    pool.allocate(1)
    with pytest.raises(UseAfterFree, match=f"its generation is {generation + 1}, asked for was {generation}"):
        other.retain([block], generations=[generation])
    other.retain([block], generations=[generation + 1])
    with pytest.raises(UseAfterFree, match="handed out again"):
        other.retain([block, block], generations=[generation + 1, generation])
    assert other.refcount(block) == 2
    with pytest.raises(ValueError, match="1 blocks need as many generations, got 2"):
        other.retain([block], generations=[1, 2])
    with pytest.raises(TypeError):
        other.retain([block], generations=[True])


def test_the_local_cache_is_only_for_its_member(create, name):
    pool, other = create(cache_blocks=3), create.join()
    blocks = pool.allocate(5)
    other.retain(blocks[4:])
    pool.release(blocks)
    state = State(name)
    assert len(state.cached) == 3 and blocks[4] not in state.cached
    assert pool.num_free_blocks == 7 and other.num_free_blocks == 4
    cached = next(iter(state.cached))
    assert other.refcount(cached) == 0 and other.holders(cached) == ()
    for member in (pool, other):
        with pytest.raises(UseAfterFree, match="is free"):
            member.retain([cached])
        with pytest.raises(DoubleFree, match="already free"):
            member.release([cached])
    with pytest.raises(OutOfBlocks, match="need 5 blocks, 4 of 8 are free for this member"):
        other.allocate(5)
    assert set(pool.allocate(3)) == state.cached
    assert not State(name).cached
    with pytest.raises(OutOfBlocks):  # and what was taken from the cache for a refused call is free for all
        pool.release(list(state.cached))
        pool.allocate(8)
    assert not State(name).cached and other.num_free_blocks == 7


def test_blocks_with_content_are_taken_last(create, name):
    pool, other = create(num_blocks=70, cache_blocks=70), create.join()
    with numbers(name) as words:
        at = State(name).offsets[3] // 8
        blocks = pool.allocate(70)
        for block in blocks[:60]:
            words[at + block] |= CONTENT
        pool.release(blocks)
        assert State(name).content == set(blocks[:60]) and len(State(name).cached) == 10  # none of these
        assert not set(pool.allocate(10)) & set(blocks[:60])
        # a call that is refused costs nobody's content
        with pytest.raises(OutOfBlocks):
            other.allocate(61)
        assert all(words[at + block] & CONTENT for block in blocks[:60])
        taken = other.allocate(5)
        assert set(taken) <= set(blocks[:60]) and not any(words[at + block] & CONTENT for block in taken)
        # a hint in the wrong bitmap is put right, and the block is left alone
        first, last = min(taken), max(taken)
        words[at + first] |= CONTENT
        other.release([first, last])
        empty, content = (State(name).offsets[i] // 8 for i in (1, 2))
        words[empty] |= 1 << first
        words[content] &= ~(1 << first)
        assert last < 64 and other.allocate(1) == [last] and words[at + first] & CONTENT
        assert first in State(name).content and first not in State(name).empty


def test_hints_may_be_wrong(create, name):
    """Lost ones and stale ones: every free block can be had, and none that is held."""
    pool = create(num_blocks=70)
    held = pool.allocate(30)
    with numbers(name) as words:
        for bits, at in ((0, 1), ((1 << 64) - 1, 1)):
            words[State(name).offsets[at] // 8] = bits
            blocks = pool.allocate(40)
            assert sorted(blocks + held) == list(range(70))
            with pytest.raises(OutOfBlocks):
                pool.allocate(1)
            pool.release(blocks)
        words[State(name).offsets[1] // 8] = 0
        assert pool.reap().num_healed_hints > 0
        assert not list(State(name).faults([0])) and pool.reap().num_healed_hints == 0


def test_out_of_blocks_names_the_dead(create, name, kind):
    pool, other = create(), create.join()
    other.allocate(7)
    die(other)
    with pytest.raises(OutOfBlocks, match=r"need 2 blocks, 1 of 8 are free .*; the member in slot 1 has died: reap\(\) "
                                          "takes back what it held$"):
        pool.allocate(2)
    with pytest.raises(OutOfBlocks, match="need 9 blocks, 1 of 8"):
        pool.allocate(9)
    report = pool.reap()
    reaped, = report.dead
    assert (reaped.slot, reaped.num_references, reaped.num_free_blocks, report.num_healed_hints) == (1, 7, 7, 0)
    assert "had died with 7 references; 7 blocks became free" in str(report)
    assert len(pool.allocate(8)) == 8 and pool.num_reaps == 1
    assert str(pool.reap()) == "no dead member\n0 hints healed"


def test_out_of_blocks_names_all_who_died(create):
    pool = create()
    for other in (create.join(), create.join()):
        other.allocate(2)
        die(other)
    with pytest.raises(OutOfBlocks, match=r"the members in slots 1, 2 have died: reap\(\) takes back what they held$"):
        pool.allocate(5)


def die(member):
    """As its process would, as far as others can see: the lock is gone, and nothing else has happened."""
    member._locks.unlock(member.slot)
    member._operations.close()
    member._operations, member._gone = None, "dead"


def test_reap_leaves_what_others_hold(create):
    pool, other, third = create(), create.join(cache_blocks=1), create.join()
    a, b, c, d, e = other.allocate(5)
    pool.retain([a, a])
    third.retain([a, b])
    other.retain([a])
    other.release([d, e])  # d or e into its cache
    die(other)
    assert not pool.members()[1].alive and "dead" in str(pool.members()[1])
    report = third.reap()
    assert report.dead[0].num_references == 4 and report.dead[0].num_free_blocks == 2  # c, and the cached one
    assert [pool.refcount(block) for block in (a, b, c, d, e)] == [3, 1, 0, 0, 0]
    assert pool.num_free_blocks == third.num_free_blocks == 6


def test_several_dead_with_the_same_block(create, name):
    pool, *others = create(), create.join(), create.join(), create.join()
    block, = others[0].allocate(1)
    for other in others[1:]:
        other.retain([block, block])
    for other in others:
        die(other)
    report = pool.reap()
    assert [(reaped.slot, reaped.num_references, reaped.num_free_blocks) for reaped in report.dead] == \
        [(1, 1, 1), (2, 2, 0), (3, 2, 0)]
    assert not list(State(name).faults([0])) and pool.num_free_blocks == 8 and pool.num_reaps == 3


def test_joining_reaps_the_slot(create, name):
    pool, other = create(), create.join()
    other.allocate(8)
    die(other)
    new = create.join()
    assert new.slot == 1 and new.num_free_blocks == 8 and pool.num_reaps == 1
    assert not list(State(name).faults([0, 1]))


def test_buffers(create):
    pool, other = create(num_blocks=3, block_bytes=100), create.join()
    blocks = pool.allocate(3)
    for block in blocks:
        view = pool.buffer(block)
        assert len(view) == view.nbytes == 100 and not view.readonly and view.format == "B"
        view[:] = bytes([block + 1]) * 100
    assert [bytes(pool.buffer(block)) for block in blocks] == [bytes([block + 1]) * 100 for block in blocks]
    with pytest.raises(UseAfterFree, match=r"this member has no reference to block \d \(refcount 1\): allocate or"):
        other.buffer(blocks[0])
    pool.release(blocks[:1])
    with pytest.raises(UseAfterFree, match="refcount 0"):
        pool.buffer(blocks[0])
    with pytest.raises(NotABlock):
        pool.buffer(3)


def test_numpy_and_torch_over_a_buffer(create):
    numpy = pytest.importorskip("numpy")
    torch = pytest.importorskip("torch")
    pool, other = create(num_blocks=2, block_bytes=64), create.join()
    block, = pool.allocate(1)
    other.retain([block])
    torch.frombuffer(pool.buffer(block), dtype=torch.float16)[3] = 1.5
    array = numpy.frombuffer(other.buffer(block), dtype=numpy.float16)
    assert array[3] == 1.5 and array.flags.writeable
    pool.close()
    other.close()
    assert array[3] == 1.5


def test_events(create):
    pool, other = create(), create.join()
    with record(pool) as recording:
        blocks = pool.allocate(2, owner="A")
        other.retain(blocks)
        pool.release(blocks, owner="A")
        with pytest.raises(DoubleFree):
            pool.release(blocks)
        with pytest.raises(NotABlock):
            pool.retain([99])
    assert [event.op for event in recording.events] == ["allocate", "release", "release", "retain"]
    assert recording.source == "shared pool" and recording.events[3].detail["error"] == "NotABlock"


def test_threads_of_one_member_take_turns(create):
    pool = create(num_blocks=100, cache_blocks=4)
    holders = [0] * 100
    wrong = []

    def work():
        for _ in range(150):
            blocks = pool.allocate(5)
            for block in blocks:
                holders[block] += 1
                if holders[block] != 1:
                    wrong.append(block)
            for block in blocks:
                holders[block] -= 1
            pool.release(blocks)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong and pool.num_free_blocks == 100


def test_repr(create):
    pool = create(block_bytes=64)
    pool.allocate(3)
    assert "slot 0, 5 of 8 blocks of 64 bytes free" in repr(pool)
