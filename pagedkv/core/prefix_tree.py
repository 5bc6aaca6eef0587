"""The prefix tree of a cache of blocks, at any event of its recording, from the events alone.

A cached block is a *node*: its tokens, under the block that holds the part before it. What comes first in a prompt is
*first*: it stands under a root, of which each salt has its own. A node whose parent is no longer cached is *detached*:
it keeps its contents for whoever holds it, but no lookup that starts at a root comes to it.

    "cache"      makes nodes; detail["parents"] and detail["tokens"] say which
    "evict"      takes them away
    "allocate"   takes them away too: the block's new owner overwrites what it held

A node's number is never used again, so a node that comes later into the same block is another one. Who holds a block is
not in here: that is `pagedkv.core.replay`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from pagedkv.core.events import Event, Recording

FIRST = -1  # in detail["parents"]: nothing comes before this block (None: something did, and has been evicted)


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """A block whose contents can be found.

    number   counts the nodes of a tree, from 0; a parent's is less than its children's
    parent   the node that holds the part before it; None for a first node, or if there was none when it was made
    is_first whether its tokens are the first ones of a prompt
    salt     the root it stands under, if it is a first node and has a salt
    tokens   () if the event did not tell
    step     that of the event
    """

    number: int
    block: int
    parent: "Node | None"
    is_first: bool
    salt: str | None
    tokens: tuple[int, ...]
    step: int


@dataclass
class Shape:
    """A tree, from its roots to its leaves; all lists in the order in which the nodes were made.

    roots     salt (None without one) → the first nodes under it
    detached  the nodes whose parent is gone
    children  a node's number → the nodes under it
    """

    roots: dict[str | None, list[Node]] = field(default_factory=dict)
    detached: list[Node] = field(default_factory=list)
    children: dict[int, list[Node]] = field(default_factory=dict)


class PrefixTree:
    """nodes       block → its node, for each block that is cached
    num_events  how many events have been carried out

    It begins with what a recording says could be found before its first event (`Recording.initial_cache`).
    """

    def __init__(self, initial_cache: Iterable[Event] = ()):
        self.nodes: dict[Any, Node] = {}
        self.num_events = 0
        self._num_nodes = 0
        for event in initial_cache:
            self._cache(event)
        self._undo: list[tuple[int, int, dict]] = []  # of the events that changed something: what was before

    def apply(self, event: Event) -> None:
        """Carry out one event. What is not about the cache changes nothing, nor does a refused call."""
        self.num_events += 1
        if event.refused or event.op not in ("cache", "evict", "allocate"):
            return
        nodes = self.nodes
        if event.op != "cache" and not any(block in nodes for block in event.blocks):
            return
        before = {block: nodes.get(block) for block in event.blocks}
        self._undo.append((self.num_events, self._num_nodes, before))
        if event.op == "cache":
            self._cache(event)
        else:
            for block in event.blocks:
                nodes.pop(block, None)

    def _cache(self, event: Event) -> None:
        parents, tokens = event.detail.get("parents", ()), event.detail.get("tokens", ())
        for place, block in enumerate(event.blocks):
            above = parents[place] if place < len(parents) else None
            is_first = above == FIRST
            self.nodes[block] = Node(self._num_nodes, block, None if is_first else self.nodes.get(above), is_first,
                                     event.detail.get("salt") if is_first else None,
                                     tuple(tokens[place]) if place < len(tokens) else (), event.step)
            self._num_nodes += 1

    def undo(self) -> None:
        """Take back the last event. Raises IndexError at the beginning."""
        if not self.num_events:
            raise IndexError("no event has been carried out: there is nothing to take back")
        if self._undo and self._undo[-1][0] == self.num_events:
            _, self._num_nodes, before = self._undo.pop()
            for block, node in before.items():
                if node is None:
                    self.nodes.pop(block, None)
                else:
                    self.nodes[block] = node
        self.num_events -= 1

    def is_detached(self, node: Node) -> bool:
        """Whether no lookup comes to this node from the one above it, as that is gone."""
        return not node.is_first and (node.parent is None or self.nodes.get(node.parent.block) is not node.parent)

    def shape(self) -> Shape:
        """The tree from the roots down; costs time in proportion to its nodes."""
        shape = Shape()
        for node in sorted(self.nodes.values(), key=lambda each: each.number):
            if node.is_first:
                shape.roots.setdefault(node.salt, []).append(node)
            elif self.is_detached(node):
                shape.detached.append(node)
            else:
                shape.children.setdefault(node.parent.number, []).append(node)
        return shape


class PrefixTreeReplay:
    """A recording's prefix tree, forwards and backwards: going somewhere costs what lies between.

        replay = PrefixTreeReplay(recording)
        replay.at(40).shape()
    """

    def __init__(self, recording: Recording):
        self.recording = recording
        self._tree = PrefixTree(recording.initial_cache)

    def __len__(self) -> int:
        return len(self.recording.events)

    def at(self, num_events: int) -> PrefixTree:
        """The tree after the first `num_events` events: one object, which the next call moves on. Raises IndexError
        outside the recording."""
        if not 0 <= num_events <= len(self):
            raise IndexError(f"this recording has {len(self)} events, there is no tree after {num_events}")
        tree = self._tree
        while tree.num_events > num_events:
            tree.undo()
        for event in self.recording.events[tree.num_events:num_events]:
            tree.apply(event)
        return tree
