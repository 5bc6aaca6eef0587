"""Exercise 06.1: what a learner's code writes into a pool, slot by slot, beside what should be there.

If the whole pool is as one of the known mistakes would leave it, the counter-example names the mistake.
"""

import itertools
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from pagedkv.lab.counter_example import counter_example
from pagedkv.lab.grading import NotYet, Wrong, describe_error
from pagedkv.lab.real_coded import KINDS, MIXED, UNTOUCHED, Coded, used_storage
from pagedkv.lab.sharing_pictures import Row, plot_reads
from pagedkv.viz.words import count

_LAYER, _NUM_LAYERS, _HEAD_DIM = 1, 3, 2
_MOST_DRAWN = 40  # slots
_RANDOM_CASES = 40


class WriteCase(NamedTuple):
    """num_tokens new ones from position `start` on; those before are written already."""

    name: str
    block_table: list[int]
    start: int
    num_tokens: int
    num_blocks: int = 6
    block_size: int = 4
    num_kv_heads: int = 2

    def __str__(self) -> str:
        what = f"{self.num_tokens} tokens" if self.num_tokens > 1 else "1 token"
        return (f"{self.name}\n   {what} from position {self.start} on, block_table {self.block_table}, blocks of "
                f"{self.block_size} tokens, {count(self.num_kv_heads, 'KV head')}")


CASES = (
    WriteCase("a prompt, in one block", [3], 0, 3),
    WriteCase("a prompt, over a boundary", [3, 1], 0, 6),
    WriteCase("one more token", [3, 1], 6, 1),
    WriteCase("the first token of a new block", [3, 1, 4], 8, 1),
    WriteCase("a chunk that begins in the middle of a block", [5, 0, 2], 3, 7),
    WriteCase("a table that does not rise", [5, 4, 0], 0, 12),
    WriteCase("as many KV heads as a block has tokens", [2, 5], 3, 4, num_kv_heads=4),
    WriteCase("one KV head", [2, 0], 2, 3, num_kv_heads=1),
    WriteCase("blocks of one token", [4, 2, 5], 1, 2, block_size=1),
    WriteCase("blocks of 16 tokens", [1, 3, 0], 15, 20, 5, 16, 3),
)
BEYOND = (
    WriteCase("the table is full", [3, 1], 8, 1),
    WriteCase("the last tokens have no block", [3, 1], 6, 4),
    WriteCase("far behind the table", [3, 1], 20, 2),
    WriteCase("no blocks yet", [], 0, 1),
)


class _Pool:
    """A layer of a storage in which the first tokens are written already."""

    def __init__(self, case: WriteCase):
        self.case = case
        self.storage = used_storage(_NUM_LAYERS, case.num_kv_heads, _HEAD_DIM, case.num_blocks, case.block_size)
        self.coded = Coded(1, case.num_kv_heads, _HEAD_DIM, case.start + case.num_tokens)
        for position in range(min(case.start, len(case.block_table) * case.block_size)):
            self._put(self.storage.data, position, *self.place(position))
        self.before = self.storage.data.clone()

    def place(self, position: int) -> tuple[int, int]:
        logical, offset = divmod(position, self.case.block_size)
        return self.case.block_table[logical], offset

    def _put(self, data: torch.Tensor, position: int, block: int, offset: int) -> None:
        for kind in (0, 1):
            data[kind, _LAYER, block, :, offset] = self.coded.vectors(kind, 0, position, position + 1)[0]

    def new(self, kind: int) -> torch.Tensor:
        return self.coded.vectors(kind, 0, self.case.start, self.case.start + self.case.num_tokens)

    def expected(self) -> torch.Tensor:
        data = self.before.clone()
        for position in range(self.case.start, self.case.start + self.case.num_tokens):
            if position < len(self.case.block_table) * self.case.block_size:
                self._put(data, position, *self.place(position))
        return data

    def run(self, write_tokens: Callable) -> None:
        table = list(self.case.block_table)
        write_tokens(self.storage.keys(_LAYER), self.storage.values(_LAYER), table, self.case.start, self.new(0),
                     self.new(1))
        if table != self.case.block_table:
            raise counter_example(str(self.case), f"the caller's block table is now {table}",
                                  f"{self.case.block_table}, as before")


def try_write(write_tokens: Any) -> str:
    """Raises Wrong at the first case in which the pool is not as it should be. Returns what was tried."""
    if not callable(write_tokens):
        raise Wrong(f'check gets your function: check("06.1", write_tokens); got {write_tokens!r:.80}')
    for case in CASES:
        _write(write_tokens, case)
    for case in BEYOND:
        _write_beyond(write_tokens, case)
    rng = random.Random(1)
    for _ in range(_RANDOM_CASES):
        _write(write_tokens, _random_case(rng))
    return (f"{len(CASES)} named cases and {_RANDOM_CASES} random ones, each slot of the pool compared; "
            f"{len(BEYOND)} writes behind the table are refused")


