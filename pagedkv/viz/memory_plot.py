"""The memory view in matplotlib: for print, and where widgets cannot run."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from pagedkv.core.memory import CHOSEN, LEADS_ON, MemoryRecording, as_text
from pagedkv.viz import palette
from pagedkv.viz.memory_layout import RowLayout, lay_out
from pagedkv.viz.memory_tape import DrawnPiece, MemoryMoment, MemoryTape
from pagedkv.viz.memory_words import fragmentation, memory_caption, percent, summary
from pagedkv.viz.names import NO_NAME
from pagedkv.viz.picture import Picture, default_style, label_events, shortened
from pagedkv.viz.tape import label
from pagedkv.viz.words import count

_PIXELS = 100  # in an inch, for sizes in the front end's pixels
_TALLEST, _TALLEST_OF_SEVERAL = 330, 260
_MOST_BESIDE = 3  # pictures in a row
_LINE = 0.19  # inches between two lines of the side's text
_MOST_NAMED_PIECES = 80
_MOST_NAMED_RUNS, _MOST_LOOKS, _MOST_NOTES, _MOST_PINNED, _MOST_OWNERS = 12, 6, 3, 3, 9
_CHARACTERS = 15  # of the side's text in an inch
_RISING, _FALLING = "/" * 6, "\\" * 6  # hatches
_RESERVED_FREE = palette.mixed(palette.INK, palette.PAPER, 0.16)
_LINE_COLOUR, _FAINT_LINE = (palette.mixed(palette.INK, palette.PAPER, share) for share in (0.4, 0.25))


def plot_memory(recording: MemoryRecording, frame: int | None = None, title: str | None = None) -> Picture:
    """Draw who has which memory after `frame` events; by default at the frame that says most. Raises TypeError for what
    is not a MemoryRecording, IndexError for a frame that is not there."""
    if not isinstance(recording, MemoryRecording):
        raise TypeError(f"plot_memory draws a MemoryRecording, not a {type(recording).__name__}")
    tape = MemoryTape(recording)
    frame = tape.opening_frame() if frame is None else frame
    if not 0 <= frame <= len(tape):
        raise IndexError(f"this recording has {count(len(tape), 'event')}, there is no frame {frame}")
    return still_memory([tape], frame, recording.source if title is None else title)


def still_memory(tapes: Sequence[MemoryTape], frame: int, title: str, selected: str = "") -> Picture:
    """What a widget shows at this frame: each picture, why or how, the numbers, the event in words, the timeline. More
    than _MOST_BESIDE stand in several rows."""
    from matplotlib.figure import Figure
    with default_style():
        one = len(tapes) == 1
        num_rows = -(-len(tapes) // _MOST_BESIDE)
        beside = -(-len(tapes) // num_rows)
        width = 9.2 if one else min(13.0, 5.4 * beside)
        panel_width = (width - 0.3) / beside
        picture_width = panel_width * (0.6 if one else 1) - 0.2
        panels = [_Panel(tape, min(frame, len(tape)),
                         lay_out(tape, picture_width * _PIXELS, _TALLEST if one else _TALLEST_OF_SEVERAL), selected)
                  for tape in tapes]
        rows = [_Row(panels[first:first + beside], panel_width, picture_width, one)
                for first in range(0, len(panels), beside)]
        figure = Figure(figsize=(width, sum(row.height for row in rows)), facecolor=palette.PAPER)
        top = 0.0
        for row in rows:
            row.draw(figure, top, title)
            top += row.height
    return Picture(figure, " | ".join(panel.described(title if one else panel.tape.title) for panel in panels))


class _Row:
    """Panels beside each other. Lengths are in inches, from the top left."""

    def __init__(self, panels: list["_Panel"], panel_width: float, picture_width: float, one: bool):
        self.panels, self.panel_width, self.picture_width, self.one = panels, panel_width, picture_width, one
        self.sides = [panel.side(panel_width * 0.38 if one else panel_width - 0.2, short=not one) for panel in panels]
        picture_height = max(0.4, *(panel.layout.height / _PIXELS for panel in panels))
        side_height = max(_LINE * len(side) for side in self.sides)
        self.main_height = max(picture_height, side_height) if one else picture_height
        self.below = 0.45 + self.main_height + 0.38 + (0 if one else side_height + 0.1)
        self.height = self.below + 0.62 + 1.1

    def draw(self, figure, top: float, title: str) -> None:
        from matplotlib.patches import Rectangle
        width, height = figure.get_size_inches()
        for number, (panel, side) in enumerate(zip(self.panels, self.sides)):
            left = 0.15 + number * self.panel_width

            def place(x, y, w, h, left=left):
                return figure.add_axes([(left + x) / width, 1 - (top + y + h) / height, w / width, h / height])

            def write(x, y, text, left=left, **style):
                style = {"color": palette.INK, "fontsize": 8, **style}
                figure.text((left + x) / width, 1 - (top + y) / height, text, va="center", **style)

            def fill(x, y, w, h, colour, left=left):
                corner = (left + x) / width, 1 - (top + y + h) / height
                figure.add_artist(Rectangle(corner, w / width, h / height, facecolor=colour))

            self._draw_panel(panel, side, title, place, write, fill)

    def _draw_panel(self, panel: "_Panel", side: list, title: str, place, write, fill) -> None:
        tape, at, one, panel_width = panel.tape, panel.frame, self.one, self.panel_width
        write(0, 0.22, title if one else tape.title, fontsize=10, weight="bold")
        capacity = "" if tape.capacity_bytes is None else f" · {as_text(tape.capacity_bytes)}"
        source = f"{tape.source}{capacity} · " if one else ""
        write(panel_width - 0.15, 0.22, f"{source}event {at:,} / {len(tape):,}", ha="right", color=palette.FAINT_INK)
        panel.draw(place(0, 0.45, self.picture_width, panel.layout.height / _PIXELS or 0.1))
        side_left, side_top = (self.picture_width + 0.25, 0.45) if one else (0, 0.45 + self.main_height + 0.42)
        for row, line in enumerate(side):
            line.write(write, fill, side_left, side_top + _LINE * (row + 0.5), panel_width - side_left - 0.2)
        _draw_legend(place(0, 0.45 + self.main_height + 0.08, panel_width - 0.15, 0.2), panel)
        words = memory_caption(tape, at)
        write(0, self.below + 0.12, shortened(panel.numbers(), int(panel_width * (20 if one else 16.5))), color=palette.FAINT_INK,
              fontsize=7.5 if one else 7)
        trouble = "fault:" in words or "refused:" in words
        write(0, self.below + 0.38, shortened(words, int(panel_width * 14.5)), family="monospace",
              color=palette.ATTENTION if trouble else palette.INK)
        _draw_timeline(place(0, self.below + 0.62, panel_width - 0.15, 0.78), tape, at)


class _Panel:
    """One tape at one frame, with its layout."""

    def __init__(self, tape: MemoryTape, frame: int, layout: RowLayout, selected: str):
        self.tape, self.frame, self.layout = tape, frame, layout
        self.moment: MemoryMoment = tape.moment(frame)
        self.followed = tape.owners.index(selected) if selected in tape.owners else None
        self.event = tape.event(frame - 1) if frame else None
        self.why = self.event.note.get("why") if self.event else None
        self.pinned = self.moment.pinned()
        self.runs = self.moment.free_runs() if self.why else []

    def described(self, title: str) -> str:
        """For those who cannot see it."""
        where = title if title == self.tape.source else f"{title} ({self.tape.source})"
        text = (f"{where}, after event {self.frame:,} of {len(self.tape):,}: {summary(self.tape, self.frame)}. "
                f"Last event: {memory_caption(self.tape, self.frame)}")
        if self.why:
            text += f". {self.why['words'].rstrip('.')}"
        return f"{text}. {count(len(self.pinned), 'pinned segment')}" if self.pinned else text

    def numbers(self) -> str:
        tape, frame = self.tape, self.frame
        used, requested, held = int(tape.used[frame]), int(tape.requested[frame]), int(tape.held[frame])
        reserved = int(tape.reserved[frame])
        left = max(0, (tape.capacity_bytes or 0) - reserved)
        parts = [f"used {as_text(used)}", f"asked for {as_text(requested)}" if requested != used else "",
                 f"held {as_text(held)}" if held else "", f"reserved {as_text(reserved)}",
                 f"left on the device {as_text(left)}" if left else "",
                 f"largest free run {as_text(int(tape.largest_free[frame]))}",
                 f"external fragmentation {fragmentation(tape, frame)}"]
        return " · ".join(part for part in parts if part)

    def draw(self, ax) -> None:
        layout = self.layout
        ax.set(xlim=(-1, layout.width + 1), ylim=(max(1, layout.height), -1))
        ax.axis("off")
        boxes = _Boxes(layout)
        for word in layout.words:
            boxes.add(word.address, word.end, palette.PAPER, edge=_FAINT_LINE, dashed=True)
        for address, size_bytes, _ in self.moment.segments:
            boxes.add(address, address + size_bytes, palette.FREE, edge=_LINE_COLOUR)
        for piece in self.moment.pieces:
            self._add_piece(boxes, piece)
        boxes.draw(ax)
        self._write_owners(ax)
        self._mark(ax)

    def _add_piece(self, boxes: "_Boxes", piece: DrawnPiece) -> None:
        colour = self._colour(piece.owner)
        filled = piece.address + min(piece.requested_bytes, piece.size_bytes)
        if piece.held:
            boxes.add(piece.address, piece.end, palette.PAPER, hatch=(_FALLING, colour), inset=2)
            return
        if filled < piece.end:
            boxes.add(filled, piece.end, palette.mixed(colour, palette.PAPER, 0.2), hatch=(_RISING, colour), inset=2)
        if filled > piece.address:
            boxes.add(piece.address, filled, colour, inset=2)
        if self.followed == piece.owner:
            boxes.add(piece.address, piece.end, "none", edge=palette.FOLLOWED, line=1.6)

    def _colour(self, owner: int) -> str:
        colour = palette.hue(owner)
        return colour if self.followed in (None, owner) else palette.mixed(colour, palette.PAPER, 0.42)

    def _write_owners(self, ax) -> None:
        if self.layout.bar < 11:
            return
        largest = sorted(self.moment.pieces, key=lambda piece: (-piece.size_bytes, piece.address))[:_MOST_NAMED_PIECES]
        for piece in largest:
            parts = self.layout.parts(piece.address, piece.end)
            row, x, end = next((part for part in parts if part[2] - part[1] > 40), parts[0])
            name = "" if self.tape.owners[piece.owner] == NO_NAME else self.tape.owners[piece.owner]
            name = name if 6.2 * len(name) + 8 < end - x else label(name)
            if not name or 6.2 * len(name) + 6 > end - x:
                continue
            middle = row * self.layout.pitch + self.layout.bar / 2
            filled = (end - x) * piece.requested_bytes / piece.size_bytes  # where it lies in one row; else no matter
            ground = piece.held or filled < 6.2 * len(name) + 8
            plain = ground or self.followed not in (None, piece.owner)
            ink = palette.INK if plain else palette.ink_on(palette.hue(piece.owner))
            box = {"boxstyle": "square,pad=0.1", "facecolor": palette.PAPER, "edgecolor": "none"} if ground else None
            ax.text(x + 5, middle, name, fontsize=7, weight="bold", va="center", color=ink, bbox=box)

    def _mark(self, ax) -> None:
        """What belongs to the moment: the event's pieces, the free runs of a refused request, pins."""
        marks = _Boxes(self.layout)
        if self.event:
            for kind, row, _ in self.event.changes:
                of_segment = kind in ("reserve", "unreserve")
                address = int((self.tape.segment_addresses if of_segment else self.tape.piece_addresses)[row])
                size = int((self.tape.segment_sizes if of_segment else self.tape.piece_sizes)[row])
                marks.add(address, address + size, "none", edge=palette.ATTENTION, line=1.8)
        longest = sorted(self.runs, key=lambda run: (-run[1], run[0]))[:_MOST_NAMED_RUNS]
        for address, size_bytes in longest:
            first = (address, size_bytes) == longest[0]
            marks.add(address, address + size_bytes, "none", edge=palette.INK, line=1.8 if first else 1.1,
                      dashed=not first)
        marks.draw(ax)
        for address, size_bytes in longest:
            row, x, end = max(self.layout.parts(address, address + size_bytes), key=lambda part: part[2] - part[1])
            text = ("longest: " if (address, size_bytes) == longest[0] else "") + as_text(size_bytes)
            if end - x > 6.5 * len(text) or (address, size_bytes) == longest[0]:
                ax.text((x + end) / 2, row * self.layout.pitch + self.layout.bar / 2, text, fontsize=7, weight="bold",
                        ha="center", va="center", color=palette.INK,
                        bbox={"boxstyle": "round,pad=0.25", "facecolor": palette.PAPER, "edgecolor": "none"})
        for pin in self.pinned:
            (row, x, _), *_ = self.layout.parts(pin.address, pin.address + 1)
            top = row * self.layout.pitch + self.layout.bar * 0.28
            ax.plot([x + 7, x + 7], [top, top + 8], color=palette.INK, linewidth=1.1)
            ax.plot([x + 7], [top], marker="o", markersize=4, color=palette.INK)

    def side(self, width: float, short: bool) -> list["_SideLine"]:
        """The lines beside the picture (or, if they are to be short, below it)."""
        lines: list[_SideLine] = []
        most = int(width * _CHARACTERS)
        if self.why:
            kind, _, rest = self.why["words"].partition(": ")
            lines.append(_SideLine(f"Why it failed: {kind.lower()}", bold=True, colour=palette.ATTENTION))
            lines += [_SideLine(line) for line in textwrap.wrap(rest, most)]
            asked, free = self.why["size_bytes"], self.why["free_bytes"]
            total, longest = free + self.why["device_bytes"], self.why["largest_free_bytes"]
            scale = max(1, asked, total)
            for name, size, colour in (("asked for", asked, palette.ATTENTION), ("free in total", total, "#a9adb3"),
                                       ("reserved, unused", free, "#c4c7cc"), ("longest run", longest, palette.INK)):
                lines.append(_SideLine(name, bar=(size / scale, colour, asked / scale), value=as_text(size)))
        decision = self.tape.decision(self.frame - 1) if self.frame else None
        if decision and not (short and self.why):
            lines += _gap(lines)
            rounded = decision.rounded_bytes - decision.asked_bytes
            if self.event.op == "free":
                lines.append(_SideLine("What came of it", bold=True))
            else:
                lines.append(_SideLine(f"Decision: {as_text(decision.asked_bytes)} asked for"
                                       + (f", rounded up by {as_text(rounded)}" if rounded else ""), bold=True))
            shown = decision.looks[:_MOST_LOOKS - 1]
            shown += tuple(look for look in decision.looks[_MOST_LOOKS - 1:] if look.verdict == CHOSEN)[-1:]
            hidden = decision.num_looks - len(shown)
            more = f"… {hidden:,} more looked at" if hidden else ""
            for look in shown:
                chosen = look.verdict == CHOSEN
                if chosen and look is shown[-1] and more:
                    lines.append(_SideLine(more, colour=palette.FAINT_INK))
                mark = "" if look.verdict.startswith(LEADS_ON) else "✓ " if chosen else "✗ "
                size = f", {as_text(look.size_bytes)}" if look.size_bytes else ""
                colour = palette.INK if chosen else palette.FAINT_INK
                for line in textwrap.wrap(f"{mark}{look.what}{size}: {look.verdict}", most, subsequent_indent="    "):
                    lines.append(_SideLine(line, chosen, colour))
            if more and not (shown and shown[-1].verdict == CHOSEN):
                lines.append(_SideLine(more, colour=palette.FAINT_INK))
            for note in decision.notes[:_MOST_NOTES]:
                lines += [_SideLine(line) for line in textwrap.wrap(f"→ {note}", most)]
        if self.pinned:
            lines += _gap(lines)
            lines.append(_SideLine(f"Pinned: {count(len(self.pinned), 'segment')}, "
                                   f"{as_text(sum(pin.free_bytes for pin in self.pinned))} cannot go back", bold=True))
            for pin in self.pinned[:_MOST_PINNED]:
                owners = list(dict.fromkeys(self.tape.owners[piece.owner] for piece in pin.pieces))
                keepers = owners[0] + (f" and {len(owners) - 1} more" if len(owners) > 1 else "")
                free = percent(pin.free_bytes, pin.size_bytes)
                lines.append(_SideLine(f"{as_text(pin.size_bytes)}, {free} free, kept by {keepers}"))
            if len(self.pinned) > _MOST_PINNED:
                lines.append(_SideLine(f"… and {count(len(self.pinned) - _MOST_PINNED, 'more segment')}",
                                       colour=palette.FAINT_INK))
        if not short and len(lines) < 4:
            lines += [*_gap(lines), *self._owner_lines()]
        return [line.cut(most) for line in lines]

    def _owner_lines(self) -> list["_SideLine"]:
        sizes: dict[int, int] = {}
        for piece in self.moment.pieces:
            sizes[piece.owner] = sizes.get(piece.owner, 0) + piece.size_bytes
        shown = sorted(sizes, key=lambda owner: (-sizes[owner], owner))[:_MOST_OWNERS]
        lines = [_SideLine("Owners", bold=True, colour=palette.FAINT_INK)]
        lines += [_SideLine(self.tape.owners[owner], swatch=palette.hue(owner), value=as_text(sizes[owner]))
                  for owner in shown]
        if len(sizes) > len(shown):
            lines.append(_SideLine(f"… and {len(sizes) - len(shown):,} more", colour=palette.FAINT_INK))
        return lines


