"""Figures about block tables and sizes: the three layouts, what block sizes cost, what models keep per token."""

import math
from collections.abc import Mapping, Sequence

from pagedkv.core.kv_size import MODELS, ModelShape, kv_bytes_per_token, sequence_bytes
from pagedkv.core.memory import as_text
from pagedkv.rivals.block_size import BlockSizeRow
from pagedkv.rivals.block_tables import dense_layout_bytes, linked_layout_bytes, two_level_layout_bytes
from pagedkv.viz import palette
from pagedkv.viz.picture import Picture, default_style

_LAYOUTS = ("dense", "two-level", "linked")
_MARKERS = "osD^vP"
_LAYOUT_COLOURS = dict(zip(_LAYOUTS, (palette.HUES[1], palette.HUES[2], palette.HUES[3])))
_PLACES = {"dense": (0, 1), "two-level": (1.3, 1), "linked": (1.3, 1.45)}  # where a row's first block is, and the step
_MOST_DRAWN = 8  # of rows, and of blocks in a row: more can be neither read nor told apart


def plot_block_tables(tables: Sequence[Sequence[int]], columns: int = 8, num_sequences: int = 100_000,
                      blocks_each: int = 5, dense_columns: int = 1024,
                      held_bytes: Mapping[str, int] | None = None) -> Picture:
    """The three layouts of `pagedkv.rivals.block_tables`, drawn for a few sequences, and below them bars of what the
    same layouts take for many.

    tables      the block table of each sequence that is drawn: up to 8 of up to 8 blocks
    columns     of the dense table that is drawn
    num_sequences, blocks_each, dense_columns  of the bars
    held_bytes  what Python holds for these, by layout ("dense", "two-level", "linked"): a second bar

    Raises ValueError for tables that are too many or too long to be drawn."""
    from matplotlib.figure import Figure
    longest = max(map(len, tables), default=0)
    if not 0 < len(tables) <= _MOST_DRAWN or not max(1, longest) <= columns <= _MOST_DRAWN:
        raise ValueError(f"up to {_MOST_DRAWN} tables with up to {_MOST_DRAWN} blocks can be drawn, and no more blocks "
                         f"than columns; got {len(tables)} with up to {longest} in {columns} columns")
    if held_bytes is not None and set(held_bytes) != set(_LAYOUTS):
        raise ValueError(f"held_bytes has the layouts {', '.join(_LAYOUTS)}, got {', '.join(map(str, held_bytes))}")
    entries = num_sequences * blocks_each
    layout_bytes = dict(zip(_LAYOUTS, (dense_layout_bytes(num_sequences, dense_columns),
                                       two_level_layout_bytes(num_sequences, entries),
                                       linked_layout_bytes(num_sequences, entries))))
    with default_style():
        figure = Figure(figsize=(8.6, 0.27 * len(tables) + 0.6 + (2.0 if held_bytes else 1.6)), layout="constrained")
        above, below = figure.subfigures(2, 1, height_ratios=[0.27 * len(tables) + 0.6, 2.0 if held_bytes else 1.6])
        widths = [_width(layout, columns) for layout in _LAYOUTS]
        for axes, layout in zip(above.subplots(1, 3, width_ratios=widths), _LAYOUTS):
            _draw_layout(axes, layout, tables, columns)
        _draw_bytes(below.subplots(), layout_bytes, held_bytes, f"{num_sequences:,} sequences × {blocks_each} blocks "
                    f"(dense: rows of {dense_columns:,})")
    drawn = "; ".join(f"sequence {number}: {', '.join(map(str, table)) or 'none'}"
                      for number, table in enumerate(tables))
    sizes = ", ".join(f"{layout} {_megabytes(layout_bytes[layout])}"
                      + (f" (Python {_megabytes(held_bytes[layout])})" if held_bytes else "") for layout in _LAYOUTS)
    return Picture(figure, f"Block tables in three layouts. Drawn: {drawn}. {num_sequences:,} sequences × "
                           f"{blocks_each} blocks take: {sizes}")


