"""What exercises 05.4 and 05.5 are tried on: cached blocks to choose a victim from, and a small pool to admit to."""

import random
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from pagedkv.core.errors import DoubleFree, OutOfBlocks, UseAfterFree

# ── which block goes ─────────────────────────────────────────────────────────────────────────────────────────────────


class CachedBlock(NamedTuple):
    """block      its id
    parent     the block that holds the part before it, or None
    refcount   how many sequences hold it
    last_used  when a sequence last had it; a larger number is later
    """

    block: int
    parent: int | None
    refcount: int
    last_used: int


def right_victims(cached: Sequence[CachedBlock]) -> set[int]:
    """The blocks that may go next: nobody holds them, nothing stands below them, and these were used longest ago."""
    parents = {node.parent for node in cached}
    leaves = [node for node in cached if node.refcount == 0 and node.block not in parents]
    oldest = min((node.last_used for node in leaves), default=0)
    return {node.block for node in leaves if node.last_used == oldest}


def random_tree(seed: int, num_blocks: int) -> list[CachedBlock]:
    """A cache as a manager leaves it: whoever has a block also has all before it, so a parent is used as late as any
    block below it, and held as often as they are together, or more."""
    rng = random.Random(seed)
    parents = [None if number == 0 or rng.random() < 0.25 else rng.randrange(number) for number in range(num_blocks)]
    refcounts, last_used = [0] * num_blocks, [rng.randrange(3) for _ in range(num_blocks)]
    for _ in range(rng.randrange(3)):
        block = rng.randrange(num_blocks)
        while block is not None:
            refcounts[block] += 1
            block = parents[block]
    for block in reversed(range(num_blocks)):
        above = parents[block]
        if above is not None:
            last_used[above] = max(last_used[above], last_used[block])
    names = rng.sample(range(10, 10 + 3 * num_blocks), num_blocks)  # ids tell nothing about the order
    tree = [CachedBlock(names[block], None if parents[block] is None else names[parents[block]], refcounts[block],
                        last_used[block]) for block in range(num_blocks)]
    rng.shuffle(tree)
    return tree


# ── whether there is room ────────────────────────────────────────────────────────────────────────────────────────────


class SmallPool:
    """A pool with cached blocks, written to be read. Evicts the block that was given back longest ago.

    empty    nobody holds them, nothing to find in them
    cached   nobody holds them, their contents can be found; the next to be evicted first
    counts   block → references, of the blocks that are held

    has_refused  whether an allocation has failed
    """

    def __init__(self, empty: Iterable[int], cached: Iterable[int], counts: dict[int, int]):
        self.empty, self.cached, self.counts = list(empty), list(cached), dict(counts)
        self.num_blocks = len(self.empty) + len(self.cached) + len(self.counts)
        self.evicted: list[int] = []
        self.has_refused = False

    @property
    def num_empty_blocks(self) -> int:
        return len(self.empty)

    @property
    def num_cached_blocks(self) -> int:
        return len(self.cached)

    @property
    def num_free_blocks(self) -> int:
        """Empty and cached ones: what could be handed out now."""
        return len(self.empty) + len(self.cached)

    @property
    def num_references(self) -> int:
        return sum(self.counts.values())

    def refcount(self, block: int) -> int:
        return self.counts.get(block, 0)

    def retain(self, blocks: Iterable[int]) -> None:
        """One more reference to each, also to a cached one that nobody holds."""
        blocks = list(blocks)
        for block in blocks:
            if block not in self.counts and block not in self.cached:
                raise UseAfterFree(f"block {block} is empty: there is nothing in it to be shared")
        for block in blocks:
            if block in self.cached:
                self.cached.remove(block)
            self.counts[block] = self.refcount(block) + 1

    def allocate(self, n: int) -> list[int]:
        """n blocks: the empty ones first, then cached ones, which are evicted. All or, with OutOfBlocks, none."""
        if n > self.num_free_blocks:
            self.has_refused = True
            raise OutOfBlocks(f"need {n} blocks, {self.num_free_blocks} can be had")
        blocks = []
        for _ in range(max(0, n)):
            if not self.empty:
                self.evicted.append(self.cached[0])
            blocks.append(self.empty.pop() if self.empty else self.cached.pop(0))
        self.counts.update(dict.fromkeys(blocks, 1))
        return blocks

    def release(self, blocks: Iterable[int]) -> None:
        """One reference less to each; one that nobody holds any more is cached, and evicted last."""
        for block in list(blocks):
            if block not in self.counts:
                raise DoubleFree(f"nobody holds block {block}")
            self.counts[block] -= 1
            if not self.counts[block]:
                del self.counts[block]
                self.cached.append(block)

    def state(self) -> tuple:
        return set(self.empty), list(self.cached), dict(self.counts)

    def __str__(self) -> str:
        held = ", ".join(f"{block} ×{count}" for block, count in sorted(self.counts.items())) or "none"
        return f"empty {sorted(self.empty)}, cached {self.cached} (evicted in this order), held: {held}"