@dataclass
class _SideLine:
    """A line of text; with `bar` (length, colour, where the request ends, as parts of 1) and `value` one of a chart."""

    text: str
    bold: bool = False
    colour: str = palette.INK
    value: str = ""
    bar: tuple[float, str, float] | None = None
    swatch: str | None = None

    def cut(self, most: int) -> "_SideLine":
        self.text = shortened(self.text, max(12, most - (len(self.value) + 5 if self.value else 0)))
        return self

    def write(self, write, fill, x: float, y: float, width: float) -> None:
        weight = "bold" if self.bold else "normal"
        if self.swatch:
            fill(x, y - 0.05, 0.1, 0.1, self.swatch)
        write(x + (0.17 if self.swatch else 0), y, self.text, color=self.colour, weight=weight, fontsize=7.5)
        if self.value:
            write(x + width, y, self.value, ha="right", fontsize=7.5, color=self.colour)
        if self.bar:
            length, colour, asked = self.bar
            left, long = x + 1.0, max(0.2, width - 1.7)
            fill(left, y - 0.06, long, 0.12, palette.FREE)
            fill(left, y - 0.06, max(0.005, long * length), 0.12, colour)
            fill(left + long * asked - 0.01, y - 0.085, 0.02, 0.17, palette.ATTENTION)


