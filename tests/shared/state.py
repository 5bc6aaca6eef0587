"""What can be seen of a pool from outside: read from its file, at the offsets that the specification gives.

Not by way of `pagedkv.shared.layout`, so that a mistake there does not hide itself.
"""

import mmap
import struct
from contextlib import contextmanager
from pathlib import Path

HOLDERS, CACHED, CONTENT = (1 << 48) - 1, 1 << 48, 1 << 49


@contextmanager
def numbers(name):
    """The whole file as u64, to read and to write."""
    with open(Path("/dev/shm") / f"pagedkv.{name}", "r+b") as file, mmap.mmap(file.fileno(), 0) as mapping:
        view = memoryview(mapping)
        words = view.cast("Q")
        try:
            yield words
        finally:
            words.release()
            view.release()


class State:
    """A copy of everything but the data."""

    def __init__(self, name):
        file = (Path("/dev/shm") / f"pagedkv.{name}").read_bytes()
        self.num_blocks, = struct.unpack_from("<Q", file, 32)
        slots, empty, content, words, counts, index, self.data_at = self.offsets = struct.unpack_from("<7Q", file, 64)
        self.in_use = [struct.unpack_from("<Q", file, slots + 64 * slot + 24)[0] for slot in range(48)]
        self.words = struct.unpack_from(f"<{self.num_blocks}Q", file, words)
        row = -(-4 * self.num_blocks // 64) * 64
        self.counts = [struct.unpack_from(f"<{self.num_blocks}I", file, counts + slot * row) for slot in range(48)]
        tokens, entries = struct.unpack_from("<II", file, 48)
        self.last_node, = struct.unpack_from("<Q", file, 256)
        self.buckets = struct.unpack_from(f"<{entries}Q", file, index)
        record_bytes = -(-(48 + 4 * tokens) // 64) * 64
        self.records = [] if not tokens else [
            (*struct.unpack_from("<QQ32s", file, at), struct.unpack_from(f"<{tokens}i", file, at + 48))
            for at in range(index + 8 * entries, index + 8 * entries + self.num_blocks * record_bytes, record_bytes)]
        hints = -(-self.num_blocks // 64)
        self.empty, self.content = ({block for i, number in enumerate(struct.unpack_from(f"<{hints}Q", file, at))
                                     for block in range(64 * i, 64 * i + 64) if number >> block % 64 & 1}
                                    for at in (empty, content))

    @property
    def free(self):
        return {block for block, word in enumerate(self.words) if not word & HOLDERS}

    @property
    def cached(self):
        return {block for block, word in enumerate(self.words) if word & CACHED}

    def refcounts(self):
        return [0 if word & CACHED else sum(row[block] for slot, row in enumerate(self.counts) if word >> slot & 1)
                for block, word in enumerate(self.words)]

    def faults(self, slots):
        """What must not be when nobody is in an operation, only the members in `slots` are there, and all is reaped and
        healed."""
        allowed = sum(1 << slot for slot in slots)
        for block, word in enumerate(self.words):
            holders = {slot for slot in range(48) if word >> slot & 1}
            if word & HOLDERS & ~allowed:
                yield f"block {block} is held by slots {holders}, only {slots} are there"
            counted = {slot for slot in range(48) if self.counts[slot][block]}
            if word & CACHED and (len(holders) != 1 or counted):
                yield f"block {block} is cached, with holders {holders} and counts of {counted}"
            if not word & CACHED and counted != holders:
                yield f"block {block} has the holders {holders} but counts of {counted}"
            hinted = block in (self.content if word & CONTENT else self.empty)
            if not holders and not hinted:
                yield f"block {block} is free and has no hint"
            if word & CACHED and word & CONTENT:
                yield f"block {block} is cached and has content"
        if self.records:
            yield from self._faults_of_the_index()
        in_use = {slot for slot, number in enumerate(self.in_use) if number}
        if in_use != set(slots):
            yield f"the slots {in_use} are in use, {slots} were expected"
        beyond = (self.empty | self.content) - set(range(self.num_blocks))
        if beyond:
            yield f"hints of blocks {beyond}, which do not exist"

    def _faults_of_the_index(self):
        with_content = [block for block, word in enumerate(self.words) if word & CONTENT]
        for block in with_content:
            node, parent, salt, _ = self.records[block]
            if not 1 <= node <= self.last_node:
                yield f"block {block} has content and the node {node}; the last one is {self.last_node}"
            if parent >= node:
                yield f"block {block} has the node {node} and the parent {parent}, which is not older"
            if parent and salt != bytes(32):
                yield f"block {block} has a parent and a salt"
        nodes = [self.records[block][0] for block in with_content]
        if len(set(nodes)) < len(nodes):
            yield f"two blocks have the same node: {sorted(nodes)}"
        for at, entry in enumerate(self.buckets):
            if entry and not 1 <= entry & 0xFFFF_FFFF <= self.num_blocks:
                yield f"bucket {at} has an entry of block {(entry & 0xFFFF_FFFF) - 1}"
