"""Exercise 06.2: what a learner's attention attends to, slot by slot.

The result of attention is a weighted sum of values. In the named cases the value in each slot is 1 in one place of its
own and 0 elsewhere, so the result *is* the weights, and shows which slots were read, and of which KV head. The random
cases have ordinary values.
"""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from pagedkv.lab.counter_example import counter_example
from pagedkv.lab.grading import NotYet, Wrong, describe_error
from pagedkv.lab.real_pictures import TOLERANCE, WeightRow, percent, plot_weights
from pagedkv.viz.words import count

_RANDOM_CASES = 20
_SPREAD = 1.5  # of the scores: with less all weights are alike, with more one of them is nearly 1
_SMALL = 1e-4  # relative and absolute, for float32
_SMALL_HALF = 1e-2  # where the result is float16 or bfloat16


@dataclass
class AttendCase:
    """One decode step. What the pool holds follows from `seed`; all of it was written by somebody at some time."""

    name: str
    block_table: list[int]
    num_tokens: int
    num_heads: int = 4
    num_kv_heads: int = 2
    num_blocks: int = 6
    block_size: int = 4
    seed: int = 0
    shows_weights: bool = True
    head_dim: int = field(init=False)
    scale: float = field(init=False)

    def __post_init__(self):
        slots = self.num_kv_heads * self.num_blocks * self.block_size
        self.head_dim = slots if self.shows_weights else 8
        generator = torch.Generator().manual_seed(self.seed)
        shape = self.num_blocks, self.num_kv_heads, self.block_size, self.head_dim
        self.query = torch.randn(self.num_heads, self.head_dim, generator=generator)
        self.keys = torch.randn(shape, generator=generator)
        self.values = torch.randn(shape, generator=generator)
        # another scale than 1/√head_dim, so that one who takes that is seen
        self.scale = _SPREAD / self.head_dim ** 0.5
        if self.shows_weights:
            by_head = torch.eye(slots).view(self.num_kv_heads, self.num_blocks, self.block_size, slots)
            self.values = by_head.transpose(0, 1).contiguous()

    def __str__(self) -> str:
        return (f"{self.name}\n   block_table {self.block_table}, num_tokens {self.num_tokens}, "
                f"blocks of {self.block_size}, {count(self.num_heads, 'head')}, {count(self.num_kv_heads, 'KV head')}")

    def attention(self, **variant: str) -> torch.Tensor:
        return _attention(self, **variant)

    @property
    def positions(self) -> dict[int, int]:
        """slot → position, for the slots of the table"""
        size = self.block_size
        return {block * size + offset: logical * size + offset for logical, block in enumerate(self.block_table)
                for offset in range(size)}


CASES = (
    AttendCase("one full block", [2], 4, 2, 2),
    AttendCase("the last block is not full", [1, 3], 6, 2, 2),
    AttendCase("one token", [3], 1, 2, 2),
    AttendCase("two heads for each KV head", [1, 3], 8),
    AttendCase("a table that does not rise", [4, 0, 2], 11),
    AttendCase("a block that is not needed yet", [4, 0, 2], 8),
    AttendCase("six heads, two KV heads", [5, 1], 5, 6, 2),
    AttendCase("six heads, three KV heads", [3, 5, 0], 10, 6, 3),
    AttendCase("one KV head for all", [0, 5, 3], 9, 4, 1),
    AttendCase("blocks of one token", [4, 1, 5], 3, 4, 2, block_size=1),
)


def try_attend(attend: Any) -> str:
    """Raises Wrong at the first case with another result. Returns what was tried."""
    if not callable(attend):
        raise Wrong(f'check gets your function: check("06.2", attend); got {attend!r:.80}')
    for case in CASES:
        _attend(attend, case)
    rng = random.Random(1)
    for seed in range(_RANDOM_CASES):
        _attend(attend, _random_case(rng, seed))
    return f"{len(CASES)} named cases, in which every weight was looked at, and {_RANDOM_CASES} random ones"


def _random_case(rng: random.Random, seed: int) -> AttendCase:
    size, num_blocks, kv_heads = rng.choice((1, 2, 4, 16)), rng.randint(3, 12), rng.choice((1, 2, 3))
    table = rng.sample(range(num_blocks), rng.randint(1, min(4, num_blocks)))
    return AttendCase("a random case", table, rng.randint(1, len(table) * size), kv_heads * rng.randint(1, 3), kv_heads,
                      num_blocks, size, 100 + seed, shows_weights=False)


