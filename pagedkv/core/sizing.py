"""How large should a pool be? Two ways to plan one, and a way to find out where a figure went wrong.

    from a budget    memory − weights − peak activations = the pool; how many sequences run at once follows. Engines do
                     this: the GPU's memory is there anyway
    from a demand    sequences at once × tokens each × a factor = the pool. Capacity planning does this: how much
                     memory, how many GPUs to buy

A *plan* shows every line of its arithmetic. `find_slips` goes the other way: given a figure that somebody else has
worked out, which usual mistakes lead to it?
"""

import math
from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple

from pagedkv.core.arguments import as_count
from pagedkv.core.kv_size import (DTYPE_BYTES, SCALE_BYTES, ModelShape, at_least_1, kv_block_bytes, kv_bytes_per_token,
                                  sequence_bytes)
from pagedkv.core.memory import as_text


class PlanLine(NamedTuple):
    """One step of the arithmetic, such as ("bytes per block", "16 tokens × 512 KiB", "8 MiB")."""

    what: str
    arithmetic: str
    result: str


class PoolPlan(NamedTuple):
    """A pool, and how it was worked out. Print it.

    num_sequences    that run at once, each with tokens_each tokens
    pool_bytes       num_blocks × block_bytes
    memory_bytes     what all of it needs: the pool, and in a plan from a budget the weights and activations too
    """

    title: str
    block_size: int
    block_bytes: int
    num_blocks: int
    num_sequences: int
    tokens_each: int
    memory_bytes: int
    lines: tuple[PlanLine, ...]

    @property
    def pool_bytes(self) -> int:
        return self.num_blocks * self.block_bytes

    def __str__(self) -> str:
        left = max(len(line.what) for line in self.lines)
        middle = max(len(line.arithmetic) for line in self.lines)
        return "\n".join([self.title, *(f"  {line.what:{left}}  {line.arithmetic:{middle}}  = {line.result}"
                                        for line in self.lines)])


def plan_from_budget(shape: ModelShape, memory_bytes: int, weight_bytes: int, activation_bytes: int, tokens_each: int,
                     block_size: int = 16, dtype: str = "fp16", scales: bool = False) -> PoolPlan:
    """The blocks that the memory leaves, and how many sequences of tokens_each tokens they are enough for.

    memory_bytes may be all of a GPU's, or the share of it that an engine is allowed. Of several tensor-parallel ranks,
    plan one: shape.on_rank(8), and its share of the weights. Raises ValueError if weights and activations leave no
    block."""
    memory, weights = as_count(memory_bytes, "memory_bytes"), as_count(weight_bytes, "weight_bytes")
    activations = as_count(activation_bytes, "activation_bytes")
    left = memory - weights - activations
    block_bytes = kv_block_bytes(shape, block_size, dtype, scales)
    if left < block_bytes:
        raise ValueError(f"{as_text(weights)} of weights and {as_text(activations)} of activations leave no room for a "
                         f"block of {as_text(block_bytes)} in {as_text(memory)}: take more memory, more ranks, or "
                         "smaller weights")
    num_blocks, each = left // block_bytes, -(-at_least_1(tokens_each, "tokens_each") // block_size)
    at_once = num_blocks // each
    lines = [*_block_lines(shape, block_size, dtype, scales),
             PlanLine("the pool", f"{as_text(memory)} − {as_text(weights)} weights − {as_text(activations)} "
                      "activations", as_text(left)),
             PlanLine("blocks", f"{as_text(left)} ÷ {as_text(block_bytes)}, rounded down", f"{num_blocks:,}"),
             PlanLine("tokens", f"{num_blocks:,} blocks × {block_size}", f"{num_blocks * block_size:,}"),
             PlanLine("blocks per sequence", f"{tokens_each:,} tokens ÷ {block_size}, rounded up", f"{each:,}"),
             PlanLine("sequences at once", f"{num_blocks:,} ÷ {each:,}, rounded down", f"{at_once:,}")]
    return PoolPlan(f"{shape.name}, {dtype}, from a budget of {as_text(memory)}", block_size, block_bytes, num_blocks,
                    at_once, tokens_each, weights + activations + num_blocks * block_bytes, tuple(lines))


