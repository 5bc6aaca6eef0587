"""`SharedPool`: one pool of blocks that several processes use at once, and that survives the death of any of them.

    pool = SharedPool.create("kv", num_blocks=1024, block_bytes=65_536)        in one process
    pool = SharedPool.join("kv")                                               in each of the others
    blocks = pool.allocate(4)
    pool.buffer(blocks[0])[:5] = b"hello"
    pool.release(blocks)

Every joined pool object is a *member*, and owns what it allocates and retains: only the member that took a reference
can release it. Two objects that join the same pool in one process are two members, as if they were in two processes.
When a member's process dies, `reap()` in any other gives back exactly what it held; nothing has to stop for that.

The contract is that of `pagedkv.core.contract`, seen from one member: `release` by a member without a reference is a
DoubleFree, also if others have some; `retain` makes this member a holder of a block that somebody else holds;
`refcount` counts everybody's references. Threads of one process may use one member; they take turns.

A pool with `tokens_per_block` has a **prefix index**: blocks are found by the tokens that they, and the blocks before
them, were computed from.

    pool = SharedPool.create("kv", num_blocks=1024, block_bytes=65_536, tokens_per_block=16)
    blocks = pool.allocate(2)                        write keys and values of 32 tokens, then:
    pool.publish(token_ids, blocks)
    pool.reuse(token_ids)                            in another process: the same blocks, with a reference each

What is published is not written to any more: by nobody, for as long as it can be found. It can be until the block is
handed out again, which is after its last release, when no empty block is left; and its member's death changes nothing.

Bytes, steps, and why all this holds, are in `layout` and `portable_operations`.
"""

import ctypes
import logging
import os
import threading
import time
import weakref
from array import array
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from pagedkv.core.arguments import as_block_id, as_block_ids, as_count, as_integer, as_list
from pagedkv.core.errors import DoubleFree, NotABlock, OutOfBlocks, PoolError, UseAfterFree
from pagedkv.core.events import Event
from pagedkv.core.tokens import TOKEN_BYTES, as_token_bytes, as_tokens
from pagedkv.shared import layout, segment, slots
from pagedkv.shared.errors import BlockOverrun, NoFreeSlot, NoIndex, NotReady, PoolClosed
from pagedkv.shared.guard import Guards, Overrun
from pagedkv.shared.layout import MOST_INDEXED_BLOCKS, MOST_TOKENS_PER_BLOCK, NO_PARENT, NO_SALT, NUM_SLOTS, REAPS_AT
from pagedkv.shared.operations import Make, choose
from pagedkv.shared.prefix_pool import SharedPrefixPool, salt_digest
from pagedkv.shared.slots import Member, SlotTable, lock_file

_log = logging.getLogger("pagedkv")
_INT = {int}
_RETRY_SECONDS = 0.01
MOST_CACHE_BLOCKS = 1024
_pools: "weakref.WeakSet[SharedPool]" = weakref.WeakSet()


class Reaped(NamedTuple):
    """What a dead member held: so many references, to blocks of which `num_free_blocks` became free."""

    slot: int
    pid: int
    language: str
    num_references: int
    num_free_blocks: int

    def __str__(self) -> str:
        return (f"slot {self.slot}: process {self.pid} ({self.language}) had died with {self.num_references} "
                f"references; {self.num_free_blocks} blocks became free")


@dataclass(frozen=True)
class ReapReport:
    """dead: one entry for each dead member; num_healed_hints: free blocks that had been hard to find since some member
    was killed, or is stopped, in the middle of an operation."""

    dead: tuple[Reaped, ...]
    num_healed_hints: int

    def __str__(self) -> str:
        lines = [str(reaped) for reaped in self.dead] or ["no dead member"]
        return "\n".join([*lines, f"{self.num_healed_hints} hints healed"])


