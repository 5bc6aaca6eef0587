"""A learner's prefix index next to the truth, which is found without any index: by comparing whole prompts.

An answer is a class: `Index(block_size)`, with `insert(tokens, blocks)` and `longest_prefix(tokens)`. Which of several
blocks with the same contents is found is the learner's choice; that the longest beginning is found, and nothing else,
is not.

Three ways to make hashes collide: tokens for which Python's own `hash` does (-1 and -2), a `hash` with a few values in
the place of Python's, for the answer alone, and very many prompts, for whoever cuts a hash short.
"""

import builtins
import random
import time
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from pagedkv.lab.counter_example import counter_example
from pagedkv.lab.grading import NotYet, Wrong

Step = tuple[str, list[int], list[int]]  # "insert", tokens, blocks; or "look", tokens, []


def insert(tokens: list[int], *blocks: int) -> Step:
    return "insert", tokens, list(blocks)


def look(tokens: list[int]) -> Step:
    return "look", tokens, []


# Blocks of 2 tokens.
CASES: dict[str, list[Step]] = {
    "the same prompt again": [insert([1, 2, 3, 4], 7, 8), look([1, 2, 3, 4])],
    "nothing is known": [look([1, 2, 3, 4]), look([])],
    "the same beginning": [insert([1, 2, 3, 4], 7, 8), look([1, 2, 5, 6])],
    "a shorter prompt": [insert([1, 2, 3, 4], 7, 8), look([1, 2])],
    "a longer prompt": [insert([1, 2], 7), look([1, 2, 3, 4])],
    "a block that is not full is never entered": [insert([1, 2, 3], 7, 8), look([1, 2, 3]), look([1, 2, 3, 4])],
    "only from the beginning on": [insert([1, 2, 3, 4], 7, 8), look([3, 4]), look([9, 9, 3, 4])],
    "the same block after another beginning": [insert([1, 2, 5, 5], 7, 8), insert([3, 4, 6, 6], 9, 10),
                                               look([3, 4, 5, 5])],
    "the same block twice in a prompt": [insert([1, 1, 1, 1], 7, 8), look([1, 1, 1, 1, 1, 1])],
    "the order counts": [insert([1, 2, 3, 4], 7, 8), look([2, 1, 3, 4]), look([3, 4, 1, 2]), look([1, 2, 4, 3])],
    "1, 23 is not 12, 3": [insert([1, 23], 7), insert([12, 3], 8), look([12, 3]), look([1, 23])],
    "two questions after one beginning": [insert([1, 2, 3, 4], 7, 8), insert([1, 2, 5, 6], 7, 9), look([1, 2, 5, 6]),
                                          look([1, 2, 3, 4])],
    "the same beginning, computed twice": [insert([1, 2, 3, 4], 7, 8), insert([1, 2, 5, 6], 9, 10), look([1, 2, 3, 4]),
                                           look([1, 2, 5, 6])],
    "large token ids": [insert([128_000, 70_000, 5, 6], 7, 8), look([128_000, 70_000, 5, 7])],
    "hash(-1) == hash(-2)": [insert([-1, 5], 7), look([-2, 5]), insert([-2, 5], 8), look([-2, 5])],
}
_BLOCK_SIZE = 2
_BIRTHDAY_PROMPTS, _BIRTHDAY_SECONDS, _BIRTHDAY_BLOCK = 200_000, 8.0, 8
WEAK = " (here your hash() is one with 4 values, so that prompts collide)"


