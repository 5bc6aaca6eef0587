"""`KVCacheManager`: sequences, their block tables, and what they share.

A *sequence* is one request's tokens: its prompt and what has been generated. Their keys and values lie in blocks of
`block_size` tokens; the manager says which block holds which part, and stores no keys and values itself.

    add_sequence    a prompt: blocks that are cached already are shared, the others are taken
    append_token    one more token: a new block only when the last one is full
    fork            a second sequence with the same tokens; it shares every block
    free_sequence   gives every block back; full ones can still be found until they are taken

A table holds one reference to each of its blocks, and `free_sequence` gives exactly these back. Only the last block of a
sequence is ever written to. Full blocks are read-only; a last block that is shared, after a fork, is copied by whoever
writes first (*copy-on-write*).

The order of things for whoever stores the keys and values: append (or add), `take_block_copies` and carry them out in
their order, write the new tokens' keys and values, go on. Before a fork everything has to be written, else a slot that is
still empty would be copied. A block can be found as soon as its tokens are known, so prompts added in one step are to be
computed in the order in which they were added.
"""

import logging
from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager

from pagedkv.core.arguments import as_list
from pagedkv.core.block_table import as_block_size, locate
from pagedkv.core.errors import DoubleFree, UseAfterFree
from pagedkv.core.events import Event
from pagedkv.core.prefix_cache import ROOT, Parent, PrefixCachePool
from pagedkv.core.tokens import INT32, TOKEN_BYTES, as_token, as_token_bytes, as_tokens

_log = logging.getLogger("pagedkv")


class Sequence:
    """Made by a manager, which alone changes it.

    block_table         its physical blocks, by logical block; to be read only
    num_tokens          how many tokens it has
    num_cached_tokens   how many of them were there already when it began: found in the cache, or shared by a fork
    owner               the name under which events speak of it
    salt                what keeps it apart from sequences with another salt, or None
    """

    __slots__ = ("block_table", "num_cached_tokens", "salt", "_manager", "_owner", "_number", "_tail", "_node", "_all_new")

    def __init__(self, manager: "KVCacheManager", block_table: list[int], tail: array, node: Parent, all_new: bool,
                 num_cached_tokens: int, salt: str | bytes | None, owner: Hashable, number: int):
        self.block_table = block_table
        self.num_cached_tokens = num_cached_tokens
        self.salt = salt
        self._manager: KVCacheManager | None = manager  # None once it is freed
        self._owner, self._number = owner, number
        self._tail = tail        # the tokens in the last block; empty if that one is full
        self._node = node        # of its last full block
        self._all_new = all_new  # whether its full blocks are the ones that are found for its tokens

    @property
    def num_tokens(self) -> int:
        if self._manager is None:
            return 0
        size, in_last = self._manager.block_size, len(self._tail)
        return len(self.block_table) * size - (size - in_last if in_last else 0)

    @property
    def is_live(self) -> bool:
        return self._manager is not None

    @property
    def owner(self) -> Hashable:
        return f"seq {self._number}" if self._owner is None else self._owner

    def __repr__(self) -> str:
        if not self.is_live:
            return f"<{self.owner}: freed>"
        return f"<{self.owner}: {self.num_tokens} tokens in blocks {self.block_table}>"


