"""`PrefixCachePool`: a pool that can find a full block again by the tokens in it and before it.

Keys and values of a token depend on all tokens before it, so a block may be reused only by a sequence that has the same
tokens in this block *and* in every block before. The cached blocks form a tree, each one a *node* under the block that
holds the part before it. A block's key is (its parent's node, its own tokens):

    root ─ [system prompt, 0…15] ─ [system prompt, 16…31] ─┬─ [question A]
                                                           └─ [question B] ─ [answer to B]

A lookup walks from the root, block by block, and stops where the next block is not there: it finds the longest cached
prefix. A dict compares keys, not hashes of keys, and a node's number is never used twice. So a hit is exact: no
collision, and no block that took an evicted one's place, can ever serve a prompt that is not the same from its
first token on. A *salt* stands in the root's place, so that sequences of different salts have different trees.

A cached block that nobody holds is free to take, but keeps its contents until somebody takes it:

    empty    nobody holds it, nothing to find in it
    cached   nobody holds it, its contents can be found
    used     somebody holds it (and its contents may be found as well)

Empty blocks go first. Then cached ones are *evicted*, the least recently used first; whoever releases a chain names its
last block first, so that of blocks that nobody holds the tail of a chain goes before its head.
"""

from collections import OrderedDict
from collections.abc import Hashable, Iterable, Sequence
from operator import length_hint

from pagedkv.core.arguments import as_count, as_list
from pagedkv.core.errors import OutOfBlocks
from pagedkv.core.events import Event
from pagedkv.core.pool import BlockPool
from pagedkv.core.tokens import as_tokens

ROOT = -1  # where the chain of a prompt without a salt begins

Parent = int | str | bytes  # a node's number, ROOT, or a salt


class FoundTooLate(Exception):
    """What was found could be evicted by another process before it was reused. Nothing has changed."""


