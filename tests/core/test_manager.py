"""The cache manager's contract by plain examples, and everything that it refuses.

What any order of calls leads to is in test_manager_machine."""

import logging
import sys
import tracemalloc
from array import array
from collections import Counter

import numpy
import pytest

from pagedkv import BlockPool, DoubleFree, KVCacheManager, OutOfBlocks, Replay, UseAfterFree, record
from pagedkv.core.conformance import check_rules
from pagedkv.core.prefix_cache import PrefixCachePool
from pagedkv.lab.conformance import check_random_calls
from tests.core.manager_checked import CheckedManager

INT32_MAX = 2**31 - 1


def refcounts(manager, seq):
    return [manager.pool.refcount(block) for block in seq.block_table]


@pytest.fixture(params=[False, True], ids=["", "observed"])
def checked(request):
    """Compared with the model, and refusals leave everything as it was."""
    return CheckedManager(6, 4, observed=request.param)


# ── growing ──────────────────────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("block_size", [1, 2, 3, 16])
def test_a_new_block_only_when_the_last_one_is_full(block_size):
    """N8, S5: logical blocks in order, whatever the physical ones are."""
    manager = KVCacheManager(64, block_size)
    manager.pool.release(manager.pool.allocate(7)[::2])  # so that ids do not come in order
    seq = manager.add_sequence([0])
    for num_tokens in range(2, 50):
        table = list(seq.block_table)
        manager.append_token(seq, num_tokens)
        assert seq.num_tokens == num_tokens
        assert len(seq.block_table) == -(-num_tokens // block_size)
        assert seq.block_table[:len(table)] == table
        assert (seq.block_table != table) == ((num_tokens - 1) % block_size == 0)
    assert manager.num_used_blocks == 3 + len(seq.block_table)


def test_slots():
    """S5: position → slot through the table; no position is negative, none is past the end."""
    manager = KVCacheManager(8, block_size=4)
    seq = manager.add_sequence(range(10))
    assert [manager.slot(seq, position) for position in range(10)] == \
        [seq.block_table[position // 4] * 4 + position % 4 for position in range(10)]
    for wrong in (-1, -10, 10, 11, 12, 10**9):
        with pytest.raises(IndexError):
            manager.slot(seq, wrong)
    for wrong in (1.0, "1", None, True):
        with pytest.raises(TypeError):
            manager.slot(seq, wrong)


def test_a_batch_where_one_cannot_grow(checked):
    """Nothing changes, for the ones that could have grown either."""
    fits, needs_a_block = checked.add([1, 2]), checked.add([5, 6, 7, 8])
    checked.raw_allocate(4)
    assert not checked.append_many([fits, needs_a_block], [3, 9])
    assert fits.handle.num_tokens == 2
    assert checked.append_many([fits], [3])
    checked.check()


def test_forks_in_one_batch_copy_one_time_less_than_they_are(checked):
    """The last one to write has the shared block for itself."""
    parent = checked.add([1, 2, 3, 4, 5])
    family = [parent, checked.fork(parent), checked.fork(parent)]
    checked.raw_allocate(2)
    assert checked.append_many(family, [6, 7, 8])
    assert len(checked.model.copies) == 2
    checked.check()


def test_watching_changes_nothing():
    """With an observer and without one the same can be found afterwards. Here one of a batch computes what lies in the
    cached block that the other one's new block evicts."""
    def end(observer):
        manager = KVCacheManager(4, block_size=1)
        manager.observer = observer
        first = manager.add_sequence([7])
        manager.free_sequence(manager.add_sequence([7, 5]))
        second = manager.add_sequence([8])
        manager.append_tokens([first, second], [5, 1])
        return manager.num_cached_blocks, [len(manager.find(prompt)) for prompt in ([7, 5, 0], [8, 1, 0])]

    assert end(lambda event: None) == end(None)


def test_empty_batch(checked):
    checked.append_many([], [])
    checked.check()


# ── the prefix cache ─────────────────────────────────────────────────────────────────────────────────────────────────

def test_the_longest_shared_prefix_is_found():
    """S15: block by block, so prompts that differ later share what comes before. A hash of all tokens finds nothing."""
    manager = KVCacheManager(64, block_size=4)
    system = list(range(8))
    first = manager.add_sequence([*system, 50, 51, 52, 53, 54])
    second = manager.add_sequence([*system, 50, 51, 52, 99, 54])
    third = manager.add_sequence([*system, 50, 51, 52, 53, 99])
    assert (first.num_cached_tokens, second.num_cached_tokens, third.num_cached_tokens) == (0, 8, 12)
    assert second.block_table[:2] == first.block_table[:2] and third.block_table[:3] == first.block_table[:3]
    assert refcounts(manager, first) == [3, 3, 2, 1]


@pytest.mark.parametrize("block_size", [1, 2, 4])
def test_each_length_of_a_shared_prefix(block_size):
    """S15, and S14: hit ⇒ one reference more, miss ⇒ a block of its own."""
    prompt = list(range(20))
    for shared in range(21):
        manager = KVCacheManager(64, block_size)
        first = manager.add_sequence(prompt)
        second = manager.add_sequence(prompt[:shared] + [1000 + token for token in prompt[shared:]])
        num_hits = min(shared, 19) // block_size
        assert second.num_cached_tokens == num_hits * block_size
        assert refcounts(manager, first)[:num_hits] == [2] * num_hits
        assert not set(first.block_table[num_hits:]) & set(second.block_table)


def test_the_last_token_is_always_computed():
    manager = KVCacheManager(16, block_size=4)
    manager.add_sequence(range(8))
    assert [manager.add_sequence(range(n)).num_cached_tokens for n in (4, 5, 8, 9)] == [0, 4, 4, 8]


@pytest.mark.parametrize("position", range(9))
@pytest.mark.parametrize("difference", [1, -1, 2**8, 2**16, 2**24, -2**31])
def test_hits_are_exact(position, difference):
    """N17: as String.intern compares contents. From the block of the first token that differs nothing is shared."""
    manager = KVCacheManager(64, block_size=3)
    prompt = [7] * 10
    other = prompt.copy()
    other[position] += difference
    manager.add_sequence(prompt)
    assert manager.add_sequence(other).num_cached_tokens == position // 3 * 3


def test_the_same_tokens_after_others_are_no_hit():
    """N17: what a block holds depends on everything before it."""
    manager = KVCacheManager(64, block_size=2)
    manager.add_sequence([1, 1, 2, 2, 3])
    assert manager.find([2, 2, 3]) == []
    assert manager.find([9, 9, 2, 2, 3]) == []
    assert len(manager.find([1, 1, 1, 1, 2, 2, 3])) == 1


def test_a_block_id_that_is_used_again_leads_nowhere():
    """N17: the parent is evicted, and its block gets other contents, while what came after it is still held."""
    manager = KVCacheManager(4, block_size=1)
    first = manager.add_sequence([1])
    second = manager.add_sequence([1])  # computed at once, so it is not found
    manager.append_token(second, 2)  # known as what comes after the first one's block
    manager.free_sequence(first)
    assert len(manager.find([1, 2, 0])) == 2
    other = manager.add_sequence([8, 9])  # takes the empty block and evicts the first one's
    assert manager.find([1, 2, 0]) == [] and manager.find([8, 2, 0]) == other.block_table[:1]
    assert manager.find([9, 2, 0]) == [] and manager.find([8, 9, 2, 0]) == other.block_table
    manager.free_sequence(second)
    assert manager.num_cached_blocks == 0 and manager.num_empty_blocks == 2


def test_two_compute_the_same_at_once(checked):
    first, second = checked.add([1, 2, 3, 4]), checked.add([1, 2, 3, 4])
    assert not set(first.handle.block_table) & set(second.handle.block_table)
    checked.append(second, 5)
    checked.free(second)
    assert checked.manager.num_empty_blocks == 5, "nobody can find what the second one has computed again"
    checked.check()


def test_the_first_to_compute_it_is_found_and_both_go_on_under_it(checked):
    first, second = checked.add([1, 2, 3, 4]), checked.add([1, 2, 3, 4])
    for token in (5, 6, 7, 8):
        checked.append(second, token)
    found = checked.manager.find([1, 2, 3, 4, 5, 6, 7, 8, 9])
    assert found == [first.handle.block_table[0], second.handle.block_table[1]]
    checked.free(first)
    checked.free(second)
    checked.check()  # the order of eviction: the tail, then the head that was the first one's


def test_tails_go_before_heads():
    manager = KVCacheManager(8, block_size=1)
    seq = manager.add_sequence([1, 2, 3, 4])
    table = list(seq.block_table)
    manager.free_sequence(seq)
    manager.pool.allocate(4)
    for kept in (3, 2, 1, 0):
        assert manager.pool.allocate(1) == [table[kept]]
        assert manager.find([1, 2, 3, 4, 5]) == table[:kept]


def test_least_recently_used_first():
    manager = KVCacheManager(3, block_size=1)
    for token in (1, 2, 3):
        manager.free_sequence(manager.add_sequence([token]))
    manager.find([1, 0])  # a look is no use
    manager.free_sequence(manager.add_sequence([2, 0]))  # evicts 1, uses 2
    found = [bool(manager.find([token, 9])) for token in (1, 2, 3)]
    assert found == [False, True, True]
    manager.pool.allocate(2)
    assert [bool(manager.find([token, 9])) for token in (1, 2, 3)] == [False, True, False]


def test_a_parent_that_is_evicted_before_its_children(checked):
    """Held, they stay; released, they are empty at once, since nobody could find them."""
    first, second = checked.add([1, 2, 3, 4]), checked.add([1, 2, 3, 4])
    for token in (5, 6, 7, 8, 9):
        checked.append(second, token)
    checked.free(first)
    checked.raw_allocate(3)
    assert checked.manager.num_cached_blocks == 0
    checked.check()
    checked.free(second)
    assert checked.manager.num_cached_blocks == 0 and checked.manager.num_empty_blocks == 3
    checked.check()


def test_salts():
    """Equal salts share, others do not; a salt is not a token, nor the lack of one."""
    manager = KVCacheManager(64, block_size=1)
    salts = (None, "", "a", "b", b"", b"a", "ab", b"\x01\x00\x00\x00", "\x01\x00\x00\x00", "None", "-1")
    for salt in salts:
        assert manager.find([1, 2, 3], salt=salt) == []
        seq = manager.add_sequence([1, 2, 3], salt=salt)
        assert (seq.num_cached_tokens, seq.salt) == (0, salt)
    tables = [tuple(manager.find([1, 2, 3, 4], salt=salt)) for salt in salts]
    assert len(set(tables)) == len(salts) and all(len(table) == 3 for table in tables)
    assert manager.find([2, 3, 4], salt=b"\x01\x00\x00\x00") == []


def test_a_fork_and_what_it_appends_keep_the_salt():
    manager = KVCacheManager(64, block_size=2)
    child = manager.fork(manager.add_sequence([1], salt="a"))
    manager.append_token(child, 2)
    assert child.salt == "a" and len(manager.find([1, 2, 3], salt="a")) == 1 and manager.find([1, 2, 3]) == []


@pytest.mark.parametrize("kind", [
    tuple, lambda tokens: array("i", tokens), lambda tokens: array("q", tokens), lambda tokens: array("h", tokens),
    numpy.array, lambda tokens: numpy.array(tokens, dtype=numpy.int32),
    lambda tokens: numpy.array(tokens, dtype=numpy.uint8),
    lambda tokens: numpy.repeat(numpy.array(tokens, dtype=numpy.int32), 2)[::2],
    lambda tokens: numpy.array(tokens, dtype=">i4"), lambda tokens: numpy.array(tokens, dtype=numpy.uint64),
    lambda tokens: [numpy.int64(token) for token in tokens]],
    ids=["tuple", "array i", "array q", "array h", "int64", "int32", "uint8", "strided", "big-endian", "uint64",
         "scalars"])
def test_tokens_of_any_integer_kind_are_the_same(kind):
    tokens = [3, 1, 4, 1, 5, 9, 2, 6, 100]
    manager = KVCacheManager(64, block_size=2)
    first = manager.add_sequence(tokens)
    second = manager.add_sequence(kind(tokens))
    assert second.num_cached_tokens == 8 and second.num_tokens == 9
    assert manager.find(kind(tokens)) == first.block_table[:4]
    manager.append_token(second, kind(tokens)[0])
    manager.append_tokens([first, second], kind([3, 5]))
    assert len(manager.find([*tokens, 3, 0])) == 5


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "uint8"])
def test_tokens_as_tensors(dtype):
    torch = pytest.importorskip("torch")
    manager = KVCacheManager(64, block_size=2)
    manager.add_sequence([3, 1, 4, 1, 5])
    seq = manager.add_sequence(torch.tensor([3, 1, 4, 1, 5], dtype=getattr(torch, dtype)))
    assert seq.num_cached_tokens == 4
    column = torch.tensor([[3, 0], [1, 0], [4, 0]], dtype=getattr(torch, dtype))[:, 0]
    assert manager.add_sequence(column).num_cached_tokens == 2
    manager.append_token(seq, torch.tensor(7, dtype=getattr(torch, dtype)))
    manager.append_tokens([seq], torch.tensor([8], dtype=getattr(torch, dtype)))
    assert seq.num_tokens == 7


def test_a_tensor_that_is_no_token():
    torch = pytest.importorskip("torch")
    manager = KVCacheManager(64, block_size=2)
    seq = manager.add_sequence([1])
    for wrong in (torch.tensor(True), torch.tensor(1.0), torch.tensor([1, 2])):
        with pytest.raises(TypeError):
            manager.append_token(seq, wrong)
    with pytest.raises(ValueError):
        manager.append_token(seq, torch.tensor(2**31))
    assert seq.num_tokens == 1


def test_a_range_and_the_ends_of_int32():
    manager = KVCacheManager(64, block_size=2)
    assert manager.add_sequence(range(5)).num_tokens == 5
    manager.add_sequence([INT32_MAX, -INT32_MAX - 1, 0])
    assert len(manager.find([INT32_MAX, -INT32_MAX - 1, 0])) == 1


def test_the_callers_tokens_are_not_kept():
    """Whoever changes a list, an array or a buffer afterwards changes nothing here."""
    for tokens in ([1, 2, 3], array("i", [1, 2, 3]), numpy.array([1, 2, 3], dtype=numpy.int32)):
        manager = KVCacheManager(8, block_size=2)
        seq = manager.add_sequence(tokens)
        tokens[0] = tokens[2] = 9
        manager.append_token(seq, 4)
        assert len(manager.find([1, 2, 3, 4, 5])) == 2 and manager.find([9, 2, 9, 4, 5]) == []


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────────────

def test_copy_on_write():
    """S11: the first to write to a shared block gets a copy; the list says which block to copy where, once."""
    manager = KVCacheManager(8, block_size=4)
    parent = manager.add_sequence(range(6))
    child = manager.fork(parent)
    assert child.block_table == parent.block_table and child.num_cached_tokens == 6
    assert refcounts(manager, parent) == [2, 2] and manager.take_block_copies() == []
    [_, shared] = parent.block_table
    manager.append_token(child, 7)
    assert parent.block_table[1] == shared and child.block_table[0] == parent.block_table[0]
    assert manager.take_block_copies() == [(shared, child.block_table[1])]
    assert manager.take_block_copies() == []
    manager.append_token(parent, 8)  # the only one left
    assert parent.block_table[1] == shared and manager.take_block_copies() == []
    assert refcounts(manager, parent) == [2, 1]


def test_copies_come_in_the_order_in_which_they_are_due():
    """S11"""
    manager = KVCacheManager(8, block_size=4)
    parent = manager.add_sequence([1])
    children = [manager.fork(parent) for _ in range(3)]
    [shared] = parent.block_table
    for child in children:
        manager.append_token(child, 2)
    assert manager.take_block_copies() == [(shared, child.block_table[0]) for child in children]


def test_a_full_block_is_never_copied():
    """S11: nobody writes to it any more."""
    manager = KVCacheManager(8, block_size=2)
    parent = manager.add_sequence([1, 2])
    child = manager.fork(parent)
    manager.append_token(parent, 3)
    manager.append_token(child, 4)
    assert manager.take_block_copies() == [] and parent.block_table[0] == child.block_table[0]
    assert parent.block_table[1] != child.block_table[1]


@pytest.mark.parametrize("num_guessed", range(1, 10))
@pytest.mark.parametrize("num_tokens", range(1, 6))
def test_tokens_that_were_only_tried_are_taken_back(num_guessed, num_tokens):
    """X9: guess on a fork and free it; the sequence itself has noticed nothing."""
    checked = CheckedManager(16, 4)
    one = checked.add(range(num_tokens))
    before = list(one.handle.block_table), one.handle.num_tokens, checked.manager.num_used_blocks
    guess = checked.fork(one)
    for token in range(num_guessed):
        checked.append(guess, token)
    checked.free(guess)
    assert (one.handle.block_table, one.handle.num_tokens, checked.manager.num_used_blocks) == before
    checked.append(one, 77)
    checked.check()


# ── ending ───────────────────────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("how", ["free_sequence", "reclaim"])
@pytest.mark.parametrize("cancelled_after", range(14))
def test_cancelled_at_any_step_nothing_leaks(cancelled_after, how):
    """S14: a prompt with hits, appends, a fork and a batch on the way; the others go on and end, and all is free."""
    checked = CheckedManager(24, 3, observed=True)
    checked.free(checked.add([1, 2, 3, 4]))
    other = checked.add([1, 2, 3, 9])
    one = checked.add([1, 2, 3, 4, 5])
    sibling = None
    for step in range(cancelled_after):
        if step == 4:
            sibling = checked.fork(one)
        if step == 6:
            checked.append_many([one, sibling, other], [6, 7, 8])
        elif step < 13:
            checked.append(one, step)
    checked.free(one, by=how)
    for left in [one for one in (other, sibling) if one]:
        checked.append(left, 5)
        checked.free(left)
    checked.check()
    assert checked.manager.num_used_blocks == 0 and checked.manager.live_sequences == ()
    assert len(checked.manager.pool.allocate(24)) == 24


def test_reclaim_tells(caplog):
    """S14: a log line, the number of references, and no error if it comes too late."""
    manager = KVCacheManager(8, block_size=1)
    seq = manager.add_sequence([1, 2, 3], owner="request 17")
    manager.fork(seq)
    with caplog.at_level(logging.WARNING, logger="pagedkv"):
        assert manager.reclaim(seq, "timed out after 30 s") == 3
    [line] = caplog.records
    assert (line.name, line.levelname) == ("pagedkv", "WARNING")
    assert all(part in line.getMessage() for part in ("request 17", "3", "timed out after 30 s"))
    assert manager.reclaim(seq, "again") == 0 and len(caplog.records) == 1
    assert not seq.is_live and manager.num_used_blocks == 3


def test_with():
    manager = KVCacheManager(8, block_size=2)
    with manager.sequence([1, 2, 3], salt="a", owner="A") as seq:
        assert manager.live_sequences == (seq,) and (seq.salt, seq.owner, seq.is_live) == ("a", "A", True)
    assert not seq.is_live and manager.num_used_blocks == 0


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, OutOfBlocks, GeneratorExit])
def test_with_a_body_that_raises(error):
    """S14"""
    manager = KVCacheManager(8, block_size=2)
    with pytest.raises(error):
        with manager.sequence([1, 2, 3]):
            raise error
    assert manager.num_used_blocks == 0 and manager.live_sequences == ()


