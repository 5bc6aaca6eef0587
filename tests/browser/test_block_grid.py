"""The block grid in a real JupyterLab: what a click, a key, a reload or another theme does, and what the kernel hears."""

import time

import pytest
from nbformat.v4 import new_code_cell, new_output

from pagedkv.viz import BlockGrid
from tests.viz.recordings import random_recording

RECORDED = """
from pagedkv import BlockPool, record
from pagedkv.viz import BlockGrid, side_by_side_grids
pool = BlockPool(64)
with record(pool) as recording:
    tables = {}
    for step in range(150):
        owner = "ABCDE"[step * 7 % 5]
        if step % 9 == 8 and owner in tables:
            pool.release(tables.pop(owner), owner)
        elif pool.num_free_blocks > 2:
            tables.setdefault(owner, []).extend(pool.allocate(1 + step % 2, owner))
"""
SHOWN = "grid = BlockGrid(recording)\ngrid"


@pytest.fixture
def grid_page(lab_page):
    """A notebook with the recording above and the grid of it, run."""
    lab_page.write("grid.ipynb", RECORDED, SHOWN)
    lab_page.open("grid.ipynb")
    lab_page.run_all()
    at(lab_page, "block-grid").wait_for(timeout=30_000)
    return lab_page


def at(lab_page, name):
    return lab_page.page.get_by_test_id(name).locator("visible=true").first


def press(lab_page, *keys):
    for key in keys:
        at(lab_page, "block-grid").press(key)


def picture(lab_page):
    return at(lab_page, "grid").evaluate("canvas => canvas.toDataURL()")


def brightness_of_a_free_block(lab_page):
    """Of the last one, 0 to 255."""
    return at(lab_page, "grid").evaluate("""canvas => Math.max(...canvas.getContext('2d').getImageData(
        canvas.width - 12, canvas.height - 12, 1, 1).data.slice(0, 3))""")


def wait_for_picture_other_than(lab_page, old, seconds=20):
    handle = at(lab_page, "grid").element_handle()
    lab_page.page.wait_for_function("([canvas, old]) => canvas.toDataURL() !== old", arg=[handle, old], timeout=seconds * 1000)


def shown_frame(lab_page):
    return int(at(lab_page, "counter").inner_text().split()[1].replace(",", ""))


def kernels(lab_page, expression, wanted, seconds=20):
    """The value of an expression in the kernel, once it is `wanted` or time is up."""
    deadline = time.monotonic() + seconds
    while (value := lab_page.kernel(f"print(({expression}))").strip()) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return value


def test_play_pause_and_step(grid_page):
    opening = int(grid_page.kernel("print(grid.frame)"))
    assert shown_frame(grid_page) == opening > 0
    at(grid_page, "speed").select_option("30")
    before = picture(grid_page)
    at(grid_page, "play").click()
    wait_for_picture_other_than(grid_page, before)
    first = picture(grid_page)
    wait_for_picture_other_than(grid_page, first)
    assert kernels(grid_page, "grid.playing and 0 < grid.frame < 150", "True") == "True"
    at(grid_page, "play").click()
    frame = shown_frame(grid_page)
    assert kernels(grid_page, "grid.frame, grid.playing, grid.speed", f"{(frame, False, 30.0)}") == f"{(frame, False, 30.0)}"

    press(grid_page, "Home")
    assert kernels(grid_page, "grid.frame", "0") == "0"
    assert at(grid_page, "caption").inner_text().strip() == "before the first event: every block is free"
    press(grid_page, "ArrowRight", "ArrowRight", "ArrowLeft")
    assert "allocate(1) by A → block 0" in at(grid_page, "caption").inner_text()
    assert kernels(grid_page, "grid.frame", "1") == "1"
    press(grid_page, "Shift+ArrowRight", "End", "Shift+ArrowLeft")
    assert shown_frame(grid_page) == 140
    press(grid_page, "Space")
    assert kernels(grid_page, "grid.frame, grid.playing", "(150, False)") == "(150, False)", "it plays to the end"

    grid_page.kernel("grid.frame = 42")
    grid_page.page.wait_for_function("() => document.querySelector('[data-testid=counter]').textContent === 'event 42 / 150'")
    strip = at(grid_page, "timeline").bounding_box()
    grid_page.page.mouse.click(strip["x"] + strip["width"] / 3, strip["y"] + 20)
    assert kernels(grid_page, "grid.frame", "50") == "50"
    assert grid_page.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.mode") == "command" and \
        len(grid_page.cells()) == 2, "no key reached the notebook"


