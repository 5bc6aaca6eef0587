"""The fragmentation lab in a real JupyterLab: what is edited and set there, and what the kernel makes of it."""

import time

import pytest
from playwright.sync_api import expect

MADE = """
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.setup import Setup
from pagedkv.rivals.static import StaticReservation
from pagedkv.rivals.workload import Request, Workload
from pagedkv.viz.fragmentation_lab import FragmentationLab
workload = Workload.parse('''
a A 64M
a B 48M
a C 72M
f A
a D 80M
g B 60M
f B
a E 12M
f C
f D
a F 96M
g F 110M
a G 33M
f F
a H 5M
a I 1500K
f G
a J 40M
g J 64M
f H
''', "twenty requests")
"""
SHOWN = """lab = FragmentationLab(workload, Setup(FirstFit), Setup(StaticReservation), Setup(PagedAllocator),
                       capacity_bytes=256 << 20, title="Three ways to lose memory")
lab"""
LONG = """
import random
draw, requests, live = random.Random(1), [], []
for number in range(20_000):
    if live and (draw.random() < 0.45 or len(live) > 120):
        requests.append(Request("free", live.pop(draw.randrange(len(live)))))
    else:
        live.append(f"request {number}")
        requests.append(Request("allocate", live[-1], draw.randrange(1 << 20, 48 << 20)))
lab = FragmentationLab(Workload("long", requests), Setup(FirstFit), Setup(PagedAllocator), capacity_bytes=2 << 30)
lab"""


@pytest.fixture
def lab_of_twenty(lab_page):
    return shown(lab_page, SHOWN)


def shown(lab_page, code):
    lab_page.write("fragmentation.ipynb", MADE, code)
    lab_page.open("fragmentation.ipynb")
    lab_page.page.evaluate("() => { document.body.dataset.copied = ''; navigator.clipboard.writeText = "
                           "async text => { document.body.dataset.copied = text; }; }")
    lab_page.run_all()
    at(lab_page, "fragmentation-lab").wait_for(timeout=60_000)
    return lab_page


def at(lab_page, name):
    return lab_page.page.get_by_test_id(name).locator("visible=true").first


def row(lab_page, number):
    """The row of request `number` in the list."""
    return lab_page.page.locator(f".lab-row[data-row='{number + 1}']").locator("visible=true").first


def current(lab_page):
    return lab_page.page.locator(".lab-row[aria-selected=true]").locator("visible=true").first.inner_text().split("\n")


def kernels(lab_page, expression, wanted, seconds=30):
    """The value of an expression in the kernel, once it is `wanted` or time is up."""
    deadline = time.monotonic() + seconds
    while (value := lab_page.kernel(f"print(({expression}))").strip()) != wanted and time.monotonic() < deadline:
        time.sleep(0.1)
    return value


def table(lab_page):
    """name of the row → its cells"""
    return lab_page.page.get_by_test_id("lab-summary").locator("visible=true").first.locator("tbody tr").evaluate_all(
        "rows => Object.fromEntries(rows.map(row => [row.cells[0].textContent, "
        "[...row.cells].slice(1).map(cell => cell.firstChild.textContent)]))")


def wait_for_table(lab_page, name, cells, seconds=30):
    deadline = time.monotonic() + seconds
    while (seen := table(lab_page)[name]) != cells and time.monotonic() < deadline:
        time.sleep(0.1)
    assert seen == cells


def wait_for_text(lab_page, name, text):
    lab_page.page.wait_for_function("([name, text]) => [...document.querySelectorAll(`[data-testid=${name}]`)].some("
                                    "each => each.textContent.includes(text))", arg=[name, text])