def plan_from_demand(shape: ModelShape, num_sequences: int, tokens_each: int, slack_percent: int = 30,
                     block_size: int = 16, dtype: str = "fp16", scales: bool = False) -> PoolPlan:
    """The bytes for so many sequences at once of tokens_each tokens on average, and some percent more.

    slack_percent  30 is a factor of 1.3, which pays for peaks above the mean; 20 do where the two are alike"""
    each = -(-at_least_1(tokens_each, "tokens_each") // at_least_1(block_size, "block_size"))
    block_bytes = kv_block_bytes(shape, block_size, dtype, scales)
    num_blocks = preallocated_pool_blocks(num_sequences, each, slack_percent)
    lines = [*_block_lines(shape, block_size, dtype, scales),
             PlanLine("blocks per sequence", f"{tokens_each:,} tokens ÷ {block_size}, rounded up", f"{each:,}"),
             PlanLine("blocks", f"{num_sequences:,} sequences × {each:,} × {(100 + slack_percent) / 100:g}, rounded up",
                      f"{num_blocks:,}"),
             PlanLine("the pool", f"{num_blocks:,} blocks × {as_text(block_bytes)}", as_text(num_blocks * block_bytes))]
    return PoolPlan(f"{shape.name}, {dtype}, for {num_sequences:,} sequences at once", block_size, block_bytes,
                    num_blocks, num_sequences, tokens_each, num_blocks * block_bytes, tuple(lines))


def _block_lines(shape: ModelShape, block_size: int, dtype: str, scales: bool) -> Iterator[PlanLine]:
    token_bytes = kv_bytes_per_token(shape, dtype, scales)
    yield PlanLine("bytes per token", _token_arithmetic(shape, dtype, scales), as_text(token_bytes))
    yield PlanLine("bytes per block", f"{block_size} tokens × {as_text(token_bytes)}",
                   as_text(block_size * token_bytes))


def _token_arithmetic(shape: ModelShape, dtype: str, scales: bool) -> str:
    width, scale = f"{DTYPE_BYTES[dtype]} B", f" + {SCALE_BYTES} B scale" if scales else ""
    if shape.kv_lora_rank:
        vector, what = f"({shape.kv_lora_rank} latent + {shape.rope_dim} position)", f"{shape.num_layers} layers"
    else:
        vector, what = f"{shape.head_dim}", f"2 × {shape.num_layers} layers × {shape.num_kv_heads} KV heads"
    return f"{what} × ({vector} × {width}{scale})" if scales else f"{what} × {vector} × {width}"


def preallocated_pool_blocks(max_sequences: int, max_blocks_per_sequence: int, slack_percent: int = 15) -> int:
    """Blocks for so many sequences of the greatest length, and some percent more, rounded up."""
    sequences = at_least_1(max_sequences, "max_sequences")
    blocks = sequences * at_least_1(max_blocks_per_sequence, "max_blocks_per_sequence")
    return -(-blocks * (100 + as_count(slack_percent, "slack_percent")) // 100)


def preallocated_pool_bytes(max_sequences: int, max_blocks_per_sequence: int, layer_block_bytes: int, num_layers: int,
                            slack_percent: int = 15, device_bytes: int | None = None) -> int:
    """The bytes of such a pool over all layers. layer_block_bytes: keys and values of one block in one layer.

    With device_bytes, raises ValueError if the device has less; the message says how many sequences it could hold."""
    blocks = preallocated_pool_blocks(max_sequences, max_blocks_per_sequence, slack_percent)
    block_bytes = at_least_1(layer_block_bytes, "layer_block_bytes") * at_least_1(num_layers, "num_layers")
    pool_bytes = blocks * block_bytes
    if device_bytes is not None and pool_bytes > device_bytes:
        fit = device_bytes * 100 // (block_bytes * max_blocks_per_sequence * (100 + slack_percent))
        raise ValueError(
            f"{blocks:,} blocks of {num_layers} × {as_text(layer_block_bytes)} are {as_text(pool_bytes)}, and the "
            f"device has {as_text(device_bytes)}: enough for {fit} sequences of full length. Lower max_sequences or "
            "max_blocks_per_sequence; few sequences reach the greatest length, and a paged pool need not provide for "
            "all of them")
    return pool_bytes


def best_block_size(mean_tokens: float, bytes_per_token: float, bytes_per_entry: float) -> float:
    """The block size, in tokens, for which the last block's empty half and the block table together are smallest.

    A sequence of L tokens in blocks of B wastes about B/2 tokens of t bytes each, and its table has L/B entries of e
    bytes. B·t/2 + (L/B)·e is smallest for B = √(2·L·e/t). How many sequences there are multiplies both terms and so
    cancels.

    What this leaves out is what decides in practice. For 512 KiB per token it is far below 1: memory alone wants blocks
    of a single token. But a kernel reads a block as one run and wants 16 of them or a multiple; every block costs the
    CPU an allocation and a release, and, shared, a lookup; and B/2 is only right for lengths that are spread out and
    much longer than B."""
    for what, value in (("mean_tokens", mean_tokens), ("bytes_per_token", bytes_per_token),
                        ("bytes_per_entry", bytes_per_entry)):
        if not value > 0:
            raise ValueError(f"{what} is above 0, got {value}")
    return math.sqrt(2 * mean_tokens * bytes_per_entry / bytes_per_token)


class Slip(NamedTuple):
    """A usual mistake: what it makes of the right figure.

    kind  one figure holds at most one slip of each kind
    """

    kind: str
    text: str
    factor: float


class Explanation(NamedTuple):
    """Slips that together lead to a claimed figure, and what they make of the right one."""

    slips: tuple[Slip, ...]
    size_bytes: float
    claimed_bytes: float

    @property
    def error(self) -> float:
        """A share: 0.01 is 1 % more than was claimed."""
        return self.size_bytes / self.claimed_bytes - 1

    def __str__(self) -> str:
        text = " + ".join(slip.text for slip in self.slips)
        return text if abs(self.error) < 0.0005 else f"{text} ({self.error:+.1%} of the claim)"


class SlipReport(NamedTuple):
    """What is right, and what may have gone wrong, the closest first. Print it.

    A figure alone seldom proves which slip it was: half the bytes are K without V, or one byte for two."""

    claimed_bytes: float
    right_bytes: int
    right_arithmetic: str
    is_right: bool
    explanations: tuple[Explanation, ...]

    def __str__(self) -> str:
        claimed = f"claimed  {_both_units(self.claimed_bytes)}"
        right = f"right    {_both_units(self.right_bytes)} = {self.right_arithmetic}"
        if self.is_right:
            return f"{claimed}\n{right}\nThe claim is right."
        if not self.explanations:
            ratio = self.claimed_bytes / self.right_bytes
            return f"{claimed}\n{right}\nOff by a factor of {ratio:.4g}, which none of the usual slips explains."
        return "\n".join([claimed, right, "explained by", *(f"  {each}" for each in self.explanations)])


_UNITS = "units"
# Slips that put another number in place of the right one are tried with usual numbers only: of all numbers, one always
# fits. The layers are those of Llama with 7, 13 and 70 billion parameters.
_USUAL_LAYERS = (32, 40, 80)
_CONTEXTS_TOKENS = (2048, 4096, 8192, 32_768, 131_072)
_UNIT_SLIPS = (Slip(_UNITS, "GB for GiB", (1000 / 1024) ** 3), Slip(_UNITS, "MB for MiB", (1000 / 1024) ** 2),
               Slip(_UNITS, "KB for KiB", 1000 / 1024))


def find_slips(claimed_bytes: float, shape: ModelShape, num_tokens: int, dtype: str = "fp16", num_sequences: int = 1,
               block_size: int = 1, scales: bool = False, slack_percent: int = 0, most_slips: int = 2,
               tolerance: float = 0.01) -> SlipReport:
    """Which slips make the claimed figure of the right one, for so many sequences of num_tokens tokens each? Only the
    explanations with the fewest slips are given.

    claimed_bytes  as written: 64 GB are 64e9. That a GiB was written GB is looked for beside the other slips, and not
                   counted among them: most figures in print are read this way
    block_size     the right figure counts whole blocks of so many tokens
    slack_percent  that the figure is meant to include
    most_slips     at once, besides the units. With 3 nearly any figure can be explained, so believe it less
    tolerance      how far from the claim an explanation, or the right figure, may be; more for "about 20"

    Of a hybrid model only those slips are tried that have nothing to do with single layers."""
    if not claimed_bytes > 0:
        raise ValueError(f"claimed_bytes is above 0, got {claimed_bytes}")
    tokens, sequences = at_least_1(num_tokens, "num_tokens"), at_least_1(num_sequences, "num_sequences")
    slack, most = 100 + as_count(slack_percent, "slack_percent"), at_least_1(most_slips, "most_slips")
    each = sequence_bytes(shape, tokens, dtype, scales, block_size)
    right = -(-each * sequences * slack // 100)
    factors = [f"{as_text(each)} for {tokens:,} tokens" if shape.is_hybrid else
               f"{_token_arithmetic(shape, dtype, scales)} × {-(-tokens // block_size) * block_size:,} tokens"]
    factors += [f"{sequences:,} sequences"] * (sequences > 1) + [f"{slack / 100:g}"] * (slack > 100)
    arithmetic = " × ".join(factors)
    if abs(right / claimed_bytes - 1) <= tolerance:
        return SlipReport(claimed_bytes, right, arithmetic, True, ())

    slips = possible_slips(shape, tokens, dtype, sequences, block_size, scales, slack_percent)
    found: list[Explanation] = []
    for count in range(most + 1):
        for chosen in combinations(slips, count):
            if len({slip.kind for slip in chosen}) == count:
                found += _close(chosen, right, claimed_bytes, tolerance)
        if found:
            break
    found.sort(key=lambda one: (len(one.slips), round(abs(one.error), 4)))
    return SlipReport(claimed_bytes, right, arithmetic, False, tuple(found))


def possible_slips(shape: ModelShape, num_tokens: int, dtype: str = "fp16", num_sequences: int = 1, block_size: int = 1,
                   scales: bool = False, slack_percent: int = 0) -> tuple[Slip, ...]:
    """The slips that `find_slips` tries, each with what it alone makes of the right figure; not those in the units."""
    return tuple(_possible_slips(shape, num_tokens, dtype, num_sequences, block_size, scales, 100 + slack_percent))


def _close(chosen: tuple[Slip, ...], right_bytes: int, claimed_bytes: float, tolerance: float) -> list[Explanation]:
    """These slips alone, or else with one in the units, if they lead to the claim."""
    for together in ([chosen] if chosen else []), [(*chosen, unit) for unit in _UNIT_SLIPS]:
        results = [Explanation(slips, right_bytes * math.prod(slip.factor for slip in slips), claimed_bytes)
                   for slips in together]
        if close := [one for one in results if abs(one.error) <= tolerance]:
            return [min(close, key=lambda one: abs(one.error))]
    return []


def _both_units(size_bytes: float) -> str:
    power = min(3, int(math.log(max(1.0, size_bytes), 1000)))
    return f"{as_text(round(size_bytes))} ({size_bytes / 1000 ** power:,.4g} {('B', 'KB', 'MB', 'GB')[power]})"


def _possible_slips(shape: ModelShape, tokens: int, dtype: str, sequences: int, block_size: int, scales: bool,
                    slack: int) -> Iterator[Slip]:
    if shape.is_hybrid:
        as_if_full, right = (sequence_bytes(each, tokens, dtype, scales, block_size)
                             for each in (shape.as_full_attention(), shape))
        yield Slip("layers", "windows and states ignored: every layer keeps every token", as_if_full / right)
    else:
        yield from _shape_slips(shape, dtype, scales)
        counted = -(-tokens // block_size) * block_size
        for other in _CONTEXTS_TOKENS:
            if other != counted:
                yield Slip("tokens", f"{other:,} tokens instead of {tokens:,}", other / counted)
        if counted != tokens:
            yield Slip("tokens", "the empty part of last blocks left out", tokens / counted)
    if sequences > 1:
        yield Slip("sequences", f"one sequence instead of {sequences:,}", 1 / sequences)
    if slack > 100:
        yield Slip("slack", f"the factor {slack / 100:g} left out", 100 / slack)
        yield Slip("slack", f"the factor {slack / 100:g} twice", slack / 100)
    yield Slip("prefix", "a thousand too few: MiB for GiB", 1 / 1024)
    yield Slip("prefix", "a thousand too many: GiB for MiB", 1024)


def _shape_slips(shape: ModelShape, dtype: str, scales: bool) -> Iterator[Slip]:
    if shape.kv_lora_rank:
        yield Slip("heads", "keys and values of all heads instead of the latent vector",
                   2 * shape.num_heads * shape.head_dim / (shape.kv_lora_rank + shape.rope_dim))
    else:
        yield Slip("K and V", "K without V", 1 / 2)
        if shape.num_kv_heads > 1:
            yield Slip("heads", f"{shape.num_kv_heads} KV heads left out", 1 / shape.num_kv_heads)
        if shape.num_heads > shape.num_kv_heads:
            yield Slip("heads", f"{shape.num_heads} query heads instead of {shape.num_kv_heads} KV heads",
                       shape.num_heads / shape.num_kv_heads)
    if shape.num_layers > 1:
        yield Slip("layers", f"{shape.num_layers} layers left out", 1 / shape.num_layers)
    for other in _USUAL_LAYERS:
        if other != shape.num_layers:
            yield Slip("layers", f"{other} layers, as another model has, instead of {shape.num_layers}",
                       other / shape.num_layers)
    right = kv_bytes_per_token(shape, dtype, scales)
    for other in ("fp32", "fp16", "int8"):  # one for each width
        if (ratio := kv_bytes_per_token(shape, other) / right) != 1:
            yield Slip("width", f"{DTYPE_BYTES[other]} B per number ({other}) instead of {DTYPE_BYTES[dtype]} B"
                       + (" and a scale" if scales else ""), ratio)
