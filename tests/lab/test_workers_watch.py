"""Watching a shared pool: what was seen, replayed, is what the pool holds; the header and words as they are in the
file; kills at every step."""

import random
import struct
import time

import pytest

from pagedkv import KVCacheManager, PoolError, Replay
from pagedkv.core.events import record
from pagedkv.core.prefix_tree import PrefixTreeReplay
from pagedkv.lab.workers_processes import pool_name
from pagedkv.lab.workers_watch import grid_of, header_table, holders_in, watching, word_of, word_table
from pagedkv.lab.workers_watch_kills import BLOCK, OTHER, VICTIM, kill_steps
from pagedkv.shared import SharedPool, segment
from pagedkv.shared.layout import CACHED, CONTENT, HEADER_BYTES, STATE_AT
from pagedkv.shared.watch import WatchedPool
from pagedkv.viz import KVCacheView
from pagedkv.viz.tape import label

try:
    segment.check_system()
except NotImplementedError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.fixture
def members():
    """Makes members of one pool."""
    made = []

    def join(cache_blocks=0, num_blocks=16, **more):
        if not made:
            made.append(SharedPool.create(pool_name("watch-test"), num_blocks, 64, cache_blocks=cache_blocks, **more))
        else:
            made.append(SharedPool.join(made[0].name, cache_blocks=cache_blocks))
        return made[-1]

    yield join
    made[0].unlink()
    for member in made:
        member.close()


def told(events):
    return [(event.op, event.owner, event.blocks) for event in events]


def end(watched):
    return Replay(watched.recording).end()


def test_what_members_take_share_and_give_back(members):
    a, b = members(), members()
    watched = WatchedPool(a, {0: "A"})
    assert watched.look() == ()
    blocks = a.allocate(3)
    assert told(watched.look()) == [("allocate", "A", tuple(blocks))]
    b.retain([blocks[0], blocks[0], blocks[1]])
    a.release([blocks[0]])
    assert told(watched.look()) == [("retain", "Python", (blocks[0], blocks[0], blocks[1])),
                                    ("release", "A", (blocks[0],))]
    assert end(watched).owners(blocks[1]) == ("A", "Python") and not end(watched).faults
    assert watched.owners() == {0: "A", 1: "Python"}
    assert watched.refcounts() == a.refcounts() == end(watched).refcounts()
    assert watched.num_free_blocks == a.num_free_blocks and watched.refcount(blocks[0]) == 2


def test_a_block_that_was_handed_out_again_is_released_and_allocated(members):
    a, b = members(num_blocks=1), members()
    watched = WatchedPool(a, {0: "A", 1: "B"})
    a.allocate(1)
    watched.look()
    a.release([0])
    b.allocate(1)
    assert told(watched.look()) == [("release", "A", (0,)), ("allocate", "B", (0,))]
    b.release([0])
    b.allocate(1)
    assert told(watched.look()) == [("release", "B", (0,)), ("allocate", "B", (0,))]
    b.release([0])
    a.release(a.allocate(1))
    assert told(watched.look()) == [("release", "B", (0,))]
    assert watched.look() == ()


def test_content_with_its_tokens_and_what_comes_before(members):
    a, b = members(tokens_per_block=2), members()
    watched = WatchedPool(a, {0: "A", 1: "B"})
    blocks = a.allocate(2)
    assert a.publish([1, 2, 3, 4], blocks) == 2
    events = watched.look()
    assert told(events) == [("allocate", "A", tuple(blocks)), ("cache", None, tuple(blocks))]
    assert events[1].detail == {"parents": (-1, blocks[0]), "tokens": ((1, 2), (3, 4))}
    a.release(blocks)
    assert told(watched.look()) == [("release", "A", tuple(blocks))]
    assert end(watched).cached == set(blocks) and watched.num_free_blocks == 16
    assert b.reuse([1, 2, 3, 4]) == blocks
    assert told(watched.look()) == [("retain", "B", tuple(blocks))] and not end(watched).faults
    other, = b.allocate(1)
    assert b.publish([1, 2], [other], salt="tenant") == 1
    events = watched.look()
    assert told(events)[-1] == ("cache", None, (other,)) and len(events[-1].detail["salt"]) == 8
    b.unpublish([other])
    assert told(watched.look()) == [("evict", None, (other,))]
    tree = PrefixTreeReplay(watched.recording).at(len(watched.recording))
    assert [node.tokens for node in tree.nodes.values()] == [(1, 2), (3, 4)]
    assert "Prefix tree: 2 blocks can be found" in grid_of(watched, view=KVCacheView).still().alt


