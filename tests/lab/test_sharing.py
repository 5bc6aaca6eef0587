"""What notebook 05 shows, held: what is found, what a fork reads, what a stale index serves, what a spy learns."""

import builtins

import pytest

from pagedkv import KVCacheManager, record
from pagedkv.java import start
from pagedkv.lab import sharing_index
from pagedkv.lab.sharing_cases import Words, ask, fork_rows, found_while_evicting, serve_until_full, spy_out
from pagedkv.lab.sharing_eviction import CachedBlock, SmallPool, random_tree, right_victims
from pagedkv.lab.sharing_faults import HeadFirstManager, StaleIndexManager
from pagedkv.lab.sharing_index import weak_hash
from pagedkv.lab.sharing_memory import TokenMemory
from pagedkv.lab.sharing_pictures import Row, plot_reads


def test_words_are_tokens():
    words = Words()
    assert words("to be or not to be") == [0, 1, 2, 3, 0, 1]
    assert words("be it") == [1, 4] and words.text[4] == "it"
    assert words.read([1, None, 4]) == "be · it"


def test_the_last_token_is_left_to_compute():
    manager = KVCacheManager(num_blocks=16, block_size=4)
    prompt = list(range(16))
    assert [ask(manager, prompt), ask(manager, prompt), ask(manager, prompt + [99])] == [0, 12, 16]


def test_a_killed_request_keeps_its_own_blocks_and_the_shared_ones_once():
    """S14"""
    def serve(manager, number):
        seq = manager.add_sequence(list(range(1024)) + [2000 + number] * 100)
        if number % 12 != 11:
            manager.free_sequence(seq)

    manager = KVCacheManager(num_blocks=1_000, block_size=16)
    served = serve_until_full(manager, serve, most=5_000)
    killed = len(manager.live_sequences)
    assert manager.num_used_blocks == 64 + 7 * killed and served // 12 == killed == (1_000 - 64) // 7
    assert sum(manager.reclaim(seq, "gone") for seq in manager.live_sequences) == 71 * killed
    assert manager.num_used_blocks == 0 and serve_until_full(manager, serve, most=20) == 20


def test_a_fork_without_a_copy_reads_what_the_other_wrote():
    """S11"""
    start()
    assert [row.wrong for row in fork_rows()] == [[6], [], [], []]
    assert [row.name for row in fork_rows()] == ["no copy: A", "no copy: B", "copied: A", "copied: B"]


@pytest.mark.parametrize("manager_class, found", [
    (KVCacheManager, [4, 3, 2, 1, 0]), (HeadFirstManager, [4, 0, 0, 0, 0])])
def test_the_head_of_a_chain_is_worth_more_than_its_tail(manager_class, found):
    assert found_while_evicting(manager_class) == found


def test_what_follows_a_block_that_was_computed_twice_goes_with_the_first_one():
    """The prompt again, while its last block is cached and idle: it is computed into another block, and what follows
    hangs under the first."""
    prompt, manager = list(range(8)), KVCacheManager(num_blocks=6, block_size=4)
    manager.free_sequence(manager.add_sequence(prompt))
    again = manager.add_sequence(prompt)
    for token in range(8, 13):
        manager.append_token(again, token)
    assert len(manager.find(list(range(13)))) == 3
    manager.pool.allocate(2)  # an empty one, and the first one's last block
    assert again.is_live and len(manager.find(list(range(13)))) == 1


def served_again(manager_class):
    """A's prompt, then B's, then A's once more: how many tokens were found, and what is read."""
    memory = TokenMemory(manager_class(num_blocks=2, block_size=4))
    with record(memory.manager):
        memory.manager.free_sequence(memory.add([1, 2, 3, 4, 5]))
        memory.manager.free_sequence(memory.add([6, 7, 8, 9, 10, 11]))
        again = memory.add([1, 2, 3, 4, 5])
    return again.num_cached_tokens, memory.read(again)


def test_a_stale_index_serves_somebody_elses_block():
    assert served_again(KVCacheManager) == (0, [1, 2, 3, 4, 5])
    assert served_again(StaleIndexManager) == (4, [6, 7, 8, 9, 5])


def test_memory_carries_out_copies_before_it_writes():
    """S11"""
    memory = TokenMemory(KVCacheManager(num_blocks=8, block_size=4))
    a = memory.add([1, 2, 3, 4, 5, 6])
    b = memory.manager.fork(a)
    memory.append(b, 8)
    memory.append(a, 7)
    assert memory.read(a) == [1, 2, 3, 4, 5, 6, 7] and memory.read(b) == [1, 2, 3, 4, 5, 6, 8]
    assert memory.num_computed == 8 and memory.manager.num_used_blocks == 3


