"""The prefix tree in matplotlib: for print, and where widgets cannot run."""

from pagedkv.core.prefix_tree import PrefixTree
from pagedkv.viz import palette
from pagedkv.viz.picture import drawable, shortened
from pagedkv.viz.tape import Tape, label
from pagedkv.viz.tokens import tokens_in_words
from pagedkv.viz.tree_layout import DETACHED, Item, lay_tree, tree_of, tree_words
from pagedkv.viz.words import count

_MOST_ROWS = 9
_ROOT, _NARROWEST, _WIDEST, _HEIGHT, _BETWEEN, _BETWEEN_ROWS = 0.66, 0.98, 1.45, 0.42, 0.2, 0.1  # inches
_EDGE, _TITLE, _CHARACTER = 0.02, 0.3, 0.066  # inches; half a line, the heading, a letter of the tokens
_MOST_OWNERS, _MOST_STRIPES = 3, 6


class TreePicture:
    """The tree at one frame of a tape, to be drawn into a strip of a figure.

    alt   what there is to see, in words
    """

    def __init__(self, tape: Tape, frame: int, prefix_tree: PrefixTree, selected: str = ""):
        self.tape, self.moment = tape, tape.moment(frame)
        self.nodes = {block: node for block, node in prefix_tree.nodes.items() if block in self.moment.cached}
        self.tree = tree_of(prefix_tree)
        self.followed = tape.owners.index(selected) if selected in tape.owners else None
        self.current = {block for block, _ in tape.event(frame - 1)[3]} if frame else set()
        branches = sum(len(children) > 1 for id_, children in self.tree.children.items() if id_ >= 0)
        detached = len(self.tree.children[-len(self.tree.salts)]) if self.tree.salts[-1] == DETACHED else 0
        self.words = tree_words(self.tree, lambda block: bool(self.moment.holders.get(block)))
        self.alt = f"Prefix tree: {self.words}; it branches at {count(branches, 'block')}" + \
            (f"; {count(detached, 'block')} whose parent is gone" if detached else "")

    def layout(self, width: float) -> float:
        """Place everything in a strip of this width, in inches. Returns the strip's height."""
        columns = max(2, 1 + int((width - _ROOT) / (_NARROWEST + _BETWEEN)))
        self.laid = lay_tree(self.tree, columns, _MOST_ROWS, self._weight)
        self.width = width
        room = (width - _ROOT) / max(1, self.laid.columns - 1) - _BETWEEN
        self.node_width = min(_WIDEST, room)
        self.height = _TITLE + self.laid.rows * (_HEIGHT + _BETWEEN_ROWS) + 0.24
        return self.height

    def draw(self, ax) -> None:
        """Into axes of the size of the strip."""
        ax.set(xlim=(-_EDGE, self.width + _EDGE), ylim=(self.height, 0))
        ax.axis("off")
        ax.text(0, 0.1, "Prefix tree", fontsize=8.5, weight="bold", va="center", color=palette.FAINT_INK)
        ax.text(0.85, 0.1, self.words, fontsize=8, va="center", color=palette.FAINT_INK)
        for item in self.laid.items:
            if item.before >= 0:
                self._draw_line(ax, self.laid.items[item.before], item)
        for item in self.laid.items:
            x, y = self._left(item.column), self._top(item.row)
            if item.kind == "node":
                self._draw_node(ax, item.block, x, y)
            elif item.kind == "root":
                self._draw_root(ax, item.salt, x, y)
            elif item.kind == "gap":
                _box(ax, x, y, self.node_width, facecolor="#f6f8fa", edgecolor=palette.FAINT_INK, linestyle=":",
                     linewidth=0.9)
                ax.text(x + self.node_width / 2, y + _HEIGHT / 2, f"… {count(len(item.blocks), 'block')} …", fontsize=7,
                        ha="center", va="center", color=palette.FAINT_INK)
            else:
                ax.text(x, y + _HEIGHT / 2, f"… {item.count:,} more", fontsize=7.5, va="center",
                        color=palette.FAINT_INK)
        self._draw_legend(ax)

    def _weight(self, block: int) -> int:
        held = self.moment.holders.get(block, ())
        return 3 if block in self.current else 2 if self.followed in held else 1 if held else 0

    def _left(self, column: int) -> float:
        return _ROOT + _BETWEEN + (column - 1) * (self.node_width + _BETWEEN) if column else 0.0

    def _top(self, row: int) -> float:
        return _TITLE + row * (_HEIGHT + _BETWEEN_ROWS)

    def _draw_line(self, ax, start: Item, end: Item) -> None:
        x1 = self._left(start.column) + (self.node_width if start.column else _ROOT)
        x2, y1, y2 = self._left(end.column), self._top(start.row) + _HEIGHT / 2, self._top(end.row) + _HEIGHT / 2
        middle = x1 + _BETWEEN / 2
        followed = end.kind == "node" and self.followed in self.moment.holders.get(end.block, ())
        ax.plot([x1, middle, middle, x2], [y1, y1, y2, y2], zorder=0, solid_joinstyle="round",
                color=palette.FOLLOWED if followed else palette.FAINT_INK, linewidth=2 if followed else 1,
                linestyle="--" if start.kind == "root" and start.salt == DETACHED else "-")

    def _draw_root(self, ax, salt: str | None, x: float, y: float) -> None:
        detached = salt == DETACHED
        colour = palette.ATTENTION if detached else palette.FAINT_INK
        _box(ax, x, y, _ROOT, rounding=0.06 if detached else 0.2, facecolor=palette.PAPER, edgecolor=colour,
             linewidth=0.9, linestyle="--" if detached else "-")
        lines = ["detached", "parent is gone"] if detached else ["root"]
        if salt is not None and not detached:
            lines.append(f"salt {shortened(salt, 9)}")
        for line, text in enumerate(lines):
            ax.text(x + _ROOT / 2, y + _HEIGHT / 2 + 0.13 * (line - (len(lines) - 1) / 2), text, ha="center",
                    va="center", fontsize=5.8 if line else 7.5, color=colour if detached else palette.INK)

    def _draw_node(self, ax, block: int, x: float, y: float) -> None:
        from matplotlib.patches import Rectangle
        held = self.moment.holders.get(block, [])
        owners, last = list(dict.fromkeys(held)), self.moment.last_holder.get(block)
        hue = palette.hue(owners[0]) if owners else palette.FAINT_INK if last is None else palette.hue(last)
        faint = self.followed is not None and self.followed not in held
        ink = palette.FAINT_INK if faint else palette.INK
        if owners:
            _box(ax, x, y, self.node_width, facecolor=palette.mixed(hue, palette.PAPER, 0.12),
                 edgecolor=palette.mixed(hue, palette.PAPER, 0.6), linewidth=0.9)
            some = owners[:_MOST_STRIPES]
            share = (_HEIGHT - 0.06) / len(some)
            for place, owner in enumerate(some):
                ax.add_patch(Rectangle((x + 0.012, y + 0.03 + place * share), 0.07, share, facecolor=palette.hue(owner),
                                       linewidth=0))
        else:
            _box(ax, x, y, self.node_width, facecolor=palette.PAPER, edgecolor=palette.mixed(hue, palette.PAPER, 0.35),
                 linewidth=0, hatch="////")
            _box(ax, x, y, self.node_width, fill=False, edgecolor=hue, linewidth=1, linestyle="--")
        if block in self.current:
            _box(ax, x - 0.02, y - 0.02, self.node_width + 0.04, height=_HEIGHT + 0.04, fill=False,
                 edgecolor=palette.ATTENTION, linewidth=2)
        elif self.followed is not None and not faint:
            _box(ax, x, y, self.node_width, fill=False, edgecolor=palette.FOLLOWED, linewidth=1.6)
        behind = {"facecolor": palette.PAPER, "edgecolor": "none", "pad": 0.8} if not owners else None
        ax.text(x + 0.14, y + 0.13, str(block), fontsize=7.5, weight="bold", va="center", color=ink, bbox=behind)
        ax.text(x + 0.2 + 0.075 * len(str(block)), y + 0.135, f"×{len(held)}", fontsize=6.5, va="center",
                color=palette.FAINT_INK, bbox=behind)
        self._draw_owners(ax, owners, x + 0.3 + 0.075 * len(f"{block}×{len(held)}"), x + self.node_width - 0.05, y)
        tokens = drawable(tokens_in_words(self.nodes[block].tokens, self.tape.token_text, 24)) or "tokens not told"
        most = max(4, int((self.node_width - 0.2) / _CHARACTER))
        ax.text(x + 0.14, y + 0.3, shortened(tokens, most), fontsize=6.5, va="center", family="monospace", color=ink,
                bbox=behind)

    def _draw_owners(self, ax, owners: list[int], left: float, right: float, y: float) -> None:
        """As many of their labels as there is room for, and how many others there are."""
        named: list[tuple[int, str, float]] = []
        room = right - left
        for owner in owners[:_MOST_OWNERS]:
            name = self.tape.owners[owner]
            text = label(name) if name != "(no name)" else " "
            width = 0.125 + 0.06 * len(text)
            room -= width
            if room < (0.18 if len(named) + 1 < len(owners) else 0):
                break
            named.append((owner, text, width))
        if named and len(named) < len(owners):
            ax.text(right, y + 0.135, f"+{len(owners) - len(named)}", fontsize=6, ha="right", va="center",
                    color=palette.FAINT_INK)
            right -= 0.17
        for owner, text, width in reversed(named):
            hue = palette.hue(owner)
            ax.text(right - (width - 0.045) / 2, y + 0.13, text, fontsize=5.8, weight="bold", ha="center", va="center",
                    color=palette.ink_on(hue),
                    bbox={"facecolor": hue, "edgecolor": "none", "boxstyle": "round,pad=0.18,rounding_size=0.25"})
            right -= width

    def _draw_legend(self, ax) -> None:
        y, x = self.height - 0.2, 0.0
        hue = palette.HUES[0]
        held = {"facecolor": palette.mixed(hue, palette.PAPER, 0.12), "edgecolor": hue, "linewidth": 0.8}
        entries = [("held: bars in its owners' colours, ×2 = refcount", held)]
        if any(self.tape.cached):
            free = {"facecolor": palette.PAPER, "edgecolor": hue, "linestyle": "--", "linewidth": 0.8, "hatch": "/" * 6}
            entries.append(("nobody holds it: free to take", free))
        entries.append(("this event", {"fill": False, "edgecolor": palette.ATTENTION, "linewidth": 1.6}))
        for text, style in entries:
            _box(ax, x, y, 0.15, height=0.13, rounding=0.03, **style)
            ax.text(x + 0.21, y + 0.07, text, fontsize=7.5, va="center", color=palette.FAINT_INK)
            x += 0.45 + 0.062 * len(text)


def _box(ax, x: float, y: float, width: float, height: float = _HEIGHT, rounding: float = 0.05, **style) -> None:
    from matplotlib.patches import FancyBboxPatch
    ax.add_patch(FancyBboxPatch((x + rounding, y + rounding), width - 2 * rounding, height - 2 * rounding,
                                boxstyle=f"round,pad={rounding},rounding_size={rounding}", **style))
