"""Looking at a shared pool in a notebook: its members as owners in a grid, its header byte by byte, a block's word.

    with watching(workers.watch(), title="…") as grid:      a grid that moves while the cell works
        …
    grid_of(watched)                                        the same afterwards, from look to look
    print(header_table(pool)); print(word_table(pool, blocks))

The header is read from the file, as any program would, and what stands in it is put beside the specification's words
(`pagedkv.shared.layout`): nothing here asks the pool.
"""

import struct
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

from pagedkv.shared import layout, segment
from pagedkv.shared.layout import CACHED, CONTENT, GENERATION_SHIFT, HOLDERS, NUM_SLOTS
from pagedkv.shared.watch import WatchedPool
from pagedkv.viz.grid import BlockGrid


@contextmanager
def watching(watched: WatchedPool, title: str = "Shared pool", every_seconds: float = 0.1, view: type = BlockGrid,
             **more) -> Iterator[BlockGrid]:
    """Show the pool while the cell works with it, looking again and again; then the grid is an ordinary recording.

    view, more   which kind of grid, such as `KVCacheView`, and what else that takes

    How many steps there are depends on when somebody looked, so this is for the eye; where an output is to be the same
    on every run, call `watched.look()` after each step, and show `grid_of(watched)`."""
    with view.live(watched, title=title, **more) as grid, watched.looking(every_seconds):
        yield grid


def grid_of(watched: WatchedPool, title: str = "Shared pool", view: type = BlockGrid, **more) -> BlockGrid:
    """What was seen so far, as a grid to be played; it opens at the end."""
    grid = view(watched.recording, title=title, **more)
    grid.opening = grid.frame = len(watched.recording)
    return grid


# ── the header ───────────────────────────────────────────────────────────────────────────────────────────────────────


class _Field(NamedTuple):
    at: int
    form: str  # as `struct` has it
    name: str
    means: str = ""


_U32, _U64 = "<I", "<Q"
_FIELDS = (
    _Field(0, "8s", "magic"),
    _Field(8, _U32, "version"),
    _Field(12, _U32, "num_slots", "as many members at most"),
    _Field(16, _U64, "capacity_bytes", "the size of the file"),
    _Field(24, _U64, "block_bytes", "what a block holds"),
    _Field(32, _U64, "num_blocks"),
    _Field(40, _U64, "stride_bytes", "from one block to the next"),
    _Field(48, _U32, "tokens_per_block", "0: no prefix index"),
    _Field(52, _U32, "index_entries"),
    _Field(56, _U64, "flags", "bit 0: guard mode"),
    *(_Field(64 + 8 * number, _U64, f"{region} at") for number, region in
      enumerate(("slots", "empty hints", "content hints", "words", "counts", "index", "data"))),
    _Field(120, _U64, "id", "random: another one for each pool"),
    _Field(128, _U64, "state", "1: ready, written last of all"),
    _Field(192, _U64, "reaps", "dead members reaped so far"),
    _Field(256, _U64, "last_node", "of the prefix index"),
)


class HeaderRow(NamedTuple):
    """value: as a number, or bytes for the magic; None for the id, which is another one on every run."""

    offset: int
    raw: bytes
    name: str
    value: int | bytes | None
    means: str


@dataclass(frozen=True)
class HeaderTable:
    rows: tuple[HeaderRow, ...]
    file_bytes: int

    def __str__(self) -> str:
        lines = [f"the first {layout.HEADER_BYTES:,} of {self.file_bytes:,} bytes",
                 "offset  bytes                    field              value"]
        for row in self.rows:
            raw = " ".join(["??"] * len(row.raw)) if row.value is None else row.raw.hex(" ")
            value = "…" if row.value is None else f"{row.value:,}" if isinstance(row.value, int) else repr(row.value)
            lines.append(f"{row.offset:>6}  {raw:<23}  {row.name:<17}  {value:<19}{row.means}".rstrip())
        return "\n".join(lines)


def header_table(pool) -> HeaderTable:
    """The header of a pool, field by field, as it stands in the file. pool: a member of it, or its name."""
    segment.check_system()
    path = segment.pool_path(pool if isinstance(pool, str) else pool.name)
    with open(path, "rb") as file:
        data = file.read(layout.HEADER_BYTES)
        file_bytes = file.seek(0, 2)
    rows = []
    for field in _FIELDS:
        raw = data[field.at:field.at + struct.calcsize(field.form)]
        value = None if field.name == "id" else struct.unpack(field.form, raw)[0]
        rows.append(HeaderRow(field.at, raw, field.name, value, field.means))
    return HeaderTable(tuple(rows), file_bytes)


# ── words ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class WordRow(NamedTuple):
    """One block: its word, taken apart, and the counts that mean something. counts: slot → references."""

    block: int
    word: int
    generation: int
    has_content: bool
    is_cached: bool
    counts: dict[int, int]


@dataclass(frozen=True)
class WordTable:
    rows: tuple[WordRow, ...]
    names: Mapping[int, str]

    def __str__(self) -> str:
        lines = ["block  word                 generation  CONTENT  CACHED  holders, and the counts of their slots"]
        for row in self.rows:
            holders = ", ".join(f"slot {slot}{self._name(slot)}: {count}" for slot, count in row.counts.items()) or \
                "nobody"
            lines.append(f"{row.block:>5}  0x{row.word:016x}   {row.generation:>10}  {_yes(row.has_content):<7}  "
                         f"{_yes(row.is_cached):<6}  {holders}")
        return "\n".join(lines)

    def _name(self, slot: int) -> str:
        return f" ({self.names[slot]})" if slot in self.names else ""


def word_table(pool, blocks: Iterable[int], watched: WatchedPool | None = None) -> WordTable:
    """The words of some blocks, read from the file, taken apart, with the counts of those who hold them.

    pool      a member of the pool, or its name
    watched   how the members are called"""
    segment.check_system()
    sizes, mapping, _ = segment.open_pool(pool if isinstance(pool, str) else pool.name)
    rows = []
    with mapping:
        for block in blocks:
            if not 0 <= block < sizes.num_blocks:
                raise ValueError(f"{block} is not a block of this pool: its ids go from 0 to {sizes.num_blocks - 1}")
            word = struct.unpack_from(_U64, mapping, sizes.words_at + 8 * block)[0]
            counts = {slot: struct.unpack_from(_U32, mapping, sizes.counts_at + slot * sizes.row_bytes + 4 * block)[0]
                      for slot in holders_in(word)}
            rows.append(WordRow(block, word, word >> GENERATION_SHIFT, bool(word & CONTENT), bool(word & CACHED),
                                counts))
    return WordTable(tuple(rows), watched.owners() if watched else {})


def holders_in(word: int) -> list[int]:
    """The slots whose bits are set in a word."""
    return [slot for slot in range(NUM_SLOTS) if (word & HOLDERS) >> slot & 1]


def word_of(generation: int, holders: Iterable[int], flags: int = 0) -> int:
    """The word that says this. flags: CONTENT, CACHED, or both."""
    return generation << GENERATION_SHIFT | flags | sum(1 << slot for slot in holders)


def _yes(flag: bool) -> str:
    return "yes" if flag else "·"
