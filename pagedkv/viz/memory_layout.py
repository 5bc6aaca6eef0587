"""Where each address is drawn. front/memory_layout.js has the same rules, and says what they are."""

from bisect import bisect_right
from dataclasses import dataclass
from math import ceil, floor

from pagedkv.viz.memory_tape import MemoryTape

_LEAST_PITCH, _MOST_PITCH, _WORD_GAP = 14, 46, 5  # pixels
_FEW_ROWS, _LEAST_ROWS, _ROOM_FOR_PIECE = 4, 3, 14


@dataclass
class Word:
    """Memory that belongs together, from `address` to `end`; it begins in this row, `at` pixels from the left."""

    address: int
    end: int
    row: int = 0
    at: float = 0.0


@dataclass(frozen=True)
class RowLayout:
    """A row of `width` pixels stands for row_bytes; rows are `pitch` pixels apart, and their bars `bar` pixels high."""

    words: list[Word]
    num_rows: int
    row_bytes: int
    width: float
    pitch: int
    bar: int

    @property
    def height(self) -> int:
        return self.num_rows * self.pitch

    def parts(self, address: int, end: int) -> list[tuple[int, float, float]]:
        """The stretches of rows that show these addresses, which lie in one word: (row, from x, to x)."""
        at = bisect_right(self.words, address, key=lambda word: word.address) - 1
        if at < 0 or address >= self.words[at].end:
            return []
        word = self.words[at]
        begin = word.at + (address - word.address) / self.row_bytes * self.width
        stop = word.at + (min(end, word.end) - word.address) / self.row_bytes * self.width
        row, found = floor(begin / self.width), []
        while row * self.width < stop:
            found.append((word.row + row, max(0.0, begin - row * self.width), min(self.width, stop - row * self.width)))
            row += 1
        return found


def lay_out(tape: MemoryTape, width: float, tallest: float) -> RowLayout:
    words, wide = _words(tape), max(40, width)
    total = sum(word.end - word.address for word in words)
    most_rows = max(1, floor(tallest / _LEAST_PITCH))
    wanted = max(1, min(most_rows, max(_FEW_ROWS, ceil(tape.most_pieces * _ROOM_FOR_PIECE / wide))))
    if tape.row_bytes:
        num_rows = _flow(words, wide, tape.row_bytes)
        return _laid_out(words, num_rows, tape.row_bytes, wide, tallest, num_rows)
    row_bytes = 1
    while 2 * row_bytes * wanted <= total:
        row_bytes *= 2
    longest = max((word.end - word.address for word in words), default=0)
    while (wanted == _FEW_ROWS and len(words) > 1 and longest > row_bytes
           and _flow(words, wide, 2 * row_bytes) >= _LEAST_ROWS):
        row_bytes *= 2
    num_rows = _flow(words, wide, row_bytes)
    while num_rows > most_rows and row_bytes < total:
        row_bytes *= 2
        num_rows = _flow(words, wide, row_bytes)
    return _laid_out(words, num_rows, row_bytes, wide, tallest, wanted)


def _laid_out(words: list[Word], num_rows: int, row_bytes: int, wide: float, tallest: float, wanted: int) -> RowLayout:
    pitch = max(_LEAST_PITCH, min(_MOST_PITCH, floor(tallest / max(num_rows, wanted, 1))))
    bar = pitch - (7 if pitch >= 30 else 4 if pitch >= 20 else 3)
    return RowLayout(words, num_rows, row_bytes, wide, pitch, bar)


def _words(tape: MemoryTape) -> list[Word]:
    words: list[Word] = []
    for address, size_bytes in sorted(zip(tape.segment_addresses, tape.segment_sizes)):
        address, end = int(address), int(address + size_bytes)
        if words and address < words[-1].end:
            words[-1].end = max(words[-1].end, end)
        else:
            words.append(Word(address, end))
    return words


def _flow(words: list[Word], width: float, row_bytes: int) -> int:
    gap = 2 if len(words) > 400 else _WORD_GAP
    row, at = 0, 0.0
    for word in words:
        length = (word.end - word.address) / row_bytes * width
        if at > 0 and at + length > width:
            row, at = row + 1, 0.0
        word.row, word.at = row, at
        row += floor((at + length) / width)
        at = (at + length) % width
        if at > 0:
            at += gap
        if at >= width:
            row, at = row + 1, 0.0
    return max(1, row + 1 if at > 0 else row)
