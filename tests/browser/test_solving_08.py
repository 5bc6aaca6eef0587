"""Notebook 08 done in the browser as a learner does it: through its first picture, then each exercise, untouched, with a
wrong answer, with a right one."""

from pagedkv.java.build import checkout
from tests.browser.solving import Slip, cell_number, open_and_run, solve

SOURCE = checkout() / "notebooks" / "source" / "08_many_workers.md"
SLIPS = {
    "08.1": Slip("synchronized (this) {\n            super.push(block);\n        }", "super.push(block);",
                 "lost: neither on the stack nor held by anybody", "LockedStack"),
    "08.2": Slip("while (!compareAndSetHead(seen, block))", "while (!compareAndSetHead(seen, block) && false)", "lost",
                 "CasStack"),
    "08.3": Slip("(seen >>> 32) + 1", "(seen >>> 32) + 1 & 0xFF", "a tag of 16 bits or more"),
    "08.4": Slip("victim.mark();", "victim.evict();", "wait for each other"),
    "08.5": Slip("[block], generations=[generation]", "[block]", "the generation does"),
    "08.6": Slip("1 << slot | CACHED", "1 << slot", "CACHED has to go"),
}


def test_solving_notebook_08(lab_page, tmp_path):
    open_and_run(lab_page, "08_many_workers.ipynb", tmp_path / "p.json")
    step_through_the_first_picture(lab_page)
    solve(lab_page, SOURCE, SLIPS)


def step_through_the_first_picture(lab_page):
    """From the start to where block 2 is lost."""
    page = lab_page.page
    lab_page.show_cell(cell_number(lab_page, starts="StepsView(explored.trace, title=\"One interruption"))
    cell = page.locator(".jp-CodeCell", has_text="One interruption, and a block is lost")
    view = cell.get_by_test_id("steps-view").locator("visible=true").first
    view.scroll_into_view_if_needed()
    view.press("Home")
    assert "lost" not in view.get_by_test_id("result").inner_text()
    view.press("End")
    assert "block 2 is lost" in view.get_by_test_id("result").inner_text()
    lab_page.screenshot("08 a block is lost")
