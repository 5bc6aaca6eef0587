"""The pictures for print."""

import io

import numpy
import pytest

from pagedkv import Replay
from pagedkv.core.events import Recording
from pagedkv.core.replay import PoolState
from pagedkv.viz import plot_grid, plot_timeline
from pagedkv.viz.palette import ATTENTION, FREE, HUES
from tests.viz.recordings import GIVEN_TWICE, SHARED_AND_CACHED, random_recording, told


def colours(picture):
    """How many pixels have each colour."""
    from matplotlib.image import imread
    pixels = (imread(io.BytesIO(picture.png()))[..., :3] * 255).round().astype(int)
    values, counts = numpy.unique(pixels.reshape(-1, 3), axis=0, return_counts=True)
    return {"#" + "".join(f"{part:02x}" for part in value): count for value, count in zip(values, counts)}


def test_the_words_of_a_grid():
    assert plot_grid(GIVEN_TWICE).alt == \
        "test pool, after event 2 of 5: 2 used (1 shared), 6 free, 1 block given out twice"
    assert plot_grid(GIVEN_TWICE, frame=0).alt == "test pool, after event 0 of 5: 0 used, 8 free"
    assert plot_grid(SHARED_AND_CACHED, frame=4, title="Now", mark=[3, 2]).alt == \
        "Now: 1 used, 1 cached, 6 free; marked: blocks 3, 2"
    assert plot_grid(PoolState(1)).alt == "pool of 1 block: 0 used, 1 free"


def test_a_picture_shows_as_png_with_its_words():
    picture = plot_grid(GIVEN_TWICE)
    data, metadata = picture._repr_mimebundle_()
    assert set(data) == {"text/plain", "image/png"} and data["text/plain"] == repr(picture) == picture.alt
    assert metadata == {"image/png": {"alt": picture.alt}}
    assert picture.png() == plot_grid(GIVEN_TWICE).png()


def test_owners_have_the_colours_of_their_order():
    seen = colours(plot_grid(told(("allocate", "A", [0, 1]), ("allocate", "B", [2])), frame=2))
    assert seen[HUES[0]] > 1.5 * seen[HUES[1]] > 0 and seen[FREE] > seen[HUES[0]]
    assert ATTENTION not in seen


def test_a_block_given_twice_shows_both_owners():
    seen = colours(plot_grid(told(("allocate", "A", [0]), ("allocate", "B", [0])), frame=2))
    assert seen[HUES[0]] > 100 and seen[HUES[1]] > 100 and seen[ATTENTION] > 20


def test_a_state_and_its_recording_look_alike():
    recording = told(("allocate", "A", [3]), ("allocate", "B", [1]), ("retain", "B", [3]))
    one = colours(plot_grid(recording, frame=3, title="x"))
    other = colours(plot_grid(Replay(recording).end(), title="x"))
    assert one == other


def test_marked_blocks_are_outlined():
    state = PoolState(8)
    assert ATTENTION in colours(plot_grid(state, mark=[2])) and ATTENTION not in colours(plot_grid(state))
    plot_grid(state, mark=[99])  # a learner's block may not exist


def test_into_axes_of_ones_own():
    from matplotlib.figure import Figure
    figure = Figure()
    left, right = figure.subplots(1, 2)
    assert plot_grid(GIVEN_TWICE, ax=left, title="yours").figure is figure
    plot_timeline(GIVEN_TWICE, ax=right)
    assert left.get_title(loc="left") == "yours" and left.collections and right.collections


def test_pyplot_is_left_alone():
    import sys
    loaded = "matplotlib.pyplot" in sys.modules
    plot_grid(GIVEN_TWICE).png()
    assert ("matplotlib.pyplot" in sys.modules) == loaded


@pytest.mark.parametrize("recording", [Recording(0), Recording(1), Recording(2049), Recording(65_536), random_recording(2)],
                         ids=lambda recording: f"{recording.num_blocks} blocks")
def test_pools_of_any_size(recording):
    assert plot_grid(recording).png().startswith(b"\x89PNG")
    assert plot_timeline(recording, frame=0).png().startswith(b"\x89PNG")


def test_a_large_pool_shows_its_owners():
    blocks = list(range(4096))
    seen = colours(plot_grid(told(("allocate", "A", blocks[:2000]), ("allocate", "B", blocks[2000:3000]), num_blocks=4096), frame=2))
    assert seen[HUES[0]] > seen[HUES[1]] > 1000


def test_the_words_of_a_timeline():
    assert plot_timeline(GIVEN_TWICE).alt == "test pool: blocks in use over 5 events; most at once 2 of 8, at the end 1"


def test_what_cannot_be_drawn():
    with pytest.raises(TypeError, match="draws a Recording or a PoolState, not a list"):
        plot_grid([1, 0])
    with pytest.raises(TypeError, match="a frame needs a recording"):
        plot_grid(PoolState(4), frame=1)
    with pytest.raises(IndexError, match="5 events, there is no frame 6"):
        plot_grid(GIVEN_TWICE, frame=6)
