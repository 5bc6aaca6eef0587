"""The stored notebooks are what their sources give, byte for byte; in the solved ones every check says "correct".

To run a notebook takes long, so each of the stored ones is run once: the learners' by nbval, with the comparison that
the checkout's conftest.py adds to it, the solved ones here. An *idle measurement* is a cell tagged `measured` that
gives no name to a later cell: what it prints is kept from the stored notebook, so nothing of a built one depends on it.
nbval runs it, and it is not run a second time here.
"""

import ast
import difflib
import json
import re
import subprocess
import sys

import nbformat
import pytest
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError
from nbformat.v4 import new_code_cell, new_notebook, new_output

from pagedkv.java.build import checkout
from pagedkv.lab import build as builder
from pagedkv.lab.build import build, main, normalise, sources, targets
from pagedkv.lab.exercises import exercises_of
from pagedkv.lab.source import SourceError, learners, read_source, solution_of, solved

ROOT = checkout()
SOURCES = sources(ROOT)


def outputs(path):
    """The text of each code cell, as (source, what it showed)."""
    return [(cell["source"] if isinstance(cell["source"], str) else "".join(cell["source"]),
             "".join("".join(output.get("text") or output.get("data", {}).get("text/plain") or output.get("evalue", ""))
                     for output in cell["outputs"]))
            for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def names(cell):
    """(those that a cell gives, those that it needs from others); both are empty where it is not plain Python."""
    try:
        nodes = list(ast.walk(ast.parse(cell.source)))
    except SyntaxError:
        return set(), set()
    used = [node for node in nodes if isinstance(node, ast.Name)]
    given = {node.id for node in used if isinstance(node.ctx, ast.Store)}
    given |= {node.name for node in nodes if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    given |= {(alias.asname or alias.name).split(".")[0] for node in nodes
              if isinstance(node, (ast.Import, ast.ImportFrom)) for alias in node.names}
    return given, {node.id for node in used if isinstance(node.ctx, ast.Load)} - given


def idle_measurements(cells):
    """Not those that call a learner's code: here it is the solution, which nbval does not see."""
    solutions = {name for cell in cells if any(tag.startswith("exercise-") for tag in cell.metadata.get("tags", []))
                 for name in names(cell)[0]}
    idle = []
    for number, cell in enumerate(cells):
        given, needed = names(cell)
        if "measured" in cell.metadata.get("tags", []) and given | needed and not needed & solutions \
                and not any(given & names(later)[1] for later in cells[number + 1:]):
            idle.append(cell)
    return idle


class LeavesIdleMeasurementsOut(NotebookClient):
    """Runs an empty statement in their place, so that the cells are counted as they are."""

    async def async_execute_cell(self, cell, *arguments, **options):
        if cell not in idle_measurements([cell for cell in self.nb.cells if cell.cell_type == "code"]):
            return await super().async_execute_cell(cell, *arguments, **options)
        source, cell.source = cell.source, "pass"
        try:
            return await super().async_execute_cell(cell, *arguments, **options)
        finally:
            cell.source = source


def test_which_measurements_are_idle():
    def cell(source, *tags):
        return new_code_cell(source, metadata={"tags": [*tags]})

    cells = [cell("def mine(): ...", "exercise-01.1"), cell("x = 1", "measured"),
             cell("y = 2\nfor z in [y]: pass", "measured"), cell("print(mine())", "measured"),
             cell("import time as t", "measured"), cell("%%java\nint x = 1;", "measured"),
             cell("for z in [x]: print(t.time())"), cell("y = 3")]
    assert idle_measurements(cells) == [cells[2]]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_building_the_solved_notebook_again_changes_nothing(source, tmp_path, monkeypatch):
    monkeypatch.setattr(builder, "NotebookClient", LeavesIdleMeasurementsOut)
    monkeypatch.setattr(builder, "targets", lambda source, folder: {folder / "solved" / f"{source.stem}.ipynb": solved})
    stored = (ROOT / "notebooks" / "solved" / f"{source.stem}.ipynb").read_text(encoding="utf-8")
    built = tmp_path / "solved" / f"{source.stem}.ipynb"
    built.parent.mkdir()
    built.write_text(stored, encoding="utf-8")  # measurements are kept from there
    build(source, tmp_path)
    assert_same(stored, built.read_text(encoding="utf-8"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_the_learners_notebook_is_its_source_with_outputs(source):
    """That these outputs are those of a run now is held by nbval."""
    path = ROOT / "notebooks" / f"{source.stem}.ipynb"
    stored = path.read_text(encoding="utf-8")
    built = learners(read_source(source))
    with_outputs = [cell for cell in nbformat.reads(stored, as_version=4).cells if cell.cell_type == "code"]
    code = [cell for cell in built.cells if cell.cell_type == "code"]
    for number, (cell, stored_cell) in enumerate(zip(code, with_outputs, strict=True), start=1):
        cell.execution_count = number
        cell.outputs = stored_cell.outputs
        for output in cell.outputs:
            if output.output_type == "execute_result":
                output.execution_count = number
    assert_same(stored, nbformat.writes(normalise(built)) + "\n")


def assert_same(stored, built):
    differences = "\n".join(difflib.unified_diff(stored.splitlines(keepends=True), built.splitlines(keepends=True),
                                                 "stored", "built again", n=1))
    assert not differences, differences[:3000]


def test_nbval_fails_a_cell_also_for_what_it_passes_over_itself(tmp_path):
    picture = {"image/png": "iVBORw0KGgo=\n", "text/plain": "a picture"}
    shows = f"from IPython.display import display\ndisplay({picture!r}, metadata={{'of': 1}}, raw=True)"

    def cell(data, metadata):
        return new_code_cell(shows, execution_count=1, outputs=[new_output("display_data", data, metadata=metadata)])
    nbformat.write(new_notebook(cells=[cell(picture, {"of": 1}), cell(picture, {"of": 2}),
                                       cell({**picture, "image/png": "iVBORw0KGgp=\n"}, {"of": 1})]),
                   tmp_path / "n.ipynb")
    run = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "conftest", "-p", "no:cacheprovider", "--nbval",
                          "--nbval-current-env", str(tmp_path / "n.ipynb")], cwd=ROOT, capture_output=True, text=True)
    assert "2 failed, 1 passed" in run.stdout and "Cell 0" not in run.stdout, run.stdout
    assert "cell 1 of n.ipynb does not give what is stored" in run.stdout


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_every_check_says_not_yet_to_the_learners_and_correct_to_the_solved_notebook(source):
    said = [["".join(re.findall(r"^(not yet|wrong|correct) – ", text, re.MULTILINE))
             for code, text in outputs(path) if code.startswith("check(")] for path in targets(source, ROOT / "notebooks")]
    exercises = len(exercises_of(source.name[:2]))
    assert said == [["not yet"] * exercises, ["correct"] * exercises]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_every_exercise_has_a_cell_to_solve_and_one_to_check_it(source):
    text = source.read_text(encoding="utf-8")
    for exercise in exercises_of(source.name[:2]):
        assert f"exercise-{exercise.id}" in text and f'check("{exercise.id}"' in text
        assert f"({exercise.minutes} minutes)" in text
        assert "SOLUTION" not in solution_of(exercise.id, source) and "..." not in solution_of(exercise.id, source)


def test_every_notebook_has_a_source():
    wanted = {target for source in SOURCES for target in targets(source, ROOT / "notebooks")}
    assert wanted == {*(ROOT / "notebooks").glob("*.ipynb"), *(ROOT / "notebooks" / "solved").glob("*.ipynb")}


def test_the_two_versions_differ_in_the_solutions_only(tmp_path):
    (tmp_path / "x.md").write_text("""# Title

```{code-cell} ipython3
def f(x):
    # BEGIN SOLUTION
    y = x + 1
    return y
    # END SOLUTION
# BEGIN SOLUTION: answer = ...
answer = 3
# END SOLUTION
```

```{code-cell} ipython3
%%java
class A { int f() {
        // BEGIN SOLUTION
        return 1;
        // END SOLUTION
} }
```
""")
    notebook = read_source(tmp_path / "x.md")
    assert [cell.source for cell in learners(notebook).cells[1:]] == [
        "def f(x):\n    ...  # your code here\nanswer = ...  # your code here",
        "%%java\nclass A { int f() {\n        throw new NotYet();  // your code here\n} }"]
    assert [cell.source for cell in solved(notebook).cells[1:]] == [
        "def f(x):\n    y = x + 1\n    return y\nanswer = 3", "%%java\nclass A { int f() {\n        return 1;\n} }"]


@pytest.mark.parametrize("code", ["# BEGIN SOLUTION\nx = 1", "x = 1\n# END SOLUTION"])
def test_a_solution_without_an_end_is_an_error(tmp_path, code):
    (tmp_path / "x.md").write_text(f"```{{code-cell}} ipython3\n{code}\n```\n")
    with pytest.raises(SourceError, match="does not end, or does not begin"):
        learners(read_source(tmp_path / "x.md"))


def test_a_notebook_that_fails_is_not_stored(tmp_path):
    (tmp_path / "bad.md").write_text("# Bad\n\n```{code-cell} ipython3\n1 / 0\n```\n")
    (tmp_path / "bad.ipynb").write_text("as it was")
    with pytest.raises(CellExecutionError, match="ZeroDivisionError"):
        build(tmp_path / "bad.md", tmp_path)
    assert (tmp_path / "bad.ipynb").read_text() == "as it was" and not (tmp_path / "solved").exists()


def test_a_measurement_is_renewed_on_purpose_only(tmp_path):
    source = tmp_path / "m.md"
    source.write_text("```{code-cell} ipython3\n:tags: [measured]\nimport time\nprint(time.time_ns())\n```\n\n"
                      "```{code-cell} ipython3\nprint(1)\n```\n")

    def stored():
        return [text for _, text in outputs(tmp_path / "m.ipynb")]

    build(source, tmp_path)
    first = stored()
    build(source, tmp_path)
    assert stored() == first and first[1] == "1\n"
    build(source, tmp_path, measure=True)
    assert stored()[0] != first[0]
    source.write_text(source.read_text().replace("import time", "import time  # changed"))
    before = stored()
    build(source, tmp_path)
    assert stored()[0] != before[0]


def test_what_differs_between_runs_is_left_out(tmp_path):
    (tmp_path / "widget.md").write_text(
        "```{code-cell} ipython3\nimport ipywidgets\nipywidgets.IntSlider()\n```\n\nText.\n")
    build(tmp_path / "widget.md", tmp_path)
    text = (tmp_path / "widget.ipynb").read_text()
    assert text == (tmp_path / "solved" / "widget.ipynb").read_text()
    notebook = json.loads(text)
    assert [cell["id"] for cell in notebook["cells"]] == ["cell-000", "cell-001"]
    assert "IntSlider" in text and "widget-view" not in text and "language_info" not in text and "execution_count\": 1" in text


def test_an_unknown_number_is_an_error(capsys):
    assert main(["77"]) == 1
    assert "no notebook 77" in capsys.readouterr().err
