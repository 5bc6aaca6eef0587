"""Notebook 02 solved in the browser as a learner does it: untouched, then a wrong answer, then a right one."""

from pagedkv.java.build import checkout
from tests.browser.solving import Slip, open_and_run, solve

SOURCE = checkout() / "notebooks" / "source" / "02_arenas_and_regions.md"
SLIPS = {
    "02.1": Slip("powerOfTwo == reqCapacity ? powerOfTwo : 2 * powerOfTwo", "2 * powerOfTwo", "normalizeCapacity(512)"),
    "02.2": Slip("node++;", "", "node 8, which is taken", "A tree over 8 pages"),
    "02.3": Slip("new FastThreadLocalThread(work)", "new Thread(work)", "since 4.1.75 a plain thread gets no cache"),
    "02.4": Slip("max_heap_bytes / 2048", "max_heap_bytes // 2048 // MIB * MIB", "1,025 regions"),
    "02.5": Slip('"upload"', '"ping"', "it was never a quarter full", "After the release of metrics and ping"),
}


def test_solving_notebook_02(lab_page, tmp_path):
    open_and_run(lab_page, "02_arenas_and_regions.ipynb", tmp_path / "p.json")
    solve(lab_page, SOURCE, SLIPS)
