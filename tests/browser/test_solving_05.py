"""Notebook 05 done in the browser as a learner does it: through its first picture, then each exercise, untouched, with
a wrong answer, with a right one."""

from pagedkv.java.build import checkout
from tests.browser.solving import Slip, cell_number, open_and_run, solve

SOURCE = checkout() / "notebooks" / "source" / "05_sharing.md"
SLIPS = {
    "05.1": Slip("    b.enter(shared);\n", "", "else B cannot find its own beginning"),
    "05.2": Slip("key = node, tuple(", "key = tuple(", "another prompt's keys and values would be served"),
    "05.3": Slip("pool.refcount(blocks.get(last)) > 1", "pool.refcount(blocks.get(last)) > 2", "B reads 1 2 3 4 5 6 8",
                 "What the sequences read"),
    "05.4": Slip(" and node.block not in parents", "", "nothing finds block 2 any more"),
    "05.5": Slip("pool.num_free_blocks - num_idle_hits", "pool.num_free_blocks", "5 are free, 2 of them are the hits"),
}


def test_solving_notebook_05(lab_page, tmp_path):
    open_and_run(lab_page, "05_sharing.ipynb", tmp_path / "p.json")
    step_through_the_first_picture(lab_page)
    solve(lab_page, SOURCE, SLIPS)


def step_through_the_first_picture(lab_page):
    """From the start to the end: A's blocks are hatched when it leaves, and alive when C comes."""
    page = lab_page.page
    lab_page.show_cell(cell_number(lab_page, starts="words = Words()"))
    cell = page.locator(".jp-CodeCell", has_text="words = Words()")
    view = cell.get_by_test_id("kv-cache-view").locator("visible=true").first
    view.scroll_into_view_if_needed()
    view.press("Home")
    view.get_by_test_id("counter").get_by_text("event 0 / 12").wait_for()
    for _ in range(9):
        view.press("ArrowRight")
    view.get_by_test_id("counter").get_by_text("event 9 / 12").wait_for()
    assert view.locator(".pk-node-free").count() == 1, "A's question; its system prompt is held by B"
    lab_page.screenshot("05 A has left")
