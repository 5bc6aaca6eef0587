"""How large should a block be? What each size wastes, for sequences of known lengths.

A sequence of L tokens in blocks of B takes ⌈L / B⌉ blocks, and the last one is not full, as a rule. What is empty in it
is all that paging wastes; the smaller the blocks, the less of that, and the more there are: entries in block tables,
allocations and releases.

    utilisation  tokens ÷ token slots in allocated blocks; what is missing to 1 is the waste
    nested       block sizes of which each divides the next. Larger ones can then only waste as much or more (claim B4):
                 two blocks of 16 that a block of 32 replaces are never more than it. Of 32 and 48 neither divides the
                 other, and 48 tokens fill three quarters of two blocks of 32, and all of one of 48

The mean waste is often given as half a block, exactly (B − 1) / 2 tokens (claim S8). That holds if all remainders are
equally frequent: for lengths that are spread out and much longer than a block, and not for equal or short ones.
"""

import random
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pagedkv.core.arguments import as_count
from pagedkv.core.contract import Pool
from pagedkv.core.kv_size import at_least_1
from pagedkv.core.manager import KVCacheManager
from pagedkv.core.pool import BlockPool
from pagedkv.rivals.block_tables import two_level_layout_bytes
from pagedkv.rivals.kv_workload import AZURE_CODE, BURSTGPT, MOONCAKE_CONVERSATION, LengthProfile, draw_requests

NESTED_SIZES_TOKENS = (1, 8, 16, 32, 64, 128)
# From an article on an A100 (claim B4). The first row rises with nested sizes, so it is no utilisation of blocks.
ARTICLE_SIZES_TOKENS = (16, 32, 64, 128)
ARTICLE_UTILISATION = (0.68, 0.82, 0.91, 0.94)
ARTICLE_ALLOCATE_US = (0.8, 0.6, 0.5, 0.7)


class BlockSizeRow(NamedTuple):
    """What a block size means for a set of sequences.

    expected_waste_tokens  (block_size − 1) / 2 per sequence
    table_bytes            4 B per entry and 8 B per sequence
    """

    lengths: str
    block_size: int
    num_sequences: int
    num_tokens: int
    num_blocks: int

    @property
    def num_slots(self) -> int:
        return self.num_blocks * self.block_size

    @property
    def utilisation(self) -> float:
        return self.num_tokens / self.num_slots

    @property
    def waste(self) -> float:
        """The share of the allocated token slots that hold no token."""
        return 1 - self.utilisation

    @property
    def waste_tokens(self) -> float:
        """Per sequence, on average."""
        return (self.num_slots - self.num_tokens) / self.num_sequences

    @property
    def expected_waste_tokens(self) -> float:
        return (self.block_size - 1) / 2

    @property
    def num_entries(self) -> int:
        return self.num_blocks

    @property
    def table_bytes(self) -> int:
        return two_level_layout_bytes(self.num_sequences, self.num_entries)


def _drawn(profile: LengthProfile) -> Callable[[int, int], list[int]]:
    return lambda count, seed: [request.total_tokens for request in draw_requests(profile, count, seed)]


def _between(least: int, most: int) -> Callable[[int, int], list[int]]:
    def draw(count: int, seed: int) -> list[int]:
        rng = random.Random(seed)
        return [rng.randint(least, most) for _ in range(count)]
    return draw


# name → (count, seed) → that many lengths in tokens, prompt and answer together
LENGTHS: dict[str, Callable[[int, int], list[int]]] = {
    "all 287 tokens": lambda count, seed: [287] * count,
    "1 to 40 tokens": _between(1, 40),
    "drawn like BurstGPT (chat)": _drawn(BURSTGPT),
    "drawn like Azure 2023 (code)": _drawn(AZURE_CODE),
    "drawn like Mooncake (long tail)": _drawn(MOONCAKE_CONVERSATION),
}


def draw_lengths(name: str, count: int = 2000, seed: int = 1) -> list[int]:
    """So many lengths of one of LENGTHS, the same for the same seed."""
    if name not in LENGTHS:
        raise ValueError(f"there are no lengths {name!r}: take one of {', '.join(LENGTHS)}")
    return LENGTHS[name](as_count(count, "count"), seed)


