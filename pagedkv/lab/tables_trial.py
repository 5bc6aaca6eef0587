"""Learners' block tables next to the course's: the first call after which they differ, in words.

Which physical blocks a sequence gets is the pool's choice. What counts is how many it has after each call, that it has
entered those that it took, and no others, and that a refused call has changed nothing.
"""

import operator
import random
from collections.abc import Callable, Hashable, Mapping
from typing import Any

from pagedkv.core.block_table import num_blocks_for
from pagedkv.core.errors import OutOfBlocks
from pagedkv.core.pool import BlockPool
from pagedkv.lab.grading import NotYet, Wrong, describe_error, is_java
from pagedkv.lab.pool_trial import draw_two
from pagedkv.lab.tables_cases import int32
from pagedkv.viz.words import count

NO_ASSERTION = ("an exception. Here assertions are on, but a server runs without -ea, and an assert does nothing "
                "there: throw one yourself")
MakeSequence = Callable[[BlockPool, int], Any]
_MOST_TOLD = 8  # calls before the one that went wrong


class SequencesTrial:
    """A learner's sequences that share a pool of ours. Sequences are called by names."""

    def __init__(self, make: MakeSequence, num_blocks: int, block_size: int):
        self._make, self._block_size = make, block_size
        self._pool = BlockPool(num_blocks)
        self._sequences: dict[str, Any] = {}
        self._lengths: dict[str, int] = {}
        self._tables: dict[str, list[int]] = {}
        self._told: list[str] = []

    def append(self, name: str, n: int) -> None:
        if name not in self._sequences:
            self._sequences[name] = self._make(self._pool, self._block_size)
            self._lengths[name], self._tables[name] = 0, []
        sequence, text = self._sequences[name], f"{name}.append({n})"
        length, table, free = self._lengths[name], self._tables[name], self._pool.num_free_blocks
        before = self._pool.refcounts()
        needed = num_blocks_for(length + n, self._block_size) - len(table)
        refused = needed > free
        raised = None
        try:
            sequence.append(n)
        except NotYet:
            raise
        except Exception as error:
            raised = error
        if raised is not None and not refused:
            self._differs(text, f"raised {describe_error(raised)}", self._expected(name, n, needed))
        if refused:
            self._compare_refused(text, name, raised, needed, free, before)
            self._told.append(f"{text}: refused")
            return
        self._lengths[name] = length + n
        self._compare(text, name, n, needed)
        self._told.append(text)

    def _expected(self, name: str, n: int, needed: int) -> str:
        last = len(self._tables[name]) * self._block_size - self._lengths[name]
        room = f"the last block has room for {last}" if self._tables[name] else "it has no block yet"
        new = count(needed, "new block") if needed else "no new block"
        return f"{new}: {room}, {count(n, 'token')} come{'s' * (n == 1)}"

    def _compare(self, text: str, name: str, n: int, needed: int) -> None:
        old, table = self._tables[name], self._read_table(text, name)
        before_length = self._lengths[name] - n
        self._lengths[name] = before_length
        expected = self._expected(name, n, needed)
        self._lengths[name] = before_length + n
        if len(table) != len(old) + needed:
            self._differs(text, f"block_table {table}, {_blocks(len(table))}",
                          f"{_blocks(len(old) + needed)}, {expected}")
        if table[:len(old)] != old:
            self._differs(text, f"block_table {table}",
                          f"{old} first, as before: new blocks are entered behind the others")
        counts, new = self._pool.refcounts(), table[len(old):]
        held = {block for other, blocks in self._tables.items() if other != name for block in blocks} | set(old)
        for block in new:
            if not 0 <= block < len(counts) or not counts[block]:
                self._differs(text, f"block_table {table}", f"blocks that the pool gave out; {block} is none of them")
            if block in held or new.count(block) > 1:
                self._differs(text, f"block_table {table}", f"a block of its own; {block} stands in a table already")
        if sum(counts) != len(held) + needed:
            self._differs(text, f"{sum(counts)} blocks are taken from the pool in all, {len(held) + needed} stand in a "
                          "table", "every block that is taken is entered")
        self._compare_length(text, name)
        self._tables[name] = table

    def _compare_refused(self, text: str, name: str, raised: Exception | None, needed: int, free: int,
                         before: list[int]) -> None:
        what = f"OutOfBlocks, and nothing has changed: {_blocks(needed)} needed, {free} free"
        after = self._pool.refcounts()
        if after != before:
            self._differs(text, f"{_blocks(sum(after) - sum(before))} more are taken from the pool, although "
                          f"{_how_it_ended(raised)}", what,
                          draw_two(after, before, [b for b in range(len(after)) if after[b] != before[b]],
                                   f"call {len(self._told) + 1}, {text}"))
        if raised is None:
            self._differs(text, "raised nothing", what)
        table = self._read_table(text, name)
        if table != self._tables[name]:
            self._differs(text, f"block_table {table} after the refusal", f"{self._tables[name]}, as before")
        self._compare_length(text, name)

    def _compare_length(self, text: str, name: str) -> None:
        answer = getattr(self._sequences[name], "num_tokens", None)
        if answer != self._lengths[name]:
            self._differs(text, f"num_tokens is {answer!r:.40}", f"{self._lengths[name]}")

    def _read_table(self, text: str, name: str) -> list[int]:
        answer = getattr(self._sequences[name], "block_table", None)
        try:
            return [operator.index(block) for block in answer]
        except TypeError:
            self._differs(text, f"block_table is {answer!r:.60}", "a list of blocks, one number each")

    def _differs(self, text: str, yours: str, expected: str, picture: tuple[bytes, str] | None = None) -> None:
        told = ["…"] * (len(self._told) > _MOST_TOLD) + self._told[-_MOST_TOLD:]
        so_far = f"\n   before:    {', '.join(told)}" if told else ""
        raise Wrong(f"a pool of {_blocks(self._pool.num_blocks)}, {self._block_size} tokens each: {text}{so_far}\n"
                    f"   yours:     {yours}\n   expected:  {expected}", picture)


