"""A tape says at every frame what Replay says, in Python and in the browser's own code."""

import base64
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest

from pagedkv import BlockPool, OutOfBlocks, Replay, record
from pagedkv.core.events import Event, Recording
from pagedkv.core.replay import PoolState
from pagedkv.viz.tape import NO_NAME, Moment, Tape, label
from pagedkv.viz.words import caption
from tests.viz.recordings import GIVEN_TWICE, OWNERS, SHARED_AND_CACHED, random_recording, told

JS = Path(__file__).with_name("js")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node runs the front end's tests; it is not on PATH")


def state_at(recording, frame):
    """Replay's state; it carries out blocks that are not in the pool too, a tape leaves them out."""
    inside = [event._replace(blocks=tuple(block for block in event.blocks if 0 <= block < recording.num_blocks))
              for event in recording.events]
    return Replay(Recording(recording.num_blocks, "", recording.initial_refcounts, inside)).at(frame)


@pytest.mark.parametrize("seed", range(12))
def test_every_moment_is_that_of_replay(seed):
    recording = random_recording(seed)
    tape = Tape(recording)
    names = dict(zip(tape._names.numbers, tape.owners))
    for frame in range(len(recording) + 1):
        state, moment = state_at(recording, frame), tape.moment(frame)
        assert {block: [tape.owners[owner] for owner in held] for block, held in moment.holders.items()} == \
            {block: [names[owner] for owner, _ in held] for block, held in state.references.items()}
        assert moment.cached == state.cached
        assert (moment.num_used, moment.num_shared, moment.num_cached) == \
            (tape.used[frame], tape.shared[frame], tape.cached[frame]) == \
            (len(state.references), sum(len(held) > 1 for held in state.references.values()),
             sum(not state.refcount(block) for block in state.cached))


