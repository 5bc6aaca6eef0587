"""The address view in a real JupyterLab: guessing each step, what the kernel hears of it, and another position."""

from tests.browser.test_block_grid import at, kernels

SHOWN = "from pagedkv.viz import AddressView\nview = AddressView([9, 4, 7])\nview"


def test_guess_each_step_and_look_at_a_position_that_is_refused(lab_page):
    lab_page.write("address.ipynb", SHOWN)
    lab_page.open("address.ipynb")
    lab_page.run_all()
    root = at(lab_page, "address-view")
    root.wait_for(timeout=30_000)
    picture = at(lab_page, "picture")
    assert "Nothing is marked yet" in picture.get_attribute("aria-label")

    at(lab_page, "guess-1").fill("5")
    at(lab_page, "guess-1").press("Enter")
    assert at(lab_page, "said-1").inner_text() == "✗ 5 is the offset in the block, not the block."
    assert kernels(lab_page, "view.step, len(view.guesses)", "(0, 1)") == "(0, 1)"
    lab_page.screenshot("address view guess")
    lab_page.page.set_viewport_size({"width": 1280, "height": 1000})
    at(lab_page, "guess-1").fill("2")
    at(lab_page, "guess-1").press("Enter")
    assert at(lab_page, "sum-1").inner_text() == "37 // 16 = 2"
    assert at(lab_page, "verdict-1").inner_text() == "✓ right, with guess 2"
    right = "{'step': 1, 'value': 2, 'right': True}"
    assert kernels(lab_page, "view.guesses[-1]", right) == right
    lab_page.page.keyboard.type("5")  # the next field has the focus
    lab_page.page.keyboard.press("Enter")
    assert at(lab_page, "sum-2").inner_text() == "37 % 16 = 5"

    root.press("ArrowRight")  # on, without a guess: it asks, and tells nothing
    assert "Guess first" in at(lab_page, "said-3").inner_text()
    assert kernels(lab_page, "view.step", "2") == "2"
    at(lab_page, "reveal-3").click()
    assert at(lab_page, "sum-3").inner_text() == "block_table[2] = 7"
    box = picture.bounding_box()
    block, row = lab_page.page.locator(".addr-block").nth(3 + 7).bounding_box(), 16  # after the sequence's three
    picture.click(position={"x": block["x"] - box["x"] + block["width"] * 0.5 / row, "y": block["y"] - box["y"] + 8})
    assert at(lab_page, "said-4").inner_text() == "✗ 112 is the first slot of block 7: the offset is missing."
    picture.click(position={"x": block["x"] - box["x"] + block["width"] * 5.5 / row, "y": block["y"] - box["y"] + 8})
    assert at(lab_page, "sum-4").inner_text() == "7 * 16 + 5 = 117"
    assert "slot 117" in at(lab_page, "outcome").inner_text()
    assert kernels(lab_page, "view.step", "4") == "4"
    lab_page.screenshot("address view")
    lab_page.page.set_viewport_size({"width": 1280, "height": 1000})
    root.press("ArrowLeft")
    root.press("ArrowLeft")
    assert kernels(lab_page, "view.step", "2") == "2"
    root.press("ArrowRight")
    assert kernels(lab_page, "view.step", "3") == "3", "seen before: it does not ask again"

    lab_page.kernel("view.position = -1")
    at(lab_page, "refused").wait_for()
    assert kernels(lab_page, "view.step, view.guesses", "(0, [])") == "(0, [])"
    assert at(lab_page, "counter").inner_text() == "step 0 of 4"
    at(lab_page, "guess-1").fill("0")
    at(lab_page, "check-1").click()
    assert "Java's -1 / 16 gives" in at(lab_page, "said-1").inner_text()
    root.focus()
    for _ in range(4):  # the focus stays where it is
        lab_page.page.keyboard.press("s")
    outcome = at(lab_page, "outcome").inner_text()
    assert "Python reads slot 127 without a word: the token at position 47." in outcome
    assert "= 143, in block 8" in outcome
    assert lab_page.page.locator(".addr-flag-text").all_text_contents() == ["offset 15", "Python: 127", "Java: 143"]

    fill = "document.querySelector('.addr-filled') && getComputedStyle(document.querySelector('.addr-filled')).fill"
    light = lab_page.page.evaluate(fill)
    lab_page.dark()
    lab_page.page.wait_for_function(f"light => {fill} !== light", arg=light)
    lab_page.screenshot("address view dark")
    lab_page.page.set_viewport_size({"width": 900, "height": 1000})
    lab_page.page.wait_for_function("""() => {
        const heads = [...document.querySelectorAll('.addr-heading')];
        const [sequence, , pool] = heads.map(each => each.getBoundingClientRect());
        return pool.top > sequence.bottom + 60; }""")
    assert root.evaluate("root => root.scrollWidth <= root.clientWidth")
    lab_page.kernel("view.position = 20")
    at(lab_page, "position").fill("99")
    at(lab_page, "position").press("Enter")
    assert "positions go from 0 to 47" in at(lab_page, "position-says").inner_text()
    at(lab_page, "position").fill("21")
    at(lab_page, "position").press("Enter")
    assert kernels(lab_page, "view.position", "21") == "21"
    assert len(lab_page.cells()) == 1, "no key reached the notebook"
