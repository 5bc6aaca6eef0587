"""KVCacheManager over a shared pool: what one member has written, another one finds; nothing half written is found."""

import random

import pytest

from pagedkv import KVCacheManager, OutOfBlocks, Replay, record
from pagedkv.core.prefix_cache import FoundTooLate


@pytest.fixture
def managers(create):
    """Two members, each with a manager."""
    pool = create(num_blocks=12, tokens_per_block=2)
    return KVCacheManager(pool=pool), KVCacheManager(pool=create.join())


def test_what_one_has_written_the_other_one_finds(managers):
    here, there = managers
    seq = here.add_sequence([1, 2, 3, 4, 5])
    assert there.find([1, 2, 3, 4, 5]) == []
    here.mark_written(seq, 3)
    assert there.find([1, 2, 3, 4, 5]) == seq.block_table[:1]
    here.mark_written(seq, 5)
    other = there.add_sequence([1, 2, 3, 4, 9])
    assert other.block_table[:2] == seq.block_table[:2]
    assert other.num_cached_tokens == 4
    assert here.refcount(seq.block_table[0]) == there.refcount(seq.block_table[0]) == 2
    assert other.block_table[2] != seq.block_table[2]


def test_a_sequence_that_ends_has_been_written(managers):
    here, there = managers
    with here.sequence([1, 2, 3, 4, 5]) as seq:
        table = seq.block_table.copy()
    assert there.num_cached_blocks == 2
    assert there.add_sequence([1, 2, 3, 4, 6]).block_table[:2] == table[:2]
    assert there.num_cached_blocks == 0


def test_a_sequence_that_is_given_up(managers):
    here, there = managers
    seq = here.add_sequence([1, 2, 3, 4, 5])
    first = seq.block_table[0]
    here.free_sequence(seq, num_written_tokens=3)
    assert there.find([1, 2, 3, 4, 5]) == [first]
    assert there.num_cached_blocks == 1


def test_generated_tokens_are_found_when_they_are_written(managers):
    here, there = managers
    seq = here.add_sequence([1])
    for token in (2, 3, 4, 5):
        here.append_token(seq, token)
    here.mark_written(seq, 5)
    assert there.find([1, 2, 3, 4, 5]) == seq.block_table[:2]
    here.append_tokens([seq], [6])
    assert there.find([1, 2, 3, 4, 5, 6, 7]) == seq.block_table[:2]
    here.free_sequence(seq)
    assert len(there.find([1, 2, 3, 4, 5, 6, 7])) == 3


@pytest.mark.parametrize("salt, is_found", [("a", True), ("b", False), (None, False), (b"a", True)])
def test_salts(managers, salt, is_found):
    here, there = managers
    here.free_sequence(here.add_sequence([1, 2, 3], salt="a"))
    assert bool(there.find([1, 2, 3], salt=salt)) == is_found


def test_both_compute_the_same_and_both_go_on(managers):
    here, there = managers
    one, two = here.add_sequence([1, 2, 3, 4, 5]), there.add_sequence([1, 2, 3, 4, 5])
    assert not set(one.block_table) & set(two.block_table)
    here.mark_written(one, 5)
    there.append_token(two, 6)
    there.mark_written(two, 6)
    # the third block of `two` comes after the two that were known first
    assert here.find([1, 2, 3, 4, 5, 6, 7]) == [*one.block_table[:2], two.block_table[2]]


def test_forks_share_and_copy_before_they_write(managers):
    here, there = managers
    seq = here.add_sequence([1, 2, 3])
    here.mark_written(seq, 3)
    child = here.fork(seq)
    assert here.refcount(seq.block_table[1]) == 2
    here.append_token(child, 4)
    assert here.take_block_copies() == [(seq.block_table[1], child.block_table[1])]
    here.append_token(seq, 5)
    assert here.take_block_copies() == []
    for each in (seq, child):
        here.free_sequence(each)
    assert len(there.find([1, 2, 3, 4, 9])) == len(there.find([1, 2, 3, 5, 9])) == 2
    assert there.num_free_blocks == 12


def test_a_last_block_that_another_member_holds_is_copied(managers):
    here, there = managers
    seq = here.add_sequence([1, 2, 3])
    [_, last] = seq.block_table
    there.pool.shared.retain([last])
    child = here.fork(seq)
    here.append_token(child, 4)
    here.append_token(seq, 4)  # `there` would see it
    assert last not in seq.block_table and last not in child.block_table
    assert here.refcount(last) == 1
    there.pool.shared.release([last])


def test_too_few_blocks(managers):
    here, there = managers
    here.free_sequence(here.add_sequence([1, 2, 3, 4, 5]))
    hog = there.pool.allocate(9)  # the empty ones but one; two are cached
    before = there.refcounts()
    with pytest.raises(OutOfBlocks):
        here.add_sequence([1, 2, 3, 4, 5, 6, 7, 8])
    assert there.refcounts() == before
    assert len(here.find([1, 2, 3, 4, 5])) == 2
    there.pool.release(hog)
    here.add_sequence([1, 2, 3, 4, 5, 6, 7, 8])