class KVCacheManager:
    """Block tables and exact prefix caching over a pool of `num_blocks` blocks of `block_size` tokens.

    pool   the blocks themselves (`PrefixCachePool`); may be used for blocks of other purposes as well
    observer   called with an `Event` for each operation on blocks; None (the default) costs nothing

    No call takes time in proportion to the pool. A call that is refused has changed nothing.
    One thread at a time: there is no lock.
    """

    source = "KV cache manager"

    def __init__(self, num_blocks: int, block_size: int = 16):
        self.block_size = as_block_size(block_size)
        self.pool = PrefixCachePool(num_blocks)
        self._refcounts = self.pool._refcounts  # the pool's own list: looked into for each token
        self._block_bytes = self.block_size * TOKEN_BYTES
        self._live: dict[Sequence, None] = {}
        self._num_added = 0
        self._block_copies: list[tuple[int, int]] = []

    def __repr__(self) -> str:
        return (f"KVCacheManager(num_blocks={self.num_blocks}, block_size={self.block_size}): {len(self._live)} sequences, "
                f"blocks {self.num_used_blocks} used + {self.num_cached_blocks} cached + {self.num_empty_blocks} empty")

    # ── what there is ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def num_blocks(self) -> int:
        return self.pool.num_blocks

    @property
    def num_empty_blocks(self) -> int:
        return self.pool.num_empty_blocks

    @property
    def num_cached_blocks(self) -> int:
        """Blocks that no sequence holds and whose contents can be found."""
        return self.pool.num_cached_blocks

    @property
    def num_free_blocks(self) -> int:
        """Empty and cached ones: what could be handed out now."""
        return self.pool.num_free_blocks

    @property
    def num_used_blocks(self) -> int:
        return self.pool.num_blocks - self.pool.num_free_blocks

    @property
    def live_sequences(self) -> tuple[Sequence, ...]:
        """All that are not freed, the oldest first."""
        return tuple(self._live)

    def refcount(self, block: int) -> int:
        return self.pool.refcount(block)

    def refcounts(self) -> list[int]:
        return self.pool.refcounts()

    @property
    def observer(self) -> Callable[[Event], None] | None:
        return self.pool.observer

    @observer.setter
    def observer(self, observer: Callable[[Event], None] | None) -> None:
        self.pool.observer = observer

    def find(self, token_ids: Iterable[int], salt: str | bytes | None = None) -> list[int]:
        """The cached blocks that a new sequence with these tokens would share, now. A look: nothing changes."""
        buffer, num_tokens = self._read(token_ids)
        return self.pool.find(buffer, (num_tokens - 1) // self.block_size, self._block_bytes, _as_root(salt))[0]

    def slot(self, seq: Sequence, position: int) -> int:
        """Where the token at `position` lies: block * block_size + offset. Raises IndexError where there is no token."""
        self._check_live(seq, "look into")
        location = locate(seq.block_table, position, self.block_size)
        if location.position >= seq.num_tokens:
            raise IndexError(f"there is no token at position {location.position}: {seq.owner} has {seq.num_tokens}")
        return location.slot

    # ── beginning and ending ─────────────────────────────────────────────────────────────────────────────────────────

    def add_sequence(self, token_ids: Iterable[int], salt: str | bytes | None = None, owner: Hashable = None) -> Sequence:
        """A new sequence with this prompt. It shares the longest cached prefix, in full blocks; at least the last token
        is left to compute, since without it there would be nothing to predict the next token from.

        token_ids  at least one; any integers that fit int32, see `pagedkv.core.tokens`
        salt       tenant, adapter, image: what else the keys and values depend on. Only equal salts share
        owner      the name in events; "seq 0", "seq 1", … if none is given

        Raises OutOfBlocks if the blocks that are not shared cannot all be had; ValueError for an empty prompt or an id
        outside int32, TypeError for what is not a sequence of integers and for a salt that is neither str nor bytes."""
        buffer, num_tokens = self._read(token_ids)
        size, block_bytes, pool = self.block_size, self._block_bytes, self.pool
        hits, node = pool.find(buffer, (num_tokens - 1) // size, block_bytes, ROOT if salt is None else _as_root(salt))
        num_hits, num_full = len(hits), num_tokens // size
        num_cached_tokens = num_hits * size
        num_new = -(-num_tokens // size) - num_hits
        number = self._num_added
        if pool.observer is None:
            table = pool.reuse_and_allocate(hits, num_new)
        else:
            owner = f"seq {number}" if owner is None else owner
            table = pool.reuse_and_allocate(
                hits, num_new, owner, {"num_tokens": num_cached_tokens},
                {"num_tokens": num_tokens, "tokens": as_tokens(buffer[num_cached_tokens * TOKEN_BYTES:])})
        self._num_added = number + 1
        all_new = True
        if num_full > num_hits:
            node, all_new = pool.publish(table[num_hits:num_full], buffer[num_hits * block_bytes:], block_bytes, node, owner)
        tail = array(INT32, buffer[num_full * block_bytes:])
        seq = Sequence(self, table, tail, node, all_new, num_cached_tokens, salt, owner, number)
        self._live[seq] = None
        return seq

    @contextmanager
    def sequence(self, token_ids: Iterable[int], salt: str | bytes | None = None, owner: Hashable = None
                 ) -> Iterator[Sequence]:
        """`add_sequence` for a `with` block: it is freed on every way out."""
        seq = self.add_sequence(token_ids, salt, owner)
        try:
            yield seq
        finally:
            if seq.is_live:
                self.free_sequence(seq)

    def fork(self, seq: Sequence, owner: Hashable = None) -> Sequence:
        """A second sequence with the same tokens, in the same blocks. No block is taken, so it never fails for want of
        one. Raises UseAfterFree for a sequence that is freed."""
        self._check_live(seq, "fork")
        table = seq.block_table.copy()
        number = self._num_added
        if self.pool.observer is None:
            self.pool.retain(table)
        else:
            owner = f"seq {number}" if owner is None else owner
            self.pool.retain(table, owner, {"num_tokens": seq.num_tokens, "forked_from": seq.owner})
        self._num_added = number + 1
        child = Sequence(self, table, seq._tail[:], seq._node, seq._all_new, seq.num_tokens, seq.salt, owner, number)
        self._live[child] = None
        return child

    def free_sequence(self, seq: Sequence) -> None:
        """Give all its blocks back. Raises DoubleFree for a sequence that is freed already."""
        if seq._manager is not self:
            self._check_ours(seq)
            raise DoubleFree(f"{seq.owner} is freed already: free a sequence only once")
        pool, table = self.pool, seq.block_table
        owner = None if pool.observer is None else seq.owner
        if seq._all_new:
            pool.release(table[::-1], owner)  # the last one first, so that the tail of the chain is evicted before its head
        else:
            chain = pool.settle(table, owner)
            pool.release(table[::-1], owner)
            pool.refresh(chain)
        del self._live[seq]
        seq._manager = None
        seq.block_table = []

    def reclaim(self, seq: Sequence, reason: str) -> int:
        """Free a sequence from outside, because its request timed out or was killed. Unlike `free_sequence` it may come too
        late. Logs a warning, and returns how many blocks the sequence has given up: 0 if it was freed already."""
        self._check_ours(seq)
        if not seq.is_live:
            return 0
        num_blocks = len(seq.block_table)
        self.free_sequence(seq)
        _log.warning("reclaimed %d blocks from %s: %s", num_blocks, seq.owner, reason)
        return num_blocks

    # ── growing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def append_token(self, seq: Sequence, token: int) -> None:
        """One more token. Takes a new block if the last one is full, and copies the last one first if it is shared
        (see `take_block_copies`). Raises OutOfBlocks if a block is needed and none can be had; UseAfterFree for a
        sequence that is freed."""
        tail = seq._tail
        if not tail or seq._manager is not self or self._refcounts[seq.block_table[-1]] != 1 or \
                self.pool.observer is not None:
            return self._append_with_care(seq, token)
        try:
            tail.append(token)
        except (TypeError, OverflowError):
            as_token(token)
            raise
        if len(tail) == self.block_size:
            self._complete(seq)

    def append_tokens(self, seqs: Iterable[Sequence], tokens: Iterable[int]) -> None:
        """One more token for each of these sequences, all of them or, with OutOfBlocks, none. Much faster than one call
        each. Raises ValueError if there are not as many tokens as sequences, or if a sequence is named twice."""
        if type(seqs) is not list:
            seqs = as_list(seqs)
        values = array(INT32, as_token_bytes(tokens))
        if len(values) != len(seqs):
            raise ValueError(f"one token for each sequence: got {len(seqs)} sequences and {len(values)} tokens")
        refcounts = self._refcounts
        try:
            in_need = [seq for seq in seqs
                       if not seq._tail or seq._manager is not self or refcounts[seq.block_table[-1]] != 1]
            all_different = len(set(seqs)) == len(seqs)
        except (AttributeError, TypeError):
            for seq in seqs:
                self._check_ours(seq)
            raise
        if not all_different:
            twice = next(seq for seq, times in Counter(seqs).items() if times > 1)
            raise ValueError(f"{twice.owner} is named twice: append its tokens one after the other")
        if in_need:
            self._check_room(in_need)
        if self.pool.observer is not None:
            for seq, token in zip(seqs, values):
                self._append_with_care(seq, token)
            return
        if in_need:
            self._make_room_for_all(in_need)
        size = self.block_size
        for seq, token in zip(seqs, values):
            tail = seq._tail
            tail.append(token)
            if len(tail) == size:
                self._complete(seq)

    def take_block_copies(self) -> list[tuple[int, int]]:
        """The (source, target) pairs of blocks to be copied since the last call: by whoever stores keys and values, in
        this order, and before anything else is written."""
        copies, self._block_copies = self._block_copies, []
        return copies

    # ── the parts of these ───────────────────────────────────────────────────────────────────────────────────────────

    def _append_with_care(self, seq: Sequence, token: int) -> None:
        """`append_token` where something has to be done first, or reported."""
        self._check_live(seq, "append to")
        token = as_token(token)
        owner, observed = seq.owner, self.pool.observer is not None
        told = {"num_tokens": seq.num_tokens + 1, "tokens": (token,)} if observed else None
        if not seq._tail:
            seq.block_table += self.pool.allocate(1, owner, told)
        else:
            if self._refcounts[seq.block_table[-1]] != 1:
                self._copy_last_block(seq)
            if observed:
                self.pool.report("write", owner, seq.block_table[-1:], told)
        seq._tail.append(token)
        if len(seq._tail) == self.block_size:
            self._complete(seq)

    def _copy_last_block(self, seq: Sequence) -> None:
        """A last block of its own, with the same contents."""
        shared, owner = seq.block_table[-1], seq.owner
        [own] = self.pool.allocate(1, owner, {"num_tokens": seq.num_tokens, "copied_from": shared})
        self.pool.release([shared], owner, {"replaced_by": own})
        seq.block_table[-1] = own
        self._block_copies.append((shared, own))

    def _complete(self, seq: Sequence) -> None:
        """Its last block is full: from now on it can be found."""
        seq._node, all_new = self.pool.publish(seq.block_table[-1:], seq._tail.tobytes(), self._block_bytes, seq._node,
                                               None if self.pool.observer is None else seq.owner)
        seq._all_new = seq._all_new and all_new
        seq._tail = array(INT32)

    def _check_room(self, in_need: list[Sequence]) -> None:
        """Can each of these append one token? Of the sequences that share a last block all but the last one to hold it
        have to copy it."""
        for seq in in_need:
            self._check_live(seq, "append to")
        writers = Counter(seq.block_table[-1] for seq in in_need if seq._tail)
        num_copies = sum(min(times, self._refcounts[block] - 1) for block, times in writers.items())
        needed = sum(not seq._tail for seq in in_need) + num_copies
        if needed > self.pool.num_free_blocks:
            self.pool.allocate(needed)  # refuses, and says so to the observer

    def _make_room_for_all(self, in_need: list[Sequence]) -> None:
        full = [seq for seq in in_need if not seq._tail]
        for seq, block in zip(full, self.pool.allocate(len(full))):
            seq.block_table.append(block)
        for seq in in_need:
            if seq._tail and self._refcounts[seq.block_table[-1]] != 1:
                self._copy_last_block(seq)

    def _read(self, token_ids: Iterable[int]) -> tuple[bytes, int]:
        buffer = as_token_bytes(token_ids)
        if not buffer:
            raise ValueError("a prompt has at least one token, got none")
        return buffer, len(buffer) // TOKEN_BYTES

    def _check_live(self, seq: Sequence, what_for: str) -> None:
        if not isinstance(seq, Sequence) or seq._manager is not self:
            self._check_ours(seq)
            raise UseAfterFree(f"{seq.owner} is freed: you cannot {what_for} it any more")

    def _check_ours(self, seq: Sequence) -> None:
        if not isinstance(seq, Sequence):
            raise TypeError(f"expected a sequence of this manager, got {seq!r}")
        if seq._manager is not None and seq._manager is not self:
            raise ValueError(f"{seq.owner} belongs to another manager")


def _as_root(salt: str | bytes | None) -> Parent:
    """Where the chain of a prompt with this salt begins."""
    if salt is None:
        return ROOT
    if not isinstance(salt, (str, bytes)):
        raise TypeError(f"a salt is a str or bytes, got {salt!r} of type {type(salt).__name__}; for several things at once "
                        "make one text of them")
    return salt
