"""Reading the arguments of a pool call: counts and block ids, of whatever integer type they come in.

All pools behind the contract read their arguments here, so that all of them accept and refuse the same things.
"""

from collections.abc import Iterable
from operator import index

from pagedkv.core.errors import NotABlock


def as_integer(value: object, what: str) -> int:
    """`value` as a plain int. Raises TypeError for a bool or a non-integer."""
    if hasattr(value, "tolist"):  # a number of NumPy or PyTorch, which may be a bool of theirs
        value = value.tolist()
    # A bool is an int to Python, and True would silently mean block 1.
    if isinstance(value, bool):
        raise TypeError(f"{what} is an integer, got the bool {value}")
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{what} is an integer, got {value!r} of type {type(value).__name__}") from None


def as_count(n: object, what: str = "a number of blocks") -> int:
    """`n` as a plain int. Raises TypeError for a bool or a non-integer, ValueError for a negative number."""
    n = as_integer(n, what)
    if n < 0:
        raise ValueError(f"{what} cannot be negative, got {n}")
    return n


def as_block_id(block: object, num_blocks: int) -> int:
    """`block` as a plain int. Raises TypeError for a bool or a non-integer, NotABlock outside the pool."""
    return as_block_ids([block], num_blocks)[0]


def as_block_ids(blocks: Iterable, num_blocks: int) -> list[int]:
    """`blocks` as a list of plain ints: a list, tuple, range, array or any other iterable of integers.

    Raises TypeError if one of them is not an integer, NotABlock if one is outside the pool."""
    ids = as_ints(blocks)
    for block in ids:
        if not 0 <= block < num_blocks:
            raise NotABlock(f"{block} is not a block of this pool: its ids go from 0 to {num_blocks - 1}")
    return ids


def as_ints(blocks: Iterable) -> list[int]:
    """The same without a look at the range, for a pool that looks at it itself."""
    return [as_integer(block, "a block id") for block in as_list(blocks)]


def as_list(blocks: Iterable) -> list:
    """`blocks` as a list, its elements untouched. Raises TypeError for a single block or a string."""
    if isinstance(blocks, (str, bytes)) or not isinstance(blocks, Iterable):
        raise TypeError(f"blocks are given as a list, such as [7], got {blocks!r}")
    return list(blocks)