@pytest.mark.parametrize("end", [lambda manager, seq: manager.free_sequence(seq),
                                 lambda manager, seq: manager.reclaim(seq, "killed")], ids=["freed", "reclaimed"])
def test_with_a_body_that_frees_it_itself(end):
    manager = KVCacheManager(8, block_size=2)
    with manager.sequence([1, 2, 3]) as seq:
        end(manager, seq)
        other = manager.add_sequence([7, 8])
    assert manager.live_sequences == (other,)


@pytest.mark.parametrize("prompt, error", [([], ValueError), (range(100), OutOfBlocks), (["a"], TypeError)])
def test_with_a_prompt_that_is_refused(prompt, error):
    manager = KVCacheManager(8, block_size=2)
    with pytest.raises(error):
        with manager.sequence(prompt):
            pytest.fail("the body runs only with a sequence")
    assert manager.num_used_blocks == 0 and manager.live_sequences == ()


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────

@pytest.fixture
def used(checked):
    """With something live, something shared, something cached, a hit to be touched and a copy that is due."""
    checked.free(checked.add([1, 2, 3, 4, 5, 6, 7, 8]))
    checked.fork(checked.add([1, 2, 3, 4, 9]))
    checked.append(checked.sequences[0], 10)
    return checked


@pytest.mark.parametrize("tokens, error", [
    ([], ValueError), ((), ValueError), (range(0), ValueError), (numpy.empty(0, dtype=int), ValueError),
    ([1, 2, 3, 4, 2**31], ValueError), ([-2**31 - 1], ValueError), ([2**70], ValueError),
    (numpy.array([1, 2**40]), ValueError), (array("q", [2**31]), ValueError),
    (numpy.array([2**31], dtype=numpy.uint32), ValueError), (range(2**31 - 1, 2**31 + 1), ValueError),
    ([1.0], TypeError), ([1, 2, 3, 4, 5.5], TypeError), (numpy.array([1.0]), TypeError), (["1"], TypeError),
    ("12", TypeError), (numpy.array(["1"]), TypeError), ([None], TypeError), (None, TypeError), (7, TypeError),
    (numpy.array([True]), TypeError), ([[1, 2]], TypeError), (numpy.array(3), TypeError),
    (numpy.array([[1, 2], [3, 4]]), (TypeError, ValueError)), (array("d", [1.0]), TypeError)], ids=repr)
