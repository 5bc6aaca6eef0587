"""The shared pool, byte by byte: what every process that joins it, in whichever language, has to read and to write.

This page is the specification, and the only place with numbers. A *member* is one joined pool object; it owns one of
48 *slots*, and whatever it holds is on record under that slot. Most processes have one member, some have more.

    /dev/shm/pagedkv.NAME                the pool: everything below
    /dev/shm/pagedkv-lock.NAME.ID        empty; there are only locks on it. ID: the pool's id, 16 hex digits, lower case

NAME: 1 to 64 of A-Z a-z 0-9 . _ - and no dot in front. Both files have mode 0600. Numbers are little-endian; the atomic
ones are aligned and have 64 bits. All atomic operations are sequentially consistent.

**Header**, 4096 bytes. What changes has a line of 64 bytes to itself. Bytes that are not named are 0.

       0  u64  magic              0x00564B4445474150; as bytes: "PAGEDKV" and a zero
       8  u32  version            1
      12  u32  num_slots          48
      16  u64  capacity_bytes     the size of the file
      24  u64  block_bytes        what a block holds
      32  u64  num_blocks
      40  u64  stride_bytes       from one block to the next
      48  u32  tokens_per_block   0: no prefix index (the only value in this version)
      52  u32  index_entries      0 likewise
      56  u64  flags              bit 0: guard mode
      64  u64  × 7                where these begin, in bytes from the file's beginning: slots, empty hints, content
                                  hints, words, counts, index, data
     120  u64  id                 random, not 0
     128  u64  state              0 being made, 1 ready; written last of all
     192  u64  reaps              atomic: how many dead members have been reaped

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

**Index**: room for a prefix index, of no bytes in this version. (The generation alone must not decide whether an entry
is still true, since it comes round after 16,384 hand-outs of a block: an index has to keep, for each block, which entry
describes it.)

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
                   taken, make sure that there are enough at all.
    retain         counts[me] > 0: one more. Else counts[me] = 1, THEN CAS the holder `me` in, if the word has a holder,
                   is not CACHED and has the generation asked for, if one was; otherwise counts[me] = 0, UseAfterFree.
    release        counts[me] > 1: one less. Else CAS `me` out, THEN counts[me] = 0, THEN, if there is no holder left,
                   set the block's hint (content or empty, as the flag says). Into the local cache: if `me` was the only
                   holder and there is no CONTENT, CAS to CACHED and `me`, then counts[me] = 0.
                   counts[me] = 0: DoubleFree. A batch is checked whole before its first step.
    refcount       CACHED: 0. Else the sum of the counts of the holders.
    reap a slot    with its byte locked and in_use = 1: for every word that has the holder: CAS it out (and CACHED with
                   it), and if no holder is left set the hint; then zero the row of counts; then in_use = 0; reaps + 1.
    heal           for every word without a holder: set its hint.
    reap           for each slot, not one's own, with in_use = 1 and a byte that can be locked: if in_use is still 1, reap
                   it; unlock. (Slots that are not in use are not locked: that could turn away who wants to join.) Then
                   heal. A member that is stopped in the middle keeps these slots locked until it goes on.
    close          reap one's own slot, unlock.

Until it is reaped, a dead member is a holder like any other: its references count, and others may retain its blocks.
"""

import struct
from dataclasses import dataclass
from functools import cached_property

from pagedkv.shared.errors import IncompatiblePool, NotReady

MAGIC, VERSION = int.from_bytes(b"PAGEDKV\0", "little"), 1
NUM_SLOTS = 48
HEADER_BYTES, SLOT_BYTES, LINE_BYTES, PAGE_BYTES = 4096, 64, 64, 4096
ID_AT, STATE_AT, REAPS_AT = 120, 128, 192
READY = 1
PYTHON, JAVA = 1, 2

GENERATION_SHIFT, NUM_GENERATIONS = 50, 1 << 14
CONTENT, CACHED, HOLDERS = 1 << 49, 1 << 48, (1 << 48) - 1

GUARD_FLAG = 1
GUARD_BYTES = 64  # in front of a block, and at least as many behind it
BLOCK_MAGIC, CANARY, NO_OWNER = int.from_bytes(b"KVBLOCK\0", "little"), 0xA5, (1 << 64) - 1
GUARD_HEAD = struct.Struct("<QQQQ")

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
    pool_id: int = 1

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
            NUM_SLOTS * self.row_bytes
        offsets = [HEADER_BYTES]
        for size in sizes:
            offsets.append(offsets[-1] + size)
        return (*offsets, round_up(offsets[-1], PAGE_BYTES))

    slots_at = property(lambda self: self.offsets[0])
    empty_at = property(lambda self: self.offsets[1])
    content_at = property(lambda self: self.offsets[2])
    words_at = property(lambda self: self.offsets[3])
    counts_at = property(lambda self: self.offsets[4])
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
                            self.stride_bytes, 0, 0, GUARD_FLAG if self.guard else 0, *self.offsets, self.pool_id)


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
    _expect("its tokens per block and index entries", (tokens, entries), (0, 0))
    layout = Layout(num_blocks, block_bytes, bool(flags & GUARD_FLAG), pool_id)
    _expect("the bytes from one block to the next", stride, layout.stride_bytes)
    for region, found, expected in zip(_REGIONS, offsets, layout.offsets):
        _expect(f"the offset of its {region}", found, expected)
    _expect("its size in bytes", capacity, layout.capacity_bytes)
    return layout


def _expect(what: str, found: object, expected: object, hint: str = "") -> None:
    if found != expected:
        raise IncompatiblePool(f"{what}: found {found}, expected {expected}{hint}")
