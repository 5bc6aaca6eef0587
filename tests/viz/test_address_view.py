"""The address view as the kernel sees it, and its picture; what the browser makes of it is in tests/browser."""

import base64
import json
import shutil
import subprocess

import pytest
import traitlets

from pagedkv.core.block_table import locate
from pagedkv.core.errors import NotABlock
from pagedkv.viz import AddressView
from pagedkv.viz.address_plot import address_words, rows_of, still_address, sums
from pagedkv.viz.modules import FRONT, joined

TABLE = [9, 4, 7]


def test_the_line_of_text_tells_no_more_than_the_step():
    view = AddressView(TABLE)
    assert repr(view) == "Where does token 37 lie? · blocks of 16 tokens · position 37 · logical block?"
    view.step = 2
    assert repr(view) == ("Where does token 37 lie? · blocks of 16 tokens · position 37 · logical block 37 // 16 = 2 · "
                          "offset 37 % 16 = 5 · physical block?")
    view.step = 4
    assert repr(view).endswith("physical block block_table[2] = 7 · slot 7 * 16 + 5 = 117")
    assert repr(AddressView(TABLE, title="T", position=0)).startswith("T · blocks of 16 tokens · position 0 ·")


def test_another_position_starts_again():
    view = AddressView(TABLE, step=3, guesses=[{"step": 1, "value": 5, "right": False}])
    assert (view.step, len(view.guesses)) == (3, 1), "what it is made with stays"
    view.position = 38
    assert (view.step, view.guesses, view.setting["num_tokens"]) == (0, [], 48)
    assert repr(view).startswith("Where does token 38 lie?")


def test_what_the_page_needs_and_cannot_change():
    view = AddressView(range(3), 4, 2, tokens=["a", "b", 3])
    assert view.get_state("setting")["setting"] == {"block_table": [0, 1, 2], "block_size": 4, "num_blocks": 4,
                                                    "num_tokens": 3, "tokens": ["a", "b", "3"]}
    json.dumps(view.get_state("setting"))
    view.set_state({"setting": {"block_table": []}, "step": 1})
    assert (view.setting["block_table"], view.step) == ([0, 1, 2], 1)


def test_the_pool_is_as_large_as_is_said_or_has_room_for_the_table():
    assert [AddressView([block], position=0).num_blocks for block in (0, 3, 4, 9)] == [4, 4, 8, 12]
    assert AddressView(TABLE, num_blocks=10).num_blocks == 10


@pytest.mark.parametrize("arguments, error, message", [
    (dict(block_table=[]), ValueError, "the block table is empty"),
    (dict(block_table=TABLE, num_blocks=9), NotABlock, "9 is not a block of this pool: its ids go from 0 to 8"),
    (dict(block_table=[3, -1]), NotABlock, "-1 is not a block"),
    (dict(block_table=[1.5]), TypeError, "a block id is an integer"),
    (dict(block_table=7), TypeError, "given as a list"),
    (dict(block_table=TABLE, block_size=0), ValueError, "at least 1, got 0"),
    (dict(block_table=TABLE, block_size=-16), ValueError, "cannot be negative"),
    (dict(block_table=TABLE, position=48), IndexError, "no position 48: the sequence has 48 tokens"),
    (dict(block_table=TABLE, num_tokens=37), IndexError, "no position 37: the sequence has 37 tokens"),
    (dict(block_table=TABLE, position=-49), IndexError, "Python itself raises an IndexError below -48"),
    (dict(block_table=TABLE, position=True), TypeError, "a position is an integer"),
    (dict(block_table=TABLE, num_tokens=49), ValueError, "49 tokens need 4 blocks of 16, the table has 3"),
    (dict(block_table=TABLE, tokens=["a"], num_tokens=2), ValueError, "num_tokens is 2, but tokens names 1"),
    (dict(block_table=TABLE, step=5), traitlets.TraitError, "no step 5: they go from 0 to 4"),
])
def test_arguments_that_cannot_be(arguments, error, message):
    with pytest.raises(error, match=message):
        AddressView(**arguments)


def test_a_trait_that_cannot_be_leaves_all_as_it_was():
    view = AddressView(TABLE, step=2)
    for position in (48, -49):
        with pytest.raises(traitlets.TraitError, match="position"):
            view.position = position
    with pytest.raises(traitlets.TraitError, match="from 0 to 4"):
        view.step = -1
    assert (view.position, view.step) == (37, 2)
    with pytest.raises(ValueError, match="from 0 to 4"):
        view.still(7)


