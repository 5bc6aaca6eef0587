"""The leak report: references that nobody will give back.

Two faults look alike in a full pool, and have different causes:

    leaked         the block's refcount is above 0, and a reference belongs to an owner that is gone:
                   somebody forgot a release
    stale mapping  the block's refcount is 0, and an owner still counts on it:
                   somebody released too often, and the block may already belong to another
"""

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pagedkv.core.events import Recording
from pagedkv.core.snapshot import Snapshot, take_snapshot


class Suspect(NamedTuple):
    """One reference: its block, who took it ("" if nobody was named), and at which step (-1: before the recording)."""

    block: int
    owner: str
    since_step: int

    def __str__(self) -> str:
        since = "since before the recording" if self.since_step < 0 else f"since step {self.since_step}"
        return f"block {self.block:>5}  {self.owner or '(no name)'}  {since}"


@dataclass(frozen=True)
class LeakReport:
    leaked: tuple[Suspect, ...]
    stale: tuple[Suspect, ...]

    def __bool__(self) -> bool:
        """True if there is something to report."""
        return bool(self.leaked or self.stale)

    def __str__(self) -> str:
        if not self:
            return "no leak: every reference belongs to a live owner"
        lines = []
        if self.leaked:
            blocks = len({suspect.block for suspect in self.leaked})
            lines.append(f"leaked: {len(self.leaked)} references to {blocks} blocks, held by owners that are gone")
            lines += [f"  {suspect}" for suspect in self.leaked]
        if self.stale:
            lines.append(f"stale mapping: {len(self.stale)} references to blocks that the pool counts as free")
            lines += [f"  {suspect}" for suspect in self.stale]
        return "\n".join(lines)


def leak_report(source: Snapshot | Recording, live_owners: Iterable[Hashable] = ()) -> LeakReport:
    """What of `source` is leaked or stale, given the owners that are still alive.

    A recording alone shows leaks. To see stale mappings too, give a snapshot that has the pool's own refcounts:
    `leak_report(take_snapshot(pool, recording), live_owners=["A"])`.
    """
    if isinstance(live_owners, str):
        raise TypeError(f"live_owners is a collection of owners, such as [{live_owners!r}]")
    snapshot = take_snapshot(source) if isinstance(source, Recording) else source
    live = {str(owner) for owner in live_owners}
    leaked, stale = [], []
    for row in snapshot.rows:
        suspects = [Suspect(row.block, *reference) for reference in zip(row.owners, row.since_step)]
        if row.refcount == 0:
            stale += suspects
        else:
            leaked += [suspect for suspect in suspects if suspect.owner not in live]
    return LeakReport(tuple(leaked), tuple(stale))