def test_drafts_are_rolled_back_with_their_fork():
    """X9"""
    memory = TokenMemory(KVCacheManager(num_blocks=8, block_size=4))
    a = memory.add([1, 2, 3, 4, 5, 6])
    draft = memory.manager.fork(a)
    for token in (7, 8, 9):
        memory.append(draft, token)
    assert memory.manager.num_used_blocks == 4 and memory.read(a) == [1, 2, 3, 4, 5, 6]
    memory.manager.free_sequence(draft)
    memory.append(a, 7)
    assert memory.read(a) == [1, 2, 3, 4, 5, 6, 7] and memory.manager.num_used_blocks == 2


def test_a_spy_finds_out_what_others_have_sent_unless_there_is_a_salt():
    """X5"""
    known, guesses = list(range(6)), {"two": [20, 30], "five": [21, 30], "nine": [22, 30]}

    def learnt(salts):
        manager = KVCacheManager(num_blocks=64, block_size=4)
        ask(manager, known + [22, 30, 40, 41], salts[0])
        return spy_out(manager, known, guesses, filler=-1, salt=salts[1])

    assert learnt((None, None)) == {"two": 0, "five": 0, "nine": 4}
    assert learnt(("A", "A")) == {"two": 0, "five": 0, "nine": 4}
    assert learnt(("A", "B")) == learnt((None, "B")) == {"two": 0, "five": 0, "nine": 0}


def test_the_price_of_a_salt_per_tenant():
    """X5"""
    def used(salts):
        manager = KVCacheManager(num_blocks=1_000, block_size=16)
        for number, salt in enumerate(salts):
            manager.add_sequence(list(range(1024)) + [2000 + number] * 100, salt=salt)
        return manager.num_used_blocks

    assert used([None] * 10) == 64 + 10 * 7 and used(map(str, range(10))) == 10 * (64 + 7)


# ── what the exercises are tried on ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(40))
def test_a_cache_to_choose_from_is_one_that_a_manager_could_leave(seed):
    nodes = {node.block: node for node in random_tree(seed, 2 + seed // 3)}
    for node in nodes.values():
        if node.parent is not None:
            above = nodes[node.parent]
            assert above.last_used >= node.last_used and above.refcount >= node.refcount


def test_the_victims_are_leaves_that_nobody_holds():
    tree = [CachedBlock(1, None, 0, 3), CachedBlock(2, 1, 0, 3), CachedBlock(3, 1, 0, 2), CachedBlock(4, None, 1, 1)]
    assert right_victims(tree) == {3}
    assert right_victims(tree[:2]) == {2} and right_victims(tree[3:]) == set() == right_victims([])


def test_random_caches_hold_blocks_and_branches():
    trees = [random_tree(seed, 10) for seed in range(20)]
    assert any(node.refcount for tree in trees for node in tree)
    assert any(len({node.parent for node in tree}) < len(tree) - 3 for tree in trees)


def test_a_small_pool_evicts_what_was_given_back_first():
    pool = SmallPool([0], [7, 8], {3: 1})
    assert (pool.num_blocks, pool.num_free_blocks, pool.num_empty_blocks, pool.num_cached_blocks) == (4, 3, 1, 2)
    pool.retain([8, 3])
    assert pool.counts == {8: 1, 3: 2} and pool.allocate(2) == [0, 7] and pool.evicted == [7]
    pool.release([3, 8])
    assert pool.cached == [8] and pool.refcount(3) == 1
    for call in (lambda: pool.allocate(2), lambda: pool.retain([7, 99]), lambda: pool.release([8])):
        before = pool.state()
        with pytest.raises(Exception):
            call()
        assert pool.state() == before
    assert pool.has_refused and not SmallPool([0], [], {}).has_refused and pool.num_references == 3


class _UsesHash:
    def key(self, value):
        return hash(value)


def test_a_weak_hash_is_there_for_the_class_only():
    with weak_hash(_UsesHash):
        assert {_UsesHash().key(value) for value in range(100)} == {0, 1, 2, 3}
        assert builtins.hash(99) == 99 and sharing_index.__dict__.get("hash") is None
        with pytest.raises(TypeError):
            _UsesHash().key([])
    assert _UsesHash().key(99) == 99 and "hash" not in globals()


def test_reads_are_drawn_with_what_is_wrong():
    row = Row("A", [4, 2], [1, 2, 9, None], [1, 2, 3, 4])
    assert row.wrong == [2, 3] and Row("B", [0], [1], [1, 2]).wrong == [1]
    picture = plot_reads([row], block_size=2, title="two blocks")
    assert picture.alt == "A reads 1 2 9 ·, and should read 1 2 3 4" and picture.png().startswith(b"\x89PNG")