def measure_block_size(lengths_tokens: Sequence[int], block_size: int, name: str = "lengths") -> BlockSizeRow:
    """Raises ValueError without sequences, or for a length or a block size below 1."""
    block_size = at_least_1(block_size, "block_size")
    lengths = [at_least_1(length, "a length in tokens") for length in lengths_tokens]
    if not lengths:
        raise ValueError("no sequences, no waste: give at least one length")
    num_blocks = sum(-(-length // block_size) for length in lengths)
    return BlockSizeRow(name, block_size, len(lengths), sum(lengths), num_blocks)


def sweep(lengths_tokens: Sequence[int], block_sizes: Sequence[int] = NESTED_SIZES_TOKENS,
          name: str = "lengths") -> list[BlockSizeRow]:
    """A row for each block size."""
    return [measure_block_size(lengths_tokens, block_size, name) for block_size in block_sizes]


def sweep_all(count: int = 2000, block_sizes: Sequence[int] = NESTED_SIZES_TOKENS, seed: int = 1) -> list[BlockSizeRow]:
    """A row for each of LENGTHS and each block size."""
    return [row for name in LENGTHS for row in sweep(draw_lengths(name, count, seed), block_sizes, name)]


def run_in_pool(lengths_tokens: Sequence[int], block_size: int, pool: Pool, at_once: int = 64) -> int:
    """The sequences live in this pool, at_once of them together: they take one block each in turn until all are
    complete, then all give back theirs, and the next ones begin. Returns how many blocks were allocated."""
    allocate, allocated = pool.allocate, 0
    for first in range(0, len(lengths_tokens), at_once):
        incomplete = [([], -(-length // block_size)) for length in lengths_tokens[first:first + at_once]]
        tables = [table for table, _ in incomplete]
        while incomplete:
            for table, _ in incomplete:
                table += allocate(1)
            incomplete = [(table, wanted) for table, wanted in incomplete if len(table) < wanted]
        for table in tables:
            allocated += len(table)
            pool.release(table)
    return allocated


def allocator_ns_per_token(lengths_tokens: Sequence[int], block_size: int, at_once: int = 64,
                           make_pool: Callable[[int], Pool] = BlockPool) -> float:
    """CPU time of `run_in_pool`, in nanoseconds, divided by the tokens; one measurement. It includes the loop around
    the calls. Compare medians of several that take turns with those of other block sizes."""
    pool = make_pool(_most_blocks(lengths_tokens, block_size, at_once))
    begin = time.process_time_ns()
    run_in_pool(lengths_tokens, block_size, pool, at_once)
    return (time.process_time_ns() - begin) / sum(lengths_tokens)


def manager_ns_per_token(lengths_tokens: Sequence[int], block_size: int, at_once: int = 64) -> float:
    """The same for a KVCacheManager, which does more for each token: it keeps the tokens of the block that is being
    filled, and enters every full block into its cache. Sequences begin with one token and get one more each in turn; no
    two have the same tokens, so nothing is shared."""
    manager = KVCacheManager(_most_blocks(lengths_tokens, block_size, at_once), block_size)
    begin = time.process_time_ns()
    for first in range(0, len(lengths_tokens), at_once):
        batch = enumerate(lengths_tokens[first:first + at_once], start=first)
        growing = [(manager.add_sequence([number]), number, length) for number, length in batch]
        sequences = [sequence for sequence, _, _ in growing]
        while growing:
            growing = [each for each in growing if each[0].num_tokens < each[2]]
            for sequence, token, _ in growing:
                manager.append_token(sequence, token)
        for sequence in sequences:
            manager.free_sequence(sequence)
    return (time.process_time_ns() - begin) / sum(lengths_tokens)


def _most_blocks(lengths_tokens: Sequence[int], block_size: int, at_once: int) -> int:
    return max(sum(-(-length // block_size) for length in lengths_tokens[first:first + at_once])
               for first in range(0, len(lengths_tokens), at_once))
