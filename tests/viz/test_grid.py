"""The widget as the kernel sees it; what the browser makes of it is in tests/browser/test_block_grid.py."""

import base64
import hashlib
import json
import re
import shutil
import subprocess
import sys
import threading
import time

import pytest
import traitlets

from pagedkv import BlockPool, OutOfBlocks, record
from pagedkv.core.events import Event, Recording
from pagedkv.viz import BlockGrid, side_by_side_grids
from pagedkv.viz.modules import FRONT, joined
from tests.viz.recordings import GIVEN_TWICE, SHARED_AND_CACHED, random_recording, told


@pytest.fixture
def sent(monkeypatch):
    """What live grids send, as (content, buffers), in order."""
    messages = []
    monkeypatch.setattr(BlockGrid, "send", lambda self, content, buffers=None: messages.append((content, buffers)))
    return messages


def test_the_line_of_text():
    grid = BlockGrid(SHARED_AND_CACHED, "Two blocks")
    grid.frame = 4
    assert repr(grid) == "Two blocks · test pool · 8 blocks · event 4 of 5 · 1 used, 1 cached, 6 free"
    assert repr(BlockGrid(Recording(1))) == "Block pool · pool · 1 block · event 0 of 0 · 0 used, 1 free"


def test_a_cell_stores_widget_text_and_picture():
    grid = BlockGrid(GIVEN_TWICE)
    data, metadata = grid._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert data["text/plain"] == repr(grid)
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == (
        "Block pool (test pool), 8 blocks, after event 2 of 5: 2 used (1 shared), 6 free, 1 block given out twice. "
        "Last event: allocate(1) by B → block 1 – fault: block 1 was given to B while A holds it")


def test_the_picture_is_the_same_bytes_in_another_process():
    code = ("from tests.viz.recordings import random_recording; from pagedkv.viz import BlockGrid; import hashlib; "
            "print(hashlib.sha256(BlockGrid(random_recording(3)).still().png()).hexdigest())")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == hashlib.sha256(BlockGrid(random_recording(3)).still().png()).hexdigest()


def test_the_picture_does_not_depend_on_the_notebooks_style():
    import matplotlib
    grid = BlockGrid(random_recording(3))
    before = grid.still().png()
    with matplotlib.rc_context({"font.size": 20, "figure.facecolor": "black", "savefig.facecolor": "black", "axes.grid": True,
                                "hatch.linewidth": 4, "savefig.bbox": "tight"}):
        assert grid.still().png() == before
        assert matplotlib.rcParams["font.size"] == 20, "and leaves it alone"


def test_nothing_in_the_picture_names_a_version_or_a_time():
    png = BlockGrid(GIVEN_TWICE).still().png()
    chunks = set(re.findall(rb"(tEXt|tIME|iTXt|zTXt)", png[:200]))
    assert not chunks


def test_frames_that_are_not_there():
    grid = BlockGrid(GIVEN_TWICE)
    for frame in (-1, 6):
        with pytest.raises(traitlets.TraitError, match="from 0 to 5"):
            grid.frame = frame
    grid.frame = 5
    assert grid.frame == 5


def test_following_an_owner():
    grid = BlockGrid(told(("allocate", "A", [1]), ("allocate", 7, [2])))
    grid.selected = "A"
    grid.selected = 7
    assert grid.selected == "7"
    grid.selected = ""
    with pytest.raises(traitlets.TraitError, match="called 'Z': there are A, 7"):
        grid.selected = "Z"


def test_a_speed_is_above_zero():
    grid = BlockGrid(GIVEN_TWICE)
    grid.speed = 0.5
    with pytest.raises(traitlets.TraitError, match="events per second"):
        grid.speed = 0


@pytest.mark.parametrize("wrong", [None, [1, 2], BlockPool(4)])
def test_what_is_not_a_recording(wrong):
    with pytest.raises(TypeError, match="a block grid shows a Recording, not a"):
        BlockGrid(wrong)


def test_closed_and_shown_again():
    grid = BlockGrid(GIVEN_TWICE)
    grid.frame = 3
    model = grid.model_id
    grid.close()
    assert grid.comm is None
    data, _ = grid._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == grid.model_id
    assert grid.comm is not None and grid.frame == 3 and grid.get_state("tapes")["tapes"][0]["num_blocks"] == 8
    grid.close()
    grid.close()
    assert model


def test_each_grid_has_its_own_state():
    first, second = BlockGrid(GIVEN_TWICE), BlockGrid(GIVEN_TWICE)
    first.frame, first.selected = 1, "A"
    assert (second.frame, second.selected) == (2, "")


def test_what_is_recorded_later_does_not_appear():
    recording = told(("allocate", "A", [1]))
    grid = BlockGrid(recording)
    recording.events.append(Event(1, "allocate", "B", (2,), {}))
    assert grid.get_state("tapes")["tapes"][0]["owners"] == ["A"]
    assert "event 1 of 1" in repr(grid)


def test_the_state_for_the_browser():
    state = BlockGrid(random_recording(1), "t", block_size_tokens=16).get_state()
    tape, = state["tapes"]
    assert (tape["num_blocks"], tape["block_size_tokens"], tape["source"], tape["title"]) == (12, 16, "test pool", "t")
    assert len(tape["ends"]) == 4 * 81
    json.dumps({name: value for name, value in tape.items() if not isinstance(value, bytes)})


