"""The block grid and its timeline in matplotlib: for print, and where widgets cannot run."""

import math

from pagedkv.core.events import Recording
from pagedkv.core.replay import PoolState
from pagedkv.viz import palette
from pagedkv.viz.picture import Picture, default_style, drawable, label_events, shortened
from pagedkv.viz.tape import Moment, Tape, label
from pagedkv.viz.words import caption, count

_MOST_CELLS = 2048  # more are drawn as pixels: a mark could not be seen
_GAP, _CORNER = 0.06, 0.14  # of a cell
_MOST_OWNERS, _ROW = 9, 0.21  # in the list beside the grid; inches
_FEW_BLOCKS, _ABOVE_HEIGHT = 48, 2.3  # above another picture: the most blocks with large cells; inches of the grid
_TABLE_CHARACTERS, _MOST_TABLE_LINES = 38, 12  # of one table in a line; of all tables together
_DEVICE_HEIGHT = 0.75  # inches: the device's memory and its legend
_SHARED_DARKER, _CACHED_PALER = 0.68, 0.35


def plot_grid(recording_or_state, frame: int | None = None, ax=None, mark=(), title: str | None = None,
              columns: int | None = None) -> Picture:
    """Draw who holds which block: of a Recording after `frame` events (default: the frame that says most), or of a
    PoolState.

    ax     matplotlib axes to draw into; a new figure otherwise
    mark   blocks to outline
    """
    if isinstance(recording_or_state, Recording):
        tape = Tape(recording_or_state)
        frame = tape.opening_frame() if frame is None else _checked(frame, tape)
        moment, where = tape.moment(frame), f"after event {frame:,} of {len(tape):,}"
        name = f"{recording_or_state.source}, {where}"
    elif isinstance(recording_or_state, PoolState):
        if frame is not None:
            raise TypeError("a frame needs a recording; a PoolState is one moment")
        moment, name = Moment.of_state(recording_or_state), f"pool of {count(recording_or_state.num_blocks, 'block')}"
    else:
        raise TypeError(f"plot_grid draws a Recording or a PoolState, not a {type(recording_or_state).__name__}")
    mark = list(mark)
    alt = f"{title or name}: {summary(moment)}" + (f"; marked: blocks {', '.join(map(str, mark))}" if mark else "")
    columns = columns or _columns(moment.num_blocks)
    with default_style():
        if ax is None:
            from matplotlib.figure import Figure
            rows = max(1, math.ceil(moment.num_blocks / columns))
            width = min(7.5, max(2.5, columns * 0.5))
            figure = Figure(figsize=(width, max(0.8, width * rows / columns + 0.4)), layout="constrained")
            ax = figure.subplots()
        _draw_cells(ax, moment, columns, mark)
        if title or ax.get_title() == "":
            ax.set_title(title or name, fontsize=9, loc="left", color=palette.INK)
    return Picture(ax.figure, alt)


def plot_timeline(recording: Recording, ax=None, frame: int | None = None) -> Picture:
    """Draw how many blocks were held by one, shared, cached and free, over the events; a line at `frame`."""
    tape = Tape(recording)
    with default_style():
        if ax is None:
            from matplotlib.figure import Figure
            ax = Figure(figsize=(7.5, 1.6), layout="constrained").subplots()
        _draw_timeline(ax, tape, None if frame is None else _checked(frame, tape))
    most = max(tape.used)
    return Picture(ax.figure, f"{recording.source}: blocks in use over {count(len(tape), 'event')}; most at once "
                              f"{most:,} of {tape.num_blocks:,}, at the end {tape.used[-1]:,}")


