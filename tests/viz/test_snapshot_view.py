"""A snapshot in a notebook: the words of the command, and the memory in motion."""

import pickle

import pytest

from pagedkv.snapshot.demo import FILES, GROWING
from pagedkv.snapshot.errors import SnapshotError
from pagedkv.viz.snapshot_view import SnapshotView, open_snapshot
from tests.snapshot.files import BASE, MIB, block, entry, frames, free, needs_real_files, real, segment, snapshot


@pytest.fixture
def oom(tmp_path):
    path = tmp_path / "oom.pickle"
    who = frames(("a<b>.py", 1, "f"))
    path.write_bytes(pickle.dumps(snapshot(
        [segment(BASE, block(4 * MIB, frames=who), free(96 * MIB)), segment(BASE, block(2 * MIB), device=1)],
        [entry("alloc", BASE, 4 * MIB, frames=who),
         {"action": "oom", "size": 130 * MIB, "device_free": 60 * MIB, "frames": who},
         entry("snapshot", 0, 0)])))
    return path


def test_what_is_wrong_and_where_to_look(oom):
    view = open_snapshot(oom)
    assert isinstance(view, SnapshotView) and view.findings[0].kind == "out of memory"
    assert "oom.pickle · CUDA snapshot, device 0" in repr(view) and "fragmentation" in repr(view)
    assert view.view.frame == 2, "it opens at the failed request"
    assert view.view is view.view
    assert view.rows == [] and "as recorded" not in view.html()


def test_the_html_is_escaped(oom):
    html = open_snapshot(oom).html()
    assert "a&lt;b&gt;.py:1 f" in html and "a<b>" not in html
    assert html.count("<div") == html.count("</div>") and html.count("<section") == html.count("</section>")


def test_other_settings_another_device_and_a_cards_size(oom):
    view = open_snapshot(oom, what_if=True, capacity_bytes=1 << 30)
    assert view.rows[0].title == "as recorded" and "as recorded" in view.html() and "as recorded" in repr(view)
    assert "outside PyTorch" in {finding.kind for finding in view.findings}
    assert open_snapshot(oom, device=1).analysis.device == 1
    with pytest.raises(SnapshotError, match="no device 5"):
        open_snapshot(oom, device=5)


def test_it_shows_itself(oom, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda *objects, **options: shown.append((objects[0], options)))
    view = open_snapshot(oom)
    view._ipython_display_()
    (words, options), (widget, _) = shown
    assert options == {"raw": True} and words["text/html"] == view.html() and words["text/plain"] == repr(view)
    assert widget is view.view


def test_an_empty_device_shows_no_picture(tmp_path, monkeypatch):
    shown = []
    monkeypatch.setattr("IPython.display.display", lambda *objects, **options: shown.append(objects[0]))
    path = tmp_path / "empty.json"
    path.write_text('{"segments": [], "device_traces": [[]]}')
    open_snapshot(path)._ipython_display_()
    assert len(shown) == 1 and "holds nothing" in shown[0]["text/html"]


def test_the_committed_recording_says_that_it_is_simulated():
    view = open_snapshot(FILES[GROWING])
    assert "growing cache" in {finding.kind for finding in view.findings}
    assert "simulated" in repr(view) and "simulated" in view.view.recording.source


@needs_real_files
def test_a_real_snapshot(tmp_path):
    path = tmp_path / "training.pickle"
    path.write_bytes(pickle.dumps(real("training")))
    view = open_snapshot(path)
    assert len(view.view.recording) == 22331 and view.view.frame == view.history.peak_used.frame
