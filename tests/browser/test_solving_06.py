"""Notebook 06 done in the browser as a learner does it: through its first picture, then each exercise, untouched, with a
wrong answer, with a right one."""

from pagedkv.java.build import checkout
from tests.browser.solving import Slip, cell_number, open_and_run, solve

SOURCE = checkout() / "notebooks" / "source" / "06_the_real_thing.md"
SLIPS = {
    "06.1": Slip("divmod(start + number, block_size)", "divmod(number, block_size)", "not from its position", "The pool"),
    "06.2": Slip("[:, :num_tokens]", "", "Your code does not stop at num_tokens", "What query head 0 attends to"),
    "06.3": Slip(", out * torch.exp(old - m)", ", out", "Your out is not rescaled", "out / total by token"),
    "06.4": Slip("        if layer == self.last_layer:\n            self.length = end", "        self.length = end",
                 "the layers to come write at the same positions"),
    "06.5": Slip("case.teacher_forced >=", "case.free_running >=", "The free-running figure tells mostly"),
}


def test_solving_notebook_06(lab_page, tmp_path):
    open_and_run(lab_page, "06_the_real_thing.ipynb", tmp_path / "p.json")
    step_through_the_first_picture(lab_page)
    solve(lab_page, SOURCE, SLIPS)


def step_through_the_first_picture(lab_page):
    """From the start to the end: the texts grow as the blocks do, and X keeps its own when it has gone."""
    page = lab_page.page
    lab_page.show_cell(cell_number(lab_page, starts="words = Words()"))
    cell = page.locator(".jp-CodeCell", has_text="words = Words()")
    view = cell.get_by_test_id("kv-cache-view").locator("visible=true").first
    view.scroll_into_view_if_needed()
    view.press("Home")
    view.get_by_test_id("counter").get_by_text("event 0 / 16").wait_for()
    for _ in range(8):
        view.press("ArrowRight")
    view.get_by_test_id("counter").get_by_text("event 8 / 16").wait_for()
    texts = view.get_by_test_id("texts")
    assert "the cat sat on the" in texts.inner_text() and "asleep" not in texts.inner_text()
    view.press("End")
    texts.get_by_text("asleep").wait_for()
    assert "this was here long before you came" in texts.inner_text()
    lab_page.screenshot("06 which token lies where")
