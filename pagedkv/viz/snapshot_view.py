"""A CUDA memory snapshot in a notebook: what is wrong with this memory, and the memory in motion.

    open_snapshot("oom.pickle")        # as the last value of a cell

The same as `python -m pagedkv.snapshot`, whose words and page it uses.
"""

import os
from pathlib import Path

from pagedkv.snapshot.analysis import Analysis, Finding, analyse
from pagedkv.snapshot.contents import Snapshot
from pagedkv.snapshot.history import History, history_of, last_events
from pagedkv.snapshot.read import read_snapshot
from pagedkv.snapshot.what_if import Row, table
from pagedkv.snapshot.what_if import what_if as other_settings
from pagedkv.viz.snapshot_report import (MOST_DRAWN_EVENTS, NOTEBOOK_STYLE, findings_section, opening_frame,
                                         remarks_section, summary, what_if_section)


class SnapshotView:
    """A snapshot that was read and looked at.

    findings  the list of `pagedkv.snapshot.analysis.Finding`s, the failed request first, then by the bytes at stake
    analysis, history, snapshot, rows   what they were made from; rows is [] unless other settings were asked for
    view      the memory in motion, a `MemoryView`; made when it is first wanted
    """

    def __init__(self, name: str, snapshot: Snapshot, history: History, analysis: Analysis, rows: list[Row]):
        self.name, self.snapshot, self.history, self.analysis, self.rows = name, snapshot, history, analysis, rows
        self._view = None

    @property
    def findings(self) -> tuple[Finding, ...]:
        return self.analysis.findings

    @property
    def view(self):
        if self._view is None:
            from pagedkv.viz.memory_view import MemoryView

            recording = last_events(self.history.recording, MOST_DRAWN_EVENTS)
            self._view = MemoryView(recording, title=self.name)
            self._view.frame = max(0, opening_frame(self.history) - (len(self.history.recording) - len(recording)))
        return self._view

    def __repr__(self) -> str:
        text = f"{self.name} · {self.history.recording.source}\n\n{self.analysis}"
        return f"{text}\n\n{table(self.rows)}" if self.rows else text

    def html(self) -> str:
        """The findings without the picture."""
        parts = (summary(self.analysis.figures), findings_section(self.findings), what_if_section(self.rows),
                 remarks_section(self.analysis.remarks))
        return f'{NOTEBOOK_STYLE}<div class="pk-snapshot">{"".join(parts)}</div>'

    def _ipython_display_(self) -> None:
        from IPython.display import display

        display({"text/html": self.html(), "text/plain": repr(self)}, raw=True)
        if self.history.device.segments or self.history.trace:
            display(self.view)


def open_snapshot(path: str | os.PathLike, device: int | None = None, what_if: bool = False,
                  capacity_bytes: int | None = None) -> SnapshotView:
    """Read a snapshot and look at it.

    device          its number; else the one that holds most
    what_if         also put the same requests to other settings and to a paged pool, which takes some seconds
    capacity_bytes  the card's whole memory, which is not in the file

    Raises `pagedkv.snapshot.errors.SnapshotError`, in words, for a file that is no snapshot.
    """
    snapshot = read_snapshot(path)
    history = history_of(snapshot, device)
    analysis = analyse(snapshot, history, capacity_bytes)
    rows = other_settings(snapshot, history, history.recording.capacity_bytes or capacity_bytes) if what_if else []
    return SnapshotView(Path(path).name, snapshot, history, analysis, rows)

