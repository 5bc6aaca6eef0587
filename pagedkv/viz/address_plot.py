"""The picture of an address for print: the sequence, the block table, the pool, and the sums. front/address_layout.js
and address_picture.js draw the same for the screen.

A picture at a step shows what has been said by then and asks for the next; it tells nothing of what follows.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pagedkv.core.block_table import Location, locate
from pagedkv.viz import palette
from pagedkv.viz.picture import Picture, default_style, shortened
from pagedkv.viz.words import count

NUM_STEPS = 4
STEP_NAMES = ("position", "logical block", "offset", "physical block", "slot")
_RULES = ("", "position // block_size", "position % block_size", "block_table[logical block]",
          "physical block * block_size + offset")
_WIDTH, _PIXELS = 920, 100  # the front end's pixels, and how many of them are an inch
_MARGIN, _GAP, _HEADING, _PITCH, _BAR, _ENTRY, _WIDEST_CELL, _LINE = 16, 58, 66, 35, 17, 38, 44, 23
_MOST_ROWS, _MOST_POOL_ROWS = 10, 20
_FEWEST_PIXELS = 3.5  # of a cell that still has an edge
_CHARACTER = 5.6  # pixels
_OWN = palette.mixed(palette.HUES[0], palette.PAPER, 0.24)
_LINE_COLOUR = palette.mixed(palette.INK, palette.PAPER, 0.3)


@dataclass(frozen=True)
class Address:
    """What an AddressView shows, at one position."""

    block_table: list[int]
    block_size: int
    num_blocks: int
    num_tokens: int
    tokens: list[str]
    position: int

    @property
    def place(self) -> Location:
        """Where the position lies. One below 0: what Python would read if `locate` did not refuse it."""
        if self.position >= 0:
            return locate(self.block_table, self.position, self.block_size)
        logical_block, offset = divmod(self.position, self.block_size)
        physical_block = self.block_table[logical_block]
        return Location(self.position, logical_block, offset, physical_block, physical_block * self.block_size + offset)

    @property
    def row(self) -> int:
        """The table's row that is read, counted from 0."""
        return self.place.logical_block % len(self.block_table)

    @property
    def java_slot(self) -> int | None:
        """For a position below 0, the slot that Java's / and % lead to; None where Java ends with an exception."""
        if not -self.block_size < self.position < 0:
            return None
        slot = self.block_table[0] * self.block_size + self.position
        return slot if slot >= 0 else None


def sums(address: Address) -> list[str]:
    """The four steps as sums, after the position itself."""
    at, size = address.place, address.block_size
    return [str(at.position), f"{at.position} // {size} = {at.logical_block}", f"{at.position} % {size} = {at.offset}",
            f"block_table[{at.logical_block}] = {at.physical_block}",
            f"{at.physical_block} * {size} + {at.offset} = {at.slot}"]


def address_words(address: Address, step: int) -> str:
    """A step in one line."""
    said = [f"position {address.position:,}{' (refused)' if address.position < 0 else ''}",
            *(f"{name} {text}" for name, text in list(zip(STEP_NAMES, sums(address)))[1:step + 1])]
    return f"blocks of {count(address.block_size, 'token')} · " + " · ".join(said) + (
        f" · {STEP_NAMES[step + 1]}?" if step < NUM_STEPS else "")


def still_address(address: Address, step: int, title: str) -> Picture:
    """The picture after `step` steps."""
    from matplotlib.figure import Figure
    with default_style():
        drawing = _Drawing(address, step)
        height = drawing.height + 16 + _LINE * (NUM_STEPS + 1 + len(drawing.notes))
        figure = Figure(figsize=(_WIDTH / _PIXELS, height / _PIXELS), facecolor=palette.PAPER)
        axes = figure.add_axes([0, 0, 1, 1])
        axes.set_xlim(0, _WIDTH)
        axes.set_ylim(height, 0)
        axes.set_axis_off()
        drawing.draw(axes, title)
    return Picture(figure, f"{title} {_described(address, step)}")


def rows_of(total: int, needed: Iterable[int], most: int) -> list[tuple[int | None, int]]:
    """At most `most` rows for the numbers below `total`: each (number, 0), or (None, how many are left out). The needed
    ones come first, the most important at the beginning; then both ends."""
    if total <= most:
        return [(number, 0) for number in range(total)]
    needed, chosen = list(needed), set()
    for number in (*needed[:1], 0, total - 1, *needed, *range(min(total, most))):
        if number not in chosen and len(_with_gaps({*chosen, number}, total)) <= most:
            chosen.add(number)
    return _with_gaps(chosen, total)