def still(tapes: list[Tape], frame: int, title: str, selected: str = "", columns: int | None = None,
          under=()) -> Picture:
    """What a widget shows at this frame: each pool's grid, its owners, the event in words, the timeline.

    under   what stands below the grid of a single tape, from top to bottom: each has layout(width) → height, both in
            inches, draw(axes) and alt
    """
    from matplotlib.figure import Figure
    with default_style():
        one = len(tapes) == 1
        width = 8.6 if one else min(12.0, 5.2 * len(tapes))
        panel_width = (width - 0.3) / len(tapes)
        grid_width = panel_width * (0.66 if one else 1) - 0.2
        if under and not columns and tapes[0].num_blocks <= _FEW_BLOCKS:
            columns = min(8, max(1, tapes[0].num_blocks))  # large cells: they are what the tables point to
        heights = [_grid_height(tape, columns, grid_width) for tape in tapes]
        if under:
            heights = [min(_ABOVE_HEIGHT, *heights)]
        tables = _shown_tables(tapes[0], frame) if one and tapes[0].tells_contents else None
        rows = 1.3 * len(tables) + sum(len(lines) for _, lines in tables) * 0.8 if tables is not None else \
            min(_MOST_OWNERS, len(tapes[0].owners))
        grid_height = max(_ROW * (2 + rows) if one else 0.6, *heights)
        below = 0.45 + grid_height + 0.3  # under the grid and the legend
        under_places = []
        for picture in under:
            under_places.append((below + 0.12, picture.layout(panel_width - 0.15)))
            below = sum(under_places[-1])
        device_height = _DEVICE_HEIGHT if any(tape.tells_device for tape in tapes) else 0
        height = below + 0.4 + 1.1 + device_height
        figure = Figure(figsize=(width, height), facecolor=palette.PAPER)
        alt = []
        for number, tape in enumerate(tapes):
            left = 0.15 + number * panel_width
            moment, at = tape.moment(min(frame, len(tape))), min(frame, len(tape))
            followed = tape.owners.index(selected) if selected in tape.owners else None

            def place(x, y, w, h, left=left):
                return figure.add_axes([(left + x) / width, 1 - (y + h) / height, w / width, h / height])

            heading = title if one else tape.title
            figure.text(left / width, 1 - 0.22 / height, heading, fontsize=10, weight="bold", va="center",
                        color=palette.INK)
            figure.text((left + panel_width - 0.15) / width, 1 - 0.22 / height,
                        f"{tape.source} · {_size(tape)} · event {at:,} / {len(tape):,}"
                        if one else f"event {at:,} / {len(tape):,}", fontsize=8, va="center", ha="right",
                        color=palette.FAINT_INK)
            grid = place(0, 0.45, grid_width, grid_height)
            shown_columns, copy = columns or _columns(tape.num_blocks), tape.copy_under_way(at)
            current = [block for block, _ in tape.event(at - 1)[3]] if at and tape.tells_contents else []
            _draw_cells(grid, moment, shown_columns, current if copy is None else copy, followed)
            if copy is not None:
                _draw_copy(grid, *copy, min(shown_columns, max(1, tape.num_blocks)))
            for picture, (under_top, under_height) in zip(under, under_places):
                picture.draw(place(0, under_top, panel_width - 0.15, under_height))
            if tables is not None:
                beside = place(grid_width + 0.2, 0.45, panel_width - grid_width - 0.3, grid_height)
                _draw_tables(beside, tape, at, tables, followed)
            elif one:
                _draw_owners(place(grid_width + 0.2, 0.45, panel_width - grid_width - 0.3, grid_height), moment,
                             followed, tape.owners_are)
            words = drawable(caption(tape, at))
            figure.text(left / width, 1 - (below + 0.2) / height, shortened(words, int(panel_width * 14.5)),
                        fontsize=8, family="monospace", va="center",
                        color=palette.ATTENTION if "fault:" in words or "refused:" in words else palette.INK)
            _draw_legend(place(0, 0.45 + grid_height + 0.12, panel_width - 0.15, 0.16), tape)
            _draw_timeline(place(0, below + 0.45, panel_width - 0.15, 0.75), tape, at)
            _draw_timeline_legend(place(0, below + 1.24, panel_width - 0.15, 0.12), tape, at)
            if tape.tells_device:
                _draw_device(place(0, below + 1.48, panel_width - 0.15, device_height - 0.22), tape, at)
            alt.append(f"{heading} ({tape.source}), {_size(tape)}, after event {at:,} of {len(tape):,}: "
                       f"{summary(moment)}. Last event: {words}" + "".join(f". {picture.alt}" for picture in under)
                       + (f". Device memory: {_device_words(tape, at)}" if tape.tells_device else ""))
    return Picture(figure, " | ".join(alt))