def test_content_that_was_overwritten(members):
    a = members(num_blocks=1, tokens_per_block=2)
    watched = WatchedPool(a)
    a.publish([1, 2], a.allocate(1))
    a.release([0])
    watched.look()
    a.allocate(1)
    assert told(watched.look()) == [("allocate", "Python", (0,))] and end(watched).cached == set()
    a.publish([3, 4], [0])
    a.release([0])
    watched.look()
    a.release(a.allocate(1))
    assert told(watched.look()) == [("evict", None, (0,))]


def test_blocks_of_a_local_cache_are_free(members):
    a = members(cache_blocks=4)
    watched = WatchedPool(a)
    blocks = a.allocate(2)
    watched.look()
    a.release(blocks)
    watched.look()
    assert watched.num_free_blocks == 16 and end(watched).refcounts() == a.refcounts()


def test_a_member_that_closes_is_not_reaped(members):
    a, b = members(), members()
    watched = WatchedPool(a)
    b.allocate(2)
    watched.look()
    b.close()
    event, = watched.look()
    assert event.op == "release" and event.detail == {}


def test_two_members_that_had_the_same_slot_are_two(members):
    a, b = members(), members()
    watched = WatchedPool(a)
    b.allocate(1)
    watched.look()
    b.close()
    members().allocate(1)
    assert [event.owner for event in watched.look()] == ["Python", "Python 2"]


def test_names_and_what_stands_in_a_cell_differ(members):
    watched = WatchedPool(members(), lambda member: "Python" if member.slot == 1 else None)
    for number in range(4):
        members().allocate(1)
    watched.look()
    assert watched.owners() == {1: "Python", 2: "Python 2", 3: "Python 3", 4: "Python 4", 0: "Python 5"}
    labels = [label(name) for name in watched.owners().values()]
    assert len(set(labels)) == 5 and "Py" in labels and "2" in labels and label("Java") == "Ja"


@pytest.fixture
def managers(members):
    """Two members, each with a manager; and a watcher, and the block table of each as a view shows it."""
    pools = members(tokens_per_block=2), members()
    watched = WatchedPool(pools[0], {0: "A", 1: "B"})

    def shown():
        watched.look()
        view = grid_of(watched, view=KVCacheView)
        tape = view.tapes[0]
        return {tape.owners[owner]: table for owner, table in tape.tables(view.frame).items()}

    return [KVCacheManager(pool=pool) for pool in pools], watched, shown


def test_a_view_shows_the_block_table_of_a_manager(managers):
    (a, b), watched, shown = managers
    a.free_sequence(a.add_sequence([9, 9, 9]))
    first = a.add_sequence([1, 2, 3, 4, 5, 6])
    a.mark_written(first, 6)
    assert shown() == {"A": first.block_table}
    a.free_sequence(first)
    shown()
    second = b.add_sequence([1, 2, 3, 4, 5, 6, 7])
    assert second.num_cached_tokens == 6
    assert told(watched.look()) == [("retain", "B", tuple(second.block_table[:3])),
                                    ("allocate", "B", tuple(second.block_table[3:]))]
    assert shown() == {"B": second.block_table} and not end(watched).faults


def test_a_block_that_is_taken_and_reused_within_one_look(managers):
    (a, b), watched, shown = managers
    first = a.add_sequence([1, 2, 3, 4, 5])
    a.mark_written(first, 4)
    second = b.add_sequence([1, 2, 3, 4, 6])
    assert second.num_cached_tokens == 4
    assert shown() == {"A": first.block_table, "B": second.block_table} and not end(watched).faults
    a.free_sequence(first)
    b.free_sequence(second)
    watched.look()
    second = b.add_sequence([7, 8, 9, 10, 5])
    b.mark_written(second, 4)
    first = a.add_sequence([7, 8, 9, 10, 6])
    assert shown() == {"A": first.block_table, "B": second.block_table} and not end(watched).faults


