"""The operations of one member, in Python, over single atomic instructions called from libatomic.

For machines without a C compiler; and the text to read first, since pool.c takes the same steps. Slower by far.

**Why a kill between any two steps does no harm.** The word of a block is the truth about it; hints and counts serve it.
Let the member in slot s be killed.

- In `allocate`, with hints taken out but blocks not yet claimed: these blocks are free by their words, and only their
  hints are lost. The last search of an allocation goes by the words, so nobody is refused a block that is free; `heal`
  sets the hints again. After counts[s] = 1 and before the CAS: s is not a holder, so the count means nothing, and
  reaping zeroes it. After the CAS: s is a holder, and reaping takes it out.
- In a first `retain`: the same two cases, before and after the CAS. The count is written first so that a holder's count
  is never 0 to whoever adds counts up.
- In a last `release`: after the CAS s is no holder; the count means nothing, and reaping zeroes it. If nobody else held
  the block, it is free without a hint until somebody heals.
- In a last release to the local cache, after the CAS the block is CACHED with s as its holder, whatever the count says.
  Reaping frees it. In an allocation from the cache: CACHED until the CAS, held after it.
- In `reuse` as in a first `retain`. The block has content, held or not, so it may be one that nobody holds: then, after
  the CAS, it is held by the dead alone, and reaping makes it free again, with its content.
- In `publish`, before CONTENT is set: the record says nothing, since nobody reads one without CONTENT as true, and the
  block was the dead member's alone, which reaping frees as an empty one. A node's number may be lost. After CONTENT,
  before the bucket: the content is true and complete, but nobody finds it; others may publish it again. The block is
  free when it is reaped, and is taken like any block with content. In `unpublish` there is one step.
- In `reap`, by another member that dies itself: the lock is free again and in_use still 1, so the next one starts anew.
  Each step leaves what is done already alone. Nobody gets the slot before it is done, since whoever gets it reaps
  first.

**Why nobody has to wait**, not even for a member that is stopped in the middle (it still has its lock, so is not
reaped). What it has in hand are hints; others find those blocks by their words, and its own CAS then fails on the
holder it sees.

**Why two cannot have the same block.** Only the CAS from "no holder" hands it out. A hint too many costs a look at the
word. A hint is never missing for good while everybody lives: whoever takes a hint and then finds a holder has taken it
before that holder's release, which sets the hint after its CAS; and a claim that fails otherwise does not exist. A CAS
may succeed although the word changed and changed back meanwhile (for a block handed out a multiple of 16,384 times, the
generation too): then the new word says the same as the old one, no holder or these holders, and that is all that any
CAS relies on. A caller who compares generations relies on more: fewer than 16,384 hand-outs between two looks.

**Why what is found is what was asked for.** A record is written by its block's only holder while there is no CONTENT,
and CONTENT is taken away by the CAS that hands the block out. A look (`find`) can read one that is being written
nevertheless, since the word is read before. The node says so: it is 0 before anything else is written, and new after
everything is. So a node that is the same before and after the comparison is the node of just this content. That
matters where the node is used: what is published under it comes after this content, whether or not the block still has
it. `reuse` compares once more when its reference is there: from then on nobody can take CONTENT and write another
record, because it would have to be the only holder. Tags, hashes and buckets only say where to look.

Duplicates do no harm: two members that publish the same content at once have two nodes with it. One is found, and
what is published under the other can be found only when the first has gone.

**CACHED is safe against others**: claiming takes a word without a holder, retaining refuses CACHED, and both check in
the very CAS. So only its member, or who reaps it, changes such a word.

**What is not promised.** Two allocations at once may both be refused although either alone would have gone through:
each has some of the blocks in hand when the other looks, and both give them back. `refcount` of a block that other
members are changing is a value that was true for each holder at some moment during the call.
"""

import ctypes
import signal
import threading
from array import array
from collections.abc import Callable, Sequence
from contextlib import contextmanager

from pagedkv.shared.errors import NoAtomics
from pagedkv.shared.layout import (CACHED, CONTENT, GENERATION_SHIFT, HOLDERS, LAST_NODE_AT, NO_PARENT, NO_SALT,
                                   NUM_GENERATIONS, NUM_SLOTS, RECORD_HEAD, WINDOW_BUCKETS, Layout)

_SEQUENTIAL = 5  # __ATOMIC_SEQ_CST
_KEY_HEAD = RECORD_HEAD.size // 4 - 2  # parent and salt, in u32


