"""`MemoryView`: an allocator's memory in motion, and how it came to each of its answers.

    recording = run(workload, FirstFit(64 << 20))
    MemoryView(recording)                                # as the last value of a cell
    side_by_side_memory(recording, other)                # the same requests, two allocators, in step

As with the block grid, the whole recording goes to the browser as a tape and is played there; where no widget can run,
a picture of the same frame is shown instead.
"""

from collections.abc import Sequence

import traitlets

from pagedkv.core.memory import MemoryRecording
from pagedkv.viz.memory_plot import still_memory
from pagedkv.viz.memory_tape import MemoryTape
from pagedkv.viz.memory_words import summary
from pagedkv.viz.modules import joined, stylesheet
from pagedkv.viz.played import Played
from pagedkv.viz.words import count


class MemoryWidget(Played):
    """One or more recordings of allocators, in step: after each event of one, the others have had as many.

    recordings                   what it shows
    frame, playing, selected, speed   as the block grid's
    guess                        whether stepping onto an allocation first asks where it will go
    guesses_right, guesses_made  the score so far

    It opens at the first request that was refused, or else where most is in use. row_bytes: how many bytes a row of each
    picture has, such as a chunk's; chosen by the picture's size otherwise.
    """

    _esm = joined("memory_entry.js")
    _css = stylesheet("grid.css", "memory.css")

    guess = traitlets.Bool(False, help="ask where an allocation goes before it is shown").tag(sync=True)
    guesses_right = traitlets.Int(0).tag(sync=True)
    guesses_made = traitlets.Int(0).tag(sync=True)

    def __init__(self, recordings: Sequence[MemoryRecording], title: str, titles: Sequence[str] | None = None,
                 row_bytes: int | None = None, **traits):
        tapes = make_tapes(recordings, titles, row_bytes)
        super().__init__(tapes, title, opening_frame(tapes), **traits)
        self.recordings = list(recordings)

    def show_recordings(self, recordings: Sequence[MemoryRecording], titles: Sequence[str] | None = None) -> None:
        """Show others instead. The frame stays where it is as long as it exists (who is at the end stays at the end),
        and who is not in them is no longer followed. Raises what the constructor raises, and changes nothing then."""
        self._show_tapes(make_tapes(recordings, titles, self.tapes[0].row_bytes))
        self.recordings = list(recordings)

    def _show_tapes(self, tapes: list[MemoryTape]) -> None:
        last = max(len(tape) for tape in tapes)
        at_end = self.frame == max(len(tape) for tape in self.tapes)
        if self.frame > last:
            self.frame = last
        if self.selected and not any(self.selected in tape.owners for tape in tapes):
            self.selected = ""
        self.tapes = tapes
        if at_end:
            self.frame = last

    def _line(self, tape: MemoryTape, frame: int) -> str:
        return f"{self._where(tape)} · event {frame:,} of {len(tape):,} · {summary(tape, frame)}"

    def still(self):
        """The current frame as a matplotlib picture, with its description in words."""
        return still_memory(self.tapes, self.frame, self.title, self.selected)


class MemoryView(MemoryWidget):
    """A recording in motion: press play, step, drag the timeline, follow an owner, guess.

    title   stands above it; the recording's source otherwise
    """

    def __init__(self, recording: MemoryRecording, title: str | None = None, row_bytes: int | None = None, **traits):
        checked(recording)
        title = recording.source if title is None else title
        super().__init__([recording], title, [title], row_bytes, **traits)

    @property
    def recording(self) -> MemoryRecording:
        return self.recordings[0]


def side_by_side_memory(*recordings: MemoryRecording, title: str = "Side by side",
                        titles: Sequence[str] | None = None, row_bytes: int | None = None, **traits) -> MemoryWidget:
    """Several allocators in one widget, in step; `titles` name them, otherwise their sources do."""
    return MemoryWidget(recordings, title, titles, row_bytes, **traits)


def make_tapes(recordings: Sequence[MemoryRecording], titles: Sequence[str] | None = None,
               row_bytes: int | None = None) -> list[MemoryTape]:
    if not recordings:
        raise TypeError("there is nothing to show: give at least one recording")
    titles = list(titles) if titles is not None else [checked(recording).source for recording in recordings]
    if len(titles) != len(recordings):
        raise ValueError(f"{count(len(titles), 'title')} for {count(len(recordings), 'recording')}")
    return [MemoryTape(checked(recording), title, row_bytes=row_bytes) for recording, title in zip(recordings, titles)]


def opening_frame(tapes: Sequence[MemoryTape]) -> int:
    """The first trouble of any, or else where most is in use."""
    troubles = [tape.first_trouble for tape in tapes if tape.first_trouble is not None]
    return min(troubles) if troubles else max(tape.opening_frame() for tape in tapes)


def checked(recording: MemoryRecording) -> MemoryRecording:
    if not isinstance(recording, MemoryRecording):
        raise TypeError(f"a memory view shows a MemoryRecording, not a {type(recording).__name__}: "
                        "run(workload, allocator), or with record_memory(allocator) as recording: …")
    return recording
