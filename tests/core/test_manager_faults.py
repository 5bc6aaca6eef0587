"""Faults that real engines had, each as its smallest sequence, and then its class: the same with other numbers.

The issue that a test names is where the fault was reported.
"""

import random

import pytest

from pagedkv import DoubleFree, KVCacheManager, OutOfBlocks
from tests.core.manager_checked import CheckedManager


def fingerprint(manager, handles=()):
    """What can be seen of it, without looking at the order of eviction."""
    return (manager.pool.refcounts(), manager.num_empty_blocks, manager.num_cached_blocks, manager.live_sequences,
            [(list(seq.block_table), seq.num_tokens) for seq in handles])


def drain(manager):
    """All blocks that can be had, in the order in which the pool gives them."""
    return [manager.pool.allocate(1)[0] for _ in range(manager.num_free_blocks)]


# ── nano-vllm#163, vllm#4764: an evicted block stays in the index, and the next one to ask for it gets a wrong hit ───

def test_an_evicted_block_is_not_found():
    manager = KVCacheManager(2, block_size=2)
    manager.free_sequence(manager.add_sequence([1, 2]))
    assert len(manager.find([1, 2, 3])) == 1
    manager.add_sequence([5, 6, 7, 8])
    assert manager.find([1, 2, 3]) == []


@pytest.mark.parametrize("block_size", [1, 2, 16])
@pytest.mark.parametrize("num_evicted", range(6))
def test_what_is_found_is_what_was_not_evicted(block_size, num_evicted):
    manager = KVCacheManager(5, block_size)
    prompt = list(range(5 * block_size))
    manager.free_sequence(manager.add_sequence(prompt))
    manager.pool.allocate(num_evicted)
    assert len(manager.find([*prompt, 0])) == 5 - num_evicted
    assert manager.num_cached_blocks == 5 - num_evicted


# ── vllm#42571: the same block twice in one release is listed as free twice ──────────────────────────────────────────

def test_the_same_block_twice_in_one_release():
    pool = KVCacheManager(4).pool
    [block] = pool.allocate(1)
    pool.retain([block])
    pool.release([block, block])
    assert sorted(pool.allocate(4)) == [0, 1, 2, 3]


@pytest.mark.parametrize("references", [1, 2, 3])
@pytest.mark.parametrize("released", [1, 2, 3, 4])
@pytest.mark.parametrize("cached", [False, True])
def test_a_release_counts_how_often_a_block_stands_in_it(references, released, cached):
    manager = KVCacheManager(3, block_size=1)
    if cached:
        [block] = manager.add_sequence([7]).block_table
    else:
        [block] = manager.pool.allocate(1)
    manager.pool.retain([block] * (references - 1))
    if released > references:
        with pytest.raises(DoubleFree):
            manager.pool.release([block] * released)
        assert manager.pool.refcount(block) == references
    else:
        manager.pool.release([block] * released)
        assert manager.pool.refcount(block) == references - released
    assert len(set(drain(manager))) == 2 + (released == references)


# ── vllm#11565: hits are touched before it is known whether there is room ───────────────────────────────────────────

def test_a_refused_prompt_does_not_touch_its_hits():
    checked = CheckedManager(5, 1)
    checked.free(checked.add([1, 2]))
    checked.add([1, 2, 3, 4, 5, 6])  # 2 hits and 4 new: 5 are free, but the hits are two of them
    assert checked.manager.live_sequences == () and checked.manager.num_free_blocks == 5
    checked.check()


@pytest.mark.parametrize("seed", range(20))
def test_hits_are_counted_once_when_room_is_counted(seed):
    """A prompt is taken exactly if its new blocks fit beside the hits; a refusal leaves the order of eviction alone."""
    chance = random.Random(seed)
    checked = CheckedManager(8, 2, observed=bool(seed % 2))
    for _ in range(4):
        checked.free(checked.add([chance.randrange(2) for _ in range(chance.randint(2, 16))]))
    held = checked.add([5] * chance.randint(1, 6))
    for length in range(16, 0, -1):
        for first in (0, 1):
            if one := checked.add([first] * length):
                checked.free(one)
            checked.check()
    checked.free(held)


# ── mini-sglang#52: a cached block that somebody uses is evicted ─────────────────────────────────────────────────────

def test_a_block_in_use_is_not_evicted():
    manager = KVCacheManager(4, block_size=1)
    manager.free_sequence(manager.add_sequence([1, 2]))
    seq = manager.add_sequence([1, 2, 3])
    assert seq.num_cached_tokens == 2
    assert manager.pool.allocate(1)[0] not in seq.block_table
    with pytest.raises(OutOfBlocks):
        manager.pool.allocate(1)
    assert [manager.pool.refcount(block) for block in seq.block_table] == [1, 1, 1]


@pytest.mark.parametrize("num_hits", range(1, 6))
@pytest.mark.parametrize("num_holders", [1, 2, 3])
def test_blocks_are_given_to_nobody_while_one_holder_is_left(num_hits, num_holders):
    manager = KVCacheManager(8, block_size=1)
    prompt = list(range(num_hits))
    manager.free_sequence(manager.add_sequence(prompt))
    holders = [manager.add_sequence([*prompt, 100 + i]) for i in range(num_holders)][:8 - num_hits]
    while len(holders) > 1:
        manager.free_sequence(holders.pop())
    [last] = holders
    given = drain(manager)
    assert not set(given) & set(last.block_table) and len(given) == 8 - len(last.block_table)


