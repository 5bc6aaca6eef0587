"""Events, recordings, replay, snapshots, diffs and leak reports."""

import random

import pytest

from pagedkv import (BlockPool, DoubleFree, Event, OutOfBlocks, PoolError, Recording, Replay, Snapshot, diff_snapshots,
                     leak_report, record, side_by_side, take_snapshot)


def story():
    """Three owners, a share, two refusals."""
    pool = BlockPool(8)
    with record(pool) as recording:
        a = pool.allocate(3, owner="A")
        pool.retain(a[:2], owner="B")
        pool.release(a, owner="A")
        with pytest.raises(DoubleFree):
            pool.release([a[2]], owner="A")
        with pytest.raises(OutOfBlocks):
            pool.allocate(7, owner="C")
    return pool, recording


def test_a_recording_reads_like_the_calls():
    _, recording = story()
    assert str(recording).splitlines() == [
        "step  Python pool",
        "────  " + "─" * len("release([2], 'A') ✗ DoubleFree"),
        "   0  allocate(3, 'A') → [0, 1, 2]",
        "   1  retain([0, 1], 'B')",
        "   2  release([0, 1, 2], 'A')",
        "   3  release([2], 'A') ✗ DoubleFree",
        "   4  allocate(7, 'C') ✗ OutOfBlocks"]


def test_long_calls_are_shortened():
    assert str(Event(0, "release", None, tuple(range(64)), {})) == "release([0, 1, 2, 3, 4, 5, 6, 7, … 64 blocks])"


def test_two_recordings_side_by_side_of_different_length():
    short = Recording(4, "short", events=[Event(0, "allocate", None, (3,), {})])
    lines = side_by_side(story()[1], short).splitlines()
    assert lines[0].split() == ["step", "Python", "pool", "short"]
    assert lines[2].endswith("allocate(1) → [3]") and lines[3].endswith("'B')")


def test_an_empty_recording():
    pool = BlockPool(3)
    with record(pool) as recording:
        pass
    assert len(recording) == 0 and str(recording).splitlines()[0] == "step  Python pool"
    assert Replay(recording).end().num_free_blocks == 3
    assert not leak_report(recording)


def test_a_recording_says_what_the_owners_are():
    pool = BlockPool(4)
    with record(pool) as recording:
        pass
    assert recording.owners_are == "sequences"
    pool.owners_are = "members"
    with record(pool) as recording:
        pass
    assert recording.owners_are == "members"


def test_steps_go_on_over_two_recordings():
    pool = BlockPool(8)
    with record(pool):
        pool.allocate(1)
    pool.allocate(1)  # nobody looks
    with record(pool) as second:
        pool.allocate(1)
    assert [event.step for event in second.events] == [1]


def test_recording_a_pool_in_use_begins_with_what_is_held():
    pool = BlockPool(8)
    ids = pool.allocate(2)
    pool.retain(ids[:1])
    with record(pool) as recording:
        pool.release(ids)
    replay = Replay(recording)
    assert replay.at(0).refcounts() == [2, 1] + [0] * 6
    assert replay.end().refcounts() == pool.refcounts() and not replay.end().faults


def test_one_observer_at_a_time():
    pool = BlockPool(8)
    first = record(pool)
    with pytest.raises(RuntimeError, match="another observer"):
        record(pool)
    first.stop()
    first.stop()
    record(pool).stop()
    with pytest.raises(TypeError, match="no attribute 'observer'"):
        record(object())


def test_refused_calls_change_nothing_in_replay():
    pool, recording = story()
    replay = Replay(recording)
    assert replay.at(3).refcounts() == replay.end().refcounts() == pool.refcounts()


