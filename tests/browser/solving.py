"""A notebook in the browser as a learner has it: all cells run, and each shows what is stored; then the exercises,
untouched, with a wrong answer, with a right one."""

from pathlib import Path
from typing import NamedTuple

from pagedkv.lab.exercises import exercises_of
from pagedkv.lab.source import solution_of
from tests.browser.conftest import LabPage


class Slip(NamedTuple):
    """How a solution is made wrong: which part of it, replaced by what; a piece of the message that this gets, and how the
    alternative text of its picture begins, if it gets one."""

    part: str
    wrong: str
    message: str
    picture: str = ""


def open_and_run(page: LabPage, notebook: str, progress: Path) -> None:
    """Open a notebook, run all its cells, with a progress file of its own, and look at what they show, in both themes.

    To run all of a notebook is what takes the time: whatever else a test wants of it, it goes on from here.
    """
    page.open(notebook)
    stored = page.cells()
    run_from_top_to_bottom(page, stored, progress)
    page.screenshot(f"{notebook[:2]} light")
    page.dark()
    page.screenshot(f"{notebook[:2]} dark")
    page.dark(False)


def run_from_top_to_bottom(page: LabPage, stored: list[dict], progress: Path) -> None:
    """In a fresh kernel. stored: the cells as they came from the file."""
    assert stored and all(cell["text"] is not None for cell in stored)
    page.kernel(f"import os; os.environ['PAGEDKV_PROGRESS'] = {str(progress)!r}")
    page.run_all()
    cells = page.cells()
    assert [cell["source"] for cell in cells if cell["failed"]] == []
    assert [cell["count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert [cell["text"] for cell in cells if not cell["measured"]] == \
        [cell["text"] for cell in stored if not cell["measured"]]
    assert all(cell["text"] for cell in cells if cell["measured"])


def solve(page: LabPage, source: Path, slips: dict[str, Slip]) -> None:
    """Every exercise of the notebook that is open, and whose cells have run. source: the notebook's Markdown."""
    number = source.name[:2]
    exercises = exercises_of(number)
    for solved, exercise in enumerate(exercises, start=1):
        answer = cell_number(page, tag=f"exercise-{exercise.id}")
        check = cell_number(page, starts=f'check("{exercise.id}"')
        right, slip = solution_of(exercise.id, source), slips[exercise.id]
        assert slip.part in right

        assert run_cell(page, check).startswith("not yet – ")
        run_cell(page, answer, right.replace(slip.part, slip.wrong))
        said = run_cell(page, check)
        assert said.startswith("wrong – ") and slip.message in said, said
        if slip.picture:
            shown = page.page.locator(f".jp-OutputArea-output img[alt^='{slip.picture}']").last
            shown.scroll_into_view_if_needed()
            assert shown.evaluate("image => image.naturalWidth") > 300
            page.screenshot(f"{number} wrong {exercise.id}")
        run_cell(page, answer, right)
        said = run_cell(page, check)
        assert said.startswith("correct – ") and f"{solved} of {len(exercises)} exercises solved" in said, said
    page.screenshot(f"{number} solved")


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