def _with_gaps(numbers: set[int], total: int) -> list[tuple[int | None, int]]:
    rows, after = [], 0
    for number in sorted(numbers):
        rows += [*_gap(after, number), (number, 0)]
        after = number + 1
    return rows + _gap(after, total)


def _gap(first: int, end: int) -> list[tuple[int | None, int]]:
    """Those from `first` up to `end`: a single one takes no more room than the word that it is left out."""
    return [] if end == first else [(first, 0)] if end == first + 1 else [(None, end - first)]


def _described(address: Address, step: int) -> str:
    entries = ", ".join(f"{logical} to {block}" for logical, block in enumerate(address.block_table[:12]))
    more = ", and more" if len(address.block_table) > 12 else ""
    return " ".join([
        f"A sequence of {count(address.num_tokens, 'token')}, its block table (logical to physical: {entries}{more}),",
        f"a pool of {count(address.num_blocks, 'block')}.",
        f"After step {step} of {NUM_STEPS}: {address_words(address, step)}.", *_notes(address, step)])


def _notes(address: Address, step: int) -> list[str]:
    at, size = address.place, address.block_size
    if at.position >= 0:
        return []
    notes = [f"Refused: locate(block_table, {at.position}, {size}) raises an IndexError; without one the sum would go "
             "through."]
    if step == NUM_STEPS:
        notes.append(f"Python reads slot {at.slot:,} without a word.")
        notes.append("Java's / and % end with an exception." if address.java_slot is None else
                     f"Java's {at.position} / {size} is 0 and {at.position} % {size} is {at.position}: it reads slot "
                     f"{address.java_slot:,}.")
    return notes


@dataclass(frozen=True)
class _Row:
    """A block's bar, or a table's entry; number is None for a gap."""

    number: int | None
    gap: int
    x: float
    y: float
    width: float
    column: int = 0


