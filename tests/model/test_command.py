"""python -m pagedkv.model"""

import os
import subprocess
import sys

import pytest

from pagedkv.model import cache, sources
from pagedkv.model.__main__ import main
from tests.model.tiny import save_tiny, tiny_source


@pytest.fixture
def source(models, monkeypatch):
    monkeypatch.setattr(sources, "SOURCES", (("a test", tiny_source),))


def test_it_says_where_the_model_is_and_how_big(models, source, capsys):
    for _ in range(2):
        assert main([]) == 0
        last = capsys.readouterr().out.splitlines()[-1]
        assert last == f"{cache.MODEL} is in {models / cache.MODEL} (0 MB), from a test. It needs no network."


def test_it_finds_and_mends_a_changed_byte(models, source, capsys, monkeypatch):
    main([])
    monkeypatch.setattr(cache, "_SMALL_BYTES", 10_000)  # as if the weights were large
    weights = models / cache.MODEL / "model.safetensors"
    right = weights.read_bytes()
    weights.write_bytes(right[:-1] + bytes([right[-1] ^ 1]))
    assert main([]) == 0
    assert "model.safetensors is not what was written. It is made anew." in capsys.readouterr().out
    assert weights.read_bytes() == right


def test_no_traceback_when_there_is_no_model(models):
    run = subprocess.run([sys.executable, "-m", "pagedkv.model"], capture_output=True, text=True,
                         env={**os.environ, "PAGEDKV_NO_MODEL": "1"})
    assert run.returncode == 1 and run.stdout == ""
    assert "PAGEDKV_NO_MODEL is set" in run.stderr and "Traceback" not in run.stderr


def test_an_interruption(models, monkeypatch, capsys):
    def interrupted(folder, say, progress):
        raise KeyboardInterrupt

    monkeypatch.setattr(sources, "SOURCES", (("a test", interrupted),))
    assert main([]) == 130
    assert "Interrupted" in capsys.readouterr().err


def test_with_a_model_of_ones_own_nothing_is_fetched(models, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("PAGEDKV_MODEL", str(save_tiny(tmp_path / "own")))
    assert main([]) == 0
    assert "PAGEDKV_MODEL is set" in capsys.readouterr().out and not models.exists()
    monkeypatch.setenv("PAGEDKV_MODEL", str(tmp_path / "gone"))
    assert main([]) == 1
    assert "that is not a folder" in capsys.readouterr().err