def test_prompts_that_are_none(used, tokens, error):
    used.refused(error, repr(tokens), lambda manager: manager.add_sequence(tokens))
    used.refused(error, repr(tokens), lambda manager: manager.find(tokens))
    used.check()


@pytest.mark.parametrize("make, error", [
    (lambda torch: torch.tensor([True]), TypeError), (lambda torch: torch.tensor([1.0]), TypeError),
    (lambda torch: torch.tensor([2**40]), ValueError), (lambda torch: torch.tensor([[1, 2]]), (TypeError, ValueError)),
    (lambda torch: torch.tensor([], dtype=torch.int64), ValueError),
    (lambda torch: torch.tensor(3), (TypeError, ValueError))],
    ids=["bool", "float", "outside int32", "2-D", "empty", "0-D"])
def test_tensors_that_are_no_prompt(used, make, error):
    tokens = make(pytest.importorskip("torch"))
    used.refused(error, repr(tokens), lambda manager: manager.add_sequence(tokens))


@pytest.mark.parametrize("token, error", [
    (2**31, ValueError), (-2**31 - 1, ValueError), (2**70, ValueError), (1.0, TypeError), ("1", TypeError),
    (None, TypeError), ([1], TypeError), (numpy.float32(1), TypeError), (numpy.int64(2**40), ValueError)], ids=repr)
