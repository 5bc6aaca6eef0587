"""The command, as somebody with an out-of-memory runs it: in a bare Python, on their own file."""

import json
import os
import pickle
import re
import shlex
import stat
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from pagedkv.snapshot import __main__ as command
from pagedkv.viz.snapshot_report import MARK
from tests.snapshot.files import BASE, MIB, REAL, block, entry, frames, free, needs_real_files, real, segment, snapshot

ROOT = Path(__file__).resolve().parents[2]

# everything that is not Python's own
BARE = """
import sys

class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] not in sys.stdlib_module_names | {"pagedkv", "__main__"}:
            raise ModuleNotFoundError(f"{name} is not here", name=name)

sys.meta_path.insert(0, Nothing())
sys.argv = ["pagedkv.snapshot", *sys.argv[1:]]
from runpy import run_module
run_module("pagedkv.snapshot", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def oom(tmp_path):
    """A file with a failed request in it."""
    who = frames(("torch/functional.py", 1, "cat"), ("attention.py", 88, "forward"))
    path = tmp_path / "oom.pickle"
    path.write_bytes(pickle.dumps(snapshot(
        [segment(BASE, block(4 * MIB, frames=who), free(96 * MIB)), segment(BASE + 256 * MIB, block(40 * MIB))],
        [entry("alloc", BASE, 4 * MIB, time_us=1, frames=who),
         {"action": "oom", "size": 130 * MIB, "device_free": 60 * MIB, "stream": 0, "frames": who, "time_us": 5}])))
    return path


def run(*arguments):
    return command.main([str(argument) for argument in arguments])


def bare(*arguments):
    return subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{BARE}",
                           *map(str, arguments)],
                          capture_output=True, text=True, cwd="/")


def test_the_findings_are_printed(oom, capsys):
    assert run(oom) == 0
    out = capsys.readouterr().out
    assert out.startswith("oom.pickle · CUDA snapshot, device 0\n\n"
                          "reserved 140 MiB in 2 segments, allocated 44 MiB (31.4%)")
    assert "1. Out of memory at entry 1: 130 MiB asked for; 156 MiB were free in all, but in pieces: this is " \
        "fragmentation." in out
    assert "attention.py:88 forward" in out and "\n  → try PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True" in out
    assert "expandable_segments:True  " not in out, "the table comes on demand"


def test_other_settings_on_demand(oom, capsys):
    assert run(oom, "--what-if", "--capacity", "24GiB") == 0
    out = capsys.readouterr().out
    assert "as recorded" in out and "paged, blocks of 2 MiB" in out
    assert "outside of PyTorch's allocator" in out


def test_for_programs(oom, capsys):
    assert run(oom, "--json", "--what-if") == 0
    plain = json.loads(capsys.readouterr().out)
    assert plain["findings"][0]["kind"] == "out of memory" and plain["figures"]["reserved_bytes"] == 140 * MIB
    assert plain["what_if"][0]["title"] == "as recorded" and plain["what_if"][0]["num_refused"] == 1


def test_another_device(tmp_path, capsys):
    path = tmp_path / "two.json"
    path.write_text(json.dumps(snapshot([segment(BASE, free(20 * MIB)), segment(BASE, block(2 * MIB), device=1)])))
    assert run(path) == 0 and run(path, "--device", 1) == 0
    first, second = capsys.readouterr().out.split("two.json · ")[1:]
    assert "device 0 (of 0, 1; choose with --device)" in first and "device 1" in second
    assert "torch.cuda.memory._record_memory_history()" in first, "there is no trace: how to get one"
    assert run(path, "--device", 2) == 1
    assert "no device 2; it has 0, 1" in capsys.readouterr().err


@pytest.mark.parametrize("content, what", [
    (b"", "is empty"), (b"PK\x03\x04", "torch.save"), (b"<html>", "HTML page"), (pickle.dumps(os.system), "refused"),
    (b"nothing", "_dump_snapshot"), (None, "No such file"),
])
def test_what_cannot_be_read(tmp_path, capsys, content, what):
    path = tmp_path / "x.pickle"
    if content is not None:
        path.write_bytes(content)
    assert run(path) == 1
    err = capsys.readouterr().err
    assert err.startswith("pagedkv.snapshot: ") and what in err and "x.pickle" in err


def test_a_wrong_command_line(oom, capsys):
    for wrong in ([], [oom, "--device", "x"], [oom, "--device", "-1"], [oom, "--capacity", "much"],
                  [oom, "--capacity", "3"]):
        with pytest.raises(SystemExit) as ended:
            run(*wrong)
        assert ended.value.code == 2
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        run("--help")
    assert ended.value.code == 0
    assert '_dump_snapshot("oom.pickle")' in capsys.readouterr().out


@pytest.mark.parametrize("text, size", [("24GiB", 24 << 30), ("80G", 80 << 30), ("1.5 gb", 3 << 29),
                                        ("512MiB", 512 << 20),
                                        ("25769803776", 24 << 30)])
def test_a_cards_size(text, size):
    assert command._size(text) == size


class Page(HTMLParser):
    """The elements and the text of a page, without what stands in scripts and styles."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self._inside, self.attributes = [], "", [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.attributes += attributes
        if tag in ("script", "style"):
            self._inside.append(tag)

    def handle_endtag(self, tag):
        if tag in ("script", "style"):
            self._inside.pop()

    def handle_data(self, data):
        if not self._inside:
            self.words += data


