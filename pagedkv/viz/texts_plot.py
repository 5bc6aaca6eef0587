"""The texts of sequences in matplotlib: for print, and where widgets cannot run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from pagedkv.viz import palette
from pagedkv.viz.picture import drawable, shortened
from pagedkv.viz.tape import Tape
from pagedkv.viz.texts import SequenceText, cut_in_the_middle, most_telling, texts_at
from pagedkv.viz.tokens import read_tokens
from pagedkv.viz.words import count

_MOST_ROWS, _LINES = 6, 2
_TITLE, _ROW, _LINE, _LEGEND = 0.3, 0.4, 0.155, 0.24  # inches
_NAME, _INDENT, _STATE_LETTER, _STATE_POINTS = 1.85, 0.17, 0.05, 6.2  # a name's column, and what stands in it
_POINTS, _LETTER = 7.6, 7 / 110  # of DejaVu Sans Mono, upright and slanted alike; its letters are whole pixels wide
_MOST_TOLD = 90  # letters of a text in the description


@dataclass(frozen=True)
class _Run:
    """A part of a text that looks the same: "there" already, "shared", "newest", or a "gap": tokens are left out."""

    text: str
    marks: frozenset[str]


class TextsPicture:
    """The texts at one frame of a tape, to be drawn into a strip of a figure.

    alt   what they say, in words
    """

    def __init__(self, tape: Tape, frame: int, selected: str = ""):
        self.tape = tape
        self.followed = tape.owners.index(selected) if selected in tape.owners else None
        who = tape.owner_of(frame - 1) if frame else None
        texts = texts_at(tape, frame)
        self.shown = most_telling(texts, _MOST_ROWS, (self.followed, who))
        self.num_more = len(texts) - len(self.shown)
        self.num_finished = sum(text.is_finished for text in texts)
        self.words = f"{len(texts) - self.num_finished:,} going on" + \
            (f", {self.num_finished:,} finished" if self.num_finished else "")
        parts = [f"{tape.owners[text.owner]} ({_state(text)}): {self._told(text)}" for text in self.shown]
        more = f"; and {count(self.num_more, 'sequence')} more" if self.num_more else ""
        self.alt = "Texts: " + ("; ".join(parts) if parts else "no sequence yet") + more

    def layout(self, width: float) -> float:
        """Place everything in a strip of this width, in inches. Returns the strip's height."""
        self.width = width
        longest = max((len(_state(text)) for text in self.shown), default=0)
        self.text_at = max(_NAME, _INDENT + longest * _STATE_LETTER + 0.1)
        self.height = _TITLE + _ROW * max(1, len(self.shown)) + _LEGEND
        return self.height

    def draw(self, ax) -> None:
        """Into axes of the size of the strip."""
        ax.set(xlim=(0, self.width), ylim=(self.height, 0))
        ax.axis("off")
        ax.text(0, 0.1, "Texts", fontsize=8.5, weight="bold", va="center", color=palette.FAINT_INK)
        more = f"; {self.num_more:,} more are not shown" if self.num_more else ""
        ax.text(0.5, 0.1, self.words + more, fontsize=8, va="center", color=palette.FAINT_INK)
        for row, text in enumerate(self.shown):
            self._draw_row(ax, text, _TITLE + row * _ROW)
        if not self.shown:
            ax.text(0, _TITLE + _LINE / 2, "no sequence yet", fontsize=7.5, va="center", color=palette.FAINT_INK)
        self._draw_legend(ax)

    def _draw_row(self, ax, text: SequenceText, y: float) -> None:
        from matplotlib.patches import Rectangle
        faint = text.is_finished
        colour = palette.hue(text.owner)
        ax.add_patch(Rectangle((0, y + 0.01), 0.1, 0.1, linewidth=0,
                               facecolor=palette.mixed(colour, palette.PAPER, 0.5) if faint else colour))
        ax.text(_INDENT, y + 0.06, shortened(drawable(self.tape.owners[text.owner]), 20), fontsize=8.5, va="center",
                color=palette.FAINT_INK if faint else palette.INK,
                weight="bold" if text.owner == self.followed else "normal")
        ax.text(_INDENT, y + 0.06 + _LINE, _state(text), fontsize=_STATE_POINTS, va="center", color=palette.FAINT_INK)
        for run, line, column, part in self._placed(text, int((self.width - self.text_at) / _LETTER)):
            _write(ax, self.text_at + column * _LETTER, y + 0.06 + line * _LINE, part, run.marks, faint)

    def _placed(self, text: SequenceText, columns: int) -> Iterator[tuple[_Run, int, int, str]]:
        """The text's runs with the line and the column where they stand, in parts where a line ends. As much of the
        text as there is room for in lines that end between words."""
        room = _LINES * columns
        runs = self._runs(text, room)
        starts = _line_starts("".join(run.text for run in runs), columns)
        while len(starts) > _LINES and room > columns:
            room -= 3
            runs = self._runs(text, room)
            starts = _line_starts("".join(run.text for run in runs), columns)
        place = 0
        for run in runs:
            end = place + len(run.text)
            for line, (start, stop) in enumerate(zip(starts[:_LINES], [*starts[1:], end])):
                begin, until = max(place, start), min(end, stop, start + columns)
                if begin < until:
                    yield run, line, begin - start, run.text[begin - place:until - place]
            place = end

    def _pieces(self, text: SequenceText) -> list[str]:
        first, *others = read_tokens(text.tokens, self.tape.token_text, self.tape.joins_pieces) or [""]
        return [drawable(piece) for piece in (first.lstrip(), *others)]

    def _runs(self, text: SequenceText, room: int) -> list[_Run]:
        pieces = self._pieces(text)
        before = f"… {count(text.num_missing, 'token')} before … " if text.num_missing else ""
        head, tail = cut_in_the_middle(pieces, room - len(before))
        gap_end, last = len(pieces) - tail, len(pieces) - 1
        runs = [_Run(before, frozenset({"gap"}))] if before else []
        at = 0
        for stretch in text.stretches:
            for _ in stretch.tokens:
                marks = set()
                if at < text.num_there - text.num_missing:
                    marks.add("there")
                if stretch.shared:
                    marks.add("shared")
                if at == last and not text.is_finished:
                    marks.add("newest")
                if at == head < gap_end:
                    runs.append(_Run(f" … {count(gap_end - head, 'token')} …", frozenset({"gap"})))
                if (at < head or at >= gap_end) and pieces[at]:
                    if runs and runs[-1].marks == marks:
                        runs[-1] = _Run(runs[-1].text + pieces[at], runs[-1].marks)
                    else:
                        runs.append(_Run(pieces[at], frozenset(marks)))
                at += 1
        return runs

    def _told(self, text: SequenceText) -> str:
        told = "".join(run.text for run in self._runs(text, _MOST_TOLD)).strip()
        return f"“{told}”" if told else "tokens not told"

    def _draw_legend(self, ax) -> None:
        entries = [("newest token", "newest")]
        if any(text.num_there for text in self.shown):
            entries.append(("there already: found in the cache, or shared by a fork", "there"))
        if any(self.tape.shared):
            entries.append(("in a shared block", "shared"))
        x, y = 0.0, self.height - 0.14
        for words, mark in entries:
            _write(ax, x, y, "abc", frozenset({mark}), False)
            ax.text(x + 0.25, y, words, fontsize=7.5, va="center", color=palette.FAINT_INK)
            x += 0.5 + 0.062 * len(words)