def _width(layout: str, columns: int) -> float:
    """In boxes, with room for a row's number at the left."""
    first, step = _PLACES[layout]
    return 0.5 + first + (columns - 1) * step + 1


def _draw_layout(axes, layout: str, tables: Sequence[Sequence[int]], columns: int) -> None:
    first, step = _PLACES[layout]
    for row, table in enumerate(tables):
        colour = palette.hue(row)
        for place in range(columns if layout == "dense" else len(table)):
            x = first + place * step
            here = place < len(table)
            _box(axes, x, row, colour if here else palette.FREE, str(table[place]) if here else "")
            if layout == "linked" and place:
                _arrow(axes, x - step + 0.92, x, row)
        if layout != "dense":
            _box(axes, 0, row, palette.PAPER, str(row), palette.FAINT_INK)
            if table:
                _arrow(axes, 0.92, first, row)
        else:
            axes.text(-0.12, row + 0.46, str(row), fontsize=7, ha="right", va="center", color=palette.FAINT_INK)
    axes.set(xlim=(-0.5, _width(layout, columns) - 0.5), ylim=(len(tables), -0.1), aspect="equal", anchor="NW")
    axes.axis("off")
    axes.set_title({"dense": "dense: a row for each", "two-level": "two-level: an array each",
                    "linked": "linked: a node for each block"}[layout], fontsize=9, loc="left", color=palette.INK)


def _box(axes, x: float, row: int, colour: str, text: str, edge: str = "none") -> None:
    from matplotlib.patches import Rectangle
    axes.add_patch(Rectangle((x, row), 0.92, 0.92, facecolor=colour, edgecolor=edge, linewidth=0.7))
    if text:
        axes.text(x + 0.46, row + 0.47, text, fontsize=7 if len(text) < 4 else 5, ha="center", va="center",
                  color=palette.ink_on(colour))


def _arrow(axes, start: float, end: float, row: int) -> None:
    axes.annotate("", (end, row + 0.46), (start, row + 0.46), annotation_clip=False,
                  arrowprops={"arrowstyle": "-|>", "linewidth": 0.7, "mutation_scale": 6, "color": palette.FAINT_INK,
                              "shrinkA": 0, "shrinkB": 0})


def _draw_bytes(axes, layout_bytes: Mapping[str, int], held_bytes: Mapping[str, int] | None, title: str) -> None:
    most = max([*layout_bytes.values(), *(held_bytes or {}).values()])
    for place, layout in enumerate(_LAYOUTS):
        bars = [("in C", layout_bytes[layout], "")] + ([("in Python", held_bytes[layout], "//")] if held_bytes else [])
        height = 0.78 / len(bars)
        for number, (where, size, hatch) in enumerate(bars):
            y = place + (number - (len(bars) - 1) / 2) * height
            axes.barh(y, size, height * 0.9, color=_LAYOUT_COLOURS[layout], hatch=hatch, edgecolor=palette.PAPER,
                      linewidth=0.5)
            axes.text(size + most / 100, y, f"{_megabytes(size)} {where}", fontsize=8, va="center", color=palette.INK)
    axes.set_yticks(range(len(_LAYOUTS)), _LAYOUTS, fontsize=9)
    axes.invert_yaxis()
    axes.set_xlim(0, most * 1.22)
    axes.set_xticks([])
    _plain(axes, "left")
    axes.spines["bottom"].set_visible(False)
    axes.set_title(title, fontsize=9, loc="left", color=palette.INK)