def _attend(attend: Callable, case: AttendCase) -> None:
    keys, values, table = case.keys.clone(), case.values.clone(), list(case.block_table)
    try:
        answer = attend(case.query.clone(), keys, values, table, case.num_tokens, case.scale)
    except (NotYet, Wrong):
        raise
    except Exception as error:
        raise counter_example(str(case), f"raised {describe_error(error)}",
                              f"a result [num_heads, head_dim] = [{case.num_heads}, {case.head_dim}]") from None
    result = as_result(answer, (case.num_heads, case.head_dim), "attend()", "[num_heads, head_dim]", str(case))
    if not (torch.equal(keys, case.keys) and torch.equal(values, case.values)):
        raise counter_example(str(case), "the pools were changed", "they are only read: others are in them too")
    if table != case.block_table:
        raise counter_example(str(case), f"the caller's block table is now {table}", f"{case.block_table}, as before")
    expected = case.attention()
    if not close(result, expected, answer):
        raise _counter_example(case, result, expected)


def as_result(answer: Any, shape: tuple[int, ...], what: str, shape_in_words: str, situation: str) -> torch.Tensor:
    """A learner's tensor, array or list as float32. Raises NotYet for None, Wrong for another shape or no tensor."""
    if answer is None:
        raise NotYet(f"{what} returns nothing yet")
    try:
        if isinstance(answer, (list, tuple)):
            answer = torch.stack([torch.as_tensor(each) for each in answer])
        result = torch.as_tensor(answer).detach().to("cpu", torch.float32)
    except (TypeError, ValueError, RuntimeError):
        raise counter_example(situation, f"{answer!r:.60}", f"a tensor {shape_in_words}") from None
    if tuple(result.shape) != shape:
        raise counter_example(situation, f"a result of shape {list(result.shape)}", f"{shape_in_words} = {list(shape)}")
    return result


def close(result: torch.Tensor, expected: torch.Tensor, answer: Any = None) -> bool:
    """Whether two results are the same but for rounding. answer: as the learner gave it; half precision is coarser."""
    is_half = "float16" in str(getattr(answer, "dtype", ""))  # torch's, bfloat16 and numpy's
    small = _SMALL_HALF if is_half else _SMALL
    return torch.allclose(result, expected, rtol=small, atol=small)


# ── attention, right and in the ways in which it goes wrong ──────────────────────────────────────────────────────────

_TABLES = {
    "": lambda case: case.block_table,
    "Your code sorts the table: its order is the sequence's": lambda case: sorted(case.block_table),
    "Your code reads the first blocks of the pool, not those in the table":
        lambda case: range(len(case.block_table)),
    "Your code reads the whole pool, other sequences' blocks too": lambda case: range(case.num_blocks),
}
_CUTS = {
    "": lambda case: case.num_tokens,
    "Your code does not stop at num_tokens: behind it lies what an earlier owner left": lambda case: None,
    "Your code leaves out the last token: num_tokens counts it": lambda case: case.num_tokens - 1,
    "Your code goes one token too far": lambda case: case.num_tokens + 1,
    "Your code reads full blocks only": lambda case: case.num_tokens // case.block_size * case.block_size,
}
_HEADS = {
    "": lambda case, head: head // (case.num_heads // case.num_kv_heads),
    "Your code lets query head h read KV head h % num_kv_heads; it is h // (num_heads // num_kv_heads)":
        lambda case, head: head % case.num_kv_heads,
    "Your code lets every query head read KV head 0": lambda case, head: 0,
}
_SCALES = {
    "": lambda case: case.scale,
    "Your code leaves out the scale": lambda case: 1.0,
    "Your code takes 1/√head_dim: the scale is an argument": lambda case: case.head_dim ** -0.5,
    "Your code scales twice": lambda case: case.scale * case.head_dim ** -0.5,
    "Your code multiplies with the scale twice": lambda case: case.scale ** 2,
    "Your code divides by the scale": lambda case: 1 / case.scale,
}
_SOFTMAXES = {
    "": lambda scores: scores.softmax(-1),
    "Your softmax goes over the heads; it has to go over the tokens": lambda scores: scores.softmax(0),
    "Your code leaves out the softmax": lambda scores: scores,
    "Your weights are not divided by their sum": lambda scores: scores.exp(),
}
_READS = {
    "": lambda case, pool, table: pool[list(table)].transpose(0, 1).flatten(1, 2),
    # one who forgets that heads come before tokens within a block
    "Your code flattens blocks and tokens, and the KV heads lie between them: transpose first":
        lambda case, pool, table: pool[list(table)].reshape(case.num_kv_heads, -1, case.head_dim),
}
_KEYS_SUMMED = "Your code adds up keys; the weights belong to the values"
_SUMMED = {"": "values", _KEYS_SUMMED: "keys"}


def _attention(case: AttendCase, table: str = "", cut: str = "", heads: str = "", scale: str = "", softmax: str = "",
               read: str = "", summed: str = "") -> torch.Tensor:
    blocks, end = _TABLES[table](case), _CUTS[cut](case)
    keys = _READS[read](case, case.keys, blocks)[:, :end]
    values = _READS[read](case, getattr(case, _SUMMED[summed]), blocks)[:, :end]
    kv_heads = [_HEADS[heads](case, head) for head in range(case.num_heads)]
    scores = torch.einsum("hd,htd->ht", case.query, keys[kv_heads]) * _SCALES[scale](case)
    return torch.einsum("ht,htd->hd", _SOFTMAXES[softmax](scores), values[kv_heads])


