"""Snapshots: who holds what, at one moment, as a table.

One row for each block: its refcount, and the owners of its references as far as events told of them. A snapshot can
be written to CSV and read back, so that two of them, taken a day apart, can be compared.
"""

import csv
import io
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pagedkv.core.events import Recording, refcounts
from pagedkv.core.replay import PoolState, Replay

_COLUMNS = ["block", "refcount", "owners", "since_step"]


class SnapshotRow(NamedTuple):
    """owners and since_step: one entry per reference that events told of, oldest first. Owners are names (text),
    "" where a reference has none."""

    block: int
    refcount: int
    owners: tuple[str, ...] = ()
    since_step: tuple[int, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    rows: tuple[SnapshotRow, ...]

    @property
    def num_blocks(self) -> int:
        return len(self.rows)

    @property
    def num_free_blocks(self) -> int:
        return sum(row.refcount == 0 for row in self.rows)

    def to_csv(self, path: str | Path | None = None) -> str:
        """The table as CSV text (columns block, refcount, owners, since_step; several entries of a cell are
        separated by spaces, with a space in a name written as %20); also written to `path` if one is given."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_COLUMNS)
        for row in self.rows:
            writer.writerow([row.block, row.refcount, " ".join(map(_quote, row.owners)),
                             " ".join(map(str, row.since_step))])
        if path is not None:
            Path(path).write_text(text.getvalue(), encoding="utf-8")
        return text.getvalue()

    @classmethod
    def from_csv(cls, path: str | Path) -> "Snapshot":
        """Read what `to_csv` wrote. Raises ValueError, naming file and line, for anything else."""
        with open(path, encoding="utf-8", newline="") as file:
            lines = csv.reader(file)
            if next(lines, None) != _COLUMNS:
                raise ValueError(f"{path} is not a pool snapshot: its first line is not {','.join(_COLUMNS)}")
            return cls(tuple(_parse(line, f"{path}, line {lines.line_num}") for line in lines))

    def to_dataframe(self):
        """The table as a pandas data frame, one row per block. Raises ImportError where pandas is missing."""
        try:
            import pandas
        except ImportError:
            raise ImportError("a data frame needs pandas (pip install pandas); to_csv() needs nothing") from None
        return pandas.DataFrame(self.rows, columns=_COLUMNS).set_index("block")

    def __str__(self) -> str:
        """The held blocks as a text table."""
        held = [row for row in self.rows if row.refcount or row.owners]
        lines = [f"{self.num_blocks - self.num_free_blocks} of {self.num_blocks} blocks are held"]
        lines += [f"  block {row.block:>5}  refcount {row.refcount}  {_owners(row.owners)}".rstrip() for row in held]
        return "\n".join(lines)


class Change(NamedTuple):
    """A block that differs between two snapshots."""

    block: int
    refcount_before: int
    refcount_after: int
    gained: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True)
class SnapshotDiff:
    changes: tuple[Change, ...]

    def __str__(self) -> str:
        if not self.changes:
            return "no block changed"
        return "\n".join(
            f"block {change.block:>5}  refcount {change.refcount_before} → {change.refcount_after}"
            + (f"  new: {_owners(change.gained)}" if change.gained else "")
            + (f"  gone: {_owners(change.lost)}" if change.lost else "")
            for change in self.changes)


def take_snapshot(source, recording: Recording | None = None) -> Snapshot:
    """A snapshot of a pool, a `PoolState`, or the end of a `Recording`.

    For a pool, refcounts are the pool's own; owners come from its `recording`, if there is one. The two may disagree:
    that is what `leak_report` looks for.
    """
    if isinstance(source, Recording):
        source = Replay(source).end()
    if isinstance(source, PoolState):
        state = source
    else:
        state = Replay(recording).end() if recording is not None else PoolState(source.num_blocks)
        if state.num_blocks != source.num_blocks:
            raise ValueError(f"the recording is of a pool of {state.num_blocks} blocks, "
                             f"this pool has {source.num_blocks}")
    return Snapshot(tuple(_row(block, count, state) for block, count in enumerate(refcounts(source))))


def diff_snapshots(before: Snapshot, after: Snapshot) -> SnapshotDiff:
    """The blocks whose refcount or owners differ. Raises ValueError for snapshots of pools of different size."""
    if before.num_blocks != after.num_blocks:
        raise ValueError(f"snapshots of {before.num_blocks} and of {after.num_blocks} blocks cannot be compared")
    return SnapshotDiff(tuple(
        Change(old.block, old.refcount, new.refcount,
               tuple((Counter(new.owners) - Counter(old.owners)).elements()),
               tuple((Counter(old.owners) - Counter(new.owners)).elements()))
        for old, new in zip(before.rows, after.rows)
        if old.refcount != new.refcount or Counter(old.owners) != Counter(new.owners)))


def _row(block: int, refcount: int, state: PoolState) -> SnapshotRow:
    references = state.references.get(block, ())
    return SnapshotRow(block, refcount,
                       tuple("" if owner is None else str(owner) for owner, _ in references),
                       tuple(step for _, step in references))


def _parse(line: list[str], where: str) -> SnapshotRow:
    try:
        block, refcount, owners, since_step = line
        return SnapshotRow(int(block), int(refcount),
                           tuple(map(_unquote, owners.split(" "))) if since_step else (),
                           tuple(map(int, since_step.split())))
    except ValueError:
        raise ValueError(f"{where}: not a row of a pool snapshot: {','.join(line)}") from None


def _quote(owner: str) -> str:
    return owner.replace("%", "%25").replace(" ", "%20")


def _unquote(owner: str) -> str:
    return owner.replace("%20", " ").replace("%25", "%")


def _owners(owners: tuple[str, ...]) -> str:
    return ", ".join(owner or "(no name)" for owner in owners)
