"""Exercise 08.6: what a learner's reap makes of words and counts, block by block, beside what should be there.

A *leftover* is a count of a slot that is no holder by the word: its member was killed between the two writes.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from pagedkv.lab.counter_example import counter_example
from pagedkv.lab.grading import NotYet, Wrong, describe_error
from pagedkv.lab.workers_watch import holders_in, word_of
from pagedkv.shared.layout import CACHED, CONTENT, GENERATION_SHIFT, HOLDERS, NUM_GENERATIONS, NUM_SLOTS

_RANDOM_CASES = 200


class Case(NamedTuple):
    """references: for each block what each slot has, by the counts; words say who is a holder."""

    name: str
    slot: int
    words: Sequence[int]
    references: Sequence[dict[int, int]]

    def counts(self) -> list[list[int]]:
        rows = [[0] * len(self.words) for _ in range(NUM_SLOTS)]
        for block, references in enumerate(self.references):
            for slot, count in references.items():
                rows[slot][block] = count
        return rows


def _case(name: str, slot: int, *blocks: tuple) -> Case:
    """blocks: (generation, {holder: count}, flags, leftovers {slot: count}), from the second on as far as needed."""
    words, references = [], []
    for generation, holders, *more in blocks:
        words.append(word_of(generation, holders, more[0] if more else 0))
        references.append({**holders, **(more[1] if len(more) > 1 else {})})
    return Case(name, slot, words, references)


CASES = (
    _case("the dead member alone holds a block", 2, (7, {2: 1})),
    _case("somebody else holds it too", 2, (7, {2: 1, 5: 1})),
    _case("three references, all of the dead member", 2, (7, {2: 3})),
    _case("only others hold it", 2, (7, {1: 1, 5: 2})),
    _case("it is free already", 2, (7, {})),
    _case("its content can be found", 2, (9, {2: 1}, CONTENT)),
    _case("its content can be found, and somebody else holds it", 2, (9, {2: 1, 0: 1}, CONTENT)),
    _case("it lies in the dead member's local cache", 2, (4, {2: 0}, CACHED)),
    _case("into the local cache, killed before the count was 0", 2, (4, {2: 1}, CACHED)),
    _case("it lies in somebody else's local cache", 2, (4, {3: 0}, CACHED)),
    _case("killed in the middle of a retain: a count, and no holder", 2, (7, {5: 1}, 0, {2: 1})),
    _case("killed in the middle of an allocation: a count, and the block is free", 2, (7, {}, 0, {2: 1})),
    _case("killed in the middle of a last release: a count, and the block is free, with content", 2,
          (7, {}, CONTENT, {2: 1})),
    _case("in somebody else's local cache, and a count of the dead member", 2, (4, {3: 0}, CACHED, {2: 1})),
    _case("another dead member has left a count, too: that is for its own reap", 2, (7, {2: 1}, 0, {9: 1})),
    _case("slot 0", 0, (7, {0: 1}), (7, {0: 1, 1: 1}), (7, {1: 1})),
    _case("the last slot", NUM_SLOTS - 1, (7, {47: 2}), (7, {47: 1, 46: 1}), (7, {46: 1})),
    _case("the last generation", 2, (NUM_GENERATIONS - 1, {2: 1}), (NUM_GENERATIONS - 1, {2: 1, 3: 1}, CONTENT)),
    _case("generation 0, after it came round", 2, (0, {2: 1}), (0, {})),
    _case("several blocks", 1, (3, {1: 1}), (4, {0: 1}), (5, {1: 2, 0: 1}), (6, {}), (7, {1: 1}, CONTENT),
          (8, {1: 0}, CACHED)),
)


def try_take_back(take_back: Any) -> str:
    """Raises Wrong at the first case that is not as a reap would leave it. Returns what was tried."""
    if not callable(take_back):
        raise Wrong(f'check gets your function: check("08.6", take_back); got {take_back!r:.80}')
    for case in CASES:
        _try(take_back, case)
    rng = random.Random(86)
    for _ in range(_RANDOM_CASES):
        _try(take_back, _random_case(rng))
    return (f"{len(CASES)} named cases and {_RANDOM_CASES} random ones: every word, every count of all {NUM_SLOTS} "
            "slots, and each block freed just once")


def _random_case(rng: random.Random) -> Case:
    slot, blocks = rng.randrange(NUM_SLOTS), []
    for _ in range(rng.randint(1, 12)):
        holders = {holder: rng.randint(1, 3) for holder in {slot, *rng.choices(range(NUM_SLOTS), k=3)}
                   if rng.random() < 0.5}
        flags = CONTENT * rng.randrange(2)
        if rng.random() < 0.2:
            holders, flags = {rng.choice([slot, (slot + 1) % NUM_SLOTS]): 0}, CACHED
        leftovers = {} if slot in holders or rng.random() < 0.7 else {slot: 1}
        blocks.append((rng.randrange(NUM_GENERATIONS), holders, flags, leftovers))
    return _case("a random case", slot, *blocks)


# ── one case ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _word_after(word: int, slot: int) -> int:
    return word & ~(1 << slot | CACHED) if word >> slot & 1 else word


def _try(take_back: Callable, case: Case) -> None:
    words, counts, freed = list(case.words), case.counts(), []
    expected = [_word_after(word, case.slot) for word in case.words]
    to_free = [block for block, (old, new) in enumerate(zip(case.words, expected)) if old != new and not new & HOLDERS]

    def free(block: int) -> None:
        if type(block) is not int or not 0 <= block < len(words):
            raise counter_example(_situation(case), f"free({block!r:.40})",
                                  f"free gets a block's number, 0 to {len(words) - 1}")
        if words[block] not in (case.words[block], expected[block]):
            raise _wrong_word(case, block, words[block], expected[block])
        if block not in to_free:
            raise _wrongly_freed(case, block)
        if block in freed:
            raise counter_example(_situation(case, block), f"free({block}) is called twice",
                                  "once: it is one block, however many references the dead member had")
        # not yet a hint for others to go by: the word still says that it is held
        if type(words[block]) is int and words[block] & HOLDERS:
            raise counter_example(_situation(case, block), f"free({block}) is called while the word still has holder "
                                  f"{holders_in(words[block])[0]}", "first the word, then free: whoever looks for a "
                                  "free block goes by the word, and would pass it by")
        freed.append(block)

    try:
        take_back(words, counts, case.slot, free)
    except (NotYet, Wrong):
        raise
    except Exception as error:
        raise counter_example(_situation(case), f"raised {describe_error(error)}", "no exception") from None
    _compare_words(case, words, expected)
    _compare_counts(case, counts)
    missing = [block for block in to_free if block not in freed]
    if missing:
        where = " Look at the flags: in a local cache, it is free when its one holder is gone." \
            if case.words[missing[0]] & CACHED else ""
        raise counter_example(_situation(case, missing[0]), f"the word is right, but free({missing[0]}) was never "
                              "called", f"free({missing[0]}): nobody holds it any more, and nobody would find it."
                              f"{where}")


def _compare_words(case: Case, words: Sequence[int], expected: list[int]) -> None:
    if len(words) != len(expected):
        raise counter_example(_situation(case), f"there are {len(words)} words now", f"{len(expected)}, one a block")
    for block, (now, right) in enumerate(zip(words, expected)):
        if now != right:
            raise _wrong_word(case, block, now, right)


def _wrong_word(case: Case, block: int, now: Any, right: int) -> Wrong:
    if type(now) is not int or not 0 <= now < 1 << 64:
        return counter_example(_situation(case, block), f"words[{block}] is {now!r:.60}", "an int from 0 to 2^64 - 1. "
                               "~mask alone is negative in Python, word & ~mask is not")
    return counter_example(_situation(case, block), _told(now),
                           f"{_told(right)}{_mistake(case.slot, case.words[block], now, right)}")


def _mistake(slot: int, old: int, now: int, right: int) -> str:
    """What happened to the word, in words."""
    if now == old:
        return "\n   The word is as it was: words[block] = … changes it, word = … does not"
    if now == 0:
        return "\n   All of the word is gone: a generation of 0 lets an old (block, generation) pass for a new one"
    if now >> GENERATION_SHIFT != right >> GENERATION_SHIFT:
        return "\n   The generation has to stay: it goes up when a block is handed out, not when it is freed"
    if (right ^ now) & CONTENT:
        return "\n   CONTENT has to stay: the content outlives its member, and can be found"
    if now & ~right & CACHED:
        return "\n   CACHED has to go, too: it says that only the one holder may take the block, and there is none"
    if right & ~now & CACHED:
        return f"\n   It lies in the local cache of slot {holders_in(right)[0]}, which lives"
    if now & ~old & HOLDERS:
        return f"\n   Slot {holders_in(now & ~old)[0]} is a holder now, and was none: look at the bit, then turn it"
    lost = holders_in(right & ~now)
    if lost:
        return f"\n   Slot {lost[0]} lives, and has lost its block: only the dead slot's bit goes"
    return ""


def _compare_counts(case: Case, counts: Sequence[Sequence[int]]) -> None:
    for slot, (row, before) in enumerate(zip(counts, case.counts())):
        for block, (now, old) in enumerate(zip(row, before)):
            if slot == case.slot and now != 0:
                leftover = not case.words[block] >> slot & 1
                why = ". Whoever joins in this slot next would begin with it" + \
                    (": it was written before the word, or left after it" if leftover else "")
                raise counter_example(_situation(case, block), f"counts[{slot}][{block}] is {now}", f"0{why}")
            if slot != case.slot and now != old:
                raise counter_example(_situation(case, block), f"counts[{slot}][{block}] was {old}, and is {now}",
                                      f"{old}: the row of slot {slot} is written by nobody else")
        if len(row) != len(before):
            raise counter_example(_situation(case), f"counts[{slot}] has {len(row)} entries now",
                                  f"{len(before)}, one a block: counts[slot][block] = 0")


def _wrongly_freed(case: Case, block: int) -> Wrong:
    word, slot = case.words[block], case.slot
    others = [holder for holder in holders_in(word) if holder != slot]
    if not word & HOLDERS:
        why = "nothing: it was free before" + \
            ("; a count without its holder's bit means nothing, the word is the truth" if slot in case.references[block]
             else "")
    elif word & CACHED:
        why = f"nothing: it lies in the local cache of slot {others[0]}, which alone may take it"
    else:
        why = f"nothing: slot {others[0]} holds it, and could see its bytes overwritten by the next one who takes it"
    return counter_example(_situation(case, block), f"free({block})", why)


# ── in words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _situation(case: Case, block: int | None = None) -> str:
    blocks = range(len(case.words)) if block is None else [block]
    lines = [f"{case.name}: the dead member was in slot {case.slot}"]
    lines += [f"   block {number}:   {_told(case.words[number])}   counts "
              f"{_told_counts(case.references[number])}" for number in list(blocks)[:4]]
    return "\n".join(lines)


def _told(word: int) -> str:
    """A word, taken apart."""
    flags = " CONTENT" * bool(word & CONTENT) + " CACHED" * bool(word & CACHED)
    holders = ", ".join(map(str, holders_in(word))) or "none"
    return f"generation {word >> GENERATION_SHIFT},{flags}{',' * bool(flags)} holders {holders}"


def _told_counts(references: dict[int, int]) -> str:
    told = [f"[{slot}] = {count}" for slot, count in sorted(references.items()) if count]
    return ", ".join(told) if told else "all 0"
