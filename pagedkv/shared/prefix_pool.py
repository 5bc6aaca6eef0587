"""`SharedPrefixPool`: what `KVCacheManager` needs of a shared pool.

    pool = SharedPool.create("kv", num_blocks=1024, block_bytes=65_536, tokens_per_block=16)
    manager = KVCacheManager(pool=pool)

It does for one member of a shared pool what `pagedkv.core.prefix_cache.PrefixCachePool` does for one process: find the
longest known beginning of a prompt, share it, make new blocks findable. Three things are different.

- **A block can be found when it is written**, not as soon as its tokens are known: another process does not wait until
  this one has computed it, and this one may die before. So `publish` only notes what is to be said about a block, and
  `written` says it. What is noted and never written dies with the process, and nobody has heard of it.
- **What was found may be gone** before it is reused, since others go on meanwhile: `reuse_and_allocate` looks again, and
  raises FoundTooLate, for the caller to begin anew.
- **Which cached block is evicted first** is not in the order of last use: each member goes round the pool.

`refcounts` count the references of all members. Events are of this member only.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterable, Sequence

from pagedkv.core.events import Event
from pagedkv.core.prefix_cache import ROOT, FoundTooLate, Parent
from pagedkv.core.tokens import as_tokens
from pagedkv.shared.layout import NO_PARENT, NO_SALT


class _Noted:
    """What is to be said about a full block. node: its number in the index, once that is said."""

    def __init__(self, block: int, tokens: bytes, parent: "_Noted | Parent", node: int | None = None):
        self.block, self.tokens, self.parent, self.node = block, tokens, parent, node


class _Refcounts:
    """Looks like a list of refcounts."""

    def __init__(self, pool):
        self._pool = pool

    def __getitem__(self, block: int) -> int:
        return self._pool.refcount(block)


class _Keys:
    """Looks like a list of keys: a manager looks into it to see whether a block it has published is the one that will
    be found. Here that is not known yet; nor does it matter, as nothing is evicted in the order of a chain."""

    def __getitem__(self, block: int) -> bool:
        return True


class SharedPrefixPool:
    """The blocks of a `SharedPool` with an index, for one manager.

    shared    the pool itself
    observer  called with an `Event` for each operation of the manager
    """

    source = "shared pool with a prefix cache"
    waits_for_writes = True

    def __init__(self, shared):
        self.shared = shared
        self.num_blocks = shared.num_blocks
        self.tokens_per_block = shared.tokens_per_block
        self.observer: Callable[[Event], None] | None = None
        self._step = 0
        self._refcounts, self._keys = _Refcounts(shared), _Keys()
        self._noted: dict[int, _Noted] = {}  # by block
        self._asked: tuple[bytes, int, Parent] | None = None  # what was looked for last
        self._told: dict[int, int] = {}  # by block, the node that the observer has last heard of

    def __repr__(self) -> str:
        return f"<prefix cache over {self.shared!r}>"

    # ── what there is ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def num_free_blocks(self) -> int:
        return self.shared.num_free_blocks

    @property
    def num_cached_blocks(self) -> int:
        """Blocks that nobody holds and whose contents can be found."""
        return self.shared.num_cached_blocks

    @property
    def num_empty_blocks(self) -> int:
        return self.shared.num_empty_blocks

    def refcount(self, block: int) -> int:
        return self.shared.refcount(block)

    def refcounts(self) -> list[int]:
        return self.shared.refcounts()

    def is_cached(self, block: int) -> bool:
        """Whether the contents of a block of this manager can be found: not while it is only noted. (`written` tells
        the observer.)"""
        return False

    def is_node(self, node: "_Noted | Parent") -> bool:
        return True  # what comes after a node that is gone is published all the same, and not found

    def cache_contents(self) -> list[Event]:
        """Nothing: what other members have published before is not in the events of this one."""
        return []

    # ── taking and giving back ───────────────────────────────────────────────────────────────────────────────────────

    def allocate(self, n: int, owner: Hashable = None, detail: dict | None = None) -> list[int]:
        try:
            blocks = self.shared.allocate(n)
        except Exception as error:
            if self.observer is not None:
                self.report("allocate", owner, (), {"error": type(error).__name__, "message": str(error),
                                                    "requested_blocks": n})
            raise
        if self.observer is not None:
            self.report("allocate", owner, blocks, detail)
        return blocks

    def retain(self, blocks: Iterable[int], owner: Hashable = None, detail: dict | None = None) -> None:
        self._change("retain", self.shared.retain, blocks, owner, detail)

    def release(self, blocks: Iterable[int], owner: Hashable = None, detail: dict | None = None) -> None:
        self._change("release", self.shared.release, blocks, owner, detail)

    def give_back(self, blocks: list[int], owner: Hashable = None, detail: dict | None = None) -> None:
        self.release(blocks, owner, detail)

    def share(self, blocks: list[int]) -> None:
        self.shared.retain(blocks)

    def _change(self, op: str, call: Callable, blocks: Iterable[int], owner: Hashable, detail: dict | None) -> None:
        blocks = list(blocks)
        try:
            call(blocks)
        except Exception as error:
            if self.observer is not None:
                self.report(op, owner, blocks, {"error": type(error).__name__, "message": str(error)})
            raise
        if self.observer is not None:
            self.report(op, owner, blocks, detail)

    # ── finding and reusing ──────────────────────────────────────────────────────────────────────────────────────────

    def find(self, buffer: bytes, num_blocks: int, block_bytes: int, root: Parent
             ) -> tuple[list[int], "_Noted | Parent"]:
        """The longest known chain that holds the beginning of `buffer`, at most `num_blocks` blocks, and the node it
        ends in. A look: nothing changes."""
        self._asked = buffer[:num_blocks * block_bytes], num_blocks, root
        blocks, nodes = self.shared.match(buffer[:num_blocks * block_bytes], num_blocks, salt_digest(root), hold=False)
        return blocks, _Noted(blocks[-1], b"", root, nodes[-1]) if nodes else root

    def reuse_and_allocate(self, hits: list[int], n: int, owner: Hashable = None, reuse_detail: dict | None = None,
                           allocate_detail: dict | None = None) -> list[int]:
        """One more reference to each of the blocks just found, and `n` others: all of it or nothing. Raises
        FoundTooLate if they are not there any more, OutOfBlocks if there are not so many others."""
        if hits:
            buffer, _, root = self._asked
            held, nodes = self.shared.match(buffer, len(hits), salt_digest(root), hold=True)
            if held != hits:
                self.shared.release(held)
                raise FoundTooLate
        try:
            others = self.shared.allocate(n) if n else []
        except Exception as error:
            self.shared.release(hits)
            if self.observer is not None:
                self.report("allocate", owner, (), {"error": type(error).__name__, "message": str(error),
                                                    "requested_blocks": n})
            raise
        if self.observer is not None:
            if hits:
                self._tell_of_others(hits, nodes, buffer, root)
                self.report("retain", owner, hits, reuse_detail)
            if n:
                self.report("allocate", owner, others, allocate_detail)
        return hits + others

    def _tell_of_others(self, hits: list[int], nodes: list[int], buffer: bytes, root: Parent) -> None:
        """The observer has not heard of what other members have published: it does when it is reused."""
        size = len(buffer) // self._asked[1]
        unknown = [place for place, block in enumerate(hits) if self._told.get(block) != nodes[place]]
        if unknown:
            self._told.update((hits[place], nodes[place]) for place in unknown)
            above = [-1, *hits]
            self._report_cached(None, [(hits[place], above[place], as_tokens(buffer[place * size:(place + 1) * size]))
                                       for place in unknown], None if root == ROOT else root)

    # ── making findable ──────────────────────────────────────────────────────────────────────────────────────────────

    def publish(self, block: int, tokens: bytes, parent: "_Noted | Parent") -> "_Noted":
        """Note what a held, full block will contain. `written` makes it findable."""
        noted = self._noted[block] = _Noted(block, tokens, parent)
        return noted

    def written(self, blocks: Iterable[int], salt: str | bytes | None = None, owner: Hashable = None) -> None:
        """The contents of these blocks are complete: those that were noted can be found from now on. The order is that
        of the chain."""
        if not self._noted:  # most steps of a decode fill no block
            return
        told: list[tuple[int, int | None, tuple[int, ...]]] = []
        for block in blocks:
            noted = self._noted.pop(block, None)
            if noted is None:
                continue
            parent, above = (noted.parent.node, noted.parent.block) if isinstance(noted.parent, _Noted) else \
                (NO_PARENT, -1)
            if parent is None:  # what comes before it was never published, so nobody could get here
                continue
            digest = salt_digest(salt) if parent == NO_PARENT else NO_SALT
            noted.node = self.shared.publish_node(block, noted.tokens, parent, digest) or None
            if noted.node is not None and self.observer is not None:
                self._told[block] = noted.node
                told.append((block, above, as_tokens(noted.tokens)))
        if told:
            self._report_cached(owner, told, salt)

    def _report_cached(self, owner: Hashable, told: list[tuple[int, int | None, tuple[int, ...]]],
                       salt: str | bytes | None) -> None:
        """told: of each block, which one is before it (-1: none), and its tokens"""
        detail = {"parents": tuple(above for _, above, _ in told), "tokens": tuple(tokens for *_, tokens in told)}
        if salt is not None:
            detail["salt"] = salt if isinstance(salt, str) else salt.hex()
        self.report("cache", owner, [block for block, *_ in told], detail)

    def forget(self, blocks: Iterable[int], owner: Hashable = None) -> None:
        """From now on the contents of these held blocks cannot be found; nor later, if they were only noted."""
        blocks = list(blocks)
        for block in blocks:
            self._noted.pop(block, None)
        forgotten = self.shared.unpublish(blocks)
        if forgotten and self.observer is not None:
            self.report("evict", owner, forgotten)

    def settle(self, blocks: Sequence[int], owner: Hashable = None) -> list[int]:
        return []

    def refresh(self, blocks: Iterable[int]) -> None:
        pass

    def report(self, op: str, owner: Hashable, blocks: Sequence[int], detail: dict | None = None) -> None:
        step = self._step
        self._step = step + 1
        self.observer(Event(step, op, owner, tuple(blocks), {} if detail is None else detail))


def salt_digest(salt: Parent | None) -> bytes:
    """32 bytes that stand for a salt in the index; see `layout`."""
    if salt is None or salt == ROOT:
        return NO_SALT
    return hashlib.sha256(salt.encode() if isinstance(salt, str) else salt).digest()
