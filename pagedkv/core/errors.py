"""What a pool refuses, as types.

Every refusal leaves the pool exactly as it was. The names are the same in Java, with `Exception` at the end.
A count or an id of the wrong *kind* (a negative count, a float, a bool) is an ordinary ValueError or TypeError:
that is a mistake in the calling code, not an answer of the pool.
"""


class PoolError(Exception):
    """Any refusal of a pool."""


class OutOfBlocks(PoolError):
    """More blocks were asked for than are free."""


class DoubleFree(PoolError):
    """A block was released more often than it is referenced."""


class UseAfterFree(PoolError):
    """A block that is free was used as if somebody still held it."""


class NotABlock(PoolError):
    """An id outside 0 … num_blocks - 1."""


class OutOfMemory(PoolError):
    """No free memory fits the request: too little is left, or what is left is in pieces that are too small."""
