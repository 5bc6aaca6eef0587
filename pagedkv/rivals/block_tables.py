"""Block tables in three layouts: which physical block holds a sequence's logical block number i?

    dense      one array with a row for every sequence that there could be, as long as the longest sequence could
               become. What a GPU kernel reads, since its rows are found by multiplication
    two-level  a dictionary from the sequence's id to an array of its own, as long as needed
    linked     a dictionary from the sequence's id to the first of a chain of nodes, one for each block. Looking up
               number i takes i steps

All three answer the same calls:

    set(sequence, blocks)   append(sequence, block)   lookup(sequence, logical)   blocks(sequence)   remove(sequence)

and refuse the same: a sequence without a table (KeyError), and a logical block that is not there (IndexError),
*negative ones included*: in Python, table[-1] is the last block, so a position that has gone wrong by one would read
another token's keys and values. Sequences are ints from 0.

Two measures of size. `num_bytes` is what this process holds, from sys.getsizeof: arrays, dictionary, nodes, and the
ints that nodes point to (which a pool may hold as well). `layout_bytes` is what the same layout takes in C, with 4
bytes for a block and 8 for a pointer; figures in print (claim B6) mean this one.
"""

import sys
from array import array
from collections.abc import Iterable

from pagedkv.core.arguments import as_count
from pagedkv.core.kv_size import at_least_1

ENTRY_BYTES, POINTER_BYTES = 4, 8
_NONE = -1  # as the length of a dense row: no table. What lies beyond a row's length means nothing


def dense_layout_bytes(num_sequences: int, blocks_per_sequence: int) -> int:
    """Rows × columns × 4 B, whether anything is in them or not."""
    return as_count(num_sequences) * as_count(blocks_per_sequence) * ENTRY_BYTES


def two_level_layout_bytes(num_sequences: int, num_entries: int) -> int:
    """4 B for each block that is there, and a pointer for each sequence. The dictionary's own hash table is not
    counted, nor was it in the article."""
    return as_count(num_entries) * ENTRY_BYTES + as_count(num_sequences) * POINTER_BYTES


def linked_layout_bytes(num_sequences: int, num_entries: int) -> int:
    """16 B for each block: its number, 4 B of padding, and the pointer to the next; a pointer for each sequence."""
    return as_count(num_entries) * (ENTRY_BYTES + 4 + POINTER_BYTES) + as_count(num_sequences) * POINTER_BYTES


class DenseTables:
    """Rows for max_sequences sequences of up to max_blocks blocks; a sequence is the number of its row.

    Raises ValueError for a sequence or a length that is beyond that."""

    def __init__(self, max_sequences: int, max_blocks: int):
        self.max_sequences = at_least_1(max_sequences, "max_sequences")
        self.max_blocks = at_least_1(max_blocks, "max_blocks")
        self._entries = array("i", [0]) * (self.max_sequences * self.max_blocks)
        self._lengths = array("i", [_NONE]) * self.max_sequences

    def set(self, sequence: int, blocks: Iterable[int]) -> None:
        row = array("i", blocks)
        if not 0 <= sequence < self.max_sequences:
            raise ValueError(f"there is no row {sequence}: rows go from 0 to {self.max_sequences - 1}")
        if len(row) > self.max_blocks:
            raise ValueError(f"{len(row)} blocks do not fit into a row of {self.max_blocks}")
        start = sequence * self.max_blocks
        self._entries[start:start + len(row)] = row
        self._lengths[sequence] = len(row)

    def append(self, sequence: int, block: int) -> None:
        length = self._length(sequence)
        if length == self.max_blocks:
            raise ValueError(f"sequence {sequence} has {length} blocks, and a row has no room for more")
        self._entries[sequence * self.max_blocks + length] = block
        self._lengths[sequence] = length + 1

    def lookup(self, sequence: int, logical: int) -> int:
        length = self._length(sequence)
        if not 0 <= logical < length:
            raise _no_such_block(sequence, logical, length)
        return self._entries[sequence * self.max_blocks + logical]

    def blocks(self, sequence: int) -> list[int]:
        start, length = sequence * self.max_blocks, self._length(sequence)
        return self._entries[start:start + length].tolist()

    def remove(self, sequence: int) -> None:
        self._length(sequence)  # refuses one without a table
        self._lengths[sequence] = _NONE

    @property
    def num_bytes(self) -> int:
        return sys.getsizeof(self._entries) + sys.getsizeof(self._lengths)

    @property
    def layout_bytes(self) -> int:
        return dense_layout_bytes(self.max_sequences, self.max_blocks)

    def _length(self, sequence: int) -> int:
        length = self._lengths[sequence] if 0 <= sequence < self.max_sequences else _NONE
        if length == _NONE:
            raise _no_such_sequence(sequence)
        return length


