"""The steps view as the kernel sees it; what the browser makes of it is in tests/browser/test_steps.py."""

import base64
import copy
import json
import random
import shutil
import subprocess
from dataclasses import asdict

import pytest
import traitlets

from pagedkv.viz import StepsView
from pagedkv.viz.modules import FRONT, joined
from pagedkv.viz.steps_layout import lay_out_places, num_shown, slot
from pagedkv.viz.steps_tape import StepsTape
from tests.viz.step_traces import losing, race


def written_in(picture):
    return [text.get_text() for text in picture.figure.axes[0].texts]


def test_it_opens_where_it_goes_wrong():
    view = StepsView(race())
    assert view.frame == view.opening == 6
    assert repr(view) == ("pop without a lock · step 6 of 6 · A: pop() returns 2 – broken here · "
                          "stack: 1, 0; A holds: 2; B holds: 2; lost: none · "
                          "block 2 was handed out twice: to A and to B")
    view.frame = 3
    assert repr(view) == ("pop without a lock · step 3 of 6 · B: writes head: 1 · "
                          "stack: 1, 0; A holds: none; B holds: 2; lost: none")


def test_a_start_tells_nothing_of_what_follows_but_its_picture_does():
    view = StepsView(race(), title="What can go wrong?", start=0)
    assert "twice" not in repr(view) and repr(view).startswith("What can go wrong? · step 0 of 6 · start")
    assert view.still().alt == view.still(6).alt
    view.frame = 2
    assert "returns" not in view.still().alt and "writes" not in " ".join(written_in(view.still()))


def test_without_a_mark_it_opens_at_the_end():
    view = StepsView(losing())
    assert view.frame == 1 and view.title == "Step by step"
    assert repr(view) == "Step by step · step 1 of 1 · A: pushes 0 over 1 · stack: 0; lost: 1"


def test_a_cell_stores_widget_text_and_picture():
    view = StepsView(race())
    data, metadata = view._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert data["text/plain"] == repr(view)
    assert base64.b64decode(data["image/png"]) == view.still().png() == StepsView(race()).still().png()
    alt = metadata["image/png"]["alt"]
    assert "Steps: 1. A: reads head: 2. 2. B: reads head: 2." in alt and alt.endswith("to A and to B")


def test_the_picture():
    written = written_in(StepsView(race()).still())
    assert {"pop without a lock", "stack", "A holds", "B holds", "lost", "head 1", "×2",
            "block 2 was handed out twice: to A and to B"} <= set(written)
    assert written.count("2") == 2 + 1, "the tile twice, and step 2"
    assert "A: pop(): read head 2" in written_in(StepsView(race()).still(1))
    empty = race()
    for step in empty["steps"]:
        step["blocks"]["stack"], step["head"] = [], None
    assert "head: none" in written_in(StepsView(empty).still(1))


def test_moved_and_doubled():
    tape = StepsTape(race())
    assert [tape.moved(frame) for frame in range(7)] == [set(), set(), set(), {2}, set(), set(), {2}]
    assert [tape.doubled(frame) for frame in range(7)] == [set()] * 6 + [{2}]
    assert StepsTape(losing()).moved(1) == {1}
    assert [tape.result_at(frame) for frame in (5, 6)] == ["", "block 2 was handed out twice: to A and to B"]


def changed(**changes):
    trace = race()
    trace.update(changes)
    return trace


def changed_step(**changes):
    trace = race()
    trace["steps"][3].update(changes)
    return trace


WRONG = [
    (changed(version=2), "version 2"), (changed(actors="AB"), "'actors' is a list"),
    (changed(actors=["A", "A"]), "name of its own"), (changed(steps=[]), "at least one place and one step"),
    (changed(places=[{"name": "stack", "kind": "pile"}]), "kind 'pile'"),
    (changed(places=[{"name": "stack", "kind": "stack", "actor": "C"}]), "actor 'C': there are A, B"),
    (changed_step(actor="C"), "step 3 speaks of the actor 'C'"), (changed_step(text=""), "step 3 has no text"),
    (changed_step(notes={"A": ""}), r"step 3, notes: nothing for \['B'\]"),
    (changed_step(blocks={**race()["steps"][3]["blocks"], "attic": []}), r"\['attic'\] is not known"),
    (changed_step(blocks={**race()["steps"][3]["blocks"], "stack": [1, 1]}), "not different blocks"),
    (changed_step(blocks={**race()["steps"][3]["blocks"], "stack": [-1]}), "not different blocks"),
]


@pytest.mark.parametrize("trace, said", WRONG, ids=[said for _, said in WRONG])
def test_what_is_no_trace(trace, said):
    with pytest.raises(ValueError, match=said):
        StepsView(trace)


