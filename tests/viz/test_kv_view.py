"""What a manager's events tell is shown: the same tree, tables and contents in Python and in the browser's own code."""

import base64
import io
import json
import random
import shutil
import subprocess
from pathlib import Path

import pytest
import traitlets

from pagedkv.core.events import Recording
from pagedkv.core.prefix_tree import PrefixTree, PrefixTreeReplay
from pagedkv.core.replay import Replay
from pagedkv.viz import BlockGrid, KVCacheView
from pagedkv.viz.palette import ATTENTION
from pagedkv.viz.tape import Tape
from pagedkv.viz.tokens import tokens_in_words
from pagedkv.viz.tree_layout import DETACHED, lay_tree, tree_of, tree_words
from pagedkv.viz.words import caption
from tests.viz.kv_recordings import BY_HAND, WORDS, chat, copy_frame, random_chat
from tests.viz.recordings import SHARED_AND_CACHED, random_recording, told
from tests.viz.test_tape import in_the_browser

JS = Path(__file__).with_name("js")
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node is not on PATH")


def trees_in_the_browser(messages, frames, columns=8, rows=6):
    """What the front end's modules make of these messages, under Node."""
    pieces = []
    for message in messages:
        packed = [name for name, value in message.items() if isinstance(value, bytes)]
        texts = {name: base64.b64encode(message[name]).decode() for name in packed}
        pieces.append(message | texts | {"packed": packed})
    run = subprocess.run(["node", str(JS / "show_trees.mjs")], capture_output=True, text=True, timeout=60,
                         input=json.dumps({"pieces": pieces, "frames": frames, "columns": columns, "rows": rows}))
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


def as_seen(laid):
    """A layout as the browser writes it."""
    what = {"root": ("salt",), "node": ("block",), "gap": ("blocks",), "more": ("count", "branches")}
    return {"rows": laid.rows, "columns": laid.columns, "items": [
        {"kind": each.kind, "row": each.row, "column": each.column, "from": each.before}
        | {name: getattr(each, name) for name in what[each.kind]} for each in laid.items]}


RECORDINGS = {"chat": chat(), "by hand": BY_HAND, **{f"random {seed}": random_chat(seed) for seed in range(4)},
              "untold": random_recording(3)}


@needs_node
@pytest.mark.parametrize("name", RECORDINGS)
def test_the_browser_shows_the_tree_that_the_events_tell(name):
    recording = RECORDINGS[name]
    tape, replay, chance = Tape(recording, token_text=WORDS), PrefixTreeReplay(recording), random.Random(name)
    frames = [*range(len(tape) + 1), *chance.choices(range(len(tape) + 1), k=20)]
    for frame, shown in zip(frames, trees_in_the_browser([tape.message()], frames)):
        prefix_tree, moment = replay.at(frame), tape.moment(frame)
        if name == "untold":  # also names blocks that do not exist: a tape leaves them out
            assert set(shown["order"]) == moment.cached
            continue
        tree = tree_of(prefix_tree)
        assert (shown["salts"], shown["order"], {id_: below for id_, below in shown["children"]}) == \
            (tree.salts, tree.order, tree.children)
        assert shown["heading"] == tree_words(tree, lambda block: bool(moment.holders.get(block)))
        told_of = [block for block in tree.order if prefix_tree.nodes[block].tokens]
        assert [tuple(shown["contents"][tree.order.index(block)]) for block in told_of] == \
            [prefix_tree.nodes[block].tokens for block in told_of]
        assert shown["words"] == [tokens_in_words(each, tape.token_text, 2) for each in shown["contents"]]
        assert (shown["copy"] and tuple(shown["copy"])) == tape.copy_under_way(frame)
        assert {owner: table for owner, table in enumerate(shown["tables"]) if table} == tape.tables(frame)
        assert shown["laid"] == as_seen(lay_tree(tree, 8, 6, lambda block: int(block in moment.holders)))


@pytest.mark.parametrize("seed", range(4, 12))
def test_the_tree_is_the_one_in_the_pool(seed):
    def compare(manager, recording):
        tree, pool = PrefixTree(recording.initial_cache), manager.pool
        for event in recording.events:
            tree.apply(event)
        parents = {block: -1 if node.is_first else None if tree.is_detached(node) else node.parent.block
                   for block, node in tree.nodes.items()}
        assert parents == {block: pool.parent_of(block) for block in range(pool.num_blocks) if pool.is_cached(block)}

    assert random_chat(seed, num_blocks=16, watch=compare).initial_cache, "it begins with cached blocks"