class TwoLevelTables:
    """An array of its own for each sequence."""

    def __init__(self):
        self._tables: dict[int, array] = {}

    def set(self, sequence: int, blocks: Iterable[int]) -> None:
        self._tables[_as_id(sequence)] = array("i", blocks)

    def append(self, sequence: int, block: int) -> None:
        self._table(sequence).append(block)

    def lookup(self, sequence: int, logical: int) -> int:
        table = self._table(sequence)
        if not 0 <= logical < len(table):
            raise _no_such_block(sequence, logical, len(table))
        return table[logical]

    def blocks(self, sequence: int) -> list[int]:
        return self._table(sequence).tolist()

    def remove(self, sequence: int) -> None:
        if self._tables.pop(sequence, None) is None:
            raise _no_such_sequence(sequence)

    @property
    def num_bytes(self) -> int:
        return sum(map(sys.getsizeof, (self._tables, *self._tables, *self._tables.values())))

    @property
    def layout_bytes(self) -> int:
        return two_level_layout_bytes(len(self._tables), sum(map(len, self._tables.values())))

    def _table(self, sequence: int) -> array:
        try:
            return self._tables[sequence]
        except KeyError:
            raise _no_such_sequence(sequence) from None


class _Node:
    __slots__ = ("block", "next")

    def __init__(self, block: int):
        self.block, self.next = block, None


class _Chain:
    """first is None in an empty one. `last` is kept so that an append need not walk."""

    __slots__ = ("first", "last", "length")

    def __init__(self):
        self.first = self.last = None
        self.length = 0

    def append(self, block: int) -> None:
        node = _Node(block)
        if self.last is None:
            self.first = node
        else:
            self.last.next = node
        self.last = node
        self.length += 1

    def __iter__(self):
        node = self.first
        while node is not None:
            yield node
            node = node.next


class LinkedTables:
    """A chain of nodes for each sequence."""

    def __init__(self):
        self._chains: dict[int, _Chain] = {}

    def set(self, sequence: int, blocks: Iterable[int]) -> None:
        chain = _Chain()
        for block in blocks:
            chain.append(_as_entry(block))
        self._chains[_as_id(sequence)] = chain

    def append(self, sequence: int, block: int) -> None:
        self._chain(sequence).append(_as_entry(block))

    def lookup(self, sequence: int, logical: int) -> int:
        chain = self._chain(sequence)
        if not 0 <= logical < chain.length:
            raise _no_such_block(sequence, logical, chain.length)
        node = chain.first
        for _ in range(logical):
            node = node.next
        return node.block

    def blocks(self, sequence: int) -> list[int]:
        return [node.block for node in self._chain(sequence)]

    def remove(self, sequence: int) -> None:
        if self._chains.pop(sequence, None) is None:
            raise _no_such_sequence(sequence)

    @property
    def num_bytes(self) -> int:
        total = sum(map(sys.getsizeof, (self._chains, *self._chains, *self._chains.values())))
        ints = {}  # several nodes may share an int object
        for chain in self._chains.values():
            for node in chain:
                total += sys.getsizeof(node)
                ints[id(node.block)] = sys.getsizeof(node.block)
        return total + sum(ints.values())

    @property
    def layout_bytes(self) -> int:
        return linked_layout_bytes(len(self._chains), sum(chain.length for chain in self._chains.values()))

    def _chain(self, sequence: int) -> _Chain:
        try:
            return self._chains[sequence]
        except KeyError:
            raise _no_such_sequence(sequence) from None


def _as_entry(block: int) -> int:
    # An array takes int32 only. A node would take anything, and be found out much later.
    return block if type(block) is int and 0 <= block < 1 << 31 else array("i", (block,))[0]


def _as_id(sequence: int) -> int:
    return as_count(sequence, "a sequence")


def _no_such_sequence(sequence: int) -> KeyError:
    return KeyError(f"sequence {sequence} has no block table: set one first")


def _no_such_block(sequence: int, logical: int, length: int) -> IndexError:
    if logical < 0:
        return IndexError(f"logical block {logical} of sequence {sequence} is before its first: the position it was "
                          "worked out from must have been negative")
    return IndexError(f"sequence {sequence} has {length} blocks, there is no logical block {logical}")
