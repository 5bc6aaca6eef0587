"""Block tables: where a token of a sequence lies in the pool.

A *position* counts the tokens of a sequence from 0. A *logical block* is the place of a block in its sequence, a *physical
block* its id in the pool. A sequence's *block table* is the list of its physical blocks, by logical block: what a page
table is to a process. A *slot* numbers the places for tokens in the memory of the whole pool.

    position 37, blocks of 16 tokens:   logical block 37 // 16 = 2, offset 37 % 16 = 5
    block table [9, 4, 7]:              physical block 7, slot 7 * 16 + 5 = 117
"""

from collections.abc import Sequence
from typing import NamedTuple

from pagedkv.core.arguments import as_count, as_integer


class Location(NamedTuple):
    """A position, and each step from it to the slot."""

    position: int
    logical_block: int
    offset: int
    physical_block: int
    slot: int

    def __str__(self) -> str:
        return (f"position {self.position} → logical block {self.logical_block}, offset {self.offset} "
                f"→ physical block {self.physical_block} → slot {self.slot}")


def locate(block_table: Sequence[int], position: int, block_size: int) -> Location:
    """Where the token at `position` lies. block_size in tokens.

    Raises IndexError for a position below 0, or beyond the table. A negative one is refused before it is divided:
    -1 // 16 is -1, and Python's table[-1] is the last block, so the wrong token would be read without a word. (Java's
    -1 / 16 is 0, which is the first block, and -1 >> 4 is -1.)"""
    position, block_size = as_integer(position, "a position"), as_block_size(block_size)
    if position < 0:
        raise IndexError(f"there is no position {position}: a sequence's positions begin at 0")
    logical_block, offset = divmod(position, block_size)
    if logical_block >= len(block_table):
        raise IndexError(f"position {position} is in logical block {logical_block}, the table has {len(block_table)} "
                         f"blocks of {block_size} tokens")
    physical_block = as_count(block_table[logical_block], "a block id")
    return Location(position, logical_block, offset, physical_block, physical_block * block_size + offset)


def num_blocks_for(num_tokens: int, block_size: int) -> int:
    """How many blocks hold `num_tokens` tokens: the last one may be partly filled."""
    return -(-as_count(num_tokens, "a number of tokens") // as_block_size(block_size))


def as_block_size(block_size: object) -> int:
    """`block_size` as a plain int of at least 1. Raises ValueError below, TypeError for a bool or a non-integer."""
    block_size = as_count(block_size, "block_size")
    if block_size < 1:
        raise ValueError("block_size is the number of tokens in a block, at least 1, got 0")
    return block_size
