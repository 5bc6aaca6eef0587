"""Notebook 05: every right answer is accepted, whatever its form; every wrong one gets the message it deserves.

ACCEPTED: exercise → answers of different kinds. REJECTED: exercise → (answer, a piece of the message it must get).
"""

import builtins
import hashlib
import struct
import zlib
from array import array
from collections import Counter

import pytest

from pagedkv.core.errors import OutOfBlocks
from pagedkv.java import jclass, start
from pagedkv.lab.exercises import exercises_of, find_exercise
from pagedkv.lab.grading import CORRECT, NOT_YET, WRONG, grade
from pagedkv.lab.sharing_eviction import CachedBlock
from tests.lab.exercises.java_answers import compile_java

# ── 05.1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

SHARE = "public BareTable share(BareTable a, int sharedBlocks, int ownBlocks, Pool pool, String owner)"


def sharing(body, head="public class Sharing implements SharesPrefix", share=SHARE):
    return lambda: compile_java(f"import pagedkv.exercise.*;\n{head} {{\n{share} {{\n"
                                f"int[] shared = Arrays.copyOf(a.blocks(), sharedBlocks);\n{body}\n}}\n}}")


OWN_FIRST = """int[] own = pool.allocate(ownBlocks, owner); pool.retain(shared, owner);
    var b = new BareTable(pool, owner); b.enter(shared); b.enter(own); return b;"""
CLOSED_ON_REFUSAL = """var b = new BareTable(pool, owner); pool.retain(shared, owner); b.enter(shared);
    try { b.allocate(ownBlocks); } catch (RuntimeException refused) { b.close(); throw refused; } return b;"""
NEW_B = "var b = new BareTable(pool, owner);"
SHARED_FIRST = NEW_B + "pool.retain(shared, owner); b.enter(shared); b.allocate(ownBlocks); return b;"
SHARINGS_ACCEPTED = {
    "own blocks first": sharing(OWN_FIRST),
    "closed when refused": sharing(CLOSED_ON_REFUSAL),
    "looks before": sharing("if (ownBlocks > pool.numFreeBlocks()) pool.allocate(ownBlocks, owner);" + SHARED_FIRST),
    "one by one, without owners": sharing("""int[] own = pool.allocate(ownBlocks);
        var b = new BareTable(pool, owner);
        for (int block : shared) { pool.retain(new int[] {block}); b.enter(block); }
        for (int block : own) b.enter(block);
        return b;"""),
    "a static method": sharing(OWN_FIRST, "public class Sharing", SHARE.replace("public", "public static")),
    "an object": lambda: sharing(OWN_FIRST)()(),
}
SHARINGS_REJECTED = {
    "the article's": (sharing("pool.retain(shared, owner);" + NEW_B + "b.allocate(ownBlocks); return b;"),
                      "expected:  [0, 1, 2], then 1 new: else B cannot find its own beginning"),
    "entered, not counted": (sharing(NEW_B + "b.enter(shared); b.allocate(ownBlocks); return b;"),
                             "block 0 has refcount 1\n   expected:  2"),
    "own blocks in front": (sharing(NEW_B + "b.allocate(ownBlocks); pool.retain(shared, owner); "
                                    "b.enter(shared); return b;"), "the table of B is [5, 0, 1, 2]"),
    "counted twice": (sharing("pool.retain(shared, owner); pool.retain(shared, owner);" + NEW_B +
                              "b.enter(shared); b.allocate(ownBlocks); return b;"), "block 0 has refcount 3"),
    "a refusal leaves counts": (sharing(SHARED_FIRST), "the call was refused\n   yours:     block 0 has refcount 2"),
    "copies": (sharing("var b = new BareTable(pool, owner); b.allocate(sharedBlocks + ownBlocks); return b;"),
               "expected:  [0, 1, 2]"),
    "A's references are moved": (sharing("a.close(); pool.allocate(sharedBlocks, owner);" + NEW_B +
                                         "b.enter(shared); b.allocate(ownBlocks); return b;"),
                                         "the table of A is now []"),
    "swallows the refusal": (sharing(NEW_B + "try { int[] own = pool.allocate(ownBlocks, owner); "
                                     "pool.retain(shared, owner); b.enter(shared); b.enter(own); } "
                                     "catch (RuntimeException e) { } return b;"),
                                     "the pool's OutOfBlocksException goes on"),
    "another exception": (sharing("if (ownBlocks > pool.numFreeBlocks()) throw new IllegalStateException();"
                                  + SHARED_FIRST),
                          "threw IllegalStateException"),
    "null": (sharing("return null;"), "share() returned null"),
    "booked to A": (sharing(OWN_FIRST.replace("retain(shared, owner)", 'retain(shared, "A")')),
                    'yours:     pool.retain(…, "A")\n   expected:  "B": these references are B\'s'),
    "all booked to A": (sharing(OWN_FIRST.replace("allocate(ownBlocks, owner)", "allocate(ownBlocks, a.owner())")),
                        'yours:     pool.allocate(…, "A")'),
    "no such method": (lambda: compile_java("public class Sharing { }"), "public static method share()"),
    "a number": (lambda: 6, "check gets your Java class"),
}

