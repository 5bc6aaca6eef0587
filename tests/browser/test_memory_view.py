"""The memory view in a real JupyterLab: playing, why a request failed, decisions, guessing; and without Jupyter."""

import base64
import io

import numpy
import pytest
from PIL import Image

from pagedkv.viz.memory_embed import embedded
from pagedkv.viz.memory_tape import MemoryTape
from tests.browser.test_block_grid import kernels
from tests.viz.memory_recordings import MIB, events_of, fragmented, pinned, random_memory_recording

RECORDED = """
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.workload import Workload, run
from pagedkv.viz import MemoryView, side_by_side_memory
holes = Workload.parse('a A 8M\\na B 8M\\na C 16M\\na D 8M\\na E 16M\\nf B\\nf D\\na F 12M', 'holes')
first = run(holes, FirstFit(64 << 20))
caching = run(holes, CachingAllocator(256 << 20))
"""
SHOWN = "view = MemoryView(first, 'Holes')\nview"
BOTH = "view = side_by_side_memory(first, caching, titles=['first fit', 'caching'])\nview"


def at(lab_page, name):
    return lab_page.page.get_by_test_id(name).locator("visible=true").first


def press(lab_page, *keys):
    for key in keys:
        at(lab_page, "memory-view").press(key)


def pictures(page):
    return page.get_by_test_id("memory").evaluate_all("all => all.map(canvas => canvas.toDataURL())")


def difference(some, others):
    """The largest difference of a pixel in a channel, of 255."""
    def pixels(address):
        png = base64.b64decode(address.partition(",")[2])
        return numpy.asarray(Image.open(io.BytesIO(png)).convert("RGBA")).astype(int)
    return max(numpy.abs(pixels(one) - pixels(other)).max() for one, other in zip(some, others, strict=True))


@pytest.fixture
def view_page(lab_page):
    lab_page.write("memory.ipynb", RECORDED, SHOWN)
    lab_page.open("memory.ipynb")
    lab_page.run_all()
    at(lab_page, "memory-view").wait_for(timeout=30_000)
    return lab_page


def test_why_it_failed_and_how_it_decided(view_page):
    page = view_page.page
    assert kernels(view_page, "view.frame", "8") == "8", "it opens at the refused request"
    why = at(view_page, "why").inner_text()
    assert "Why it failed: fragmented" in why and "24 MiB free in total" in why
    sizes = [line for line in why.splitlines() if line in ("12 MiB", "24 MiB", "8 MiB")]
    assert sizes == ["12 MiB", "24 MiB", "24 MiB", "8 MiB"]
    assert "refused: OutOfMemory" in at(view_page, "caption").inner_text()
    looks = at(view_page, "decision").get_by_test_id("look")
    assert looks.count() == 3 and all("too short" in text for text in looks.all_inner_texts())
    marks = page.locator(".pk-marks").first
    before = marks.evaluate("canvas => canvas.toDataURL()")
    looks.first.hover()
    page.wait_for_function("([canvas, before]) => canvas.toDataURL() !== before", arg=[marks.element_handle(), before])
    view_page.screenshot("memory view refused")
    page.set_viewport_size({"width": 1280, "height": 1000})

    press(view_page, "Home", "ArrowRight")
    assert "allocate(A, 8 MiB) → 0x0" in at(view_page, "caption").inner_text()
    chosen = at(view_page, "decision").get_by_test_id("look")
    assert "✓" in chosen.inner_text() and "chosen" in chosen.inner_text()
    assert page.get_by_test_id("why").locator("visible=true").count() == 0
    assert kernels(view_page, "view.frame", "1") == "1"


