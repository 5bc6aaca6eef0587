"""Notebook 01 in the browser: what Java prints, the exercises, and answers that misbehave."""

from playwright.sync_api import expect

from pagedkv.java.build import checkout
from tests.browser.solving import Slip, cell_number, open_and_run, run_cell, solve

SOURCE = checkout() / "notebooks" / "source" / "01_reference_counts.md"
SLIPS = {
    "01.1": Slip("buffer.release();", "", "work that only reads"),
    "01.2": Slip('pool.retain(block, owner="A")', "pass", "every call was one that a correct pool allows"),
    "01.3": Slip("times.merge(block, 1, Integer::sum) > refcounts[block]", "refcounts[block] == 0", "twice in one release",
                 "The pool at call"),
    "01.4": Slip("blocks.count(block) > self._refcounts[block]", "self._refcounts[block] == 0", "twice in one release",
                 "The pool at call"),
    "01.5": Slip("[1, 1]", "[0, 0]", "goes through and is right"),
    "01.6": Slip("if not event.refused:", "if event.op != 'retain':", "B shares A's blocks and keeps them"),
}
MISBEHAVING = {
    "class MyPool:\n    def __init__(self, n):\n        while True: pass": "had not returned",
    "def check(*answers):\n    print('all mine')\nMyPool = 3": "check gets your class",
}


def test_solving_notebook_01(lab_page, tmp_path):
    open_and_run(lab_page, "01_reference_counts.ipynb", tmp_path / "p.json")
    lab_page.show_cell(0)
    output = lab_page.page.locator(".jp-CodeCell", has_text="allocated  refCnt").locator(".jp-OutputArea-output")
    expect(output).to_contain_text("allocated refCnt 1")  # below the cell that made it
    assert lab_page.kernel("print(SafePool.__name__)").strip() == "SafePool"

    solve(lab_page, SOURCE, SLIPS)

    lab_page.kernel("import pagedkv.lab.grading as grading; grading.SECONDS = 2")
    for answer, message in MISBEHAVING.items():
        run_cell(lab_page, cell_number(lab_page, tag="exercise-01.4"), answer)
        assert message in run_cell(lab_page, cell_number(lab_page, starts='check("01.4"'))
