"""Figures about keys and values themselves."""

import hashlib
import math
import subprocess
import sys

import pytest
import torch
from matplotlib.colors import to_rgba

from pagedkv.viz import plot_online_softmax, plot_pool, plot_step_times
from pagedkv.viz.palette import ATTENTION, FREE, HUES
from tests.viz.test_memory_still import colours, texts

SCORES = [1, 2, 0.5, 1.5, 2, 1, 0, 1.5, 5, 4, 1, 2, 3, 1]


def small_pool(**written):
    """[8, 4, 8]; written: block3=4 fills the first four tokens of block 3."""
    part = torch.zeros(8, 4, 8)
    for name, tokens in written.items():
        part[int(name.removeprefix("block")), :tokens] = (torch.arange(tokens * 8).view(tokens, 8) % 11 - 5) / 5
    return part


def pool_picture(part=None, **options):
    part = small_pool(block5=4, block2=3, block3=4) if part is None else part
    return plot_pool(part, {"A": [5, 2], "B": [0]}, {"A": 5, "B": 0}, **options)


def test_what_lies_in_a_pool():
    picture = pool_picture(title="Layer 0")
    words = texts(picture)
    assert {"block 5 · A 0", "block 2 · A 1", "block 0 · B 0", "block 3", "block 7"} < set(words)
    assert [word for word in words if word.isdigit()] == ["4", "0", "1", "2", "3"], "positions, where there are tokens"
    assert picture.alt == ("block 0 is B's logical block 0, 0 of 4 tokens; "
                           "block 2 is A's logical block 1, 1 of 4 tokens, behind them 2 left by somebody else; "
                           "block 3 has no owner, and 4 tokens left in it; block 5 is A's logical block 0, 4 of 4 tokens")


def test_only_an_owners_tokens_are_in_colour():
    # the frame of a block has its owner's colour too
    owned, left = (colours(plot_pool(small_pool(block1=4), {"A": [1]}, {"A": tokens})) for tokens in (4, 0))
    assert owned[HUES[1]] > 50 and HUES[1] not in left, "orange is below zero"
    assert ATTENTION not in owned and ATTENTION not in left


def test_what_is_not_finite_stands_out():
    part = small_pool(block5=4)
    part[5, 1], part[5, 2, 0] = math.nan, math.inf
    picture = pool_picture(part)
    assert picture.alt.endswith("block 5 is A's logical block 0, 4 of 4 tokens, 2 not finite")
    assert colours(picture)[ATTENTION] > 500


def test_a_block_that_is_to_be_looked_at_has_a_second_frame():
    plain, marked = (pool_picture(marked=blocks).figure.axes[0].patches for blocks in ([], [6]))
    frames = [patch for patch in marked if patch.get_edgecolor() == to_rgba(ATTENTION)]
    assert len(marked) == len(plain) + 1 and [round(frame.get_x()) for frame in frames] == [2 * 13]


def test_nothing_written_and_zero_written():
    assert plot_pool(torch.zeros(4, 4, 8), {}, {}).alt == "no block is written"
    seen = colours(plot_pool(torch.zeros(4, 4, 8), {"A": [1]}, {"A": 4}))
    assert seen[FREE] > 1000, "zeros that are somebody's are not white"


@pytest.mark.parametrize("shape", [(33, 4, 8), (8, 17, 8), (8, 4, 17)])
def test_a_pool_that_is_too_large(shape):
    with pytest.raises(ValueError, match="take a slice"):
        plot_pool(torch.zeros(shape), {}, {})


def test_an_online_softmax_is_the_softmax():
    picture = plot_online_softmax(SCORES, block_size=4)
    above, middle, below = picture.figure.axes
    words = [text.get_text() for axes in picture.figure.axes for text in axes.texts]
    assert [word for word in words if word.startswith("m =")] == ["m = 2", "m = 2", "m = 5", "m = 5"]
    assert [word for word in words if word.startswith("×")] == [f"× {math.exp(2 - 5):.3f}"]
    last = [patch.get_height() for patch in below.patches[-4:]]
    softmax = torch.tensor(SCORES).float().softmax(-1)
    assert last == pytest.approx([float(softmax[start:start + 4].sum()) for start in range(0, 16, 4)], abs=1e-6)
    totals = [f"{sum(math.exp(score - max(SCORES[:end])) for score in SCORES[:end]):.2f}" for end in (4, 8, 12, 14)]
    assert [word for word in words if word[0].isdigit()] == totals
    assert picture.alt.startswith("Online softmax: after block 0 m is 2 and the total 2.20; after block 1")
    assert "after block 2 m is 5 and the total 1.65, what was there before multiplied by 0.050" in picture.alt


@pytest.mark.parametrize("scores", [[], [1] * 33])
def test_scores_that_cannot_be_drawn(scores):
    with pytest.raises(ValueError, match="1 to 8 blocks can be drawn"):
        plot_online_softmax(scores, block_size=4)


def test_large_scores_do_not_overflow():
    assert "m is 800 and the total 1.00" in plot_online_softmax([1, 800], block_size=1).alt


def test_step_times():
    picture = plot_step_times([64, 128, 256], {"without": [0.1, 0.2, 1.5], "with": [0.05, 0.05, 0.06]},
                              {"without": lambda length: length / 640, "a guess": lambda length: length / 1000})
    [axes] = picture.figure.axes
    points, curves = axes.lines[:2], axes.lines[2:]
    assert [list(line.get_ydata()) for line in points] == [[100, 200, 1500], [50, 50, 60]]
    assert [curve.get_ydata()[-1] for curve in curves] == [400, 256] and len(curves[0].get_ydata()) == 101
    assert curves[0].get_color() == points[0].get_color() and curves[1].get_color() == ATTENTION
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["without", "with", "a guess"]
    assert picture.alt == ("one step, milliseconds, at 64, 128, 256 tokens: without 100, 200, 1,500; with 50, 50, 60")


@pytest.mark.parametrize("lengths, seconds, named", [([64, 128], {"a": [1, 2], "b": [1]}, "b"), ([64], {"a": [1]}, "what was"),
                                                     ([64, 128], {}, "what was"), ([128, 64], {"a": [1, 2]}, "what was")])
def test_times_that_cannot_be_drawn(lengths, seconds, named):
    with pytest.raises(ValueError, match=f"that is not so for {named}"):
        plot_step_times(lengths, seconds)


MAKE = {"pool": lambda: pool_picture(title="Layer 0", marked=[2]), "softmax": lambda: plot_online_softmax(SCORES, 4),
        "times": lambda: plot_step_times([64, 128, 256], {"a": [0.1, 0.2, 0.5]}, {"a": lambda length: length / 500})}


def test_the_pictures_are_the_same_bytes_in_another_process():
    code = ("import hashlib; from tests.viz.test_real_plot import MAKE; "
            "print(*(hashlib.sha256(make().png()).hexdigest() for make in MAKE.values()))")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [hashlib.sha256(make().png()).hexdigest() for make in MAKE.values()]