class LibAtomic:
    """Atomic operations on a u64 at an address. Raises NoAtomics where there is no libatomic."""

    def __init__(self):
        try:
            library = ctypes.CDLL("libatomic.so.1")
        except OSError:
            raise NoAtomics("no libatomic.so.1 (on Debian: apt install libatomic1; with conda: conda install "
                            "libatomic)") from None
        self._swap = getattr(library, "__atomic_compare_exchange_8")
        self._swap.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int, ctypes.c_int]
        self._swap.restype = ctypes.c_bool
        self._or = getattr(library, "__atomic_fetch_or_8")
        self._or.argtypes, self._or.restype = [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_int], ctypes.c_uint64
        self._add = getattr(library, "__atomic_fetch_add_8")
        self._add.argtypes, self._add.restype = self._or.argtypes, ctypes.c_uint64
        self._fence = library.atomic_thread_fence
        self._fence.argtypes, self._fence.restype = [ctypes.c_int], None

    def compare_and_swap(self, at: int, seen: int, wanted: int) -> int:
        """What was there: `seen` if `wanted` is there now, else something else, and nothing has changed."""
        found = ctypes.c_uint64(seen)
        self._swap(at, ctypes.addressof(found), wanted, _SEQUENTIAL, _SEQUENTIAL)
        return found.value

    def set_bits(self, at: int, bits: int) -> None:
        self._or(at, bits, _SEQUENTIAL)

    def add(self, at: int, number: int) -> int:
        """What was there before."""
        return self._add(at, number, _SEQUENTIAL)

    def fence(self) -> None:
        """What was read or written before is so for everybody before what is read or written after."""
        self._fence(_SEQUENTIAL)


