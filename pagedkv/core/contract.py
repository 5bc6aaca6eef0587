"""The contract of a block pool: what every pool in this project promises, in whichever language it is written.

A *block* is an int from 0 to num_blocks - 1. A block is *free*, or it is *held*: then its *refcount* says how many
references to it exist. Which ids an allocation gives, and in which order, is not part of the contract.

    allocate  free blocks become held, each with refcount 1
    retain    one more reference to each block
    release   one reference less; at zero the block is free again

A call does all that it was asked or nothing. The same block may stand in one call several times, and then counts
as often: release([b, b]) is right if b's refcount is at least 2. What is refused, and with which error, is in
`pagedkv.core.errors`; that a pool keeps all of this is what `pagedkv.core.conformance` checks.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol, runtime_checkable

from pagedkv.core.events import Event


@runtime_checkable
class Pool(Protocol):
    """What can be called a pool. `owner` is a label for whoever looks on; the pool itself never reads it."""

    num_blocks: int
    num_free_blocks: int

    def allocate(self, n: int, owner: Any = None) -> list[int]: ...

    def retain(self, blocks: Iterable[int]) -> None: ...

    def release(self, blocks: Iterable[int]) -> None: ...

    def refcount(self, block: int) -> int: ...


class ObservedPool(Pool, Protocol):
    """A pool that also reports: one `Event` per call to `observer`, after the fact, refusals included.

    `retain` and `release` then take an owner too, so that a report can say who holds what."""

    observer: Callable[[Event], None] | None

    def retain(self, blocks: Iterable[int], owner: Any = None) -> None: ...

    def release(self, blocks: Iterable[int], owner: Any = None) -> None: ...