@needs_node
def test_captions_are_the_same_on_the_screen():
    for recording in (chat(), BY_HAND):
        for words in (None, WORDS):
            tape = Tape(recording, token_text=words)
            frames = list(range(len(tape) + 1))
            for frame, shown in zip(frames, in_the_browser([tape.message()], frames)):
                assert shown["caption"].startswith(caption(tape, frame))


@needs_node
def test_a_tape_sent_in_pieces_tells_the_same():
    recording, events = chat(), chat().events
    tape, pieces = Tape(Recording(recording.num_blocks), block_size_tokens=4), []
    pieces.append(tape.message())
    for begin, end in ((0, 1), (1, 2), (2, 9), (9, 25)):
        known = len(tape), len(tape.owners), tape.num_notes
        tape.add(events[begin:end])
        pieces.append(tape.message(*known))
    frames = [25, 3, 10, 0, 22]
    assert trees_in_the_browser(pieces, frames) == trees_in_the_browser([Tape(recording).message()], frames)


def test_plain_words():
    tape = Tape(chat())
    said = [caption(tape, frame) for frame in range(len(tape) + 1)]
    for words in ("A takes blocks 0, 1, 2, 3, 4 for 17 tokens",
                  "blocks 0, 1, 2, 3 are full and can be found from now on",
                  "found in the cache for B: 3 blocks (0, 1, 2)",
                  "A writes token 22 into block 4",
                  "C forks from A and shares blocks 0, 1, 2, 3, 4", "C copies block 4 to block 7 before it writes",
                  "C gives up block 4: block 7 stands in its table instead", "A gives back blocks 4, 3, 2, 1, 0"):
        assert words in said
    frame = said.index("A writes token 22 into block 4")
    assert caption(Tape(chat(), token_text=WORDS), frame) == "A writes “maps” into block 4"
    by_hand = Tape(BY_HAND)
    assert caption(by_hand, 4) == "block 3 is full and can be found from now on, by the salt b only"
    assert caption(by_hand, 8) == "block 1 is evicted and can no longer be found"
    assert caption(by_hand, 12) == "C writes something into block 5"
    refused = told(*[(each.op, each.owner, each.blocks, each.detail) for each in BY_HAND.events],
                   ("allocate", "D", [], {"error": "OutOfBlocks", "message": "none", "requested_blocks": 9}))
    assert caption(Tape(refused), 13) == "D asks for 9 blocks – refused: OutOfBlocks · none"


def test_a_bare_pools_events_read_as_before():
    assert caption(Tape(SHARED_AND_CACHED), 3) == "cache([3, 2]) by A"
    assert not Tape(SHARED_AND_CACHED).tells_contents and "told" not in Tape(SHARED_AND_CACHED).message()


@pytest.mark.parametrize("name", RECORDINGS)
def test_references_are_counted_for_every_frame(name):
    recording = RECORDINGS[name]
    if name != "untold":
        tape, replay = Tape(recording), Replay(recording)
        assert list(tape.references) == [sum(map(len, replay.at(frame).references.values()))
                                         for frame in range(len(tape) + 1)]


def test_it_opens_where_sharing_saves_most():
    recording = chat()
    view, tape = KVCacheView(recording), Tape(recording)
    saved = [sum(len(held) - 1 for held in tape.moment(frame).holders.values()) for frame in range(len(tape) + 1)]
    assert saved[view.frame] == max(saved) and view.opening == view.frame
    assert KVCacheView(recording, frame=3).frame == 3
    alone = told(("allocate", "A", [1]), ("allocate", "A", [2]), ("release", "A", [1]))
    assert KVCacheView(alone).frame == BlockGrid(alone).frame == 2
    with pytest.raises(traitlets.TraitError, match="from 0 to 25"):
        KVCacheView(recording, frame=26)


def test_the_size_of_blocks_is_found():
    assert KVCacheView(chat()).tapes[0].block_size_tokens == 4
    assert KVCacheView(chat(), block_size_tokens=8).tapes[0].block_size_tokens == 8
    assert Tape(SHARED_AND_CACHED).block_size_tokens is None


@pytest.mark.parametrize("detail", [
    {"tokens": "ab"}, {"tokens": (1.5,)}, {"tokens": (2**40,)}, {"tokens": None}, {"copied_from": "x", "tokens": (1,)},
    {"parents": (3,), "tokens": (7,)}, {"replaced_by": None, "forked_from": "nobody", "salt": 3}])