def summary(moment: Moment) -> str:
    parts = [f"{moment.num_used:,} used"]
    if moment.num_shared:
        parts[0] += f" ({moment.num_shared:,} shared)"
    if moment.num_cached:
        parts.append(f"{moment.num_cached:,} cached")
    parts.append(f"{moment.num_blocks - moment.num_used - moment.num_cached:,} free")
    if moment.at_fault:
        parts.append(f"{count(len(moment.at_fault), 'block')} given out twice")
    return ", ".join(parts)


def _draw_cells(ax, moment: Moment, columns: int, mark, followed: int | None = None) -> None:
    columns = min(columns, max(1, moment.num_blocks))
    rows = max(1, math.ceil(moment.num_blocks / columns))
    ax.set(xlim=(-0.08, columns + 0.08), ylim=(rows + 0.08, -0.08), aspect="equal", anchor="NW")
    ax.axis("off")
    if moment.num_blocks > _MOST_CELLS:
        _draw_pixels(ax, moment, columns, rows, followed)
    else:
        _draw_shapes(ax, moment, columns, followed)
        _write_in_cells(ax, moment, columns, followed)
    for block in mark:
        if 0 <= block < moment.num_blocks:
            _outline(ax, block, columns, palette.ATTENTION, 2.2)


def _draw_shapes(ax, moment: Moment, columns: int, followed: int | None, only=None) -> None:
    from matplotlib.collections import PolyCollection
    plain, colours, notches, notch_colours, halves, half_colours, split_lines = [], [], [], [], [], [], []
    hatched: dict[str, list] = {}
    for block in range(moment.num_blocks) if only is None else only:
        x, y = block % columns, block // columns
        held = moment.holders.get(block)
        cell = _rounded(x, y)
        if not held:
            plain.append(cell)
            colours.append(palette.FREE)
            if block in moment.cached:
                last = moment.last_holder.get(block)
                hatched.setdefault(palette.FAINT_INK if last is None else palette.hue(last), []).append(cell)
            continue
        colour = palette.hue(held[0])
        if followed is not None and followed not in held:
            colour = palette.mixed(colour, palette.PAPER, 0.42)
        plain.append(cell)
        colours.append(colour)
        if block in moment.at_fault:
            halves.append([(x + 1 - _GAP, y + _GAP), (x + 1 - _GAP, y + 1 - _GAP), (x + _GAP, y + 1 - _GAP)])
            half_colours.append(palette.hue(held[-1]))
            split_lines.append(block)
        elif len(held) > 1:
            notches.append([(x + 0.56, y + _GAP - 0.02), (x + 1 - _GAP + 0.02, y + _GAP - 0.02),
                            (x + 1 - _GAP + 0.02, y + 0.44)])
            notch_colours.append(palette.PAPER)
    ax.add_collection(PolyCollection(plain, facecolors=colours, edgecolors="none"))
    for colour, cells in hatched.items():
        ax.add_collection(PolyCollection(cells, facecolors="none", edgecolors=colour, linewidths=0, hatch="//////"))
    ax.add_collection(PolyCollection(halves, facecolors=half_colours, edgecolors=palette.PAPER, linewidths=1))
    ax.add_collection(PolyCollection(notches, facecolors=notch_colours, edgecolors="none"))
    for block in split_lines:
        _outline(ax, block, columns, palette.ATTENTION, 1.8)
    if followed is not None:
        for block, held in moment.holders.items():
            if followed in held:
                _outline(ax, block, columns, palette.FOLLOWED, 1.4)