def _write(write_tokens: Callable, case: WriteCase) -> None:
    pool = _Pool(case)
    try:
        pool.run(write_tokens)
    except (NotYet, Wrong):
        raise
    except Exception as error:
        raise counter_example(str(case), f"raised {describe_error(error)}", f"{case.num_tokens} keys and values in "
                              f"{count(_num_blocks(case), 'block')}{_heads_for_block_size(case, error)}") from None
    if not torch.equal(pool.storage.data, pool.expected()):
        raise _counter_example(pool)


def _num_blocks(case: WriteCase) -> int:
    return (case.start + case.num_tokens - 1) // case.block_size - case.start // case.block_size + 1


def _heads_for_block_size(case: WriteCase, error: Exception) -> str:
    """A question, where the table seems too short to one who takes the KV heads for the tokens of a block."""
    last = case.start + case.num_tokens - 1
    if isinstance(error, IndexError) and last // case.num_kv_heads >= len(case.block_table):
        return ". Is your block size keys_pool.shape[2]? shape[1] is the number of KV heads"
    return ""


def _write_beyond(write_tokens: Callable, case: WriteCase) -> None:
    pool, last = _Pool(case), len(case.block_table) * case.block_size - 1
    there = f"the table has positions 0 to {last}" if last >= 0 else "the table is empty"
    expected = f"an exception, such as the IndexError of a list: {there}"
    try:
        pool.run(write_tokens)
    except (NotYet, Wrong):
        raise
    except AssertionError:
        raise counter_example(str(case), "an AssertionError", "an exception that is there under python -O too, which "
                              "leaves out every assert") from None
    except Exception:
        foreign = _changed_blocks(pool) - set(case.block_table)
        if foreign:
            raise counter_example(str(case), f"an exception, and block {min(foreign)} was written to before",
                                  f"nothing is written to a block that is not in the table {case.block_table}",
                                  _picture(pool)) from None
        return
    changed = sorted(_changed_blocks(pool))
    what = f"block {changed[0]} was written to" if changed else "nothing was written"
    raise counter_example(str(case), f"no exception, and {what}", expected, _picture(pool))


def _changed_blocks(pool: _Pool) -> set[int]:
    return set((pool.storage.data != pool.before).any(-1).nonzero()[:, 2].tolist())


def _random_case(rng: random.Random) -> WriteCase:
    size, num_blocks = rng.choice((1, 2, 3, 4, 16)), rng.randint(4, 12)
    table = rng.sample(range(num_blocks), rng.randint(1, min(5, num_blocks)))
    start = rng.randrange(len(table) * size)
    return WriteCase("a random case", table, start, rng.randint(1, len(table) * size - start), num_blocks, size,
                     rng.randint(1, 4))


# ── the counter-example ──────────────────────────────────────────────────────────────────────────────────────────────


def _counter_example(pool: _Pool) -> Wrong:
    case, data, expected = pool.case, pool.storage.data, pool.expected()
    if torch.equal(data, pool.before):
        return counter_example(str(case), "both pools are as they were", "the keys and values are in the pools. "
                               "pool[a_list] and clone() give copies; pool[block, :, offset] = … writes into the pool",
                               _picture(pool))
    mistake = _mistake_in(pool)
    yours, right = _first_difference(pool, data, expected)
    return counter_example(str(case), yours, f"{right}{'. ' * bool(mistake)}{mistake}", _picture(pool))


def _first_difference(pool: _Pool, data: torch.Tensor, expected: torch.Tensor) -> tuple[str, str]:
    case = pool.case
    for position in range(case.start, case.start + case.num_tokens):
        block, offset = pool.place(position)
        for kind in (0, 1):
            there, right = data[kind, _LAYER, block, :, offset], expected[kind, _LAYER, block, :, offset]
            if not torch.equal(there, right):
                head = int((there != right).any(-1).nonzero()[0, 0])
                what = f"the {KINDS[kind]} of position {position}, KV head {head}"
                found = _find(data, right[head])
                yours = f"{what}, is nowhere" if found is None else f"{what}, is in {_words(found, kind, head)}"
                logical = position // case.block_size
                return yours, (f"in block {block}, offset {offset}: position {position} is in entry {logical} of the "
                               "table")
    kind, _, block, head, offset = (data != expected).any(-1).nonzero()[0].tolist()
    held = pool.coded.describe(expected[kind, _LAYER, block, head, offset])
    right = f"{held}: it has to stay" if block in case.block_table else "nothing changes there: it is not in the table"
    return f"all are in their places, but block {block}, offset {offset} was written to as well", right


def _find(data: torch.Tensor, vector: torch.Tensor) -> tuple[int, ...] | None:
    places = (data == vector).all(-1).nonzero()
    return tuple(places[0].tolist()) if len(places) else None


def _words(place: tuple[int, ...], kind: int, head: int) -> str:
    at_kind, _, block, at_head, offset = place
    return f"block {block}, offset {offset}" + f", KV head {at_head}" * (at_head != head) + \
        f", of the {KINDS[at_kind]}s' pool" * (at_kind != kind)