# ── 05.2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class ByNode:
    def __init__(self, block_size):
        self.block_size, self.nodes = block_size, {}

    def insert(self, tokens, blocks):
        node = None
        for number in range(len(tokens) // self.block_size):
            key = node, tuple(tokens[number * self.block_size:(number + 1) * self.block_size])
            node = self.nodes.setdefault(key, (len(self.nodes), blocks[number]))[0]

    def longest_prefix(self, tokens):
        node, found = None, []
        for number in range(len(tokens) // self.block_size):
            key = node, tuple(tokens[number * self.block_size:(number + 1) * self.block_size])
            if key not in self.nodes:
                break
            node, block = self.nodes[key]
            found.append(block)
        return found


class ByBeginning:
    """The key is all that comes before; the last block that was inserted is found."""

    def __init__(self, block_size):
        self.size, self.index = block_size, {}

    def ends(self, tokens):
        return range(self.size, len(tokens) + 1, self.size)

    def key(self, tokens):
        return tuple(tokens)

    def insert(self, tokens, blocks):
        for end, block in zip(self.ends(tokens), blocks):
            self.index[self.key(tokens[:end])] = block

    def longest_prefix(self, tokens):
        found = []
        for end in self.ends(tokens):
            block = self.index.get(self.key(tokens[:end]))
            if block is None:
                return tuple(found)
            found.append(block)
        return tuple(found)


class InBytes(ByBeginning):
    def key(self, tokens):
        return array("i", tokens).tobytes()


class InText(ByBeginning):
    def key(self, tokens):
        return ",".join(map(str, tokens))


class Sha256(ByBeginning):
    def key(self, tokens):
        return hashlib.sha256(struct.pack(f"{len(tokens)}i", *tokens)).digest()


class Trie:
    """Dicts in dicts; yields its blocks."""

    def __init__(self, block_size):
        self.size, self.root = block_size, {}

    def insert(self, tokens, blocks):
        level = self.root
        for start, block in zip(range(0, len(tokens) - self.size + 1, self.size), blocks):
            level = level.setdefault(tuple(tokens[start:start + self.size]), [block, {}])[1]

    def longest_prefix(self, tokens):
        level = self.root
        for start in range(0, len(tokens) - self.size + 1, self.size):
            if tuple(tokens[start:start + self.size]) not in level:
                return
            block, level = level[tuple(tokens[start:start + self.size])]
            yield block


class HashThenCompare:
    """Buckets by hash, and the contents compared in them."""

    def __init__(self, block_size):
        self.size, self.buckets = block_size, {}

    def insert(self, tokens, blocks):
        for end, block in zip(range(self.size, len(tokens) + 1, self.size), blocks):
            self.buckets.setdefault(hash(tuple(tokens[:end])), []).append((list(tokens[:end]), block))

    def longest_prefix(self, tokens):
        found = []
        for end in range(self.size, len(tokens) + 1, self.size):
            for held, block in self.buckets.get(hash(tuple(tokens[:end])), ()):
                if held == list(tokens[:end]):
                    found.append(block)
                    break
            else:
                break
        return found


class AList(ByBeginning):
    """Slow, and right."""

    def __init__(self, block_size):
        self.size, self.entries = block_size, []

    def insert(self, tokens, blocks):
        self.entries += [(list(tokens[:end]), block) for end, block in zip(self.ends(tokens), blocks)]

    def longest_prefix(self, tokens):
        found = []
        for end in self.ends(tokens):
            blocks = [block for held, block in self.entries if held == list(tokens[:end])]
            if not blocks:
                break
            found.append(blocks[0])
        return found


class WholePrompt(ByBeginning):
    def insert(self, tokens, blocks):
        self.index[tuple(tokens)] = list(blocks[:len(tokens) // self.size])

    def longest_prefix(self, tokens):
        return self.index.get(tuple(tokens), [])


class OwnTokensOnly(ByBeginning):
    def insert(self, tokens, blocks):
        for end, block in zip(self.ends(tokens), blocks):
            self.index[tuple(tokens[end - self.size:end])] = block

    def longest_prefix(self, tokens):
        found = []
        for end in self.ends(tokens):
            if tuple(tokens[end - self.size:end]) not in self.index:
                break
            found.append(self.index[tuple(tokens[end - self.size:end])])
        return found


class GoesOnAfterAMiss(ByBeginning):
    def longest_prefix(self, tokens):
        return [self.index[key] for start in range(0, len(tokens), self.size)
                for key in [tuple(tokens[start:start + self.size])] if key in self.index]


class PythonsHash(ByBeginning):
    def key(self, tokens):
        return hash(tuple(tokens))


class PythonsHashOfBytes(ByBeginning):
    def key(self, tokens):
        return hash(array("q", tokens).tobytes())


class ChainOfHashes(ByBeginning):
    def key(self, tokens):
        value = 0
        for start in range(0, len(tokens), self.size):
            value = hash((value, array("q", tokens[start:start + self.size]).tobytes()))
        return value


class Crc(ByBeginning):
    def key(self, tokens):
        return zlib.crc32(array("i", tokens).tobytes())


class CutShort(ByBeginning):
    def key(self, tokens):
        return hashlib.sha256(array("i", tokens).tobytes()).digest()[:4]


class Sums(ByBeginning):
    def key(self, tokens):
        return len(tokens), sum(tokens)


class Glued(ByBeginning):
    def key(self, tokens):
        return "".join(map(str, tokens))


class Unordered(ByBeginning):
    def key(self, tokens):
        return frozenset(tokens)


class PartialToo(ByBeginning):
    def ends(self, tokens):
        return [min(start + self.size, len(tokens)) for start in range(0, len(tokens), self.size)]


class ParentIsABlock(ByBeginning):
    """Its parent is the block's id, and the index is overwritten: the first chain loses its end."""

    def insert(self, tokens, blocks):
        above = None
        for end, block in zip(self.ends(tokens), blocks):
            self.index[above, tuple(tokens[end - self.size:end])] = block
            above = block

    def longest_prefix(self, tokens):
        above, found = None, []
        for end in self.ends(tokens):
            above = self.index.get((above, tuple(tokens[end - self.size:end])))
            if above is None:
                break
            found.append(above)
        return found


class KeepsTheCallersList(AList):
    """Holds on to the caller's list, and cuts it up only when it is asked."""

    def insert(self, tokens, blocks):
        self.entries.append((tokens, blocks))

    def longest_prefix(self, tokens):
        found = []
        for end in self.ends(tokens):
            right = [blocks[end // self.size - 1] for held, blocks in self.entries if held[:end] == tokens[:end]]
            if not right:
                break
            found += right[:1]
        return found


class OneBlock(ByBeginning):
    def longest_prefix(self, tokens):
        return 7 if tokens else []


class Loops(ByBeginning):
    def longest_prefix(self, tokens):
        while True:
            pass


class SaysNothing(ByBeginning):
    def longest_prefix(self, tokens):
        super().longest_prefix(tokens)


INDEXES_REJECTED = {
    "the whole prompt": (WholePrompt, "the same beginning, blocks of 2 tokens\n   insert([1, 2, 3, 4], [7, 8])"),
    "its own tokens only": (OwnTokensOnly, "another prompt's keys and values would be served"),
    "goes on after a miss": (GoesOnAfterAMiss, "longest_prefix("),
    "Python's hash": (PythonsHash, "hash(-1) == hash(-2)"),
    "Python's hash of bytes": (PythonsHashOfBytes, "here your hash() is one with 4 values"),
    "a chain of hashes": (ChainOfHashes, "here your hash() is one with 4 values"),
    "crc32": (Crc, "two prompts with the same hash"),
    "sha256 cut short": (CutShort, "two prompts with the same hash"),
    "sums": (Sums, "the order counts"),
    "glued": (Glued, "1, 23 is not 12, 3"),
    "unordered": (Unordered, "another prompt's keys and values would be served"),
    "partly filled blocks": (PartialToo, "a block that is not full is never entered"),
    "the parent is a block": (ParentIsABlock, "the same beginning, computed twice"),
    "keeps the caller's list": (KeepsTheCallersList, "the lists are the caller's"),
    "a number": (OneBlock, "longest_prefix() returns a list of blocks"),
    "loops": (Loops, "had not returned"),
    "an object": (ByNode(2), "check gets your class"),
    "half a class": (type("Half", (), {"insert": ByNode.insert}), "your class has no method longest_prefix()"),
}

# ── 05.3 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

REST = """
    public MySequence fork(String newOwner) {
        pool.retain(blocks(), newOwner);
        var fork = new MySequence(pool, store, newOwner);
        fork.blocks.addAll(blocks);
        fork.numTokens = numTokens;
        return fork;
    }
    public int[] blocks() { return blocks.stream().mapToInt(Integer::intValue).toArray(); }
    public int numTokens() { return numTokens; }
    public void close() { pool.release(blocks(), owner); blocks.clear(); numTokens = 0; }
}"""


def writer(append, rest=REST):
    return lambda: compile_java("""
import pagedkv.sharing.TokenStore;
public class MySequence {
    private final Pool pool; private final TokenStore store; private final String owner;
    private final List<Integer> blocks = new ArrayList<>();
    private int numTokens;
    public MySequence(Pool pool, TokenStore store, String owner) {
        this.pool = pool; this.store = store; this.owner = owner;
    }
    public void append(int token) {
        int offset = numTokens % store.blockSizeTokens();
        int last = blocks.size() - 1;
""" + append + "\n    }\n" + rest)


NEW = "if (offset == 0) { blocks.add(pool.allocate(1, owner)[0]); }"
WRITE = "store.write(blocks.get(blocks.size() - 1), offset, token); numTokens++;"
COPY = """else if (pool.refcount(blocks.get(last)) > 1) {
    int shared = blocks.get(last); int copy = pool.allocate(1, owner)[0];
    store.copyBlock(shared, copy); blocks.set(last, copy); pool.release(new int[] {shared}, owner); }"""
WRITERS_ACCEPTED = {
    "three cases": writer(NEW + COPY + WRITE),
    "token by token": writer(NEW + COPY.replace("store.copyBlock(shared, copy);", """for (int i = 0; i < offset; i++)
        store.write(copy, i, store.read(shared, i)); store.copyBlock(copy, copy);""") + WRITE),
    "releases before it copies": writer(NEW + COPY.replace("store.copyBlock(shared, copy); blocks.set(last, copy); "
                                                           "pool.release(new int[] {shared}, owner);",
                                                           "pool.release(new int[] {shared}); "
                                                           "store.copyBlock(shared, copy); "
                                                           "blocks.set(last, copy);") + WRITE),
    "by the rule": writer(NEW + "else { blocks.set(last, new pagedkv.sharing.CopyOnWrite().blockToWrite("
                          "blocks.get(last), pool, store, owner)); }" + WRITE),
    "the course's": lambda: jclass("pagedkv.sharing.SharedSequence"),
}
WRITERS_REJECTED = {
    "writes in place": (writer(NEW + WRITE), "the fork writes first, blocks of 4 tokens\n   A.append(1 … 6); "
                        "B = A.fork(\"B\"); "
                        "B.append(7); A.append(8)\n   yours:     B reads 1 2 3 4 5 6 8"),
    "copies always": (writer(NEW + COPY.replace("> 1", "> 0") + WRITE), "alone, nothing is ever copied"),
    "forgets the old one": (writer(NEW + COPY.replace("pool.release(new int[] {shared}, owner);", "") + WRITE),
                            "block 1 has refcount 2\n   expected:  1, as it stands in so many tables"),
    "copies full blocks": (writer("if (last >= 0 && pool.refcount(blocks.get(last)) > 1) {" + COPY.partition("{")[2]
                                  + "last = blocks.size() - 1;" + NEW + WRITE), "forked where a block is full"),
    "copies all shared blocks": (writer("""for (int i = 0; i < blocks.size(); i++)
        if (offset > 0 && pool.refcount(blocks.get(i)) > 1) {
        int shared = blocks.get(i); int copy = pool.allocate(1, owner)[0];
        store.copyBlock(shared, copy); blocks.set(i, copy);
        pool.release(new int[] {shared}, owner); }""" + NEW + WRITE), "blocks copied so far: 2\n   expected:  1"),
    "copies after it has written": (writer(NEW + "store.write(blocks.get(blocks.size() - 1), offset, token);"
                                           "if (offset > 0) {" + COPY.replace("else ", "") + "} numTokens++;"),
                                    "which is A's, was written to: 5 6 7 ·"),
    "takes an empty block": (writer(NEW + COPY.replace("store.copyBlock(shared, copy);", "") + WRITE),
                             "B reads 1 2 3 4 · · 7"),
    "copies backwards": (writer(NEW + COPY.replace("(shared, copy);", "(copy, shared);", 1) + WRITE),
                         "A reads 1 2 3 4 · ·"),
    "the copy is not entered": (writer(NEW + COPY.replace("blocks.set(last, copy);", "") + WRITE), "yours:     "),
    "gives the old one up first": (writer(NEW + """else if (pool.refcount(blocks.get(last)) > 1) {
        int shared = blocks.get(last);
        pool.release(new int[] {shared}, owner); int copy = pool.allocate(1, owner)[0]; store.copyBlock(shared, copy);
        blocks.set(last, copy); }""" + WRITE), "no block is left for the copy"),
    "counts before it is refused": (writer("numTokens++;" + NEW + COPY + WRITE.replace("numTokens++;", "")),
                                    "A has 32 tokens\n   expected:  31"),
    "swallows the refusal": (writer("try {" + NEW + COPY + WRITE + "} catch (RuntimeException e) { }"),
                             "when no block is free\n   yours:     the call went through"),
    "a block for every token": (writer("blocks.add(pool.allocate(1, owner)[0]);" + WRITE),
                                "A has blocks [0, 1]\n   expected:  1 of them"),
    "endless": (writer("while (true) { }"), "had not returned"),
    "half a class": (lambda: compile_java("public class MySequence { public void append(int token) { } }"),
                     "no public method fork()"),
    "another constructor": (lambda: compile_java("public class MySequence { public void append(int t) { } "
                                                 "public MySequence fork(String s) { return this; } "
                                                 "public int[] blocks() { return null; } "
                                                 "public int numTokens() { return 0; } public void close() { } }"),
                            "cannot be called"),
    "a number": (lambda: 5, "check gets your Java class"),
}

# ── 05.4 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def leaves_by_age(cached):
    parents = {node.parent for node in cached}
    return min((node for node in cached if not node.refcount and node.block not in parents),
               key=lambda node: node.last_used, default=None)


def by_depth(cached):
    """A parent is used as late as any below it, so nothing stands below the deepest of the oldest; but for a chain
    that hangs under another sequence's block."""
    nodes = {node.block: node for node in cached}

    def depth(node):
        return 0 if node.parent not in nodes else 1 + depth(nodes[node.parent])

    free = sorted((node.last_used, -depth(node), node.block) for node in cached if node.refcount == 0)
    return free[0][2] if free else None


def by_counting(cached):
    """Takes each block off its parent's count."""
    below = Counter(node.parent for node in cached)
    oldest = sorted(cached, key=lambda node: node.last_used)
    return next((node.block for node in oldest if not node.refcount and not below[node.block]), None)


def in_loops(cached):
    best = None
    for node in cached:
        if node.refcount > 0 or any(other.parent == node.block for other in cached):
            continue
        if best is None or node.last_used < best.last_used:
            best = node
    if best is not None:
        return best.block


def _free(cached):
    return [node for node in cached if not node.refcount]


def _leaves(cached):
    return [node for node in cached if node.block not in {other.parent for other in cached}]


def _first(nodes, key, default=None):
    return min(nodes, key=key).block if nodes else default


VICTIMS_REJECTED = {
    "the head": (lambda cached: _first(_free(cached), lambda node: node.last_used),
                 "Without block 4, nothing finds block 2 any more"),
    "the head, whatever the order": (lambda cached: _first([node for node in _free(cached) if node.parent is None],
                                                           lambda node: node.last_used), "one chain"),
    "the newest": (lambda cached: _first(_free(_leaves(cached)), lambda node: -node.last_used),
                   "was used later"),
    "any leaf": (lambda cached: _first(_free(_leaves(cached)), lambda node: node.block),
                 "used later"),
    "a held one": (lambda cached: _first(_leaves(cached), lambda node: node.last_used), "Somebody holds block 1"),
    "the least held": (lambda cached: _first(_leaves(cached), lambda node: (node.refcount, node.last_used)),
                       "Somebody holds block 1"),
    "never None": (lambda cached: min(_free(_leaves(cached)), key=lambda node: node.last_used).block,
                   "yours:     raised ValueError"),
    "deepest of the oldest": (by_depth, "Without block 1, nothing finds block 2 any more"),
    "leaves of what nobody holds": (lambda cached: _first(_leaves(_free(cached)), lambda node: node.last_used),
                                    "yours:     block 1\n   expected:  None: no block may go. Without block 1"),
    "0 is no parent": (lambda cached: _first([node for node in _free(cached) if node.block not in
                                              {other.parent for other in cached if other.parent}],
                                             lambda node: node.last_used), "0 is a parent too: `if node.parent`"),
    "0 is none": (lambda cached: _first([node for node in _free(cached) if node.block not in
                                         {other.parent or -1 for other in cached}], lambda node: node.last_used),
                  "0 is a parent too"),
    "0 is not returned": (lambda cached: _first(_free(_leaves(cached)), lambda node: node.last_used) or None,
                          "yours:     None\n   expected:  block 0. 0 is a block too"),
    "gives up": (lambda cached: cached and None, "yours:     None\n   expected:  block 7"),
    "no such block": (lambda cached: 99, "there is no block 99"),
    "text": (lambda cached: "7", "expected:  the id of a block, or None"),
    "true": (lambda cached: True, "expected:  the id of a block, or None"),
}

# ── 05.5 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def counts_first(pool, num_tokens, hits, block_size):
    new = -(-num_tokens // block_size) - len(hits)
    if new > pool.num_free_blocks - sum(not pool.refcount(block) for block in hits):
        return None
    pool.retain(hits)
    return hits + pool.allocate(new)


def raises(pool, num_tokens, hits, block_size):
    new = (num_tokens + block_size - 1) // block_size - len(hits)
    held = [block for block in hits if pool.refcount(block) > 0]
    if new + len(hits) - len(held) > pool.num_empty_blocks + pool.num_cached_blocks:
        raise OutOfBlocks("no room")
    for block in hits:
        pool.retain([block])
    return (*hits, *pool.allocate(new))


def one_by_one(pool, num_tokens, hits, block_size):
    """A list that it grows: each block when its turn has come."""
    num_blocks = num_tokens // block_size + (num_tokens % block_size > 0)
    idle = sum(1 for block in hits if pool.refcount(block) == 0)
    if num_blocks - len(hits) + idle > pool.num_free_blocks:
        return None
    pool.retain(hits)
    table = list(hits)
    while len(table) < num_blocks:
        table.extend(pool.allocate(1))
    return table


def _admit(room, rounded=lambda tokens, size: -(-tokens // size), retain_first=True):
    def admit(pool, num_tokens, hits, block_size):
        new = rounded(num_tokens, block_size) - len(hits)
        if new > room(pool, hits):
            return None
        if retain_first:
            pool.retain(hits)
            return hits + pool.allocate(new)
        taken = pool.allocate(new)
        pool.retain(hits)
        return hits + taken
    return admit


def _idle(pool, hits):
    return sum(not pool.refcount(block) for block in hits)


def _room(pool, hits):
    return pool.num_free_blocks - _idle(pool, hits)


def takes_it_back(pool, num_tokens, hits, block_size):
    pool.retain(hits)
    try:
        return hits + pool.allocate(-(-num_tokens // block_size) - len(hits))
    except OutOfBlocks:
        pool.release(hits)
        return None


def forgets_the_hits(pool, num_tokens, hits, block_size):
    new = -(-num_tokens // block_size) - len(hits)
    return None if new > pool.num_free_blocks - _idle(pool, hits) else hits + pool.allocate(new)


def retains_and_hopes(pool, num_tokens, hits, block_size):
    pool.retain(hits)
    return hits + pool.allocate(-(-num_tokens // block_size) - len(hits))


def empty_for_none(pool, num_tokens, hits, block_size):
    return counts_first(pool, num_tokens, hits, block_size) or []


def extends_the_hits(pool, num_tokens, hits, block_size):
    table = counts_first(pool, num_tokens, hits, block_size)
    if table is not None:
        hits += table[len(hits):]
        return hits


def takes_all_anew(pool, num_tokens, hits, block_size):
    new = -(-num_tokens // block_size)
    return None if new > pool.num_free_blocks else pool.allocate(new)


ADMISSIONS_REJECTED = {
    "hits are free": (_admit(lambda pool, hits: pool.num_free_blocks),
                      "5 are free, 2 of them are the hits, 4 more are needed"),
    "no hit is free": (_admit(lambda pool, hits: pool.num_free_blocks - len(hits)), "the hits are held by somebody"),
    "cached blocks counted twice": (_admit(lambda pool, hits: _room(pool, hits) + pool.num_cached_blocks),
                                    "the order of eviction too"),
    "cached blocks not counted": (_admit(lambda pool, hits: pool.num_empty_blocks), "expected:  a table"),
    "rounds down": (_admit(_room, lambda tokens, size: tokens // size),
                    "nothing is cached\n"),
    "one block too many": (_admit(_room, lambda tokens, size: tokens // size + 1),
                           "the last block is full"),
    "allocates first": (_admit(_room, retain_first=False),
                        "would be evicted first"),
    "takes it back": (takes_it_back, "as before, the order of eviction too"),
    "forgets the hits": (forgets_the_hits, "and block 5 has refcount 1\n   expected:  refcount 2"),
    "takes all anew": (takes_all_anew, "expected:  "),
    "retains and hopes": (retains_and_hopes, "yours:     allocate raised OutOfBlocks, after the hits were retained: "),
    "[] for None": (empty_for_none, 'With "is None" a caller would take [] for a table'),
    "extends the caller's hits": (extends_the_hits, "yours:     the caller's list of hits is now ["),
    "empties the caller's hits": (lambda pool, num_tokens, hits, size:
                                  counts_first(pool, num_tokens, list(hits), size) or hits.clear(),
                                  "yours:     the caller's list of hits is now []"),
    "retains, then refuses": (lambda pool, num_tokens, hits, size:
                              pool.retain(hits) or counts_first(pool, num_tokens, hits, size),
                              "yours:     "),
    "refuses all": (lambda pool, num_tokens, hits, size: hits and None, "expected:  "),
    "a number": (lambda pool, num_tokens, hits, size: 7, "expected:  a table"),
    "raises": (lambda pool, num_tokens, hits, size: pool.nothing, "raised AttributeError"),
}

ACCEPTED = {
    "05.1": SHARINGS_ACCEPTED,
    "05.2": {each.__name__: lambda each=each: each
             for each in (ByNode, ByBeginning, InBytes, InText, Sha256, Trie, HashThenCompare, AList)},
    "05.3": WRITERS_ACCEPTED,
    "05.4": {"leaves by age, as a node": lambda: leaves_by_age, "by counting": lambda: by_counting,
             "in loops": lambda: in_loops},
    "05.5": {"counts first": lambda: counts_first, "raises, a tuple": lambda: raises, "one by one": lambda: one_by_one},
}
REJECTED = {
    "05.1": SHARINGS_REJECTED,
    "05.2": {name: (lambda answer=answer: answer, message) for name, (answer, message) in INDEXES_REJECTED.items()},
    "05.3": WRITERS_REJECTED,
    "05.4": {name: (lambda answer=answer: answer, message) for name, (answer, message) in VICTIMS_REJECTED.items()},
    "05.5": {name: (lambda answer=answer: answer, message) for name, (answer, message) in ADMISSIONS_REJECTED.items()},
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """Fewer of what costs time; who needs all of it asks for it."""
    start()
    monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 8.0)
    monkeypatch.setattr("pagedkv.lab.sharing_index._BIRTHDAY_SECONDS", 0.2)
    monkeypatch.setattr("pagedkv.lab.sharing_writes._RANDOM_CASES", 8)


@pytest.mark.parametrize("exercise, name", [(exercise, name) for exercise, answers in ACCEPTED.items()
                                            for name in answers])
def test_a_right_answer_is_accepted(exercise, name):
    verdict = grade(find_exercise(exercise), ACCEPTED[exercise][name]())
    assert verdict.outcome == CORRECT, verdict


@pytest.mark.parametrize("exercise, name", [(exercise, name) for exercise, answers in REJECTED.items()
                                            for name in answers])
def test_a_wrong_answer_gets_the_message_it_deserves(exercise, name, monkeypatch):
    if name in ("crc32", "sha256 cut short"):
        monkeypatch.setattr("pagedkv.lab.sharing_index._BIRTHDAY_SECONDS", 100.0)
        monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 100.0)
    if name in ("loops", "endless"):
        monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 1.0)
    answer, message = REJECTED[exercise][name]
    verdict = grade(find_exercise(exercise), answer())
    assert verdict.outcome == WRONG, verdict
    assert message in str(verdict), verdict


def test_every_exercise_has_enough_answers_here():
    for exercise in exercises_of("05"):
        assert len(ACCEPTED[exercise.id]) >= 2 and len(REJECTED[exercise.id]) >= 3


def test_java_placeholders_are_seen_when_they_run():
    for exercise, answer in (("05.1", sharing("throw new NotYet();")), ("05.3", writer("throw new NotYet();"))):
        verdict = grade(find_exercise(exercise), answer())
        assert verdict.outcome == NOT_YET and "() still has its placeholder" in str(verdict), verdict


def test_an_index_that_says_nothing_is_not_finished():
    assert grade(find_exercise("05.2"), SaysNothing).outcome == NOT_YET


def test_a_hash_of_ones_own_is_put_back(monkeypatch):
    """The weak hash is there during the check only, also where the module had one of its own."""
    before = globals().get("hash", "none")
    grade(find_exercise("05.2"), PythonsHashOfBytes)
    monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 0.5)
    grade(find_exercise("05.2"), Loops)
    assert globals().get("hash", "none") == before == "none" and hash is builtins.hash


def test_counter_examples_have_pictures_with_alternative_text():
    leak = grade(find_exercise("05.1"), SHARINGS_REJECTED["entered, not counted"][0]()).picture
    reads = grade(find_exercise("05.3"), WRITERS_REJECTED["writes in place"][0]()).picture
    assert leak[1].startswith("The pool at both are there. yours: refcounts 1 1 1 1 1 1 0")
    assert reads[1] == ("What the sequences read. A reads 1 2 3 4 5 6 8; "
                        "B reads 1 2 3 4 5 6 8, and should read 1 2 3 4 5 6 7")
    assert all(data.startswith(b"\x89PNG") for data, _ in (leak, reads))


def test_a_victim_may_be_given_as_the_block_itself():
    assert isinstance(leaves_by_age([CachedBlock(1, None, 0, 1)]), CachedBlock)