class _Drawing:
    """Lengths are in the front end's pixels, from the top left."""

    def __init__(self, address: Address, step: int):
        self.address, self.step, self.at = address, step, address.place
        self.notes = _notes(address, step)
        table, size = address.block_table, address.block_size
        logical = rows_of(len(table), [address.row] if step >= 1 else [], _MOST_ROWS)
        label = _label_width(len(table) - 1)
        bar = min(0.36 * _WIDTH - label, size * _WIDEST_CELL)
        self.sequence = [_Row(*row, _MARGIN + label, _HEADING + i * _PITCH, bar) for i, row in enumerate(logical)]
        self.table_x = _MARGIN + label + bar + _GAP
        self.table = [_Row(*row, self.table_x, _HEADING + i * _PITCH, 2 * _ENTRY) for i, row in enumerate(logical)]
        self.pool_x = self.table_x + 2 * _ENTRY + _GAP
        self.pool_label = _label_width(address.num_blocks - 1)
        self.pool = self._lay_out_pool([number for number, _ in logical if number is not None])
        self.height = max(row.y for row in (*self.sequence, *self.pool)) + _PITCH + 4

    def _lay_out_pool(self, logical: list[int]) -> list[_Row]:
        address, step = self.address, self.step
        needed = [self.at.physical_block] if step >= 3 else []
        if step == NUM_STEPS and address.java_slot is not None:
            needed.append(address.java_slot // address.block_size)
        needed += [address.block_table[number] for number in logical]
        rows = rows_of(address.num_blocks, needed, _MOST_POOL_ROWS)
        columns = 2 if address.num_blocks > 6 else 1
        per_column, pitch = -(-len(rows) // columns), (_WIDTH - _MARGIN - self.pool_x + 18) / columns
        bar = min(pitch - 18 - self.pool_label, address.block_size * _WIDEST_CELL)
        apart = min(pitch, bar + self.pool_label + 26)
        return [_Row(*row, self.pool_x + i // per_column * apart + self.pool_label, _HEADING + i % per_column * _PITCH,
                     bar, i // per_column) for i, row in enumerate(rows)]

    def draw(self, axes, title: str) -> None:
        self.axes = axes
        address, size = self.address, self.address.block_size
        self._write(_MARGIN, 14, title, fontsize=10, weight="bold")
        self._head(_MARGIN, "sequence", f"{count(address.num_tokens, 'token')} in logical blocks of {size:,}")
        self._head(self.table_x, "block table", "logical → physical")
        self._head(self.pool_x, "pool",
                   f"{count(address.num_blocks, 'block')} of {count(size, 'slot')}; thick: this sequence's")
        self._draw_sequence()
        self._draw_table()
        self._draw_pool()
        if self.step >= 1:
            row = _row(self.sequence, address.row)
            self._arrow([(row.x + row.width + 4, row.y + _BAR / 2), (self.table_x, row.y + _BAR / 2)])
        if self.step >= 3:
            self._arrow(self._way_to_pool())
        self._draw_marks()
        self._draw_sums()

    def _draw_sequence(self) -> None:
        address, size = self.address, self.address.block_size
        for row in self.sequence:
            if self._drew_gap(row):
                continue
            here = self.step >= 1 and row.number == address.row
            self._write(row.x - 7, row.y + _BAR / 2, str(row.number), ha="right", weight="bold" if here else "normal")
            first = row.number * size
            written = max(0, min(size, address.num_tokens - first))
            self._draw_bar(row, written, here, True)
            for offset, token in enumerate(address.tokens[first:first + written]):
                self._write_token(row, offset, token)

    def _write_token(self, row: _Row, offset: int, token: str, **style) -> None:
        x, width = self._cell(row, offset)
        room, text = int((width - 3) / _CHARACTER), token.strip()
        if len(text) <= room or room >= 3:
            self._write(x + width / 2, row.y + _BAR / 2, shortened(text, room), ha="center", fontsize=6.5, **style)

    def _draw_table(self) -> None:
        for row in self.table:
            if self._drew_gap(row):
                continue
            here = row.number == self.address.row
            for side, number in enumerate((row.number, self.address.block_table[row.number])):
                x = row.x + side * _ENTRY
                self._box(x, row.y, _ENTRY, _BAR, facecolor=palette.PAPER if side else palette.FREE,
                          edgecolor=palette.FAINT_INK, linewidth=0.8)
                said = here and self.step >= (3 if side else 1)
                self._write(x + _ENTRY / 2, row.y + _BAR / 2, str(number), ha="center",
                            weight="bold" if said else "normal")

    def _draw_pool(self) -> None:
        own, size = set(self.address.block_table), self.address.block_size
        for row in self.pool:
            if self._drew_gap(row):
                continue
            here = self.step >= 3 and row.number == self.at.physical_block
            self._write(row.x - 7, row.y + _BAR / 2, str(row.number), ha="right", weight="bold" if here else "normal",
                        color=palette.INK if row.number in own else palette.FAINT_INK)
            self._draw_bar(row, size if row.number in own else 0, here, row.number in own)

    def _draw_bar(self, row: _Row, filled: int, here: bool, own: bool) -> None:
        size = self.address.block_size
        self._box(row.x, row.y, row.width, _BAR, facecolor=palette.FREE)
        self._box(row.x, row.y, row.width * filled / size, _BAR, facecolor=_OWN)
        if row.width / size >= _FEWEST_PIXELS:
            edges = [row.x + row.width * i / size for i in range(1, size)]
            self.axes.vlines(edges, row.y, row.y + _BAR, colors=palette.PAPER, linewidth=0.7)
        style = {"edgecolor": _LINE_COLOUR, "linewidth": 0.8, "linestyle": (0, (3, 2))}
        if here or own:
            style = {"edgecolor": palette.ATTENTION if here else palette.HUES[0], "linewidth": 2 if here else 1.4}
        self._box(row.x, row.y, row.width, _BAR, fill=False, **style)

    def _drew_gap(self, row: _Row) -> bool:
        if row.gap:
            self._write(row.x + 4, row.y + _BAR / 2, f"… {row.gap:,} more", color=palette.FAINT_INK)
        return bool(row.gap)

    def _way_to_pool(self) -> list[tuple[float, float]]:
        start, end = _row(self.table, self.address.row), _row(self.pool, self.at.physical_block)
        x, y, middle = start.x + start.width + 4, start.y + _BAR / 2, end.y + _BAR / 2
        target, bend = end.x - self.pool_label - 2, (start.x + start.width + self.pool_x) / 2
        if not end.column:
            return [(x, y), (bend, y), (bend, middle), (target, middle)]
        lane = end.y - 6  # between two rows of the first column
        return [(x, y), (bend, y), (bend, lane), (target - 9, lane), (target - 9, middle), (target, middle)]

    def _draw_marks(self) -> None:
        address, step, at = self.address, self.step, self.at
        token = "".join(address.tokens[address.row * address.block_size + at.offset:][:1])
        if step >= 2:
            self._mark(_row(self.sequence, address.row), at.offset, f"offset {at.offset}", token)
        if step < NUM_STEPS:
            return
        words = f"slot {at.slot:,}" if at.position >= 0 else f"Python: {at.slot:,}"
        self._mark(_row(self.pool, at.physical_block), at.offset, words, token)
        if address.java_slot is not None:
            block, offset = divmod(address.java_slot, address.block_size)
            self._mark(_row(self.pool, block), offset, f"Java: {address.java_slot:,}")

    def _mark(self, row: _Row, offset: int, text: str, token: str = "") -> None:
        """One cell, with a flag below it that says what it is."""
        x, width = self._cell(row, offset)
        shown, flag = max(width, 5), len(text) * _CHARACTER + 12
        left = min(max(row.x - 3, x + width / 2 - flag / 2), row.x + row.width - min(flag, row.width) + 3)
        self._box(x + (width - shown) / 2, row.y - 2, shown, _BAR + 4, facecolor=palette.ATTENTION, zorder=5)
        if token:
            self._write_token(row, offset, token, color=palette.PAPER, weight="bold", zorder=6)
        self._box(left, row.y + _BAR + 1.5, flag, 13.5, facecolor=palette.PAPER, edgecolor=palette.ATTENTION,
                  linewidth=0.9, zorder=5)
        self._write(left + flag / 2, row.y + _BAR + 8.5, text, ha="center", fontsize=7, weight="bold", zorder=6)

    def _draw_sums(self) -> None:
        y = self.height + 10
        for note in self.notes[:1]:
            y = self._draw_note(y, note)
        for step, (name, text, rule) in enumerate(zip(STEP_NAMES, sums(self.address), _RULES)):
            said, asked = step <= self.step, step == self.step + 1
            ink = palette.INK if said or asked else palette.FAINT_INK
            self._write(_MARGIN, y, f"{step}", color=palette.FAINT_INK)
            self._write(_MARGIN + 18, y, name, color=ink, weight="bold" if said or asked else "normal")
            self._write(_MARGIN + 124, y, text if said else "?", color=ink, family="monospace",
                        weight="bold" if said else "normal")
            token = self.address.tokens[self.at.position] if self.address.tokens and self.at.position >= 0 else ""
            aside = rule if said and step else f"the token “{shortened(token, 40)}”" if token and not step else ""
            self._write(_MARGIN + 330, y, aside, color=palette.FAINT_INK)
            y += _LINE
        for note in self.notes[1:]:
            y = self._draw_note(y, note)

    def _draw_note(self, y: float, note: str) -> float:
        self._write(_MARGIN, y, note, color="#b34700", weight="bold")
        return y + _LINE

    def _cell(self, row: _Row, offset: int) -> tuple[float, float]:
        size = self.address.block_size
        return row.x + row.width * offset / size, row.width / size

    def _head(self, x: float, name: str, words: str) -> None:
        self._write(x, _HEADING - 29, name, weight="bold", fontsize=9)
        self._write(x, _HEADING - 14, words, color=palette.FAINT_INK)

    def _write(self, x: float, y: float, text: str, **style) -> None:
        self.axes.text(x, y, text, **{"color": palette.INK, "fontsize": 8, "va": "center_baseline", **style})

    def _box(self, x: float, y: float, width: float, height: float, **style) -> None:
        from matplotlib.patches import Rectangle
        self.axes.add_patch(Rectangle((x, y), width, height, **{"linewidth": 0, **style}))

    def _arrow(self, points: list[tuple[float, float]]) -> None:
        *rest, (x, y) = points
        way = [*rest, (x - 5, y)]
        for colour, width in ((palette.PAPER, 4), (palette.ATTENTION, 1.6)):
            self.axes.plot(*zip(*way), color=colour, linewidth=width, zorder=3, solid_joinstyle="round")
        self.axes.fill([x - 9, x - 9, x - 1], [y - 4.5, y + 4.5, y], color=palette.ATTENTION, linewidth=0, zorder=4)


def _row(rows: list[_Row], number: int) -> _Row:
    return next(row for row in rows if row.number == number)


def _label_width(largest: int) -> float:
    return 10 + 7.5 * len(str(largest))