def plot_block_size(rows: Sequence[BlockSizeRow]) -> Picture:
    """What each block size costs, one line for each set of lengths: the share of token slots that is wasted, the wasted
    tokens of a sequence with (B − 1) / 2 beside them, and the bytes of a sequence's block table."""
    from matplotlib.figure import Figure
    if not rows:
        raise ValueError("there is nothing to draw: give the rows of a sweep")
    names = list(dict.fromkeys(row.lengths for row in rows))
    sizes = sorted({row.block_size for row in rows})
    places = {size: math.log2(size) for size in sizes}
    with default_style():
        figure = Figure(figsize=(8.6, 3.3), layout="constrained")
        panels = figure.subplots(1, 3)
        for number, name in enumerate(names):
            own = sorted((row for row in rows if row.lengths == name), key=lambda row: row.block_size)
            for axes, values in zip(panels, ([row.waste for row in own], [row.waste_tokens for row in own],
                                             [row.table_bytes / row.num_sequences for row in own])):
                axes.plot([places[row.block_size] for row in own], values, color=palette.hue(number), linewidth=1.4,
                          marker=_MARKERS[number % len(_MARKERS)], markersize=4.5, markeredgecolor=palette.PAPER,
                          markeredgewidth=0.6, label=name, clip_on=False)
        panels[1].plot(list(places.values()), [(size - 1) / 2 for size in sizes], color=palette.INK, linewidth=1,
                       linestyle=(0, (4, 3)), label="(B − 1) / 2 tokens", zorder=5)
        for axes, title in zip(panels, ("wasted, of the slots", "wasted tokens per sequence",
                                        "table bytes per sequence")):
            axes.set_title(title, fontsize=9, loc="left", color=palette.INK)
            axes.set_xticks(list(places.values()), [str(size) for size in sizes], fontsize=8)
            axes.set_xlabel("tokens per block", fontsize=8, color=palette.FAINT_INK)
            axes.tick_params(axis="y", labelsize=8)
            axes.grid(axis="y", color=palette.FREE)
            axes.set_axisbelow(True)
            _plain(axes)
        panels[0].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}".replace("%", " %"))
        panels[0].set_ylim(bottom=0)
        panels[1].set_ylim(bottom=0)
        panels[2].set_yscale("log", base=4)
        panels[2].yaxis.set_major_formatter(lambda value, _: as_text(round(value)))
        panels[2].minorticks_off()
        handles, labels = panels[1].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=8, frameon=False)
    words = "; ".join(f"{name}: " + ", ".join(f"{row.waste:.1%} at {row.block_size}"
                                              for row in rows if row.lengths == name) for name in names)
    return Picture(figure, f"Wasted share of token slots by block size: {words}")


def plot_kv_sizes(shapes: Sequence[ModelShape] | None = None, dtypes: Sequence[str] = ("fp16", "int8")) -> Picture:
    """Bytes per token of each model in each dtype, the largest first. Default: all of MODELS. Raises ValueError for a
    hybrid model, which has no bytes per token."""
    from matplotlib.figure import Figure
    shapes = list(MODELS.values()) if shapes is None else list(shapes)
    if not shapes or not dtypes:
        raise ValueError("there is nothing to draw: give at least one model and one dtype")
    sizes = {shape: [kv_bytes_per_token(shape, dtype) for dtype in dtypes] for shape in shapes}
    shapes = sorted(sizes, key=lambda shape: -sizes[shape][0])
    most = max(max(row) for row in sizes.values())
    height = 0.8 / len(dtypes)
    with default_style():
        figure = Figure(figsize=(8.6, len(shapes) * (0.17 * len(dtypes) + 0.12) + 0.7), layout="constrained")
        axes = figure.subplots()
        for number, dtype in enumerate(dtypes):
            for place, shape in enumerate(shapes):
                y = place + (number - (len(dtypes) - 1) / 2) * height
                axes.barh(y, sizes[shape][number], height * 0.9, color=palette.hue(number),
                          label=dtype if not place else None)
                axes.text(sizes[shape][number] + most / 120, y, as_text(sizes[shape][number]), fontsize=7.5,
                          va="center", color=palette.INK)
        axes.set_yticks(range(len(shapes)), [f"{shape.name} ({shape.attention})" for shape in shapes], fontsize=9)
        axes.invert_yaxis()
        axes.set_xlim(0, most * 1.1)
        axes.margins(y=0.01)
        axes.set_xticks([])
        axes.spines["bottom"].set_visible(False)
        _plain(axes, "left")
        axes.set_title("keys and values of one token, all layers", fontsize=9, loc="left", color=palette.INK)
        axes.legend(loc="lower right", fontsize=8, frameon=False)
    words = [f"{shape.name} ({shape.attention}) "
             + ", ".join(f"{as_text(size)} in {dtype}" for dtype, size in zip(dtypes, sizes[shape]))
             for shape in shapes]
    return Picture(figure, "Bytes per token: " + "; ".join(words))