def in_the_browser(tape_messages, frames):
    """What the front end's modules make of these messages, under Node."""
    pieces = []
    for message in tape_messages:
        packed = [name for name, value in message.items() if isinstance(value, bytes)]
        pieces.append(message | {name: base64.b64encode(message[name]).decode() for name in packed} | {"packed": packed})
    run = subprocess.run(["node", str(JS / "show_states.mjs")], input=json.dumps({"pieces": pieces, "frames": frames}),
                         capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@needs_node
@pytest.mark.parametrize("seed", range(4))
def test_the_browser_shows_what_replay_says(seed):
    recording = random_recording(seed, num_blocks=10, events=120)
    tape = Tape(recording)
    names = dict(zip(tape._names.numbers, tape.owners))
    chance = random.Random(seed)
    frames = [len(recording), 0, *chance.choices(range(len(recording) + 1), k=40)]
    for frame, shown in zip(frames, in_the_browser([tape.message()], frames)):
        state, moment = state_at(recording, frame), tape.moment(frame)
        assert shown["references"] == [[[names[owner], step] for owner, step in state.references.get(block, ())]
                                       for block in range(recording.num_blocks)]
        assert {block for block, is_cached in enumerate(shown["cached"]) if is_cached} == state.cached
        assert shown["counts"] == shown["timeline"] == [tape.used[frame], tape.shared[frame], tape.cached[frame]]
        assert {block for block, at_fault in enumerate(shown["atFault"]) if at_fault} == moment.at_fault
        assert shown["shown"] == [moment.holders[block][0] if block in moment.holders else moment.last_holder.get(block, -1)
                                  for block in range(recording.num_blocks)]
        assert shown["caption"].startswith(caption(tape, frame)), "the browser may say more, never something else"
        assert shown["labels"] == [label(name) for name in tape.owners]


@needs_node
def test_a_tape_sent_in_pieces_is_the_whole():
    recording = random_recording(5)
    tape, pieces = Tape(Recording(recording.num_blocks, "", recording.initial_refcounts)), []
    pieces.append(tape.message())
    for begin, end in ((0, 1), (1, 30), (30, 80)):
        known = len(tape), len(tape.owners), tape.num_notes
        tape.add(recording.events[begin:end])
        pieces.append(tape.message(*known))
    frames = [80, 3, 41, 0]
    assert in_the_browser(pieces, frames) == in_the_browser([Tape(recording).message()], frames)


def test_every_owner_has_a_name_of_its_own():
    recording = told(*(("allocate", owner, [number]) for number, owner in enumerate(OWNERS)), num_blocks=len(OWNERS))
    owners = Tape(recording).owners
    assert owners == [NO_NAME, "A", "B", "7", "'7'", "('a', 'tuple')", "frozenset({1})", "''", "'(no name)'", "True",
                      "request 17"]
    assert len(set(owners)) == len(owners)


def test_two_owners_with_the_same_text_in_every_form():
    class Same:
        def __repr__(self):
            return "same"

    owners = Tape(told(("allocate", Same(), [0]), ("allocate", Same(), [1]), ("allocate", "same", [2]))).owners
    assert owners == ["same", "same (2)", "'same'"]


def test_a_name_or_a_message_of_a_megabyte():
    long = "x" * 1_000_000
    tape = Tape(told(("allocate", long, [1]), ("allocate", long + "y", [2]), ("release", "A", [1], {"error": long, "message": long})))
    assert len(set(tape.owners)) == 3 and max(map(len, tape.owners)) < 300
    assert len(json.dumps(tape.message()["notes"])) < 1000


def test_no_events():
    tape = Tape(Recording(4))
    assert (len(tape), tape.opening_frame(), list(tape.used), tape.owners) == (0, 0, [0], [])
    assert caption(tape, 0) == "before the first event: every block is free"


def test_blocks_held_before_the_beginning():
    tape = Tape(Recording(4, initial_refcounts={2: 3}))
    assert tape.moment(0).holders == {2: [0, 0, 0]} and tape.owners == [NO_NAME]
    assert caption(tape, 0) == "before the first event: 1 block is held"


def test_a_pool_of_no_blocks():
    assert len(Tape(told(("allocate", "A", []), num_blocks=0))) == 1


@pytest.mark.parametrize("block, named", [(8, "8"), (-1, "-1"), ("x", "'x'"), (None, "None"), (2.5, "2.5"), (2**70, str(2**70))])
def test_a_block_that_is_none_is_a_fault(block, named):
    tape = Tape(told(("allocate", "A", [1, block])))
    assert caption(tape, 1) == f"allocate(1) by A → block 1 – fault: block {named} is not in this pool of 8"
    assert tape.moment(1).holders == {1: [0]}


def test_a_refused_call_with_anything_in_it():
    tape = Tape(told(("release", "A", [99, -5, "x"], {"error": "NotABlock", "message": "no"})))
    assert caption(tape, 1) == "release([99, -5, 'x']) by A – refused: NotABlock · no"


def test_the_opening_frame():
    assert Tape(GIVEN_TWICE).opening_frame() == 2, "the first fault"
    assert Tape(told(("allocate", "A", [1, 2]), ("release", "A", [1]), ("retain", "B", [2]))).opening_frame() == 1
    busy = told(("allocate", "A", [1]), ("release", "A", [1]), ("allocate", "A", [2]), ("release", "A", [2]))
    assert Tape(busy).opening_frame() == 3, "the last of the fullest"


def test_faults_in_words_and_on_the_grid():
    tape = Tape(GIVEN_TWICE)
    assert caption(tape, 2) == "allocate(1) by B → block 1 – fault: block 1 was given to B while A holds it"
    assert [tape.moment(frame).at_fault for frame in range(6)] == [set(), set(), {1}, set(), set(), set()]
    assert caption(tape, 5) == "release([0]) by A – fault: block 0 was released while it was free"


DEATH = (("allocate", "W (dead)", [1, 2]), ("allocate", "W", [3]), ("retain", "W", [3, 5]),
         ("retain", "W (dead)", [3, 3, 5], {"died": True}), ("release", "W", [3, 3, 5], {"died": True}),
         ("release", "W (dead)", [3], {"reaped": True}), ("release", "W (dead)", [3, 5], {"reaped": True}),
         ("retain", None, [1], {"died": True}), ("release", None, [1], {"died": True}),
         ("release", "V", [1, 2], {"reaped": True}), ("release", "W (dead)", [1], {"reaped": 1, "died": "yes"}),
         ("allocate", "W (dead)", [6], {"died": True, "reaped": True}),
         ("release", "W (dead)", [6], {"reaped": True, "error": "NotHeld", "message": "no"}))
CONTENT = ("cache", "W", [3], {"parents": (-1,), "tokens": ((1, 2),)})  # makes events read as what happened


def test_a_death_in_words():
    for calls in (DEATH, (*DEATH, CONTENT)):
        tape = Tape(told(*calls))
        assert tape.tells_contents == (calls is not DEATH)
        said = [caption(tape, frame) for frame in range(len(tape) + 1)]
        assert said[4] == "W has died; what it held is still taken: blocks 3, 5"
        assert said[5] == "W has died; from now on blocks 3, 5 are shown as held by W (dead)"
        assert said[6] == "taken back from W, which has died: block 3"
        assert said[7] == "taken back from W, which has died: blocks 3, 5"
        assert said[8] == "somebody has died; what it held is still taken: block 1"
        assert said[9] == "somebody has died; from now on block 1 is shown as held by somebody (dead)"
        assert said[10].startswith("taken back from V, which has died: blocks 1, 2 – fault: block 1 ")
        assert not any("died" in said[frame] for frame in (11, 12, 13)) and "refused: NotHeld · no" in said[13]


@needs_node
@pytest.mark.parametrize("calls", [DEATH, (*DEATH, CONTENT)], ids=["calls", "plain words"])
def test_a_death_reads_the_same_in_the_browser(calls):
    tape = Tape(told(*calls))
    frames = list(range(len(tape) + 1))
    shown = [each["caption"] for each in in_the_browser([tape.message()], frames)]
    assert all(text.startswith(caption(tape, frame)) for frame, text in zip(frames, shown))
    assert shown[4:6] == [caption(tape, 4), caption(tape, 5)], "who holds it has another name, and nothing is shared"
    assert shown[7] == caption(tape, 7) + " – 2 blocks are free"


def test_many_faults_of_one_event_are_not_all_named():
    tape = Tape(told(("release", "A", range(20)), num_blocks=20))
    assert caption(tape, 1).count("was released while it was free") == 4 and caption(tape, 1).endswith("and 16 faults more")


def test_a_tape_does_not_grow_with_its_recording():
    with record(BlockPool(4)) as recording:
        tape = Tape(recording)
        recording.events.append(Event(0, "allocate", "A", (0,), {}))
    assert len(tape) == 0


def test_an_operation_that_replay_does_not_know():
    with pytest.raises(ValueError, match="does not know the operation 'compact'"):
        Tape(told(("compact", None, [1])))


def test_eight_bytes_for_each_change():
    pool = BlockPool(64)
    with record(pool) as recording:
        blocks = pool.allocate(30, "A")
        pool.release(blocks, "A")
        with pytest.raises(OutOfBlocks):
            pool.allocate(99)
    message = Tape(recording).message()
    assert len(message["changes"]) == 8 * 60
    assert "steps" not in message and "tokens" not in message, "what says nothing is not sent"


def test_a_moment_from_a_state():
    state = PoolState(8, {3: 2})
    for event in GIVEN_TWICE.events[:2]:
        state.apply(event)
    moment = Moment.of_state(state)
    assert moment.owners == [NO_NAME, "A", "B"]
    assert moment.holders == {3: [0, 0], 0: [1], 1: [1, 2]} and moment.at_fault == {1}


def test_a_cached_block_keeps_the_colour_of_its_last_holder():
    moment = Tape(SHARED_AND_CACHED).moment(5)
    assert moment.holders == {3: [1]} and moment.cached == {2, 3} and moment.last_holder == {2: 0}