def test_a_cell_stores_widget_text_and_picture():
    view = AddressView(TABLE)
    data, metadata = view._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert data["text/plain"] == repr(view)
    first = base64.b64decode(data["image/png"])
    assert first.startswith(b"\x89PNG") and first == AddressView(TABLE).still().png(), "the same bytes on every run"
    alt = metadata["image/png"]["alt"]
    assert alt.startswith("Where does token 37 lie? A sequence of 48 tokens") and "117" not in alt
    view.close()
    again, _ = view._repr_mimebundle_()
    assert again["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id


def written_in(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


def test_the_picture_tells_no_more_than_the_step():
    view, answers = AddressView(TABLE), ["37 // 16 = 2", "37 % 16 = 5", "block_table[2] = 7", "7 * 16 + 5 = 117"]
    marks = {"offset 5": 2, "slot 117": 4}
    for step in range(5):
        text = written_in(view.still(step))
        assert [answer in text for answer in answers] == [step > number for number in range(4)]
        assert {mark: mark in text for mark in marks} == {mark: step >= since for mark, since in marks.items()}
        assert text.count("?") == 4 - step
    assert written_in(view.revealed()) == text
    assert view.step == 0, "to print it is not to show it"


def test_below_zero_is_what_nobody_refused():
    view = AddressView(TABLE, position=-1)
    with pytest.raises(IndexError):
        locate(TABLE, -1, 16)
    assert "(refused)" in repr(view) and "127" not in view.still().alt
    alt = view.revealed().alt
    assert "slot 7 * 16 + 15 = 127" in alt and "Python reads slot 127 without a word" in alt and "reads slot 143" in alt
    assert {"Python: 127", "Java: 143"} <= set(written_in(view.revealed()))
    view.position = -17
    assert "Java's / and % end with an exception" in view.revealed().alt
    assert "end with an exception" in AddressView([0, 1], position=-1).revealed().alt


@pytest.mark.parametrize("table, block_size, num_tokens, position", [
    (list(range(500, 100, -3)), 64, None, 5_000), ([0], 1, None, 0), ([5, 5], 3, 4, -6),
    (list(range(40)), 200, None, 7_999), ([2, 0], 4, 6, 5)])
def test_every_picture_can_be_drawn(table, block_size, num_tokens, position):
    tokens = [f"$t{i}" for i in range(num_tokens)] if num_tokens else None
    view = AddressView(table, block_size, position, num_tokens=num_tokens, tokens=tokens)
    for step in range(5):
        picture = view.still(step)
        width, height = picture.figure.get_size_inches()
        assert width == 9.2 and 2 < height < 7
    assert view.revealed().png().startswith(b"\x89PNG")


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not on PATH")
def test_page_and_print_agree():
    """On the numbers, on the words, and on which rows are left out."""
    views = [AddressView(TABLE, position=position) for position in range(-48, 48)]
    views += [AddressView(list(range(500, 100, -3)), size, position)
              for size in (1, 7, 64) for position in (-80, -1, 0, 99, 133)]
    asked = [[view.setting, view.position] for view in views]
    shown = [[total, needed, most] for total in (1, 9, 10, 11, 12, 13, 300) for most in (7, 10, 20)
             for needed in ([], [5 % total], [total - 1, total // 2, 0])]
    code = f"""
        import {{ javaPlaceIn, placeIn }} from "{(FRONT / 'address_arithmetic.js').as_uri()}";
        import {{ sumOf }} from "{(FRONT / 'address_steps.js').as_uri()}";
        import {{ rowsOf }} from "{(FRONT / 'address_layout.js').as_uri()}";
        const {{ asked, shown }} = {json.dumps(dict(asked=asked, shown=shown))};
        const java = (setting, position) => {{ const at = javaPlaceIn(setting, position);
                                               return position < 0 && !at.error ? at.slot : null; }};
        console.log(JSON.stringify([
            asked.map(([setting, position]) => {{ const at = placeIn(setting, position);
                return [at.row, java(setting, position), [0, 1, 2, 3, 4].map(step => sumOf(setting, at, step))]; }}),
            shown.map(each => rowsOf(...each).map(row => [row.number ?? null, row.gap ?? 0]))]));"""
    run = subprocess.run(["node", "--input-type=module", "-e", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    places, rows = json.loads(run.stdout)
    assert places == [[view._address().row, view._address().java_slot, sums(view._address())] for view in views]
    assert rows == [[list(row) for row in rows_of(*each)] for each in shown]


def test_words_and_picture_of_an_address_of_its_own():
    address = AddressView(TABLE, position=5)._address()
    assert address.place == locate(TABLE, 5, 16)
    assert address_words(address, 1) == "blocks of 16 tokens · position 5 · logical block 5 // 16 = 0 · offset?"
    assert still_address(address, 1, "Where?").alt.startswith("Where? A sequence")


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not on PATH")
def test_the_one_module_loads(tmp_path):
    (tmp_path / "all.mjs").write_text(joined("address_widget.js"), encoding="utf-8")
    code = f"import('{(tmp_path / 'all.mjs').as_uri()}').then(m => console.log(Object.keys(m.default)))"
    assert subprocess.run(["node", "-e", code], capture_output=True, text=True).stdout == "[ 'render' ]\n"