def _state(text: SequenceText) -> str:
    """How long a text is, in words."""
    return ("finished · " if text.is_finished else "") + count(text.num_tokens, "token") + \
        (f", {text.num_there:,} there already" if text.num_there else "")


def _line_starts(text: str, columns: int) -> list[int]:
    """Where lines of so many letters begin: after a blank where there is one. Blanks at a line's end take no room."""
    starts = [0]
    for word in re.finditer(r"[^ ]+", text):
        if word.start() > starts[-1] and word.end() - starts[-1] > columns:
            starts.append(word.start())
        while word.end() - starts[-1] > columns:
            starts.append(starts[-1] + columns)
    return starts


def _write(ax, x: float, y: float, text: str, marks: frozenset[str], faint: bool) -> None:
    width = len(text) * _LETTER
    newest = "newest" in marks
    box = {"facecolor": palette.FREE, "edgecolor": palette.ATTENTION, "linewidth": 0.6, "pad": 1}
    blanks = len(text) - len(text.lstrip()) if newest else 0  # its frame would cut into the letter before
    ax.text(x + blanks * _LETTER, y, text[blanks:], fontsize=_POINTS, family="monospace", va="center_baseline",
            style="italic" if "there" in marks else "normal", weight="bold" if newest else "normal",
            color=palette.FAINT_INK if faint or marks & {"there", "gap"} else palette.INK,
            bbox=box if newest else None)
    if "shared" in marks:
        for below in (0.062, 0.078):
            ax.plot([x, x + width], [y + below] * 2, color=palette.FAINT_INK, linewidth=0.6)
