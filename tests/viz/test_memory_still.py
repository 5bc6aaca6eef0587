"""The memory view in print."""

import hashlib
import io
import subprocess
import sys

import numpy
import pytest

from pagedkv.core.memory import MemoryRecording
from pagedkv.viz import plot_memory
from pagedkv.viz.memory_plot import still_memory
from pagedkv.viz.memory_tape import MemoryTape
from pagedkv.viz.palette import ATTENTION, FOLLOWED, FREE, HUES
from tests.viz.memory_recordings import MIB, events_of, exhausted, fragmented, pinned, random_memory_recording


def colours(picture):
    """How many pixels have each colour."""
    from matplotlib.image import imread
    pixels = (imread(io.BytesIO(picture.png()))[..., :3] * 255).round().astype(int)
    values, counts = numpy.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    return {"#" + "".join(f"{part:02x}" for part in value): count for value, count in zip(values, counts)}


def texts(picture):
    found = picture.figure.findobj(lambda each: hasattr(each, "get_text"))
    return [text.get_text() for text in found if text.get_text()]


def test_a_refused_request_says_why():
    picture = plot_memory(fragmented())
    assert picture.alt.endswith("Fragmented: 12 MiB wanted, 24 MiB free in total, but the largest of 3 free runs has "
                                "8 MiB")
    words = texts(picture)
    assert "Why it failed: fragmented" in words and "longest: 8 MiB" in words and words.count("8 MiB") >= 2
    assert "Why it failed: exhausted" in texts(plot_memory(exhausted()))
    assert "Why it failed: exhausted" not in texts(plot_memory(exhausted(), frame=2))


def test_pieces_have_the_colours_of_their_owners_and_the_rest_is_free():
    seen = colours(plot_memory(fragmented(), frame=3))
    assert seen[HUES[2]] > 1.5 * seen[HUES[1]] > 0 and seen[FREE] > seen[HUES[2]], "C has 16 MiB, B has 8, 32 are free"
    assert HUES[4] not in seen, "E has nothing yet"


def test_an_event_is_outlined():
    assert ATTENTION in colours(plot_memory(pinned(), frame=2))
    quiet = events_of(("sync", "driver", 0, [("reserve", 0, MIB)]), ("sync", "driver", 0, []))
    assert colours(plot_memory(quiet, frame=2)).get(ATTENTION, 0) < colours(plot_memory(pinned(), frame=2))[ATTENTION]


def test_pinned_segments_are_named():
    assert any(text.startswith("Pinned: 2 segments") for text in texts(plot_memory(pinned(), frame=4)))
    assert "2 pinned segments" in plot_memory(pinned(), frame=4).alt
    assert not any(text.startswith("Pinned") for text in texts(plot_memory(fragmented())))


def test_an_owner_who_is_followed():
    tape = MemoryTape(fragmented())
    assert FOLLOWED in colours(still_memory([tape], 5, "t", "C"))
    assert FOLLOWED not in colours(still_memory([tape], 5, "t"))


def test_the_picture_is_the_same_bytes_in_another_process():
    code = ("import hashlib; from tests.viz.memory_recordings import random_memory_recording; "
            "from pagedkv.viz import plot_memory; "
            "print(hashlib.sha256(plot_memory(random_memory_recording(3)).png()).hexdigest())")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == hashlib.sha256(plot_memory(random_memory_recording(3)).png()).hexdigest()


@pytest.mark.parametrize("make", [
    lambda: [MemoryRecording(None)], lambda: [MemoryRecording(64)], lambda: [fragmented(), exhausted(), pinned()],
    lambda: [random_memory_recording(2)],
    lambda: [events_of(("allocate", "A" * 300, 1, [("reserve", 0, 1), ("take", 0, 1, 0)]))],
    lambda: [events_of(("allocate", "A\n$\\nope$", 1, [("reserve", 5, 3), ("take", 6, 1, 1)]))]])
def test_memories_of_any_kind(make):
    tapes = [MemoryTape(recording) for recording in make()]
    for frame in (0, max(len(tape) for tape in tapes)):
        assert still_memory(tapes, frame, "t").png().startswith(b"\x89PNG")


def test_what_cannot_be_drawn():
    with pytest.raises(TypeError, match="plot_memory draws a MemoryRecording, not a list"):
        plot_memory([])
    with pytest.raises(IndexError, match="8 events, there is no frame 9"):
        plot_memory(fragmented(), frame=9)


def test_pyplot_is_left_alone():
    loaded = "matplotlib.pyplot" in sys.modules
    plot_memory(fragmented()).png()
    assert ("matplotlib.pyplot" in sys.modules) == loaded