def test_side_by_side():
    grids = side_by_side_grids(GIVEN_TWICE, SHARED_AND_CACHED, titles=["mine", "yours"])
    assert len(grids.get_state("tapes")["tapes"]) == 2 and grids.frame == 2
    assert repr(grids).count(" | ") == 1 and repr(grids).startswith("mine · test pool · 8 blocks · event 2 of 5")
    grids.selected = "B"
    same = side_by_side_grids(GIVEN_TWICE, GIVEN_TWICE)
    assert base64.b64decode(same._repr_mimebundle_()[0]["image/png"]).startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="1 title for 2 recordings"):
        side_by_side_grids(GIVEN_TWICE, GIVEN_TWICE, titles=["one"])
    with pytest.raises(TypeError, match="at least one"):
        side_by_side_grids()


def test_recordings_of_different_length_in_step():
    grids = side_by_side_grids(told(("allocate", "A", [1])), GIVEN_TWICE)
    grids.frame = 5
    assert "event 1 of 1" in repr(grids) and "event 5 of 5" in repr(grids)


def joined_up(messages):
    """Events, in the order of the batches, and whether each batch begins where the last one ended."""
    at, sizes = 0, []
    for content, buffers in messages:
        assert content["kind"] == "more" and content["tape"]["since"] == at
        size = len(buffers[content["columns"].index("ops")])
        at += size
        sizes.append(size)
    return at, sizes


def test_live_sends_every_event_once_and_in_batches(sent, capsys):
    pool = BlockPool(64)
    begin = time.monotonic()
    with BlockGrid.live(pool) as grid:
        for _ in range(300):
            pool.release(pool.allocate(2, "A"), "A")
            time.sleep(0.001)
        assert grid.following
    seconds = time.monotonic() - begin
    events, sizes = joined_up(sent)
    assert events == 600 == len(grid.recording)
    assert 2 <= len(sizes) <= seconds * 20 + 1
    assert (grid.frame, grid.following) == (600, False)
    assert pool.observer is None and not [each for each in threading.enumerate() if each.name == "block grid"]
    grid.frame = 10
    assert "event 10 of 600" in repr(grid)


def test_live_sends_the_last_events_while_the_cell_waits(sent, capsys):
    pool = BlockPool(4)
    with BlockGrid.live(pool):
        pool.allocate(1, "A")
        deadline = time.monotonic() + 10
        while not sent and time.monotonic() < deadline:
            time.sleep(0.01)
        assert joined_up(sent)[0] == 1


def test_a_page_may_ask_for_everything_again(monkeypatch):
    grid, again = BlockGrid(GIVEN_TWICE), []
    monkeypatch.setattr(grid, "send_state", again.append)
    grid._handle_custom_msg({"kind": "again"}, [])
    grid._handle_custom_msg({"kind": "something else"}, [])
    assert again == ["tapes"]


def test_live_without_an_event(sent, capsys):
    with BlockGrid.live(BlockPool(4)) as grid:
        pass
    assert sent == [] and grid.frame == 0


def test_live_lets_the_cells_own_error_through(sent, capsys):
    pool = BlockPool(4)
    with pytest.raises(OutOfBlocks):
        with BlockGrid.live(pool) as grid:
            pool.allocate(9, "A")
    assert pool.observer is None and grid.frame == 1 and "1" in repr(grid)


def test_live_with_an_event_that_cannot_be_replayed(sent, capsys):
    pool = BlockPool(4)
    with pytest.raises(ValueError, match="does not know the operation"):
        with BlockGrid.live(pool):
            pool.observer(Event(0, "compact", None, (), {}))
    assert pool.observer is None


def test_live_needs_a_pool_that_can_be_observed(sent):
    with pytest.raises(TypeError, match="reports no events"):
        with BlockGrid.live(object()):
            pass
    pool = BlockPool(4)
    with record(pool), pytest.raises(RuntimeError, match="another observer"):
        with BlockGrid.live(pool):
            pass


def test_live_starts_from_what_is_held(sent, capsys):
    pool = BlockPool(4)
    pool.allocate(3)
    with BlockGrid.live(pool, "From the middle") as grid:
        pass
    assert repr(grid) == "From the middle · Python pool · 4 blocks · event 0 of 0 · 3 used, 1 free"


def test_importing_the_widgets_does_not_load_matplotlib():
    code = "import pagedkv.viz, sys; print('matplotlib' in sys.modules, 'torch' in sys.modules, 'jpype' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.split() == ["False"] * 3


ENTRIES = sorted(path.name for path in FRONT.glob("*.js") if re.search(r"^export default ", path.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("entry", ENTRIES)
def test_the_modules_are_one_module_in_which_no_name_means_two_things(entry):
    text = joined(entry)
    code = re.sub(r"^\s*(//|\*|/\*).*", "", text, flags=re.MULTILINE)
    assert not re.search(r"^import ", code, flags=re.MULTILINE)
    assert code.count("export ") == 1 and "export default " in code
    names = re.findall(r"^(?:async )?(?:function|class|const|let) (\w+)", text, flags=re.MULTILINE)
    assert len(names) == len(set(names)), sorted(name for name in names if names.count(name) > 1)


def test_every_module_is_reached():
    text = "".join(joined(entry) for entry in ENTRIES)
    assert [path.name for path in FRONT.glob("*.js") if f"── {path.name}" not in text] == []


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not on PATH")
@pytest.mark.parametrize("entry", ["widget.js", "kv_entry.js"])
def test_the_one_module_loads(tmp_path, entry):
    (tmp_path / "all.mjs").write_text(joined(entry), encoding="utf-8")
    code = f"import('{(tmp_path / 'all.mjs').as_uri()}').then(m => console.log(Object.keys(m.default())))"
    assert subprocess.run(["node", "-e", code], capture_output=True, text=True).stdout == "[ 'initialize', 'render' ]\n"