class SharedPool:
    """A member of a shared pool; made by `create` and `join`.

    name              under which others can join
    num_blocks        how many blocks there are, of
    block_bytes       bytes each
    tokens_per_block  how many tokens a block is the keys and values of, in the prefix index; 0: there is no index
    slot              this member's
    observer          called with an `Event` after each call of this member, refusals included; None: costs nothing.
                      It does not see what other members do
    """

    source = "shared pool"

    @classmethod
    def create(cls, name: str, num_blocks: int, block_bytes: int, *, tokens_per_block: int = 0, guard: bool = False,
               replace: bool = False, cache_blocks: int = 0, operations: str | Make = "auto") -> "SharedPool":
        """Make a pool, and join it.

        tokens_per_block  1 to 65,536: with a prefix index, for blocks of so many tokens. It takes 48 + 4 bytes for each
                      token, and 32 to 64 more, for each block. 0: without
        guard         look for writes beyond a block, see `pagedkv.shared.guard`
        replace       remove a pool of this name first, if there is one. Its members go on with the old one
        cache_blocks  how many freed blocks this member keeps for itself, 0 to 1024; they are not free for others. None
                      by default: from Python, a call costs so much more than the atomic steps that a cache saves that
                      no size makes a difference (benchmarks/shared_pool.py)
        operations    "auto", "compiled", or "portable"; see `pagedkv.shared.operations`

        Raises PoolExists, NoSharedMemory, ValueError for a name or size that cannot be, and NotImplementedError where
        there are no shared pools."""
        segment.check_system()
        num_blocks, block_bytes = as_count(num_blocks, "num_blocks"), as_count(block_bytes, "block_bytes")
        if not 1 <= num_blocks < 1 << 32 or block_bytes < 1:
            raise ValueError(f"a shared pool has 1 to 2^32 - 1 blocks of at least one byte, got {num_blocks} of "
                             f"{block_bytes} bytes")
        tokens_per_block = as_count(tokens_per_block, "tokens_per_block")
        if tokens_per_block > MOST_TOKENS_PER_BLOCK:
            raise ValueError(f"tokens_per_block is at most {MOST_TOKENS_PER_BLOCK:,}, got {tokens_per_block:,}")
        if tokens_per_block and num_blocks > MOST_INDEXED_BLOCKS:
            raise ValueError(f"a shared pool with a prefix index has at most {MOST_INDEXED_BLOCKS:,} (2^29) blocks, "
                             f"got {num_blocks:,}: leave tokens_per_block out, or take larger blocks")
        segment.pool_path(name)
        cache_blocks = _as_cache_blocks(cache_blocks)
        choose(operations)  # if it has to fail, then before anything is made
        if replace:
            segment.remove(name)

        def write_guards(mapping, sizes) -> None:
            if guard:
                with memoryview(mapping) as view:
                    Guards(view, sizes).write(range(num_blocks))

        segment.make(name, num_blocks, block_bytes, bool(guard), tokens_per_block, write_guards)
        return cls.join(name, cache_blocks=cache_blocks, operations=operations)

    @classmethod
    def join(cls, name: str, *, cache_blocks: int = 0, wait_seconds: float = 1.0,
             operations: str | Make = "auto") -> "SharedPool":
        """Join a pool that exists.

        wait_seconds  how long to wait for a pool that is not ready, or for a slot

        Raises NoSuchPool, NotReady, IncompatiblePool, NoFreeSlot, and NotImplementedError where there are none."""
        segment.check_system()
        cache_blocks = _as_cache_blocks(cache_blocks)
        make_operations = choose(operations)
        give_up = time.monotonic() + wait_seconds
        while True:
            try:
                sizes, mapping, status = segment.open_pool(name)
                break
            except NotReady:
                if time.monotonic() >= give_up:
                    raise
            time.sleep(_RETRY_SECONDS)
        pool = cls.__new__(cls)
        try:
            pool._enter(name, sizes, mapping, status, make_operations, cache_blocks, give_up)
        except BaseException:
            pool._unmap()
            raise
        return pool

    def __init__(self):
        raise TypeError("a shared pool is made by SharedPool.create(name, num_blocks, block_bytes), or joined by "
                        "SharedPool.join(name)")

    def _enter(self, name, sizes, mapping, status, make_operations, cache_blocks, give_up) -> None:
        self.name, self.num_blocks, self.block_bytes = name, sizes.num_blocks, sizes.block_bytes
        self.tokens_per_block = sizes.tokens_per_block
        self.observer: Callable[[Event], None] | None = None
        self._step = 0
        self._sizes, self._mapping, self._status = sizes, mapping, status
        self._view = memoryview(mapping)
        self._numbers = self._view.cast("Q")
        self._lock = threading.RLock()
        self._gone: str | None = None
        self._operations = None
        self._slots = SlotTable(self._numbers, sizes.slots_at)
        self._locks = lock_file(str(segment.lock_path(name, sizes.pool_id)))
        self.slot = self._take_slot(give_up)
        try:
            address = ctypes.addressof(ctypes.c_char.from_buffer(mapping))
            self._operations = make_operations(self._view, address, sizes, self.slot, cache_blocks)
            if self._slots.in_use(self.slot):  # whoever had it died
                self._operations.reap(1 << self.slot)
                self._slots.clear(self.slot)
                self._operations.add_one(REAPS_AT)
            self._slots.enter(self.slot)
        except BaseException:
            self._locks.unlock(self.slot)
            raise
        self._guards = Guards(self._view, sizes) if sizes.guard else None
        _pools.add(self)

    def _take_slot(self, give_up: float) -> int:
        while True:
            for slot in range(NUM_SLOTS):
                if self._locks.try_lock(slot):
                    return slot
            # it may be that somebody is reaping, and has slots locked that are free in a moment
            if time.monotonic() >= give_up:
                members = "\n".join(map(str, self._slots.members(self._locks)))
                raise NoFreeSlot(f"the pool {self.name!r} has {NUM_SLOTS} members already, and no slot for one more; "
                                 f"close() those that are not needed (this is process {os.getpid()}):\n{members}")
            time.sleep(_RETRY_SECONDS)

    def __repr__(self) -> str:
        if self._operations is None:
            return f"<SharedPool {self.name!r}: {self._gone}>"
        return (f"<SharedPool {self.name!r}: slot {self.slot}, {self.num_free_blocks} of {self.num_blocks} blocks of "
                f"{self.block_bytes} bytes free>")

    def __reduce__(self):
        raise TypeError(f"a member of a shared pool stays in its process: hand over the name, and join there with "
                        f"SharedPool.join({self.name!r})")

    # ── the contract ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def num_free_blocks(self) -> int:
        """Blocks that this member could take now. Looks at every block's word."""
        with self._lock:
            return self._ready().num_free()

    def refcount(self, block: int) -> int:
        """How many references `block` has, of all members together; 0 for a free one. Raises NotABlock."""
        block = as_block_id(block, self.num_blocks)
        with self._lock:
            return self._ready().refcount(block)

    def refcounts(self) -> list[int]:
        """The refcount of every block, by block id. Others may be changing them meanwhile."""
        with self._lock:
            return self._ready().refcounts()

    def allocate(self, n: int, owner: Hashable = None) -> list[int]:
        """Take `n` free blocks, each with one reference of this member. They contain what their last holder left there.
        Raises OutOfBlocks, and takes none, if fewer are free."""
        if type(n) is not int or n < 0:
            n = as_count(n)
        with self._lock:
            return self._allocate(n, owner)

    def _allocate(self, n: int, owner: Hashable, detail: dict | None = None) -> list[int]:
        operations = self._ready()
        blocks = operations.allocate(n) if n <= self.num_blocks else None
        if blocks is None:
            self._refuse(OutOfBlocks(self._too_few(n)), "allocate", owner, (), requested_blocks=n)
        if self._guards is not None:
            for block in blocks:
                self._guards.hand_out(block, self.slot, self._generation(block))
        if self.observer is not None:
            self._report("allocate", owner, blocks, detail)
        return blocks

    def retain(self, blocks: Iterable[int], owner: Hashable = None, generations: Iterable[int] | None = None) -> None:
        """One more reference of this member to each block, whoever holds it now.

        generations  for each block, the generation that it must have (see `generation`): then it is still the same
                     handing-out that one has heard of, not a later one. Fewer than 16,384 may lie between

        Raises UseAfterFree, and changes nothing, if one of them is free or of another generation."""
        ids = self._as_ids("retain", blocks, owner)
        if generations is not None:
            generations = array("q", [as_integer(generation, "a generation") for generation in generations])
            if len(generations) != len(ids):
                raise ValueError(f"{len(ids)} blocks need as many generations, got {len(generations)}")
        with self._lock:
            answer = self._ready().retain(ids, generations)
            if answer:
                self._refuse_answer("retain", ids, answer, generations, owner)
            if self.observer is not None:
                self._report("retain", owner, ids)

    def release(self, blocks: Iterable[int], owner: Hashable = None) -> None:
        """One reference of this member less to each block; with the last one of all members it is free.

        Raises DoubleFree, and changes nothing, if one stands in `blocks` more often than this member has references to
        it, also if other members have some. In guard mode BlockOverrun, and changes nothing, if something was written
        beyond one of the blocks; `repair` makes it good."""
        ids = self._as_ids("release", blocks, owner)
        with self._lock:
            operations = self._ready()
            if self._guards is not None:
                self._check_guards(operations, ids, owner)
            answer = operations.release(ids)
            if answer:
                self._refuse_answer("release", ids, answer, None, owner)
            if self.observer is not None:
                self._report("release", owner, ids)

    # ── what is in the blocks, and who holds them ────────────────────────────────────────────────────────────────────

    def buffer(self, block: int) -> memoryview:
        """The bytes of a block that this member holds, to read and to write, without a copy.

            numpy.frombuffer(pool.buffer(block), dtype=numpy.float16)
            torch.frombuffer(pool.buffer(block), dtype=torch.float16)

        are arrays and tensors over the same memory. Any of these keeps the memory mapped, but is no reference: after
        the block's release, it shows what the next holder writes, and must not be written to.

        A block whose content can be found is only for reading: others rely on it. NumPy's arrays over it are read-only,
        too; torch only warns, and would write. A view from before the publishing does not change. Members that hold a
        block together without its being published settle among themselves who writes what. `copy_for_writing` gives a
        block that nobody else sees.

        Raises UseAfterFree if this member has no reference to the block."""
        block = as_block_id(block, self.num_blocks)
        with self._lock:
            self._check_held(block)
            at = self._sizes.block_at(block)
            view = self._view[at:at + self.block_bytes]
            return view.toreadonly() if self._operations.word(block) & layout.CONTENT else view

    @property
    def stride_bytes(self) -> int:
        """From one block's first byte to the next one's."""
        return self._sizes.stride_bytes

    def all_blocks(self) -> memoryview:
        """The bytes of all blocks, `stride_bytes` from one to the next, to read and to write, without a copy: for whoever
        makes one tensor of them. What holds for `buffer` is for the caller to keep: only blocks that one holds, and
        whose content cannot be found, may be written to."""
        with self._lock:
            self._ready()
            sizes = self._sizes
            return self._view[sizes.block_at(0):sizes.block_at(self.num_blocks - 1) + self.block_bytes]

    def copy_for_writing(self, block: int, owner: Hashable = None) -> int:
        """A block with the same bytes that this member may write to: copy on write. `block` itself if this member has
        the only reference to it and its content cannot be found. Else a new block with a copy; one reference to the old
        one is released.

        Raises UseAfterFree if this member has no reference to it, OutOfBlocks if there is no block for the copy; then
        nothing has changed."""
        block = as_block_id(block, self.num_blocks)
        with self._lock:
            self._check_held(block)
            word = self._operations.word(block)
            if word & (layout.HOLDERS | layout.CONTENT) == 1 << self.slot and self._operations.own_count(block) == 1:
                return block
            if self._guards is not None:
                self._check_guards(self._operations, array("q", [block]), owner)
            new, = self._allocate(1, owner, {"copied_from": block})
            at, to = self._sizes.block_at(block), self._sizes.block_at(new)
            self._view[to:to + self.block_bytes] = self._view[at:at + self.block_bytes]
            self._operations.release(array("q", [block]))
            if self.observer is not None:
                self._report("release", owner, [block], {"replaced_by": new})
            return new

    def generation(self, block: int) -> int:
        """Which handing-out of the block this is, modulo 16,384; goes up when it is handed out."""
        block = as_block_id(block, self.num_blocks)
        with self._lock:
            self._ready()
            return self._generation(block)

    def holders(self, block: int) -> tuple[int, ...]:
        """The slots of the members that hold the block; those of dead ones too, until they are reaped."""
        block = as_block_id(block, self.num_blocks)
        with self._lock:
            word = self._ready().word(block)
        return () if word & layout.CACHED else tuple(slot for slot in range(NUM_SLOTS) if word >> slot & 1)

    def members(self) -> list[Member]:
        """Who has joined, this member included, and who of them has died and is not reaped yet."""
        with self._lock:
            self._ready()
            return self._slots.members(self._locks)

    @property
    def num_reaps(self) -> int:
        """How many dead members have been reaped since the pool was created."""
        with self._lock:
            self._ready()
            return self._numbers[REAPS_AT // 8]

    # ── the prefix index ─────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def num_cached_blocks(self) -> int:
        """Blocks that nobody holds and whose contents can be found. Looks at every block's word."""
        with self._lock:
            return self._ready().num_cached()

    @property
    def num_empty_blocks(self) -> int:
        """Blocks that this member could take now without anything being lost that can be found."""
        with self._lock:
            operations = self._ready()
            return max(0, operations.num_free() - operations.num_cached())

    def find(self, token_ids: Iterable[int], salt: str | bytes | None = None) -> list[int]:
        """The blocks that hold the longest known beginning of these tokens, in full blocks. A look: nothing changes,
        and others may have evicted them by the time one acts on it; `reuse` holds them.

        salt  what else the contents depend on: tenant, adapter, image. Only what was published with an equal one is
              found; a text and its UTF-8 bytes are equal

        Raises NoIndex; ValueError for a token outside int32, TypeError for what is not a sequence of integers and for
        another kind of salt."""
        buffer, num_full = self._read(token_ids)
        return self.match(buffer, num_full, _as_digest(salt), hold=False)[0]

    def reuse(self, token_ids: Iterable[int], salt: str | bytes | None = None, owner: Hashable = None) -> list[int]:
        """The same, with one more reference of this member to each block, whether somebody holds it or not: one that
        nobody holds is not free any more. Their bytes are complete, and are not to be written to."""
        buffer, num_full = self._read(token_ids)
        digest = _as_digest(salt)
        with self._lock:
            blocks, _ = self.match(buffer, num_full, digest, hold=True)
            if blocks and self.observer is not None:
                self._report("retain", owner, blocks, {"num_tokens": len(blocks) * self.tokens_per_block})
            return blocks

    def publish(self, token_ids: Iterable[int], blocks: Iterable[int], salt: str | bytes | None = None,
                owner: Hashable = None) -> int:
        """Make what these blocks contain findable: blocks[i] holds the i-th full block of `token_ids`.

        Only when all of it is written, and for good: from now on others read it, whenever they like, and there is no
        later moment at which they could be told that it is complete; this member may be dead by then.

        Content that is known already, in another block, stays there, and the chain goes on under it. The first block
        that cannot be published ends it: one with other holders, which may still be written to, or with other content.
        Returns how many of the contents are found now in these very blocks.

        Raises NoIndex, ValueError for more blocks than full blocks of tokens, UseAfterFree for a block that this member
        does not hold; then nothing has changed."""
        buffer, num_full = self._read(token_ids)
        digest = _as_digest(salt)
        ids = self._as_ids("cache", blocks, owner)
        if len(ids) > num_full:
            raise ValueError(f"{len(buffer) // TOKEN_BYTES} tokens are {num_full} full blocks of "
                             f"{self.tokens_per_block}, got {len(ids)} blocks to publish")
        size = self.tokens_per_block * TOKEN_BYTES
        with self._lock:
            operations = self._ready()
            for block in ids:
                self._check_held(block, "cache", owner, ids)
            new, parent = [], NO_PARENT
            for i, block in enumerate(ids):
                had_content = operations.word(block) & layout.CONTENT
                parent = operations.publish(block, buffer[i * size:(i + 1) * size], parent,
                                            digest if parent == NO_PARENT else NO_SALT)
                if not parent:
                    break
                if not had_content and operations.word(block) & layout.CONTENT:
                    new.append(i)
            found, _ = operations.match(buffer, len(ids), digest, False)
            if new and self.observer is not None:
                above = [-1, *found, *[None] * len(ids)]
                detail = {"parents": tuple(above[i] for i in new),
                          "tokens": tuple(as_tokens(buffer[i * size:(i + 1) * size]) for i in new)}
                if salt is not None:
                    detail["salt"] = salt if isinstance(salt, str) else salt.hex()
                self._report("cache", owner, [ids[i] for i in new], detail)
            return sum(map(int.__eq__, found, ids))

    def unpublish(self, blocks: Iterable[int], owner: Hashable = None) -> list[int]:
        """What these held blocks contain cannot be found from now on, for instance since they will be written to again:
        that may be done when `holders` says that nobody else has found them before. What was published after them
        cannot be found either, as their place in the chain is gone. Returns those that could be found before.

        Raises NoIndex, UseAfterFree for a block that this member does not hold; then nothing has changed."""
        self._check_index()
        ids = self._as_ids("evict", blocks, owner)
        with self._lock:
            operations = self._ready()
            for block in ids:
                self._check_held(block, "evict", owner, ids)
            evicted = [block for block in ids if operations.unpublish(block)]
            if evicted and self.observer is not None:
                self._report("evict", owner, evicted)
            return evicted

    def match(self, buffer: bytes, num_blocks: int, salt_digest: bytes, hold: bool) -> tuple[list[int], list[int]]:
        """`find` and `reuse` for who has the tokens as bytes already, and goes on under a node: the blocks of the
        longest known chain, at most `num_blocks`, and their nodes. Not observed.

        buffer       int32 in the machine's byte order, of at least so many blocks
        salt_digest  32 bytes: see `layout`; zeros for none
        hold         one more reference of this member to each"""
        self._check_index()
        if num_blocks * self.tokens_per_block * TOKEN_BYTES > len(buffer) or len(salt_digest) != len(NO_SALT):
            raise ValueError(f"{num_blocks} blocks of {self.tokens_per_block} tokens need "
                             f"{num_blocks * self.tokens_per_block * TOKEN_BYTES} bytes, and a salt 32, got "
                             f"{len(buffer)} and {len(salt_digest)}")
        with self._lock:
            return self._ready().match(buffer, num_blocks, salt_digest, hold)

    def publish_node(self, block: int, tokens: bytes, parent_node: int, salt_digest: bytes) -> int:
        """`publish` for one block, of one block's tokens in bytes, after the node `parent_node` (0: at the beginning).

        Returns the node under which the chain goes on: a new one, or that of the block that has this content already.
        0: refused, and nothing has changed; the block has other holders, or other content. Not observed. Raises
        UseAfterFree if this member has no reference to the block."""
        self._check_index()
        if len(tokens) != self.tokens_per_block * TOKEN_BYTES or len(salt_digest) != len(NO_SALT):
            raise ValueError(f"a block's tokens have {self.tokens_per_block * TOKEN_BYTES} bytes, and a salt 32, got "
                             f"{len(tokens)} and {len(salt_digest)}")
        block = as_block_id(block, self.num_blocks)
        with self._lock:
            self._check_held(block)
            return self._operations.publish(block, tokens, parent_node, salt_digest)

    def prefix_pool(self) -> SharedPrefixPool:
        """What `KVCacheManager(pool=…)` works on. Raises NoIndex."""
        self._check_index()
        return SharedPrefixPool(self)

    def _read(self, token_ids: Iterable[int]) -> tuple[bytes, int]:
        """Tokens as bytes, and how many blocks they fill."""
        self._check_index()
        buffer = as_token_bytes(token_ids)
        return buffer, len(buffer) // (self.tokens_per_block * TOKEN_BYTES)

    def _check_index(self) -> None:
        if not self.tokens_per_block:
            raise NoIndex(f"the shared pool {self.name!r} has no prefix index: make it with "
                          "SharedPool.create(…, tokens_per_block=16)")

    # ── guard mode ───────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def guard(self) -> bool:
        return self._sizes.guard

    def verify(self) -> tuple[Overrun, ...]:
        """Look around every block, free ones too; what was overwritten. Empty: nothing. Always empty without guards."""
        with self._lock:
            self._ready()
            return self._guards.overruns(range(self.num_blocks)) if self._guards else ()

    def repair(self, block: int) -> None:
        """Write the guards of a block anew, after an overrun was seen."""
        block = as_block_id(block, self.num_blocks)
        with self._lock:
            self._ready()
            if self._guards:
                self._guards.write([block], self.slot, self._generation(block))

    def _check_guards(self, operations, ids: array, owner: Hashable) -> None:
        held = [block for block in dict.fromkeys(ids) if 0 <= block < self.num_blocks and operations.own_count(block)]
        overruns = self._guards.overruns(held)
        if overruns:
            message = "; ".join(map(str, overruns)) + ". Nothing is released; repair(block) makes the guards good again"
            self._refuse(BlockOverrun(message, overruns), "release", owner, ids)

    # ── coming to an end ─────────────────────────────────────────────────────────────────────────────────────────────

    def reap(self) -> ReapReport:
        """Take back what dead members held, and make every free block easy to find again.

        Others go on meanwhile; any number may reap at once. Takes time in proportion to the number of blocks."""
        with self._lock:
            operations = self._ready()
            locked = []
            try:
                # In use first: locking a slot that is free, even for a moment, could turn away who wants to join.
                for slot in range(NUM_SLOTS):
                    if self._slots.in_use(slot) and self._locks.try_lock(slot):
                        locked.append(slot)
                dead = [slot for slot in locked if self._slots.in_use(slot)]  # it may have closed just before
                members = [self._slots.member(slot, self._locks) for slot in dead]
                reaped = []
                if dead:
                    references, blocks = operations.reap(sum(1 << slot for slot in dead))
                    for member in members:
                        self._slots.clear(member.slot)
                        operations.add_one(REAPS_AT)
                        reaped.append(Reaped(member.slot, member.pid, member.language, references[member.slot],
                                             blocks[member.slot]))
            finally:
                for slot in locked:
                    self._locks.unlock(slot)
            return ReapReport(tuple(reaped), operations.heal())

    def close(self) -> None:
        """Leave the pool: give back what this member still holds (a line in the log says so if there is anything), and
        the slot. The pool stays, for others to use and to join. A second call does nothing."""
        with self._lock:
            if self._operations is None:
                return
            references, blocks = self._operations.reap(1 << self.slot)
            self._slots.clear(self.slot)
            self._locks.unlock(self.slot)
            self._gone = "closed"
            self._operations.close()
            self._operations = None
            self._unmap()
        if references[self.slot]:
            _log.warning("shared pool %r: closed with %d references held; they are given back, and %d blocks are free "
                         "for others", self.name, references[self.slot], blocks[self.slot])

    def unlink(self) -> None:
        """Remove the pool's name: nobody can join any more, and a new one of that name can be created. Members, this
        one too, go on until they close; then the memory is free. Does nothing if the name is another pool's by now."""
        segment.remove(self.name, only=self._status)

    @staticmethod
    def remove(name: str) -> bool:
        """Remove a pool's name as `unlink` does, without joining it: one that is damaged, of another version, or was
        never finished. False if there is none."""
        segment.check_system()
        return segment.remove(name)

    def __enter__(self) -> "SharedPool":
        return self

    def __exit__(self, *exc_info) -> None:
        self.close()

    def _unmap(self) -> None:
        try:
            self._numbers.release()
            self._view.release()
            self._mapping.close()
        except (BufferError, AttributeError):
            pass  # views of blocks are still in use: it is unmapped with the last of them

    def _forked(self) -> None:
        self._lock = threading.RLock()  # another thread of the parent may have had it
        if self._operations is not None:
            self._gone = ("in a forked child of the process that joined it: only the parent is a member. Join again "
                          'here; or start processes with "spawn", which also leaves a JVM and threads alone')
            self._operations = None

    # ── the rest ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _ready(self):
        if self._operations is None:
            raise PoolClosed(f"this member of the shared pool {self.name!r} is {self._gone}")
        return self._operations

    def _generation(self, block: int) -> int:
        return self._operations.word(block) >> layout.GENERATION_SHIFT

    def _as_ids(self, op: str, blocks: Iterable[int], owner: Hashable) -> array:
        if type(blocks) is not list:
            blocks = as_list(blocks)
        if set(map(type, blocks)) <= _INT:
            try:
                return array("q", blocks)
            except OverflowError:
                pass
        try:
            return array("q", as_block_ids(blocks, self.num_blocks))
        except PoolError as error:
            self._refuse(error, op, owner, blocks)

    def _too_few(self, n: int) -> str:
        dead = [str(member.slot) for member in self._slots.members(self._locks) if not member.alive]
        hint = ""
        if dead:
            hint = f"; the member in slot {dead[0]} has died: reap() takes back what it held" if len(dead) == 1 else \
                f"; the members in slots {', '.join(dead)} have died: reap() takes back what they held"
        return (f"need {n} blocks, {self._operations.num_free()} of {self.num_blocks} are free for this member: "
                f"release some or ask for fewer{hint}")

    def _refuse_answer(self, op: str, ids: array, answer: int, generations: array | None, owner: Hashable) -> None:
        """Say what an operation's answer means."""
        block = ids[abs(answer) - 1]
        if answer > 0:
            error = NotABlock(f"{block} is not a block of this pool: its ids go from 0 to {self.num_blocks - 1}")
        elif op == "release":
            own, total = self._operations.own_count(block), self._operations.refcount(block)
            if own:
                what = f"has {own} references of this member but stands {ids.count(block)} times in this release"
            elif total:
                what = f"has no reference of this member (but {total} of others, who alone can release them)"
            else:
                what = "is already free (refcount 0)"
            error = DoubleFree(f"block {block} {what}: release each reference only once")
        elif not self._operations.refcount(block):
            error = UseAfterFree(f"block {block} is free (refcount 0): use it before its last release, or allocate "
                                 "again")
        else:
            found, asked = self._generation(block), generations and generations[abs(answer) - 1]
            error = UseAfterFree(f"block {block} has been handed out again: its generation is {found}, asked for was "
                                 f"{asked}")
        self._refuse(error, op, owner, ids)

    def _check_held(self, block: int, op: str | None = None, owner: Hashable = None, blocks=()) -> None:
        """op: tell the observer of the refusal."""
        operations = self._ready()
        if not 0 <= block < self.num_blocks:
            error = NotABlock(f"{block} is not a block of this pool: its ids go from 0 to {self.num_blocks - 1}")
        elif not operations.own_count(block):
            error = UseAfterFree(f"this member has no reference to block {block} (refcount "
                                 f"{operations.refcount(block)}): allocate or retain it first")
        else:
            return
        if op is None:
            raise error
        self._refuse(error, op, owner, blocks)

    def _refuse(self, error: PoolError, op: str, owner: Hashable, blocks, **detail) -> None:
        if self.observer is not None:
            self._report(op, owner, blocks, {"error": type(error).__name__, "message": str(error), **detail})
        raise error

    def _report(self, op: str, owner: Hashable, blocks, detail: dict | None = None) -> None:
        step = self._step
        self._step = step + 1
        self.observer(Event(step, op, owner, tuple(blocks), detail or {}))


def _as_cache_blocks(cache_blocks: int) -> int:
    cache_blocks = as_count(cache_blocks, "cache_blocks")
    if cache_blocks > MOST_CACHE_BLOCKS:
        raise ValueError(f"cache_blocks is at most {MOST_CACHE_BLOCKS}, got {cache_blocks}: what one member keeps for "
                         "itself is not free for the others")
    return cache_blocks


def _as_digest(salt: str | bytes | None) -> bytes:
    if salt is not None and not isinstance(salt, (str, bytes)):
        raise TypeError(f"a salt is a str or bytes, got {salt!r} of type {type(salt).__name__}")
    return salt_digest(salt)


def _after_fork() -> None:
    slots.forget_after_fork()
    for pool in list(_pools):
        pool._forked()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
