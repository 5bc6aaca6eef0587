"""The shared pool: one pool of blocks for several processes, in Python and Java, in shared memory.

    layout                the bytes, and the steps of every operation: the specification
    slots                 who is a member, and whether it lives
    segment               the files: making, opening, removing them
    portable_operations   the operations in Python, with the argument why they are right
    compiled_operations   the same in C, for speed
    guard                 finding writes beyond a block
    pool                  `SharedPool`, what one uses
    prefix_pool           what `KVCacheManager` needs of it
    watch                 what all members do, as events
"""

from pagedkv.shared.errors import (BlockOverrun, IncompatiblePool, NoAtomics, NoFreeSlot, NoIndex, NoSharedMemory,
                                   NoSuchPool, NotReady, PoolClosed, PoolExists, SharedPoolError)
from pagedkv.shared.pool import ReapReport, SharedPool

__all__ = ["BlockOverrun", "IncompatiblePool", "NoAtomics", "NoFreeSlot", "NoIndex", "NoSharedMemory", "NoSuchPool",
           "NotReady", "PoolClosed", "PoolExists", "ReapReport", "SharedPool", "SharedPoolError"]
