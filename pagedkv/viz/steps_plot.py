"""A story step by step in matplotlib: for print, and where widgets cannot run. The places at one frame, what each actor
has read, and the steps so far in a column for each actor. front/steps_*.js draws the same for the screen."""

import textwrap

from pagedkv.viz import palette
from pagedkv.viz.picture import Picture, default_style, drawable, shortened
from pagedkv.viz.steps_layout import HEAD_ROOM, HEADING, TILE, Box, lay_out_places, num_shown, slot
from pagedkv.viz.steps_tape import Place, Step, StepsTape

_WIDTH, _PIXELS = 1000, 100  # the front end's pixels, and how many of them are an inch
_MARGIN, _TITLE, _LINE, _LETTER = 14, 40, 17, 6.3
_LEAST_HISTORY = 400
_MOST_STEPS = 34  # listed: more would make a picture that nobody prints


def still_steps(tape: StepsTape, frame: int, title: str) -> Picture:
    """The picture after step `frame`."""
    from matplotlib.figure import Figure
    with default_style():
        drawing = _Drawing(tape, frame)
        figure = Figure(figsize=(_WIDTH / _PIXELS, drawing.height / _PIXELS), facecolor=palette.PAPER)
        axes = figure.add_axes([0, 0, 1, 1])
        axes.set_xlim(0, _WIDTH)
        axes.set_ylim(drawing.height, 0)
        axes.set_axis_off()
        drawing.draw(axes, title)
    return Picture(figure, _described(tape, frame, title))


def _described(tape: StepsTape, frame: int, title: str) -> str:
    steps = " ".join(f"{number}. {tape.sentence(number)}." for number in range(1, frame + 1))
    said = f"{title}, after step {frame} of {len(tape)}. {tape.where(frame)}."
    return " ".join(part for part in (said, f"Steps: {steps}" if steps else "", tape.result_at(frame)) if part)


