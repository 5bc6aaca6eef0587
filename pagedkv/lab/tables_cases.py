"""The cases of notebook 04 that its cells and its exercises share."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from pagedkv.core.kv_size import MODELS
from pagedkv.core.sizing import Explanation, Slip, SlipReport, find_slips, possible_slips
from pagedkv.rivals.block_size import allocator_ns_per_token, draw_lengths, measure_block_size

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
    remainder      of a claim that no two slips explain to the point: what may be behind the rest
    """

    text: str
    model: str
    tokens_each: int
    num_sequences: int
    slack_percent: int
    claimed_bytes: float
    slips: frozenset[str]
    tolerance: float = 0.01
    remainder: str = ""

    def report(self, claimed_bytes: float | None = None) -> SlipReport:
        """The right figure, and what leads to the claim; or to another figure."""
        return find_slips(self.claimed_bytes if claimed_bytes is None else claimed_bytes, MODELS[self.model],
                          self.tokens_each, num_sequences=self.num_sequences, slack_percent=self.slack_percent,
                          tolerance=self.tolerance if claimed_bytes is None else 0.01)

    def explanations(self) -> list[Explanation]:
        """Those ways to the claim that its text allows."""
        return [found for found in self.report().explanations
                if {slip.kind for slip in found.slips} <= self.slips | {"units"}]

    def slips_of(self, kind: str) -> list[Slip]:
        """Every slip of a kind that could be made here, right or wrong."""
        slips = possible_slips(MODELS[self.model], self.tokens_each, num_sequences=self.num_sequences,
                               slack_percent=self.slack_percent)
        return [slip for slip in slips if slip.kind == kind]

    @property
    def right_bytes(self) -> int:
        return self.report().right_bytes


CLAIMS = (
    Claim("Llama-2-70B: 2 × 32 layers × 128 numbers × 2 B × 1,024 tokens = 16 MiB", "Llama-2-70B", 1024, 1, 0,
          16 * MIB, frozenset({"heads", "layers"})),
    Claim("Llama-2-7B: 32 requests of 2,000 tokens are 64 GB", "Llama-2-7B", 2000, 32, 0, 64e9,
          frozenset({"tokens", "width"})),
    Claim("Llama-2-7B, blocks of 32 tokens, 0.5 MiB each: 256 sequences × 128 blocks × 1.15 are about 21 MB",
          "Llama-2-7B", 128 * 32, 256, 15, 21e6, frozenset({"layers", "heads", "prefix"}), tolerance=0.1,
          remainder="of which the factor 1.15 taken twice would explain all but 0.8 %"),
)
SLIPS = {
    "K and V": "only one of keys and values counted",
    "heads": "the KV heads left out, or a wrong number of them",
    "layers": "the layers left out, or those of another model",
    "tokens": "another number of tokens",
    "width": "another number of bytes for each number",
    "prefix": "a thousand too few or too many, such as MiB for GiB",
}


def allocator_ns(block_sizes: Sequence[int], rounds: int = 5) -> dict[int, float]:
    """What a token costs the pool's allocate and release, for the first 64 chat requests, in nanoseconds of CPU time:
    medians, by block size. Block sizes take turns."""
    lengths = draw_lengths("drawn like BurstGPT (chat)", 64)
    kept = {size: [] for size in block_sizes}
    for _ in range(rounds):
        for size, times in kept.items():
            times.append(allocator_ns_per_token(lengths, size))
    return {size: statistics.median(times) for size, times in kept.items()}


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
