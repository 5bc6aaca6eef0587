"""Notebook 03 done in the browser as a learner does it: what it asks for between the exercises, then each exercise,
untouched, with a wrong answer, with a right one."""

from pagedkv.java.build import checkout
from tests.browser.solving import Slip, cell_number, open_and_run, solve
from tests.browser.test_fragmentation_lab import at, kernels, row

SOURCE = checkout() / "notebooks" / "source" / "03_fragmentation.md"
SLIPS = {
    "03.1": Slip("a E 40M", "a E 25M", "first fit serves it, at 0 B", "first fit, before E asks"),
    "03.2": Slip("if free >= size:", "if free > size:", "exactly as long as needed", "The memory at call"),
    "03.3": Slip("144", "128", "But so it is with 144: 4.81%"),
    "03.4": Slip("52, 52, 94, 94]", "52, 22, 64, 64]", "the device gets nothing back"),
    "03.5": Slip("metrics.py:9 record", "weights.py:30 load", "its segments are full"),
}


def test_solving_notebook_03(lab_page, tmp_path):
    open_and_run(lab_page, "03_fragmentation.ipynb", tmp_path / "p.json")
    guess_where_first_fit_places(lab_page)
    make_a_change_of_section_4(lab_page)
    solve(lab_page, SOURCE, SLIPS)


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
