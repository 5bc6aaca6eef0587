"""The rows of the mapping table: what Netty calls it, what a KV cache calls it, and code that shows both.

A *pair* is the claim that two things are the same idea. Its verdict is one of three: it holds; it holds in part, and
the row says where it ends; or it misleads, and the row says what to believe instead. The pairs are those of the
article that this course starts from (claim N9), the misleading ones as it has them; three are added: the page
table, slices of a buffer (claim B11), and interned strings (claim N17).

Java and Python of a row do the same thing with the same numbers where that is possible. What they print is held by a
test, so it must not depend on the machine. A row's Java prints from the thread that it starts on, or not at all: that
is how its lines are told from those of a cell that runs meanwhile.
"""

from dataclasses import dataclass

HOLDS = "holds"
IN_PART = "holds in part"
MISLEADING = "misleading"


@dataclass(frozen=True)
class Row:
    """One pair.

    key      its short name, for `run_row`
    netty    what it is called in Netty
    kv       what it is called in a KV cache
    verdict  HOLDS, IN_PART or MISLEADING
    why      one or two sentences: what the two have in common, and where that ends
    java     runs on real Netty, or on one of our Java pools
    python   runs on our pool
    """

    key: str
    netty: str
    kv: str
    verdict: str
    why: str
    java: str
    python: str


# One arena on the Java heap, of its own for each run: its metrics then begin at 0.
_NETTY = """\
import io.netty.buffer.*;

// one arena, pages of 8 KiB, 2^9 pages to a chunk
var netty = new PooledByteBufAllocator(
    false, 1, 0, 8192, 9, 256, 64, false);
var arena = netty.metric().heapArenas().get(0);
"""