class PortableOperations:
    """See `CompiledOperations`, which can do the same."""

    kind = "portable"

    def __init__(self, view: memoryview, address: int, layout: Layout, slot: int, cache_blocks: int,
                 atomics: LibAtomic | None = None):
        self._atomics = atomics or LibAtomic()
        self._base = address
        # Single numbers of a view are read and written whole: each is one aligned move of its size.
        self._numbers, self._counts = view.cast("Q"), view.cast("I")
        self._words, self._empty, self._content = (at // 8 for at in (layout.words_at, layout.empty_at,
                                                                     layout.content_at))
        self._rows = [(layout.counts_at + slot * layout.row_bytes) // 4 for slot in range(NUM_SLOTS)]
        self._row, self._me = self._rows[slot], 1 << slot
        self._num_blocks, self._num_hints = layout.num_blocks, layout.num_hints
        self._cursors = {self._empty: slot * layout.num_hints // NUM_SLOTS,
                         self._content: slot * layout.num_hints // NUM_SLOTS}
        self._cache: list[int] = []
        self._cache_blocks = cache_blocks
        self._buckets, self._records = layout.buckets_at // 8, layout.records_at // 8
        self._record_numbers, self._num_buckets = layout.record_bytes // 8, layout.index_entries
        self._tokens_per_block = layout.tokens_per_block

    def close(self) -> None:
        self._numbers.release()
        self._counts.release()

    # ── allocate ──

    def allocate(self, n: int) -> list[int] | None:
        with _uninterrupted():
            blocks = self._take_cached(n)
            self._take_hinted(self._empty, True, n, blocks)
            # a call that will be refused must not cost anybody's content
            if len(blocks) < n and self._can_take(n - len(blocks)):
                self._take_hinted(self._content, False, n, blocks)
                for block in range(self._num_blocks):
                    if len(blocks) == n:
                        break
                    if self._claim(block):
                        blocks.append(block)
            if len(blocks) == n:
                return blocks
            while blocks:
                self._release_one(blocks.pop(), False)
            return None

    def _claim(self, block: int) -> bool:
        """Whether the block is ours now, with one reference; else somebody holds it."""
        seen = self._numbers[self._words + block]
        if seen & HOLDERS:
            return False
        self._set_count(self._row + block, 1)
        if self._change(block, lambda seen: None if seen & HOLDERS else self._handed_out(seen), seen) is None:
            self._set_count(self._row + block, 0)
            return False
        return True

    def _handed_out(self, seen: int) -> int:
        return ((seen >> GENERATION_SHIFT) + 1) % NUM_GENERATIONS << GENERATION_SHIFT | self._me

    def _take_cached(self, n: int) -> list[int]:
        blocks = []
        while len(blocks) < n and self._cache:
            block = self._cache.pop()
            self._set_count(self._row + block, 1)
            self._change(block, self._handed_out)
            blocks.append(block)
        return blocks

    def _take_hinted(self, hints: int, only_empty: bool, n: int, blocks: list[int]) -> None:
        """Go once round these hints. Blocks with content are left alone if only_empty, and their hint is put where it
        belongs."""
        at, passed = self._cursors[hints], 0
        while len(blocks) < n and passed <= self._num_hints:
            seen = left = self._numbers[hints + at]
            if not seen:
                at, passed = (at + 1) % self._num_hints, passed + 1
                continue
            taken = []
            while left and len(taken) < n - len(blocks):
                taken.append(at * 64 + (left & -left).bit_length() - 1)
                left &= left - 1
            if self._atomics.compare_and_swap(self._base + 8 * (hints + at), seen, left) != seen:
                continue
            for block in taken:
                word = self._numbers[self._words + block]
                if only_empty and word & CONTENT and not word & HOLDERS:
                    self._set_hint(self._content, block)
                elif self._claim(block):
                    blocks.append(block)
        self._cursors[hints] = at

    def _can_take(self, n: int) -> bool:
        """Whether there are n free blocks. The content hints alone do not say so: a block that is reused leaves its
        hint there. This looks at first where `_take_hinted` will look, so it is soon done."""
        left, cursor = n, self._cursors[self._content]
        for at in (*range(cursor, self._num_hints), *range(cursor)):
            seen = self._numbers[self._content + at]
            while seen:
                block = at * 64 + (seen & -seen).bit_length() - 1
                seen &= seen - 1
                if not self._numbers[self._words + block] & HOLDERS:
                    left -= 1
                    if not left:
                        return True
        return self.num_free() >= n

    # ── retain and release ──

    def retain(self, blocks: array, generations: Sequence[int] | None = None) -> int:
        outside = self._first_outside(blocks)
        if outside:
            return outside
        with _uninterrupted():
            for i, block in enumerate(blocks):
                if not self._retain_one(block, None if generations is None else generations[i]):
                    for done in reversed(blocks[:i]):
                        self._release_one(done, False)
                    return -(i + 1)
        return 0

    def release(self, blocks: array) -> int:
        outside = self._first_outside(blocks)
        if outside:
            return outside
        times: dict[int, int] = {}
        for i, block in enumerate(blocks):
            times[block] = times.get(block, 0) + 1
            if times[block] > self._counts[self._row + block]:
                return -(i + 1)
        with _uninterrupted():
            for block in blocks:
                self._release_one(block, True)
        return 0

    def _first_outside(self, blocks: array) -> int:
        for i, block in enumerate(blocks):
            if not 0 <= block < self._num_blocks:
                return i + 1
        return 0

    def _retain_one(self, block: int, generation: int | None) -> bool:
        count = self._counts[self._row + block]
        if count:
            if generation is not None and self._numbers[self._words + block] >> GENERATION_SHIFT != generation:
                return False
            self._set_count(self._row + block, count + 1)
            return True

        def with_me(seen: int) -> int | None:
            if not seen & HOLDERS or seen & CACHED or generation not in (None, seen >> GENERATION_SHIFT):
                return None
            return seen | self._me

        self._set_count(self._row + block, 1)
        if self._change(block, with_me) is None:
            self._set_count(self._row + block, 0)
            return False
        return True

    def _release_one(self, block: int, may_cache: bool) -> None:
        count = self._counts[self._row + block]
        if count > 1:
            self._set_count(self._row + block, count - 1)
            return
        may_cache = may_cache and len(self._cache) < self._cache_blocks

        def without_me(seen: int) -> int:
            left = seen & ~self._me
            return seen | CACHED if may_cache and not left & (HOLDERS | CONTENT) else left

        left = self._change(block, without_me)
        self._set_count(self._row + block, 0)
        if left & CACHED:
            self._cache.append(block)
        elif not left & HOLDERS:
            self._set_hint_of_free(block, left)

    # ── the prefix index ──

    def match(self, tokens: bytes, num_blocks: int, salt: bytes, hold: bool) -> tuple[list[int], list[int]]:
        blocks, nodes, parent = [], [], NO_PARENT
        size = 4 * self._tokens_per_block
        with _uninterrupted():
            for i in range(num_blocks):
                key = _key(parent, salt, tokens[i * size:(i + 1) * size])
                block, parent = self._reuse(key) if hold else self._find(key)
                if not parent:
                    break
                blocks.append(block)
                nodes.append(parent)
        return blocks, nodes

    def publish(self, block: int, tokens: bytes, parent_node: int, salt: bytes) -> int:
        key = _key(parent_node, salt, tokens)
        with _uninterrupted():
            _, node = self._find(key)
            if node:
                return node
            seen = self._numbers[self._words + block]
            if self._with_content(seen) is None:
                return 0
            node = self._atomics.add(self._base + LAST_NODE_AT, 1) + 1
            self._write_record(block, key, node)
            if self._change(block, self._with_content, seen) is None:
                return 0
            self._insert(_hash(key), block)
            return node

    def unpublish(self, block: int) -> bool:
        with _uninterrupted():
            return self._change(block, lambda seen: seen & ~CONTENT if seen & CONTENT else None) is not None

    def num_cached(self) -> int:
        words = self._numbers[self._words:self._words + self._num_blocks]
        return sum(1 for word in words if word & (HOLDERS | CONTENT) == CONTENT)

    def _find(self, key: tuple[int, ...]) -> tuple[int, int]:
        """The block with this key, and its node; 0 for a node if none is known."""
        hash_ = _hash(key)
        for i in range(WINDOW_BUCKETS):
            entry = self._numbers[self._bucket(hash_ + i)]
            block = (entry & 0xFFFF_FFFF) - 1
            if entry >> 32 == hash_ >> 32 and 0 <= block < self._num_blocks and self._has_content(block):
                node = self._node_with_key(block, key)
                if node:
                    return block, node
        return 0, 0

    def _reuse(self, key: tuple[int, ...]) -> tuple[int, int]:
        """The same, with one more reference to the block."""
        block, node = self._find(key)
        if not node:
            return 0, 0
        count = self._counts[self._row + block]
        self._set_count(self._row + block, count + 1)
        if not count and self._change(block, lambda seen: seen | self._me if seen & (CONTENT | CACHED) == CONTENT
                                      else None) is None:
            self._set_count(self._row + block, 0)
            return 0, 0
        node = self._node_with_key(block, key)  # it cannot change any more
        if not node:
            self._release_one(block, False)
        return block, node

    def _with_content(self, seen: int) -> int | None:
        return seen | CONTENT if seen & (HOLDERS | CACHED | CONTENT) == self._me else None

    def _has_content(self, block: int) -> bool:
        return self._numbers[self._words + block] & (CONTENT | CACHED) == CONTENT

    def _bucket(self, number: int) -> int:
        return self._buckets + number % self._num_buckets

    def _insert(self, hash_: int, block: int) -> None:
        entry = hash_ >> 32 << 32 | block + 1
        for i in range(WINDOW_BUCKETS):
            at = self._bucket(hash_ + i)
            seen = self._numbers[at]
            if seen == entry:  # from an earlier time with the same content
                return
            if (not seen or self._is_dead(seen)) and \
                    self._atomics.compare_and_swap(self._base + 8 * at, seen, entry) == seen:
                return
        at = self._bucket(hash_)
        seen = self._numbers[at]
        while (found := self._atomics.compare_and_swap(self._base + 8 * at, seen, entry)) != seen:
            seen = found

    def _is_dead(self, entry: int) -> bool:
        block = (entry & 0xFFFF_FFFF) - 1
        return not 0 <= block < self._num_blocks or not self._numbers[self._words + block] & CONTENT \
            or _hash(self._key_in_record(block)) >> 32 != entry >> 32

    def _node_with_key(self, block: int, key: tuple[int, ...]) -> int:
        """The record's node if it has this key; 0 if it has another one, or was changed while we looked: whoever writes
        it makes the node 0 before, and a new one after."""
        at = self._records + block * self._record_numbers
        node = self._numbers[at]
        self._atomics.fence()
        if self._key_in_record(block) != key:
            return 0
        self._atomics.fence()
        return node if self._numbers[at] == node else 0

    def _key_in_record(self, block: int) -> tuple[int, ...]:
        at = 2 * (self._records + block * self._record_numbers + 1)
        return tuple(self._counts[at:at + _KEY_HEAD + self._tokens_per_block])

    def _write_record(self, block: int, key: tuple[int, ...], node: int) -> None:
        at = self._records + block * self._record_numbers
        self._write(at, 0)
        self._atomics.fence()
        for i in range(0, _KEY_HEAD, 2):
            self._write(at + 1 + i // 2, key[i] | key[i + 1] << 32)
        for i in range(_KEY_HEAD, len(key)):
            self._write_half(2 * (at + 1) + i, key[i])
        self._atomics.fence()
        self._write(at, node)

    # ── looking ──

    def num_free(self) -> int:
        words = self._numbers[self._words:self._words + self._num_blocks]
        return sum(1 for word in words if not word & HOLDERS) + len(self._cache)

    def refcount(self, block: int) -> int:
        word = self._numbers[self._words + block]
        if word & CACHED:
            return 0
        return sum(self._counts[row + block] for slot, row in enumerate(self._rows) if word >> slot & 1)

    def refcounts(self) -> list[int]:
        return [self.refcount(block) for block in range(self._num_blocks)]

    def own_count(self, block: int) -> int:
        return self._counts[self._row + block]

    def word(self, block: int) -> int:
        return self._numbers[self._words + block]

    # ── after a death ──

    def reap(self, dead: int) -> tuple[list[int], list[int]]:
        references, blocks = [0] * NUM_SLOTS, [0] * NUM_SLOTS
        slots = [slot for slot in range(NUM_SLOTS) if dead >> slot & 1]
        with _uninterrupted():
            for block in range(self._num_blocks):
                word = self._numbers[self._words + block]
                holders = [slot for slot in slots if word >> slot & 1]
                if not holders:
                    continue
                if not word & CACHED:
                    for slot in holders:
                        references[slot] += self._counts[self._rows[slot] + block]
                left = self._change(block, lambda seen: seen & ~(dead | CACHED))  # a cached block has no other holder
                if not left & HOLDERS:
                    self._set_hint_of_free(block, left)
                    blocks[holders[0]] += 1
            for slot in slots:
                row = self._rows[slot]
                for at in range(row, row + self._num_blocks):
                    if self._counts[at]:
                        self._set_count(at, 0)
        return references, blocks

    def heal(self) -> int:
        healed = 0
        for block in range(self._num_blocks):
            word = self._numbers[self._words + block]
            if not word & HOLDERS:
                healed += self._set_hint_of_free(block, word)
        return healed

    def add_one(self, at: int) -> None:
        self._atomics.add(self._base + at, 1)

    # ── single steps ──

    def _set_count(self, at: int, count: int) -> None:
        self._counts[at] = count

    def _write(self, at: int, number: int) -> None:
        self._numbers[at] = number

    def _write_half(self, at: int, number: int) -> None:
        self._counts[at] = number

    def _change(self, block: int, to: Callable[[int], int | None], seen: int | None = None) -> int | None:
        """Make the block's word what `to` makes of it, in one step. Returns that; None if `to` does, and then nothing
        has changed."""
        at = self._words + block
        if seen is None:
            seen = self._numbers[at]
        while True:
            wanted = to(seen)
            if wanted is None:
                return None
            found = self._atomics.compare_and_swap(self._base + 8 * at, seen, wanted)
            if found == seen:
                return wanted
            seen = found

    def _set_hint_of_free(self, block: int, word: int) -> bool:
        return self._set_hint(self._content if word & CONTENT else self._empty, block)

    def _set_hint(self, hints: int, block: int) -> bool:
        at, bit = hints + block // 64, 1 << block % 64
        if self._numbers[at] & bit:
            return False
        self._atomics.set_bits(self._base + 8 * at, bit)
        return True


def _key(parent: int, salt: bytes, tokens: bytes) -> tuple[int, ...]:
    """A key as a record has it behind its node, in u32."""
    head = RECORD_HEAD.pack(0, parent, NO_SALT if parent else salt)[8:]
    return tuple(memoryview(head + tokens).cast("I"))


def _hash(key: tuple[int, ...]) -> int:
    hash_ = 0
    for number in key:
        hash_ = (hash_ ^ number) * 0x9E3779B97F4A7C15 & 0xFFFF_FFFF_FFFF_FFFF
        hash_ ^= hash_ >> 32
    return hash_


@contextmanager
def _uninterrupted():
    """Put a Ctrl-C off until an operation is over: in the middle, it would leave the member in the state of one that
    was killed there, but alive. Only the main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came = []
    before = signal.signal(signal.SIGINT, lambda *which: came.append(which))
    try:
        yield
    finally:
        # None: a handler that was not set by Python, and cannot be set again by it either
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)
        if came and callable(before):
            before(*came[0])
