"""`StepsView`: a story of a few steps, such as two threads that pop blocks off one stack, played one by one.

    StepsView(trace)                  # as the last value of a cell; opens where it goes wrong
    StepsView(trace, start=0)         # opens at the start, and tells nothing of what follows

What a trace is, is said in steps_tape.py. Every block is a tile with its number; a step moves it from place to place.
The steps so far stand beside it, a column for each actor, and below it each actor's calls in a lane. Where no widget
can run, a picture is shown instead.
"""

from collections.abc import Mapping

from pagedkv.viz.modules import joined, stylesheet
from pagedkv.viz.picture import Picture
from pagedkv.viz.played import Played
from pagedkv.viz.steps_plot import still_steps
from pagedkv.viz.steps_tape import StepsTape

_STEPS_PER_SECOND = 1  # each has a sentence to be read


class StepsView(Played):
    """A trace in motion: press play, step, drag along the lanes.

    title   stands above it; the trace's own otherwise
    start   the frame it opens at: 0 is the start, i the state after step i. By default where it goes wrong, or the end

    Traits: those of `Played`; nobody can be followed. Raises TypeError and ValueError for what is no trace, TraitError
    for a frame that is not there.
    """

    _esm = joined("steps_entry.js")
    _css = stylesheet("grid.css", "steps.css")

    def __init__(self, trace: Mapping, title: str | None = None, start: int | None = None, **traits):
        tape = StepsTape(trace, title)
        super().__init__([tape], tape.title, tape.telling_frame() if start is None else start, **traits)
        self.speed = _STEPS_PER_SECOND

    def _line(self, tape: StepsTape, frame: int) -> str:
        said = f"{self._where(tape)} · step {frame:,} of {len(tape):,} · {tape.sentence(frame)} · {tape.where(frame)}"
        return f"{said} · {tape.result_at(frame)}" if tape.result_at(frame) else said

    def _where(self, tape: StepsTape) -> str:
        return f"{self.title} · {tape.source}" if tape.source else self.title

    def still(self, frame: int | None = None) -> Picture:
        """The picture of a frame, with the steps up to it; by default the current one. At the start there is nothing to
        see yet: then it is the frame that tells most."""
        tape = self.tapes[0]
        if frame is None:
            frame = self.frame or tape.telling_frame()
        if not 0 <= frame <= len(tape):
            raise IndexError(f"there is no frame {frame}: they go from 0 to {len(tape)}")
        return still_steps(tape, frame, self._where(tape))
