"""What the widgets have in common: tapes that the browser plays in step, with a picture for where it cannot.

A subclass says what its front end is (`_esm`, `_css`), and how one of its tapes reads in a line of text.
"""

import traitlets

from pagedkv.viz.pictured import Pictured
from pagedkv.viz.speeds import fitting_speed


class Played(Pictured):
    """tapes     objects with title, source, owners, a length and `message()`
    frame     how many events are carried out; settable, follows the browser
    playing, speed (events per second)
    selected  the name of the owner who is followed, "" for none
    """

    # The tapes go out when a page asks for the model, and never come back.
    tapes = traitlets.List().tag(sync=True, to_json=lambda tapes, widget: [tape.message() for tape in tapes],
                                 from_json=lambda value, widget: widget.tapes)
    title = traitlets.Unicode().tag(sync=True)
    frame = traitlets.Int(0, help="how many events are carried out: 0 … the recording's length").tag(sync=True)
    opening = traitlets.Int(0, help="the frame it opened with").tag(sync=True)
    playing = traitlets.Bool(False).tag(sync=True)
    selected = traitlets.CUnicode("", help="the name of the owner who is followed, or none").tag(sync=True)
    speed = traitlets.Float(10, help="events per second").tag(sync=True)

    def __init__(self, tapes: list, title: str, frame: int, **traits):
        speed = fitting_speed(max((len(tape) for tape in tapes), default=0))
        super().__init__(tapes=tapes, title=title, frame=frame, opening=frame, speed=speed, **traits)

    def __repr__(self) -> str:
        """One line, the same on every run."""
        return " | ".join(self._line(tape, min(self.frame, len(tape))) for tape in self.tapes)

    # Abstract, but for the name: a widget's class is made by traitlets, and cannot be made by ABC as well.

    def _line(self, tape, frame: int) -> str:
        """A tape at a frame, in words."""
        raise NotImplementedError(f"{type(self).__name__} does not say how its tapes read in a line")

    def _where(self, tape) -> str:
        """What a tape is called, and where it comes from."""
        title = self.title if len(self.tapes) == 1 else tape.title
        return title if title == tape.source else f"{title} · {tape.source}"

    @traitlets.validate("frame")
    def _frame_exists(self, proposal: dict) -> int:
        last = max((len(tape) for tape in self.tapes), default=0)
        if not 0 <= proposal["value"] <= last:
            raise traitlets.TraitError(f"there is no frame {proposal['value']}: they go from 0 to {last}")
        return proposal["value"]

    @traitlets.validate("selected")
    def _somebody_is_selected(self, proposal: dict) -> str:
        name = proposal["value"]
        if name and not self._may_come_later() and not any(name in tape.owners for tape in self.tapes):
            known = [owner for tape in self.tapes for owner in tape.owners[:9]]
            some = ", ".join(dict.fromkeys(known[:8])) or "nobody"
            raise traitlets.TraitError(f"no owner of this recording is called {name!r}: there are {some}"
                                       + (" and others" if len(known) > 8 else ""))
        return name

    def _may_come_later(self) -> bool:
        """Whether owners who are not there yet may still come."""
        return False

    @traitlets.validate("speed")
    def _speed_is_positive(self, proposal: dict) -> float:
        if not proposal["value"] > 0:
            raise traitlets.TraitError(f"a speed is a number of events per second, not {proposal['value']}")
        return proposal["value"]
