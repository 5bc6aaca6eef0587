"""The cache: where it is, what counts as whole, and that a folder gets into its place in one step."""

import json
import os
from pathlib import Path

import pytest

from pagedkv.model import ModelNotAvailable, cache


def finished(folder: Path, weights: bytes = b"w" * 100) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").write_bytes(weights)
    cache.finish(folder, "a test")
    return folder


def test_a_named_folder_comes_first(monkeypatch, tmp_path):
    monkeypatch.setenv("PAGEDKV_MODEL_CACHE", str(tmp_path / "x"))
    assert cache.model_folder() == tmp_path / "x" / "SmolLM2-135M-Instruct"


@pytest.mark.skipif(os.name == "nt", reason="the folders of POSIX systems")
@pytest.mark.parametrize("platform, xdg, expected", [
    ("linux", None, "home/.cache"), ("linux", "{}/xdg", "xdg"), ("linux", "relative", "home/.cache"),
    ("darwin", "{}/xdg", "home/Library/Caches")])
def test_else_the_cache_folder_of_the_user(monkeypatch, tmp_path, platform, xdg, expected):
    monkeypatch.delenv("PAGEDKV_MODEL_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr("sys.platform", platform)
    if xdg:
        monkeypatch.setenv("XDG_CACHE_HOME", xdg.format(tmp_path))
    assert cache.models_folder() == tmp_path / expected / "pagedkv" / "models"


def test_nobody_knows_the_home(monkeypatch):
    monkeypatch.delenv("PAGEDKV_MODEL_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def nobody():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nobody)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(ModelNotAvailable, match="determine home directory. Let PAGEDKV_MODEL_CACHE name one"):
        cache.models_folder()


def test_a_finished_folder_is_whole(tmp_path):
    folder = finished(tmp_path / "m")
    assert cache.what_is_wrong(folder) is None and cache.what_is_wrong(folder, every_byte=True) is None
    assert cache.read_marker(folder)["source"] == "a test"


def test_all_files_can_be_read_by_those_who_can_read_the_first(tmp_path):
    folder = tmp_path / "m"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    (folder / "model.safetensors").touch(mode=0o600)
    cache.finish(folder, "a test")
    assert (folder / "model.safetensors").stat().st_mode == (folder / "config.json").stat().st_mode


def damage(folder, how):
    weights, marker = folder / "model.safetensors", folder / cache.MARKER
    match how:
        case "truncated":
            weights.write_bytes(b"w" * 60)
        case "file gone":
            weights.unlink()
        case "no marker":
            marker.unlink()
        case "half a marker":
            marker.write_bytes(marker.read_bytes()[:30])
        case "marker of something else":
            marker.write_text(json.dumps(["files"]))
        case "old format":
            marker.write_text(json.dumps(json.loads(marker.read_text()) | {"format": 0}))
        case "small file changed":
            (folder / "config.json").write_text("[]")


@pytest.mark.parametrize("how, reason", [
    ("truncated", "model.safetensors has 60 bytes instead of 100"), ("file gone", "model.safetensors cannot be read"),
    ("no marker", "never finished"), ("half a marker", "never finished"),
    ("marker of something else", "never finished"), ("old format", "another version"),
    ("small file changed", "config.json is not what was written")])
def test_what_is_damaged_is_named(tmp_path, how, reason):
    folder = finished(tmp_path / "m")
    damage(folder, how)
    assert reason in cache.what_is_wrong(folder)


def test_what_is_not_there(tmp_path):
    assert cache.what_is_wrong(tmp_path / "m") == "it is not there"


def test_a_changed_byte_in_the_weights_is_found_when_every_byte_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(cache, "_SMALL_BYTES", 50)  # so that 100 bytes count as large
    folder = finished(tmp_path / "m")
    (folder / "model.safetensors").write_bytes(b"w" * 99 + b"v")
    assert cache.what_is_wrong(folder) is None
    assert cache.what_is_wrong(folder, every_byte=True) == "model.safetensors is not what was written"


def test_putting_in_place(tmp_path):
    folder = tmp_path / "place"
    cache.put_in_place(finished(tmp_path / "first"), folder)
    assert cache.what_is_wrong(folder) is None
    damage(folder, "truncated")
    cache.put_in_place(finished(tmp_path / "second"), folder)
    assert cache.what_is_wrong(folder) is None
    assert [path.name for path in tmp_path.iterdir()] == ["place"]


@pytest.mark.skipif(os.name == "nt", reason="Windows does not let an open file's folder be renamed")
def test_who_has_the_old_one_open_keeps_it(tmp_path):
    folder = finished(tmp_path / "place", b"old")
    with open(folder / "model.safetensors", "rb") as reader:
        cache.put_in_place(finished(tmp_path / "second", b"new"), folder)
        assert reader.read() == b"old"
    assert (folder / "model.safetensors").read_bytes() == b"new"
