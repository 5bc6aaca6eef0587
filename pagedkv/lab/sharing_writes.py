"""A learner's sequence in Java, which copies on write, next to `pagedkv.sharing.SharedSequence`, which is right.

An answer is a Java class with a constructor (Pool, TokenStore, String) and the methods append(int), fork(String),
blocks(), numTokens() and close(). Both get the same calls, each on a pool and a store of its own. What counts: what
every sequence reads, how many blocks are in use, how many were copied, and that nobody writes into a block that is
another one's.
"""

import random
from typing import Any

from pagedkv.java import jclass
from pagedkv.lab.counter_example import counter_example
from pagedkv.lab.exercises.java_classes import is_java_class
from pagedkv.lab.grading import NotYet, Wrong, describe_error, is_java
from pagedkv.lab.sharing_pictures import Row, plot_reads

BLOCK_SIZE = 4
_EMPTY = -1

# "A+6" appends 6 tokens to A; "A>B" forks B from A; "-A" closes A; "A!" appends, and the pool has no block for it
CASES = {
    "alone, nothing is ever copied": "A+9",
    "the fork writes first": "A+6 A>B B+1 A+1",
    "the first one writes first": "A+6 A>B A+1 B+1",
    "both go on over the end of the block": "A+6 A>B B+3 A+3",
    "the one that is left writes in place": "A+6 A>B -A B+1",
    "forked where a block is full: nothing to copy": "A+8 A>B B+1 A+1",
    "three on one tail: two copies are enough": "A+5 A>B A>C A+1 B+1 C+1",
    "a fork of a fork": "A+6 A>B B+1 B>C C+1 B+1 A+1",
    "forked and closed again": "A+7 A>B -B A+1 A+1",
    "forked at the first token": "A+1 A>B B+1 A+1",
    "no block is left for the copy": "A+31 A>B A! B! -B A+1",
    "no block is left for the next one": "A+32 A>B B! A!",
}
_NUM_BLOCKS = 8
_RANDOM_CASES = 25