@pytest.mark.parametrize("op", ["allocate", "write", "cache", "retain", "release"])
def test_whatever_a_detail_says_is_shown_or_left_out(op, detail):
    tape = Tape(told(("allocate", "A", [1]), (op, "A", [1], detail)))
    assert caption(tape, 2)
    tape.copy_under_way(2), tape.tables(2), tape.message()


def test_how_tokens_read():
    words = {1: " the", 2: "re", 3: "\n"}
    assert tokens_in_words([1, 2, 3, 4], Tape(BY_HAND, token_text=words).token_text) == "there⏎4"
    assert tokens_in_words([5, 6, 7], None, 2) == "5 6 …"
    assert tokens_in_words([1, 2], Tape(BY_HAND, token_text=lambda token: "x" * token).token_text) == "x xx"
    with pytest.raises(TypeError, match="a dict or a function, not a list"):
        KVCacheView(BY_HAND, token_text=["a"])


def test_what_is_sent_of_token_texts():
    text = Tape(BY_HAND, token_text={1: "one", 99: "never"}).message()["token_text"]
    assert text["1"] == "one" and text["2"] == "2" and "99" not in text


def test_the_line_and_what_a_cell_stores():
    view = KVCacheView(chat(), title="Chat", token_text=WORDS)
    view.frame = 10
    data, metadata = view._repr_mimebundle_()
    assert data["text/plain"] == "Chat · KV cache manager · 32 blocks · event 10 of 25 · 8 used (5 shared), 24 free"
    assert metadata["image/png"]["alt"].endswith(
        "Last event: C copies block 4 to block 7 before it writes. Prefix tree: 5 blocks can be found, 0 of them free "
        "to take; it branches at 1 block")
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert view.still().png() == KVCacheView(chat(), title="Chat", token_text=WORDS, frame=10).still().png()


def pixels_of_attention(view):
    """How many pixels are of the colour for "look here", a little blurred or not."""
    from matplotlib.image import imread
    pixels = (imread(io.BytesIO(view.still().png()))[..., :3] * 255).astype(int)
    wanted = [int(ATTENTION[i:i + 2], 16) for i in (1, 3, 5)]
    return int((abs(pixels - wanted).max(axis=-1) < 12).sum())


def test_the_picture_has_an_arrow_while_a_block_is_copied():
    recording = chat()
    frame = copy_frame(recording)
    # Without the source nothing is drawn but the outline of the new block.
    plain = Recording(recording.num_blocks, events=[
        event._replace(detail={key: value for key, value in event.detail.items() if key != "copied_from"})
        for event in recording.events])
    with_arrow, without = (pixels_of_attention(KVCacheView(each, block_size_tokens=4, frame=frame))
                           for each in (recording, plain))
    assert with_arrow > 1.5 * without > 0


@pytest.mark.parametrize("recording", [Recording(0), Recording(4), SHARED_AND_CACHED, random_recording(2),
                                       random_chat(1, 4000, 2, 60)],
                         ids=["no blocks", "no events", "untold", "random", "large"])
def test_any_recording(recording):
    view = KVCacheView(recording)
    assert view.still().png().startswith(b"\x89PNG") and view.get_state()["tapes"]


def test_a_followed_owner_in_the_picture():
    view = KVCacheView(chat(), frame=10)
    before = view.still().png()
    view.selected = "C"
    assert view.still().png() != before


# ── where a tree is drawn ────────────────────────────────────────────────────────────────────────────────────────────


def tree_from(parents):
    """The tree of blocks 0, 1, … with these parents (-1: first), cached in this order."""
    tree = PrefixTree()
    told_of = {"parents": tuple(parents), "tokens": tuple((0,) for _ in parents)}
    tree.apply(told(("cache", "A", range(len(parents)), told_of), num_blocks=len(parents)).events[0])
    return tree_of(tree)


def test_every_node_of_a_small_tree_has_a_place_of_its_own():
    laid = lay_tree(tree_from([-1, 0, 1, 1, 3, 0]), 9, 9, lambda block: 0)
    assert {item.block: (item.row, item.column) for item in laid.items if item.kind == "node"} == \
        {0: (0, 1), 1: (0, 2), 2: (0, 3), 3: (1, 3), 4: (1, 4), 5: (2, 2)}
    assert (laid.rows, laid.columns) == (3, 5)


def test_nothing_moves_when_a_branch_is_added():
    def places(parents):
        laid = lay_tree(tree_from(parents), 9, 9, lambda block: 0)
        return {item.block: (item.row, item.column) for item in laid.items if item.kind == "node"}
    before = places([-1, 0, 1, 1])
    assert {block: place for block, place in places([-1, 0, 1, 1, 1]).items() if block < 4} == before