def test_pointing_at_blocks_and_following_an_owner(grid_page):
    press(grid_page, "Home", *["ArrowRight"] * 3)
    box = at(grid_page, "grid").bounding_box()
    at(grid_page, "grid").hover(position={"x": 8, "y": 8})
    assert at(grid_page, "tooltip").inner_text().splitlines() == ["block 0 · refcount 1", "A, logical 0 · since step 0"]
    plain = picture(grid_page)
    at(grid_page, "grid").click(position={"x": 8, "y": 8})
    assert kernels(grid_page, "grid.selected", "A") == "A"
    assert "0→0" in at(grid_page, "table").inner_text()
    assert picture(grid_page) != plain
    press(grid_page, "Escape")
    assert kernels(grid_page, "repr(grid.selected)", "''") == "''"
    assert picture(grid_page) == plain
    grid_page.page.mouse.move(box["x"] - 5, box["y"] - 5)
    assert not grid_page.page.get_by_test_id("tooltip").is_visible()
    grid_page.page.locator("[data-testid=sequence][title=C]").click()
    assert kernels(grid_page, "grid.selected", "C") == "C"
    grid_page.kernel("grid.selected = 'A'")
    grid_page.page.locator(".pk-selected", has_text="A").wait_for()


def test_reload_theme_and_a_grid_shown_again(grid_page):
    page = grid_page.page
    press(grid_page, "Home", *["ArrowRight"] * 7)
    assert kernels(grid_page, "grid.frame", "7") == "7"
    grid_page.command("docmanager:save")
    light = picture(grid_page)
    assert brightness_of_a_free_block(grid_page) > 210
    page.reload()
    page.wait_for_function("() => window.jupyterapp?.shell", timeout=60_000)
    page.evaluate("() => window.jupyterapp.restored")
    at(grid_page, "block-grid").wait_for(timeout=60_000)
    assert shown_frame(grid_page) == 7 and picture(grid_page) == light
    grid_page.screenshot("block grid light")
    page.set_viewport_size({"width": 1280, "height": 1000})
    grid_page.dark()
    wait_for_picture_other_than(grid_page, light)
    assert brightness_of_a_free_block(grid_page) < 90
    grid_page.screenshot("block grid dark")
    page.set_viewport_size({"width": 1280, "height": 1000})

    # closed and shown again, in a second cell, twice
    grid_page.kernel("grid.close()")
    page.get_by_test_id("block-grid").wait_for(state="detached")
    page.evaluate("() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells[1].setSource('grid')")
    for cell in (1, 1):
        page.evaluate("n => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = n; }", cell)
        grid_page.command("notebook:run-cell")
        grid_page.wait_until_idle()
        at(grid_page, "block-grid").wait_for(timeout=30_000)
        assert shown_frame(grid_page) == 7
    press(grid_page, "ArrowRight")
    assert kernels(grid_page, "grid.frame", "8") == "8"


def test_two_grids_in_step_and_narrow(lab_page):
    lab_page.write("step.ipynb", RECORDED, "both = side_by_side_grids(recording, recording, titles=['one', 'two'])\nboth")
    lab_page.open("step.ipynb")
    lab_page.run_all()
    at(lab_page, "block-grid").wait_for(timeout=30_000)

    def both():
        return lab_page.page.get_by_test_id("grid").evaluate_all("all => all.map(canvas => canvas.toDataURL())")

    press(lab_page, "Home", *["ArrowRight"] * 5)
    one, two = both()
    assert one == two
    press(lab_page, "End")
    later = both()
    assert later[0] == later[1] != one
    assert kernels(lab_page, "both.frame", "150") == "150"
    boxes = [box.bounding_box() for box in lab_page.page.locator(".pk-panel").all()]
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]
    lab_page.page.set_viewport_size({"width": 820, "height": 1000})
    lab_page.page.wait_for_function("""() => { const [one, two] = [...document.querySelectorAll('.pk-panel')].map(
        each => each.getBoundingClientRect()); return two.top >= one.bottom; }""")


