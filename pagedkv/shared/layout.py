"""The shared pool, byte by byte: what every process that joins it, in whichever language, has to read and to write.

This page is the specification, and the only place with numbers. A *member* is one joined pool object; it owns one of
48 *slots*, and whatever it holds is on record under that slot. Most processes have one member, some have more.

    /dev/shm/pagedkv.NAME                the pool: everything below
    /dev/shm/pagedkv-lock.NAME.ID        empty; there are only locks on it. ID: the pool's id, 16 hex digits, lower case

NAME: 1 to 64 of A-Z a-z 0-9 . _ - and no dot in front. Both files have mode 0600. Numbers are little-endian; the atomic
ones are aligned and have 64 bits. All atomic operations are sequentially consistent.

**Header**, 4096 bytes. What changes has a line of 64 bytes to itself. Bytes that are not named are 0.

       0  u64  magic              0x00564B4445474150; as bytes: "PAGEDKV" and a zero
       8  u32  version            2
      12  u32  num_slots          48
      16  u64  capacity_bytes     the size of the file
      24  u64  block_bytes        what a block holds
      32  u64  num_blocks
      40  u64  stride_bytes       from one block to the next
      48  u32  tokens_per_block   0: no prefix index
      52  u32  index_entries      0 likewise; else the number of its buckets: the power of two that is at least 4 ×
                                  num_blocks and at least 64
      56  u64  flags              bit 0: guard mode
      64  u64  × 7                where these begin, in bytes from the file's beginning: slots, empty hints, content
                                  hints, words, counts, index, data
     120  u64  id                 random, not 0
     128  u64  state              0 being made, 1 ready; written last of all
     192  u64  reaps              atomic: how many dead members have been reaped
     256  u64  last_node          atomic: the last number that was given to a node of the index

**Slots**, at 4096: 48 × 64 bytes. Written only by whoever holds the slot's lock.

       0  u64  pid                for people to read; whether the member lives is never judged by it
       8  u64  language           1 Python, 2 Java
      16  u64  joined             how often the slot was taken; never reset
      24  u64  in_use             1: there may be something to take back if nobody holds the lock. Set before the first
                                  operation, cleared after everything was taken back

**Empty hints, content hints**: two bitmaps of u64, atomic. Bit b % 64 of number b // 64 says that block b *may* be
free: in the first if it has no content, in the second if it has. Bits from num_blocks on are never set.

**Words**, one u64 for each block, atomic: *the truth about the block*.

      63 … 50  generation         goes up, modulo 2^14, when the block is handed out (not when it is freed)
      49       CONTENT            what it contains can be found by others, also while it is free
      48       CACHED             lies in the local cache of its one holder; nobody has a reference
      47 …  0  holders            bit s: the member in slot s has references

    no holder                     free: anybody may take it
    CACHED and one holder         only that member may take it; for all others it is neither free nor held
    one holder or more            held

**Counts**, u32 [48][num_blocks]: how many references each member has to each block. A row begins at a multiple of 64
bytes, so a row takes num_blocks × 4 bytes, rounded up to 64. Only the slot's member writes its row, and whoever holds
the slot's lock after its death. A count means nothing where the slot is not among the holders of the block's word.

**Index**, of no bytes without one: index_entries buckets of u64, atomic; then a *record* for each block, of 48 + 4 ×
tokens_per_block bytes, rounded up to 64. What a block with CONTENT holds is a *node* of a tree: tokens_per_block
tokens, after those of its *parent*.

       0  u64  node               its number, unique for ever (last_node + 1, atomically): no other content ever has it
       8  u64  parent             the number of the node before it; 0: nothing is before it
      16  32 bytes                the SHA-256 of the salt (of its UTF-8 bytes, if it is a text) if nothing is before it;
                                  0 if something is, or if there is no salt
      48  i32  × tokens_per_block the tokens

    The record is true exactly while its block has CONTENT: written before that is set, by the only holder, and not
    changed while it is. (So nothing is decided by a generation, which comes round after 16,384 hand-outs.)
    It is written in this order: 0 for the node; THEN parent, salt and tokens; THEN the node. (The first THEN is a
    StoreStore fence, the second a release.) To compare it with a key: read the node (acquire), compare parent, salt and
    tokens, then (LoadLoad fence) read the node once more. Only if it is the same and not 0, it is that of this content.

A bucket is a hint, too: 0, or block + 1 in the lower 32 bits and a *tag* in the upper ones. The *hash* of a key
(parent, salt, tokens), modulo 2^64: h = 0; for each u32 of the parent (two, the lower first), the salt (eight) and the
tokens: h = (h xor u32) × 0x9E3779B97F4A7C15, then h = h xor (h >> 32). Its tag is h >> 32. Its *window* are the 16
buckets from number h modulo index_entries on, going round at the end. An entry is *dead* if its block has no CONTENT,
or if the hash of that block's record has another tag. (A word and a record are looked at one after the other, so that
may be wrong by the time it is acted on. At worst somebody's entry is lost.)

**Data**, at a multiple of 4096: num_blocks × stride_bytes. Without guard mode the stride is block_bytes rounded up to
64, and a block begins where its stride does. With it the stride is 128 more:

       0  u64  magic              0x004B434F4C42564B; as bytes: "KVBLOCK" and a zero
       8  u64  block
      16  u64  owner              the slot that the block was last handed out to; all ones: none yet
      24  u64  generation         at that time
      32  32 bytes                canaries: byte i of the stride is 0xA5 xor i
      64  block_bytes             the block
          to the end              canaries: byte i behind the block is 0xA5 xor (i modulo 256)

The regions stand in this order, each at the next multiple of 64, data at the next multiple of 4096; the file ends at
the next multiple of 4096. So sizes, guard mode and version settle every offset, and a join checks them all.

**Locks.** The member in slot s has byte s of the lock file locked, exclusively, from joining until it closes or dies:
the kernel lets go of the lock with the process, however it ends. Locks are never waited for. Python uses locks of the
open file description (F_OFD_SETLK), Java `FileChannel.tryLock(s, 1, false)`; the two exclude each other also within one
process. Java's are lost as soon as *any* descriptor of the file is closed in the process, Python's included. So each
language opens the lock file once in each process, keeps it open to the end of the process, and remembers which bytes it
has locked, since a second lock on the same byte by the same opener would succeed (Python) or throw (Java). A forked
child closes the descriptor that it inherited (else the parent would seem alive for as long as the child is) and does
not use the parent's members.

**Making a pool.** Open the file with O_CREAT | O_EXCL, reserve all its bytes (posix_fallocate), write magic, version,
size and id, make the lock file, write the rest, then state = 1 (in Java with a release write). All blocks are free and
empty: words, counts and content hints are 0, in the empty hints the first num_blocks bits are set. **Removing** it:
unlink the pool's file, then the lock file that its id names. Members go on with what they have.

**Joining**: open; check magic, version, state, sizes, offsets; open the lock file that the id names (no such file: the
pool has just been removed); lock the first byte from 0 that can be locked; if in_use is 1, *reap* the slot; set in_use,
pid, language and joined. No byte can be locked: refused.

**Operations**, of the member in slot `me`; one at a time in each member. "CAS" is compare and swap, repeated with what
was seen if the word has changed and the condition still holds. The order of the steps is part of the specification.

    allocate       for each block: counts[me] = 1; CAS its word from "no holder" to generation + 1 and the holder `me`,
                   without flags; if it has a holder after all: counts[me] = 0 and on to another block.
                   Which blocks: those of the local cache (their word is CACHED and `me`; no other member touches that);
                   then by the empty hints: take bits out of a number with one CAS, then claim the blocks; if one has
                   content after all, set its content hint and leave it; then likewise by the content hints; then all
                   words in order. Too few: release what was claimed; OutOfBlocks. Before any block with content is
                   taken, make sure by the words (a hint may be one of a block that was reused) that there are enough at
                   all.
    retain         counts[me] > 0: one more. Else counts[me] = 1, THEN CAS the holder `me` in, if the word has a holder,
                   is not CACHED and has the generation asked for, if one was; otherwise counts[me] = 0, UseAfterFree.
    release        counts[me] > 1: one less. Else CAS `me` out, THEN counts[me] = 0, THEN, if there is no holder left,
                   set the block's hint (content or empty, as the flag says). Into the local cache: if `me` was the only
                   holder and there is no CONTENT, CAS to CACHED and `me`, then counts[me] = 0.
                   counts[me] = 0: DoubleFree. A batch is checked whole before its first step.
    find           a key: for each bucket of its window that has its tag: if the block's word has CONTENT and is not
                   CACHED, and the record has this parent, this salt and these tokens, that is the block. A look: by the
                   time the answer is there it may be wrong. A chain: from parent 0 on, the next key under the node just
                   found.
    reuse          a key: find. Then counts[me] one more if it is > 0; else counts[me] = 1, THEN CAS the holder `me` in,
                   if the word has CONTENT (held or not), otherwise counts[me] = 0: not there. THEN compare the record
                   once more: it cannot change now. If it is another one: release; not there.
    publish        a block that `me` holds: find the key first; if it is there, that node goes on, and nothing changes.
                   The word must have no holder but `me`, and no CONTENT: else refused. Write the record, with a new
                   node; THEN CAS CONTENT in, if that condition still holds, otherwise refused; THEN put block + 1 and
                   the tag into the first bucket of the window that is 0 or dead, by CAS from what was seen there (if it
                   has changed: look on); if there is none, into the first. A bucket of the window, looked at before
                   such a one, that has just this entry already, from an earlier time, ends the search.
    unpublish      a block that `me` holds: CAS CONTENT out. Its entry is dead by that.
    refcount       CACHED: 0. Else the sum of the counts of the holders.
    reap a slot    with its byte locked and in_use = 1: for every word that has the holder: CAS it out (and CACHED with
                   it), and if no holder is left set the hint; then zero the row of counts; then in_use = 0; reaps + 1.
    heal           for every word without a holder: set its hint.
    reap           for each slot, not one's own, with in_use = 1 and a byte that can be locked: if in_use is still 1,
                   reap it; unlock. (Slots that are not in use are not locked: that could turn away who wants to join.) Then
                   heal. A member that is stopped in the middle keeps these slots locked until it goes on.
    close          reap one's own slot, unlock.

Until it is reaped, a dead member is a holder like any other: its references count, and others may retain its blocks.

What is published outlives its member: it is found, and reused, until the block is handed out again. So only what is
wholly written may be published.
"""