def test_a_long_chain_loses_its_middle():
    laid = lay_tree(tree_from([-1, *range(99)]), 8, 9, lambda block: 0)
    assert laid.columns <= 8
    gap, = [item for item in laid.items if item.kind == "gap"]
    shown = [item.block for item in laid.items if item.kind == "node"]
    assert sorted(shown + gap.blocks) == list(range(100)) and shown[0] == 0 and shown[-1] == 99


@pytest.mark.parametrize("seed", range(8))
def test_every_node_is_drawn_or_counted(seed):
    chance = random.Random(seed)
    parents = [chance.randint(max(-1, block - chance.choice([2, 8, 60])), block - 1) for block in range(300)]
    current = chance.randrange(300)
    for most_rows in (1, 2, 5, 9, 1000):
        laid = lay_tree(tree_from(parents), 8, most_rows, lambda block: int(block == current))
        assert laid.rows <= most_rows
        counts = {"node": 1, "root": 0}
        assert sum(counts.get(item.kind, len(item.blocks) + item.count) for item in laid.items) == 300
        places = [(item.row, item.column) for item in laid.items]
        assert len(set(places)) == len(places), "nothing is drawn over another"
        for item in laid.items:
            if item.before >= 0:
                before = laid.items[item.before]
                assert item.column == before.column + 1 and item.row >= before.row
    assert not [item for item in laid.items if item.kind == "more"]


def test_the_branch_of_the_current_event_is_drawn():
    parents = [-1] + [0] * 200
    laid = lay_tree(tree_from(parents), 8, 5, lambda block: 3 if block == 77 else block > 150)
    shown = [item.block for item in laid.items if item.kind == "node"]
    assert 77 in shown and len(shown) == 5
    more, = [item for item in laid.items if item.kind == "more"]
    assert (more.count, more.branches) == (196, 196)


def test_a_root_for_each_salt_and_one_for_what_is_detached():
    view = KVCacheView(BY_HAND, frame=11)
    tree = tree_of(PrefixTreeReplay(BY_HAND).at(11))
    assert tree.salts == [None, "b", DETACHED] and tree.children[-3] == [2, 5]
    assert view.still().alt.endswith("Prefix tree: 3 blocks can be found, 1 of them free to take; 2 cut off; it "
                                     "branches at 0 blocks; 2 blocks whose parent is gone")


def test_what_hangs_under_a_detached_node_is_cut_off_too():
    tree = PrefixTree()
    events = told(("cache", "A", [0, 1, 2], {"parents": (-1, 0, 1), "tokens": ((0,),) * 3}), ("evict", "A", [0]),
                  num_blocks=3).events
    tree.apply(events[0])
    assert tree_words(tree_of(tree), {1, 2}.__contains__) == "3 blocks can be found, 1 of them free to take"
    tree.apply(events[1])
    assert tree_words(tree_of(tree), {1, 2}.__contains__) == "no block can be found; 2 cut off"
    assert tree_words(tree_of(PrefixTree()), set().__contains__).startswith("no block can be found yet")


def texts(view):
    return {text.get_text() for axes in view.still().figure.axes for text in axes.texts}


def test_the_colours_of_the_timeline_are_told_with_the_numbers_of_the_frame():
    assert {"used 25 %", "shared 16 %", "cached 0 %"} <= texts(KVCacheView(chat(), frame=10))
    plain = texts(KVCacheView(Recording(4)))
    assert "used 0 %" in plain and not any(text.startswith(("shared ", "cached ")) for text in plain)


def test_the_number_of_a_hatched_block_stands_on_paper():
    grid = KVCacheView(BY_HAND, frame=11, columns=8).still().figure.axes[0]
    numbers = {text.get_text(): text for text in grid.texts}
    hatched = [block for block in Tape(BY_HAND).moment(11).cached if block not in Tape(BY_HAND).moment(11).holders]
    assert hatched and all(numbers[str(block)].get_path_effects() for block in hatched)


def test_live(monkeypatch, capsys):
    from pagedkv.core.manager import KVCacheManager
    sent = []
    monkeypatch.setattr(KVCacheView, "send", lambda self, content, buffers=None: sent.append(content))
    manager = KVCacheManager(num_blocks=16, block_size=2)
    with KVCacheView.live(manager, token_text=WORDS) as view:
        manager.append_token(manager.add_sequence([1, 2, 3], owner="A"), 4)
    assert sent and "told" in sent[0]["columns"] and view.title == "KV cache"
    assert "Prefix tree: 2 blocks" in view.still().alt
