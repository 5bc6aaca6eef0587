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
still empty would be copied. A block can be found as soon as its tokens are known, so prompts are to be computed in the
order in which they were added; one that is given up half-way is freed with the number of tokens that were written.
A pool that other processes use, too, cannot rely on such an order: there a block can be found when `mark_written` or
`free_sequence` says that it is written, and not before.
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence as AnySequence
from contextlib import contextmanager
from struct import Struct

from pagedkv.core.arguments import as_count, as_list
from pagedkv.core.block_table import as_block_size, locate
from pagedkv.core.errors import DoubleFree, UseAfterFree
from pagedkv.core.events import Event
from pagedkv.core.prefix_cache import ROOT, FoundTooLate, Parent, PrefixCachePool
from pagedkv.core.tokens import TOKEN_BYTES, as_token, as_token_bytes, as_tokens, pack_tokens

_log = logging.getLogger("pagedkv")
_NO_TOKENS: list[int] = []  # stands in many places, and is never appended to


class Sequence:
    """Made by a manager, which alone changes it.

    block_table         its physical blocks, by logical block; to be read only
    num_tokens          how many tokens it has
    num_cached_tokens   how many of them were there already when it began: found in the cache, or shared by a fork
    owner               the name under which events speak of it
    salt                what keeps it apart from sequences with another salt, or None
    """

    num_cached_tokens = 0
    salt: str | bytes | None = None
    _owner: Hashable = None
    # The tokens in the last block, if that one has room and may be written to. Empty, so that one look tells, if it is
    # full, or if the sequence is freed, or if a fork may still share it: then they are in _shared_tail.
    _tail: list[int] = _NO_TOKENS
    _shared_tail: list[int] = _NO_TOKENS
    _all_new = True  # whether its full blocks are the ones that are found for its tokens

    def __init__(self, manager: "KVCacheManager", block_table: list[int], number: int, node: Parent):
        self.block_table = block_table
        self._manager: KVCacheManager | None = manager  # None once it is freed
        self._number = number
        self._node = node  # of its last full block

    @property
    def num_tokens(self) -> int:
        if self._manager is None:
            return 0
        size, in_last = self._manager.block_size, len(self._tail or self._shared_tail)
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

    pool       the blocks themselves (`PrefixCachePool`), which may be used for other purposes as well. A reference taken
               there to a sequence's block keeps the block from being reused, not the sequence from writing on in it; if
               it outlasts the block before it, the block is released as a cached one that nobody finds.
               KVCacheManager(pool=shared_pool) works on a pool that other processes use as well: a
               `pagedkv.shared.SharedPool` with an index, whose tokens_per_block is then the block size
    observer   called with an `Event` for each operation on blocks, once the call of the manager is over; None (the default)
               costs nothing

    No call takes time in proportion to the pool. A call that is refused has changed nothing.
    One thread at a time: there is no lock.
    """

    source = "KV cache manager"

    def __init__(self, num_blocks: int | None = None, block_size: int | None = None, *, pool=None):
        if pool is None:
            if num_blocks is None:
                raise TypeError("KVCacheManager needs num_blocks, or the pool of its blocks: KVCacheManager(pool=…)")
            self.block_size = as_block_size(16 if block_size is None else block_size)
            self.pool = PrefixCachePool(num_blocks)
        else:
            self.pool = _as_prefix_pool(pool)
            self.block_size = self.pool.tokens_per_block
            for what, given, has in (("num_blocks", num_blocks, self.pool.num_blocks),
                                     ("block_size", block_size, self.block_size)):
                if given not in (None, has):
                    raise ValueError(f"{what} is {has} in this pool, got {given}: leave it out")
        # the pool's own lists, looked into at every full block
        self._refcounts, self._keys = self.pool._refcounts, self.pool._keys
        self._block_bytes = self.block_size * TOKEN_BYTES
        self._pack = Struct(f"={self.block_size}i").pack  # the tokens of one block as bytes
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

    def cache_contents(self) -> list[Event]:
        """All that can be found now, for the beginning of a recording."""
        return self.pool.cache_contents()

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
        if self.pool.observer is None:
            return self._add(token_ids, salt, owner)
        with self._told_afterwards():
            return self._add(token_ids, salt, f"seq {self._num_added}" if owner is None else owner)

    def _add(self, token_ids: Iterable[int], salt: str | bytes | None, owner: Hashable) -> Sequence:
        buffer, num_tokens = self._read(token_ids)
        size, block_bytes, pool = self.block_size, self._block_bytes, self.pool
        root = ROOT if salt is None else _as_root(salt)
        num_full = num_tokens // size
        while True:
            hits, node = pool.find(buffer, (num_tokens - 1) // size, block_bytes, root)
            num_hits = len(hits)
            num_cached_tokens = num_hits * size
            num_new = -(-num_tokens // size) - num_hits
            try:
                if pool.observer is None:
                    table = pool.reuse_and_allocate(hits, num_new)
                else:
                    table = pool.reuse_and_allocate(
                        hits, num_new, owner, {"num_tokens": num_cached_tokens},
                        {"num_tokens": num_tokens, "tokens": as_tokens(buffer[num_cached_tokens * TOKEN_BYTES:])})
                break
            except FoundTooLate:
                pass  # look again: there is less to be found now
        number = self._num_added
        self._num_added = number + 1
        new, publish = table[num_hits:num_full], pool.publish
        for block, start in zip(new, range(num_hits * block_bytes, len(buffer), block_bytes)):
            node = publish(block, buffer[start:start + block_bytes], node)
        tail = list(as_tokens(buffer[num_full * block_bytes:]))
        seq = Sequence(self, table, number, node)
        seq.num_cached_tokens = num_cached_tokens
        if tail:
            seq._tail = tail
        # the last of them is new only if all are: nothing can be found yet under a node that is new itself
        if new and self._keys[new[-1]] is None:
            seq._all_new = False
        if salt is not None:
            seq.salt = salt
        if owner is not None:
            seq._owner = owner
        self._live[seq] = None
        if pool.observer is not None:
            self._report_published(seq, new)
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
        if type(seq) is not Sequence or seq._manager is not self:
            self._check_live(seq, "fork")
        table, number, size, tail = seq.block_table.copy(), self._num_added, self.block_size, seq._tail or seq._shared_tail
        self.pool.share(table)
        child = Sequence(self, table, number, seq._node)
        child.num_cached_tokens = num_tokens = len(table) * size - (size - len(tail) if tail else 0)
        child._all_new = seq._all_new
        if seq.salt is not None:
            child.salt = seq.salt
        if owner is not None:
            child._owner = owner
        if tail:
            child._shared_tail = seq._shared_tail = tail
            seq._tail = _NO_TOKENS
        self._num_added = number + 1
        self._live[child] = None
        if self.pool.observer is not None:
            self.pool.report("retain", child.owner, table, {"num_tokens": num_tokens, "forked_from": seq.owner})
        return child

    def free_sequence(self, seq: Sequence, num_written_tokens: int | None = None) -> None:
        """Give all its blocks back. Raises DoubleFree for a sequence that is freed already.

        num_written_tokens  for a sequence that is given up before the keys and values of all its tokens are written: how
                            many are. Blocks that are not fully written cannot be found any more. A sequence that found
                            them before keeps them, and has to compute them itself."""
        if type(seq) is not Sequence or seq._manager is not self:
            self._check_ours(seq)
            raise DoubleFree(f"{seq.owner} is freed already: free a sequence only once")
        if num_written_tokens is not None:
            num_written_tokens = as_count(num_written_tokens, "num_written_tokens")
        if self.pool.observer is None:
            self._free(seq, num_written_tokens, None)
        else:
            with self._told_afterwards():
                self._free(seq, num_written_tokens, seq.owner)

    def mark_written(self, seq: Sequence, num_written_tokens: int) -> None:
        """The keys and values of its first `num_written_tokens` tokens are written. In a pool that other processes use,
        they can be found from now on; in any other they could be before, and this does nothing.

        Raises UseAfterFree for a sequence that is freed, ValueError for more tokens than it has."""
        self._check_live(seq, "write to")
        num_written_tokens = as_count(num_written_tokens, "num_written_tokens")
        if num_written_tokens > seq.num_tokens:
            raise ValueError(f"{seq.owner} has {seq.num_tokens} tokens, {num_written_tokens} of them cannot be written")
        if self.pool.waits_for_writes:
            self.pool.written(seq.block_table[:num_written_tokens // self.block_size], seq.salt, seq.owner)

    def _free(self, seq: Sequence, num_written_tokens: int | None, owner: Hashable) -> None:
        pool, table = self.pool, seq.block_table
        if pool.waits_for_writes:
            num_written = len(table) if num_written_tokens is None else num_written_tokens // self.block_size
            pool.written(table[:num_written], seq.salt, owner)
        if num_written_tokens is not None:
            unwritten = table[num_written_tokens // self.block_size:]
            if any(self._refcounts[block] > 1 for block in unwritten):
                for other in self._live:  # what they have after these blocks can no longer be found
                    other._all_new = False
            pool.forget(unwritten, owner)
        if seq._all_new:
            pool.give_back(table[::-1], owner)  # the last one first, so that the tail of the chain is evicted before its head
        else:
            chain = pool.settle(table, owner)
            pool.give_back(table[::-1], owner)
            pool.refresh(chain)
        del self._live[seq]
        seq._manager = None
        seq.block_table = []
        seq._tail = seq._shared_tail = _NO_TOKENS

    def reclaim(self, seq: Sequence, reason: str, num_written_tokens: int | None = None) -> int:
        """Free a sequence from outside, because its request timed out or was killed. Unlike `free_sequence` it may come too
        late. Logs a warning, and returns how many blocks the sequence has given up: 0 if it was freed already."""
        self._check_ours(seq)
        if not seq.is_live:
            return 0
        num_blocks = len(seq.block_table)
        self.free_sequence(seq, num_written_tokens)
        _log.warning("reclaimed %d blocks from %s: %s", num_blocks, seq.owner, reason)
        return num_blocks

    # ── growing ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def append_token(self, seq: Sequence, token: int) -> None:
        """One more token. Takes a new block if the last one is full, and copies the last one first if it is shared
        (see `take_block_copies`). Raises OutOfBlocks if a block is needed and none can be had; UseAfterFree for a
        sequence that is freed."""
        try:
            tail = seq._tail
        except AttributeError:
            tail = None
        if not tail or seq._manager is not self or type(token) is not int or self.pool.observer is not None or \
                not -2**31 <= token < 2**31:
            return self._append_with_care(seq, token)
        tail.append(token)
        if len(tail) == self.block_size:
            self._complete([seq])

    def append_tokens(self, seqs: Iterable[Sequence], tokens: Iterable[int]) -> None:
        """One more token for each of these sequences, all of them or, with OutOfBlocks, none. Much faster than one call
        each. Raises ValueError if there are not as many tokens as sequences, or if a sequence is named twice."""
        if type(seqs) is not list:
            if isinstance(seqs, Sequence):
                raise TypeError("sequences are given as a list, such as [seq], with as many tokens; for one there is "
                                "append_token")
            seqs = as_list(seqs)
        if type(tokens) is list:
            pack_tokens(tokens)  # that is, check them: nothing looks at a token as fast
        else:
            tokens = as_tokens(as_token_bytes(tokens))
        if len(tokens) != len(seqs):
            raise ValueError(f"one token for each sequence: got {len(seqs)} sequences and {len(tokens)} tokens")
        try:
            in_need = [seq for seq in seqs if not seq._tail or seq._manager is not self]
            all_different = len(set(seqs)) == len(seqs)
        except (AttributeError, TypeError):
            for seq in seqs:
                self._check_ours(seq)
            raise
        if not all_different:
            twice = next(seq for seq, times in Counter(seqs).items() if times > 1)
            raise ValueError(f"{twice.owner} is named twice: append its tokens one after the other")
        if self.pool.observer is not None:
            return self._append_and_report(seqs, tokens, in_need)
        if in_need:
            self._make_room(in_need)
        size, filled = self.block_size, []
        for seq, token in zip(seqs, tokens):
            tail = seq._tail
            tail.append(token)
            if len(tail) == size:
                filled.append(seq)
        if filled:
            self._complete(filled)

    def take_block_copies(self) -> list[tuple[int, int]]:
        """The (source, target) pairs of blocks to be copied since the last call: by whoever stores keys and values, in
        this order, and before anything else is written."""
        copies, self._block_copies = self._block_copies, []
        return copies

    # ── the parts of these ───────────────────────────────────────────────────────────────────────────────────────────

    def _append_with_care(self, seq: Sequence, token: int) -> None:
        """`append_token` where something has to be done first, or reported."""
        if type(seq) is not Sequence or seq._manager is not self:
            self._check_live(seq, "append to")
        if type(token) is not int or not -2**31 <= token < 2**31:
            token = as_token(token)
        if self.pool.observer is not None:
            return self._append_and_report([seq], [token], [] if seq._tail else [seq])
        tail = seq._tail
        if not tail and not seq._shared_tail:
            seq.block_table += self.pool.allocate(1)
            seq._tail = tail = []
        elif not tail:
            tail = self._own_last_block(seq)
        tail.append(token)
        if len(tail) == self.block_size:
            self._complete([seq])

    def _own_last_block(self, seq: Sequence) -> list[int]:
        """Make sure that nobody else sees what will be written to its last block: by a copy, if others hold it still.
        Returns the tokens in it."""
        pool, shared = self.pool, seq.block_table[-1]
        if self._refcounts[shared] > 1:
            if pool.observer is None:
                [own] = pool.allocate(1)
                pool.give_back([shared])
            else:
                [own] = pool.allocate(1, seq.owner, {"num_tokens": seq.num_tokens, "copied_from": shared})
                pool.give_back([shared], seq.owner, {"replaced_by": own})
            seq.block_table[-1] = own
            self._block_copies.append((shared, own))
        seq._tail = tail = seq._shared_tail.copy()
        seq._shared_tail = _NO_TOKENS
        return tail

    def _complete(self, seqs: list[Sequence]) -> None:
        """The last block of each is full: from now on it can be found. (Not if the chain before it runs through another
        one's blocks, and these have been evicted: then nothing after them could be found.)"""
        pool, keys, pack = self.pool, self._keys, self._pack
        publish, observed = pool.publish, pool.observer is not None
        for seq in seqs:
            if seq._all_new or pool.is_node(seq._node):
                block = seq.block_table[-1]
                seq._node = publish(block, pack(*seq._tail), seq._node)
                if keys[block] is None:
                    seq._all_new = False
                if observed:
                    self._report_published(seq, [block])
            seq._tail = _NO_TOKENS

    def _report_published(self, seq: Sequence, blocks: list[int]) -> None:
        """Tell the observer which of these full blocks can be found from now on: those whose contents were not yet."""
        blocks = [block for block in blocks if self.pool.is_cached(block)]
        if blocks:
            self.pool.report("cache", seq.owner, blocks, self.pool.describe(blocks, seq.salt))

    def _make_room(self, in_need: list[Sequence]) -> None:
        """Room for one more token in each of these, or, with OutOfBlocks, in none. Of the sequences that share a last
        block all but the last one to hold it copy it."""
        full, sharing = self._sort_out(in_need)
        for seq in sharing:
            self._own_last_block(seq)
        for seq, block in zip(full, self.pool.allocate(len(full))):
            seq.block_table.append(block)
            seq._tail = []

    def _sort_out(self, in_need: list[Sequence]) -> tuple[list[Sequence], list[Sequence]]:
        """Those whose last block is full, and those who share it, if there are blocks enough for all of them."""
        full, sharing = [], []
        for seq in in_need:
            if seq._manager is not self:
                self._check_live(seq, "append to")
            if seq._shared_tail:
                sharing.append(seq)
            elif not seq._tail:
                full.append(seq)
        needed = len(full)
        if sharing:
            writers = Counter(seq.block_table[-1] for seq in sharing)
            needed += sum(min(times, self._refcounts[block] - 1) for block, times in writers.items())
        if needed > self.pool.num_free_blocks:
            self.pool.allocate(needed)  # refuses, and says so to the observer
        return full, sharing

    def _append_and_report(self, seqs: list[Sequence], tokens: AnySequence[int], in_need: list[Sequence]) -> None:
        """The same steps in the same order as without an observer: first room for all, then the tokens."""
        pool = self.pool
        with self._told_afterwards():
            full, sharing = self._sort_out(in_need)
            told = {seq: {"num_tokens": seq.num_tokens + 1, "tokens": (token,)} for seq, token in zip(seqs, tokens)}
            for seq in sharing:
                self._own_last_block(seq)
            for seq in full:
                seq.block_table += pool.allocate(1, seq.owner, told[seq])
                seq._tail = []
            began_a_block = set(full)
            for seq, token in zip(seqs, tokens):
                if seq not in began_a_block:
                    pool.report("write", seq.owner, seq.block_table[-1:], told[seq])
                seq._tail.append(token)
            self._complete([seq for seq in seqs if len(seq._tail) == self.block_size])

    @contextmanager
    def _told_afterwards(self) -> Iterator[None]:
        """The observer hears what happens in the block when it is over: it sees no call half done, and an observer that
        fails leaves none half done."""
        pool, observer, events = self.pool, self.pool.observer, []
        pool.observer = events.append
        try:
            yield
        finally:
            pool.observer = observer
            for event in events:
                observer(event)

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


def _as_prefix_pool(pool):
    """What does for this pool what `PrefixCachePool` does for one process."""
    try:
        make = pool.prefix_pool
    except AttributeError:
        raise TypeError(f"a manager's pool is a pagedkv.shared.SharedPool, got {pool!r}") from None
    return make()
