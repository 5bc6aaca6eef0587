"""What goes wrong with a shared pool as a whole, as types; refusals of a call are those of `pagedkv.core.errors`.

Where Python has an error of its own for the case (a file that is not there), ours is one of those too.
"""

from pagedkv.core.errors import PoolError


class SharedPoolError(Exception):
    """Anything about a shared pool that is not the answer to one call."""


class NoSuchPool(SharedPoolError, FileNotFoundError):
    """No pool of this name, or no longer."""


class PoolExists(SharedPoolError, FileExistsError):
    """A pool is to be created under a name that is taken."""


class NotReady(SharedPoolError):
    """The pool is still being created, or its creator died before it was done."""


class IncompatiblePool(SharedPoolError):
    """The file is no shared pool, or one of another version or size, or it is truncated."""


class NoFreeSlot(SharedPoolError):
    """As many members as the pool has slots have joined it already."""


class NoSharedMemory(SharedPoolError, OSError):
    """There is too little shared memory for a pool of this size."""


class PoolClosed(SharedPoolError, ValueError):
    """A pool is used after its `close()`, or in a forked child of the process that joined it."""


class NoAtomics(SharedPoolError):
    """Neither a C compiler nor libatomic: nothing to change a word in shared memory with."""


class NoIndex(SharedPoolError, ValueError):
    """The pool was made without a prefix index, and something is to be found in it or published."""


class BlockOverrun(PoolError):
    """Somebody wrote in front of a block or behind it; seen in guard mode only. `overruns` says where."""

    def __init__(self, message: str, overruns: tuple = ()):
        super().__init__(message)
        self.overruns = overruns
