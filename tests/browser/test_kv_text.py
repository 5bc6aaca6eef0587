"""The KV cache view with the texts of its sequences, in a real JupyterLab: of a recording, and of a manager at work."""

import inspect

from tests.browser.test_block_grid import at, brightness_of_a_free_block, kernels, picture, wait_for_picture_other_than
from tests.browser.test_kv_view import screenshot
from tests.viz import tokenizers

_MADE_UP = inspect.getsource(tokenizers).split('"""', 2)[2]
RECORDED = f"""{_MADE_UP}
from pagedkv.viz import KVCacheView
recording = generated(device=True)
view = KVCacheView(recording, token_text=TOKENIZER, texts=True, title="A model at work")
view
"""
# Until the page lets it go on, it rests between two steps, as a slow model does, and the cell is busy.
LIVE = f"""{_MADE_UP}
import os, time
from pagedkv.viz import KVCacheView
manager, steps = KVCacheManager(num_blocks=32, block_size=4), 0
manager.__dict__["source"] = "live CUDA pool · NVIDIA H200"
def wait():
    global steps
    steps += 1
    while os.path.exists("hold") and int(open("hold").read() or 0) < steps:
        time.sleep(0.02)
with KVCacheView.live(manager, token_text=TOKENIZER, texts=True) as view:
    generated(manager, wait, device=True)
"""


def go(lab_page, frame):
    lab_page.kernel(f"view.frame = {frame}")
    lab_page.page.wait_for_function(
        "frame => document.querySelector('[data-testid=counter]').textContent.startsWith(`event ${frame} /`)", arg=frame)


def lines(lab_page):
    """Owner → the text that stands beside it."""
    return dict(lab_page.page.evaluate("""() => [...document.querySelectorAll('.pk-text-row')].map(row =>
        [row.querySelector('.pk-text-name b').textContent, row.querySelector('.pk-text').textContent])"""))


def tops(lab_page):
    """Where the pictures stand that come after the texts, and how high the texts are."""
    return lab_page.page.evaluate("""() => ['texts', 'prefix-tree'].map(name => {
        const root = document.querySelector('[data-testid=kv-cache-view]').getBoundingClientRect();
        return document.querySelector(`[data-testid=${name}]`).getBoundingClientRect().top - root.top; })""")


def heights(lab_page):
    """In CSS pixels: of the list of texts, of the part above it, of the whole view."""
    return lab_page.page.evaluate("""() => ['.pk-texts-scroll', '.pk-main', '[data-testid=kv-cache-view]'].map(each =>
        document.querySelector(each).getBoundingClientRect().height)""")


def shortened(lab_page):
    """Whose text is not there as a whole: its middle is left out, or its end is cut off."""
    return lab_page.page.evaluate("""() => [...document.querySelectorAll('.pk-text-row')].filter(row => {
        const ends = row.querySelector('.pk-text > :last-child').getBoundingClientRect();
        return row.querySelector('.pk-text-gap') || ends.bottom > row.getBoundingClientRect().bottom + 3;
    }).map(row => row.querySelector('.pk-text-name b').textContent)""")


def words_crossed_by_arrows(lab_page):
    """Names and other words in the list of sequences that an arrow to a block runs through."""
    return lab_page.page.evaluate("""() => {
        const words = [...document.querySelectorAll('.pk-side-title, .pk-row b, .pk-row .pk-what')]
            .map(each => {
                const range = document.createRange();
                range.selectNodeContents(each);
                return [each, range.getBoundingClientRect()];
            });
        const paths = [...document.querySelectorAll('.pk-arrows > path[fill=none]')], crossed = new Set();
        if (!paths.length) throw new Error('there is no arrow');
        for (const path of paths) {
            const at = path.getScreenCTM(), length = path.getTotalLength();
            for (let along = 0; along <= length; along++) {
                const { x, y } = path.getPointAtLength(along).matrixTransform(at);
                for (const [each, box] of words)
                    if (x > box.left && x < box.right && y > box.top + 2 && y < box.bottom - 2)
                        crossed.add(each.textContent);
            }
        }
        return [...crossed];
    }""")