def test_a_pool_is_followed_while_the_cell_runs(lab_page):
    lab_page.write("live.ipynb", RECORDED, """
import time
pool = BlockPool(64)
with BlockGrid.live(pool, "At work") as grid:
    for step in range(60):
        pool.allocate(1, "A")
        time.sleep(0.05)
""")
    lab_page.open("live.ipynb")
    lab_page.page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")  # and do not wait
    at(lab_page, "live").wait_for(timeout=60_000)
    page = lab_page.page
    page.wait_for_function("() => !document.querySelector('[data-testid=counter]').textContent.startsWith('event 0 ')")
    before = shown_frame(lab_page)
    busy = page.wait_for_function("""n => +document.querySelector('[data-testid=counter]').textContent.split(' ')[1] > n
        && [...document.querySelectorAll('.jp-InputPrompt')].some(each => each.textContent.includes('*'))""", arg=before)
    assert busy, "events arrive while the cell runs"
    # "idle" is no sign here: what the browser sends meanwhile is answered beside the running cell
    page.wait_for_function("() => ![...document.querySelectorAll('.jp-InputPrompt')].some(each => each.textContent.includes('*'))")
    page.wait_for_function("() => document.querySelector('[data-testid=counter]')?.textContent === 'event 60 / 60'")
    page.locator("[data-testid=live]").wait_for(state="hidden")
    assert "At work · Python pool · 64 blocks · event 60 of 60" in lab_page.cells()[1]["text"]
    press(lab_page, "Home", "ArrowRight")
    assert kernels(lab_page, "grid.frame, grid.following", "(1, False)") == "(1, False)"


def test_an_untrusted_notebook_shows_the_picture(lab_page):
    data, metadata = BlockGrid(random_recording(3), "From somebody else")._repr_mimebundle_()
    cell = new_code_cell("grid", execution_count=1, outputs=[
        new_output("execute_result", data=data, metadata=metadata, execution_count=1)])
    lab_page.write("untrusted.ipynb", cell)
    lab_page.open("untrusted.ipynb")
    image = lab_page.page.locator(".jp-OutputArea-output img")
    image.wait_for(timeout=30_000)
    assert image.evaluate("image => image.complete && image.naturalWidth") > 600
    assert lab_page.page.get_by_text("Error displaying widget").count() == 0
    lab_page.screenshot("block grid untrusted")


def test_two_kernels(lab_page):
    lab_page.write("grid.ipynb", RECORDED, SHOWN)
    lab_page.write("other.ipynb", RECORDED, SHOWN)
    for notebook in ("grid.ipynb", "other.ipynb"):
        lab_page.open(notebook) if notebook == "grid.ipynb" else lab_page.command("docmanager:open", path=f"work/{notebook}")
        lab_page.page.wait_for_function(
            "name => window.jupyterapp.shell.currentWidget?.context?.path?.endsWith(name)", arg=notebook)
        lab_page.wait_until_idle()
        lab_page.run_all()
        at(lab_page, "block-grid").wait_for(timeout=30_000)
        press(lab_page, "Home", *["ArrowRight"] * (3 if notebook == "grid.ipynb" else 9))
        expected = "3" if notebook == "grid.ipynb" else "9"
        assert kernels(lab_page, "grid.frame", expected) == expected
    lab_page.command("docmanager:open", path="work/grid.ipynb")
    lab_page.page.wait_for_function("() => window.jupyterapp.shell.currentWidget?.context?.path?.endsWith('grid.ipynb')")
    assert kernels(lab_page, "grid.frame", "3") == "3" and shown_frame(lab_page) == 3
