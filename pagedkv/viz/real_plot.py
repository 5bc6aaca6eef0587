"""Figures about keys and values themselves: what lies in a pool, how an online softmax goes, how a step's time grows."""

import math
from collections.abc import Callable, Mapping, Sequence

from pagedkv.viz import palette
from pagedkv.viz.picture import Picture, default_style

_MOST_BLOCKS, _MOST_TOKENS, _MOST_NUMBERS = 32, 16, 16  # more can be neither read nor told apart
_STALE = "#b9bec7"


def plot_pool(part, tables: Mapping[str, Sequence[int]], num_tokens: Mapping[str, int], columns: int = 4,
              title: str = "", marked: Sequence[int] = ()) -> Picture:
    """Blocks of one layer and one head, each number of each token a cell; a frame in its owner's colour around each
    block. Grey is what lies where no owner has a token: left by somebody else. White was never written (zero).

    part        [num_blocks, block_size, head_dim]: of a tensor, or anything that has `tolist()`
    tables      the block table of each owner
    num_tokens  how many tokens each has: where its last block ends
    marked      blocks that are to be looked at: a second frame

    Raises ValueError for more than can be drawn."""
    from matplotlib.figure import Figure
    blocks = part.tolist()
    block_size, width = len(blocks[0]), len(blocks[0][0])
    if len(blocks) > _MOST_BLOCKS or block_size > _MOST_TOKENS or width > _MOST_NUMBERS:
        raise ValueError(f"up to {_MOST_BLOCKS} blocks of {_MOST_TOKENS} tokens with {_MOST_NUMBERS} numbers can be drawn, "
                         f"got {len(blocks)} of {block_size} with {width}; take a slice")
    owned = {block: (number, owner, logical) for number, (owner, table) in enumerate(tables.items())
             for logical, block in enumerate(table)}
    most = max((abs(value) for block in blocks for token in block for value in token if math.isfinite(value)), default=0)
    rows = -(-len(blocks) // columns)
    cell = 0.13  # inches
    gap_x, gap_y = 5, 2.6  # cells between two blocks
    wide = columns * (width + gap_x) - gap_x + 5.5
    high = rows * (block_size + gap_y) + 0.4
    with default_style():
        figure = Figure(figsize=(wide * cell, high * cell + 0.3 * bool(title)))
        axes = figure.add_axes((0, 0, 1, high * cell / (high * cell + 0.3 * bool(title))))
        axes.set(xlim=(-4.5, wide - 4.5), ylim=(high - gap_y + 0.9, -gap_y + 0.5))
        axes.axis("off")
        if title:
            figure.text(0.07 / (wide * cell), 1 - 0.14 / (high * cell + 0.3), title, fontsize=9.5, weight="bold", va="center",
                        color=palette.INK)
        for block, contents in enumerate(blocks):
            x, y = block % columns * (width + gap_x), block // columns * (block_size + gap_y)
            _draw_block(axes, x, y, block, contents, owned.get(block), num_tokens, most, block in marked)
    return Picture(figure, _pool_in_words(blocks, owned, num_tokens))


def _draw_block(axes, x: float, y: float, block: int, contents, owner, num_tokens: Mapping[str, int], most: float,
                is_marked: bool) -> None:
    from matplotlib.patches import Rectangle
    block_size, width = len(contents), len(contents[0])
    filled = 0 if owner is None else max(0, min(block_size, num_tokens[owner[1]] - owner[2] * block_size))
    for offset, token in enumerate(contents):
        for number, value in enumerate(token):
            axes.add_patch(Rectangle((x + number, y + offset), 1, 1, linewidth=0,
                                     facecolor=_shade(value, most, offset < filled)))
        if offset < filled:
            axes.text(x - 0.4, y + offset + 0.55, str(owner[2] * block_size + offset), fontsize=6, ha="right", va="center",
                      color=palette.FAINT_INK)
    colour = palette.FAINT_INK if owner is None else palette.hue(owner[0])
    axes.add_patch(Rectangle((x, y), width, block_size, fill=False, edgecolor=colour, linewidth=0.7 if owner is None else 1.8))
    if is_marked:
        axes.add_patch(Rectangle((x - 0.2, y - 0.2), width + 0.4, block_size + 0.4, fill=False, edgecolor=palette.ATTENTION,
                                 linewidth=1.2, linestyle=(0, (3, 2))))
    said = f"block {block}" + (f" · {owner[1]} {owner[2]}" if owner else "")
    axes.text(x, y - 0.85, said, fontsize=7, va="center", color=palette.INK if owner else palette.FAINT_INK)


def _shade(value: float, most: float, is_live: bool) -> str:
    if not math.isfinite(value):
        return palette.ATTENTION
    if not value or not most:
        return palette.FREE if is_live else palette.PAPER
    strength = 0.25 + 0.75 * abs(value) / most
    if not is_live:
        return palette.mixed(_STALE, palette.PAPER, strength)
    return palette.mixed(palette.HUES[0] if value > 0 else palette.HUES[1], palette.PAPER, strength)


def _pool_in_words(blocks, owned, num_tokens: Mapping[str, int]) -> str:
    block_size = len(blocks[0])
    said = []
    for block, contents in enumerate(blocks):
        written = sum(any(value != 0 for value in token) for token in contents)
        broken = sum(any(not math.isfinite(value) for value in token) for token in contents)
        if block in owned:
            _, owner, logical = owned[block]
            live = max(0, min(block_size, num_tokens[owner] - logical * block_size))
            stale = sum(any(value != 0 for value in token) for token in contents[live:])
            words = f"block {block} is {owner}'s logical block {logical}, {live} of {block_size} tokens"
            if stale:
                words += f", behind them {stale} left by somebody else"
        elif written:
            words = f"block {block} has no owner, and {written} tokens left in it"
        else:
            continue
        said.append(words + (f", {broken} not finite" if broken else ""))
    return "; ".join(said) or "no block is written"


def plot_online_softmax(scores: Sequence[float], block_size: int) -> Picture:
    """One query head's scores, block by block: the running maximum m, the total with its correction, and of how much each
    block's tokens are in what was summed up so far. Up to 8 blocks."""
    from matplotlib.figure import Figure
    blocks = [list(scores[start:start + block_size]) for start in range(0, len(scores), block_size)]
    if not 0 < len(blocks) <= 8:
        raise ValueError(f"1 to 8 blocks can be drawn, got {len(blocks)}")
    steps, m, parts = [], -math.inf, []  # parts: what each block has in the total, at the current m
    for block in blocks:
        old, m = m, max(m, *block)
        correction = math.exp(old - m)
        parts = [part * correction for part in parts] + [sum(math.exp(score - m) for score in block)]
        steps.append((m, correction, list(parts)))
    with default_style():
        figure = Figure(figsize=(8.6, 3.9), layout="constrained")
        above, middle, below = figure.subplots(3, 1, sharex=True, height_ratios=[1.25, 1, 0.85])
        for number, (block, (m, correction, parts)) in enumerate(zip(blocks, steps)):
            colour = palette.hue(number)
            width = 0.8 / block_size
            for place, score in enumerate(block):
                above.bar(number - 0.4 + (place + 0.5) * width, score, width * 0.85, color=colour)
            above.plot([number - 0.45, number + 0.45], [m, m], color=palette.ATTENTION, linewidth=1.6)
            above.annotate(f"m = {m:g}", (number + 0.45, m), xytext=(0, 3), textcoords="offset points", fontsize=7.5,
                           color=palette.ATTENTION, ha="right")
            for axes, scale in ((middle, 1), (below, 1 / sum(parts))):
                bottom = 0
                for origin, part in enumerate(parts):
                    axes.bar(number, part * scale, 0.5, bottom=bottom, color=palette.hue(origin), linewidth=0)
                    bottom += part * scale
            middle.text(number, sum(parts), f"{sum(parts):.2f}", fontsize=7.5, ha="center", va="bottom", color=palette.INK)
            if number and correction < 1:
                middle.annotate(f"× {correction:.3f}", (number - 0.5, 0), xytext=(0, 10), textcoords="offset points",
                                fontsize=7.5, ha="center", color=palette.ATTENTION)
        above.axhline(0, color=palette.FAINT_INK, linewidth=0.6)
        above.margins(y=0.18)
        middle.margins(y=0.22)
        for axes, name in ((above, "scores, and m so far"), (middle, "total"), (below, "of the total, by block")):
            axes.set_title(name, fontsize=9, loc="left", color=palette.INK)
            axes.tick_params(axis="both", labelsize=7.5, colors=palette.FAINT_INK, length=0)
            for side in ("top", "right", "bottom"):
                axes.spines[side].set_visible(False)
        below.set_yticks([0, 1], ["0", "all"])
        below.set_xticks(range(len(blocks)), [f"block {number}" for number in range(len(blocks))], fontsize=8)
        below.set_xlim(-0.6, len(blocks) - 0.4)
    words = [f"after block {number} m is {m:g} and the total {sum(parts):.2f}"
             + (f", what was there before multiplied by {correction:.3f}" if number and correction < 1 else "")
             for number, (m, correction, parts) in enumerate(steps)]
    return Picture(figure, "Online softmax: " + "; ".join(words))


def plot_step_times(lengths: Sequence[int], seconds: Mapping[str, Sequence[float]],
                    curves: Mapping[str, Callable[[float], float]] | None = None, title: str = "one step") -> Picture:
    """Measured times by length, as points, and, as lines, what laws say.

    seconds   name → one time for each length
    curves    name → seconds at a length; drawn in the colour of the points of the same name, else dashed

    Raises ValueError unless there are at least two lengths, in rising order, and a time for each."""
    from matplotlib.figure import Figure
    wrong = [name for name, times in seconds.items() if len(times) != len(lengths)]
    if wrong or not seconds or len(lengths) < 2 or sorted(set(lengths)) != list(lengths):
        raise ValueError("a time for each of at least 2 lengths, in rising order, is drawn; that is not so for "
                         f"{', '.join(wrong) or 'what was given'}")
    first, last = lengths[0], lengths[-1]
    along = [first + (last - first) * part / 100 for part in range(101)]
    with default_style():
        figure = Figure(figsize=(8.6, 3.1), layout="constrained")
        axes = figure.subplots()
        colours = {name: palette.hue(number) for number, name in enumerate(seconds)}
        for name, times in seconds.items():
            axes.plot(lengths, [time * 1000 for time in times], linestyle="none", marker="o", markersize=5,
                      color=colours[name], label=name)
        for name, curve in (curves or {}).items():
            axes.plot(along, [curve(length) * 1000 for length in along], color=colours.get(name, palette.ATTENTION),
                      linewidth=1.4, linestyle="-" if name in colours else (0, (4, 3)), label=None if name in colours else name)
        axes.set(ylim=(0, None), xlim=(0, last * 1.03))
        axes.set_title(f"{title}, milliseconds", fontsize=9, loc="left", color=palette.INK)
        axes.set_xlabel("tokens", fontsize=8, color=palette.FAINT_INK)
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
        axes.tick_params(labelsize=8)
        axes.grid(axis="y", color=palette.FREE)
        axes.set_axisbelow(True)
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(loc="upper left", fontsize=8, frameon=False)
    return Picture(figure, f"{title}, milliseconds, at {', '.join(f'{length:,}' for length in lengths)} tokens: " + "; ".join(
        f"{name} {', '.join(_three_digits(1000 * time) for time in times)}" for name, times in seconds.items()))


def _three_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"