class _Truth:
    """Every full beginning that was inserted, and the blocks that hold it."""

    def __init__(self, block_size: int):
        self.size, self.holders = block_size, {}

    def insert(self, tokens: list[int], blocks: list[int]) -> None:
        for number in range(len(tokens) // self.size):
            self.holders.setdefault(tuple(tokens[:(number + 1) * self.size]), set()).add(blocks[number])

    def longest_prefix(self, tokens: list[int]) -> list[set[int]]:
        found = []
        for end in range(self.size, len(tokens) + 1, self.size):
            if tuple(tokens[:end]) not in self.holders:
                break
            found.append(self.holders[tuple(tokens[:end])])
        return found


def try_index(index_class: type) -> str:
    """Raises Wrong at the first call after which the answer and the truth differ. Returns what was tried."""
    def play_all(remark: str) -> None:
        for name, steps in CASES.items():
            _play(index_class, steps, _BLOCK_SIZE, name, remark)
        _play_changed_list(index_class, remark)
        for seed in range(40):  # the shortest first, so that a counter-example can be read
            _play(index_class, _random_steps(seed, 3 + seed // 2), _BLOCK_SIZE, "random prompts", remark)

    play_all("")
    with weak_hash(index_class):
        play_all(WEAK)
    _play_birthdays(index_class)
    return (f"{len(CASES)} named cases, the same with hashes that collide, "
            f"and up to {_BIRTHDAY_PROMPTS:,} prompts of one block")


def _play(index_class: type, steps: list[Step], block_size: int, name: str, remark: str) -> None:
    index, truth, story = index_class(block_size), _Truth(block_size), []
    for op, tokens, blocks in steps:
        if op == "insert":
            index.insert(list(tokens), list(blocks))
            truth.insert(tokens, blocks)
            story.append(f"   insert({tokens}, {blocks})")
        else:
            said = read_blocks(index.longest_prefix(list(tokens)))
            _compare(said, truth.longest_prefix(tokens), f"{name}{remark}, blocks of {block_size} tokens\n"
                     + "\n".join([*story, f"   longest_prefix({tokens})"]), truth)


def _play_changed_list(index_class: type, remark: str) -> None:
    index, truth = index_class(_BLOCK_SIZE), _Truth(_BLOCK_SIZE)
    tokens, blocks = [1, 2, 3, 4], [7, 8]
    index.insert(tokens, blocks)
    truth.insert(tokens, blocks)
    tokens[0], blocks[0] = 9, 99
    _compare(read_blocks(index.longest_prefix([1, 2, 3, 4])), truth.longest_prefix([1, 2, 3, 4]),
             f"the lists are the caller's{remark}, who goes on using them\n"
             "   insert(tokens, blocks) with [1, 2, 3, 4] and [7, 8], then tokens[0] = 9 and blocks[0] = 99\n"
             "   longest_prefix([1, 2, 3, 4])", truth)


def read_blocks(answer: Any) -> list[int]:
    if answer is None:
        raise NotYet("longest_prefix() returns nothing yet")
    try:
        return [int(block) for block in answer]
    except (TypeError, ValueError):
        raise Wrong(f"longest_prefix() returns a list of blocks, such as [7, 8] or []; got {answer!r:.60}") from None


def _compare(said: list[int], expected: list[set[int]], situation: str, truth: _Truth) -> None:
    if len(said) == len(expected) and all(block in right for block, right in zip(said, expected)):
        return
    right = [min(blocks) for blocks in expected]
    reason = ""
    for block, blocks in zip(said, expected + [set()] * len(said)):
        if block not in blocks:
            held = [list(tokens) for tokens, holders in truth.holders.items() if block in holders]
            reason = f"\n   block {block} was never inserted" if not held else \
                f"\n   block {block} holds the end of {held[0]}: another prompt's keys and values would be served"
            break
    raise counter_example(situation, str(said), f"{right}{reason}")


def _random_steps(seed: int, length: int) -> list[Step]:
    rng, steps, block = random.Random(seed), [], 100
    for _ in range(length):
        tokens = rng.choices(range(3), k=rng.randint(0, 9))
        if rng.random() < 0.5:
            num_blocks = -(-len(tokens) // _BLOCK_SIZE)
            steps.append(insert(tokens, *range(block, block + num_blocks)))
            block += num_blocks
        else:
            steps.append(look(tokens))
    return steps


def _play_birthdays(index_class: type) -> None:
    """So many prompts that two of them share a hash of 32 bits. Ends early if an index is slow, and right so far."""
    rng, started = random.Random(5), time.monotonic()
    index, prompts = index_class(_BIRTHDAY_BLOCK), []
    while len(prompts) < _BIRTHDAY_PROMPTS and time.monotonic() - started < _BIRTHDAY_SECONDS / 2:
        for _ in range(1_000):
            prompts.append([rng.getrandbits(17) for _ in range(_BIRTHDAY_BLOCK)])
            index.insert(prompts[-1], [len(prompts) - 1])
    for tried, prompt in enumerate(prompts):
        said = read_blocks(index.longest_prefix(prompt))
        if said != [tried]:
            whose = f"\n   block {said[0]} holds {prompts[said[0]]}: two prompts with the same hash" \
                if said and said[0] in range(len(prompts)) else ""
            raise counter_example(f"{len(prompts):,} prompts of one block; longest_prefix({prompt})", str(said),
                                  f"{[tried]}{whose}")
        if time.monotonic() - started > _BIRTHDAY_SECONDS:
            return


@contextmanager
def weak_hash(answer: type) -> Iterator[None]:
    """While it lasts, `hash` in the code of this class means one with four values."""
    def weak(value: object) -> int:
        return builtins.hash(value) % 4

    spaces = {id(space): space for space in map(lambda function: function.__globals__, _functions_of(answer))}.values()
    before = [(space, space.get("hash", spaces)) for space in spaces]  # `spaces` stands for: there was none
    for space in spaces:
        space["hash"] = weak
    try:
        yield
    finally:
        for space, value in before:
            if value is spaces:
                del space["hash"]
            else:
                space["hash"] = value


def _functions_of(answer: type) -> Iterator[types.FunctionType]:
    for base in answer.__mro__:
        for member in vars(base).values():
            function: Callable | Any = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(function, types.FunctionType):
                yield function