def plot_sequence_bytes(shapes: Sequence[ModelShape], most_tokens: int = 16_384, dtype: str = "fp16") -> Picture:
    """How what a sequence keeps grows with its length, and, dashed, what bytes per token × length would say: the two
    part where not every layer keeps every token."""
    from matplotlib.figure import Figure
    if not shapes or most_tokens < 1:
        raise ValueError("there is nothing to draw: give at least one model and 1 token")
    kept = {shape: sequence_bytes(shape, most_tokens, dtype) for shape in shapes}
    by_formula = {shape: sequence_bytes(shape.as_full_attention(), most_tokens, dtype) for shape in shapes}
    with default_style():
        figure = Figure(figsize=(8.6, 3.05), layout="constrained")
        axes = figure.subplots()
        for number, shape in enumerate(shapes):
            colour, marker = palette.hue(number), _MARKERS[number % len(_MARKERS)]
            corners = {0, most_tokens, *(group.window_tokens for group in shape.layer_groups)}
            lengths = sorted(length for length in corners if length <= most_tokens)  # in between, the line is straight
            axes.plot(lengths, [sequence_bytes(shape, length, dtype) for length in lengths], color=colour,
                      linewidth=1.8, marker=marker, markersize=4.5, label=shape.name)
            axes.plot([0, most_tokens], [0, by_formula[shape]], color=colour, linewidth=1, linestyle=(0, (4, 3)))
        axes.plot([], [], color=palette.FAINT_INK, linewidth=1, linestyle=(0, (4, 3)), label="the same by the formula")
        ticks = [most_tokens * part // 4 for part in range(5)]
        axes.set_xticks(ticks, [f"{tick:,}" for tick in ticks], fontsize=8)
        axes.set_xlabel("tokens", fontsize=8, color=palette.FAINT_INK)
        axes.yaxis.set_major_formatter(lambda value, _: as_text(round(value)))
        axes.yaxis.set_major_locator(_binary_locator(max(*kept.values(), *by_formula.values())))
        axes.tick_params(axis="y", labelsize=8)
        axes.grid(axis="y", color=palette.FREE)
        axes.set_axisbelow(True)
        axes.set(xlim=(0, most_tokens), ylim=(0, None))
        _plain(axes)
        axes.legend(loc="upper left", fontsize=8, frameon=False)
    return Picture(figure, f"What a sequence of {most_tokens:,} tokens keeps: " + "; ".join(
        f"{shape.name} {as_text(kept[shape])}, by the formula {as_text(by_formula[shape])}" for shape in shapes))


def _binary_locator(most_bytes: int):
    """Four to eight ticks at round numbers of KiB, MiB or GiB."""
    from matplotlib.ticker import MultipleLocator
    return MultipleLocator(1 << max(0, most_bytes.bit_length() - 3))


def _plain(axes, *further_sides: str) -> None:
    for side in ("top", "right", *further_sides):
        axes.spines[side].set_visible(False)
    if further_sides:
        axes.tick_params(axis="y", length=0)


def _megabytes(size_bytes: int) -> str:
    return f"{size_bytes / 1e6:,.1f} MB"