import struct
from dataclasses import dataclass
from functools import cached_property

from pagedkv.shared.errors import IncompatiblePool, NotReady

MAGIC, VERSION = int.from_bytes(b"PAGEDKV\0", "little"), 2
NUM_SLOTS = 48
HEADER_BYTES, SLOT_BYTES, LINE_BYTES, PAGE_BYTES = 4096, 64, 64, 4096
ID_AT, STATE_AT, REAPS_AT, LAST_NODE_AT = 120, 128, 192, 256
READY = 1
PYTHON, JAVA = 1, 2

GENERATION_SHIFT, NUM_GENERATIONS = 50, 1 << 14
CONTENT, CACHED, HOLDERS = 1 << 49, 1 << 48, (1 << 48) - 1

GUARD_FLAG = 1
GUARD_BYTES = 64  # in front of a block, and at least as many behind it
BLOCK_MAGIC, CANARY, NO_OWNER = int.from_bytes(b"KVBLOCK\0", "little"), 0xA5, (1 << 64) - 1
GUARD_HEAD = struct.Struct("<QQQQ")

RECORD_HEAD = struct.Struct("<QQ32s")  # node, parent, salt; then the tokens
NO_PARENT, NO_SALT = 0, bytes(32)
WINDOW_BUCKETS = 16
MOST_TOKENS_PER_BLOCK = 1 << 16
MOST_INDEXED_BLOCKS = 1 << 29  # then the number of buckets fits a u32

