"""Notebook 03 done in the browser as a learner does it: what it asks for between the exercises, then each exercise,
untouched, with a wrong answer, with a right one."""

from pagedkv.java.build import checkout
from pagedkv.lab.exercises import exercises_of
from pagedkv.lab.source import solution_of
from tests.browser.test_fragmentation_lab import at, kernels, row
from tests.browser.test_solving import cell_number, run_cell

SOURCE = checkout() / "notebooks" / "source" / "03_fragmentation.md"
# exercise → (what to replace in the solved cell to make it wrong, by what, a piece of the message it gets, and how the
# alternative text of its picture begins; empty if it gets none)
SLIPS = {
    "03.1": ("a E 40M", "a E 25M", "first fit serves it, at 0 B", "first fit, before E asks"),
    "03.2": ("if free >= size:", "if free > size:", "exactly as long as needed", "The memory at call"),
    "03.3": ("144", "128", "But so it is with 144: 4.81%", ""),
    "03.4": ("52, 52, 94, 94]", "52, 22, 64, 64]", "the device gets nothing back", ""),
    "03.5": ("metrics.py:9 record", "weights.py:30 load", "its segments are full", ""),
}


def test_solving_notebook_03(lab_page, tmp_path):
    lab_page.open("03_fragmentation.ipynb")
    lab_page.kernel(f"import os; os.environ['PAGEDKV_PROGRESS'] = {str(tmp_path / 'p.json')!r}")
    lab_page.run_all()
    guess_where_first_fit_places(lab_page)
    make_a_change_of_section_4(lab_page)
    exercises = exercises_of("03")
    for solved, exercise in enumerate(exercises, start=1):
        answer = cell_number(lab_page, tag=f"exercise-{exercise.id}")
        check = cell_number(lab_page, starts=f'check("{exercise.id}"')
        right = solution_of(exercise.id, SOURCE)
        slip, wrong, message, picture = SLIPS[exercise.id]
        assert slip in right

        assert run_cell(lab_page, check).startswith("not yet – ")
        run_cell(lab_page, answer, right.replace(slip, wrong))
        said = run_cell(lab_page, check)
        assert said.startswith("wrong – ") and message in said, said
        if picture:
            shown = lab_page.page.locator(f".jp-OutputArea-output img[alt^='{picture}']").last
            shown.scroll_into_view_if_needed()
            assert shown.evaluate("image => image.naturalWidth") > 300
            lab_page.screenshot(f"03 wrong {exercise.id}")
        run_cell(lab_page, answer, right)
        said = run_cell(lab_page, check)
        assert said.startswith("correct – ") and f"{solved} of {len(exercises)} exercises solved" in said, said
    lab_page.screenshot("03 solved")


def guess_where_first_fit_places(lab_page):
    lab_page.show_cell(cell_number(lab_page, starts="from pagedkv.lab.fragmentation_cases import FIRST_GUESS"))
    widget = lab_page.page.locator(".jp-CodeCell", has_text="First fit: where does it go?")
    view = widget.get_by_test_id("memory-view").locator("visible=true").first
    view.scroll_into_view_if_needed()
    view.press("ArrowRight")  # D is asked for; run 1 is the lowest
    view.press("1")
    assert kernels(lab_page, "guesses.guesses_right, guesses.guesses_made", "(1, 1)") == "(1, 1)"


def make_a_change_of_section_4(lab_page):
    """D asks for twice as much, by a click and a key on the page."""
    refused = "[outcome.refused_requests for outcome in contest.summary().outcomes]"
    lab_page.show_cell(cell_number(lab_page, starts="contest = FragmentationLab"))
    at(lab_page, "fragmentation-lab").wait_for(timeout=60_000)
    assert kernels(lab_page, refused, "[0, 1, 1, 3, 1, 0]") == "[0, 1, 1, 3, 1, 0]"
    row(lab_page, 3).click()
    at(lab_page, "lab-size").fill("30M")
    at(lab_page, "lab-size").press("Enter")
    assert kernels(lab_page, refused, "[1, 0, 1, 3, 1, 0]") == "[1, 0, 1, 3, 1, 0]"
    lab_page.screenshot("03 with D 30")
