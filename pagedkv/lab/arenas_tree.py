"""A picture of a buddy tree: over each node's pages a box with the node's value.

    values  what Netty calls memoryMap: for node 1 … the depth of the largest free run at or below the node, and
            max_order + 1 where nothing is free; the children of a node are 2 · node and 2 · node + 1; entry 0 is unused
    taken   a node that was handed out. The nodes below it keep their old values, since nobody looks at them; they are
            drawn faint
"""

from collections.abc import Iterable, Mapping, Sequence

from pagedkv.rivals.buddy import BuddyChunk
from pagedkv.viz import palette
from pagedkv.viz.picture import Picture, default_style

_MOST_PAGES = 32  # more, and the values cannot be read
_TAKEN = palette.HUES[0]


def plot_tree(values: Sequence[int], path: Iterable[int] = (), marks: Mapping[int, str] | None = None,
              title: str = "") -> Picture:
    """Draw the tree of one chunk of at most 32 pages.

    path   nodes that a search looked at, the last one being its answer
    marks  node → a word that is written to it, such as "yours"
    Raises ValueError for values that are no tree, or too many.
    """
    from matplotlib.figure import Figure
    values, path, marks = [int(value) for value in values], list(path), dict(marks or {})
    max_order = _max_order(values)
    with default_style():
        figure = Figure(figsize=(8.6, 0.55 * (max_order + 1) + (0.5 if title else 0.25)), facecolor=palette.PAPER)
        axes = figure.add_axes([0.09, 0.02, 0.9, 0.96 - (0.3 / figure.get_figheight() if title else 0)])
        axes.set(xlim=(0, 1), ylim=(max_order + 1, 0))
        axes.axis("off")
        for node in range(1, len(values)):
            _draw_node(axes, values, node, path, marks)
        for depth in range(max_order + 1):
            pages = 1 << (max_order - depth)
            axes.text(-0.01, depth + 0.5, f"depth {depth}\n{pages} page{'s' * (pages > 1)}", ha="right", va="center",
                      fontsize=7, color=palette.FAINT_INK)
        if title:
            figure.text(0.09, 1 - 0.15 / figure.get_figheight(), title, fontsize=9, weight="bold", va="center",
                        color=palette.INK)
    return Picture(figure, _in_words(values, path, marks, title))


def leftmost_path(values: Sequence[int], depth: int) -> tuple[list[int], int | None]:
    """The nodes that Netty's search looks at for a free node of this depth, and the node that it finds, or None."""
    chunk = BuddyChunk(0, 1, _max_order(values))
    chunk.memory_map = list(values)
    path: list[int] = []
    found = chunk.find(depth, lambda node, verdict: path.append(node))
    return path, found


def is_taken(values: Sequence[int], node: int) -> bool:
    """Whether this very node was handed out: nothing is free in it, and yet its children look free."""
    depth, max_order = node.bit_length() - 1, _max_order(values)
    return values[node] == max_order + 1 and (depth == max_order or values[2 * node] == depth + 1)


def is_below_taken(values: Sequence[int], node: int) -> bool:
    """Whether a node above this one was handed out as a whole."""
    return any(is_taken(values, node >> up) for up in range(1, node.bit_length()))


def _max_order(values: Sequence[int]) -> int:
    pages = len(values) // 2
    if pages < 1 or len(values) != 2 * pages or pages & (pages - 1) or pages > _MOST_PAGES:
        raise ValueError(f"a tree over 1, 2, 4 … {_MOST_PAGES} pages has twice as many entries (the first is not "
                         f"used); got {len(values)}")
    return pages.bit_length() - 1


def _draw_node(axes, values: list[int], node: int, path: list[int], marks: dict[int, str]) -> None:
    depth = node.bit_length() - 1
    width = 1 / (1 << depth)
    left = (node - (1 << depth)) * width
    taken, below = is_taken(values, node), is_below_taken(values, node)
    colour = _TAKEN if taken else palette.mixed(_TAKEN, palette.PAPER, 0.18) if below else palette.FREE
    ink = palette.ink_on(colour) if taken else palette.FAINT_INK if below else palette.INK
    looked = node in path or node in marks
    answer = node in marks or path[-1:] == [node]
    gap, edge = 0.004, palette.ATTENTION if looked else palette.PAPER
    axes.add_patch(_rectangle((left + gap / 2, depth + 0.06), width - gap, 0.88, colour, edge,
                              2.4 if answer else 1.4 if looked else 0.5))
    word = marks.get(node, "")
    axes.text(left + width / 2, depth + (0.34 if word else 0.5), str(values[node]), ha="center", va="center", color=ink,
              fontsize=11 if not below else 9, weight="bold" if taken else "normal")
    axes.text(left + gap + 0.004, depth + 0.14, str(node), ha="left", va="top", fontsize=6, color=ink)
    if word:
        axes.text(left + width / 2, depth + 0.74, word, ha="center", va="center", fontsize=7.5, weight="bold",
                  color=palette.INK if not taken else ink)


def _rectangle(corner: tuple[float, float], width: float, height: float, colour: str, edge: str, line: float):
    from matplotlib.patches import Rectangle
    return Rectangle(corner, width, height, facecolor=colour, edgecolor=edge, linewidth=line)


def _in_words(values: list[int], path: list[int], marks: dict[int, str], title: str) -> str:
    taken = [node for node in range(1, len(values)) if is_taken(values, node)]
    parts = [f"A tree over {len(values) // 2} page{'s' * (len(values) > 2)}",
             "taken: " + (", ".join(f"node {node}" for node in taken) or "nothing"),
             f"value of the root: {values[1]}"]
    if path:
        parts.append("looked at: " + ", ".join(f"node {node} ({values[node]})" for node in path))
    parts += [f"{word}: node {node}" for node, word in marks.items()]
    return (f"{title}. " if title else "") + "; ".join(parts)