@pytest.mark.parametrize("which", [0, 1], ids=["needs no block", "needs a copy"])
def test_tokens_that_are_none(used, token, error, which):
    used.sync()
    one = used.sequences[0] if which == 0 else used.fork(used.sequences[1])
    used.refused(error, f"append {token!r}", lambda manager: manager.append_token(one.handle, token))
    handles = [other.handle for other in used.sequences]
    used.refused(error, f"append {token!r} in a batch",
                 lambda manager: manager.append_tokens(handles, [1] * (len(handles) - 1) + [token]))
    used.check()


def test_a_bad_token_where_a_block_is_needed(checked):
    one = checked.add([1, 2, 3, 4])
    for token, error in ((2**31, ValueError), ("1", TypeError), (1.5, TypeError)):
        checked.refused(error, repr(token), lambda manager: manager.append_token(one.handle, token))
        checked.refused(error, repr(token), lambda manager: manager.append_tokens([one.handle], [token]))
    checked.check()


@pytest.mark.parametrize("salt", [7, 1.5, True, ("a",), ["a"], bytearray(b"a")], ids=repr)
def test_salts_that_are_none(used, salt):
    used.refused(TypeError, f"salt {salt!r}", lambda manager: manager.add_sequence([1, 2, 3, 4, 5], salt=salt))
    used.refused(TypeError, f"salt {salt!r}", lambda manager: manager.find([1, 2, 3, 4, 5], salt=salt))
    used.check()