# ── vllm#21809: admitted because its next chunk fits, then preempted, over and over ─────────────────────────────────

def test_a_prompt_has_all_its_blocks_from_the_beginning():
    """Two prompts of 8 blocks in a pool of 10: the second waits, none of its blocks is taken, and both finish."""
    manager = KVCacheManager(10, block_size=1)
    first = manager.add_sequence(range(8))
    with pytest.raises(OutOfBlocks):
        manager.add_sequence(range(100, 108))
    assert len(first.block_table) == 8 and manager.num_free_blocks == 2
    manager.free_sequence(first)
    manager.free_sequence(manager.add_sequence(range(100, 108)))


@pytest.mark.parametrize("num_blocks", [8, 9, 10, 15, 16, 20])
@pytest.mark.parametrize("sizes", [(8, 8), (8, 3, 8, 5), (1, 8, 1, 8, 1)])
def test_waiting_prompts_all_finish(num_blocks, sizes):
    """First come, first served: one that was admitted never has to give up, so there are as many rounds as prompts."""
    manager = KVCacheManager(num_blocks, block_size=1)
    waiting = [[i] * size for i, size in enumerate(sizes)]
    running, rounds = [], 0
    while waiting or running:
        rounds += 1
        while waiting:
            try:
                running.append(manager.add_sequence(waiting[0]))
            except OutOfBlocks:
                break
            waiting.pop(0)
        manager.free_sequence(running.pop(0))
    assert rounds == len(sizes) and manager.num_used_blocks == 0


# ── apache/tvm#16666: a fork takes no references. transformers#46117: a fork fails half way ──────────────────────────

def test_a_fork_takes_references():
    manager = KVCacheManager(4, block_size=2)
    parent = manager.add_sequence([1, 2, 3])
    child = manager.fork(parent)
    manager.free_sequence(parent)
    assert not set(manager.pool.allocate(2)) & set(child.block_table)
    assert [manager.pool.refcount(block) for block in child.block_table] == [1, 1]


def test_a_fork_needs_no_free_block():
    """The copy is due when one of the two writes; if there is no block then, nothing has changed for either of them."""
    manager = KVCacheManager(2, block_size=2)
    parent = manager.add_sequence([1, 2, 3])
    child = manager.fork(parent)
    assert manager.num_free_blocks == 0 and manager.pool.refcounts() == [2, 2]
    before = fingerprint(manager, (parent, child))
    for seq in (parent, child):
        with pytest.raises(OutOfBlocks):
            manager.append_token(seq, 4)
    assert fingerprint(manager, (parent, child)) == before and manager.take_block_copies() == []


@pytest.mark.parametrize("num_blocks", range(2, 8))
@pytest.mark.parametrize("num_forks", range(1, 6))
def test_forks_that_write_copy_until_there_is_no_room(num_blocks, num_forks):
    checked = CheckedManager(num_blocks, 4, observed=True)
    parent = checked.add([1, 2, 3, 4, 5])
    family = [parent, *(checked.fork(parent) for _ in range(num_forks))]
    grown = [one for i, one in enumerate(family) if checked.append(one, i)]
    assert len(grown) == (num_forks + 1 if num_blocks - 2 >= num_forks else num_blocks - 2)
    checked.check()
    for one in family:
        checked.free(one)
    checked.check()


# ── vllm#45388: each of two holds a part of what it needs, and waits for the other's ─────────────────────────────────

def test_a_batch_that_does_not_fit_takes_nothing():
    manager = KVCacheManager(3, block_size=1)
    seqs = [manager.add_sequence([1]), manager.add_sequence([2])]
    before = fingerprint(manager, seqs)
    with pytest.raises(OutOfBlocks):
        manager.append_tokens(seqs, [3, 4])
    assert fingerprint(manager, seqs) == before
    manager.free_sequence(seqs[0])
    manager.append_tokens(seqs[1:], [4])
    manager.append_tokens(seqs[1:], [5])


@pytest.mark.parametrize("num_sequences", range(1, 6))
@pytest.mark.parametrize("num_blocks", range(5, 12))
@pytest.mark.parametrize("observed", [False, True])
def test_batches_are_all_or_nothing(num_sequences, num_blocks, observed):
    checked = CheckedManager(num_blocks, 2, observed)
    many = [checked.add([i]) for i in range(num_sequences)]
    for step in range(2 * num_blocks):
        lengths = [one.handle.num_tokens for one in many]
        fits = checked.append_many(many, [step] * num_sequences)
        assert [one.handle.num_tokens for one in many] == [length + fits for length in lengths]
        checked.check()
        if not fits:
            break
    assert len({len(one.tokens) for one in many}) == 1 and not fits


# ── sglang#35270: what can be evicted is counted twice ───────────────────────────────────────────────────────────────

@pytest.mark.parametrize("observed", [False, True])
def test_empty_and_cached_and_used_are_all(observed):
    checked = CheckedManager(6, 2, observed)  # compares all three with the model's after each call
    for prompt in ([1, 2, 3], [1, 2, 3, 4, 5], [1, 2], [7] * 5, [1, 2, 3, 4, 5, 6], [7] * 12):
        one = checked.add(prompt)
        counts = checked.manager.num_empty_blocks, checked.manager.num_cached_blocks, checked.manager.num_used_blocks
        assert sum(counts) == 6 and checked.manager.num_free_blocks == counts[0] + counts[1]
        checked.append(one, 9)
        checked.free(one)
    checked.check()
