"""The KV cache view in a real JupyterLab: grid, tables and tree show one frame, and point at each other."""

import inspect
import os
from pathlib import Path

from tests.browser.test_block_grid import at, brightness_of_a_free_block, kernels, picture, wait_for_picture_other_than
from tests.viz import kv_recordings

RECORDED = f"""
from pagedkv import record
from pagedkv.core.manager import KVCacheManager
from pagedkv.viz import KVCacheView
Recording = object
WORDS = {kv_recordings.WORDS!r}
SYSTEM, PAGING, FAUST = {kv_recordings.SYSTEM}, {kv_recordings.PAGING}, {kv_recordings.FAUST}
{inspect.getsource(kv_recordings.chat)}
view = KVCacheView(chat(), token_text=WORDS)
view
"""


def texts(lab_page, selector):
    return lab_page.page.locator(selector).all_text_contents()


def screenshot(lab_page, name):
    folder = os.environ.get("PAGEDKV_SCREENSHOTS")
    if folder:
        lab_page.page.wait_for_timeout(300)
        at(lab_page, "kv-cache-view").screenshot(path=str(Path(folder, f"{name}.png")))


def go(lab_page, frame):
    lab_page.kernel(f"view.frame = {frame}")
    lab_page.page.wait_for_function(
        "frame => document.querySelector('[data-testid=counter]').textContent === `event ${frame} / 25`", arg=frame)


def test_one_frame_in_three_pictures(lab_page):
    page = lab_page.page
    page.set_viewport_size({"width": 1400, "height": 1000})
    lab_page.write("kv.ipynb", RECORDED)
    lab_page.open("kv.ipynb")
    lab_page.run_all()
    view = at(lab_page, "kv-cache-view")
    view.wait_for(timeout=30_000)
    node = page.get_by_test_id("node")

    # it opens where most is shared; a copy before a write, half way
    assert kernels(lab_page, "view.frame == view.tapes[0].sharing_frame()", "True") == "True"
    screenshot(lab_page, "kv view sharing light")
    go(lab_page, 10)
    assert at(lab_page, "caption").inner_text().endswith("C copies block 4 to block 7 before it writes")
    assert texts(lab_page, ".pk-copy-word") == ["copy"]
    assert texts(lab_page, "[data-testid=table] >> nth=2 >> .pk-chip")[-2:] == ["4→43/4", "4→73/4"]
    assert page.locator(".pk-chip.pk-source").count() == 2 and page.locator(".pk-chip.pk-current").count() == 1
    screenshot(lab_page, "kv view copy light")

    # nodes come with "cache" and go with what takes them; the event's is outlined
    assert node.count() == 5
    go(lab_page, 13)
    assert node.count() == 6 and texts(lab_page, ".pk-node.pk-current .pk-node-tokens") == ["It maps pages to"]
    assert texts(lab_page, ".pk-copy-word") == []
    go(lab_page, 24)
    assert page.locator(".pk-node-free").count() == 3
    assert "free to take" in page.locator(".pk-tree .pk-legend").inner_text()
    go(lab_page, 2)
    assert node.count() == 4

    # pointing at a node marks its block and its entries, and the other way round
    go(lab_page, 10)
    page.locator("[data-testid=node][data-block='3']").hover()
    assert at(lab_page, "tooltip").inner_text().splitlines()[0] == "block 3 · refcount 2"
    assert at(lab_page, "tooltip").inner_text().endswith("4 tokens: What is paging ?")
    assert texts(lab_page, ".pk-chip.pk-pointed") == ["3→3", "3→3"]
    at(lab_page, "grid").hover(position={"x": 10, "y": 10})
    assert page.locator(".pk-node.pk-pointed").get_attribute("data-block") == "0"

    # a click, or the keyboard: tab to a node, Enter follows its owner
    page.locator("[data-testid=node][data-block='5']").click()
    assert kernels(lab_page, "view.selected", "B") == "B"
    assert page.locator(".pk-node.pk-followed").count() == 4 and page.locator(".pk-tree-line.pk-followed").count() == 4
    view.press("Escape")
    assert kernels(lab_page, "repr(view.selected)", "''") == "''"
    page.locator("[data-testid=node][data-block='2']").focus()
    page.keyboard.press("Tab")
    assert page.evaluate("() => document.activeElement.dataset.block") == "3"
    assert page.evaluate("() => document.activeElement.getAttribute('aria-label')") == \
        "block 3, refcount 2, held by A, C: What is paging ?"
    page.keyboard.press("Enter")
    assert kernels(lab_page, "view.selected", "A") == "A"
    page.keyboard.press("Enter")
    assert kernels(lab_page, "view.selected", "C") == "C"
    page.keyboard.press("ArrowRight")
    assert kernels(lab_page, "view.frame", "11") == "11"
    assert page.evaluate("() => document.activeElement.dataset.block") == "3", "the focus stays on the node"
    view.press("Escape")

    # another theme, and a narrow page
    go(lab_page, 10)
    light = picture(lab_page)
    lab_page.dark()
    wait_for_picture_other_than(lab_page, light)
    assert brightness_of_a_free_block(lab_page) < 90
    screenshot(lab_page, "kv view copy dark")
    go(lab_page, 22)
    screenshot(lab_page, "kv view sharing dark")
    page.set_viewport_size({"width": 700, "height": 1000})
    page.wait_for_function("() => !document.querySelector('.pk-main').classList.contains('pk-beside')")
    box, tree = view.bounding_box(), at(lab_page, "prefix-tree").bounding_box()
    assert tree["width"] <= box["width"]
    screenshot(lab_page, "kv view sharing narrow")
