"""The memory view in a page without Jupyter."""

import base64
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from pagedkv.viz.memory_embed import embedded
from pagedkv.viz.memory_tape import MemoryTape
from tests.viz.memory_recordings import MIB, events_of, fragmented, pinned, random_memory_recording

EVIL = '</script><script>alert(1)</script><!-- <b title="x">&amp;'


class Parts(HTMLParser):
    """The elements of a page in order, and the text of its scripts."""

    def __init__(self, html):
        super().__init__()
        self.tags, self.scripts, self.inside = [], [], False
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1] += data


def test_names_cannot_end_the_script():
    recording = events_of(("allocate", EVIL, MIB, [("reserve", 0, MIB), ("take", 0, MIB, MIB)]),
                          ("free", EVIL, MIB, [], {"error": EVIL, "message": EVIL}), source=EVIL)
    html = embedded([MemoryTape(recording, EVIL)], EVIL)
    parts = Parts(html)
    assert [tag for tag, _ in parts.tags] == ["div", "script", "style", "noscript", "script"]
    assert parts.tags[0][1]["aria-label"] == EVIL
    state = json.loads(parts.scripts[0])
    assert state["title"] == EVIL and state["tapes"][0]["owners"] == [EVIL] and state["tapes"][0]["source"] == EVIL
    assert "<" not in parts.scripts[0]


def test_the_columns_are_those_of_the_tape():
    tape = MemoryTape(random_memory_recording(4))
    packed = json.loads(Parts(embedded([tape], "t", 7)).scripts[0])
    assert packed["frame"] == 7
    sent, message = packed["tapes"][0], tape.message()
    for name in sent["packed"]:
        assert base64.b64decode(sent[name]) == message[name]
    assert {name for name, value in message.items() if isinstance(value, bytes)} == set(sent["packed"])


def test_no_address_leads_out_of_the_page():
    html = embedded([MemoryTape(fragmented()), MemoryTape(pinned())], "t")
    addresses = set(re.findall(r"https?://[\w./-]+", html))
    assert addresses == {"http://www.w3.org/2000/svg"}, "a namespace, which is not fetched"
    assert "@import" not in html and not re.search(r"^import ", html, re.MULTILINE) and "url(" not in html


def test_what_cannot_be_shown():
    with pytest.raises(TypeError, match="at least one tape"):
        embedded([], "t")
    for frame in (-1, 9):
        with pytest.raises(IndexError, match="from 0 to 8"):
            embedded([MemoryTape(fragmented())], "t", frame)


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is not on PATH")
def test_the_script_is_a_module_that_parses(tmp_path):
    script = Parts(embedded([MemoryTape(fragmented())], "t")).scripts[1]
    (tmp_path / "page.mjs").write_text(script, encoding="utf-8")
    run = subprocess.run(["node", "--check", str(tmp_path / "page.mjs")], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