def test_the_report_has_all(oom, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert run(oom, "--html", out) == 0
    assert f"The report is in {out}" in capsys.readouterr().out
    text = out.read_text(encoding="utf-8")
    page = Page(text)
    for part in ("oom.pickle · device 0", "this is fragmentation", "What to try", "as recorded",
                 "Who has the memory at the end",
                 "attention.py:88 forward", "inactive split", "torch.cuda.memory._record_memory_history()"):
        assert part in page.words, part
    assert "prefers-color-scheme: dark" in text and MARK in text
    elsewhere = [value for name, value in page.attributes if name in ("src", "href") and value]
    assert not elsewhere and "url(" not in text and "@import" not in text, "it needs no other file"


HOSTILE = ['"><img src=x onerror=alert(1)>', "</script><script>alert(1)</script>", "<!--", "]]>", "&lt;b&gt;",
           "'\"`${alert(1)}",
           "</style><b>", "</noscript><b>", "\x1b[31m", "\u2028"]


def test_nothing_of_the_file_gets_into_the_page_as_markup(tmp_path):
    """Names of functions and files are whatever somebody wrote."""
    plain = snapshot([], [])
    for number, name in enumerate(HOSTILE):
        who = frames((f"{name}.py", 1, name))
        address = BASE + number * (1 << 30)
        plain["segments"].append(segment(address, block(4 * MIB, frames=who), free(96 * MIB), segment_type=name))
        plain["device_traces"][0] += [entry("alloc", address, 4 * MIB, frames=who, user_metadata=name),
                                      entry(name, 0, 0),
                                      {"action": "oom", "size": MIB, "frames": who}]
    plain |= {"origin": HOSTILE[1], "allocator_settings": {HOSTILE[1]: HOSTILE[0]}}
    path, tame = tmp_path / f"{HOSTILE[0].replace('/', '')}.json", tmp_path / "tame.json"
    path.write_text(json.dumps(plain))
    tame.write_text(re.sub(r"[<>&'`$\u2028\x1b]|\\u001b|\\u2028|\\\"", "", json.dumps(plain)))
    assert run(path, "--html", tmp_path / "hostile.html") == run(tame, "--html", tmp_path / "tame.html") == 0
    hostile, harmless = (Page((tmp_path / name).read_text(encoding="utf-8")) for name in ("hostile.html", "tame.html"))
    assert hostile.tags == harmless.tags, "the same elements, whatever the names are"
    assert {name for name, _ in hostile.attributes} == {name for name, _ in harmless.attributes}
    assert HOSTILE[0] in hostile.words


def test_an_earlier_report_is_replaced_and_nothing_else(oom, tmp_path, capsys):
    out = tmp_path / "report.html"
    assert run(oom, "--html", out) == 0
    out.write_text(MARK + "an earlier report")
    assert run(oom, "--html", out) == 0 and "this is fragmentation" in out.read_text()
    capsys.readouterr()

    other = tmp_path / "thesis.html"
    other.write_text("<html>years of work")
    for target, why in ((other, "is not an earlier report"), (oom, "is the snapshot itself"),
                        (tmp_path, "is not a file"),
                        (tmp_path / "missing" / "report.html", "there is no folder")):
        assert run(oom, "--html", target) == 1
        assert why in capsys.readouterr().err
    assert other.read_text() == "<html>years of work"


def test_a_report_that_cannot_be_finished_leaves_the_earlier_one(oom, tmp_path, monkeypatch, capsys):
    out = tmp_path / "report.html"
    out.write_text(MARK + "an earlier report")
    monkeypatch.setattr(os, "replace", lambda *a: (_ for _ in ()).throw(OSError(28, "No space left on device",
                                                                                str(out))))
    assert run(oom, "--html", out) == 1
    assert "No space left on device" in capsys.readouterr().err
    assert out.read_text() == MARK + "an earlier report"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["oom.pickle", "report.html"], "no half file is left"


@pytest.mark.skipif(os.name != "posix", reason="permissions are posix's")
def test_a_report_may_be_read_as_any_other_file(oom, tmp_path):
    out, plain = tmp_path / "report.html", tmp_path / "plain"
    plain.write_text("")
    assert run(oom, "--html", out) == 0
    assert stat.S_IMODE(out.stat().st_mode) == stat.S_IMODE(plain.stat().st_mode)


@needs_real_files
@pytest.mark.parametrize("name", REAL)
def test_in_a_bare_python(tmp_path, name):
    """No torch, no Jupyter, no matplotlib, no JDK, not even numpy."""
    path, out = tmp_path / f"{name}.pickle", tmp_path / "report.html"
    path.write_bytes(pickle.dumps(real(name)))
    ended = bare(path, "--html", out, "--what-if")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == "" and "as recorded" in ended.stdout
    assert MARK in out.read_text(encoding="utf-8")
    assert bare("-h").returncode == 0


def test_the_bare_python_of_these_tests_is_bare():
    ended = subprocess.run([sys.executable, "-c", BARE.partition("sys.argv")[0] + "import anywidget"],
                           capture_output=True, text=True)
    assert "anywidget is not here" in ended.stderr


def test_a_reader_that_stops_reading(oom):
    command = shlex.join([sys.executable, "-m", "pagedkv.snapshot", str(oom), "--what-if"])
    ended = subprocess.run(f"{command} | head -1", shell=True, cwd=ROOT, capture_output=True, text=True)
    assert ended.stdout.startswith("oom.pickle") and "Traceback" not in ended.stderr


def test_a_terminal_that_lacks_characters(oom):
    ended = subprocess.run([sys.executable, "-m", "pagedkv.snapshot", str(oom)], cwd=ROOT, capture_output=True,
                           env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert ended.returncode == 0 and b"Out of memory" in ended.stdout


def test_progress_for_a_large_file(monkeypatch, capsys):
    progress = command._Progress()
    progress._wanted = True
    progress.entries("reading")(100_000, 300_000)
    progress.tell("drawing", 50)
    progress.done()
    assert capsys.readouterr().err == "\r\x1b[Kreading: 33% …\r\x1b[K"