_HEADER = struct.Struct("<QII QQQQ II Q 7Q Q")
_REGIONS = ("slots", "empty hints", "content hints", "words", "counts", "index", "data")


def round_up(number: int, to: int) -> int:
    return -(-number // to) * to


@dataclass(frozen=True)
class Layout:
    """Where everything is in a pool of these sizes; all offsets and sizes in bytes."""

    num_blocks: int
    block_bytes: int
    guard: bool = False
    tokens_per_block: int = 0
    pool_id: int = 1

    @property
    def index_entries(self) -> int:
        """Buckets of the prefix index."""
        if not self.tokens_per_block:
            return 0
        return max(64, 1 << (4 * self.num_blocks - 1).bit_length())

    @property
    def record_bytes(self) -> int:
        """From one block's record in the index to the next one's."""
        return round_up(RECORD_HEAD.size + 4 * self.tokens_per_block, LINE_BYTES) if self.tokens_per_block else 0

    @property
    def stride_bytes(self) -> int:
        return round_up(self.block_bytes, LINE_BYTES) + (2 * GUARD_BYTES if self.guard else 0)

    @property
    def num_hints(self) -> int:
        """u64 numbers in each bitmap of hints."""
        return -(-self.num_blocks // 64)

    @property
    def row_bytes(self) -> int:
        """From one slot's counts to the next slot's."""
        return round_up(4 * self.num_blocks, LINE_BYTES)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Of slots, empty hints, content hints, words, counts, index and data."""
        hints = round_up(8 * self.num_hints, LINE_BYTES)
        sizes = NUM_SLOTS * SLOT_BYTES, hints, hints, round_up(8 * self.num_blocks, LINE_BYTES), \
            NUM_SLOTS * self.row_bytes, 8 * self.index_entries + self.num_blocks * self.record_bytes
        offsets = [HEADER_BYTES]
        for size in sizes:
            offsets.append(offsets[-1] + size)
        return (*offsets[:-1], round_up(offsets[-1], PAGE_BYTES))

    slots_at = property(lambda self: self.offsets[0])
    empty_at = property(lambda self: self.offsets[1])
    content_at = property(lambda self: self.offsets[2])
    words_at = property(lambda self: self.offsets[3])
    counts_at = property(lambda self: self.offsets[4])
    buckets_at = property(lambda self: self.offsets[5])
    records_at = property(lambda self: self.offsets[5] + 8 * self.index_entries)
    data_at = property(lambda self: self.offsets[6])

    @property
    def capacity_bytes(self) -> int:
        return round_up(self.data_at + self.num_blocks * self.stride_bytes, PAGE_BYTES)

    def stride_at(self, block: int) -> int:
        return self.data_at + block * self.stride_bytes

    def block_at(self, block: int) -> int:
        return self.stride_at(block) + (GUARD_BYTES if self.guard else 0)

    def header(self) -> bytes:
        """The header's first 128 bytes."""
        return _HEADER.pack(MAGIC, VERSION, NUM_SLOTS, self.capacity_bytes, self.block_bytes, self.num_blocks,
                            self.stride_bytes, self.tokens_per_block, self.index_entries,
                            GUARD_FLAG if self.guard else 0, *self.offsets, self.pool_id)


def read_header(header: bytes, file_bytes: int) -> Layout:
    """The layout of a pool of which these are the first 4096 bytes, and that has a file of this size.

    Raises NotReady for one that is still being made, IncompatiblePool, which says what was found and what was expected,
    for a file that is no pool or one of another version or size."""
    if file_bytes == 0:
        raise NotReady
    if file_bytes < HEADER_BYTES or len(header) < HEADER_BYTES:
        raise IncompatiblePool(f"the file is truncated: it has {file_bytes} bytes, a header alone takes {HEADER_BYTES}")
    magic, version, num_slots, capacity, block_bytes, num_blocks, stride, tokens, entries, flags, *offsets, pool_id = \
        _HEADER.unpack_from(header)
    ready = struct.unpack_from("<Q", header, STATE_AT)[0]
    if magic == 0 and ready == 0:
        raise NotReady
    _expect("its magic number", hex(magic), hex(MAGIC), " (no shared pool, or of a machine with another byte order)")
    _expect("its version", version, VERSION, ": remove it, and create it again with this version of pagedkv")
    if ready != READY:
        raise NotReady
    _expect("its number of slots", num_slots, NUM_SLOTS)
    if capacity != file_bytes:
        what = "truncated" if file_bytes < capacity else "longer than it was made"
        raise IncompatiblePool(f"the file is {what}: it has {file_bytes} bytes, its header says {capacity}")
    if num_blocks < 1 or block_bytes < 1 or pool_id == 0:
        raise IncompatiblePool(f"its header is damaged: {num_blocks} blocks of {block_bytes} bytes, id {pool_id}")
    _expect("its flags", flags & ~GUARD_FLAG, 0)
    if tokens > MOST_TOKENS_PER_BLOCK or tokens and num_blocks > MOST_INDEXED_BLOCKS:
        raise IncompatiblePool(f"its header is damaged: an index of {num_blocks} blocks of {tokens} tokens")
    layout = Layout(num_blocks, block_bytes, bool(flags & GUARD_FLAG), tokens, pool_id)
    _expect("its index entries", entries, layout.index_entries)
    _expect("the bytes from one block to the next", stride, layout.stride_bytes)
    for region, found, expected in zip(_REGIONS, offsets, layout.offsets):
        _expect(f"the offset of its {region}", found, expected)
    _expect("its size in bytes", capacity, layout.capacity_bytes)
    return layout


def _expect(what: str, found: object, expected: object, hint: str = "") -> None:
    if found != expected:
        raise IncompatiblePool(f"{what}: found {found}, expected {expected}{hint}")
