"""Every notebook in a real browser: run all cells, look at what they show; in one, restart the kernel and run them again."""

import pytest

from pagedkv.java.build import checkout

RESTARTED = "01"  # a restart concerns the kernel, Java and the widgets, which are the same in all notebooks
NOTEBOOKS = sorted(path.name for path in (checkout() / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_a_notebook_runs_from_top_to_bottom(lab_page, notebook):
    lab_page.open(notebook)
    stored = lab_page.cells()
    assert stored and all(cell["text"] is not None for cell in stored)
    for attempt in ("first", "after a restart") if notebook.startswith(RESTARTED) else ("first",):
        lab_page.run_all()
        cells = lab_page.cells()
        assert [cell["source"] for cell in cells if cell["failed"]] == [], attempt
        assert [cell["count"] for cell in cells] == list(range(1, len(cells) + 1)), attempt
        assert [cell["text"] for cell in cells if not cell["measured"]] == \
            [cell["text"] for cell in stored if not cell["measured"]], attempt
        assert all(cell["text"] for cell in cells if cell["measured"]), attempt
        lab_page.screenshot(f"{notebook[:2]} light")
        lab_page.restart_kernel()
    lab_page.dark()
    lab_page.screenshot(f"{notebook[:2]} dark")
