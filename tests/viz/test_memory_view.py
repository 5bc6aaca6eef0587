"""The memory view as the kernel sees it; what the browser makes of it is in tests/browser/test_memory_view.py."""

import base64
import json
import subprocess
import sys

import pytest
import traitlets

import pagedkv.viz
from pagedkv.core.memory import MemoryRecording
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.workload import Workload, run
from pagedkv.viz import MemoryView, side_by_side_memory
from pagedkv.viz.memory_layout import lay_out
from tests.viz.memory_recordings import MIB, events_of, exhausted, fragmented, pinned, random_memory_recording


def test_the_line_of_text():
    view = MemoryView(fragmented(), "Holes")
    assert repr(view) == ("Holes · first fit · event 8 of 8 · 40 MiB used, 64 MiB reserved, "
                          "largest free run 8 MiB of 24 MiB, external fragmentation 67 %")
    view.frame = 0
    assert repr(view) == ("Holes · first fit · event 0 of 8 · 0 B used, 64 MiB reserved, "
                          "largest free run 64 MiB of 64 MiB, external fragmentation 0 %")
    assert repr(MemoryView(MemoryRecording(None))) == "allocator · event 0 of 0 · 0 B used, 0 B reserved"


def test_a_cell_stores_widget_text_and_picture():
    view = MemoryView(fragmented(), "Holes")
    data, metadata = view._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png", "application/vnd.jupyter.widget-view+json"}
    assert data["text/plain"] == repr(view)
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert metadata["image/png"]["alt"] == (
        "Holes (first fit), after event 8 of 8: 40 MiB used, 64 MiB reserved, largest free run 8 MiB of 24 MiB, "
        "external fragmentation 67 %. "
        "Last event: allocate(F, 12 MiB) – refused: OutOfMemory · 12 MiB wanted; 24 MiB free, the largest run 8 MiB. "
        "Fragmented: 12 MiB wanted, 24 MiB free in total, but the largest of 3 free runs has 8 MiB")


def test_frames_owners_and_speeds_that_are_not_there():
    view = MemoryView(fragmented())
    for frame in (-1, 9):
        with pytest.raises(traitlets.TraitError, match="from 0 to 8"):
            view.frame = frame
    with pytest.raises(traitlets.TraitError, match="called 'Z': there are A, B, C, D, E, F"):
        view.selected = "Z"
    view.selected = "A"
    with pytest.raises(traitlets.TraitError, match="events per second"):
        view.speed = 0


@pytest.mark.parametrize("wrong", [None, [1, 2], "recording"])
def test_what_is_not_a_recording(wrong):
    with pytest.raises(TypeError, match="a memory view shows a MemoryRecording, not a"):
        MemoryView(wrong)
    with pytest.raises(TypeError, match="a memory view shows a MemoryRecording, not a"):
        side_by_side_memory(fragmented(), wrong)


def test_side_by_side():
    views = side_by_side_memory(fragmented(), exhausted(), titles=["holes", "full"])
    assert [tape["title"] for tape in views.get_state("tapes")["tapes"]] == ["holes", "full"]
    assert views.frame == 3, "the first refusal of any"
    assert repr(views).count(" | ") == 1 and repr(views).startswith("holes · first fit · event 3 of 8")
    views.frame = 8
    assert "event 6 of 6" in repr(views), "each to its own end"
    with pytest.raises(ValueError, match="1 title for 2 recordings"):
        side_by_side_memory(fragmented(), exhausted(), titles=["one"])
    with pytest.raises(TypeError, match="at least one"):
        side_by_side_memory()


def test_guessing_is_off_at_first_and_settable():
    view = MemoryView(fragmented(), guess=True)
    assert (view.guess, view.guesses_right, view.guesses_made) == (True, 0, 0)
    assert MemoryView(fragmented()).guess is False


def test_other_recordings_in_its_place():
    view = MemoryView(fragmented())
    view.frame, view.selected = 5, "F"
    view.show_recordings([exhausted()])
    assert (view.frame, view.selected, view.recording.source) == (5, "", "first fit")
    view.show_recordings([events_of(("allocate", "A", 1, []))])
    assert view.frame == 1, "the last there is"
    view.show_recordings([fragmented(), pinned()], ["one", "two"])
    assert view.frame == 8, "who is at the end stays at the end"
    assert [tape.title for tape in view.tapes] == ["one", "two"]
    with pytest.raises(TypeError):
        view.show_recordings([])
    assert len(view.tapes) == 2, "and nothing has changed"


def test_the_state_for_the_browser():
    view = MemoryView(random_memory_recording(1), "t")
    state = view.get_state()
    tape, = state["tapes"]
    assert (tape["source"], tape["title"], tape["capacity_bytes"]) == ("test allocator", "t", 1 << 20)
    assert len(tape["ends"]) == 4 * (120 + 1) and len(tape["largest_free"]) == 8 * 121
    json.dumps({name: value for name, value in tape.items() if not isinstance(value, bytes)})


def test_closed_and_shown_again():
    view = MemoryView(fragmented())
    view.frame = 2
    view.close()
    data, _ = view._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"] == view.model_id
    assert view.frame == 2 and view.get_state("tapes")["tapes"][0]["title"] == "first fit"


def test_the_package_loads_its_parts_when_they_are_used():
    assert set(pagedkv.viz.__all__) >= {"BlockGrid", "MemoryView", "Picture", "plot_grid", "plot_memory",
                                        "plot_timeline", "side_by_side_grids", "side_by_side_memory"}
    assert set(pagedkv.viz.__all__) <= set(dir(pagedkv.viz))
    for name in pagedkv.viz.__all__:
        assert getattr(pagedkv.viz, name).__name__ == name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        pagedkv.viz.nothing  # noqa: B018
    code = "import sys, pagedkv.viz; print('anywidget' in sys.modules, 'pagedkv.viz.grid' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.stdout.split() == ["False", "False"]


def test_a_view_of_bytes_as_owner_names_that_are_markup():
    recording = events_of(("allocate", "</script><b>", MIB, [("reserve", 0, MIB), ("take", 0, MIB, MIB)]))
    assert "</script><b>" in MemoryView(recording).get_state("tapes")["tapes"][0]["owners"]


def test_a_row_may_be_given_its_bytes():
    recording = run(Workload.parse("a A 2M\na B 6M"), FirstFit(8 * MIB))
    for row_bytes, num_rows in ((8 * MIB, 1), (2 * MIB, 4)):
        view = MemoryView(recording, row_bytes=row_bytes)
        layout = lay_out(view.tapes[0], 600, 300)
        assert (layout.row_bytes, layout.num_rows) == (row_bytes, num_rows)
        view.show_recordings([recording])
        assert view.tapes[0].row_bytes == row_bytes
    for wrong, error in ((0, ValueError), (-1, ValueError), (1.5, TypeError)):
        with pytest.raises(error):
            MemoryView(recording, row_bytes=wrong)