ROWS = (
    Row("pool", "PoolArena", "GPU memory pool", IN_PART,
        "Both take memory in bulk and hand out pieces of it. An arena grows by a chunk at a time, and gives a chunk back "
        "that was well used and is empty again (this one was hardly used, and stays). A KV pool takes all its memory at "
        "the start and keeps it.",
        _NETTY + """
System.out.println("chunks: " + arena.numActiveChunks());
ByteBuf buffer = netty.heapBuffer(40 * 1024);
System.out.println("chunks: " + arena.numActiveChunks());
buffer.release();
System.out.println("chunks: " + arena.numActiveChunks());
System.out.println("buffers in use: "
    + arena.numActiveAllocations());
""",
        """\
from pagedkv import BlockPool

pool = BlockPool(512)
print("blocks:", pool.num_blocks)
blocks = pool.allocate(5, owner="A")
print("blocks:", pool.num_blocks)
pool.release(blocks, owner="A")
print("blocks:", pool.num_blocks)
print("blocks in use:",
      pool.num_blocks - pool.num_free_blocks)
"""),
    Row("chunk", "PoolChunk", "set of blocks", HOLDS,
        "One large piece of memory, cut into equal parts. A buffer takes neighbouring pages of one chunk; the blocks of "
        "a request may lie anywhere in the pool.",
        _NETTY + """
ByteBuf buffer = netty.heapBuffer(40 * 1024);
for (var list : arena.chunkLists()) {
    for (var chunk : list) {
        int pages = chunk.chunkSize() / 8192;
        int free = chunk.freeBytes() / 8192;
        System.out.println(pages + " pages, "
            + free + " of them free");
    }
}
buffer.release();
""",
        """\
from pagedkv import BlockPool

pool = BlockPool(512)
blocks = pool.allocate(5, owner="A")
print(pool.num_blocks, "blocks,",
      pool.num_free_blocks, "of them free")
pool.release(blocks, owner="A")
"""),
    Row("page", "Page", "Block", HOLDS,
        "The unit of a large allocation. A page counts bytes; a block counts tokens, and its bytes follow from the "
        "model.",
        _NETTY + """
int page = PooledByteBufAllocator.defaultPageSize();
System.out.println("a page is " + page + " bytes");
int bytes = 40 * 1024;
ByteBuf buffer = netty.heapBuffer(bytes);
for (var list : arena.chunkLists()) {
    for (var chunk : list) {
        int all = chunk.chunkSize();
        int free = chunk.freeBytes();
        System.out.println(bytes + " bytes take "
            + (all - free) / page + " pages");
    }
}
buffer.release();
""",
        """\
from pagedkv import BlockPool

pool = BlockPool(512)
block_size, tokens = 16, 75
print("a block is", block_size, "tokens")
needed = -(-tokens // block_size)    # rounded up
blocks = pool.allocate(needed, owner="A")
print(tokens, "tokens take", len(blocks), "blocks")
pool.release(blocks, owner="A")
"""),
    Row("subpage", "PoolSubpage", "partly filled block", IN_PART,
        "Both are a unit that is not full. But a subpage is shared out to several small buffers, while the empty places "
        "of a block wait for its own sequence: they are waste until it grows.",
        _NETTY + """
ByteBuf a = netty.heapBuffer(1024);
ByteBuf b = netty.heapBuffer(1024);
var subpage = arena.smallSubpages().get(0);
System.out.println(
    "room for " + subpage.maxNumElements() + " buffers, "
    + subpage.numAvailable() + " left");
int pageOfA = a.arrayOffset() / 8192;
int pageOfB = b.arrayOffset() / 8192;
System.out.println("a and b in one page: "
    + (a.array() == b.array() && pageOfA == pageOfB));
a.release();
b.release();
""",
        """\
from pagedkv import BlockPool

pool = BlockPool(512)
block_size, tokens = 16, 2
a = pool.allocate(1, owner="A")
b = pool.allocate(1, owner="B")
print("room for", block_size, "tokens,",
      block_size - tokens, "left")
print("a and b in one block:", a == b)
"""),
    Row("refcount", "refCnt()", "refcount", HOLDS,
        "How many holders there are. The memory goes back when the last of them lets go.",
        """\
import io.netty.buffer.*;

var netty = PooledByteBufAllocator.DEFAULT;
ByteBuf buffer = netty.buffer(64);
System.out.println("allocated: " + buffer.refCnt());
buffer.retain();
System.out.println("retained: " + buffer.refCnt());
buffer.release();
buffer.release();
System.out.println("released: " + buffer.refCnt());
""",
        """\
from pagedkv import BlockPool

pool = BlockPool(8)
[block] = pool.allocate(1, owner="A")
print("allocated:", pool.refcount(block))
pool.retain([block], owner="B")
print("retained:", pool.refcount(block))
pool.release([block], owner="A")
pool.release([block], owner="B")
print("released:", pool.refcount(block))
"""),
    Row("release", "retain() / release()", "retain / release", HOLDS,
        "Every reference is given back exactly once. One release too many is refused, as long as the memory is free: once "
        "somebody else has it, neither can tell whose release it is. Netty's calls name one buffer; a pool's name many "
        "blocks, and do all of it or nothing.",
        """\
import io.netty.buffer.*;
import io.netty.util.IllegalReferenceCountException;

var netty = PooledByteBufAllocator.DEFAULT;
ByteBuf buffer = netty.buffer(64);
buffer.release();
try {
    buffer.release();
} catch (IllegalReferenceCountException refused) {
    System.out.println(refused.getMessage());
}
""",
        """\
from pagedkv import BlockPool, DoubleFree

pool = BlockPool(8)
blocks = pool.allocate(2, owner="A")
pool.release(blocks, owner="A")
try:
    pool.release(blocks, owner="A")
except DoubleFree as refused:
    print(refused)
"""),
    Row("duplicate", "retainedDuplicate()", "fork + copy-on-write", MISLEADING,
        "Both share without copying, at first. Then they part: a write through Netty's duplicate is seen by the "
        "original, for it is the same memory. A forked sequence that writes to a shared block gets a copy first.",
        """\
import io.netty.buffer.*;

var netty = PooledByteBufAllocator.DEFAULT;
ByteBuf original = netty.buffer(16).writeByte('A');
ByteBuf duplicate = original.retainedDuplicate();
System.out.println("shared by " + original.refCnt());

duplicate.setByte(0, 'B');   // no copy is made
char seen = (char) original.getByte(0);
System.out.println("the original now reads " + seen);
boolean wasSeen = seen == 'B';
System.out.println("the write was seen: " + wasSeen);
original.release();
duplicate.release();
""",
        """\
from pagedkv import KVCacheManager

manager = KVCacheManager(num_blocks=8, block_size=4)
parent, memory = manager.add_sequence([1]), {}
memory[parent.block_table[0]] = "A"
child = manager.fork(parent)   # the same blocks
shared_by = manager.refcount(parent.block_table[0])
print("shared by", shared_by)

manager.append_token(child, 2)   # copy first
for source, target in manager.take_block_copies():
    memory[target] = memory[source]
memory[child.block_table[0]] = "B"
seen = memory[parent.block_table[0]]
print("the parent still reads", seen)
was_seen = seen == "B"
print("the write was seen:", was_seen)
"""),
    Row("cache", "PoolThreadCache", "block table", MISLEADING,
        "A thread cache keeps free memory at hand for its thread, so that most calls need no lock; a block table holds "
        "blocks in use. What the cache compares to is a worker's own small stock of free blocks: that is what runs here.",
        _NETTY.replace("*;\n", "*;\nimport io.netty.util.concurrent.*;\n", 1) + """
var seen = new ArrayList<String>();
var worker = new FastThreadLocalThread(() -> {
    netty.heapBuffer(1024).release();
    seen.add("given back, the arena saw: "
        + arena.numDeallocations());
    netty.heapBuffer(1024).release();
    seen.add("taken twice, the arena saw: "
        + arena.numAllocations());
});
worker.start();
worker.join();
seen.forEach(System.out::println);
""",
        """\
from pagedkv import BlockPool, record

pool, local = BlockPool(8), []   # a worker's stock

def take():
    if not local:
        local.extend(pool.allocate(4, owner="w"))
    return local.pop()

with record(pool) as calls:
    block = take()
    local.append(block)      # given back
    released = [call for call in calls.events
                if call.op == "release"]
    print("given back, the pool saw:", len(released))
    local.append(take())
    print("taken twice, the pool saw:", len(calls))
"""),
    Row("table", "CompositeByteBuf", "block table", HOLDS,
        "From a position to the piece that holds it. The article has no such row, for Netty's allocator has no such table: "
        "the one to think of is an operating system's page table, or the component list of a composite buffer.",
        """\
import io.netty.buffer.*;

CompositeByteBuf whole = Unpooled.compositeBuffer();
for (int i = 0; i < 3; i++) {
    ByteBuf part = Unpooled.buffer(16).writeZero(16);
    whole.addComponent(true, part);
}
int position = 37;
int piece = whole.toComponentIndex(position);
int offset = position - whole.toByteIndex(piece);
System.out.println("position " + position
    + ": piece " + piece + ", offset " + offset);
whole.release();
""",
        """\
from pagedkv import BlockPool

pool = BlockPool(8)
pool.allocate(2, owner="B")
block_table = pool.allocate(3, owner="A")
position = 37
logical, offset = divmod(position, 16)
print(f"position {position}:",
      f"piece {logical}, offset {offset}")
print("the table:", block_table,
      "so it lies in block", block_table[logical])
"""),
    Row("slice", "slice()", "view of a tensor", HOLDS,
        "A part of one large piece of memory, without a copy: what is written there is in the whole. Netty's has two indices "
        "of its own and shares the reference count; a view has none, so who may write there is told by the block table.",
        """\
import io.netty.buffer.*;

ByteBuf pool = Unpooled.buffer(64).writeZero(64);
ByteBuf block = pool.slice(48, 16);
block.setByte(0, 7);
System.out.println("the pool has " + pool.getByte(48));

ByteBuf copy = pool.copy(48, 16);
copy.setByte(0, 9);
System.out.println("the pool has " + pool.getByte(48));
copy.release();
pool.release();
""",
        """\
import torch

pool = torch.zeros(4, 16, dtype=torch.uint8)
block = pool[3]          # an address
block[0] = 7
print("the pool has", pool[3, 0].item())

copy = pool[[3]]         # a list of places
copy[0, 0] = 9
print("the pool has", pool[3, 0].item())
"""),
    Row("intern", "String.intern()", "prefix cache", IN_PART,
        "Equal contents once in memory, found by a hash and then compared. A string is found as a whole; a prompt by its "
        "longest known beginning, in whole blocks. A string that nobody refers to goes with the next garbage collection, "
        "a block that nobody holds when its memory is needed.",
        """\
var prompt = "you are a helpful assistant";
String one = new String(prompt);
String other = new String(prompt);
System.out.println("shared: " + (one == other));
one = one.intern();
other = other.intern();
System.out.println("shared: " + (one == other));
String longer = (prompt + " of mine").intern();
System.out.println("its beginning is shared: "
    + (longer.substring(0, prompt.length()) == one));
""",
        """\
from pagedkv import KVCacheManager

manager = KVCacheManager(num_blocks=8, block_size=4)
prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9]
one = manager.add_sequence(prompt)
print("shared:", one.num_cached_tokens > 0)
other = manager.add_sequence(prompt)
print("shared:",
      other.block_table[:2] == one.block_table[:2])
longer = manager.add_sequence(prompt + [10, 11])
print("its beginning is shared:",
      longer.block_table[:2] == one.block_table[:2])
"""),
    Row("capacity", "capacity() / maxCapacity()", "num_blocks", IN_PART,
        "Both end in a limit that is refused, not passed. A buffer has its own, and its capacity grows up to it; num_blocks "
        "is one limit for all sequences together, and never grows.",
        """\
import io.netty.buffer.*;

var netty = PooledByteBufAllocator.DEFAULT;
ByteBuf buffer = netty.buffer(16, 64);
System.out.println("capacity " + buffer.capacity()
    + ", at most " + buffer.maxCapacity());
buffer.writeZero(48);
System.out.println("48 written: " + buffer.capacity());
try {
    buffer.writeZero(48);
} catch (IndexOutOfBoundsException refused) {
    System.out.println("48 more: refused");
}
System.out.println("still " + buffer.readableBytes());
buffer.release();
""",
        """\
from pagedkv import BlockPool, OutOfBlocks

pool = BlockPool(64)
print("num_blocks", pool.num_blocks)
pool.allocate(48, owner="A")
print("48 taken: num_blocks", pool.num_blocks)
try:
    pool.allocate(48, owner="B")
except OutOfBlocks:
    print("48 more: refused")
print("still", pool.num_blocks - pool.num_free_blocks)
"""),
    Row("fragmentation", "fragmentation", "fragmentation", IN_PART,
        "Free memory in pieces that are of no use. Netty needs neighbouring pages, so half a chunk can be free and a "
        "larger buffer still not fit. A sequence takes any free block: all that it wastes is the empty rest of its last "
        "one.",
        _NETTY + """
var buffers = new ArrayList<ByteBuf>();
for (int i = 0; i < 64; i++) {
    buffers.add(netty.heapBuffer(64 * 1024));
}
for (int i = 0; i < 64; i += 2) {
    buffers.get(i).release();
}
System.out.println("every second piece is free");
long chunks = arena.numActiveChunks();
buffers.add(netty.heapBuffer(2 * 64 * 1024));
boolean fits = arena.numActiveChunks() == chunks;
System.out.println("two pieces fit the holes: " + fits);
buffers.removeIf(buffer -> buffer.refCnt() == 0);
buffers.forEach(ByteBuf::release);
""",
        """\
from pagedkv import BlockPool

pool = BlockPool(64)
blocks = pool.allocate(64, owner="A")
pool.release(blocks[::2], owner="A")
print("every second piece is free")
pair = pool.allocate(2, owner="B")
print("two pieces fit the holes:",
      set(pair) <= set(blocks[::2]))
print("they are", sorted(pair))
"""),
)
