"""Figures about block tables and sizes."""

import hashlib
import subprocess
import sys

import pytest

from pagedkv.core.kv_size import HYBRID_MODELS, MODELS
from pagedkv.rivals.block_size import BlockSizeRow, sweep, sweep_all
from pagedkv.viz import plot_block_size, plot_block_tables, plot_kv_sizes, plot_sequence_bytes
from pagedkv.viz.palette import FREE, HUES
from tests.viz.test_memory_still import colours, texts

TABLES = [[13, 4, 9], [2, 7, 11, 5, 0], [], [3, 12, 6, 1]]
HELD = {"dense": 410_000_000, "two-level": 18_000_000, "linked": 51_600_000}


def test_block_tables():
    picture = plot_block_tables(TABLES)
    words = texts(picture)
    assert words.count("13") == 3, "once in each layout"
    for text in ("409.6 MB in C", "2.8 MB in C", "8.8 MB in C", "100,000 sequences × 5 blocks (dense: rows of 1,024)"):
        assert text in words
    assert "sequence 1: 2, 7, 11, 5, 0; sequence 2: none" in picture.alt
    assert picture.alt.endswith("take: dense 409.6 MB, two-level 2.8 MB, linked 8.8 MB")


def test_only_the_dense_table_has_empty_places():
    full, empty = colours(plot_block_tables([[0] * 8] * 3)), colours(plot_block_tables([[0]] * 3))
    assert FREE not in full and empty[FREE] > 5000


def test_bars_are_as_long_as_they_say():
    below = plot_block_tables(TABLES, held_bytes=HELD).figure.subfigs[1]
    bars = [patch for axes in below.axes for patch in axes.patches]
    assert [round(bar.get_width()) for bar in bars] == [409_600_000, 410_000_000, 2_800_000, 18_000_000, 8_800_000,
                                                       51_600_000]
    picture = plot_block_tables(TABLES, num_sequences=65_536, held_bytes=HELD)
    assert "51.6 MB in Python" in texts(picture) and "dense 268.4 MB (Python 410.0 MB)" in picture.alt


@pytest.mark.parametrize("tables, options", [([], {}), ([[1]] * 9, {}), ([[1] * 9], {}), ([[1] * 5], {"columns": 4}),
                                             ([[1]], {"columns": 9})])
def test_tables_that_cannot_be_drawn(tables, options):
    with pytest.raises(ValueError, match="up to 8 tables with up to 8 blocks can be drawn"):
        plot_block_tables(tables, **options)


def test_unknown_layouts():
    with pytest.raises(ValueError, match="held_bytes has the layouts dense, two-level, linked, got dense"):
        plot_block_tables(TABLES, held_bytes={"dense": 1})


def test_block_sizes():
    rows = sweep([287] * 10, (16, 32, 64), "all 287") + sweep([48], (32, 64), "one")
    picture = plot_block_size(rows)
    waste, tokens, table = picture.figure.axes
    assert list(waste.lines[0].get_ydata()) == [row.waste for row in rows[:3]]
    assert list(tokens.lines[0].get_ydata()) == [1, 1, 33] and list(tokens.lines[1].get_ydata()) == [16, 16]
    assert list(tokens.lines[2].get_ydata()) == [7.5, 15.5, 31.5], "(B − 1) / 2"
    assert list(table.lines[0].get_ydata()) == [18 * 4 + 8, 9 * 4 + 8, 5 * 4 + 8]
    assert list(waste.lines[1].get_xdata()) == [5, 6], "one has no block of 16"
    assert picture.alt == ("Wasted share of token slots by block size: all 287: 0.3% at 16, 0.3% at 32, 10.3% at 64; "
                           "one: 25.0% at 32, 25.0% at 64")
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_block_size([])


def test_kv_sizes():
    picture = plot_kv_sizes()
    assert [patch.get_width() for patch in picture.figure.axes[0].patches[:3]] == [800 << 10, 512 << 10, 320 << 10]
    words = texts(picture)
    assert {f"{name} ({shape.attention})" for name, shape in MODELS.items()} < set(words)
    assert "68.6 KiB" in words and "DeepSeek-V3 (MLA) 68.6 KiB in fp16, 34.3 KiB in int8" in picture.alt
    seen = colours(plot_kv_sizes([MODELS["Llama-2-7B"]], ("fp16", "int8", "fp32")))
    assert 1.5 < seen[HUES[2]] / seen[HUES[0]] < 2.5 and 1.5 < seen[HUES[0]] / seen[HUES[1]] < 2.5
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_kv_sizes([])
    with pytest.raises(ValueError, match="has no bytes per token"):
        plot_kv_sizes(HYBRID_MODELS.values())


def test_sequences_of_hybrid_models():
    """X3: the picture of a formula that fails."""
    picture = plot_sequence_bytes([HYBRID_MODELS["Mistral-7B-v0.1"], MODELS["Llama-3-8B"]])
    kept, by_formula, same, same_by_formula, _ = picture.figure.axes[0].lines
    assert list(kept.get_xdata()) == [0, 4096, 16_384] and list(kept.get_ydata()) == [0, 1 << 29, 1 << 29]
    assert by_formula.get_ydata()[-1] == same.get_ydata()[-1] == same_by_formula.get_ydata()[-1] == 2 << 30
    assert "Mistral-7B-v0.1 512 MiB, by the formula 2 GiB" in picture.alt
    assert plot_sequence_bytes(list(HYBRID_MODELS.values()), 1).png().startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="nothing to draw"):
        plot_sequence_bytes([])


def test_long_lists_and_odd_names():
    rows = [BlockSizeRow(f"$x_{number}$ " + "long " * 4, 16, 1, 10, 1) for number in range(8)]
    assert plot_block_size(rows).png().startswith(b"\x89PNG")


MAKE = {"tables": lambda: plot_block_tables(TABLES, held_bytes=HELD), "size": lambda: plot_block_size(sweep_all(50)),
        "kv": plot_kv_sizes, "sequence": lambda: plot_sequence_bytes(list(HYBRID_MODELS.values()))}


def test_the_pictures_are_the_same_bytes_in_another_process():
    code = ("import hashlib; from tests.viz.test_table_plot import MAKE; "
            "print(*(hashlib.sha256(make().png()).hexdigest() for make in MAKE.values()))")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.split() == [hashlib.sha256(make().png()).hexdigest() for make in MAKE.values()]