def test_what_is_evicted_between_the_look_and_the_use(managers):
    here, there = managers
    here.free_sequence(here.add_sequence([1, 2, 3, 4, 5]))
    match, looks = here.pool.shared.match, []

    def evicted_after_the_first_look(*arguments, hold):
        result = match(*arguments, hold=hold)
        if not looks:
            there.pool.allocate(12)
            there.pool.release(range(12))
        looks.append(hold)
        return result

    here.pool.shared.match = evicted_after_the_first_look
    seq = here.add_sequence([1, 2, 3, 4, 5])
    assert looks == [False, True, False]
    assert seq.num_cached_tokens == 0
    assert here.num_used_blocks == 3


def test_reusing_too_late_leaves_nothing_behind(managers):
    here, there = managers
    here.free_sequence(here.add_sequence([1, 2, 3, 4, 5]))
    hits, _ = here.pool.find(*here._read([1, 2, 3, 4, 5])[:1], 2, 8, -1)
    there.pool.allocate(12)
    with pytest.raises(FoundTooLate):
        here.pool.reuse_and_allocate(hits, 1)
    assert there.refcounts() == [1] * 12


def test_what_a_dead_member_had_written_is_found(managers, create):
    here, there = managers
    seq = here.add_sequence([1, 2, 3, 4, 5])
    here.mark_written(seq, 3)
    here.pool.shared.close()  # as after a death and a reap
    assert there.num_free_blocks == 12
    assert len(there.find([1, 2, 3, 4, 5])) == 1


@pytest.mark.parametrize("seed", range(3))
def test_at_random(managers, seed):
    """Each block found holds what was written for these tokens and all before them."""
    choose = random.Random(seed)
    live, contents = [], {}  # contents: by block, what its writer put there
    for _ in range(400):
        manager = choose.choice(managers)
        own = [seq for owner, seq, *_ in live if owner is manager]
        if choose.random() < 0.5 or not own:
            tokens = [choose.randint(1, 2) for _ in range(choose.randint(1, 8))]
            try:
                seq = manager.add_sequence(tokens)
            except OutOfBlocks:
                continue
            for place, block in enumerate(seq.block_table):
                if 2 * place < seq.num_cached_tokens:
                    assert contents[block] == tokens[:2 * place + 2]
                else:
                    contents[block] = tokens[:2 * place + 2]
            live.append((manager, seq, tokens))
            if choose.random() < 0.7:
                manager.mark_written(seq, choose.randint(0, len(tokens)))
        else:
            entry = choose.choice([entry for entry in live if entry[0] is manager])
            live.remove(entry)
            manager.free_sequence(entry[1], choose.choice([None, None, choose.randint(0, len(entry[2]))]))
        held = [0] * 12
        for _, seq, _ in live:
            for block in seq.block_table:
                held[block] += 1
        assert managers[0].refcounts() == held
        assert managers[1].num_free_blocks == managers[1].num_empty_blocks + managers[1].num_cached_blocks \
            == held.count(0)


def test_events_can_be_replayed(managers):
    here, there = managers
    there.free_sequence(there.add_sequence([7, 7, 8]))
    with record(here) as recording:
        seq = here.add_sequence([7, 7, 1, 2, 3])
        seq_table = seq.block_table
        child = here.fork(seq)
        here.append_token(child, 4)
        here.mark_written(seq, 5)
        here.free_sequence(seq)
        with pytest.raises(OutOfBlocks):
            here.add_sequence(range(100))
        held = here.refcounts()
        here.free_sequence(child, num_written_tokens=5)
    replay = Replay(recording)
    assert replay.at(len(recording.events) - 1).refcounts() == held
    state = replay.end()
    assert state.faults == [] and state.refcounts() == here.refcounts() == [0] * 12
    of_others, own = [event.detail for event in recording.events if event.op == "cache"]
    assert of_others["tokens"] == ((7, 7),) and of_others["parents"] == (-1,)
    assert own["tokens"] == ((1, 2),) and own["parents"] == (seq_table[0],)


@pytest.mark.parametrize("more, error", [({"num_blocks": 8}, "num_blocks is 12"), ({"block_size": 4}, "block_size is 2")])
def test_sizes_that_are_not_the_pools(managers, more, error):
    with pytest.raises(ValueError, match=error):
        KVCacheManager(pool=managers[0].pool.shared, **more)


def test_a_pool_without_an_index(create):
    with pytest.raises(ValueError, match="tokens_per_block"):
        KVCacheManager(pool=create())


def test_what_is_no_pool():
    with pytest.raises(TypeError, match="SharedPool"):
        KVCacheManager(pool=[1, 2])


def test_marking_what_is_not_there(managers):
    here, _ = managers
    seq = here.add_sequence([1, 2, 3])
    with pytest.raises(ValueError, match="has 3 tokens"):
        here.mark_written(seq, 4)


def test_a_manager_of_one_process_needs_no_mark():
    manager = KVCacheManager(8, block_size=2)
    seq = manager.add_sequence([1, 2, 3])
    assert manager.find([1, 2, 3]) == seq.block_table[:1]
    manager.mark_written(seq, 0)
    assert manager.find([1, 2, 3]) == seq.block_table[:1]