class _Drawing:
    def __init__(self, tape: StepsTape, frame: int):
        self.tape, self.frame, self.step = tape, frame, tape.steps[frame]
        kinds = [place.kind for place in tape.places]
        self.head_at = kinds.index("stack") if tape.has_head and "stack" in kinds else None
        self.boxes = lay_out_places(kinds, [place.name for place in tape.places], tape.most_blocks(),
                                    _WIDTH - _LEAST_HISTORY - 3 * _MARGIN, self.head_at)
        self.right = max(box.x + box.width for box in self.boxes) + 2 * _MARGIN
        self.bottom = max(box.y + box.height for box in self.boxes) + _TITLE + 14
        self.column = (_WIDTH - self.right - _MARGIN - 24) / max(1, len(tape.actors))
        self.history = self._history()
        self.under = [f"{name}: {note}" for name, note in zip(tape.actors, self.step.notes) if note]
        self.under = [(line, palette.FAINT_INK) for line in self.under] + [
            (line, palette.ATTENTION) for line in _wrapped(tape.result_at(frame), (_WIDTH - 2 * _MARGIN) / _LETTER)]
        steps_height = _TITLE + _LINE * (1 + sum(len(lines) for _, lines, _ in self.history))
        self.under_at = max(self.bottom, steps_height) + 8
        self.height = self.under_at + _LINE * len(self.under) + 10

    def _history(self) -> list[tuple[int, list[str], Step]]:
        first = max(0, self.frame + 1 - _MOST_STEPS)
        rows = []
        for number in range(first, self.frame + 1):
            step = self.tape.steps[number]
            said = step.text + (f" – {step.mark}" if step.mark else "")
            width = self.column if step.actor is not None else self.column * max(1, len(self.tape.actors))
            rows.append((number, _wrapped(said, (width - 14) / _LETTER), step))
        return rows

    def draw(self, axes, title: str) -> None:
        self.axes = axes
        self._write(_MARGIN, 18, shortened(drawable(title), 110), fontsize=11, weight="bold")
        for place, box, blocks in zip(self.tape.places, self.boxes, self.step.blocks):
            self._draw_place(place, box, blocks)
        if self.head_at is not None:
            self._draw_head(self.boxes[self.head_at], self.step.blocks[self.head_at], self.step.head)
        self._draw_history()
        for number, (line, colour) in enumerate(self.under):
            self._write(_MARGIN, self.under_at + _LINE * (number + 0.5), drawable(line), color=colour,
                        weight="bold" if colour == palette.ATTENTION else "normal")

    def _draw_place(self, place: Place, box: Box, blocks: list[int]) -> None:
        alarm = place.kind == "lost" and bool(blocks)
        self._rectangle(box.x + _MARGIN, box.y + _TITLE, box.width, box.height, facecolor="#f6f8fa",
                        edgecolor=palette.ATTENTION if alarm else "#d8dee4", linewidth=1.8 if alarm else 1,
                        linestyle="--" if place.kind == "lost" else "-")
        self._write(box.x + _MARGIN + box.width / 2, box.y + _TITLE + HEADING / 2, drawable(place.name), ha="center",
                    weight="bold", color=palette.ATTENTION if alarm else palette.INK)
        shown, moved, doubled = num_shown(box, len(blocks)), self.tape.moved(self.frame), self.tape.doubled(self.frame)
        for index, block in enumerate(blocks[:shown]):
            self._draw_tile(place, *slot(box, index, len(blocks)), block, block in moved, block in doubled)
        if shown < len(blocks):
            x, y = slot(box, shown, len(blocks))
            self._write(x + _MARGIN + TILE / 2, y + _TITLE + TILE / 2, f"+ {len(blocks) - shown}", ha="center",
                        color=palette.FAINT_INK)
        if not blocks:
            self._write(box.x + _MARGIN + box.width / 2, box.y + _TITLE + box.height - 22, "none", ha="center",
                        color=palette.FAINT_INK)

    def _draw_tile(self, place: Place, x: float, y: float, block: int, moved: bool, doubled: bool) -> None:
        x, y = x + _MARGIN, y + _TITLE
        own = None if place.actor is None else palette.hue(place.actor)
        held = own is not None and place.kind == "set"
        face = own if held else palette.PAPER
        lost = place.kind == "lost"
        self._rectangle(x, y, TILE, TILE, facecolor=face, linestyle="--" if lost else "-",
                        edgecolor=palette.ATTENTION if lost else own or palette.FAINT_INK,
                        linewidth=1, hatch="////" if own is not None and not held else None)
        if moved or doubled:
            self._rectangle(x - 2.5, y - 2.5, TILE + 5, TILE + 5, facecolor="none", edgecolor=palette.ATTENTION,
                            linewidth=2)
        # a paper behind the number: it is read on hatching too
        behind = {"facecolor": face, "edgecolor": "none", "boxstyle": "square,pad=0.15"}
        self._write(x + TILE / 2, y + TILE / 2, str(block), ha="center", weight="bold", fontsize=9.5,
                    family="monospace", color=palette.ink_on(face), bbox=behind)
        if doubled:
            self._write(x + TILE, y, "×2", ha="center", fontsize=6.5, weight="bold", color=palette.PAPER,
                        bbox={"facecolor": palette.ATTENTION, "edgecolor": "none", "boxstyle": "round,pad=0.2"})

    def _draw_head(self, box: Box, listed: list[int], head: int | None) -> None:
        if head is None:
            return
        x, y = slot(box, 0, max(1, len(listed)))
        x, y = x + _MARGIN, y + _TITLE + TILE / 2
        self._write(x - HEAD_ROOM, y - 5, "head: none" if head < 0 else f"head {head}", family="monospace",
                    weight="bold", fontsize=7.5)
        if listed and head == listed[0]:
            self.axes.annotate("", (x - 1, y + 6), (x - HEAD_ROOM, y + 6),
                               arrowprops={"arrowstyle": "-|>", "color": palette.INK, "shrinkA": 0, "shrinkB": 0})

    def _draw_history(self) -> None:
        y = _TITLE + _LINE / 2
        for actor, name in enumerate(self.tape.actors):
            x = self.right + 24 + actor * self.column
            self._rectangle(x, y - 5, 9, 9, facecolor=palette.hue(actor), edgecolor="none")
            self._write(x + 14, y, shortened(drawable(name), 24), weight="bold")
        for number, lines, step in self.history:
            self._write(self.right + 16, y + _LINE, str(number), color=palette.FAINT_INK, ha="right")
            x = self.right + 24 + (step.actor or 0) * self.column
            if step.actor is not None:
                self._rectangle(x, y + _LINE / 2 + 1, 2.5, _LINE * len(lines) - 2, edgecolor="none",
                                facecolor=palette.hue(step.actor))
            for line in lines:
                y += _LINE
                self._write(x + 7, y, drawable(line), weight="bold" if step.mark else "normal",
                            color=palette.ATTENTION if step.mark else palette.INK)

    def _rectangle(self, x: float, y: float, width: float, height: float, **style) -> None:
        from matplotlib.patches import Rectangle
        self.axes.add_patch(Rectangle((x, y), width, height, **style))

    def _write(self, x: float, y: float, text: str, **style) -> None:
        self.axes.text(x, y, text, **{"va": "center", "fontsize": 8, "color": palette.INK, **style})


def _wrapped(text: str, letters: float) -> list[str]:
    return textwrap.wrap(text, max(12, int(letters)))