def test_a_prompt_longer_than_the_pool(used):
    for num_tokens in (25, 1000):
        assert used.add([5] * num_tokens) is None
    used.refused(OutOfBlocks, "with hits", lambda manager: manager.add_sequence([1, 2, 3, 4] * 7))
    used.check()


def test_freed_ones(used):
    """Twice, and with everything that could be done to it; live ones named beside it do not grow."""
    one = used.sequences[1]
    used.free(one)
    used.free_again(one)
    used.append_after_free(one)
    used.append_many_after_free(one)
    used.fork_after_free(one)
    used.reclaim_again(one)
    used.refused((UseAfterFree, IndexError), "slot", lambda manager: manager.slot(one.handle, 0))
    used.check()


@pytest.mark.parametrize("in_need", [False, True])
def test_batches_that_do_not_match(used, in_need):
    if in_need:
        used.add([9, 9, 9, 9])
    handles = [one.handle for one in used.sequences]
    ones = [1] * len(handles)
    for seqs, tokens in ((handles, ones[1:]), (handles, [1, *ones]), (handles, []), ([], [1]),
                         (handles + handles[-1:], [1, *ones]), (handles[:1] * 2, [1, 2])):
        used.refused(ValueError, f"{len(seqs)} sequences, {len(tokens)} tokens",
                     lambda manager: manager.append_tokens(seqs, tokens))
    used.check()


