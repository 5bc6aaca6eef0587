"""Every notebook is run in a real browser, once: to run it is what takes the time.

The test that does so opens it by `open_and_run`, which compares all that it shows with what is stored, and goes on from
there: with the exercises, with what is to be clicked.
"""

import re
from pathlib import Path

from pagedkv.java.build import checkout

NOTEBOOKS = sorted(path.name for path in (checkout() / "notebooks").glob("*.ipynb"))


def test_every_notebook_is_run_by_one_test():
    tests = [path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*.py")]
    run = [name for test in tests for name in re.findall(r'\bopen_and_run\(lab_page, "([^"]+)"', test)]
    assert sorted(run) == NOTEBOOKS, "each has to be opened by one test, with open_and_run(lab_page, …) on its name"