def _write_in_cells(ax, moment: Moment, columns: int, followed: int | None) -> None:
    """The owner, the refcount of a shared block and the block's number, where there is room."""
    box = ax.get_position()
    points = 72 * ax.figure.get_size_inches()[0] * box.width / columns
    if points < 15:
        return
    from matplotlib.patheffects import withStroke
    behind = [withStroke(linewidth=3, foreground=palette.PAPER)]  # else a number is lost among the hatching
    for block in range(moment.num_blocks):
        x, y = block % columns, block // columns
        held = moment.holders.get(block)
        if points >= 24:
            hatched = not held and block in moment.cached
            ink = palette.ink_on(palette.hue(held[0])) if held else palette.INK if hatched else palette.FAINT_INK
            ax.text(x + 0.13, y + 0.14, str(block), fontsize=min(7, points * 0.22), va="top", color=ink,
                    alpha=1 if hatched else 0.85, path_effects=behind if hatched else None)
        if held:
            names = [label(moment.owners[owner]) if moment.owners[owner] != "(no name)" else "" for owner in held]
            ink = palette.ink_on(palette.hue(held[0]))
            if block in moment.at_fault:
                ax.text(x + 0.32, y + 0.42, names[0], fontsize=points * 0.28, ha="center", va="center", color=ink)
                ax.text(x + 0.7, y + 0.72, names[-1], fontsize=points * 0.28, ha="center", va="center",
                        color=palette.ink_on(palette.hue(held[-1])))
                continue
            times = f"×{len(held)}" if len(held) > 1 and points >= 20 else ""
            ax.text(x + 0.5, y + 0.55, names[0] or times, fontsize=points * 0.34, ha="center", va="center",
                    color=ink, weight="bold")
            if times and names[0] and points >= 24:
                ax.text(x + 0.88, y + 0.9, times, fontsize=points * 0.24, ha="right", va="bottom", color=ink)


def _draw_pixels(ax, moment: Moment, columns: int, rows: int, followed: int | None, only=None) -> None:
    import numpy
    shades = [_rgb(palette.PAPER), _rgb(palette.FREE)]
    for colour in palette.HUES:
        paler = palette.mixed(colour, palette.PAPER, 0.42)
        shades += [_rgb(colour), _rgb(palette.mixed(colour, "#000000", _SHARED_DARKER)),
                   _rgb(palette.mixed(colour, palette.FREE, _CACHED_PALER)), _rgb(paler)]
    shades.append(_rgb(palette.ATTENTION))
    cells = numpy.zeros(rows * columns, dtype=int)
    cells[slice(moment.num_blocks) if only is None else only] = 1
    for block in moment.cached:
        cells[block] = 2 + 4 * (moment.last_holder.get(block, 0) % len(palette.HUES)) + 2
    for block, held in moment.holders.items():
        kind = 3 if followed is not None and followed not in held else 1 if len(held) > 1 else 0
        cells[block] = 2 + 4 * (held[0] % len(palette.HUES)) + kind
    for block in moment.at_fault:
        cells[block] = len(shades) - 1
    ax.imshow(numpy.array(shades)[cells.reshape(rows, columns)], extent=(0, columns, rows, 0), interpolation="nearest")


def _draw_owners(ax, moment: Moment, followed: int | None, owners_are: str) -> None:
    """The owners who hold most, with how much they hold."""
    blocks: dict[int, int] = {}
    for held in moment.holders.values():
        for owner in held:
            blocks[owner] = blocks.get(owner, 0) + 1
    shown = sorted(sorted(blocks, key=lambda owner: (-blocks[owner], owner))[:_MOST_OWNERS])
    ax.set(xlim=(0, 10), ylim=(ax.get_position().height * ax.figure.get_size_inches()[1] / _ROW, 0))
    ax.axis("off")
    ax.text(0, 0.5, owners_are.capitalize(), fontsize=8.5, weight="bold", va="center", color=palette.FAINT_INK)
    for row, owner in enumerate(shown):
        y = row + 1.6
        ax.plot([0.3], [y], marker="s", markersize=7, color=palette.hue(owner), clip_on=False)
        ax.text(0.9, y, shortened(moment.owners[owner], 18), fontsize=8.5, va="center", color=palette.INK,
                weight="bold" if owner == followed else "normal")
        ax.text(9.9, y, count(blocks[owner], "block"), fontsize=8, va="center", ha="right", color=palette.FAINT_INK)
    if len(blocks) > len(shown):
        ax.text(0, len(shown) + 1.6, f"… and {len(blocks) - len(shown):,} more", fontsize=8, va="center",
                color=palette.FAINT_INK)