# What people write instead, part by part: how it comes out, and what to say.
_BLOCKS = {
    "": lambda case, number: case.block_table[(case.start + number) // case.block_size],
    "Your code takes the logical block for the physical one: look it up in the table":
        lambda case, number: (case.start + number) // case.block_size,
    "Your code takes the table's entry from the token's number in this call, not from its position":
        lambda case, number: case.block_table[number // case.block_size],
    "Your code stays in the first token's block": lambda case, number: case.block_table[case.start // case.block_size],
    "Your code sorts the table: its order is the sequence's":
        lambda case, number: sorted(case.block_table)[(case.start + number) // case.block_size],
}
_OFFSETS = {
    "": lambda case, number: (case.start + number) % case.block_size,
    "Your code takes the offset from the token's number in this call, not from its position":
        lambda case, number: number % case.block_size,
    "Your code is one position too late": lambda case, number: (case.start + number + 1) % case.block_size,
}
_PARTS = {  # (pool, what goes into it)
    "": ((0, 0), (1, 1)),
    "Your code writes the keys only": ((0, 0),),
    "Your code writes the values only": ((1, 1),),
    "Your code writes the values into the keys' pool": ((0, 1),),
    "Your code writes the keys into both pools": ((0, 0), (1, 0)),
    "Your code writes the keys into the values' pool and the values into the keys'": ((0, 1), (1, 0)),
}
_HEADS = {
    "": lambda pool, block, offset, vectors: pool[block, :, offset].copy_(vectors),
    "Your code takes the offset for the KV head: the order is [block, KV head, offset]":
        lambda pool, block, offset, vectors: pool[block, offset].copy_(vectors),
    "Your code writes KV head 0 only": lambda pool, block, offset, vectors: pool[block, 0, offset].copy_(vectors[0]),
}
_NUM_TOKENS = {"": lambda case: case.num_tokens, "Your code writes the first token only": lambda case: 1,
               "Your code leaves out the last token": lambda case: case.num_tokens - 1,
               "Your code stops at the end of the first token's block":
                   lambda case: min(case.num_tokens, case.block_size - case.start % case.block_size)}


def _mistake_in(pool: _Pool) -> str:
    """What would leave the pool as it is, in words; the simplest. "" if nothing known does."""
    choices = itertools.product(_BLOCKS, _OFFSETS, _PARTS, _HEADS, _NUM_TOKENS)
    for choice in sorted(choices, key=lambda parts: sum(map(bool, parts))):
        if any(choice) and _would_leave(pool, *choice):
            return ". ".join(part for part in choice if part)
    return ""


def _would_leave(pool: _Pool, block_of: str, offset_of: str, parts: str, heads: str, num_tokens: str) -> bool:
    case, data = pool.case, pool.before.clone()
    new = pool.new(0), pool.new(1)
    try:
        for number in range(_NUM_TOKENS[num_tokens](case)):
            block, offset = _BLOCKS[block_of](case, number), _OFFSETS[offset_of](case, number)
            for target, source in _PARTS[parts]:
                _HEADS[heads](data[target, _LAYER], block, offset, new[source][number])
    except (IndexError, RuntimeError):
        return False
    return torch.equal(data, pool.storage.data)


def _picture(pool: _Pool) -> tuple[bytes, str] | None:
    case = pool.case
    if case.num_blocks * case.block_size > _MOST_DRAWN:
        return None
    wrong = (pool.storage.data != pool.expected()).any(-1)[:, _LAYER]  # [kind, block, head, offset]
    heads = wrong.any(0).any(0).any(-1).nonzero()
    head = int(heads[0, 0]) if len(heads) else 0
    rows = [Row(KINDS[kind] + "s", range(case.num_blocks), _positions(pool, pool.storage.data, kind, head),
                _positions(pool, pool.expected(), kind, head)) for kind in (0, 1)]
    title = f"Whose keys and values lie where, by position (KV head {head}); below a wrong one, the right one"
    alt = "; ".join(_in_words(pool, row) for row in rows)
    return plot_reads(rows, case.block_size, _text, title).png(), f"The pool, KV head {head}: {alt}"


def _positions(pool: _Pool, data: torch.Tensor, kind: int, head: int) -> list[int | None]:
    """Whose vector lies in each slot, in the order of the pool."""
    vectors = data[kind, _LAYER, :, head].reshape(-1, _HEAD_DIM)
    found = []
    for vector in vectors:
        whose = pool.coded.whose(vector)
        right_kind = whose is not None and whose[0] == kind and whose[3] == head
        found.append(UNTOUCHED if bool((vector < 0).all()) else whose[2] if right_kind else MIXED)
    return found


def _text(position: int | None) -> str:
    return "·" if position is UNTOUCHED else "?" if position == MIXED else str(position)


def _in_words(pool: _Pool, row: Row) -> str:
    if not row.wrong:
        return f"the {row.name} are right"
    size, told = pool.case.block_size, []
    for slot in row.wrong:
        right = row.should_read[slot]
        told.append(f"block {slot // size}, offset {slot % size} has {_text(row.reads[slot])} instead of "
                    f"{_text(right)}")
    return f"of the {row.name}, {', '.join(told)}"
