"""What sequences read: a row of cells for each, block by block, and a mark where it is not what they wrote."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pagedkv.viz import palette
from pagedkv.viz.picture import Picture, default_style, shortened

_GAP = 0.35  # between two blocks, in cells


@dataclass(frozen=True)
class Row:
    """name        who reads
    blocks      its block table
    reads       what it finds in them, token by token; None where nothing was written
    should_read what it has written
    """

    name: str
    blocks: Sequence[int]
    reads: Sequence[int | None]
    should_read: Sequence[int]

    @property
    def wrong(self) -> list[int]:
        """The positions at which it reads another token."""
        most = max(len(self.reads), len(self.should_read))
        return [position for position in range(most)
                if position >= len(self.reads) or position >= len(self.should_read)
                or self.reads[position] != self.should_read[position]]


def plot_reads(rows: Sequence[Row], block_size: int, text: Callable[[int], str] = str, title: str = "") -> Picture:
    """text: from a token to what stands in its cell."""
    from matplotlib.figure import Figure
    longest = max(max(len(row.reads), len(row.should_read), len(row.blocks) * block_size) for row in rows)
    name_width = 0.085 * max(len(row.name) for row in rows) + 0.15  # inches
    cell = min(0.7, (9.2 - name_width) / (longest + _GAP * (longest / block_size)))
    width = name_width + cell * (_place(longest - 1, block_size) + 1) + 0.1
    with default_style():
        figure = Figure(figsize=(width, 0.72 * len(rows) + 0.12 + 0.28 * bool(title)))
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set(xlim=(-name_width / cell, (width - name_width) / cell), ylim=(len(rows), -0.12 - 0.4 * bool(title)))
        axes.axis("off")
        if title:
            axes.text(0.1 - name_width / cell, -0.25, title, fontsize=9.5, weight="bold", va="center",
                      color=palette.INK)
        for number, row in enumerate(rows):
            _draw(axes, number, row, block_size, text, cell, name_width / cell)
    return Picture(figure, "; ".join(_in_words(row, text) for row in rows))


def _place(position: int, block_size: int) -> float:
    return position + _GAP * (position // block_size)


def _draw(axes, number: int, row: Row, block_size: int, text: Callable[[int], str], cell: float, names: float) -> None:
    from matplotlib.patches import Rectangle
    wrong = set(row.wrong)
    axes.text(-names + 0.1, number + 0.55, row.name, fontsize=9, va="center", color=palette.INK)
    for logical, block in enumerate(row.blocks):
        axes.text(_place(logical * block_size, block_size), number + 0.16, f"block {block}", fontsize=7, va="center",
                  color=palette.FAINT_INK)
        axes.add_patch(Rectangle((_place(logical * block_size, block_size), number + 0.29), block_size, 0.5, fill=False,
                                 edgecolor=palette.FAINT_INK, linewidth=0.8))
    for position, token in enumerate(row.reads):
        x, bad = _place(position, block_size), position in wrong
        colour = palette.mixed(palette.ATTENTION, palette.PAPER, 0.3) if bad else palette.FREE
        axes.add_patch(Rectangle((x + 0.04, number + 0.32), 0.92, 0.44, facecolor=colour, linewidth=0))
        said = "·" if token is None else text(token)
        axes.text(x + 0.5, number + 0.55, shortened(said, max(2, int(cell / 0.075))), fontsize=8, ha="center",
                  va="center", color=palette.INK, weight="bold" if bad else "normal")
        if bad and position < len(row.should_read):
            right = shortened(text(row.should_read[position]), max(3, int(cell / 0.06)))
            axes.text(x + 0.5, number + 0.9, right, fontsize=7, ha="center", va="center", weight="bold",
                      color=palette.ATTENTION)


def _in_words(row: Row, text: Callable[[int], str]) -> str:
    reads = " ".join("·" if token is None else text(token) for token in row.reads)
    if not row.wrong:
        return f"{row.name} reads {reads}"
    should = " ".join(map(text, row.should_read))
    return f"{row.name} reads {reads}, and should read {should}"
