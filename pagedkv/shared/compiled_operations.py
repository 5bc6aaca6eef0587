"""The operations of one member, compiled: whole batches in one call of pool.c.

A batch of 64 blocks costs two or three microseconds of Python and ctypes, whatever the operations do, and for each
block a few atomic instructions, some ten nanoseconds each.
"""

import ctypes
import threading
from array import array
from pathlib import Path

from pagedkv.core import native
from pagedkv.shared.layout import LAST_NODE_AT, NUM_SLOTS, Layout

PIECE = native.Piece("the quick form of the shared pool's operations", Path(__file__).with_name("pool.c"), native.C,
                     ("-std=c11", "-O2", "-shared", "-fPIC"))


class _Member(ctypes.Structure):
    """`struct Member` of pool.c, where the fields are explained."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("words", "empty_hints", "content_hints", "counts")),
        *((name, ctypes.c_uint64) for name in ("row", "num_blocks", "slot", "empty_cursor", "content_cursor")),
        ("scratch", ctypes.c_void_p), ("cache", ctypes.c_void_p),
        ("cache_size", ctypes.c_uint64), ("num_cached", ctypes.c_uint64),
        ("buckets", ctypes.c_void_p), ("records", ctypes.c_void_p),
        *((name, ctypes.c_uint64) for name in ("record_bytes", "num_buckets", "tokens_per_block")),
        ("last_node", ctypes.c_void_p)]


def load(piece: native.Piece = PIECE) -> ctypes.CDLL:
    """pool.c as a library, with its functions declared; compiled if need be. Raises native.NoCompiler."""
    with _lock:
        if piece not in _loaded:
            library = native.load(piece)
            pointer, number = ctypes.c_void_p, ctypes.c_uint64
            for name, result, *arguments in (
                    ("allocate", ctypes.c_int, pointer, number, pointer),
                    ("retain", ctypes.c_int64, pointer, number, pointer, pointer),
                    ("release", ctypes.c_int64, pointer, number, pointer),
                    ("num_free", number, pointer), ("refcount", number, pointer, number),
                    ("refcounts", None, pointer, pointer), ("reap", None, pointer, number, pointer, pointer),
                    ("heal", number, pointer), ("add_one", None, pointer), ("num_cached", number, pointer),
                    ("match", number, pointer, pointer, number, pointer, ctypes.c_int, pointer, pointer),
                    ("publish", number, pointer, number, pointer, number, pointer),
                    ("unpublish", ctypes.c_int, pointer, number)):
                function = getattr(library, f"pagedkv_{name}")
                function.argtypes, function.restype = arguments, result
            _loaded[piece] = library
        return _loaded[piece]


_loaded: dict[native.Piece, ctypes.CDLL] = {}
_lock = threading.Lock()


class CompiledOperations:
    """What a member does to the mapped pool at `address`. One call at a time: the caller sees to that.

    cache_blocks  how many freed blocks the member may keep for itself
    """

    kind = "compiled"

    def __init__(self, view: memoryview, address: int, layout: Layout, slot: int, cache_blocks: int,
                 library: ctypes.CDLL | None = None):
        self._library = library = library or load()
        self._allocate, self._retain, self._release = \
            library.pagedkv_allocate, library.pagedkv_retain, library.pagedkv_release
        self._base = address
        self._num_blocks = layout.num_blocks
        self._scratch = (ctypes.c_uint32 * layout.num_blocks)()
        self._cache = (ctypes.c_uint32 * max(cache_blocks, 1))()
        cursor = slot * layout.num_hints // NUM_SLOTS
        self._member = _Member(
            address + layout.words_at, address + layout.empty_at, address + layout.content_at,
            address + layout.counts_at, layout.row_bytes // 4, layout.num_blocks, slot, cursor, cursor,
            ctypes.addressof(self._scratch), ctypes.addressof(self._cache), cache_blocks, 0,
            address + layout.buckets_at, address + layout.records_at, layout.record_bytes, layout.index_entries,
            layout.tokens_per_block, address + LAST_NODE_AT)
        self._handle = ctypes.addressof(self._member)
        self._words = view[layout.words_at:layout.words_at + 8 * layout.num_blocks].cast("Q")
        own_at = layout.counts_at + slot * layout.row_bytes
        self._own_counts = view[own_at:own_at + 4 * layout.num_blocks].cast("I")

    def close(self) -> None:
        self._words.release()
        self._own_counts.release()

    def allocate(self, n: int) -> list[int] | None:
        """`n` blocks, or None if there are not enough; then none is taken."""
        blocks = array("q", bytes(8 * n))
        return blocks.tolist() if self._allocate(self._handle, n, blocks.buffer_info()[0]) else None

    def retain(self, blocks: array, generations: array | None = None) -> int:
        """0 if it is done. i + 1: blocks[i] is outside the pool; -(i + 1): it is free, or of another generation. Then
        nothing has changed. Both arrays are of type "q"."""
        wanted = None if generations is None else generations.buffer_info()[0]
        return self._retain(self._handle, len(blocks), blocks.buffer_info()[0], wanted)

    def release(self, blocks: array) -> int:
        """The same; -(i + 1): this member has fewer references to blocks[i] than stand in blocks[:i + 1]."""
        return self._release(self._handle, len(blocks), blocks.buffer_info()[0])

    # ── the prefix index: only in a pool that has one ──

    def match(self, tokens: bytes, num_blocks: int, salt: bytes, hold: bool) -> tuple[list[int], list[int]]:
        """The blocks of the longest known chain with these tokens, int32, and its nodes: at most `num_blocks`, for
        which there have to be tokens. hold: one more reference of this member to each."""
        blocks, nodes = array("q", bytes(8 * num_blocks)), array("Q", bytes(8 * num_blocks))
        n = self._library.pagedkv_match(self._handle, tokens, num_blocks, salt, hold, blocks.buffer_info()[0],
                                        nodes.buffer_info()[0])
        return blocks[:n].tolist(), nodes[:n].tolist()

    def publish(self, block: int, tokens: bytes, parent_node: int, salt: bytes) -> int:
        """The node under which the chain goes on: a new one that this block, which the member holds, has from now on;
        or that of the block which has this content already. 0: refused, the block has other holders or other content."""
        return self._library.pagedkv_publish(self._handle, block, tokens, parent_node, salt)

    def unpublish(self, block: int) -> bool:
        """Whether the block, which the member holds, had content; it has none from now on."""
        return bool(self._library.pagedkv_unpublish(self._handle, block))

    def num_cached(self) -> int:
        """Free blocks that have content."""
        return self._library.pagedkv_num_cached(self._handle)

    # ── looking ──

    def num_free(self) -> int:
        return self._library.pagedkv_num_free(self._handle)

    def refcount(self, block: int) -> int:
        return self._library.pagedkv_refcount(self._handle, block)

    def refcounts(self) -> list[int]:
        counts = array("Q", bytes(8 * self._num_blocks))
        self._library.pagedkv_refcounts(self._handle, counts.buffer_info()[0])
        return counts.tolist()

    def own_count(self, block: int) -> int:
        return self._own_counts[block]

    def word(self, block: int) -> int:
        return self._words[block]

    def reap(self, dead: int) -> tuple[list[int], list[int]]:
        """Take back what the members of these slots held (bit s: slot s); their locks are the caller's. By slot, how
        many references that were, and how many blocks became free."""
        references, blocks = (ctypes.c_uint64 * NUM_SLOTS)(), (ctypes.c_uint64 * NUM_SLOTS)()
        self._library.pagedkv_reap(self._handle, dead, ctypes.addressof(references), ctypes.addressof(blocks))
        return list(references), list(blocks)

    def heal(self) -> int:
        """Set the hint of every free block; how many had none."""
        return self._library.pagedkv_heal(self._handle)

    def add_one(self, at: int) -> None:
        """To the number at this offset of the pool."""
        self._library.pagedkv_add_one(self._base + at)