def test_two_that_have_retained_what_the_other_one_has_just_taken(members):
    """A new block of both was taken by the one in the first slot, as far as can be told."""
    a, b = members(), members()
    watched = WatchedPool(a, {0: "A", 1: "B"})
    mine, yours = a.allocate(1), b.allocate(1)
    a.retain([*yours, *mine])
    b.retain(mine)
    assert told(watched.look()) == [("allocate", "A", (*mine, *yours)), ("retain", "A", tuple(mine)),
                                    ("retain", "B", (*mine, *yours))]
    assert end(watched).refcounts() == a.refcounts() and not end(watched).faults


def test_a_block_that_was_found_and_then_made_unfindable(members):
    a = members(tokens_per_block=2)
    watched = WatchedPool(a)
    a.publish([1, 2], blocks := a.allocate(1))
    a.release(blocks)
    watched.look()
    a.reuse([1, 2])
    a.unpublish(blocks)
    assert told(watched.look()) == [("retain", "Python", tuple(blocks)), ("evict", None, tuple(blocks))]
    assert not end(watched).faults


def test_an_observer_gets_what_a_recording_gets(members):
    a = members()
    watched = WatchedPool(a.name)
    a.allocate(1)
    watched.look()
    with record(watched) as later:
        a.allocate(1)
        watched.look()
    assert later.events == watched.recording.events[1:] and later.initial_refcounts == {0: 1}
    assert watched.recording.owners_are == "members"


def test_random_work_replayed_ends_as_the_pool_is(members):
    pools = [members(num_blocks=40, tokens_per_block=2, cache_blocks=3), members(), members(cache_blocks=2)]
    watched = WatchedPool(pools[0])
    rng, held = random.Random(8), [[] for _ in pools]
    for step in range(600):
        number = rng.randrange(3)
        pool, mine = pools[number], held[number]
        try:
            what = rng.choice(["allocate", "retain", "release", "release", "publish", "reuse", "unpublish"])
            tokens = [rng.randrange(3) for _ in range(4)]
            if what == "allocate":
                mine += pool.allocate(rng.randint(1, 5))
            elif what == "retain":
                block = rng.randrange(40)
                pool.retain([block])
                mine.append(block)
            elif what == "release" and mine:
                block = mine.pop(rng.randrange(len(mine)))
                pool.release([block])
            elif what == "publish" and mine:
                pool.publish(tokens, [rng.choice(mine)])
            elif what == "reuse":
                mine += pool.reuse(tokens)
            elif what == "unpublish" and mine:
                pool.unpublish([rng.choice(mine)])
        except PoolError:
            pass
        if rng.random() < 0.3:
            watched.look()
            state = end(watched)
            assert state.refcounts() == pool.refcounts() == watched.refcounts() and not state.faults
            found = {block for block in range(40) if word_table(pool, [block]).rows[0].has_content}
            assert state.cached == found
            owners = watched.owners()
            assert all(sorted(set(state.owners(block))) == sorted(owners[slot] for slot in pool.holders(block))
                       for block in range(40))


def test_it_looks_by_itself(members):
    a = members()
    watched = WatchedPool(a)
    with watched.looking(every_seconds=0.005):
        a.allocate(1)
        give_up = time.monotonic() + 10
        while not watched.recording.events and time.monotonic() < give_up:
            time.sleep(0.005)
        assert told(watched.recording.events) == [("allocate", "Python", (0,))]
        a.release([0])
    assert watched.refcounts() == [0] * 16


def test_an_observers_error_comes_out(members):
    a = members()
    watched = WatchedPool(a)

    def observer(event):
        raise RuntimeError("no room")

    watched.observer = observer
    with pytest.raises(RuntimeError, match="no room"), watched.looking(every_seconds=0.005):
        a.allocate(1)
        time.sleep(0.05)


def test_a_watcher_changes_nothing_and_takes_no_slot(members):
    a = members()
    a.allocate(3)
    path = segment.pool_path(a.name)
    before = path.read_bytes()
    WatchedPool(a).look()
    assert path.read_bytes() == before and len(a.members()) == 1


def test_a_pool_that_was_made_anew_is_refused(members):
    a = members()
    SharedPool.create(a.name, 4, 64, replace=True).close()
    with pytest.raises(ValueError, match="made anew"):
        WatchedPool(a)