_PARTS = {"table": _TABLES, "cut": _CUTS, "heads": _HEADS, "scale": _SCALES, "softmax": _SOFTMAXES, "read": _READS,
          "summed": _SUMMED}
_MOST_MISTAKES = 2


def _mistake_in(case: AttendCase, result: torch.Tensor) -> str:
    """The mistake, or the two, in words, that would give this result and was right in the cases before; "" if nothing
    known does."""
    before = list(itertools.takewhile(lambda each: each is not case, CASES))
    for number in range(1, _MOST_MISTAKES + 1):
        for parts in itertools.combinations(_PARTS, number):
            for choice in itertools.product(*([each for each in _PARTS[part] if each] for part in parts)):
                variant = dict(zip(parts, choice))
                if _gives(variant, case, result) and all(_gives(variant, each, each.attention()) for each in before):
                    return ". ".join(choice)
    return ""


def _gives(variant: dict[str, str], case: AttendCase, result: torch.Tensor) -> bool:
    try:
        return close(result, case.attention(**variant))
    except (IndexError, RuntimeError):  # the variant cannot be carried out here
        return False


# ── the counter-example ──────────────────────────────────────────────────────────────────────────────────────────────


def _counter_example(case: AttendCase, result: torch.Tensor, expected: torch.Tensor) -> Wrong:
    mistake = _mistake_in(case, result)
    if case.shows_weights and _KEYS_SUMMED not in mistake:
        yours, right, picture = _weights_compared(case, result, expected)
    else:
        off = (result - expected).abs().nan_to_num(torch.inf)
        head, number = divmod(int(off.argmax()), case.head_dim)
        yours, right = (f"number {number} of head {head} is {float(tensor[head, number]):.3g}"
                        for tensor in (result, expected))
        picture = None
    return counter_example(str(case), yours, f"{right}{'. ' * bool(mistake)}{mistake}", picture)


def _weights_compared(case: AttendCase, result: torch.Tensor, expected: torch.Tensor
                      ) -> tuple[str, str, tuple[bytes, str] | None]:
    slots = case.num_blocks * case.block_size
    yours, right = (tensor.view(case.num_heads, case.num_kv_heads, slots) for tensor in (result, expected))
    off = (yours - right).abs().nan_to_num(torch.inf)
    worst = float(off.max())
    if worst <= TOLERANCE:  # percentages would look the same
        return (f"the weights are up to {100 * worst:.1g} % off",
                "the same as in float32, to a hundredth of a percent", None)
    # first what should not be read at all, for that says most
    stray = torch.where(right == 0, off, 0.0)
    off = stray if bool((stray > TOLERANCE).any()) else off
    head, kv_head, slot = (off > TOLERANCE).nonzero()[0].tolist()
    weight, should = (float(tensor[head, kv_head, slot]) for tensor in (yours, right))
    where = f"block {slot // case.block_size}, offset {slot % case.block_size}"
    position = case.positions.get(slot)
    if should == 0:
        group = case.num_heads // case.num_kv_heads
        why = f"KV head {head // group} is the one that it reads" if kv_head != head // group else \
            f"block {slot // case.block_size} is not in the table" if position is None else \
            f"that is position {position}, and there are {count(case.num_tokens, 'token')}"
        said = f"head {head} gives {percent(weight)} to {where}" + f" of KV head {kv_head}" * (kv_head != head // group)
        wanted = f"nothing: {why}"
    else:
        said, wanted = f"head {head} gives {percent(weight)} to position {position}, in {where}", percent(should)
        total = float(yours[head].sum())
        if abs(total - 1) > TOLERANCE:
            said += f", and {percent(total)} in all"
    return said, wanted, _picture(case, yours, right, head)


def _picture(case: AttendCase, yours: torch.Tensor, right: torch.Tensor, head: int) -> tuple[bytes, str]:
    size, positions = case.block_size, case.positions
    rows = [WeightRow(f"head {head}, KV head {kv_head}", yours[head, kv_head].tolist(), right[head, kv_head].tolist())
            for kv_head in range(case.num_kv_heads)
            if bool((yours[head, kv_head] != 0).any() | (right[head, kv_head] != 0).any())]
    labels = [str(positions[slot]) if positions.get(slot, case.num_tokens) < case.num_tokens else "×"
              for slot in range(case.num_blocks * size)]
    groups = [(f"block {block}" if size > 1 else str(block), size) for block in range(case.num_blocks)]
    places = [f"block {slot // size}, offset {slot % size}" for slot in range(case.num_blocks * size)]
    title = f"What query head {head} attends to, in %; × is not its sequence's; below a wrong one, the right one"
    picture = plot_weights(rows, groups, labels, places, title)
    return picture.png(), f"What query head {head} attends to, by slot of the pool. {picture.alt}"