def try_sequences(make: MakeSequence, cases: dict[str, tuple[int, int, str]]) -> None:
    """Named cases: how many blocks, their size, and the calls, as in "A5 A1 B16"."""
    for name, (num_blocks, block_size, calls) in cases.items():
        trial = SequencesTrial(make, num_blocks, block_size)
        try:
            for call in calls.split():
                trial.append(call[0], int(call[1:]))
        except Wrong as wrong:
            raise Wrong(f"{name}\n   {wrong}", wrong.picture) from None


def try_random_sequences(make: MakeSequence, num_calls: int, seed: int) -> None:
    rng = random.Random(seed)
    block_size = rng.choice((1, 2, 3, 4, 16))
    trial = SequencesTrial(make, rng.randint(4, 24), block_size)
    for _ in range(num_calls):
        trial.append(rng.choice("ABC"), rng.choice((1, 1, 1, 1, rng.randint(1, 3 * block_size))))


def _blocks(number: int) -> str:
    return count(number, "block")


def _how_it_ended(raised: Exception | None) -> str:
    """An exception that is no refusal is a slip of the learner's own, in giving back as a rule: it is named."""
    if raised is None:
        return "not all could be had"
    return "it raised" if isinstance(raised, OutOfBlocks) else f"it raised {describe_error(raised)}"


# ── a store of many tables, in Java ──────────────────────────────────────────────────────────────────────────────────