def _gap(lines: list[_SideLine]) -> list[_SideLine]:
    return [_SideLine("")] if lines else []


class _Boxes:
    """Rectangles in the rows of a layout, drawn together by what they look like."""

    def __init__(self, layout: RowLayout):
        self._layout = layout
        self._groups: dict[tuple, list] = {}

    def add(self, address: int, end: int, colour: str, edge: str = "none", line: float = 0.7, dashed: bool = False,
            hatch: tuple[str, str] | None = None, inset: float = 0) -> None:
        layout, least = self._layout, 0.7
        group = self._groups.setdefault((colour, edge, line, dashed, hatch), [])
        for row, x, right in layout.parts(address, end):
            right = max(x + least, right - (1.2 if inset and right - x > 4 else 0))
            top, bottom = row * layout.pitch + inset, row * layout.pitch + layout.bar - inset
            group.append([(x, top), (right, top), (right, bottom), (x, bottom)])

    def draw(self, ax) -> None:
        from matplotlib.collections import PolyCollection
        for (colour, edge, line, dashed, hatch), boxes in self._groups.items():
            if not boxes:
                continue
            style = {"linestyles": [(0, (3, 2))]} if dashed else {}
            ax.add_collection(PolyCollection(boxes, facecolors=colour, edgecolors=edge,
                                             linewidths=0 if edge == "none" else line, **style))
            wide = [box for box in boxes if box[1][0] - box[0][0] > 3]  # in less a hatch is not seen, and takes time
            if hatch and wide:
                ax.add_collection(PolyCollection(wide, facecolors="none", edgecolors=hatch[1], linewidths=0.6,
                                                 hatch=hatch[0]))


