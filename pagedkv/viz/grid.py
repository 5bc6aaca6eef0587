"""`BlockGrid`: a pool in motion, one cell for each block.

    with record(pool) as recording:
        ...
    BlockGrid(recording)            # as the last value of a cell

The whole recording goes to the browser at once, as a tape (see `pagedkv.viz.tape`), and is played there: it moves on
while the kernel is busy. Where no widget can run, on GitHub or in an exported page, a picture of the same frame is
shown instead.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import traitlets
from IPython.display import display

from pagedkv.core.events import Recording, record
from pagedkv.viz.modules import joined, stylesheet
from pagedkv.viz.played import Played
from pagedkv.viz.plot import still, summary
from pagedkv.viz.tape import Tape
from pagedkv.viz.tokens import TokenText
from pagedkv.viz.words import count

_LIVE_SECONDS = 1 / 20  # between two batches of events


class _Grids(Played):
    """One or more pools in blocks."""

    _esm = joined()
    _css = stylesheet()

    columns = traitlets.Int(0).tag(sync=True)
    following = traitlets.Bool(False, help="whether a pool is still adding events").tag(sync=True)

    def __init__(self, tapes: list[Tape], title: str, columns: int | None, frame: int):
        super().__init__(tapes, title, frame, columns=columns or 0)
        self.on_msg(self._asked)

    def _asked(self, widget, content: dict, buffers: list) -> None:
        if content.get("kind") == "again":  # the page has missed a batch of a live pool
            self.send_state("tapes")

    def _line(self, tape: Tape, frame: int) -> str:
        return (f"{self._where(tape)} · {count(tape.num_blocks, 'block')} · event {frame:,} of {len(tape):,} · "
                f"{summary(tape.moment(frame))}")

    def still(self):
        """The current frame as a matplotlib picture, with its description in words."""
        return still(self.tapes, self.frame, self.title, self.selected, self.columns or None)

    def _may_come_later(self) -> bool:
        return self.following


class BlockGrid(_Grids):
    """A recording in motion: press play, step, drag the timeline, follow an owner.

    title               stands above it
    block_size_tokens   how many tokens a block holds, if they are to be told
    columns             cells in a row; chosen by the width otherwise
    token_text          how tokens read, where events tell them: a tokenizer (anything with decode(tokens)), a dict
                        from a token to its text, or a function

    It shows the recording as it is now; what is recorded later does not appear. It opens at its first fault if there is
    one, else where most blocks are held. Traits: frame (settable, follows the browser), playing, selected (an owner's
    name, "" for none), speed (events per second).
    """

    def __init__(self, recording: Recording, title: str = "Block pool", block_size_tokens: int | None = None,
                 columns: int | None = None, token_text: TokenText = None, *, texts: bool = False):
        tape = Tape(_checked(recording), title, block_size_tokens, token_text, texts)
        super().__init__([tape], title, columns, tape.opening_frame())
        self.recording = recording

    @classmethod
    @contextmanager
    def live(cls, pool, title: str | None = None, source: str | None = None, block_size_tokens: int | None = None,
             columns: int | None = None, token_text: TokenText = None, **more) -> Iterator["BlockGrid"]:
        """Show a pool while the cell works with it; afterwards the grid is an ordinary recording.

            with BlockGrid.live(pool) as grid:
                ...

        pool     whatever `record` takes: a pool, a manager, a model with a paged cache
        source   what the badge says; what the pool itself says otherwise
        more     what else this kind of grid takes, such as `texts` of a `KVCacheView`

        Raises what `record` raises for a pool that cannot be observed.
        """
        recorder = record(pool, source)
        try:
            named = {} if title is None else {"title": title}
            if block_size_tokens is None and type(getattr(pool, "block_size", None)) is int:
                block_size_tokens = pool.block_size  # else nobody knows before the first block is full
            grid = cls(recorder.recording, **named, block_size_tokens=block_size_tokens, columns=columns,
                       token_text=token_text, **more)
            grid.following = True
            handle = display(grid, display_id=True)
            follower = _Follower(grid)
        except BaseException:
            recorder.stop()
            raise
        try:
            yield grid
        finally:
            recorder.stop()
            follower.finish()
            if handle is not None:
                handle.update(grid)  # the stored picture was that of the beginning


class SideBySideGrids(_Grids):
    """Several recordings in step: after each event of one, the others have had as many."""

    def __init__(self, recordings: Sequence[Recording], title: str, titles: Sequence[str] | None = None,
                 block_size_tokens: int | None = None, columns: int | None = None):
        if not recordings:
            raise TypeError("there is nothing to show: give at least one recording")
        titles = list(titles) if titles is not None else [_checked(recording).source for recording in recordings]
        if len(titles) != len(recordings):
            raise ValueError(f"{count(len(titles), 'title')} for {count(len(recordings), 'recording')}")
        tapes = [Tape(_checked(recording), name, block_size_tokens) for recording, name in zip(recordings, titles)]
        super().__init__(tapes, title, columns, _opening_frame(tapes))
        self.recordings = list(recordings)


def side_by_side_grids(*recordings: Recording, title: str = "Side by side", titles: Sequence[str] | None = None,
                       block_size_tokens: int | None = None, columns: int | None = None) -> SideBySideGrids:
    """Several recordings in one widget, in step; `titles` name them, otherwise their sources do."""
    return SideBySideGrids(recordings, title, titles, block_size_tokens, columns)


class _Follower:
    """Sends a growing recording to the browser, in batches, from a thread of its own: a cell that waits for something
    would not send the last events it made."""

    def __init__(self, grid: BlockGrid):
        self._grid = grid
        self._over = threading.Event()
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="block grid", daemon=True)
        self._thread.start()

    def finish(self) -> None:
        """Send the rest. Raises what an event that cannot be replayed raised."""
        self._over.set()
        self._thread.join()
        grid = self._grid
        if self._error is None:
            self._send()
        grid.following = False
        grid.opening = grid.frame = len(grid.tapes[0])
        if self._error is not None:
            raise self._error

    def _run(self) -> None:
        try:
            while not self._over.wait(_LIVE_SECONDS):
                self._send()
        except Exception as error:
            self._error = error

    def _send(self) -> None:
        grid, tape = self._grid, self._grid.tapes[0]
        known = len(tape), len(tape.owners), tape.num_notes
        tape.add(grid.recording.events[known[0]:])
        if len(tape) > known[0]:
            message: dict[str, Any] = tape.message(*known)
            columns = [name for name, value in message.items() if isinstance(value, bytes)]
            buffers = [message.pop(name) for name in columns]
            grid.send({"kind": "more", "tape": message, "columns": columns}, buffers)


def _checked(recording: Recording) -> Recording:
    if not isinstance(recording, Recording):
        raise TypeError(f"a block grid shows a Recording, not a {type(recording).__name__}: "
                        "with record(pool) as recording: …")
    return recording


def _opening_frame(tapes: list[Tape]) -> int:
    faults = [tape.first_fault for tape in tapes if tape.first_fault is not None]
    return min(faults) if faults else max(tape.opening_frame() for tape in tapes)