def test_play_point_and_follow(view_page):
    page = view_page.page
    press(view_page, "Home")
    empty = pictures(page)
    at(view_page, "speed").select_option("30")
    at(view_page, "play").click()
    assert kernels(view_page, "view.frame, view.playing", "(8, False)") == "(8, False)", "it plays to the end"
    full = pictures(page)
    assert full != empty
    press(view_page, "ArrowLeft", "ArrowLeft", "ArrowLeft")
    assert "step 4" in at(view_page, "caption").inner_text()
    memory = at(view_page, "memory")
    memory.hover(position={"x": 20, "y": 12})
    assert at(view_page, "tooltip").inner_text().splitlines()[0] == "A · 8 MiB"
    memory.click(position={"x": 20, "y": 12})
    assert kernels(view_page, "view.selected", "A") == "A"
    assert pictures(page) != full
    press(view_page, "Escape")
    assert kernels(view_page, "repr(view.selected)", "''") == "''"
    page.locator("[data-testid=owner][title=E]").click()
    assert kernels(view_page, "view.selected", "E") == "E"
    view_page.kernel("view.frame = 2; view.selected = 'B'")
    page.locator(".pk-selected", has_text="B").wait_for()
    largest = at(view_page, "largest")
    largest.click()
    assert largest.get_attribute("aria-pressed") == "true"
    # JupyterLab has shortcuts for a button that has the focus: these keys would insert cells, and scroll
    at(view_page, "end").focus()
    page.keyboard.press("b")
    page.keyboard.press("a")
    page.keyboard.press("Space")
    assert kernels(view_page, "view.frame", "8") == "8"
    at(view_page, "start").focus()
    page.keyboard.press("Enter")
    assert kernels(view_page, "view.frame", "0") == "0"
    assert len(view_page.cells()) == 2, "no key reached the notebook"


def test_guess_first_then_see(view_page):
    page = view_page.page
    press(view_page, "Home", "g")
    assert kernels(view_page, "view.guess", "True") == "True"
    before = pictures(page)
    press(view_page, "ArrowRight")
    question = at(view_page, "question")
    assert "Where does it go?" in question.inner_text() and "allocate(A, 8 MiB)" in question.inner_text()
    assert pictures(page) == before and kernels(view_page, "view.frame", "0") == "0", "the result is hidden"
    at(view_page, "memory").click(position={"x": 20, "y": 12})
    assert "✓ Right: it goes to 0x0" in at(view_page, "question").inner_text()
    assert pictures(page) != before
    assert kernels(view_page, "view.guesses_right, view.guesses_made, view.frame", "(1, 1, 1)") == "(1, 1, 1)"
    press(view_page, "ArrowRight", "2")  # the second answer: that it is refused
    assert "✗ Not so: it goes to 0x800000" in at(view_page, "question").inner_text()
    assert at(view_page, "score").inner_text() == "1 of 2 right"
    press(view_page, "ArrowRight", "ArrowRight")  # without an answer
    assert kernels(view_page, "view.guesses_made, view.frame", "(2, 3)") == "(2, 3)"
    press(view_page, "ArrowRight", "End")  # elsewhere: the question goes
    assert page.get_by_test_id("question").locator("visible=true").count() == 0
    view_page.screenshot("memory view guess")
    page.set_viewport_size({"width": 1280, "height": 1000})
    press(view_page, "Home", "g", "ArrowRight")
    assert kernels(view_page, "view.guess, view.frame", "(False, 1)") == "(False, 1)"


def test_reload_theme_and_other_recordings_in_its_place(view_page):
    page = view_page.page
    press(view_page, "Home", *["ArrowRight"] * 4)
    assert kernels(view_page, "view.frame", "4") == "4"
    view_page.command("docmanager:save")
    light = pictures(page)
    page.reload()
    page.wait_for_function("() => window.jupyterapp?.shell", timeout=60_000)
    page.evaluate("() => window.jupyterapp.restored")
    at(view_page, "memory-view").wait_for(timeout=60_000)
    assert pictures(page) == light
    view_page.dark()
    page.wait_for_function("() => document.querySelector('[data-testid=memory-view]').classList.contains('pk-dark')")
    page.wait_for_function("light => document.querySelector('[data-testid=memory]').toDataURL() !== light",
                           arg=light[0])
    view_page.screenshot("memory view dark")
    page.set_viewport_size({"width": 1280, "height": 1000})
    view_page.kernel("view.show_recordings([caching, first], ['one', 'two'])")
    page.wait_for_function("() => document.querySelectorAll('[data-testid=memory]').length === 2")
    assert kernels(view_page, "view.frame", "4") == "4"
    assert at(view_page, "counter").inner_text() == "event 4 / 8"