def _draw_timeline(ax, tape: MemoryTape, frame: int) -> None:
    import numpy
    used, requested, reserved, held = map(numpy.array, (tape.used, tape.requested, tape.reserved, tape.held))
    at = numpy.arange(len(used))
    if len(at) > 2000:  # more than a printed line has dots
        at = numpy.unique(numpy.linspace(0, len(used) - 1, 2000).astype(int))
        used, requested, reserved, held = used[at], requested[at], reserved[at], held[at]
    at = numpy.append(at, len(tape) + 1)  # the last frame has a width too
    used, requested, reserved, held = (numpy.append(column, column[-1]) for column in (used, requested, reserved, held))
    most = max(1.0, float(max(tape.reserved)))
    whole = max(tape.capacity_bytes, most) if tape.capacity_bytes and tape.capacity_bytes <= 4 * most else most
    step = {"step": "post", "linewidth": 0}
    ax.fill_between(at, 0, reserved, color=_RESERVED_FREE, **step)
    ax.fill_between(at, 0, requested, color=palette.HUES[0], **step)
    if (used > requested).any():
        ax.fill_between(at, requested, used, facecolor=palette.PAPER, edgecolor=palette.HUES[0], hatch=_RISING, **step)
    if held.any():
        ax.fill_between(at, used, used + held, facecolor=palette.PAPER, edgecolor=palette.HUES[3], hatch=_FALLING,
                        **step)
    refused = [number + 1.5 for number in range(len(tape)) if "error" in tape.note(number)]
    ax.plot(refused[:2000], [whole * 0.82] * len(refused[:2000]), linestyle="none", marker="x", markersize=4,
            markeredgewidth=1.6, color=palette.ATTENTION, clip_on=False)
    ax.axvline(frame + 0.5, color=palette.INK, linewidth=1.2)
    ax.plot([frame + 0.5], [whole], marker="o", markersize=5, color=palette.INK, clip_on=False)
    ax.text(0.005, 0.9, as_text(int(whole)), transform=ax.transAxes, fontsize=7, va="top", color=palette.FAINT_INK)
    ax.set(xlim=(0, len(tape) + 1), ylim=(0, whole), facecolor=palette.mixed(palette.FREE, palette.PAPER, 0.5))
    label_events(ax, len(tape), count(len(tape), "event"))


