"""A real JupyterLab, started as a user starts it, and a real Chromium in front of it.

PAGEDKV_SCREENSHOTS=folder keeps pictures of what the browser showed.
"""

import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook
from playwright.sync_api import Page, expect, sync_playwright

from pagedkv.java.build import checkout, ensure_built

CHROMIUM_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
                  "--disable-component-update", "--disable-sync"]
# Other tests run beside these, so no limit is tight.
START_SECONDS = 180
ACTION_SECONDS = 60
EXPECT_SECONDS = 30
SCREENSHOT_OVERLAP, MOST_PIECES = 300, 20  # CSS pixels; of a notebook


@dataclass
class Lab:
    address: str  # without path and token
    token: str
    work: Path  # where a learner's notebooks are


@pytest.fixture(scope="session")
def lab(tmp_path_factory):
    """JupyterLab on copies of its own: no test may touch a learner's files or settings."""
    ensure_built()
    home = tmp_path_factory.mktemp("lab")
    shutil.copytree(checkout() / "notebooks", home / "notebooks")
    (home / "java").symlink_to(checkout() / "java")
    folders = {name: str(home / name.lower()) for name in (
        "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR", "JUPYTERLAB_SETTINGS_DIR",
        "JUPYTERLAB_WORKSPACES_DIR", "MPLCONFIGDIR")}
    quiet = Path(folders["JUPYTERLAB_SETTINGS_DIR"], "@jupyterlab", "apputils-extension")
    quiet.mkdir(parents=True)
    (quiet / "notification.jupyterlab-settings").write_text('{"fetchNews": "false", "checkForUpdates": false}')
    # The page of the tests has to reach JupyterLab's own objects; a user's has not.
    config = Path(folders["JUPYTER_CONFIG_DIR"])
    config.mkdir()
    (config / "jupyter_config.json").write_text('{"LabApp": {"expose_app_in_browser": true}}')
    command = [sys.executable, "-m", "pagedkv", "lab", "--no-browser", "--port", str(_free_port())]
    process = subprocess.Popen(command, text=True,
                               env={**os.environ, **folders, "PAGEDKV_HOME": str(home)},
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        yield Lab(*_announced(process), home / "work")
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()


def _free_port() -> int:
    """Far from the ports that `pagedkv lab` tries by itself: another test may be starting one at the same time."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def _announced(process: subprocess.Popen) -> tuple[str, str]:
    """The address and the token that the command prints once JupyterLab answers."""
    alarm = threading.Timer(START_SECONDS, process.terminate)
    alarm.start()
    said = ""
    for line in process.stdout:
        said += line
        found = re.search(r"(http://127\.0\.0\.1:\d+)/\S*token=(\w+)", line)
        if found:
            alarm.cancel()
            threading.Thread(target=process.stdout.read, daemon=True).start()  # a full pipe would block the server
            return found.groups()
    raise AssertionError(f"JupyterLab ended before it was ready:\n{said}")


@pytest.fixture(scope="session")
def browser():
    expect.set_options(timeout=EXPECT_SECONDS * 1000)
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=os.environ.get("PAGEDKV_CHROMIUM") or shutil.which("chromium"), args=CHROMIUM_FLAGS)
        yield chromium
        chromium.close()


class LabPage:
    """A notebook open in JupyterLab, in a kernel of its own."""

    def __init__(self, page: Page, lab: Lab):
        self.page, self._lab = page, lab

    def open(self, notebook: str) -> None:
        self.page.goto(f"{self._lab.address}/lab/tree/work/{notebook}?reset&token={self._lab.token}")
        self.page.wait_for_function("() => window.jupyterapp?.shell", timeout=120_000)
        self.page.evaluate("() => window.jupyterapp.restored")
        self.page.locator(".jp-Notebook").first.wait_for(timeout=120_000)
        self.wait_until_idle()

    def write(self, notebook: str, *cells: str | nbformat.NotebookNode) -> None:
        """Put a notebook of these code cells (or these sources) among the learner's."""
        cells = [new_code_cell(cell) if isinstance(cell, str) else cell for cell in cells]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        nbformat.write(new_notebook(cells=cells, metadata={"kernelspec": kernel}), self._lab.work / notebook)

    def command(self, name: str, **arguments) -> None:
        self.page.evaluate("([name, args]) => window.jupyterapp.commands.execute(name, args)", [name, arguments])

    def run_all(self) -> None:
        """Run every cell and wait for the last one."""
        self.command("notebook:run-all-cells")
        self.wait_until_idle()

    def wait_until_idle(self, seconds: float = 180) -> None:
        self.page.wait_for_function(
            "() => window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'",
            timeout=seconds * 1000)

    def restart_kernel(self) -> None:
        self.page.evaluate("() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
        self.wait_until_idle()

    def cells(self) -> list[dict]:
        """Each code cell: its source, whether its outputs are measured, how often its kernel had run, its outputs as text,
        whether one is an error."""
        return self.page.evaluate("""() => window.jupyterapp.shell.currentWidget.content.model.sharedModel.cells
            .filter(cell => cell.cell_type === 'code').map(cell => ({
                source: cell.source, count: cell.execution_count,
                measured: (cell.getMetadata().tags ?? []).includes('measured'),
                text: cell.outputs.map(o => [].concat(o.text ?? o.data?.['text/plain'] ?? '').join('')).join(''),
                failed: cell.outputs.some(o => o.output_type === 'error')}))""")

    def kernel(self, code: str) -> str:
        """Run code in the notebook's kernel, behind the notebook's back; what it prints."""
        return self.page.evaluate("""async code => {
            const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
            const future = kernel.requestExecute({code, store_history: false});
            let printed = '';
            future.onIOPub = m => { printed += m.content.text ?? (m.content.ename ? `${m.content.ename}: ${m.content.evalue}` : ''); };
            await future.done;
            return printed;
        }""", code)

    def dark(self, dark: bool = True) -> None:
        """The theme is a setting of the lab: it stays for the next page too."""
        self.command("apputils:change-theme", theme="JupyterLab Dark" if dark else "JupyterLab Light")
        self.page.wait_for_function("light => document.body.dataset.jpThemeLight === light",
                                    arg="false" if dark else "true")

    def show_cell(self, number: int) -> None:
        """Scroll to a cell: JupyterLab draws only the cells near what is on the screen."""
        self.page.evaluate("n => window.jupyterapp.shell.currentWidget.content.scrollToItem(n)", number)

    def screenshot(self, name: str) -> None:
        """The whole notebook, where pictures are asked for: NAME.png, or NAME-1.png, NAME-2.png … from top to bottom if
        it is long. Each begins with the end of the one before."""
        folder = os.environ.get("PAGEDKV_SCREENSHOTS")
        if not folder:
            return
        size, here = self.page.viewport_size, self._scroll_to(None)["top"]
        self.page.set_viewport_size({"width": 1280, "height": 5000})
        self._scroll_to(0)
        pieces = []
        while True:
            # JupyterLab draws what has come into sight, and only then knows how high it is.
            self.page.wait_for_timeout(1000)
            pieces.append(self.page.screenshot())
            place = self._scroll_to(None)
            if place["ends"] or len(pieces) == MOST_PIECES:
                break
            self._scroll_to(place["bottom"] - SCREENSHOT_OVERLAP)
        for number, piece in enumerate(pieces, start=1):
            Path(folder, f"{name}-{number}.png" if len(pieces) > 1 else f"{name}.png").write_bytes(piece)
        self.page.set_viewport_size(size)
        self._scroll_to(here)

    def _scroll_to(self, top: float | None) -> dict:
        """Scroll the notebook, unless None. Which part of it can be seen, in CSS pixels: top, bottom;
        and whether it ends there."""
        return self.page.evaluate("""top => {
            const content = window.jupyterapp.shell.currentWidget.content, last = content.widgets.at(-1).node;
            const scroller = content.node.querySelector('.jp-WindowedPanel-outer');
            if (top !== null) scroller.scrollTop = top;
            const bottom = node => node.getBoundingClientRect().bottom;
            const ends = last.isConnected && bottom(last) <= bottom(scroller) + 1;
            return {top: scroller.scrollTop, bottom: scroller.scrollTop + scroller.clientHeight, ends};
        }""", top)


@pytest.fixture
def lab_page(lab, browser):
    context = browser.new_context(viewport={"width": 1280, "height": 1000})
    context.set_default_timeout(ACTION_SECONDS * 1000)
    page = context.new_page()
    errors = []
    # Our front end is loaded from a blob; JupyterLab's own slips, such as one that it makes now and then when it takes a
    # notebook apart, are not ours to answer for.
    page.on("pageerror", lambda error: errors.append(f"{error}\n{error.stack}") if "blob:" in (error.stack or "") else None)
    opened = LabPage(page, lab)
    yield opened
    if opened.page.evaluate("() => document.body.dataset.jpThemeLight === 'false'"):
        opened.dark(False)
    opened.page.evaluate("() => window.jupyterapp?.serviceManager.sessions.shutdownAll()")
    context.close()
    assert not errors, errors
