"""Where places and their blocks are drawn. front/steps_layout.js has the same rules for the screen.

Every place is a box with a heading. Boxes stand side by side, and in further rows where the width does not suffice;
their size is that of the fullest moment, so that nothing jumps while the story is played. A stack is a column that
stands on the bottom of its box: what lies below the top does not move when the top comes and goes. Lengths are in
pixels.
"""

from collections.abc import Sequence
from dataclasses import dataclass

TILE, GAP, PAD, HEADING, BOX_GAP = 34, 6, 11, 30, 14
PITCH = TILE + GAP
HEAD_ROOM = 58  # left of a stack, for its head
MOST_ROWS, MOST_COLUMNS = 8, 4
LETTER, SWATCH = 7.2, 17  # of a heading


@dataclass(frozen=True)
class Box:
    """x, y, width, height: of the box; left: where the tiles begin, from the left of the picture."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    left: float
    columns: int
    rows: int


def lay_out_places(kinds: Sequence[str], names: Sequence[str], most_blocks: Sequence[int], width: float,
                   head_at: int | None = None) -> list[Box]:
    """A box for each place. head_at: the place that the head of a stack is drawn at."""
    boxes, row = [], []
    x = y = 0.0

    def close_row() -> float:
        height = max(box.height for box in row)
        boxes.extend(Box(box.kind, box.x, box.y, box.width, height, box.left, box.columns, box.rows) for box in row)
        row.clear()
        return height

    for number, (kind, name, most) in enumerate(zip(kinds, names, most_blocks)):
        columns, rows = _size(kind, most)
        room = HEAD_ROOM if number == head_at else 0
        tiles = room + columns * PITCH - GAP
        wide = 2 * PAD + max(tiles, SWATCH + LETTER * len(name))
        if row and x + wide > width:
            y += close_row() + BOX_GAP
            x = 0.0
        left = x + PAD + room if kind != "stack" else x + room + (wide - room - TILE) / 2
        row.append(Box(kind, x, y, wide, HEADING + rows * PITCH - GAP + PAD, left, columns, rows))
        x += wide + BOX_GAP
    close_row()
    return boxes


def _size(kind: str, most: int) -> tuple[int, int]:
    """Columns and rows of tiles."""
    if kind == "stack":
        return 1, min(MOST_ROWS, max(1, most))
    columns = next(number for number in range(1, MOST_COLUMNS + 1) if number * number >= most or number == MOST_COLUMNS)
    return columns, min(MOST_ROWS, max(1, -(-most // columns)))


def num_shown(box: Box, count: int) -> int:
    """How many of `count` blocks have a tile of their own: the last place goes to "+ n" if not all do."""
    room = box.columns * box.rows
    return count if count <= room else room - 1


def slot(box: Box, index: int, count: int) -> tuple[float, float]:
    """The top left corner of the tile of block number `index` of `count`; index num_shown(…) is that of "+ n"."""
    if box.kind == "stack":
        from_below = min(count, box.rows) - index
        return box.left, box.y + box.height - PAD + GAP - from_below * PITCH
    return box.left + index % box.columns * PITCH, box.y + HEADING + index // box.columns * PITCH
