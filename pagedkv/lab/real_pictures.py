"""Who attends to what: a row of cells for each head, or for each step, shaded by weight, and what is wrong marked."""

from collections.abc import Sequence
from dataclasses import dataclass

from pagedkv.viz import palette
from pagedkv.viz.picture import Picture, default_style

_GAP = 0.3  # between two blocks, in cells
TOLERANCE = 0.005  # of a weight: half a percent cannot be seen


@dataclass(frozen=True)
class WeightRow:
    """name       what stands at its left
    weights    what it gives to each cell, as it is; a sum of 1 is an average
    expected   what it should give
    """

    name: str
    weights: Sequence[float]
    expected: Sequence[float]

    @property
    def wrong(self) -> list[int]:
        # `not … <=` and not `>`: a weight that is not a number is wrong
        return [cell for cell, (is_now, right) in enumerate(zip(self.weights, self.expected, strict=True))
                if not abs(is_now - right) <= TOLERANCE]


def plot_weights(rows: Sequence[WeightRow], groups: Sequence[tuple[str, int]], cells: Sequence[str],
                 places: Sequence[str], title: str) -> Picture:
    """groups   (label, number of cells) of those that belong together
    cells    what stands above each cell
    places   what the description calls it
    """
    from matplotlib.figure import Figure
    starts, x = [], 0.0
    for _, size in groups:
        starts += [x + number for number in range(size)]
        x += size + _GAP
    names = 0.075 * max(len(row.name) for row in rows) + 0.2  # inches
    cell = min(0.62, (9.2 - names) / x)
    width = max(names + cell * x + 0.1, 0.075 * len(title) + 0.3)
    with default_style():
        figure = Figure(figsize=(width, 0.62 * len(rows) + 0.72))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-names / cell, (width - names) / cell), ylim=(len(rows), -1.15))
        axes.axis("off")
        axes.text(0.1 - names / cell, -0.9, title, fontsize=9.5, weight="bold", va="center", color=palette.INK)
        place = 0
        for label, size in groups:
            axes.text(starts[place], -0.42, label, fontsize=7.5, va="center", color=palette.FAINT_INK)
            place += size
        for start, label in zip(starts, cells):
            axes.text(start + 0.5, -0.12, label, fontsize=7, ha="center", va="center", color=palette.INK)
        for number, row in enumerate(rows):
            axes.text(0.1 - names / cell, number + 0.36, row.name, fontsize=8.5, va="center", color=palette.INK)
            _draw(axes, number, row, starts)
    return Picture(figure, ". ".join(_in_words(row, places) for row in rows))


def percent(weight: float) -> str:
    """Without the noise of floats: "37 %", "not a number"."""
    if weight != weight:
        return "not a number"
    if abs(weight) == float("inf"):
        return "infinite"
    return f"{round(100 * weight):,} %"


def _draw(axes, number: int, row: WeightRow, starts: Sequence[float]) -> None:
    from matplotlib.patches import Rectangle
    wrong = set(row.wrong)
    for cell, (start, weight, right) in enumerate(zip(starts, row.weights, row.expected)):
        share = min(1.0, max(0.0, weight)) if weight == weight else 1.0
        hue = palette.ATTENTION if cell in wrong else palette.HUES[2]
        colour = palette.mixed(hue, palette.FREE, 0.3 * (cell in wrong) + (0.6 if cell in wrong else 0.75) * share)
        axes.add_patch(Rectangle((start + 0.03, number + 0.1), 0.94, 0.52, facecolor=colour, linewidth=0))
        if weight != 0:
            said = percent(weight).rstrip(" %") if abs(weight) < 10 else "!"
            axes.text(start + 0.5, number + 0.36, said, fontsize=7.5, ha="center", va="center",
                      color=palette.ink_on(colour), weight="bold" if cell in wrong else "normal")
        if cell in wrong:
            axes.text(start + 0.5, number + 0.78, percent(right).rstrip(" %"), fontsize=7, ha="center", va="center",
                      weight="bold", color=palette.ATTENTION)


def _in_words(row: WeightRow, places: Sequence[str]) -> str:
    if not row.wrong:
        return f"{row.name} is right"
    told = [f"{percent(row.weights[cell])} instead of {percent(row.expected[cell])} at {places[cell]}"
            for cell in row.wrong]
    return f"{row.name} has {'; '.join(told)}"