def test_grids(members, capsys):
    a = members()
    watched = WatchedPool(a, {0: "Python"})
    with watching(watched, title="Live") as live:
        a.allocate(2)
    assert live.recording.events == watched.recording.events and not live.following
    grid = grid_of(watched, title="Afterwards")
    assert grid.frame == 1 and "2 used" in repr(grid)
    drawn = grid.still().figure.findobj(lambda each: hasattr(each, "get_text"))
    assert "Members" in [text.get_text() for text in drawn]


# ── header and words ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_header_is_that_of_the_file(members):
    a = members(tokens_per_block=4, guard=True)
    table = header_table(a)
    data = segment.pool_path(a.name).read_bytes()[:HEADER_BYTES]
    values = {row.name: row.value for row in table.rows}
    assert values["magic"] == b"PAGEDKV\0" and values["num_blocks"] == 16 and values["flags"] == 1
    assert values["block_bytes"] == 64 and values["tokens_per_block"] == 4 and values["state"] == 1
    assert values["capacity_bytes"] == table.file_bytes == segment.pool_path(a.name).stat().st_size
    for row in table.rows:
        assert data[row.offset:row.offset + len(row.raw)] == row.raw
    covered = {place for row in table.rows for place in range(row.offset, row.offset + len(row.raw))}
    assert all(byte == 0 for place, byte in enumerate(data) if place not in covered), "a field is missing here"
    text = str(table)
    assert "50 41 47 45 44 4b 56 00" in text and table.rows[-4].name == "id"
    pool_id = next(row for row in table.rows if row.name == "id").raw
    assert pool_id.hex(" ") not in text


def test_a_header_that_says_something_else_is_shown_as_it_is(members):
    a = members()
    with open(segment.pool_path(a.name), "r+b") as file:
        file.seek(STATE_AT)
        file.write(struct.pack("<Q", 258))
    assert next(row for row in header_table(a.name).rows if row.name == "state").value == 258


def test_words_taken_apart(members):
    a, b = members(tokens_per_block=2), members(cache_blocks=4)
    mine = a.allocate(2)
    a.publish([1, 2], mine[:1])
    b.retain(mine[:1])
    b.retain(mine[:1])
    cached = b.allocate(1)
    b.release(cached)
    watched = WatchedPool(a, {0: "Python"})
    watched.look()
    table = word_table(a, [*mine, *cached], watched)
    shared, plain, local = table.rows
    assert shared.counts == {0: 1, 1: 2} and shared.has_content and shared.generation == 1
    assert plain.counts == {0: 1} and not plain.has_content
    assert local.is_cached and local.counts == {1: 0}
    assert "slot 0 (Python): 1, slot 1 (Python 2): 2" in str(table)
    with pytest.raises(ValueError, match="ids go from 0 to 15"):
        word_table(a, [16])
    assert "nobody" in str(word_table(a, [15]))


def test_a_word_put_together_and_taken_apart():
    word = word_of(5, [0, 47], CONTENT | CACHED)
    assert word >> 50 == 5 and holders_in(word) == [0, 47] and word & CONTENT and word & CACHED


# ── kills ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("operation", ["allocate", "retain", "release", "release, shared"])
def test_after_a_kill_at_any_step_a_reap_leaves_nothing_of_the_dead(operation):
    table = kill_steps(operation)
    assert [len(row.writes) for row in table.rows] == list(range(len(table.rows))) and len(table.rows) >= 3
    for row in table.rows:
        assert VICTIM not in holders_in(row.reaped.word) and row.reaped.count == 0
        survivors = [slot for slot in holders_in(row.killed.word) if slot != VICTIM]
        assert holders_in(row.reaped.word) == survivors and row.reaped.has_hint == (not survivors)
        assert row.killed.word >> 50 == row.reaped.word >> 50
    assert BLOCK == 0 and OTHER != VICTIM
    assert len(str(table).splitlines()) == 3 + len(table.rows)


def test_the_steps_come_in_the_order_of_the_specification():
    last = {operation: kill_steps(operation).rows[-1].writes for operation in ("allocate", "retain", "release")}
    assert last == {"allocate": ("hints", "counts[2] = 1", "the word"), "retain": ("counts[2] = 1", "the word"),
                    "release": ("the word", "counts[2] = 0", "hints")}
    with pytest.raises(ValueError, match="operation is one of"):
        kill_steps("reap")