def test_replay_forth_and_back_agrees_with_the_pool_at_every_step():
    rng = random.Random(7)
    pool = BlockPool(32)
    held, states = [], [pool.refcounts()]
    with record(pool) as recording:
        for _ in range(5000):
            op, owner = rng.choice(["allocate", "retain", "release", "release"]), rng.choice("ABC")
            own = [block for holder, block in held if holder == owner or op == "retain"]
            some = rng.sample(own, min(len(own), rng.randrange(4)))
            try:
                if op == "allocate":
                    held += [(owner, block) for block in pool.allocate(rng.randrange(6), owner=owner)]
                elif op == "retain":
                    pool.retain(some, owner=owner)
                    held += [(owner, block) for block in some]
                else:
                    pool.release(some, owner=owner)
                    for block in some:
                        held.remove((owner, block))
            except PoolError:
                pass
            states.append(pool.refcounts())
    replay = Replay(recording)
    for position in (0, 5000, 1, 4999, 2500, *rng.sample(range(5000), 40)):
        state = replay.at(position)
        assert state.refcounts() == states[position]
        assert state.num_free_blocks == states[position].count(0)
        assert not state.faults
    for outside in (-1, 5001):
        with pytest.raises(IndexError, match="5000 events"):
            replay.at(outside)


def test_a_state_is_the_askers_own():
    _, recording = story()
    replay = Replay(recording)
    replay.at(2).references.clear()
    assert replay.at(2).refcount(0) == 2


def test_replay_follows_a_growing_recording():
    pool = BlockPool(4)
    running = record(pool)
    replay = Replay(running.recording)
    assert replay.end().num_free_blocks == 4
    pool.allocate(3)
    assert replay.end().num_free_blocks == 1


def test_a_release_gives_up_the_named_owners_newest_reference():
    pool = BlockPool(2)
    with record(pool) as recording:
        block = pool.allocate(1, owner="A")
        pool.retain(block, owner="B")
        pool.retain(block)
        pool.retain(block, owner="B")
        pool.release(block, owner="B")
        pool.release(block)
        pool.release(block, owner="nobody here")
    owners = [Replay(recording).at(i).owners(0) for i in range(4, 8)]
    assert [fault.step for fault in Replay(recording).end().faults] == [6]
    assert owners == [("A", "B", None, "B"), ("A", "B", None), ("A", "B"), ("A",)]


def test_replay_names_what_no_correct_pool_does():
    events = [Event(0, "allocate", "A", (3,), {}), Event(1, "allocate", "B", (3,), {}),
              Event(2, "release", None, (3, 3), {}), Event(3, "release", None, (3,), {}),
              Event(4, "retain", "C", (2,), {})]
    faults = Replay(Recording(4, events=events)).end().faults
    assert [(fault.step, fault.block, fault.message) for fault in faults] == [
        (1, 3, "block 3 was given to B while A holds it"),
        (3, 3, "block 3 was released while it was free"),
        (4, 2, "block 2 was retained while it was free")]


def test_replay_names_a_release_by_somebody_who_holds_nothing():
    """A pool that only counts cannot see it: A gives up its reference, and then B's."""
    pool = BlockPool(4)
    with record(pool) as recording:
        block = pool.allocate(1, owner="A")
        pool.retain(block, owner="B")
        pool.release(block, owner="A")
        pool.release(block, owner="A")
        unnamed = pool.allocate(1)
        pool.release(unnamed, owner="C")  # taken without a name: anybody may give it back
    assert [fault.message for fault in Replay(recording).end().faults] == [
        "block 0 was released by A, who holds no reference to it"]


def test_replay_knows_cached_blocks():
    """A cached block that nobody holds is free to take, can be retained, and is forgotten when it is taken."""
    events = [Event(0, "allocate", "A", (3, 2), {}), Event(1, "cache", "A", (3, 2), {}),
              Event(2, "release", "A", (3, 2), {}), Event(3, "retain", "B", (3,), {}),
              Event(4, "evict", None, (2,), {}), Event(5, "release", "B", (3,), {}), Event(6, "allocate", "C", (3,), {})]
    replay = Replay(Recording(4, events=events))
    assert [sorted(replay.at(n).cached) for n in range(8)] == [[], [], [2, 3], [2, 3], [2, 3], [3], [3], []]
    assert [replay.at(n).num_free_blocks for n in range(8)] == [4, 2, 2, 4, 3, 3, 4, 3]
    assert not replay.end().faults


def test_replay_refuses_an_operation_it_does_not_know():
    recording = Recording(4, events=[Event(0, "teleport", None, (1,), {})])
    with pytest.raises(ValueError, match="step 0: replay does not know the operation 'teleport'"):
        Replay(recording).end()