def test_texts_of_a_recording(lab_page):
    page = lab_page.page
    page.set_viewport_size({"width": 1400, "height": 1400})
    lab_page.write("texts.ipynb", RECORDED)
    lab_page.open("texts.ipynb")
    lab_page.run_all()
    view = at(lab_page, "kv-cache-view")
    view.wait_for(timeout=30_000)
    prompt = "You are a helpful assistant . Answer in one short sentence ."

    # a prompt, a prefix found in the cache, what is appended
    go(lab_page, 2)
    assert lines(lab_page) == {"A": f"{prompt} What is paging ?"}
    before = tops(lab_page)
    go(lab_page, 5)
    assert lines(lab_page)["B"] == f"{prompt} Where do blocks go ?"
    assert page.locator(".pk-text-row").nth(1).locator(".pk-there").all_text_contents() == \
        ["You are a helpful", " assistant . Answer in", " one short sentence ."]
    assert page.locator(".pk-text-row").nth(1).locator(".pk-shared").count() == 3
    assert page.locator(".pk-text-row").nth(1).locator(".pk-newest").inner_text().strip() == "?"
    # shared text is underlined, and what was found is slanted: not by colour alone
    style = "e => [getComputedStyle(e).textDecorationStyle, getComputedStyle(e).fontStyle]"
    assert page.locator(".pk-text-row .pk-there.pk-shared").first.evaluate(style) == ["double", "italic"]

    # forked, then another way; finished, with its text; characters of several tokens
    go(lab_page, 60)
    shown = lines(lab_page)
    assert shown["C"].endswith("to physical places .⏎The") and shown["A"].endswith("nothing has to be contiguous .")
    assert shown["B"].endswith("They live anywhere 🙂 .")
    assert page.locator(".pk-finished .pk-text-name b").all_text_contents() == ["A", "B"]
    assert "finished" in page.locator(".pk-finished .pk-what").first.inner_text()
    assert tops(lab_page) == before, "nothing moves while texts grow"
    screenshot(lab_page, "kv texts light")
    go(lab_page, 117)
    assert lines(lab_page)["D"].endswith("What is café ? 你好 .") and lines(lab_page)["C"].endswith("The table says where")
    assert words_crossed_by_arrows(lab_page) == []
    go(lab_page, 60)

    # pointing at a block marks the text in it, and the other way round
    page.locator("[data-testid=node][data-block='6']").hover()
    assert page.locator(".pk-stretch.pk-pointed").all_text_contents() == [" Paging maps logical blocks"] * 2
    page.locator(".pk-text-row").nth(3).locator("[data-block='10']").hover()
    assert page.locator(".pk-node.pk-pointed").get_attribute("data-block") == "10"
    assert page.locator(".pk-chip.pk-pointed").all_text_contents() == ["3→10"]

    # a click follows, and the keyboard does
    page.locator(".pk-text-row").nth(3).locator("[data-block='10']").click()
    assert kernels(lab_page, "view.selected", "D") == "D"
    view.press("Escape")
    assert kernels(lab_page, "repr(view.selected)", "''") == "''"
    page.get_by_test_id("text-of").nth(2).focus()
    page.keyboard.press("Enter")
    assert kernels(lab_page, "view.selected", "C") == "C"
    assert page.locator(".pk-text-row.pk-selected b").first.inner_text() == "C"
    assert page.evaluate("() => document.activeElement.getAttribute('aria-label')").startswith(
        "C, 34 tokens, 22 there already: You are a helpful")
    view.press("Escape")

    # the device's own memory
    device = at(lab_page, "device-memory")
    assert device.is_visible()
    words = device.locator("xpath=../..").inner_text()
    assert "allocated 1.05 GiB" in words and "reserved 1.25 GiB" in words and "0 … 1.56 GiB" in words
    go(lab_page, 1)
    assert "allocated 0.88 GiB" in device.locator("xpath=../..").inner_text()
    assert at(lab_page, "source").inner_text() == "live CUDA pool · NVIDIA H200"

    # another theme; a narrow page, where texts lose their middle until somebody asks for it
    go(lab_page, 60)
    light = picture(lab_page)
    lab_page.dark()
    wait_for_picture_other_than(lab_page, light)
    assert brightness_of_a_free_block(lab_page) < 90
    screenshot(lab_page, "kv texts dark")
    page.evaluate("() => { document.querySelector('[data-testid=kv-cache-view]').style.width = '380px'; }")
    page.wait_for_function("() => document.querySelector('.pk-texts.pk-narrow')")
    assert view.bounding_box()["width"] <= 400
    go(lab_page, 59)
    assert words_crossed_by_arrows(lab_page) == []
    screenshot(lab_page, "kv texts narrow arrow")
    go(lab_page, 60)
    assert page.evaluate("""() => [...document.querySelectorAll('.pk-head, .pk-texts, .pk-text-row, .pk-timeline')]
        .filter(each => each.scrollWidth > each.clientWidth).map(each => each.className)""") == []
    gap = page.locator(".pk-text-row").nth(2).locator(".pk-text-gap")
    assert "tokens …" in gap.inner_text() and lines(lab_page)["C"].endswith("The")
    screenshot(lab_page, "kv texts narrow dark")
    below = tops(lab_page)
    gap.press("Enter")
    assert lines(lab_page)["C"] == f"{prompt} What is paging ? Paging maps logical blocks to physical places .⏎Theless"
    assert page.evaluate("() => document.activeElement.className") == "pk-text-gap" and tops(lab_page) == below
    screenshot(lab_page, "kv texts narrow whole dark")