def _draw_legend(ax, panel: _Panel) -> None:
    """What the marks mean, for a picture that nobody can point at."""
    from matplotlib.patches import Rectangle
    tape, hue = panel.tape, palette.HUES[0]
    entries = [("in use", {"facecolor": hue})]
    if any(used > requested for used, requested in zip(tape.used, tape.requested)):
        entries.append(("set aside", {"facecolor": palette.mixed(hue, palette.PAPER, 0.2), "edgecolor": hue,
                                      "hatch": _RISING, "linewidth": 0.6}))
    if any(tape.held):
        entries.append(("held", {"facecolor": palette.PAPER, "edgecolor": hue, "hatch": _FALLING, "linewidth": 0.6}))
    entries.append(("free", {"facecolor": palette.FREE, "edgecolor": _LINE_COLOUR, "linewidth": 0.6}))
    if len(tape.segment_addresses) > 1:
        entries.append(("not taken", {"facecolor": palette.PAPER, "edgecolor": _LINE_COLOUR, "linestyle": "--",
                                      "linewidth": 0.7}))
    entries.append(("this event", {"facecolor": "none", "edgecolor": palette.ATTENTION, "linewidth": 1.6}))
    inches = ax.get_position().width * ax.figure.get_figwidth()
    ax.set(xlim=(0, inches), ylim=(0.2, 0))
    ax.axis("off")
    x = 0.02
    for text, style in entries:
        ax.add_patch(Rectangle((x, 0.03), 0.14, 0.13, **style))
        ax.text(x + 0.2, 0.1, text, fontsize=7, va="center", color=palette.FAINT_INK)
        x += 0.34 + 0.055 * len(text)
    if panel.pinned:
        ax.plot([x + 0.04] * 2, [0.06, 0.17], color=palette.INK, linewidth=1.1)
        ax.plot([x + 0.04], [0.06], marker="o", markersize=4, color=palette.INK)
        ax.text(x + 0.14, 0.1, "pinned", fontsize=7, va="center", color=palette.FAINT_INK)
        x += 0.6
    row = f"one row: {as_text(panel.layout.row_bytes)}"
    if panel.layout.words and x < inches - 0.055 * len(row):
        ax.text(max(x + 0.055 * len(row), panel.layout.width / _PIXELS), 0.1, row, fontsize=7, va="center", ha="right",
                color=palette.FAINT_INK)