def _shown_tables(tape: Tape, frame: int) -> list[tuple[int, list[str]]]:
    """The owners who hold most blocks, each with the lines of its block table: entries logical→physical, with how full
    the last block is, and a mark for what may not be written to: * shared, ° cached."""
    moment, tokens, size = tape.moment(frame), tape.num_tokens(frame), tape.block_size_tokens
    copy, shown = tape.copy_under_way(frame), []
    tables = tape.tables(frame)
    for owner in sorted(sorted(tables, key=lambda each: (-len(tables[each]), each))[:_MOST_OWNERS]):
        table, entries = tables[owner], []
        doubled = copy is not None and table[-2:] == list(copy)  # the copy stands beside its source for a moment
        for place, block in enumerate(table):
            logical = place - (doubled and place == len(table) - 1)
            held = len(moment.holders.get(block, ()))
            entry = f"{logical}→{block}" + "*" * (held > 1) + "°" * (block in moment.cached)
            if owner in tokens and size and tokens[owner] - logical * size < size:
                entry += f" {max(0, tokens[owner] - logical * size)}/{size}"
            entries.append(entry)
        lines, line = [], ""
        for entry in entries:
            if len(line) + len(entry) > _TABLE_CHARACTERS:
                lines.append(line)
                line = ""
            line += entry + "  "
        lines.append(line)
        shown.append((owner, lines))
    most = max(1, _MOST_TABLE_LINES // max(1, len(shown)))
    return [(owner, lines if len(lines) <= most else [*lines[:most - 1], f"… {lines[-1]}"]) for owner, lines in shown]


def _draw_tables(ax, tape: Tape, frame: int, tables: list[tuple[int, list[str]]], followed: int | None) -> None:
    """The owners with their block tables."""
    tokens = tape.num_tokens(frame)
    ax.set(xlim=(0, 10), ylim=(ax.get_position().height * ax.figure.get_size_inches()[1] / _ROW, 0))
    ax.axis("off")
    ax.text(0, 0.5, tape.owners_are.capitalize(), fontsize=8.5, weight="bold", va="center", color=palette.FAINT_INK)
    ax.text(9.9, 0.5, "* shared   ° cached, read-only", fontsize=6.8, va="center", ha="right", color=palette.FAINT_INK)
    y = 1.6
    for owner, lines in tables:
        ax.plot([0.3], [y], marker="s", markersize=7, color=palette.hue(owner), clip_on=False)
        ax.text(0.9, y, shortened(tape.owners[owner], 18), fontsize=8.5, va="center", color=palette.INK,
                weight="bold" if owner == followed else "normal")
        if owner in tokens:
            ax.text(9.9, y, count(tokens[owner], "token"), fontsize=8, va="center", ha="right", color=palette.FAINT_INK)
        for line in lines:
            y += 0.8
            ax.text(0.9, y, line, fontsize=6.8, va="center", family="monospace", color=palette.INK)
        y += 1.3


def _draw_copy(ax, source: int, target: int, columns: int) -> None:
    """An arrow from the block that is copied to its copy."""
    from matplotlib.patches import FancyArrowPatch
    start, end = ((block % columns + 0.5, block // columns + 0.5) for block in (source, target))
    # Both ends a little inside their cells; the bow is above.
    bow = f"arc3,rad={-0.3 if end[0] >= start[0] else 0.3}"
    ax.add_patch(FancyArrowPatch(start, end, connectionstyle=bow, arrowstyle="-|>", mutation_scale=11, linewidth=1.8,
                                 color=palette.ATTENTION, shrinkA=6, shrinkB=6, zorder=5))


def _draw_timeline(ax, tape: Tape, frame: int | None) -> None:
    import numpy
    used, shared, cached = (numpy.array(column, dtype=float) for column in (tape.used, tape.shared, tape.cached))
    at = numpy.arange(len(used))
    if len(at) > 2000:  # more than a printed line has dots
        at = numpy.unique(numpy.linspace(0, len(used) - 1, 2000).astype(int))
        used, shared, cached = used[at], shared[at], cached[at]
    at = numpy.append(at, len(tape) + 1)  # the last frame has a width too
    used, shared, cached = (numpy.append(column, column[-1]) for column in (used, shared, cached))
    step = {"step": "post", "linewidth": 0}
    ax.fill_between(at, 0, used - shared, color=palette.HUES[0], alpha=0.85, **step)
    ax.fill_between(at, used - shared, used, color=palette.HUES[1], alpha=0.9, **step)
    if cached.any():
        ax.fill_between(at, used, used + cached, facecolor="none", edgecolor=palette.HUES[4], hatch="//////", **step)
    if frame is not None:
        ax.axvline(frame + 0.5, color=palette.INK, linewidth=1.2)
        ax.plot([frame + 0.5], [tape.num_blocks], marker="o", markersize=5, color=palette.INK, clip_on=False)
    ax.set(xlim=(0, len(tape) + 1), ylim=(0, max(1, tape.num_blocks)), facecolor=palette.FREE)
    label_events(ax, len(tape), f"{len(tape)}")


def _draw_timeline_legend(ax, tape: Tape, frame: int) -> None:
    """What the timeline's colours mean, with the numbers of this frame: on the line of its axis, in the middle."""
    from matplotlib.patches import Rectangle
    used = {"facecolor": palette.HUES[0], "alpha": 0.85, "linewidth": 0}
    entries = [("used", tape.used, used)]
    if any(tape.shared):
        entries.append(("shared", tape.shared, used | {"facecolor": palette.HUES[1], "alpha": 0.9}))
    if any(tape.cached):
        hatched = {"facecolor": palette.FREE, "edgecolor": palette.HUES[4], "linewidth": 0, "hatch": "/" * 6}
        entries.append(("cached", tape.cached, hatched))
    width, height = ax.get_position().width * ax.figure.get_figwidth(), 0.12  # inches
    apart = min(1.15, (width - 0.6) / len(entries))
    x = (width - apart * len(entries)) / 2
    for name, blocks, style in entries:
        ax.add_patch(Rectangle((x, 0), 0.12, height, **style))
        percent = int(100 * blocks[frame] / max(1, tape.num_blocks) + 0.5)  # rounded as on the screen
        ax.text(x + 0.18, height / 2, f"{name} {percent} %", fontsize=7, va="center", color=palette.FAINT_INK)
        x += apart
    ax.set(xlim=(0, width), ylim=(height, 0))
    ax.axis("off")


def _draw_device(ax, tape: Tape, frame: int) -> None:
    """What the device's allocator had in use, and had taken from the device, over the events."""
    import numpy
    ax.set_facecolor(palette.FREE)
    label_events(ax, len(tape), "")
    ax.set_xticks([])
    lines = [(tape.device_reserved_bytes, palette.HUES[1], (0, (4, 2.5))),
             (tape.device_allocated_bytes, palette.INK, "-")]
    most = max(max(column) for column, _, _ in lines)
    for column, colour, dashes in lines:
        values = numpy.append(numpy.array(column), column[-1])
        values[values < 0] = numpy.nan  # not told yet
        ax.step(numpy.arange(len(values)), values, where="post", color=colour, linewidth=1.5, linestyle=dashes)
    ax.axvline(frame + 0.5, color=palette.INK, linewidth=1.2)
    ax.set(xlim=(0, len(tape) + 1), ylim=(0, max(1, most) * 1.12))
    ax.text(0, -0.12, f"device memory, 0 … {gib(most)}", fontsize=7, va="top", transform=ax.transAxes,
            color=palette.FAINT_INK)
    x, width = 1.0, ax.get_position().width * ax.figure.get_figwidth()  # inches
    for (column, colour, dashes), name in zip(lines, ("reserved", "allocated")):
        words = f"{name} {'not told' if column[frame] < 0 else gib(column[frame])}"
        ax.text(x, -0.12, words, fontsize=7, va="top", ha="right", transform=ax.transAxes, color=palette.FAINT_INK)
        x -= (0.058 * len(words) + 0.05) / width
        ax.plot([x - 0.24 / width, x], [-0.22, -0.22], color=colour, linewidth=1.5, linestyle=dashes, clip_on=False,
                transform=ax.transAxes)
        x -= 0.45 / width


def _device_words(tape: Tape, frame: int) -> str:
    allocated, reserved = (("not told" if column[frame] < 0 else gib(column[frame]))
                           for column in (tape.device_allocated_bytes, tape.device_reserved_bytes))
    return f"allocated {allocated}, reserved {reserved}"


def gib(num_bytes: float) -> str:
    """Bytes as "1.25 GiB"; front/device_timeline.js says the same."""
    return f"{num_bytes / 2**30:.{4 if num_bytes < 2**30 / 10 else 2}f} GiB"


def _draw_legend(ax, tape: Tape) -> None:
    """What the marks mean, for a picture that nobody can point at: a row of example blocks, far apart."""
    large = tape.num_blocks > _MOST_CELLS
    narrow = ax.get_position().width * ax.figure.get_figwidth() < 6  # inches: side by side with another
    shared = "darker: shared" if large else "shared" if narrow else "shared (refcount ≥ 2)"
    examples = [("held by one", [0])]
    if any(tape.shared):
        examples.append((shared, [0, 0]))
    if any(tape.cached):
        examples.append(("paler: free to take" if large else "cached, free to take", []))
    examples.append(("free", []))
    if tape.first_fault is not None:
        examples.append(("given out twice", [0, 1]))
    apart = 11
    moment = Moment(apart * len(examples), ["", ""], {}, set())
    for number, (text, held) in enumerate(examples):
        block = apart * number
        if held:
            moment.holders[block] = held
        if "to take" in text:
            moment.cached.add(block)
            moment.last_holder[block] = 0
        if "twice" in text:
            moment.at_fault.add(block)
        ax.text(block + 1.5, 0.5, text, fontsize=6.5 if narrow else 7.5, va="center", color=palette.FAINT_INK)
    ax.set(xlim=(0, apart * 5), ylim=(1.1, -0.1), aspect="equal", anchor="W")
    ax.axis("off")
    blocks = [apart * number for number in range(len(examples))]
    if large:
        _draw_pixels(ax, moment, moment.num_blocks, 1, None, only=blocks)
    else:
        _draw_shapes(ax, moment, moment.num_blocks, None, only=blocks)


def _outline(ax, block: int, columns: int, colour: str, width: float) -> None:
    from matplotlib.patches import Polygon
    ax.add_patch(Polygon(_rounded(block % columns, block // columns, gap=0.02), closed=True, fill=False,
                         edgecolor=colour, linewidth=width))


def _rounded(x: float, y: float, gap: float = _GAP) -> list[tuple[float, float]]:
    """A cell as a polygon with rounded corners."""
    low, high, points = gap + _CORNER, 1 - gap - _CORNER, []
    for centre_x, centre_y, start in ((low, low, 180), (high, low, 270), (high, high, 0), (low, high, 90)):
        for degrees in range(start, start + 91, 30):
            points.append((x + centre_x + _CORNER * math.cos(math.radians(degrees)),
                           y + centre_y + _CORNER * math.sin(math.radians(degrees))))
    return points


def _columns(num_blocks: int) -> int:
    if num_blocks <= 16:
        return max(1, num_blocks)
    if num_blocks <= _MOST_CELLS:
        return 16 if num_blocks <= 128 else 32 if num_blocks <= 768 else 64
    return 2 ** math.ceil(math.log2(math.sqrt(num_blocks) * 1.3))


def _grid_height(tape: Tape, columns: int | None, width: float) -> float:
    columns = min(columns or _columns(tape.num_blocks), max(1, tape.num_blocks))
    return max(0.4, min(4.5, width * math.ceil(tape.num_blocks / columns) / columns))


def _size(tape: Tape) -> str:
    return count(tape.num_blocks, "block") + (f" × {tape.block_size_tokens} tokens" if tape.block_size_tokens else "")


def _checked(frame: int, tape: Tape) -> int:
    if not 0 <= frame <= len(tape):
        raise IndexError(f"this recording has {count(len(tape), 'event')}, there is no frame {frame}")
    return frame


def _rgb(colour: str) -> list[float]:
    return [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
