"""The learner's copies: updated while unchanged, never overwritten once changed."""

import datetime
import json
import os

import pytest

from pagedkv.lab.copies import first_notebook, notebook_name, refresh_copies, reset

DAY = datetime.date(2026, 11, 29)


@pytest.fixture
def shipped(tmp_path):
    folder = tmp_path / "notebooks"
    (folder / "data").mkdir(parents=True)
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / "00_start_here.ipynb").write_text("start")
    (folder / "01_reference_counts.ipynb").write_text("one")
    (folder / "data" / "trace.csv").write_text("1,2")
    (folder / ".ipynb_checkpoints" / "00_start_here-checkpoint.ipynb").write_text("no")
    return folder


@pytest.fixture
def work(tmp_path, shipped):
    folder = tmp_path / "wörk"
    refresh_copies(shipped, folder)
    return folder


def kinds(actions):
    return [(action.kind, action.name) for action in actions]


def test_the_first_time_everything_is_copied_but_sources_and_dot_folders(tmp_path, shipped):
    for folder in ("source", "solved"):
        (shipped / folder).mkdir()
        (shipped / folder / "00_start_here.md").write_text("not for learners")
    work = tmp_path / "work"
    assert kinds(refresh_copies(shipped, work)) == [
        ("copied", "00_start_here.ipynb"), ("copied", "01_reference_counts.ipynb"), ("copied", "data/trace.csv")]
    assert (work / "data" / "trace.csv").read_text() == "1,2"
    assert sorted(path.name for path in work.iterdir()) == [
        ".pagedkv", "00_start_here.ipynb", "01_reference_counts.ipynb", "data"]


def test_nothing_new_nothing_done(shipped, work):
    assert refresh_copies(shipped, work) == []


def test_an_unchanged_copy_follows_the_repository(shipped, work):
    (shipped / "01_reference_counts.ipynb").write_text("newer")
    assert kinds(refresh_copies(shipped, work)) == [("updated", "01_reference_counts.ipynb")]
    assert (work / "01_reference_counts.ipynb").read_text() == "newer"
    assert refresh_copies(shipped, work) == []


def test_a_changed_copy_stays_and_is_only_mentioned_when_there_is_a_newer_one(shipped, work):
    mine = work / "01_reference_counts.ipynb"
    mine.write_text("my answer")
    assert refresh_copies(shipped, work) == []
    (shipped / mine.name).write_text("newer")
    for _ in range(2):
        [action] = refresh_copies(shipped, work)
        assert action.kind == "kept"
        assert action.message == ("01_reference_counts.ipynb has your changes; `pagedkv reset 01` brings the new one "
                                  "and keeps yours aside")
        assert mine.read_text() == "my answer"


def test_a_changed_file_beside_the_notebooks_stays_too(shipped, work):
    (work / "data" / "trace.csv").write_text("mine")
    (shipped / "data" / "trace.csv").write_text("newer")
    [action] = refresh_copies(shipped, work)
    assert action.kind == "kept" and "reset" not in action.message
    assert (work / "data" / "trace.csv").read_text() == "mine"


def test_a_copy_that_was_removed_comes_back(shipped, work):
    (work / "00_start_here.ipynb").unlink()
    assert kinds(refresh_copies(shipped, work)) == [("copied", "00_start_here.ipynb")]


@pytest.mark.parametrize("record", ["", "not json", "[]"])
def test_without_its_record_nothing_is_overwritten(shipped, work, record):
    (work / ".pagedkv" / "originals.json").write_text(record)
    (work / "01_reference_counts.ipynb").write_text("my answer")
    assert kinds(refresh_copies(shipped, work)) == [("kept", "01_reference_counts.ipynb")]
    originals = json.loads((work / ".pagedkv" / "originals.json").read_text())
    assert originals.keys() == {"00_start_here.ipynb", "data/trace.csv"}


def test_reset_keeps_the_old_one_under_a_name_never_used_before(shipped, work):
    name = "01_reference_counts.ipynb"
    for count, answer in enumerate(["first", "second"], start=1):
        (work / name).write_text(answer)
        action = reset(name, shipped, work, DAY)
        aside = f"01_reference_counts.2026-11-29-{count}.ipynb"
        assert action.message == f"{name} is fresh; yours is kept as {aside}"
        assert (work / aside).read_text() == answer
        assert (work / name).read_text() == "one"
    assert refresh_copies(shipped, work) == []


def test_reset_brings_the_newer_one_which_then_follows_the_repository(shipped, work):
    name = "01_reference_counts.ipynb"
    (work / name).write_text("mine")
    (shipped / name).write_text("newer")
    reset(name, shipped, work, DAY)
    assert (work / name).read_text() == "newer"
    (shipped / name).write_text("newest")
    assert kinds(refresh_copies(shipped, work)) == [("updated", name)]


def test_reset_of_a_fresh_or_missing_copy_keeps_nothing_aside(shipped, work):
    name = "01_reference_counts.ipynb"
    assert reset(name, shipped, work, DAY).message == f"{name} is fresh"
    (work / name).unlink()
    reset(name, shipped, work, DAY)
    assert [path.name for path in work.glob("01*")] == [name]


def test_a_write_that_fails_leaves_the_old_copy_and_no_rest(shipped, work, monkeypatch):
    (shipped / "01_reference_counts.ipynb").write_text("newer")

    def full(*_):
        raise OSError(28, "No space left on device")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError):
        refresh_copies(shipped, work)
    assert (work / "01_reference_counts.ipynb").read_text() == "one"
    assert not list(work.glob(".pagedkv-*"))


@pytest.mark.parametrize("number", ["1", "01"])
def test_a_notebook_by_its_number(shipped, number):
    assert notebook_name(number, shipped) == "01_reference_counts.ipynb"


@pytest.mark.parametrize("number", ["7", "", "xx", "../01"])
def test_a_number_that_is_not_there(shipped, number):
    with pytest.raises(ValueError, match="Numbers there are: 00, 01"):
        notebook_name(number, shipped)


def test_the_first_notebook(shipped, tmp_path):
    assert first_notebook(shipped) == "00_start_here.ipynb"
    assert first_notebook(tmp_path / "none") is None
