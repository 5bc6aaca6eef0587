"""Where each part of a prefix tree is drawn. front/prefix_tree.js does the same for the screen.

Time runs to the right: a node stands one column after its parent. The first child of a node goes on in its row, each
other one begins a new row, so that adding a branch moves nothing to the right or to another parent. A *chain* of nodes
with one child each loses its middle where the row would become too long, and a node loses children where there would be
too many rows.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pagedkv.core.prefix_tree import PrefixTree
from pagedkv.viz.words import count

DETACHED = "detached"

_CHAINS = [math.inf, 9, 7, 5, 4, 3]  # how many nodes of a chain are drawn, its gap counted as one


@dataclass
class Tree:
    """Ids from 0 are blocks. Ids below 0 are roots: -1 has the salt salts[0] (None: none), and so on; that of DETACHED,
    the last one if it is there, has the nodes whose parent is gone. order: the blocks, parents before their children.
    """

    salts: list[str | None]
    children: dict[int, list[int]]
    order: list[int]


@dataclass
class Item:
    """kind: "root" (with a salt), "node" (a block), "gap" (`blocks` of a chain that are not drawn), or "more" (`count`
    nodes in `branches` that are not drawn). before: the place of the item that it follows, -1 for none."""

    kind: str
    row: int
    column: int
    before: int
    salt: str | None = None
    block: int = -1
    blocks: list[int] = field(default_factory=list)
    count: int = 0
    branches: int = 0


@dataclass
class Laid:
    items: list[Item]
    rows: int
    columns: int


def tree_of(prefix_tree: PrefixTree) -> Tree:
    shape = prefix_tree.shape()
    nodes = sorted(prefix_tree.nodes.values(), key=lambda node: node.number)
    tree = Tree(list(shape.roots) or [None], {}, [node.block for node in nodes])
    for place, first in enumerate(shape.roots.values()):
        tree.children[-1 - place] = [node.block for node in first]
    for node in nodes:
        if node.number in shape.children:
            tree.children[node.block] = [child.block for child in shape.children[node.number]]
    if shape.detached:
        tree.salts.append(DETACHED)
        tree.children[-len(tree.salts)] = [node.block for node in shape.detached]
    return tree


def tree_words(tree: Tree, is_held: Callable[[int], bool]) -> str:
    """The tree in a line. Those that are detached, and all below them, are cut off: no lookup comes to them."""
    if not tree.order:
        return "no block can be found yet: only full ones are cached"
    cut = list(tree.children[-len(tree.salts)]) if tree.salts[-1] == DETACHED else []
    for block in cut:  # grows while it is read
        cut += tree.children.get(block, ())
    found = set(tree.order).difference(cut)
    free = sum(not is_held(block) for block in found)
    words = f"{count(len(found), 'block')} can be found, {free:,} of them free to take"
    return (words if found else "no block can be found") + (f"; {len(cut):,} cut off" if cut else "")


def lay_tree(tree: Tree, most_columns: int, most_rows: int, weight: Callable[[int], int]) -> Laid:
    """At most `most_rows` rows. `weight(block)`: what is to be seen rather than others: 0, 1, 2, …."""
    measures: dict[int, tuple[int, int, int]] = {}  # size, leaves, weight
    roots = [-1 - place for place in range(len(tree.salts))]
    for id_ in [*reversed(tree.order), *roots]:
        below = [measures[child] for child in tree.children.get(id_, ())]
        own = (0, 0) if id_ < 0 else (1, weight(id_))
        measures[id_] = (own[0] + sum(size for size, _, _ in below), sum(leaves for _, leaves, _ in below) or 1,
                         max([own[1], *(heaviest for _, _, heaviest in below)]))
    for longest in _CHAINS:
        laid = _lay(tree, roots, measures, most_rows, longest)
        if laid.columns <= most_columns:
            break
    return laid


def _lay(tree: Tree, roots: list[int], measures: dict[int, tuple[int, int, int]], most_rows: int,
         longest: float) -> Laid:
    laid = Laid([], 0, 0)

    def put(kind: str, row: int, column: int, before: int, **what: Any) -> int:
        laid.items.append(Item(kind, row, column, before, **what))
        laid.rows, laid.columns = max(laid.rows, row + 1), max(laid.columns, column + 1)
        return len(laid.items) - 1

    def place_all(ids: list[int], before: int, column: int, row: int, budget: int) -> None:
        chosen = _choose(ids, budget, measures)
        for id_, share in chosen.items():
            place_one(id_, before, column, row, share)
            row = laid.rows
        hidden = [id_ for id_ in ids if id_ not in chosen]
        if hidden:
            put("more", row, column, before, branches=len(hidden), count=sum(measures[id_][0] for id_ in hidden))

    def place_one(id_: int, before: int, column: int, row: int, budget: int) -> None:
        if id_ < 0:
            before = put("root", row, column, before, salt=tree.salts[-1 - id_])
        else:
            chain = [id_]
            while len(below := tree.children.get(chain[-1], ())) == 1:
                chain.append(below[0])
            drawn: list[int | None] = list(chain)
            if len(chain) > longest:
                head = math.ceil((longest - 1) / 2)
                tail = int(longest) - 1 - head
                drawn = [*chain[:head], None, *chain[-tail:]]
            for block in drawn:
                before = put("gap", row, column, before, blocks=chain[head:-tail]) if block is None else \
                    put("node", row, column, before, block=block)
                column += 1
            id_, column = chain[-1], column - 1
        if id_ in tree.children:
            place_all(tree.children[id_], before, column + 1, row, budget)

    place_all(roots, -1, 0, 0, most_rows)
    return laid


def _choose(ids: list[int], budget: int, measures: dict[int, tuple[int, int, int]]) -> dict[int, int]:
    """Which of these nodes are drawn, and how many rows each gets. Others need a row too, to say so."""
    most = len(ids) if len(ids) <= budget else max(0, budget - 1)
    best = sorted(range(len(ids)), key=lambda place: (-measures[ids[place]][2], -place))[:most]
    rows = dict.fromkeys(best, 1)
    left, given = budget - len(best) - (most < len(ids)), True
    while left > 0 and given:
        given = False
        for place in best:
            if left > 0 and rows[place] < measures[ids[place]][1]:
                rows[place] += 1
                left -= 1
                given = True
    return {ids[place]: rows[place] for place in sorted(best)}
