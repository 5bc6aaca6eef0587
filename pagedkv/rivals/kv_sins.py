"""The three sins of static reservation, as numbers (claim S3).

    fragmentation   most of the memory holds no tokens                          `memory_without_tokens`
    the long tail   the longest request decides what everybody sets aside       `long_tail`
    no reuse        blocks of the same content are kept once for each request   `duplicate_blocks`
"""

from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from pagedkv.rivals.kv_schemes import reserve_max
from pagedkv.rivals.kv_simulation import simulate
from pagedkv.rivals.kv_workload import KVRequest


def memory_without_tokens(requests: Sequence[KVRequest], capacity_bytes: int, bytes_per_token: int,
                          longest_tokens: int | None = None) -> float:
    """The share of the memory, 0 to 1, that holds no tokens while requests wait for it, when every one of them sets
    aside the greatest length."""
    return 1 - simulate(requests, reserve_max(), capacity_bytes, bytes_per_token, longest_tokens).waste.filled_bytes


class LongTail(NamedTuple):
    """longest_tokens       what everybody has to set aside
    usual_tokens         what would be enough for all but the rarest requests
    mean_tokens          what a request has in the end, on average
    fits                 how many requests the memory holds at a time
    fits_without_rarest  how many it would hold, were it not for the rarest
    """

    longest_tokens: int
    usual_tokens: int
    mean_tokens: float
    fits: int
    fits_without_rarest: int

    @property
    def filled_in_the_end(self) -> float:
        """Of a slot, the share that is filled when its request ends, on average; before that it is less."""
        return self.mean_tokens / self.longest_tokens


def long_tail(requests: Sequence[KVRequest], capacity_tokens: int, rarest_share: float = 0.01) -> LongTail:
    """What the longest `rarest_share` of the requests cost all others. Raises ValueError without requests, or for a
    share that leaves none."""
    lengths = sorted(request.total_tokens for request in requests)
    usual = lengths[:len(lengths) - round(len(lengths) * rarest_share)]
    if not usual or not 0 <= rarest_share < 1:
        raise ValueError(f"rarest_share {rarest_share} of {len(lengths)} requests leaves none")
    return LongTail(lengths[-1], usual[-1], sum(lengths) / len(lengths), capacity_tokens // lengths[-1],
                    capacity_tokens // usual[-1])


class Duplicates(NamedTuple):
    """blocks    how many full blocks the prompts have
    distinct  how many of them differ: what a memory needs that keeps equal ones once
    """

    blocks: int
    distinct: int

    @property
    def duplicates(self) -> int:
        return self.blocks - self.distinct

    @property
    def share(self) -> float:
        return self.duplicates / self.blocks if self.blocks else 0.0


def duplicate_blocks(prompts: Iterable[Sequence[int]], block_tokens: int = 16) -> Duplicates:
    """How many blocks of these prompts (token ids) have a content that is there already. A block's keys and values
    depend on all tokens before it, so two blocks are equal only if all before them are. A last block that is not full
    is not counted: it is still being written."""
    if block_tokens < 1:
        raise ValueError(f"block_tokens is at least 1, got {block_tokens}")
    known: dict[tuple[int, tuple[int, ...]], int] = {}  # (number of the block before, tokens) → number
    blocks = 0
    for prompt in prompts:
        before = -1
        for start in range(0, len(prompt) - block_tokens + 1, block_tokens):
            before = known.setdefault((before, tuple(prompt[start:start + block_tokens])), len(known))
            blocks += 1
    return Duplicates(blocks, len(known))


def duplicate_ids(requests: Iterable[Sequence[Hashable]]) -> Duplicates:
    """The same for a trace that names each request's blocks by ids which are equal where contents are, such as the
    `hash_ids` of Mooncake's."""
    seen: set[Hashable] = set()
    blocks = 0
    for ids in requests:
        blocks += len(ids)
        seen.update(ids)
    return Duplicates(blocks, len(seen))
