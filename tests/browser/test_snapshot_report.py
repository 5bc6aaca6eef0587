"""The report as a file, opened in a browser: no server, no network, no Jupyter."""

import json
import os
from pathlib import Path

import pytest

from pagedkv.snapshot import __main__ as command
from pagedkv.snapshot.demo import FILES, GROWING
from tests.snapshot.files import BASE, MIB, block, entry, frames, free, segment, snapshot

COLOURS = """canvas => {
    const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    const seen = new Set();
    for (let i = 0; i < pixels.length; i += 4) seen.add(pixels[i] << 16 | pixels[i + 1] << 8 | pixels[i + 2]);
    return seen.size;
}"""


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "report.html"
    assert command.main([str(FILES[GROWING]), "--html", str(out)]) == 0
    return out


@pytest.fixture(params=["light", "dark"])
def page(browser, report, request):
    """The report, from file://, with the network cut off."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=request.param, offline=True)
    opened = context.new_page()
    said, asked = [], []
    opened.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda each: asked.append(each.url))
    opened.goto(report.as_uri())
    opened.scheme = request.param
    yield opened
    context.close()
    assert said == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []


def shown_frame(page):
    return int(page.get_by_test_id("counter").inner_text().split()[1].replace(",", ""))


def picture(page):
    return page.get_by_test_id("memory").first.evaluate("canvas => canvas.toDataURL()")


def test_the_picture_is_drawn_and_moves(page):
    canvas = page.get_by_test_id("memory").first
    canvas.scroll_into_view_if_needed()
    assert canvas.bounding_box()["width"] > 300
    assert canvas.evaluate(COLOURS) > 4, "segments, owners and free memory"
    frame, before = shown_frame(page), picture(page)
    assert frame > 1000, "it opens where most is in use"
    page.get_by_test_id("memory-view").press("Home")
    assert shown_frame(page) == 0 and picture(page) != before
    page.get_by_test_id("memory-view").press("ArrowRight")
    assert shown_frame(page) == 1
    assert "segment_alloc" in page.get_by_test_id("caption").inner_text()
    page.get_by_test_id("play").click()
    page.wait_for_function("() => !document.querySelector('[data-testid=counter]').textContent.startsWith('event 1 ')")


def test_the_text_is_there_and_can_be_read(page):
    text = page.locator("main").inner_text()
    assert "a cache that grows by torch.cat" in text and "expandable_segments:True" in text and "as recorded" in text
    assert "memory snapshot, simulated by pagedkv" in text
    ink, paper = page.evaluate("""() => [getComputedStyle(document.querySelector('main')).color,
                                          getComputedStyle(document.body).backgroundColor]
        .map(colour => colour.match(/\\d+/g).slice(0, 3).reduce((sum, part) => sum + Number(part), 0) / 3)""")
    assert (ink < 60 and paper > 230) if page.scheme == "light" else (ink > 200 and paper < 40)
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
    if os.environ.get("PAGEDKV_SCREENSHOTS"):
        page.screenshot(path=str(Path(os.environ["PAGEDKV_SCREENSHOTS"], f"snapshot-report-{page.scheme}.png")),
                        full_page=True)


def test_the_text_needs_no_script(browser, report):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(report.as_uri())
    text = page.locator("main").inner_text()
    context.close()
    assert "a cache that grows by torch.cat" in text and "as recorded" in text
    assert "The picture needs JavaScript" in text


def test_a_narrow_screen(browser, report):
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(report.as_uri())
    page.get_by_test_id("memory").first.wait_for()
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out"
    context.close()


def test_names_from_the_file_stay_text(browser, tmp_path):
    """Who gets a snapshot by mail opens its report."""
    bad = '"><img src=x onerror="document.title = 1"></script><script>document.title = 2</script>'
    who = frames((f"{bad}.py", 1, bad))
    path = tmp_path / "mail.json"
    path.write_text(json.dumps(snapshot([segment(BASE, block(4 * MIB, frames=who), free(96 * MIB))],
                                        [entry("alloc", BASE, 4 * MIB, frames=who), entry(bad, 0, 0),
                                         {"action": "oom", "size": 130 * MIB, "frames": who}], origin=bad)))
    out = tmp_path / "mail.html"
    assert command.main([str(path), "--html", str(out)]) == 0
    context = browser.new_context(viewport={"width": 1280, "height": 900}, offline=True)
    page = context.new_page()
    page.goto(out.as_uri())
    page.get_by_test_id("memory").first.wait_for()
    page.get_by_test_id("owner").first.click()
    page.get_by_test_id("memory").first.hover(position={"x": 20, "y": 20})
    for _ in range(3):
        page.get_by_test_id("memory-view").press("ArrowLeft")
    assert page.title() == "mail.json · device 0" and page.locator("img").count() == 0
    assert bad[:40] in page.locator("main").inner_text()
    context.close()
