"""Notebook 01 solved in the browser as a learner does it: untouched, then a wrong answer, then a right one."""

import pytest

from pagedkv.java.build import checkout
from pagedkv.lab.exercises import exercises_of
from pagedkv.lab.source import solution_of
from tests.browser.conftest import LabPage

SOURCE = checkout() / "notebooks" / "source" / "01_reference_counts.md"
# exercise → (what to replace in the solved cell to make it wrong, by what, a piece of the message it gets)
SLIPS = {
    "01.1": ("buffer.release();", "", "work that only reads"),
    "01.2": ('pool.retain(block, owner="A")', "pass", "every call was one that a correct pool allows"),
    "01.3": ("times.merge(block, 1, Integer::sum) > refcounts[block]", "refcounts[block] == 0", "twice in one release"),
    "01.4": ("blocks.count(block) > self._refcounts[block]", "self._refcounts[block] == 0", "twice in one release"),
    "01.5": ("[1, 1]", "[0, 0]", "goes through and is right"),
    "01.6": ("if not event.refused:", "if event.op != 'retain':", "B shares A's blocks and keeps them"),
}


def cell_number(page: LabPage, *, tag: str = "", starts: str = "") -> int:
    """The number of the cell with this tag, or whose source begins so."""
    return page.page.evaluate("""([tag, starts]) => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells
        .findIndex(cell => tag ? (cell.metadata.tags ?? []).includes(tag) : cell.source.startsWith(starts))""", [tag, starts])


def run_cell(page: LabPage, number: int, source: str | None = None) -> str:
    """Type a new source into a cell, if one is given, run it with the keyboard, and read what it shows."""
    page.show_cell(number)
    page.page.evaluate("""([number, source]) => {
        const content = window.jupyterapp.shell.currentWidget.content;
        content.activeCellIndex = number;
        content.mode = 'command';
        if (source !== null) content.model.sharedModel.cells[number].setSource(source);
        content.node.focus();
    }""", [number, source])
    page.command("notebook:run-cell")
    page.wait_until_idle()
    return page.page.evaluate("""number => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells[number]
        .outputs.map(o => [].concat(o.text ?? o.data?.['text/plain'] ?? '').join('')).join('')""", number)


def test_solving_notebook_01(lab_page, tmp_path):
    lab_page.open("01_reference_counts.ipynb")
    lab_page.kernel(f"import os; os.environ['PAGEDKV_PROGRESS'] = {str(tmp_path / 'p.json')!r}")
    lab_page.run_all()
    exercises = exercises_of("01")
    for solved, exercise in enumerate(exercises, start=1):
        answer = cell_number(lab_page, tag=f"exercise-{exercise.id}")
        check = cell_number(lab_page, starts=f'check("{exercise.id}"')
        right = solution_of(exercise.id, SOURCE)
        slip, wrong, message = SLIPS[exercise.id]
        assert slip in right

        assert run_cell(lab_page, check).startswith("not yet – ")
        run_cell(lab_page, answer, right.replace(slip, wrong))
        said = run_cell(lab_page, check)
        assert said.startswith("wrong – ") and message in said, said
        if exercise.id in ("01.3", "01.4"):
            picture = lab_page.page.locator(".jp-OutputArea-output img[alt^='The pool at call']")
            picture.last.scroll_into_view_if_needed()
            assert picture.last.evaluate("image => image.naturalWidth") > 300
            lab_page.screenshot(f"01 wrong {exercise.id}")
        run_cell(lab_page, answer, right)
        said = run_cell(lab_page, check)
        assert said.startswith("correct – ") and f"{solved} of {len(exercises)} exercises solved" in said, said
    lab_page.screenshot("01 solved")


@pytest.mark.parametrize("answer, message", [
    ("class MyPool:\n    def __init__(self, n):\n        while True: pass", "had not returned"),
    ("def check(*answers):\n    print('all mine')\nMyPool = 3", "check gets your class")])
def test_answers_that_loop_or_redefine_check(lab_page, tmp_path, answer, message):
    lab_page.open("01_reference_counts.ipynb")
    lab_page.kernel(f"import os; os.environ['PAGEDKV_PROGRESS'] = {str(tmp_path / 'p.json')!r}")
    lab_page.run_all()
    lab_page.kernel("import pagedkv.lab.grading as grading; grading.SECONDS = 2")
    run_cell(lab_page, cell_number(lab_page, tag="exercise-01.4"), answer)
    assert message in run_cell(lab_page, cell_number(lab_page, starts='check("01.4"'))
