"""The prefix index: what is found is what was published, and nothing else, whatever happened to the blocks."""

import hashlib
import random
import struct
from array import array
from itertools import count

import pytest

from pagedkv.core.errors import NotABlock, OutOfBlocks, UseAfterFree
from pagedkv.core.events import record
from pagedkv.shared import BlockOverrun, NoIndex, SharedPool
from tests.shared.state import CONTENT, State, numbers

SIZE = 2  # tokens in a block


def hash_of(parent, salt, tokens):
    """As the specification has it, written here once more."""
    h = 0
    for number in (parent & 0xFFFF_FFFF, parent >> 32, *struct.unpack("<8I", salt), *(t & 0xFFFF_FFFF for t in tokens)):
        h = (h ^ number) * 0x9E3779B97F4A7C15 % 2 ** 64
        h ^= h >> 32
    return h


def bytes_of(tokens):
    return array("i", tokens).tobytes()


def node_of(name, block):
    return State(name).records[block][0]


@pytest.fixture
def pool(create):
    return create(num_blocks=12, tokens_per_block=SIZE)


def published(pool, tokens, salt=None):
    blocks = pool.allocate(len(tokens) // SIZE)
    assert pool.publish(tokens, blocks, salt) == len(blocks)
    return blocks


# ── finding and reusing ──────────────────────────────────────────────────────────────────────────────────────────────

def test_what_one_publishes_another_one_finds(pool, create, name):
    other = create.join()
    tokens = [7, -1, 2 ** 31 - 1, 8, 9, 10]
    assert other.find(tokens) == []
    blocks = pool.allocate(3)
    for block in blocks:
        pool.buffer(block)[:] = bytes([block]) * 64
    assert pool.publish(tokens + [11], blocks) == 3
    assert other.find(tokens) == pool.find(tuple(tokens)) == blocks
    assert other.find(tokens[:5]) == blocks[:2] and other.find(tokens[:1]) == other.find([]) == []
    assert other.find([7, -1, 0, 8]) == blocks[:1] and other.find(tokens[2:]) == []
    assert pool.refcounts()[blocks[0]] == 1
    assert other.reuse(tokens[:4]) == blocks[:2] == other.reuse(tokens[:4])
    assert [pool.refcount(block) for block in blocks] == [3, 3, 1] and other.holders(blocks[0]) == (0, 1)
    assert other.buffer(blocks[1]) == bytes([blocks[1]]) * 64
    other.release(blocks[:2] * 2)
    with pytest.raises(UseAfterFree):
        other.buffer(blocks[0])
    assert not list(State(name).faults([0, 1]))


def test_free_blocks_are_revived(pool, create, name):
    other = create.join()
    blocks = published(pool, range(6))
    generations = [pool.generation(block) for block in blocks]
    pool.release(blocks)
    assert (pool.num_cached_blocks, pool.num_empty_blocks, pool.num_free_blocks) == (3, 9, 12)
    assert other.find(range(6)) == blocks and State(name).content == set(blocks)
    assert other.reuse(range(6)) == blocks
    assert (pool.num_cached_blocks, pool.num_empty_blocks, pool.num_free_blocks) == (0, 9, 9)
    assert [other.generation(block) for block in blocks] == generations  # nothing was handed out
    assert not set(pool.allocate(9)) & set(blocks)
    with pytest.raises(OutOfBlocks):
        pool.allocate(1)
    other.release(blocks)
    assert not list(State(name).faults([0, 1]))


def test_content_outlives_its_member(create):
    pool, other = create(tokens_per_block=SIZE), create.join()
    blocks = published(other, range(4))
    other.close()
    assert pool.find(range(4)) == blocks == pool.reuse(range(4))


def test_who_takes_the_block_takes_the_content(pool):
    blocks = published(pool, range(8))
    pool.release(blocks)
    assert pool.find(range(8)) == blocks
    pool.allocate(8)  # all that is empty
    assert pool.find(range(8)) == blocks
    taken, = pool.allocate(1)
    at = blocks.index(taken)
    assert pool.find(range(8)) == blocks[:at] and pool.num_cached_blocks == 3


def test_a_refused_allocation_costs_no_content(pool):
    pool.release(published(pool, range(24)))
    with pytest.raises(OutOfBlocks):
        pool.allocate(13)
    assert len(pool.find(range(24))) == pool.num_cached_blocks == 12


def test_reused_blocks_are_not_counted_as_free(pool, create):
    """Their hints say still that they may be free; an allocation that relied on that would take the content of the
    others, and then be refused."""
    pool.allocate(6)
    pool.release(published(pool, range(12)))
    assert len(pool.reuse([0, 1, 2, 3])) == 2
    for member in (pool, create.join()):
        with pytest.raises(OutOfBlocks):
            member.allocate(5)
        assert len(pool.find(range(12))) == 6


def test_salts(pool, name):
    salts = [None, "tenant A", "tenant B", "", b"\x00", "ä"]
    by_salt = {salt: published(pool, range(4), salt) for salt in salts}
    for salt, blocks in by_salt.items():
        assert pool.find(range(4), salt) == blocks
    assert pool.find(range(4), "ä".encode()) == by_salt["ä"] and pool.find(range(4), "tenant") == []
    first, second = by_salt["tenant A"]
    assert State(name).records[first][2] == hashlib.sha256(b"tenant A").digest()
    assert State(name).records[second][1:3] == (node_of(name, first), bytes(32))
    for wrong in (1, -1, ["a"]):
        with pytest.raises(TypeError, match="a salt is a str or bytes"):
            pool.find([1, 2], wrong)


def test_what_is_known_is_not_published_again(pool, create, name):
    other = create.join()
    a, b = published(pool, [1, 2, 3, 4])
    mine = other.allocate(3)
    assert other.publish([1, 2, 3, 4, 5, 6], mine) == 1  # only the third is found in the block given here
    assert other.find([1, 2, 3, 4, 5, 6]) == [a, b, mine[2]]
    assert not any(State(name).words[block] & CONTENT for block in mine[:2])
    assert other.reuse([1, 2, 3, 4]) == [a, b]
    assert other.publish([1, 2, 3, 4, 5, 6], [a, b, mine[2]]) == 3  # known, and in these
    assert State(name).last_node == 3


def test_refused(pool, create, name):
    """Other holders, or other content: nothing changes."""
    other = create.join()
    a, b = pool.allocate(2)
    other.retain([b])
    assert pool.publish([1, 2, 3, 4], [a, b]) == 1 and pool.find([1, 2, 3, 4]) == [a]
    before = State(name)
    assert pool.publish([5, 6], [a]) == pool.publish([5, 6], [b]) == other.publish([5, 6], [b]) == 0
    assert pool.publish_node(b, bytes_of([5, 6]), 0, bytes(32)) == 0
    assert pool.find([5, 6]) == [] and pool.find([1, 2]) == [a]
    assert vars(State(name)) == vars(before)
    for block in (2, 5):
        if block not in (a, b):
            with pytest.raises(UseAfterFree, match=f"no reference to block {block}"):
                pool.publish([1, 2, 3, 4], [a, block])
    with pytest.raises(NotABlock):
        pool.publish([1, 2], [12])
    with pytest.raises(NotABlock):
        pool.publish_node(12, bytes_of([1, 2]), 0, bytes(32))
    with pytest.raises(ValueError, match="3 tokens are 1 full blocks of 2, got 2 blocks"):
        pool.publish([1, 2, 3], [a, b])
    with pytest.raises(ValueError, match="position 1: a token id fits int32"):
        pool.publish([1, 2 ** 31], [a])
    with pytest.raises(ValueError, match="2 blocks of 2 tokens need 16 bytes, and a salt 32, got 15 and 32"):
        pool.match(bytes(15), 2, bytes(32), True)
    with pytest.raises(ValueError, match="a block's tokens have 8 bytes, and a salt 32, got 8 and 31"):
        pool.publish_node(a, bytes(8), 0, bytes(31))
    assert vars(State(name)) == vars(before)


def test_unpublish(pool, create, name):
    other = create.join()
    blocks = published(pool, range(6))
    with pytest.raises(UseAfterFree):
        other.unpublish(blocks)
    assert pool.find(range(6)) == blocks
    pool.unpublish(blocks[1:2])
    pool.unpublish(blocks[1:2])
    assert other.find(range(6)) == blocks[:1]
    pool.buffer(blocks[1])[0] = 1
    pool.release(blocks)
    assert (pool.num_cached_blocks, pool.num_empty_blocks) == (2, 10)
    assert not list(State(name).faults([0, 1]))


def test_without_an_index(create):
    pool = create()
    assert (pool.tokens_per_block, pool.num_cached_blocks, pool.num_empty_blocks) == (0, 0, 8)
    block, = pool.allocate(1)
    for call in (lambda: pool.find([1]), lambda: pool.reuse([1]), lambda: pool.publish([1], [block]),
                 lambda: pool.unpublish([block]), lambda: pool.match(b"", 0, bytes(32), False), pool.prefix_pool,
                 lambda: pool.publish_node(block, b"", 0, bytes(32))):
        with pytest.raises(NoIndex, match=r"has no prefix index: make it with .*tokens_per_block=16"):
            call()
    assert issubclass(NoIndex, ValueError)


def test_sizes_that_cannot_be(name):
    for wrong, message in (((4, 65_537), "at most 65,536, got 65,537"), ((2 ** 29 + 1, 16), "at most 536,870,912"),
                           ((4, -1), "cannot be negative")):
        with pytest.raises(ValueError, match=message):
            SharedPool.create(name, wrong[0], 64, tokens_per_block=wrong[1])
    with pytest.raises(TypeError):
        SharedPool.create(name, 4, 64, tokens_per_block=True)
    assert not SharedPool.remove(name)


@pytest.mark.parametrize("size", [1, 3, 4, 16, 1000])
def test_blocks_of_any_size(create, size):
    pool = create(num_blocks=5, tokens_per_block=size)
    tokens = [random.Random(size).randrange(-2 ** 31, 2 ** 31) for _ in range(5 * size)]
    blocks = pool.allocate(5)
    assert pool.publish(tokens, blocks) == 5 and pool.find(tokens) == blocks
    for i in range(5):
        for at in {i * size, (i + 1) * size - 1}:  # the first and the last token of each block count
            changed = tokens.copy()
            changed[at] ^= 1
            assert pool.find(changed) == blocks[:i]


# ── writing to a block that others rely on ───────────────────────────────────────────────────────────────────────────

def test_published_blocks_are_read_only(pool, create):
    other = create.join()
    block, = pool.allocate(1)
    assert not pool.buffer(block).readonly
    pool.publish([1, 2], [block])
    assert other.reuse([1, 2]) == [block]
    for member in (pool, other):
        with pytest.raises(TypeError):
            member.buffer(block)[0] = 1
    numpy = pytest.importorskip("numpy")
    assert not numpy.frombuffer(other.buffer(block), dtype=numpy.int8).flags.writeable


def test_copy_for_writing(pool, create, name):
    other = create.join()
    a, b = pool.allocate(2)
    for block in (a, b):
        pool.buffer(block)[:] = bytes([block + 1]) * 64
    assert pool.copy_for_writing(a) == a and pool.refcount(a) == 1
    pool.retain([a])  # twice by this member: two sequences, say
    copy = pool.copy_for_writing(a)
    assert copy != a and (pool.refcount(a), pool.refcount(copy)) == (1, 1)
    assert pool.buffer(copy) == pool.buffer(a) and not pool.buffer(copy).readonly
    assert pool.copy_for_writing(a) == a
    other.retain([b])  # by two members
    with record(pool) as recording:
        copy = pool.copy_for_writing(b, owner="seq")
    assert (pool.holders(b), pool.holders(copy)) == ((1,), (0,))
    assert [(event.op, event.owner, event.blocks, event.detail) for event in recording.events] == \
        [("allocate", "seq", (copy,), {"copied_from": b}), ("release", "seq", (b,), {"replaced_by": copy})]
    pool.publish([1, 2], [a])  # of one, but others can find it
    copy = pool.copy_for_writing(a)
    assert copy != a and pool.find([1, 2]) == [a] and pool.num_cached_blocks == 1 and pool.refcount(copy) == 1
    with pytest.raises(UseAfterFree):
        pool.copy_for_writing(a)
    pool.retain([copy])
    pool.allocate(pool.num_free_blocks)
    before = State(name)
    with pytest.raises(OutOfBlocks):
        pool.copy_for_writing(copy)
    assert vars(State(name)) == vars(before)


def test_copy_for_writing_looks_at_guards(create):
    pool = create(guard=True, tokens_per_block=SIZE)
    block, = pool.allocate(1)
    pool.retain([block])
    at = pool._sizes.block_at(block)
    pool._view[at + 64] ^= 1
    with pytest.raises(BlockOverrun):
        pool.copy_for_writing(block)
    assert pool.refcount(block) == 2 and pool.num_free_blocks == 7
    pool.repair(block)
    assert not pool.verify() and pool.copy_for_writing(block) != block and not pool.verify()


# ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────────

def test_events(pool, create):
    other = create.join()
    with record(pool) as recording:
        blocks = pool.allocate(2, owner="A")
        pool.publish([1, 2, 3, 4], blocks, salt="s", owner="A")
        pool.publish([1, 2, 3, 4], blocks, salt="s", owner="A")  # nothing new
        pool.find([1, 2, 3, 4], "s")
        pool.release(blocks, owner="A")
        pool.reuse([1, 2, 3], "s", owner="B")
        pool.reuse([9, 9], owner="B")  # nothing to reuse
        pool.unpublish(blocks[:1], owner="B")
        pool.unpublish(blocks[:1], owner="B")
        with pytest.raises(UseAfterFree):
            pool.publish([1, 2], blocks[1:])
    events = [(event.op, event.owner, event.blocks, event.detail) for event in recording.events]
    assert events[1:5] == [
        ("cache", "A", tuple(blocks), {"parents": (-1, blocks[0]), "tokens": ((1, 2), (3, 4)), "salt": "s"}),
        ("release", "A", tuple(blocks), {}), ("retain", "B", (blocks[0],), {"num_tokens": 2}),
        ("evict", "B", (blocks[0],), {})]
    assert events[5][0] == "cache" and events[5][3]["error"] == "UseAfterFree" and len(events) == 6
    mine = other.allocate(3)
    published(pool, [5, 6])
    with record(other) as recording:
        other.publish([5, 6, 7, 8, 9, 9], mine, b"\x01")
        other.publish([5, 6, 7, 8], [*mine[:1], other.allocate(1)[0]])
    caches = [event.detail for event in recording.events if event.op == "cache"]
    assert caches[0]["salt"] == "01" and caches[0]["parents"] == (-1, *mine[:2])
    assert caches[1] == {"parents": tuple(pool.find([5, 6])), "tokens": ((7, 8),)}  # the block before it


# ── the table ────────────────────────────────────────────────────────────────────────────────────────────────────────

def test_the_bytes(pool, name):
    """Records and buckets, at the places that the specification gives."""
    a, b = published(pool, [1, -2, 3, 4], "salt")
    digest = hashlib.sha256(b"salt").digest()
    state = State(name)
    assert len(state.buckets) == 64 and state.last_node == 2
    assert state.records[a] == (1, 0, digest, (1, -2)) and state.records[b] == (2, 1, bytes(32), (3, 4))
    for block, h in ((a, hash_of(0, digest, [1, -2])), (b, hash_of(1, bytes(32), [3, 4]))):
        window = [state.buckets[(h + i) % 64] for i in range(16)]
        assert window.index((h >> 32) << 32 | block + 1) <= 1
    assert sum(map(bool, state.buckets)) == 2
    assert hash_of(0, bytes(32), [1, 2]) == 0xE785922BE3C82D6D  # so that all languages have the same


def tokens_at(bucket, num_buckets=64, parent=0):
    """Any number of blocks' tokens whose window begins at this bucket."""
    return ([i, bucket] for i in count() if hash_of(parent, bytes(32), [i, bucket]) % num_buckets == bucket)


def plant(name, bucket, entry):
    with numbers(name) as words:
        at = State(name).offsets[5] // 8 + bucket
        was, words[at] = words[at], entry
    return was


def entry_of(tokens, block):
    return hash_of(0, bytes(32), tokens) >> 32 << 32 | block + 1


def test_a_tag_alone_finds_nothing(pool, name):
    """An entry with the right tag, of a block that has other content, or none, or is not there."""
    asked, other = [[1, 2], [3, 4]]
    block, = published(pool, other)
    empty = next(b for b in range(12) if b != block)
    h = hash_of(0, bytes(32), asked)
    for number in (block, empty, 12, 2 ** 32 - 2):
        plant(name, h % 64, entry_of(asked, number))
        assert pool.find(asked) == pool.reuse(asked) == []
        mine, = published(pool, asked)  # and the entry is dead, so its bucket is taken
        assert State(name).buckets[h % 64] == entry_of(asked, mine) and pool.find(asked) == [mine]
        pool.unpublish([mine])
        pool.release([mine])
    assert pool.find(other) == [block] and pool.refcount(block) == 1


def test_the_same_tag_twice(pool, name):
    """Two entries with the tag in one window: the second is the right one."""
    asked, other = [1, 2], [3, 4]
    block, = published(pool, other)
    mine, = published(pool, asked)
    h = hash_of(0, bytes(32), asked) % 64
    assert plant(name, h, entry_of(asked, block)) == entry_of(asked, mine)
    assert pool.find(asked) == []
    plant(name, (h + 1) % 64, entry_of(asked, mine))
    assert pool.find(asked) == [mine] == pool.reuse(asked)


def test_the_window_goes_round(pool, name):
    tokens = tokens_at(63)
    blocks = []
    for _ in range(5):
        blocks += published(pool, wanted := next(tokens))
        assert pool.find(wanted) == blocks[-1:]
    state = State(name)
    assert [state.buckets[i] & 0xFFFF_FFFF for i in (63, 0, 1, 2, 3)] == [block + 1 for block in blocks]


def test_a_full_window(create, name):
    """The seventeenth takes the first bucket; who was there cannot be found, and does no harm."""
    pool = create(num_blocks=16 + 1, tokens_per_block=SIZE)  # 128 buckets
    tokens = tokens_at(120, 128)
    asked = [next(tokens) for _ in range(17)]
    blocks = [published(pool, wanted)[0] for wanted in asked]
    assert pool.find(asked[0]) == []
    assert [pool.find(wanted) for wanted in asked[1:]] == [[block] for block in blocks[1:]]
    assert not list(State(name).faults([0]))
    pool.release(blocks)
    assert pool.num_cached_blocks == 17
    # the dead make room: what one had lost its entry to is evicted, and it can be published anew
    taken, = pool.allocate(1)
    lost = blocks.index(taken)
    if lost:
        assert pool.find(asked[lost]) == []
    assert pool.publish(asked[lost], [taken]) == 1 and pool.find(asked[lost]) == [taken]
    assert not list(State(name).faults([0]))


def test_dead_entries_make_room(pool, name):
    """However often the same or something else is published, the table does not fill up."""
    tokens = tokens_at(40)
    for _ in range(40):
        wanted = next(tokens)
        for _ in range(2):
            block, = published(pool, wanted)
            assert pool.find(wanted) == [block]
            pool.unpublish([block])
            pool.release([block])
    assert sum(map(bool, State(name).buckets)) <= 2
    # a block that has the same content again has one entry, not two
    block, = pool.allocate(1)
    for _ in range(20):
        assert pool.publish(wanted, [block]) == 1
        pool.unpublish([block])
    assert State(name).buckets.count(entry_of(wanted, block)) == 1


def test_an_evicted_parent(create, name):
    """What comes after it cannot be found under another node: not if the block has the same content again, and not if
    its generation is the same as it was."""
    pool = create(num_blocks=4, tokens_per_block=SIZE)
    a, b = published(pool, [1, 2, 3, 4])
    generation = pool.generation(a)
    pool.release([a])
    with numbers(name) as words:  # as if it had been handed out 16,384 times
        words[State(name).offsets[3] // 8 + a] -= 1 << 50
    assert pool.find([1, 2, 3, 4]) == [a, b]
    pool.allocate(3)  # a among them
    assert pool.generation(a) == generation
    assert pool.find([1, 2, 3, 4]) == []
    assert pool.publish([8, 9], [a]) == 1 and pool.find([8, 9, 3, 4]) == [a]
    pool.unpublish([a])
    assert pool.publish([1, 2], [a]) == 1 and pool.find([1, 2, 3, 4]) == [a]
    assert pool.publish([1, 2, 3, 4], [a, b]) == 1  # b has its content still, under the old node
    pool.unpublish([b])
    assert pool.publish([1, 2, 3, 4], [a, b]) == 2


def test_generations_at_their_end(create, name):
    pool = create(num_blocks=1, tokens_per_block=SIZE)
    with numbers(name) as words:
        words[State(name).offsets[3] // 8] = ((1 << 14) - 1) << 50
    assert published(pool, [1, 2]) == [0] and pool.generation(0) == 0 and pool.find([1, 2]) == [0]
    pool.release([0])
    assert pool.reuse([1, 2]) == [0] and pool.generation(0) == 0
    assert not list(State(name).faults([0]))


def test_two_that_publish_the_same_at_once(pool, create, name):
    """Neither had found the other's: both have a node. One is found, and when it has gone, the other one."""
    other = create.join()
    tokens = [1, 2, 3, 4]
    first = published(pool, tokens)
    h = hash_of(0, bytes(32), tokens[:2]) % 64
    entry = plant(name, h, 0)  # the other one looks before this is there
    second = published(other, tokens)
    where = State(name).buckets.index(entry_of(tokens[:2], second[0]))
    plant(name, (where + 1) % 64, plant(name, where, entry))
    assert pool.find(tokens) == first and not set(first) & set(second)
    assert not list(State(name).faults([0, 1]))
    pool.unpublish(first[:1])
    assert pool.find(tokens) == second == other.reuse(tokens)
    pool.release(first)
    other.release(second * 2)
    assert pool.num_cached_blocks == 3
    assert not list(State(name).faults([0, 1])) and len(pool.allocate(12)) == 12 and pool.find(tokens) == []


# ── at once: what others do between two steps (in the portable form, where one can get in between) ───────────────────

@pytest.fixture
def portable(create, kind):
    if kind != "portable":
        pytest.skip("between two steps of a compiled operation a test cannot act")
    return create(num_blocks=1, tokens_per_block=SIZE)


def between(monkeypatch, operations, method, act):
    """Do it once, after the method's next call."""
    original, left = getattr(operations, method), [act]

    def called(*arguments):
        answer = original(*arguments)
        if left:
            left.pop()()
        return answer
    monkeypatch.setattr(operations, method, called)


def take_and_publish(pool, tokens):
    def act():
        blocks = pool.allocate(pool.num_free_blocks)
        pool.publish(tokens, blocks[:len(tokens) // SIZE])
    return act


@pytest.mark.parametrize("theirs", [[5, 6], [1, 2], []])
def test_reuse_of_what_is_evicted_meanwhile(portable, create, name, monkeypatch, theirs):
    other = create.join()
    block, = published(portable, [1, 2])
    portable.release([block])
    between(monkeypatch, portable._operations, "_find", take_and_publish(other, theirs))
    found = portable.reuse([1, 2])
    assert found == ([block] if theirs == [1, 2] and other.find([1, 2]) == [block] else [])
    state = State(name)
    assert not list(state.faults([0, 1])) and sum(state.counts[portable.slot]) == len(found)


def test_a_record_that_changes_while_it_is_read(portable, create, monkeypatch):
    """The content that was asked for is compared, and the node is that of the next content: this would let a chain go
    on under the wrong one."""
    other = create.join()
    block, = published(portable, [1, 2])
    portable.release([block])
    operations = portable._operations
    for method in ("_has_content", "_key_in_record"):
        between(monkeypatch, operations, method, take_and_publish(other, [5, 6]))
        assert operations.match(bytes_of([1, 2]), 1, bytes(32), False) == ([], [])
        monkeypatch.undo()
        other.release([block])
        assert portable.allocate(1) == [block] and portable.publish([1, 2], [block]) == 1
        portable.release([block])


def test_retained_while_it_is_published(portable, create, name, monkeypatch):
    """Then it may still be written to by the other holder."""
    other = create.join()
    block, = portable.allocate(1)
    between(monkeypatch, portable._operations, "_write_record", lambda: other.retain([block]))
    assert portable.publish([1, 2], [block]) == 0 and portable.find([1, 2]) == []
    assert not State(name).words[block] & CONTENT


# ── against a model ──────────────────────────────────────────────────────────────────────────────────────────────────

class Model:
    """A dict of keys, as `PrefixCachePool` has it, and the references of each member."""

    def __init__(self, num_blocks, members):
        self.held = [{} for _ in range(members)]
        self.contents = {}  # key → node, block
        self.keys = {}  # block → key
        self.nodes = count(1)
        self.num_blocks = num_blocks

    def holders(self, block):
        return [i for i, held in enumerate(self.held) if block in held]

    def free(self):
        return {block for block in range(self.num_blocks) if not self.holders(block)}

    def chain(self, tokens, salt, most=None):
        parent, found = (salt,), []
        for i in range(len(tokens) // SIZE if most is None else most):
            node, block = self.contents.get((parent, tuple(tokens[i * SIZE:i * SIZE + SIZE])), (None, None))
            if node is None:
                break
            parent = node
            found.append(block)
        return found

    def publish(self, me, tokens, blocks, salt):
        parent = (salt,)
        for i, block in enumerate(blocks):
            key = parent, tuple(tokens[i * SIZE:i * SIZE + SIZE])
            if key not in self.contents:
                if self.holders(block) != [me] or block in self.keys:
                    break
                self.contents[key] = next(self.nodes), block
                self.keys[block] = key
            parent = self.contents[key][0]
        return sum(a == b for a, b in zip(self.chain(tokens, salt, len(blocks)), blocks))

    def forget(self, block):
        if block in self.keys:
            del self.contents[self.keys.pop(block)]

    def take(self, me, block):
        self.held[me][block] = self.held[me].get(block, 0) + 1

    def give(self, me, block):
        self.held[me][block] -= 1
        if not self.held[me][block]:
            del self.held[me][block]


@pytest.mark.parametrize("num_members", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_against_a_model(create, kind, name, num_members, seed):
    choose, num_blocks = random.Random(seed), 12
    pools = [create(num_blocks=num_blocks, tokens_per_block=SIZE)] + [create.join() for _ in range(num_members - 1)]
    model = Model(num_blocks, num_members)
    seen = {"found": 0, "published": 0, "evicted": 0, "revived": 0}
    for step in range(1500 if kind == "compiled" else 400):
        me = choose.randrange(num_members)
        pool, held = pools[me], model.held[me]
        salt = choose.choice([None, None, "x"])
        tokens = [choose.randrange(2) for _ in range(choose.randrange(10))]
        what = choose.choice(["allocate", "release", "publish", "publish", "reuse", "find", "unpublish", "share"])
        if what == "allocate":
            n = choose.randint(1, 5)
            free, empty = model.free(), model.free() - set(model.keys)
            if n > len(free):
                with pytest.raises(OutOfBlocks):
                    pool.allocate(n)
                continue
            blocks = pool.allocate(n)
            assert set(blocks) <= free and len(set(blocks)) == n
            assert len(set(blocks) & empty) == min(n, len(empty)), "content is taken last"
            seen["evicted"] += len(set(blocks) - empty)
            for block in blocks:
                model.forget(block)
                model.take(me, block)
        elif what == "release" and held:
            blocks = choose.sample(sorted(held), choose.randint(1, len(held)))
            pool.release(blocks)
            for block in blocks:
                model.give(me, block)
        elif what == "publish" and held:
            blocks = choose.choices(sorted(held), k=len(tokens) // SIZE)
            known = len(model.keys)
            assert pool.publish(tokens, blocks, salt) == model.publish(me, tokens, blocks, salt), step
            seen["published"] += len(model.keys) - known
        elif what == "reuse":
            blocks = pool.reuse(tokens, salt)
            assert blocks == model.chain(tokens, salt), step
            seen["revived"] += sum(not model.holders(block) for block in blocks)
            for block in blocks:
                model.take(me, block)
        elif what == "unpublish" and held:
            block = choose.choice(sorted(held))
            pool.unpublish([block])
            model.forget(block)
        elif what == "share" and any(model.held):
            block = choose.choice(sorted(set().union(*model.held)))
            pool.retain([block])
            model.take(me, block)
        found = pool.find(tokens, salt)
        assert found == model.chain(tokens, salt), step
        seen["found"] += len(found)
        if step % 20 == 0:
            state = State(name)
            assert not list(state.faults(range(num_members))), step
            assert {block for block, word in enumerate(state.words) if word & CONTENT} == set(model.keys)
            assert pool.num_cached_blocks == len(model.free() & set(model.keys))
            assert pool.num_empty_blocks == len(model.free() - set(model.keys))
            assert pool.refcounts() == [sum(held.get(block, 0) for held in model.held) for block in range(num_blocks)]
    assert all(times > 1 for times in seen.values()), seen
