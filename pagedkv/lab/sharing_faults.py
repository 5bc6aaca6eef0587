"""Managers with one fault each, for notebook 05. What they do wrong, real engines have done."""

from collections.abc import Hashable

from pagedkv.core.manager import KVCacheManager, Sequence
from pagedkv.core.prefix_cache import PrefixCachePool


class _KeepsEntries(PrefixCachePool):
    """Fault: an evicted block stays in the index."""

    source = "pool that forgets to forget"

    def _evict(self, n: int, owner: Hashable) -> None:
        pop = self._idle.popitem
        self._free += [pop(last=False)[0] for _ in range(n)]  # missing: self._forget(…)


class StaleIndexManager(KVCacheManager):
    """Finds a block by what it held before it was evicted (nano-vllm#163, vllm#4764)."""

    source = "manager whose index keeps evicted blocks"

    def __init__(self, num_blocks: int, block_size: int = 16):
        super().__init__(num_blocks, block_size)
        self.pool = _KeepsEntries(num_blocks)
        self._refcounts, self._keys = self.pool._refcounts, self.pool._keys


class HeadFirstManager(KVCacheManager):
    """Gives a sequence's blocks back from the first to the last, so that the head of its chain is evicted first."""

    source = "manager that evicts heads first"

    def free_sequence(self, seq: Sequence) -> None:
        if seq.is_live:
            seq.block_table = seq.block_table[::-1]  # what is freed below goes from the end to the beginning
        super().free_sequence(seq)