def test_two_memories_in_step_and_narrow(lab_page):
    lab_page.write("step.ipynb", RECORDED, BOTH)
    lab_page.open("step.ipynb")
    lab_page.run_all()
    at(lab_page, "memory-view").wait_for(timeout=30_000)
    page = lab_page.page
    page.wait_for_function("() => document.querySelectorAll('[data-testid=memory]').length === 2")
    press(lab_page, "Home", *["ArrowRight"] * 5)
    assert all("step 4" in text for text in page.get_by_test_id("caption").all_inner_texts())
    assert kernels(lab_page, "view.frame", "5") == "5"
    boxes = [box.bounding_box() for box in page.locator(".pk-panel").all()]
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]
    lab_page.screenshot("memory view two")
    page.set_viewport_size({"width": 820, "height": 1000})
    page.wait_for_function("""() => { const [one, two] = [...document.querySelectorAll('.pk-panel')].map(
        each => each.getBoundingClientRect()); return two.top >= one.bottom; }""")


@pytest.fixture
def plain(browser):
    """A page on its own, and what went wrong in it."""
    page = browser.new_page(viewport={"width": 1200, "height": 900})
    wrong = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: wrong.append(request.url) if not request.url.startswith(("file:", "data:"))
            else None)
    page.on("dialog", lambda dialog: (wrong.append(dialog.message), dialog.dismiss()))
    yield page
    page.close()
    assert not wrong, wrong


def test_in_a_file_without_jupyter_and_without_a_network(plain, tmp_path):
    evil = "</script><script>alert('no')</script>"
    named = events_of(("allocate", evil, MIB, [("reserve", 0, 2 * MIB), ("take", 0, MIB, MIB)]), source=evil)
    html = embedded([MemoryTape(fragmented(), "holes"), MemoryTape(pinned(), "pins")], "Two", 4)
    html += embedded([MemoryTape(named)], evil, 1)
    (tmp_path / "report.html").write_text(f"<!doctype html><meta charset=utf-8><body>{html}</body>", encoding="utf-8")
    plain.goto((tmp_path / "report.html").as_uri())
    views = plain.get_by_test_id("memory-view")
    assert views.count() == 2 and plain.get_by_test_id("memory").count() == 3
    assert plain.get_by_test_id("counter").all_inner_texts() == ["event 4 / 8", "event 1 / 1"]
    assert plain.get_by_test_id("pin").count() == 2
    untaken = plain.get_by_test_id("untaken").locator("visible=true").all_inner_texts()
    assert untaken == ["left on the device: 22 MiB", "left on the device: 62 MiB"], "none of an arena"
    views.first.press("End")
    assert "Why it failed: fragmented" in views.first.get_by_test_id("why").first.inner_text()
    assert views.last.get_by_test_id("owner").inner_text().splitlines()[0] == evil
    plain.get_by_test_id("pin").first.click()
    assert plain.locator(".pk-selected").inner_text().startswith("mask")


def test_a_redrawn_stretch_looks_as_if_all_was_drawn(plain, tmp_path):
    """Stepping draws only what changed. Whatever way one came, the picture is the same, but for a last bit here or
    there."""
    html = embedded([MemoryTape(random_memory_recording(seed), str(seed)) for seed in (1, 2)], "t", 0)
    (tmp_path / "page.html").write_text(f"<!doctype html><meta charset=utf-8><body>{html}</body>", encoding="utf-8")
    plain.goto((tmp_path / "page.html").as_uri())
    root = plain.get_by_test_id("memory-view")
    stepped = []
    for frame in range(1, 61):
        root.press("ArrowRight")
        if frame % 6 == 0:
            stepped.append((frame, pictures(plain)))
    there = dict(stepped)[30]
    assert difference(there, dict(stepped)[60]) > 50, "or it tests nothing"
    for _ in range(30):
        root.press("ArrowLeft")
    assert difference(pictures(plain), there) <= 2, "back is as forth"
    plain.set_viewport_size({"width": 1199, "height": 900})
    plain.set_viewport_size({"width": 1200, "height": 900})  # everything is drawn anew
    plain.wait_for_timeout(200)
    assert difference(pictures(plain), there) <= 2
