"""Notebook 00 in a real browser: the machine, the first picture, the buttons of the mapping table; and what holds for
all notebooks, shown by this one, the shortest: they run again after the kernel was restarted."""

from playwright.sync_api import expect

from pagedkv.lab.mapping_rows import ROWS
from tests.browser.solving import cell_number, open_and_run, run_from_top_to_bottom

TALL = {"width": 1280, "height": 6000}  # JupyterLab draws only what is on the screen


def test_notebook_00(lab_page, tmp_path):
    """Claim N9, among others."""
    open_and_run(lab_page, "00_start_here.ipynb", tmp_path / "p.json")
    # a restart concerns the kernel, Java and the widgets, which are the same in all notebooks
    before = lab_page.cells()
    assert lab_page.kernel("print(len(in_java))").strip() != "0"
    lab_page.restart_kernel()
    assert "NameError" in lab_page.kernel("print(len(in_java))")
    run_from_top_to_bottom(lab_page, before, tmp_path / "p.json")
    lab_page.page.set_viewport_size(TALL)
    lab_page.show_cell(0)
    look_at_machine_picture_and_words(lab_page.page)
    run_a_row_by_keyboard(lab_page)
    load_the_page_again(lab_page)
    press_every_button(lab_page.page)


def look_at_machine_picture_and_words(page):
    expect(page.locator(".jp-OutputArea-output", has_text="what that changes").first).to_contain_text("This machine will do.")
    expect(page.locator(".jp-OutputArea-output canvas").nth(1)).to_be_attached()  # the Java pool and the Python pool
    expect(page.locator(".jp-OutputArea-output", has_text="块表").first).to_contain_text("block table")


def run_a_row_by_keyboard(lab_page):
    """The write through a duplicate is seen by the original in Netty, and not by the parent of a fork."""
    page = lab_page.page
    table = page.locator(".pagedkv-mapping")
    lab_page.show_cell(cell_number(lab_page, starts="mapping_table()"))
    expect(table).to_contain_text("your guess?", use_inner_text=True)  # drawn, after the window has become so tall
    assert "misleading" not in table.inner_text()

    button = page.get_by_test_id("run-duplicate")
    button.focus()
    page.keyboard.press("Enter")
    sides = page.get_by_test_id("ran-duplicate")
    expect(sides).to_contain_text("the write was seen: true")   # Netty
    expect(sides).to_contain_text("the write was seen: False")  # our pool
    expect(sides).to_contain_text("original.retainedDuplicate()")
    expect(table).to_contain_text("misleading")
    expect(button).to_have_text("Run again")
    expect(button).to_have_attribute("aria-expanded", "true")
    expect(table.get_by_role("status")).to_contain_text("misleading")

    page.get_by_role("button", name="Hide retainedDuplicate()").click()
    expect(sides).to_be_hidden()
    expect(button).to_be_focused()
    page.keyboard.press("Enter")
    expect(sides).to_be_visible()


def load_the_page_again(lab_page):
    """What a row has printed is still there, as long as the kernel runs; in the dark theme too."""
    lab_page.command("docmanager:save")
    lab_page.open("00_start_here.ipynb")
    lab_page.show_cell(0)
    expect(lab_page.page.get_by_test_id("ran-duplicate")).to_contain_text("the write was seen: true")
    lab_page.screenshot("00 row light")
    lab_page.dark()
    lab_page.screenshot("00 row dark")
    lab_page.page.set_viewport_size(TALL)


def press_every_button(page):
    page.get_by_test_id("reveal").click()
    badges = page.locator(".pagedkv-mapping .badge")
    expect(badges).to_have_count(len(ROWS))
    expect(page.locator(".pagedkv-mapping .badge.misleading")).to_have_count(2)
    keys = [button.get_attribute("data-testid").removeprefix("run-")
            for button in page.locator("[data-testid^=run-]").all()]
    assert keys == [row.key for row in ROWS]
    for key in keys:
        page.get_by_test_id(f"run-{key}").click()
        expect(page.get_by_test_id(f"ran-{key}").locator(".printed")).to_have_count(2)
    expect(page.locator(".pagedkv-mapping .error")).to_have_count(0)
