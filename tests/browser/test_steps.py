"""The steps view in a real JupyterLab: tiles move from place to place, and what has not happened yet is not told."""

import os
from pathlib import Path

from tests.browser.test_block_grid import at, kernels
from tests.viz.step_traces import race

CELL = f"""
from pagedkv.viz import StepsView
view = StepsView({race()!r}, start=0)
view
"""
LAST = 6


def screenshot(lab_page, name):
    folder = os.environ.get("PAGEDKV_SCREENSHOTS")
    if folder:
        lab_page.page.wait_for_timeout(600)
        at(lab_page, "steps-view").screenshot(path=str(Path(folder, f"{name}.png")))


def tiles(lab_page):
    """Each tile's block, where it is drawn and the place under its middle."""
    return lab_page.page.evaluate("""() => {
        const boxes = [...document.querySelectorAll('.st-box')];
        return [...document.querySelectorAll('.st-tile')].map(tile => {
            const { x, y, width, height } = tile.getBoundingClientRect(), [mx, my] = [x + width / 2, y + height / 2];
            const box = boxes.find(each => { const b = each.getBoundingClientRect();
                return b.left < mx && mx < b.right && b.top < my && my < b.bottom; });
            return [+tile.dataset.block, box?.dataset.place]; })
            .sort((one, other) => one[0] - other[0] || (one[1] < other[1] ? -1 : 1)); }""")


def wait_for_tiles(lab_page, expected):
    for _ in range(50):
        if tiles(lab_page) == expected:
            return
        lab_page.page.wait_for_timeout(100)
    assert tiles(lab_page) == expected


def shown(lab_page):
    """The numbers of the steps that can be read in the list."""
    return lab_page.page.evaluate("""() => [...document.querySelectorAll('.st-history li')]
        .filter(row => getComputedStyle(row).visibility === 'visible')
        .map(row => +row.querySelector('.st-number').textContent)""")


def coloured_in_lanes(lab_page):
    """How many pixels of the lanes have a colour: the calls that are drawn."""
    return lab_page.page.evaluate("""() => {
        const canvas = document.querySelector('[data-testid=timeline]'), { width, height } = canvas;
        const { data } = canvas.getContext('2d').getImageData(0, 0, width, height);
        let found = 0;
        for (let i = 0; i < data.length; i += 4)
            if (data[i + 3]) {
                const colour = data.subarray(i, i + 3);
                found += Math.max(...colour) - Math.min(...colour) > 20;
            }
        return found; }""")