@pytest.mark.parametrize("call", [
    lambda manager, seq: manager.free_sequence(seq), lambda manager, seq: manager.reclaim(seq, "none of ours"),
    lambda manager, seq: manager.append_token(seq, 1), lambda manager, seq: manager.append_tokens([seq], [1]),
    lambda manager, seq: manager.append_tokens([*manager.live_sequences, seq], [1, 1, 1]),
    lambda manager, seq: manager.fork(seq), lambda manager, seq: manager.slot(seq, 0)],
    ids=["free", "reclaim", "append", "batch", "mixed batch", "fork", "slot"])
@pytest.mark.parametrize("prompt", [[1], [1, 2, 3, 4]])
def test_a_sequence_of_another_manager(used, call, prompt):
    other = KVCacheManager(6, 4)
    stranger = other.add_sequence(prompt)
    used.refused(ValueError, "another manager's", lambda manager: call(manager, stranger))
    assert stranger.is_live and stranger.num_tokens == len(prompt) and other.num_used_blocks == 1
    used.check()


@pytest.mark.parametrize("wrong", [None, 7, "seq 0", [1, 2]], ids=repr)
def test_what_is_no_sequence(used, wrong):
    for call in (lambda manager: manager.free_sequence(wrong), lambda manager: manager.reclaim(wrong, "none"),
                 lambda manager: manager.append_token(wrong, 1), lambda manager: manager.fork(wrong),
                 lambda manager: manager.append_tokens([*manager.live_sequences, wrong], [1, 1, 1]),
                 lambda manager: manager.append_tokens([wrong], [1]), lambda manager: manager.slot(wrong, 0)):
        used.refused(TypeError, f"{wrong!r} is no sequence", call)
    used.check()


@pytest.mark.parametrize("block_size, error", [(0, ValueError), (-1, ValueError), (True, TypeError), (16.0, TypeError),
                                               ("16", TypeError)])
def test_block_sizes_that_are_none(block_size, error):
    with pytest.raises(error):
        KVCacheManager(8, block_size)


@pytest.mark.parametrize("num_blocks, error", [(-1, ValueError), (True, TypeError), (8.0, TypeError), ("8", TypeError),
                                               (None, TypeError)])
def test_pool_sizes_that_are_none(num_blocks, error):
    with pytest.raises(error):
        KVCacheManager(num_blocks)


def test_block_size_one():
    """Every token is a block and, except for the last one, a hit."""
    manager = KVCacheManager(8, block_size=1)
    manager.add_sequence([1, 2, 3])
    assert manager.add_sequence([1, 2, 3]).num_cached_tokens == 2


def test_the_smallest_pools():
    with pytest.raises(OutOfBlocks):
        KVCacheManager(0).add_sequence([1])
    manager = KVCacheManager(1, block_size=1)
    seq = manager.add_sequence([1])
    with pytest.raises(OutOfBlocks):
        manager.append_token(seq, 2)
    manager.free_sequence(seq)
    assert manager.add_sequence([2]).num_cached_tokens == 0 and manager.find([1, 2]) == []


# ── the pool beneath, and what it tells ──────────────────────────────────────────────────────────────────────────────

def full_of_cached_blocks(num_blocks):
    """All free, and all of them to be evicted."""
    manager = KVCacheManager(num_blocks, block_size=1)
    if num_blocks:
        manager.free_sequence(manager.add_sequence(range(num_blocks)))
    assert manager.num_cached_blocks == num_blocks
    return manager.pool


