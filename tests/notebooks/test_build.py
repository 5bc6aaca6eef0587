"""The stored notebooks are what their sources give, byte for byte; in the solved ones every check says "correct"."""

import difflib
import json
import re

import pytest
from nbclient.exceptions import CellExecutionError

from pagedkv.java.build import checkout
from pagedkv.lab.build import build, main, sources, targets
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


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.stem)
def test_building_again_changes_nothing(source, tmp_path):
    stored = [path.read_text(encoding="utf-8") for path in targets(source, ROOT / "notebooks")]
    (tmp_path / "solved").mkdir()
    for path, text in zip(targets(source, tmp_path), stored):
        path.write_text(text, encoding="utf-8")  # measurements are kept from there
    build(source, tmp_path)
    for path, text in zip(targets(source, tmp_path), stored):
        differences = "\n".join(difflib.unified_diff(text.splitlines(), path.read_text(encoding="utf-8").splitlines(),
                                                     "stored", "built again", n=1, lineterm=""))
        assert not differences, differences[:3000]


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
