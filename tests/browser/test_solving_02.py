"""Notebook 02 solved in the browser as a learner does it: untouched, then a wrong answer, then a right one."""

from pagedkv.java.build import checkout
from pagedkv.lab.exercises import exercises_of
from pagedkv.lab.source import solution_of
from tests.browser.test_solving import cell_number, run_cell

SOURCE = checkout() / "notebooks" / "source" / "02_arenas_and_regions.md"
# exercise → (what to replace in the solved cell to make it wrong, by what, a piece of the message it gets, the
# beginning of the alternative text of the picture it gets, if any)
SLIPS = {
    "02.1": ("powerOfTwo == reqCapacity ? powerOfTwo : 2 * powerOfTwo", "2 * powerOfTwo", "normalizeCapacity(512)", ""),
    "02.2": ("node++;", "", "node 8, which is taken", "A tree over 8 pages"),
    "02.3": ("new FastThreadLocalThread(work)", "new Thread(work)", "since 4.1.75 a plain thread gets no cache", ""),
    "02.4": ("max_heap_bytes / 2048", "max_heap_bytes // 2048 // MIB * MIB", "1,025 regions", ""),
    "02.5": ('"upload"', '"ping"', "it was never a quarter full", "After the release of metrics and ping"),
}


def test_solving_notebook_02(lab_page, tmp_path):
    lab_page.open("02_arenas_and_regions.ipynb")
    lab_page.kernel(f"import os; os.environ['PAGEDKV_PROGRESS'] = {str(tmp_path / 'p.json')!r}")
    lab_page.run_all()
    exercises = exercises_of("02")
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
            lab_page.screenshot(f"02 wrong {exercise.id}")
        run_cell(lab_page, answer, right)
        said = run_cell(lab_page, check)
        assert said.startswith("correct – ") and f"{solved} of {len(exercises)} exercises solved" in said, said
    lab_page.screenshot("02 solved")