@pytest.mark.parametrize("make, observed", [
    (PrefixCachePool, True), (lambda num_blocks: KVCacheManager(num_blocks, 4).pool, True),
    (full_of_cached_blocks, False)], ids=["bare", "a manager's", "full of cached blocks"])
def test_the_contract_of_a_pool(make, observed):
    # An allocation that evicts makes two events: the rule of one event for each call is for pools without a cache.
    report = check_rules(make, observed=observed)
    assert report.passed, report
    result = check_random_calls(make, examples=25, calls=40)
    assert not result.broken, result


def test_a_reference_past_the_manager_keeps_the_block():
    """The sequence writes on in it, as it would have; nobody else gets the block until the reference is released."""
    manager = KVCacheManager(2, block_size=4)
    seq = manager.add_sequence([1, 2])
    [block] = seq.block_table
    manager.pool.retain([block])
    manager.append_token(seq, 3)
    assert seq.block_table == [block] and not manager.take_block_copies()
    manager.free_sequence(seq)
    other = manager.add_sequence([4])
    assert block not in other.block_table
    with pytest.raises(OutOfBlocks):
        manager.add_sequence([5])
    manager.pool.release([block])
    assert manager.add_sequence([5]).block_table == [block]


def test_a_reference_past_the_manager_that_outlasts_the_block_before_it():
    """Nobody can find the tail then; it can be taken like any other that nobody holds."""
    manager = KVCacheManager(3, block_size=1)
    seq = manager.add_sequence([1, 2])
    tail = seq.block_table[1:]
    manager.pool.retain(tail)
    manager.free_sequence(seq)
    manager.pool.release(manager.pool.allocate(2))
    assert manager.find([1, 2, 3]) == []
    manager.pool.release(tail)
    assert manager.num_free_blocks == 3 and len(manager.pool.allocate(3)) == 3


class TestGivenUpHalfWay:
    """S14: a prompt that is killed before all of it was computed must not be found by others beyond what was."""

    @pytest.mark.parametrize("num_written_tokens, num_found", [(0, 0), (3, 0), (4, 1), (7, 1), (8, 2), (9, 2), (99, 2)])
    @pytest.mark.parametrize("observed", [False, True])
    def test_only_what_was_written_is_found(self, num_written_tokens, num_found, observed):
        manager = KVCacheManager(8, block_size=4)
        recorder = record(manager) if observed else None
        seq = manager.add_sequence(range(9))
        manager.free_sequence(seq, num_written_tokens)
        assert len(manager.find(range(9))) == manager.num_cached_blocks == num_found
        assert manager.num_empty_blocks == 8 - num_found
        if recorder:
            state = Replay(recorder.stop()).end()
            assert not state.faults and len(state.cached) == num_found

    def test_who_found_unwritten_blocks_keeps_them(self):
        manager = KVCacheManager(8, block_size=2)
        first = manager.add_sequence([1, 2, 3, 4, 5])
        second = manager.add_sequence([1, 2, 3, 4, 6, 7, 8])  # finds two blocks, and has another one after them
        assert second.num_cached_tokens == 4
        assert manager.reclaim(first, "killed", num_written_tokens=2) == 3
        assert len(manager.find([1, 2, 3, 4, 6, 7, 8])) == 1
        assert manager.num_used_blocks == 4 and manager.num_empty_blocks == 4
        manager.append_token(second, 9)
        manager.free_sequence(second)
        # what came after the lost block can be found by nobody, so it is empty
        assert manager.num_cached_blocks == 1 and manager.num_empty_blocks == 7
        assert len(manager.pool.allocate(8)) == 8

    @pytest.mark.parametrize("wrong, error", [(-1, ValueError), (1.5, TypeError), ("2", TypeError), (True, TypeError)])
    def test_a_wrong_number_frees_nothing(self, wrong, error):
        manager = KVCacheManager(8, block_size=4)
        seq = manager.add_sequence(range(9))
        with pytest.raises(error, match="num_written_tokens"):
            manager.free_sequence(seq, wrong)
        assert seq.is_live and manager.num_used_blocks == 3


def test_an_observer_that_fails_leaves_no_call_half_done():
    """The call is over when its events are told."""
    def fail(event):
        raise RuntimeError("the observer's own trouble")

    manager = KVCacheManager(8, block_size=2)
    manager.free_sequence(manager.add_sequence([1, 2, 3]))
    calls = [lambda: manager.add_sequence([1, 2, 3]), lambda: manager.fork(manager.live_sequences[0]),
             lambda: manager.append_token(manager.live_sequences[0], 4),
             lambda: manager.append_tokens(list(manager.live_sequences), [5, 6]),
             lambda: manager.free_sequence(manager.live_sequences[0])]
    for call in calls:
        manager.observer = fail
        with pytest.raises(RuntimeError, match="own trouble"):
            call()
        manager.observer = None
        tables = Counter(block for seq in manager.live_sequences for block in seq.block_table)
        assert manager.refcounts() == [tables[block] for block in range(8)]
    [last] = manager.live_sequences
    assert last.num_tokens == 4


