"""The prefix tree is what the events say, forwards and backwards."""

import random

import pytest

from pagedkv.core.events import Event, Recording
from pagedkv.core.prefix_tree import PrefixTree, PrefixTreeReplay


def told(*calls):
    return Recording(64, "test pool", events=[
        Event(step, op, "A", tuple(blocks), *(rest or ({},))) for step, (op, blocks, *rest) in enumerate(calls)])


def cached(blocks, parents, tokens=None, **more):
    tokens = tokens or [(block,) for block in blocks]
    return "cache", blocks, {"parents": tuple(parents), "tokens": tuple(tokens), **more}


def texts(replay, at):
    """The tree as nested lists of blocks: each root's, and the detached ones."""
    shape = replay.at(at).shape()

    def under(nodes):
        return [[node.block, *under(shape.children.get(node.number, []))] for node in nodes]
    return {salt: under(nodes) for salt, nodes in shape.roots.items()}, under(shape.detached)


BRANCHES = told(cached([0, 1], [-1, 0]), cached([2], [1]), cached([3], [1]),
                ("write", [9], {"num_tokens": 3, "tokens": (1,)}), ("evict", [3]), ("allocate", [1]),
                cached([1], [-1], [(7,)], salt="tenant"))


def test_a_trunk_and_its_branches():
    replay = PrefixTreeReplay(BRANCHES)
    assert texts(replay, 0) == ({}, [])
    assert texts(replay, 1) == ({None: [[0, [1]]]}, [])
    assert texts(replay, 4) == texts(replay, 3) == ({None: [[0, [1, [2], [3]]]]}, [])


def test_a_node_whose_parent_is_gone_is_detached():
    replay = PrefixTreeReplay(BRANCHES)
    assert texts(replay, 6) == ({None: [[0]]}, [[2]])


def test_another_node_in_the_same_block_is_no_parent():
    replay = PrefixTreeReplay(BRANCHES)
    assert texts(replay, 7) == ({None: [[0]], "tenant": [[1]]}, [[2]])
    assert replay.at(7).nodes[1].tokens == (7,)
    assert texts(replay, 3) == ({None: [[0, [1, [2], [3]]]]}, []), "and backwards"


def test_a_refused_call_changes_nothing():
    tree = PrefixTree()
    tree.apply(Event(0, *("cache", "A", (1,)), {"parents": (-1,), "tokens": ((1,),)}))
    tree.apply(Event(1, "allocate", "B", (1,), {"error": "OutOfBlocks", "message": "", "requested_blocks": 9}))
    assert list(tree.nodes) == [1]


def test_a_cache_that_does_not_tell():
    tree = PrefixTree()
    tree.apply(Event(0, "cache", "A", (4, 5), {}))
    assert [(node.block, node.tokens, tree.is_detached(node)) for node in tree.nodes.values()] == \
        [(4, (), True), (5, (), True)]


def test_where_there_is_nothing():
    with pytest.raises(IndexError, match="nothing to take back"):
        PrefixTree().undo()
    for at in (-1, 8):
        with pytest.raises(IndexError, match="there is no tree after"):
            PrefixTreeReplay(BRANCHES).at(at)


@pytest.mark.parametrize("seed", range(6))
def test_any_order_of_frames_shows_what_going_forwards_shows(seed):
    chance, events = random.Random(seed), []
    for step in range(150):
        blocks = tuple(chance.choices(range(12), k=chance.randint(0, 4)))
        op = chance.choice(["cache", "cache", "evict", "allocate", "release", "write"])
        detail = {}
        if op == "cache" and chance.random() < 0.9:
            detail = {"parents": tuple(chance.randint(-1, 11) for _ in blocks),
                      "tokens": tuple((step, each) for each in blocks)}
            if chance.random() < 0.2:
                detail["salt"] = "s"
        events.append(Event(step, op, "A", blocks, detail))
    recording = Recording(12, events=events)
    forwards, replay = [], PrefixTreeReplay(recording)
    for at in range(151):
        tree = PrefixTree()
        for event in events[:at]:
            tree.apply(event)
        forwards.append(look(tree))
    for at in [*range(151), *range(150, -1, -1), *chance.choices(range(151), k=60)]:
        assert look(replay.at(at)) == forwards[at]


def look(tree):
    return {block: (node.number, node.tokens, node.salt, node.is_first, node.parent and node.parent.number,
                    tree.is_detached(node))
            for block, node in tree.nodes.items()}