def test_a_race_step_by_step(lab_page):
    page = lab_page.page
    page.set_viewport_size({"width": 1400, "height": 1000})
    lab_page.write("steps.ipynb", CELL)
    lab_page.open("steps.ipynb")
    lab_page.run_all()
    view = at(lab_page, "steps-view")
    view.wait_for(timeout=30_000)
    whole = [[0, "stack"], [1, "stack"], [2, "stack"]]

    # nothing of what follows is told at the start
    wait_for_tiles(lab_page, whole)
    assert at(lab_page, "caption").inner_text().split("\n")[-1] == "start: 3 blocks on the stack"
    assert shown(lab_page) == [0] and at(lab_page, "result").inner_text().strip() == ""
    assert at(lab_page, "counter").inner_text() == f"step 0 / {LAST}"
    assert at(lab_page, "head").inner_text() == "head 2" and "two places" not in view.inner_text()
    assert coloured_in_lanes(lab_page) == 0
    page.locator(".st-tile[data-block='2']").evaluate("tile => { tile.dataset.mine = 'yes'; }")

    # by keys: on, and what a thread has read stands beside its name
    view.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    wait_for_tiles(lab_page, [[0, "stack"], [1, "stack"], [2, "B holds"]])
    assert at(lab_page, "head").inner_text() == "head 1" and shown(lab_page) == [0, 1, 2, 3]
    assert page.locator(".st-card[data-actor=A] .st-note").inner_text() == "pop(): read head 2"
    assert page.locator(".st-tile.st-moved").all_inner_texts() == ["2"]
    assert page.locator(".st-tile[data-mine=yes]").count() == 1, "the same tile moved"
    assert kernels(lab_page, "view.frame", "3") == "3"
    screenshot(lab_page, "steps middle light")

    assert coloured_in_lanes(lab_page) > 0

    # where it goes wrong: twice the same block, the result in words, and by a click in the list back again
    page.keyboard.press("End")
    wait_for_tiles(lab_page, [[0, "stack"], [1, "stack"], [2, "A holds"], [2, "B holds"]])
    assert page.locator(".st-tile.st-doubled").count() == 2
    assert at(lab_page, "caption").inner_text().split("\n")[-1] == "A: pop() returns 2 – broken here"
    assert "pk-fault" in at(lab_page, "caption").get_attribute("class")
    assert at(lab_page, "result").inner_text() == race()["result"]
    assert at(lab_page, "places").get_attribute("aria-label") == "stack: 1, 0; A holds: 2; B holds: 2; lost: none"
    screenshot(lab_page, "steps broken light")
    lab_page.dark()
    page.wait_for_timeout(900)
    screenshot(lab_page, "steps broken dark")
    lab_page.dark(False)
    page.locator(".st-history li").nth(2).click()
    wait_for_tiles(lab_page, whole)
    assert kernels(lab_page, "view.frame", "2") == "2"

    # the lanes are a timeline
    lane = at(lab_page, "timeline").bounding_box()
    page.mouse.click(lane["x"] + lane["width"] * 4.5 / (LAST + 1), lane["y"] + 10)
    assert kernels(lab_page, "view.frame", "4") == "4"

    # it plays to its end
    at(lab_page, "speed").select_option("10")
    at(lab_page, "play").click()
    page.wait_for_function("text => document.querySelector('[data-testid=counter]').textContent.endsWith(text)",
                           arg=f" {LAST} / {LAST}")
    assert at(lab_page, "play").get_attribute("aria-label") == "play"

    # who wants no motion sees none
    assert page.locator(".st-tile").first.evaluate("tile => getComputedStyle(tile).transitionProperty") != "none"
    page.emulate_media(reduced_motion="reduce")
    assert page.locator(".st-tile").first.evaluate("tile => getComputedStyle(tile).transitionProperty") == "none"

    # a narrow page: everything stays within it
    page.set_viewport_size({"width": 700, "height": 1000})
    page.wait_for_timeout(600)
    inside = page.evaluate("""() => {
        const root = document.querySelector('[data-testid=steps-view]').getBoundingClientRect();
        const boxes = [...document.querySelectorAll('.st-box, .st-said, .pk-timeline-strip')];
        return boxes.map(each => each.getBoundingClientRect())
            .every(({ left, right }) => left >= root.left && right <= root.right + 1); }""")
    assert inside
    assert page.locator(".st-side").bounding_box()["height"] > 200
    screenshot(lab_page, "steps narrow light")


CACHES = """
from pagedkv.java import start
from pagedkv.lab.workers_caches import cache_trace
from pagedkv.viz import StepsView
start()
view = StepsView(cache_trace(), start=0)
view
"""


def test_caches_of_a_real_pool(lab_page):
    page = lab_page.page
    page.set_viewport_size({"width": 1600, "height": 1000})
    lab_page.write("caches.ipynb", CACHES)
    lab_page.open("caches.ipynb")
    lab_page.run_all()
    at(lab_page, "steps-view").wait_for(timeout=30_000)
    assert at(lab_page, "source").inner_text() == "Java CachedLockFreePool"
    kernels(lab_page, "setattr(view, 'frame', 1) or view.frame", "1")
    wait_for_tiles(lab_page, sorted([[0, "T1 holds"], [1, "cache of T1"], [2, "cache of T1"],
                                     *([block, "global stack"] for block in range(3, 12))]))
    assert page.locator(".st-in-cache").count() == 2 and page.locator(".st-in-hand").count() == 1
    kernels(lab_page, "setattr(view, 'frame', 7) or view.frame", "7")
    page.wait_for_timeout(600)
    screenshot(lab_page, "steps caches light")
    lab_page.dark()
    page.wait_for_timeout(900)
    screenshot(lab_page, "steps caches dark")