def test_a_snapshot_names_owners_and_reads_back_from_csv(tmp_path):
    pool, recording = story()
    snapshot = take_snapshot(pool, recording)
    assert snapshot == take_snapshot(recording)
    assert snapshot.rows[0] == (0, 1, ("B",), (1,)) and snapshot.rows[2] == (2, 0, (), ())
    text = snapshot.to_csv(tmp_path / "snapshot.csv")
    assert text.splitlines()[:2] == ["block,refcount,owners,since_step", "0,1,B,1"] and len(text.splitlines()) == 9
    assert Snapshot.from_csv(tmp_path / "snapshot.csv") == snapshot
    assert str(snapshot).splitlines()[0] == "2 of 8 blocks are held"


def test_awkward_owners_survive_csv(tmp_path):
    pool = BlockPool(8)
    with record(pool) as recording:
        for owner in ("two words", None, "100 %20", "a,b", 'quo"te', "line\nbreak", "漢字", 7, ("tenant", 3)):
            block = pool.allocate(1, owner=owner) if pool.num_free_blocks else [0]
            pool.retain(block, owner=owner)
    snapshot = take_snapshot(recording)
    snapshot.to_csv(tmp_path / "s.csv")
    assert Snapshot.from_csv(tmp_path / "s.csv") == snapshot


@pytest.mark.parametrize("text, message", [
    ("", "is not a pool snapshot"), ("a,b\n1,2\n", "is not a pool snapshot"),
    ("block,refcount,owners,since_step\n0,1,A,0\n1,x,,\n", "line 3: not a row"),
    ("block,refcount,owners,since_step\n0,1\n", "line 2: not a row")])
def test_csv_that_is_no_snapshot(tmp_path, text, message):
    (tmp_path / "s.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        Snapshot.from_csv(tmp_path / "s.csv")


def test_a_snapshot_as_data_frame():
    _, recording = story()
    frame = take_snapshot(recording).to_dataframe()
    assert list(frame.columns) == ["refcount", "owners", "since_step"]
    assert frame.refcount.tolist() == [1, 1, 0, 0, 0, 0, 0, 0] and frame.owners[0] == ("B",)


def test_a_snapshot_without_a_recording_has_the_counts_alone():
    pool, _ = story()
    rows = take_snapshot(pool).rows
    assert rows[0] == (0, 1, (), ()) and rows[7] == (7, 0, (), ())
    with pytest.raises(ValueError, match="a pool of 8 blocks, this pool has 9"):
        take_snapshot(BlockPool(9), story()[1])


def test_the_difference_of_two_snapshots():
    _, recording = story()
    replay = Replay(recording)
    diff = diff_snapshots(take_snapshot(replay.at(1)), take_snapshot(replay.at(3)))
    assert str(diff).splitlines() == ["block     0  refcount 1 → 1  new: B  gone: A",
                                      "block     1  refcount 1 → 1  new: B  gone: A",
                                      "block     2  refcount 1 → 0  gone: A"]
    assert str(diff_snapshots(take_snapshot(replay.at(3)), take_snapshot(replay.end()))) == "no block changed"
    with pytest.raises(ValueError, match="8 and of 9 blocks"):
        diff_snapshots(take_snapshot(recording), take_snapshot(BlockPool(9)))


def test_a_leak_report_names_the_owner_that_is_gone():
    pool, recording = story()
    report = leak_report(take_snapshot(pool, recording), live_owners=["A"])
    assert report and str(report).splitlines() == [
        "leaked: 2 references to 2 blocks, held by owners that are gone",
        "  block     0  B  since step 1",
        "  block     1  B  since step 1"]
    assert not leak_report(recording, live_owners=["B"])
    assert str(leak_report(recording, live_owners=["B"])) == "no leak: every reference belongs to a live owner"
    with pytest.raises(TypeError, match=r"such as \['B'\]"):
        leak_report(recording, live_owners="B")


def test_a_stale_mapping_is_told_from_a_leak():
    """Somebody releases A's block behind the observer's back: the pool says free, A still counts on it."""
    pool = BlockPool(4)
    with record(pool) as recording:
        block = pool.allocate(1, owner="A")
    pool.release(block)
    report = leak_report(take_snapshot(pool, recording), live_owners=["A"])
    assert report.leaked == () and report.stale == ((block[0], "A", 0),)
    assert "stale mapping: 1 references to blocks that the pool counts as free" in str(report)