class PrefixCachePool(BlockPool):
    """A `BlockPool` with an index of contents. Its own part of the state, besides the two lists of BlockPool:

        _index   {(parent, tokens): block}   what can be found
        _keys    [(parent, tokens), None, …] by block: under which key, None for a block that cannot be found
        _nodes   [1048579, 0, …]             by block: the number of its node, 0 for none
        _idle    {7: None, 4: None, …}       cached blocks that nobody holds, the next one to be evicted first

    A node's number is (a counter) * num_blocks + block: unique for ever, and it says which block it was.
    """

    source = "Python pool with a prefix cache"
    waits_for_writes = False  # whether `publish` takes effect only when `written` follows

    def __init__(self, num_blocks: int):
        super().__init__(num_blocks)
        self._index: dict[tuple[Parent, bytes], int] = {}
        self._keys: list[tuple[Parent, bytes] | None] = [None] * self.num_blocks
        self._nodes = [0] * self.num_blocks
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._last_node = 0  # the counter, times num_blocks

    @property
    def num_empty_blocks(self) -> int:
        return len(self._free)

    @property
    def num_cached_blocks(self) -> int:
        """Blocks that nobody holds and whose contents can be found."""
        return len(self._idle)

    @property
    def num_free_blocks(self) -> int:
        """Empty and cached ones: what could be handed out now."""
        return len(self._free) + len(self._idle)

    def is_cached(self, block: int) -> bool:
        """Whether the contents of `block` can be found, held or not."""
        return self._keys[block] is not None

    def eviction_order(self) -> list[int]:
        """The cached blocks that nobody holds, the next one to be evicted first: a copy."""
        return list(self._idle)

    # ── the contract of a pool ───────────────────────────────────────────────────────────────────────────────────────

    def allocate(self, n: int, owner: Hashable = None, detail: dict | None = None) -> list[int]:
        """Take `n` blocks that nobody holds, each with refcount 1: empty ones, then cached ones, which are evicted.
        Raises OutOfBlocks, and takes and evicts none, if fewer can be had."""
        if type(n) is not int or n < 0:
            n = as_count(n)
        if n == 1 and self._free and self.observer is None:  # by far the commonest call
            block = self._free.pop()
            self._refcounts[block] = 1
            return [block]
        missing = n - len(self._free)
        if missing > 0:
            if missing > len(self._idle):
                self._refuse(self._out_of_blocks(n, 0), "allocate", owner, (), requested_blocks=n)
            self._evict(missing, owner)
        return BlockPool.allocate(self, n, owner, detail)

    def release(self, blocks: Iterable[int], owner: Hashable = None, detail: dict | None = None) -> None:
        """One reference less to each block; at zero it is empty, or cached if its contents can be found. Raises
        DoubleFree, and changes nothing, as in `BlockPool.release`."""
        if type(blocks) is not list:
            blocks = as_list(blocks)
        ids, refcounts, keys, idle, free = self._ids, self._refcounts, self._keys, self._idle, self._free
        num_free, remaining = len(free), iter(blocks)  # one pass that is taken back if a check fails, as in BlockPool
        try:
            for block in remaining:
                if ids[block] is not block:
                    break
                count = refcounts[block]
                if count == 1:
                    refcounts[block] = 0
                    if keys[block] is None:
                        free.append(block)
                    else:
                        idle[block] = None
                elif count:
                    refcounts[block] = count - 1
                else:
                    break
            else:
                remaining = None
        except Exception:  # whatever an element does that cannot index a list
            pass
        if remaining is not None:
            self._undo_release(blocks[:len(blocks) - length_hint(remaining) - 1], num_free)
            return self._release_checked(blocks, owner, detail)
        if self.observer is not None:
            self.report("release", owner, blocks, detail)

    def give_back(self, blocks: list[int], owner: Hashable = None, detail: dict | None = None) -> None:
        """`release` for a list of ids that this pool gave out, such as a block table: it spares the look at each id, of
        which a fork and its end notice much (`benchmarks/manager.py`, d)."""
        refcounts, keys, idle, free = self._refcounts, self._keys, self._idle, self._free
        num_free, remaining = len(free), iter(blocks)
        for block in remaining:
            count = refcounts[block]
            if count > 1:
                refcounts[block] = count - 1
            elif count:
                refcounts[block] = 0
                if keys[block] is None:
                    free.append(block)
                else:
                    idle[block] = None
            else:
                self._undo_release(blocks[:len(blocks) - length_hint(remaining) - 1], num_free)
                self._release_checked(blocks, owner, detail)  # says what is wrong
        if self.observer is not None:
            self.report("release", owner, blocks, detail)

    def share(self, blocks: list[int]) -> None:
        """`retain` for a list of ids that are held, such as a block table, unobserved."""
        refcounts = self._refcounts
        for block in blocks:
            refcounts[block] += 1

    def _undo_release(self, blocks: list[int], num_free: int) -> None:
        for block in blocks:
            self._refcounts[block] += 1
            self._idle.pop(block, None)
        del self._free[num_free:]

    # ── finding and reusing ──────────────────────────────────────────────────────────────────────────────────────────

    def find(self, buffer: bytes, num_blocks: int, block_bytes: int, root: Parent) -> tuple[list[int], Parent]:
        """The longest chain of cached blocks that holds the beginning of `buffer`, at most `num_blocks` of them, and
        the node it ends in. A look: nothing changes."""
        get, nodes = self._index.get, self._nodes
        found: list[int] = []
        parent = root
        for start in range(0, num_blocks * block_bytes, block_bytes):
            block = get((parent, buffer[start:start + block_bytes]))
            if block is None:
                break
            found.append(block)
            parent = nodes[block]
        return found, parent

    def reuse_and_allocate(self, hits: list[int], n: int, owner: Hashable = None, reuse_detail: dict | None = None,
                           allocate_detail: dict | None = None) -> list[int]:
        """One more reference to each of the found blocks, and `n` others: all of it or, with OutOfBlocks, nothing.
        A hit that nobody holds is among the blocks that could be evicted, so it is counted here once and not twice."""
        available = len(self._free) + len(self._idle)
        refcounts, idle = self._refcounts, self._idle
        if n + len(hits) > available:  # else there is enough however many hits nobody holds
            num_idle_hits = sum(not refcounts[block] for block in hits)
            if n > available - num_idle_hits:
                self._refuse(self._out_of_blocks(n, num_idle_hits), "allocate", owner, (), requested_blocks=n)
        for block in hits:
            count = refcounts[block]
            if count:
                refcounts[block] = count + 1
            else:
                del idle[block]
                refcounts[block] = 1
        if hits and self.observer is not None:
            self.report("retain", owner, hits, reuse_detail)
        return hits + self.allocate(n, owner, allocate_detail) if n else hits

    def publish(self, block: int, tokens: bytes, parent: Parent) -> Parent:
        """Make the contents of a held, full block findable: `tokens`, that come after `parent`. Returns its node.

        A block whose contents can be found already, in another block, stays as it is (see `is_cached`), and its chain
        goes on under the other one's node. This chain does not hold the other one: should it be evicted before the chain
        ends, what was entered under it cannot be found any more (see `settle`)."""
        key = (parent, tokens)
        first = self._index.setdefault(key, block)
        if first is not block:
            return self._nodes[first]
        self._keys[block] = key
        self._last_node = last_node = self._last_node + self.num_blocks
        self._nodes[block] = node = last_node + block
        return node

    def is_node(self, node: Parent) -> bool:
        """Whether a chain can be found that ends there: not if its last block has been evicted since."""
        return type(node) is not int or node == ROOT or self._nodes[node % self.num_blocks] == node

    def parent_of(self, block: int) -> int | None:
        """The block that holds the part before this cached one; -1 at the beginning of a prompt, None if it has been
        evicted."""
        parent = self._keys[block][0]
        if type(parent) is not int or parent == ROOT:
            return -1
        return parent % self.num_blocks if self.is_node(parent) else None

    def cache_contents(self) -> list[Event]:
        """All that can be found now, as "cache" events of step -1: what a recording begins with. One event for each salt;
        a block stands after the one that holds the part before it."""
        by_salt: dict[Parent, list[int]] = {}
        salt_of: dict[int, Parent] = {}
        for block in sorted(self._index.values(), key=self._nodes.__getitem__):
            parent = self._keys[block][0]
            above = self.parent_of(block)
            salt_of[block] = parent if above == -1 else salt_of.get(above, ROOT)
            by_salt.setdefault(salt_of[block], []).append(block)
        return [Event(-1, "cache", None, tuple(blocks), self.describe(blocks, None if salt == ROOT else salt))
                for salt, blocks in by_salt.items()]

    def describe(self, blocks: Sequence[int], salt: str | bytes | None) -> dict:
        """The detail of an event which tells that these blocks can be found."""
        detail = {"parents": tuple(map(self.parent_of, blocks)),
                  "tokens": tuple(as_tokens(self._keys[block][1]) for block in blocks)}
        if salt is not None:
            detail["salt"] = salt if isinstance(salt, str) else salt.hex()
        return detail

    # ── evicting ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def settle(self, blocks: Sequence[int], owner: Hashable = None) -> list[int]:
        """Prepare the release of a chain that runs in part through blocks of others (see `publish`): what is released
        then may be evicted, and must not go after the block before it.

        Blocks whose chain is broken, because the block before them has been evicted, cannot be found any more: those
        that nobody else holds lose their entry here. Returns the others and all that come before them, from the tail
        to the head; `refresh` them when the chain is released."""
        held, seen = set(blocks), set()
        in_order: list[int] = []
        for last in reversed(blocks):
            chain: list[int] = []
            block = last if self._keys[last] is not None else -1
            while block is not None and block >= 0 and block not in seen:
                chain.append(block)
                block = self.parent_of(block)
            seen.update(chain)
            if block is None:
                self.forget([block for block in chain if block in held and self._refcounts[block] == 1], owner)
            else:
                in_order += chain
        return in_order

    def refresh(self, blocks: Iterable[int]) -> None:
        """As if the idle ones of these blocks had been released now, in this order."""
        idle = self._idle
        for block in blocks:
            if block in idle:
                idle.move_to_end(block)

    def forget(self, blocks: Iterable[int], owner: Hashable = None) -> None:
        """From now on the contents of these held blocks cannot be found. (What comes after them cannot either: it is evicted
        when its turn comes.)"""
        cached = [block for block in blocks if self._keys[block] is not None]
        self._remove(cached)
        if cached and self.observer is not None:
            self.report("evict", owner, cached)

    def _evict(self, n: int, owner: Hashable) -> None:
        """Empty the `n` cached blocks that were released first."""
        pop = self._idle.popitem
        evicted = [pop(last=False)[0] for _ in range(n)]
        self._remove(evicted)
        self._free += evicted
        if self.observer is not None:
            self.report("evict", owner, evicted)

    def _remove(self, blocks: Iterable[int]) -> None:
        index, keys, nodes = self._index, self._keys, self._nodes
        for block in blocks:
            del index[keys[block]]
            keys[block] = None
            nodes[block] = 0

    def _out_of_blocks(self, n: int, num_idle_hits: int) -> OutOfBlocks:
        if n > self.num_blocks:
            return OutOfBlocks(f"need {n} blocks, the whole pool has {self.num_blocks}: it can never have room for this")
        kept = f" ({num_idle_hits} cached ones are kept for this prompt itself)" if num_idle_hits else ""
        return OutOfBlocks(f"need {n} blocks, {self.num_free_blocks - num_idle_hits} of {self.num_blocks} can be "
                           f"had{kept}: free a sequence or wait until one ends")