def test_edit_the_workload(lab_of_twenty):
    page = lab_of_twenty
    row(page, 0).click()
    assert kernels(page, "lab.frame", "1") == "1" and current(page)[1:4] == ["allocate", "A", "64 MiB"]
    row(page, 1).click()
    assert at(page, "lab-size").input_value() == "48M"
    before = table(page)

    # a size that is none is told at once, and nothing happens
    at(page, "lab-size").fill("48X")
    assert "“48X” is no size" in at(page, "lab-size-error").inner_text()
    at(page, "lab-size").press("Enter")
    assert kernels(page, "lab.workload.requests[1].size_bytes", str(48 << 20)) == str(48 << 20)
    at(page, "lab-size").fill("0.0625G")
    assert at(page, "lab-size-error").count() == 0 or not at(page, "lab-size-error").is_visible()
    at(page, "lab-size").press("Enter")
    wait_for_text(page, "lab-message", "grow B in request 5 was raised to 64 MiB as well")
    assert kernels(page, "lab.workload.requests[1].size_bytes", str(64 << 20)) == str(64 << 20)
    assert kernels(page, "lab.frame", "2") == "2", "the frame stays where it is"
    assert current(page)[1:4] == ["allocate", "B", "64 MiB"]

    # a deletion takes with it what hangs on it; undo brings all back
    row(page, 0).click()
    at(page, "lab-delete").click()
    wait_for_text(page, "lab-message", "with it goes what hangs on it: free A in request 3")
    assert kernels(page, "len(lab.workload)", "18") == "18"
    page.page.wait_for_function("() => document.querySelector('[data-testid=counter]').textContent.endsWith('/ 18')")
    at(page, "lab-undo").click()
    assert kernels(page, "len(lab.workload)", "20") == "20"
    at(page, "lab-undo").click()
    assert kernels(page, "lab.workload == workload", "True") == "True"
    wait_for_table(page, "moved", before["moved"])
    assert table(page) == before
    at(page, "lab-redo").click()
    assert kernels(page, "lab.workload.requests[1].size_bytes", str(64 << 20)) == str(64 << 20)
    at(page, "lab-reset").click()
    assert kernels(page, "lab.workload == workload", "True") == "True"

    # what cannot be is refused with the reason
    row(page, 3).click()
    at(page, "lab-new-op").select_option("allocate")
    at(page, "lab-new-owner").fill("B")
    at(page, "lab-add").click()
    wait_for_text(page, "lab-message",
                  "B has 48 MiB at this point, since request 1: free it first, or choose another owner")
    at(page, "lab-new-owner").fill("new")
    at(page, "lab-new-size").fill("7M")
    at(page, "lab-new-size").press("Enter")
    added = "('allocate', 'new', 7340032)"
    assert kernels(page, "tuple(lab.workload.requests[4])", added) == added
    page.page.wait_for_function(
        "() => document.querySelector('.lab-row[aria-selected=true]').textContent.includes('new')")
    assert kernels(page, "lab.frame", "5") == "5", "what was added is shown"
    at(page, "lab-down").click()
    assert kernels(page, "lab.workload.requests[5].owner, lab.frame", "('new', 6)") == "('new', 6)"
    at(page, "lab-copy").click()
    assert page.page.evaluate("() => document.body.dataset.copied").split("\n")[5] == "a new 7340032"
    assert page.page.evaluate("() => window.jupyterapp.shell.currentWidget.content.mode") == "command" and \
        len(page.cells()) == 2, "no key reached the notebook"


def test_by_keyboard(lab_of_twenty):
    page = lab_of_twenty
    at(page, "lab-list").focus()
    press = page.page.keyboard.press
    press("Home")
    press("ArrowDown")
    press("ArrowDown")
    assert kernels(page, "lab.frame", "2") == "2"
    press("Alt+ArrowDown")
    assert kernels(page, "lab.workload.requests[2].owner, lab.frame", "('B', 3)") == "('B', 3)"
    press("Control+z")
    assert kernels(page, "lab.workload == workload", "True") == "True"
    press("End")
    assert kernels(page, "lab.frame", "20") == "20"
    press("ArrowUp")
    press("Delete")
    wait_for_text(page, "counter", "/ 19")
    assert kernels(page, "lab.workload.requests[18].op, lab.frame", "('free', 19)") == "('free', 19)"
    press("Control+z")
    wait_for_text(page, "counter", "/ 20")
    assert kernels(page, "lab.workload == workload", "True") == "True"
    press("End")
    assert kernels(page, "lab.frame", "20") == "20"
    press("ArrowUp")
    assert kernels(page, "lab.frame", "19") == "19"
    press("Enter")
    expect(at(page, "lab-size")).to_be_focused()
    page.page.keyboard.type("41M")
    expect(at(page, "lab-size")).to_have_value("41M")
    press("Enter")
    assert kernels(page, "41 << 20 in [request.size_bytes for request in lab.workload.requests]", "True") == "True"
    assert at(page, "lab-list").get_attribute("aria-activedescendant")