class _Side:
    """One of the two: sequences of one class, on a pool and a store of their own."""

    def __init__(self, make: Any):
        self.pool = jclass("pagedkv.pool.BlockPool")(_NUM_BLOCKS)
        self.store = jclass("pagedkv.sharing.TokenStore")(_NUM_BLOCKS, BLOCK_SIZE)
        self.sequences: dict[str, Any] = {}
        self._make = make

    def begin(self, name: str) -> None:
        self.sequences[name] = self._make(self.pool, self.store, name)

    def blocks(self, name: str) -> list[int]:
        return [int(block) for block in self.sequences[name].blocks()]

    def reads(self, name: str) -> list[int]:
        blocks = self.blocks(name)
        num_tokens = int(self.sequences[name].numTokens())
        return [int(self.store.read(blocks[position // BLOCK_SIZE], position % BLOCK_SIZE))
                if position // BLOCK_SIZE < len(blocks) else _EMPTY for position in range(num_tokens)]

    def used(self) -> int:
        return _NUM_BLOCKS - int(self.pool.numFreeBlocks())


def try_writer(answer: Any) -> str:
    """Raises Wrong at the first call after which the answer and the right one differ. Returns what was tried."""
    if not is_java_class(answer):
        raise Wrong(f"check gets your Java class, such as check(\"05.3\", MySequence); got {answer!r:.80}")
    missing = [name for name in ("append", "fork", "blocks", "numTokens", "close") if not hasattr(answer, name)]
    if missing:
        raise Wrong(f"your class has no public method {missing[0]}()")
    for name, calls in CASES.items():
        _play(answer, name, calls.split())
    for seed in range(_RANDOM_CASES):  # the shortest first, so that a counter-example can be read
        _play(answer, "random calls", _random_calls(seed, 4 + seed // 2))
    return f"{len(CASES)} named cases and {_RANDOM_CASES} random ones"


def _play(answer: Any, name: str, calls: list[str]) -> None:
    """A wrong count is told only if, up to the end of the case, nobody reads a wrong token: that says more."""
    miscounted: list[Wrong] = []
    try:
        _play_on(answer, name, calls, miscounted)
    except Wrong as wrong:
        raise wrong if wrong.picture or not miscounted else miscounted[0]
    if miscounted:
        raise miscounted[0]


def _play_on(answer: Any, name: str, calls: list[str], miscounted: list[Wrong]) -> None:
    right = jclass("pagedkv.sharing.SharedSequence")
    yours, model = _Side(answer), _Side(right)
    class_name = answer.__name__.rpartition(".")[2]
    _both(yours, model, "A", lambda side: side.begin("A"), f"{name}\n   new {class_name}(pool, store, \"A\")")
    next_token, story = 1, []
    for call in calls:
        who = call.strip("-!").partition("+")[0].partition(">")[0]
        times = int(call.partition("+")[2]) if "+" in call else 1
        for number in range(times):
            before = {block: list(yours.store.contents(block)) for block in range(_NUM_BLOCKS)}
            if ">" in call:
                told = f"{call[2:]} = {who}.fork(\"{call[2:]}\")"
                _both(yours, model, who, lambda side: side.sequences.__setitem__(
                    call[2:], side.sequences[who].fork(call[2:])), _told(name, story, told))
            elif call.startswith("-"):
                told = f"{who}.close()"
                _both(yours, model, who, lambda side: side.sequences[who].close(), _told(name, story, told))
                for side in (yours, model):
                    del side.sequences[who]
            else:
                told = f"{who}.append({next_token})"
                token = next_token
                _both(yours, model, who, lambda side: side.sequences[who].append(token), _told(name, story, told))
                next_token += 1
            story.append(told)
            _compare_reads(yours, model, name, story)
            try:
                _compare_counts(yours, model, name, story)
            except Wrong as wrong:
                miscounted.append(wrong)
            if "+" in call:
                _look_for_writes(yours, who, before, name, story)


def _both(yours: _Side, model: _Side, who: str, call: Any, situation: str) -> None:
    """The same call on both. Where the right one is refused, so has to be the answer."""
    try:
        call(model)
        refused = None
    except Exception as error:
        refused = error
    try:
        call(yours)
    except NotYet:
        raise
    except Exception as error:
        if is_java(error, "pagedkv.exercise.NotYet"):
            raise
        if isinstance(error, TypeError):
            raise Wrong(f"{situation}\n   cannot be called: {str(error).splitlines()[0]}") from None
        if refused is None:
            raise counter_example(situation, f"threw {describe_error(error)}", "the call goes through") from None
        return
    if refused is not None:
        raise counter_example(f"{situation}, when no block is free", "the call went through",
                              "the pool's OutOfBlocksException goes on to the caller")


def _told(name: str, story: list[str], call: str) -> str:
    """The situation: what was called so far, appends to the same sequence in one."""
    parts: list[str] = []
    for each in [*story, call]:
        if parts and ".append(" in each and parts[-1].partition(".append(")[0] == each.partition(".append(")[0] \
                and ".append(" in parts[-1]:
            first = parts[-1].partition("(")[2].partition(")")[0].partition(" … ")[0]
            parts[-1] = f"{each.partition('(')[0]}({first} … {each.partition('(')[2]}"
        else:
            parts.append(each)
    return f"{name}, blocks of {BLOCK_SIZE} tokens\n   " + "; ".join(parts)


def _compare_reads(yours: _Side, model: _Side, name: str, story: list[str]) -> None:
    situation = _told(name, story[:-1], story[-1])
    for who in model.sequences:
        expected, blocks = model.reads(who), yours.blocks(who)
        num_tokens = int(yours.sequences[who].numTokens())
        if num_tokens != len(expected):
            raise counter_example(situation, f"{who} has {num_tokens} tokens", str(len(expected)))
        if len(blocks) != len(model.blocks(who)):
            raise counter_example(situation, f"{who} has blocks {blocks}", f"{len(model.blocks(who))} of them")
        said = yours.reads(who)
        if said != expected:
            raise counter_example(situation, f"{who} reads {_tokens(said)}", f"{who} reads {_tokens(expected)}",
                                  _picture(yours, model))


def _compare_counts(yours: _Side, model: _Side, name: str, story: list[str]) -> None:
    situation = _told(name, story[:-1], story[-1])
    if int(yours.store.numCopies()) != int(model.store.numCopies()):
        raise counter_example(situation, f"blocks copied so far: {yours.store.numCopies()}",
                              f"{model.store.numCopies()}: copy a last block that has room, and only while somebody "
                              "else holds it too")
    if yours.used() != model.used():
        raise counter_example(situation, f"{yours.used()} blocks are in use", f"{model.used()}: a table has one "
                              "reference to each of its blocks, and none to others")
    counts = [int(count) for count in yours.pool.refcounts()]
    expected_counts = [sum(yours.blocks(who).count(block) for who in yours.sequences) for block in range(_NUM_BLOCKS)]
    if counts != expected_counts:
        block = next(block for block in range(_NUM_BLOCKS) if counts[block] != expected_counts[block])
        raise counter_example(situation, f"block {block} has refcount {counts[block]}",
                              f"{expected_counts[block]}, as it stands in so many tables")


def _look_for_writes(yours: _Side, writer: str, before: dict[int, list[int]], name: str, story: list[str]) -> None:
    own = set(yours.blocks(writer))
    for who in yours.sequences:
        for block in set(yours.blocks(who)) - own:
            after = [int(token) for token in yours.store.contents(block)]
            if after != [int(token) for token in before[block]]:
                raise counter_example(_told(name, story[:-1], story[-1]),
                                      f"block {block}, which is {who}'s, was written to: {_tokens(after)}",
                                      "copy first, then write into the copy")


def _picture(yours: _Side, model: _Side) -> tuple[bytes, str]:
    reads = {who: [None if token == _EMPTY else token for token in yours.reads(who)] for who in model.sequences}
    rows = [Row(who, yours.blocks(who), reads[who], model.reads(who)) for who in model.sequences]
    picture = plot_reads(rows, BLOCK_SIZE, title="Yours; below a wrong token, the right one")
    return picture.png(), f"What the sequences read. {picture.alt}"


def _tokens(tokens: list[int]) -> str:
    return " ".join("·" if token == _EMPTY else str(token) for token in tokens)


def _random_calls(seed: int, length: int) -> list[str]:
    """Calls that a right answer can carry out: `_both` lets the pool refuse what does not fit."""
    rng, live, names, calls = random.Random(seed), ["A"], iter("BCDEFGHIJKLMNOPQRSTUVWXYZ"), []
    for _ in range(length):
        kind = rng.random()
        if kind < 0.7 or len(live) == 4:
            calls.append(f"{rng.choice(live)}+1" if kind < 0.6 else f"{rng.choice(live)}+{rng.randint(2, 4)}")
        elif kind < 0.9:
            live.append(next(names))
            calls.append(f"{rng.choice(live[:-1])}>{live[-1]}")
        elif len(live) > 1:
            calls.append(f"-{live.pop(rng.randrange(len(live)))}")
    return calls