def test_defaults_and_names():
    manager = KVCacheManager(num_blocks=8)
    assert (manager.num_blocks, manager.block_size, manager.num_free_blocks, manager.num_empty_blocks) == (8, 16, 8, 8)
    first, second = manager.add_sequence([1]), manager.add_sequence([1])
    assert (first.owner, second.owner, manager.add_sequence([1], owner="A").owner) == ("seq 0", "seq 1", "A")
    assert first.is_live and first.salt is None and manager.live_sequences[:2] == (first, second)
    assert isinstance(manager.pool, BlockPool) and manager.pool.refcounts() == manager.refcounts()


def test_a_recording_can_be_replayed():
    manager = KVCacheManager(8, block_size=2)
    with record(manager) as recording:
        seq = manager.add_sequence([1, 2, 3])
        child = manager.fork(seq)
        manager.append_token(child, 4)
        manager.free_sequence(seq)
        manager.free_sequence(manager.add_sequence([1, 2, 3, 4, 5], owner="A"))
        with pytest.raises(OutOfBlocks):
            manager.add_sequence(range(100))
    state = Replay(recording).end()
    assert state.faults == [] and state.refcounts() == manager.refcounts()
    assert [event.op for event in recording.events] == [
        "allocate", "cache", "retain", "allocate", "release", "write", "cache", "release", "retain", "allocate",
        "release", "allocate"]
    assert recording.events[-1].refused and manager.observer is None


def test_a_recording_that_begins_with_cached_blocks():
    """What was cached before may be hit: nothing impossible has happened then."""
    manager = KVCacheManager(8, block_size=2)
    manager.free_sequence(manager.add_sequence([1, 2, 3]))
    with record(manager) as recording:
        assert manager.add_sequence([1, 2, 3]).num_cached_tokens == 2
    state = Replay(recording).end()
    assert state.faults == [] and state.refcounts() == manager.refcounts()


def test_an_observer_may_come_and_go(checked):
    one = checked.add([1, 2, 3])
    checked.manager.observer = None
    checked.recording = None
    checked.append(one, 4)
    checked.append(one, 5)
    checked.check()


# ── no call costs the pool ───────────────────────────────────────────────────────────────────────────────────────────
#
# Counted, not timed. Lines of Python: as many in a large pool as in a small one. Work inside one built-in call is no
# line; if it makes anything in proportion to the pool (a copy, a slice, a sorted list), the memory it takes gives it
# away. What neither can see is a built-in that only walks or shifts: `block in some_list`, `list.remove`, `list.index`,
# `list.insert`, `sum`, `deque.remove`.

def every_kind_of_call(manager, seq):
    """With hits, with evictions and with refusals; `seq` is live, and the pool is full but for cached blocks."""
    for prompt in ([1, 2, 3, 4, 5], [6, 7, 8], [6, 7, 8]):
        other = manager.add_sequence(prompt)
        child = manager.fork(other)
        for token in range(5):
            manager.append_token(child, token)
            manager.append_tokens([seq, other], [token, token])
        manager.take_block_copies()
        manager.find([1, 2, 3, 4, 5])
        manager.free_sequence(other)
        manager.reclaim(child, "it is enough")
        with pytest.raises(DoubleFree):
            manager.free_sequence(child)
    with pytest.raises(OutOfBlocks):
        manager.pool.allocate(manager.num_blocks)


def manager_of(num_blocks, cached):
    """One sequence; the rest of the pool is empty, or cached."""
    manager = KVCacheManager(num_blocks, block_size=2)
    seq = manager.add_sequence([1, 2, 3])
    if cached:
        tokens = numpy.arange(10, 10 + 2 * manager.num_free_blocks, dtype=numpy.int32)
        manager.free_sequence(manager.add_sequence(tokens))
        assert manager.num_empty_blocks == 0
    return manager, seq


@pytest.mark.parametrize("observed", [False, True])
@pytest.mark.parametrize("cached", [False, True])
def test_no_call_executes_more_lines_in_a_larger_pool(cached, observed):
    def lines(num_blocks):
        manager, seq = manager_of(num_blocks, cached)
        seen = 0

        def trace(frame, event, arg):
            nonlocal seen
            seen += event == "line" and "pagedkv" in frame.f_code.co_filename
            return trace

        if observed:
            manager.observer = lambda event: None
        before = sys.gettrace()
        sys.settrace(trace)
        try:
            every_kind_of_call(manager, seq)
        finally:
            sys.settrace(before)
        return seen

    assert lines(100) == lines(50_000) > 100


@pytest.mark.parametrize("cached", [False, True])
def test_no_call_takes_memory_in_proportion_to_the_pool(cached):
    """A copy of one list of the pool would be 800 kB."""
    manager, seq = manager_of(100_000, cached)
    every_kind_of_call(manager, seq)  # a dict that has to grow does it here
    tracemalloc.start()
    try:
        every_kind_of_call(manager, seq)
        _, peak_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak_bytes < 100_000