def test_texts_while_a_model_generates(lab_page):
    page = lab_page.page
    page.set_viewport_size({"width": 1400, "height": 1400})
    lab_page.write("live.ipynb", LIVE)
    lab_page.open("live.ipynb")
    lab_page.kernel("open('hold', 'w').write('0')")
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")  # and do not wait
    at(lab_page, "kv-cache-view").wait_for(timeout=30_000)
    hold = lab_page._lab.work / "hold"

    def let(step):
        hold.write_text(str(step))

    def wait_for(owner, end):
        page.wait_for_function("""([owner, end]) => [...document.querySelectorAll('.pk-text-row')].some(row =>
            row.querySelector('.pk-text-name b').textContent === owner
            && row.querySelector('.pk-text').textContent.endsWith(end))""", arg=[owner, end])

    wait_for("B", "Where do blocks go ?")
    assert at(lab_page, "live").is_visible() and at(lab_page, "source").inner_text() == "live CUDA pool · NVIDIA H200"
    places, small = tops(lab_page), heights(lab_page)
    assert small[0] == 3 * 42, "three rows, however many there will be"
    assert shortened(lab_page) == []
    let(3)
    wait_for("A", "Paging maps logical")
    let(9)
    wait_for("C", " to physical pl")
    # the newest event is shown, and the cell is still at it
    counter = at(lab_page, "counter").inner_text().removeprefix("event ").split(" / ")
    assert counter[0] == counter[1] and int(counter[0]) > 20
    assert at(lab_page, "live").is_visible() and tops(lab_page) == places
    assert heights(lab_page)[:2] == small[:2] and shortened(lab_page) == []
    screenshot(lab_page, "kv texts live")
    # in a narrower place texts need more lines, and get them: there is room below
    page.evaluate("() => { document.querySelector('[data-testid=kv-cache-view]').style.width = '640px'; }")
    page.wait_for_function("() => document.querySelector('.pk-texts-scroll').clientHeight > 130")
    assert shortened(lab_page) == [] and heights(lab_page)[0] <= 6 * 42
    assert (heights(lab_page)[0] - 3 * 42) % 19 == 0, "by lines"
    screenshot(lab_page, "kv texts live narrower")
    page.evaluate("() => { document.querySelector('[data-testid=kv-cache-view]').style.width = ''; }")
    page.wait_for_function("height => document.querySelector('.pk-texts-scroll').clientHeight === height", arg=small[0])
    # who goes back stays there
    at(lab_page, "start").click()
    let(11)
    page.wait_for_function(
        "was => document.querySelector('[data-testid=counter]').textContent !== `event 0 / ${was}`", arg=counter[1])
    assert at(lab_page, "counter").inner_text().startswith("event 0 / ") and lines(lab_page) == {}
    at(lab_page, "end").click()
    let(1000)
    page.wait_for_function("() => document.querySelector('[data-testid=live]')?.hidden", timeout=60_000)
    page.wait_for_function(
        "() => ![...document.querySelectorAll('.jp-InputPrompt')].some(each => each.textContent.includes('*'))")
    wait_for("D", "你好 .")
    assert page.locator(".pk-finished").count() == 4
    assert at(lab_page, "source").inner_text() == "live CUDA pool · NVIDIA H200"
    assert kernels(lab_page, "view.frame == len(view.recording)", "True") == "True"
    screenshot(lab_page, "kv texts after live")


SHORT = f"""{_MADE_UP}
import os, time
from pagedkv.viz import KVCacheView
manager = KVCacheManager(num_blocks=32, block_size=4)
with KVCacheView.live(manager, token_text=TOKENIZER, texts=True):
    for name in "AB":
        manager.add_sequence(TOKENIZER.encode(SYSTEM_TEXT), owner=name)
        while not os.path.exists(name):
            time.sleep(0.02)
"""


def test_what_is_kept_free_is_let_go_when_live_ends(lab_page):
    """Without a step by hand."""
    page = lab_page.page
    page.set_viewport_size({"width": 1400, "height": 1100})
    lab_page.write("short.ipynb", SHORT)
    lab_page.open("short.ipynb")
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); }")
    at(lab_page, "kv-cache-view").wait_for(timeout=30_000)
    page.locator(".pk-text-row").first.wait_for()
    assert heights(lab_page)[0] == 3 * 42
    kept = heights(lab_page)
    (lab_page._lab.work / "A").touch()
    page.locator(".pk-text-row").nth(1).wait_for()
    assert heights(lab_page)[:2] == kept[:2]
    (lab_page._lab.work / "B").touch()
    page.wait_for_function("() => document.querySelector('[data-testid=live]')?.hidden", timeout=60_000)
    page.wait_for_function("() => document.querySelector('.pk-texts-scroll').clientHeight === 84", timeout=5000)
    assert heights(lab_page)[1] <= kept[1]