class StoreTrial:
    """A learner's TableStore next to a dict of lists.

    left_before  what the store of the trial before held in the end; this one is new, and may not know of it
    """

    def __init__(self, store: Any, left_before: Mapping[int, list[int]] | None = None):
        self._store = store
        self._model: dict[int, list[int]] = {}
        self._left_before = left_before or {}
        self._by_int: dict[int, list[int]] = {}  # what a store would hold that keeps 32 bits of each id
        self._told: list[str] = []

    @property
    def tables(self) -> dict[int, list[int]]:
        return self._model

    def append(self, sequence: int, block: int) -> None:
        self._call(f"append({sequence}, {block})", lambda: self._store.append(sequence, block))
        self._model.setdefault(sequence, []).append(block)
        self._by_int.setdefault(int32(sequence), []).append(block)

    def lookup(self, sequence: int, logical: int) -> None:
        text, table = f"lookup({sequence}, {logical})", self._model.get(sequence)
        if table is None:
            self._refused(text, lambda: self._store.lookup(sequence, logical), f"there is no sequence {sequence}",
                          lambda answer: self._static(sequence, logical, answer))
        elif not 0 <= logical < len(table):
            why = f"sequence {sequence} has {_blocks(len(table))}"
            self._refused(text, lambda: self._store.lookup(sequence, logical), why,
                          lambda answer: self._same_int(sequence, logical, answer))
        else:
            answer = self._call(text, lambda: self._store.lookup(sequence, logical))
            if int(answer) != table[logical]:
                self._differs(text, f"{answer}", f"{table[logical]}: the table of {sequence} is {_short(table)}"
                              + self._same_int(sequence, logical, answer))

    def remove(self, sequence: int) -> None:
        text = f"remove({sequence})"
        if sequence not in self._model:
            self._refused(text, lambda: self._store.remove(sequence), f"there is no sequence {sequence}")
            return
        answer = self._call(text, lambda: self._store.remove(sequence))
        table = self._model.pop(sequence)
        self._by_int.pop(int32(sequence), None)
        blocks = None if answer is None else [int(block) for block in answer]
        if blocks != table:
            self._differs(text, "null" if blocks is None else _short(blocks), _short(table))

    def look_everywhere(self) -> None:
        for sequence, table in self._model.items():
            for logical in range(-1, len(table) + 1):
                self.lookup(sequence, logical)

    def many_sequences(self, number: int) -> None:
        """More sequences at once than one would write down as the size of an array."""
        ids = [1_000_003 * k for k in range(number)]
        for turn in range(2):
            for k, sequence in enumerate(ids):
                self.append(sequence, 2 * k + turn)
        for sequence in ids:
            self.lookup(sequence, 1)
        for sequence in ids:
            self.remove(sequence)

    def _static(self, sequence: int, logical: int, answer: Any) -> str:
        """Does a new store answer what the one before would have?"""
        table = self._left_before.get(sequence, [])
        if not 0 <= logical < len(table) or int(answer) != table[logical]:
            return ""
        return ". A new object knows the sequences of another: is a field static?"

    def _same_int(self, sequence: int, logical: int, answer: Any) -> str:
        """Is it the answer of a store that cuts ids to an int?"""
        merged = self._by_int.get(int32(sequence), [])
        others = [other for other in self._model if other != sequence and int32(other) == int32(sequence)]
        if not others or not 0 <= logical < len(merged) or int(answer) != merged[logical]:
            return ""
        return f". As an int, {_id(sequence)} and {_id(others[0])} are the same"

    def random_calls(self, number: int, rng: random.Random) -> None:
        ids = [rng.randrange(-2**40, 2**40) for _ in range(6)] + [0, 1]
        for _ in range(number):
            sequence, op = rng.choice(ids), rng.random()
            if op < 0.6:
                self.append(sequence, rng.randrange(2**31))
            elif op < 0.95:
                self.lookup(sequence, rng.randint(-1, len(self._model.get(sequence, [])) + 1))
            else:
                self.remove(sequence)

    def _call(self, text: str, call: Callable[[], Any]) -> Any:
        try:
            answer = call()
        except Exception as error:
            if is_java(error, "pagedkv.exercise.NotYet") or not hasattr(error, "getStackTrace"):
                raise
            self._differs(text, f"threw {describe_error(error)}", "it is carried out")
        self._told.append(text)
        return answer

    def _refused(self, text: str, call: Callable[[], Any], why: str,
                 hint: Callable[[Any], str] = lambda answer: "") -> None:
        try:
            answer = call()
        except Exception as error:
            if is_java(error, "pagedkv.exercise.NotYet") or not hasattr(error, "getStackTrace"):
                raise
            if is_java(error, "java.lang.AssertionError"):
                self._differs(text, "an AssertionError", NO_ASSERTION)
            self._told.append(f"{text}: refused")
            return
        shown = "null" if answer is None else answer if isinstance(answer, int) else list(answer)
        self._differs(text, f"{shown}", f"an exception: {why}{hint(answer)}")

    def _differs(self, text: str, yours: Hashable, expected: str) -> None:
        told = ["…"] * (len(self._told) > _MOST_TOLD) + self._told[-_MOST_TOLD:]
        so_far = f"\n   before:    {', '.join(told)}" if told else ""
        raise Wrong(f"{text}{so_far}\n   yours:     {yours}\n   expected:  {expected}")


def _short(blocks: list[int]) -> str:
    return "[" + ", ".join(map(str, blocks[:12])) + ", …" * (len(blocks) > 12) + "]"


def _id(sequence: int) -> str:
    """A large power of two as one."""
    return f"2^{sequence.bit_length() - 1}" if sequence >= 2**31 and not sequence & (sequence - 1) else str(sequence)