def test_settings_and_capacity(lab_of_twenty):
    page = lab_of_twenty
    page.kernel("lab.frame = 12")
    wait_for_text(page, "counter", "event 12")
    before = table(page)
    slider = at(page, "lab-setting-1-max_request_bytes")
    assert slider.get_attribute("aria-valuetext") == "64 MiB"
    slider.focus()
    for _ in range(20):
        page.page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") == "84 MiB"
    assert kernels(page, "lab.setups[1].settings.get('max_request_bytes')", str(84 << 20)) == str(84 << 20)
    refused = page.kernel("print([outcome.refused_requests for outcome in lab.summary().outcomes])").strip("[] \n").split(", ")
    assert refused != before["refused requests"]
    wait_for_table(page, "refused requests", refused)
    assert kernels(page, "lab.frame", "12") == "12", "the frame stays"
    assert "event 12" in at(page, "counter").inner_text()

    # what an allocator refuses is said beside its settings, and the picture stays
    shown_before = table(page)
    at(page, "lab-setting-1-policy").select_option(label="oracle")
    wait_for_text(page, "lab-error-settings-1", "oracle")
    assert table(page) == shown_before and "oracle" not in page.kernel("print(lab.setups[1].settings)")
    at(page, "lab-setting-1-policy").select_option(label="pow2")
    page.page.wait_for_function("() => document.querySelector('[data-testid=lab-error-settings-1]').hidden")
    assert kernels(page, "lab.setups[1].settings['policy']", "pow2") == "pow2"

    at(page, "lab-capacity").fill("1.5Q")
    assert "is no size" in at(page, "lab-error-capacity").inner_text()
    at(page, "lab-capacity").fill("1G")
    at(page, "lab-capacity").press("Enter")
    assert kernels(page, "lab.capacity_bytes", str(1 << 30)) == str(1 << 30)
    wait_for_table(page, "refused requests", ["0", table(page)["refused requests"][1], "0"])
    page.kernel("lab.capacity_bytes = 128 << 20")
    page.page.wait_for_function("() => document.querySelector('[data-testid=lab-capacity]').value === '128M'")


def test_the_lab_in_both_themes(lab_of_twenty):
    page = lab_of_twenty
    page.kernel("lab.frame = 5")
    wait_for_text(page, "counter", "event 5")
    background = "getComputedStyle(document.querySelector('.lab-row[aria-selected=true]')).backgroundColor"
    light = page.page.evaluate(background)
    page.screenshot("fragmentation lab light")
    page.page.set_viewport_size({"width": 1280, "height": 1000})
    page.dark()
    page.page.wait_for_function(f"light => {background} !== light", arg=light)
    page.screenshot("fragmentation lab dark")


def test_twenty_thousand_requests(lab_page):
    page = shown(lab_page, LONG)
    rows = page.page.locator(".lab-row").locator("visible=true")
    assert rows.count() < 40, "only what is seen is there"
    at(page, "lab-list").focus()
    page.page.keyboard.press("End")
    wait_for_text(page, "counter", "event 20,000 / 20,000")
    assert current(page)[0] == "19,999"
    before = table(page)
    begin = time.monotonic()
    page.page.keyboard.press("Delete")
    wait_for_text(page, "lab-progress", "replaying on")
    answered = time.monotonic() - begin
    # while it is replayed the page is at work: another row, and another edit that overtakes the first
    page.page.keyboard.press("Home")
    wait_for_text(page, "counter", "event 0")
    page.page.keyboard.press("ArrowDown")
    at(page, "lab-size").fill("3M")
    at(page, "lab-size").press("Enter")
    both = f"{(3 << 20, 19_999)}"
    assert kernels(page, "lab.workload.requests[0].size_bytes, len(lab.workload)", both, 90) == both
    wait_for_text(page, "counter", "event 1 / 19,999")
    page.page.locator("[data-testid=lab-progress]").first.wait_for(state="hidden")
    assert answered < 10 and table(page) != before
    page.screenshot("fragmentation lab 20000 requests")
