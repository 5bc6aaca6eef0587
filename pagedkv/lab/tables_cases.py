"""The cases of notebook 04 that its cells and its exercises share."""

import random
import statistics
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from pagedkv.core.kv_size import MODELS
from pagedkv.core.sizing import SlipReport, find_slips
from pagedkv.rivals.block_size import allocator_ns_per_token, draw_lengths, measure_block_size
from pagedkv.rivals.block_tables import LinkedTables, TwoLevelTables

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# "What breaks": a block of vLLM's pull request 47671: 480 tokens, of each a latent vector of 512 numbers and 64 for the
# position, all in one layer.
BLOCK_TOKENS, TOKEN_NUMBERS = 480, 512 + 64


class Claim(NamedTuple):
    """A figure from an article, all of it in fp16.

    text           as the article has it, with its arithmetic where it gives one
    claimed_bytes  as written: a GB are 1e9
    tolerance      how far off "about" may be
    slips          the kinds of slips (see `pagedkv.core.sizing`) that lead from the right figure to the claim. One that
                   is among them is an answer; where only a figure is given, several are possible
    """

    text: str
    model: str
    tokens_each: int
    num_sequences: int
    slack_percent: int
    claimed_bytes: float
    slips: frozenset[str]
    tolerance: float = 0.01

    def report(self, claimed_bytes: float | None = None) -> SlipReport:
        """The right figure, and what leads to the claim; or to another figure."""
        return find_slips(self.claimed_bytes if claimed_bytes is None else claimed_bytes, MODELS[self.model],
                          self.tokens_each, num_sequences=self.num_sequences, slack_percent=self.slack_percent,
                          tolerance=self.tolerance if claimed_bytes is None else 0.01)

    @property
    def right_bytes(self) -> int:
        return self.report().right_bytes


CLAIMS = (
    Claim("Llama-2-70B: 2 × 32 layers × 128 numbers × 2 B × 1,024 tokens = 16 MiB", "Llama-2-70B", 1024, 1, 0,
          16 * MIB, frozenset({"heads", "layers"})),
    Claim("Llama-2-7B: 32 requests of 2,000 tokens are 64 GB", "Llama-2-7B", 2000, 32, 0, 64e9,
          frozenset({"tokens", "width"})),
    Claim("Llama-2-7B, blocks of 32 tokens, 0.5 MiB each: 256 sequences × 128 blocks × 1.15 are about 21 MB",
          "Llama-2-7B", 128 * 32, 256, 15, 21e6, frozenset({"layers", "prefix"}), tolerance=0.1),
)
SLIPS = {
    "K and V": "only one of keys and values counted",
    "heads": "the KV heads left out, or a wrong number of them",
    "layers": "the layers left out, or those of another model",
    "tokens": "another number of tokens",
    "width": "another number of bytes for each number",
    "prefix": "a thousand too few or too many, such as MiB for GiB",
}


def lookup_ns(num_sequences: int, blocks_each: int, rounds: int = 5, calls: int = 4000) -> dict[str, float]:
    """How long a lookup at a random place takes in a chain of nodes and in an array, in Python, in nanoseconds of CPU
    time: the median of several rounds, in which the two take turns."""
    rng = random.Random(1)
    layouts = {"two-level": TwoLevelTables(), "linked": LinkedTables()}
    for tables in layouts.values():
        for sequence in range(num_sequences):
            tables.set(sequence, range(sequence * blocks_each, (sequence + 1) * blocks_each))
    places = [(rng.randrange(num_sequences), rng.randrange(blocks_each)) for _ in range(calls)]
    return _medians({name: lambda tables=tables: _time_lookups(tables.lookup, places) / calls
                     for name, tables in layouts.items()}, rounds)


def _time_lookups(lookup: Callable[[int, int], int], places: Sequence[tuple[int, int]]) -> int:
    begin = time.process_time_ns()
    for sequence, logical in places:
        lookup(sequence, logical)
    return time.process_time_ns() - begin


def allocator_ns(block_sizes: Sequence[int], rounds: int = 5) -> dict[int, float]:
    """What a token costs the pool's allocate and release, for the first 64 chat requests, in nanoseconds of CPU time:
    medians, by block size. Block sizes take turns."""
    lengths = draw_lengths("chat (BurstGPT)", 64)
    return _medians({size: lambda size=size: allocator_ns_per_token(lengths, size) for size in block_sizes}, rounds)


def _medians(measures: dict, rounds: int) -> dict:
    kept = {name: [] for name in measures}
    for _ in range(rounds):
        for name, measure in measures.items():
            kept[name].append(measure())
    return {name: statistics.median(times) for name, times in kept.items()}


class Shares(NamedTuple):
    """Three shares that somebody may call utilisation, of the same sequences in a pool of a given size."""

    filled: float        # A: tokens ÷ token slots in allocated blocks
    allocated: float     # B: token slots in allocated blocks ÷ token slots of the pool
    tokens_of_pool: float  # C: tokens ÷ token slots of the pool


def shares(lengths_tokens: Sequence[int], block_size: int, pool_tokens: int) -> Shares:
    """Raises ValueError if the pool is too small for these sequences."""
    row = measure_block_size(lengths_tokens, block_size)
    if row.num_slots > pool_tokens:
        raise ValueError(f"{row.num_blocks:,} blocks of {block_size} are needed, and the pool has "
                         f"{pool_tokens // block_size:,}")
    return Shares(row.utilisation, row.num_slots / pool_tokens, row.num_tokens / pool_tokens)


def int32(number: int) -> int:
    """What is left of a number in 32 bits with a sign, as in a Java int."""
    return (number + 2**31) % 2**32 - 2**31