def test_other_arguments_that_cannot_be():
    with pytest.raises(TypeError, match="a trace is a dict"):
        StepsView(json.dumps(race()))
    with pytest.raises(TypeError, match="block id is an integer"):
        StepsView(changed_step(blocks={**race()["steps"][3]["blocks"], "stack": [True]}))
    with pytest.raises(traitlets.TraitError, match="from 0 to 6"):
        StepsView(race(), start=7)
    with pytest.raises(IndexError, match="from 0 to 6"):
        StepsView(race()).still(7)
    with pytest.raises(traitlets.TraitError, match="called 'A'"):
        StepsView(race()).selected = "A"


def test_the_trace_is_not_changed():
    trace = race()
    before = copy.deepcopy(trace)
    StepsView(trace).still()
    assert trace == before


def large() -> dict:
    trace = race()
    for step in trace["steps"]:
        step["blocks"]["stack"] = list(range(40, 0, -1))
        step["blocks"]["lost"] = list(range(100, 150))
        step["head"] = 40
    trace["result"] = "very much is lost: " + "word " * 60
    trace["steps"] += [copy.deepcopy(trace["steps"][1]) for _ in range(60)]
    return trace


def test_large_traces_are_cut_and_say_so():
    view = StepsView(large())
    view.frame = 66
    picture = view.still()
    assert {"+ 33", "+ 19"} <= set(written_in(picture))
    assert "66" in written_in(picture) and "30" not in written_in(picture), "the newest steps"
    assert picture.figure.get_size_inches()[1] < 9


@pytest.mark.parametrize("seed", range(20))
def test_tiles_lie_in_their_boxes_and_beside_each_other(seed):
    rng = random.Random(seed)
    kinds = rng.choices(["stack", "set", "lost"], k=rng.randint(1, 7))
    most = [rng.randint(0, 70) for _ in kinds]
    width = rng.choice([200, 500, 900])
    boxes = lay_out_places(kinds, ["a name"] * len(kinds), most, width, 0)
    for box, number in zip(boxes, most):
        count = rng.randint(0, number)
        shown = num_shown(box, count)
        slots = [slot(box, index, count) for index in range(shown + (shown < count))]
        assert len(set(slots)) == len(slots) and (count == 0 or slots)
        assert all(box.x < x and x + 34 < box.x + box.width and box.y + 29 < y and y + 34 < box.y + box.height
                   for x, y in slots)
    assert all(box.x + box.width <= width or box.x == 0 for box in boxes)
    for one in boxes:
        beside = [other for other in boxes if other is not one and other.y == one.y]
        assert not any(one.x <= other.x < one.x + one.width for other in beside)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not on PATH")
def test_page_and_print_agree():
    tapes = [StepsTape(race()), StepsTape(losing()), StepsTape(large())]
    asked = [[[place.kind for place in tape.places], [place.name for place in tape.places], tape.most_blocks(), width,
              head] for tape in tapes for width in (150, 420, 900) for head in (None, 0)]
    code = f"""
        import {{ layOutPlaces, numShown, slotIn }} from "{(FRONT / 'steps_layout.js').as_uri()}";
        import {{ StepsTape }} from "{(FRONT / 'steps_tape.js').as_uri()}";
        const {{ asked, tapes }} = {json.dumps({"asked": asked, "tapes": [tape.message() for tape in tapes]})};
        const told = tapes.map(message => {{ const tape = new StepsTape(message);
            return [tape.numBlocks(), tape.mostBlocks(), tape.steps.map((_, frame) => {{ tape.moveTo(frame);
                return [tape.sentence(), tape.where(), tape.resultNow, [...tape.moved()].sort((a, b) => a - b),
                        [...tape.doubled()].sort((a, b) => a - b)]; }})]; }});
        console.log(JSON.stringify([told, asked.map(([kinds, names, most, width, head]) =>
            layOutPlaces(kinds, names, most, width, head ?? -1).map((box, i) =>
                [box, numShown(box, most[i]), slotIn(box, 0, most[i])]))]));"""
    run = subprocess.run(["node", "--input-type=module", "-e", code], capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    told, laid_out = json.loads(run.stdout)
    assert told == [[tape.num_blocks(), tape.most_blocks(), [
        [tape.sentence(frame), tape.where(frame), tape.result_at(frame), sorted(tape.moved(frame)),
         sorted(tape.doubled(frame))] for frame in range(len(tape) + 1)]] for tape in tapes]
    expected = []
    for kinds, names, most, width, head in asked:
        boxes = lay_out_places(kinds, names, most, width, head)
        expected.append([[asdict(box), num_shown(box, number), dict(zip("xy", slot(box, 0, number)))]
                         for box, number in zip(boxes, most)])
    assert laid_out == expected


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not on PATH")
def test_the_one_module_loads(tmp_path):
    (tmp_path / "all.mjs").write_text(joined("steps_entry.js"), encoding="utf-8")
    code = f"import('{(tmp_path / 'all.mjs').as_uri()}').then(m => console.log(Object.keys(m.default())))"
    run = subprocess.run(["node", "-e", code], capture_output=True, text=True, timeout=60)
    assert run.stdout == "[ 'initialize', 'render' ]\n", run.stderr
