"""Exercises 08.5 and 08.6: right answers of different kinds are accepted, wrong ones get the message they deserve.

ACCEPTED: exercise → answers. REJECTED: exercise → name → (answer, a piece of the message it must get).
"""

from pathlib import Path

import pytest

from pagedkv import PoolError, UseAfterFree
from pagedkv.lab.exercises.nb08 import EXERCISES
from pagedkv.lab.grading import CORRECT, NOT_YET, WRONG, grade
from pagedkv.shared import segment
from pagedkv.shared.layout import CACHED, CONTENT, HOLDERS, NUM_SLOTS

BY_ID = {exercise.id: exercise for exercise in EXERCISES}

try:
    segment.check_system()
    can_share = True
except NotImplementedError:
    can_share = False


# ── 08.5 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def retains_with_generation(pool, block, generation):
    try:
        pool.retain([block], generations=[generation])
    except UseAfterFree:
        return False
    return True


def retains_and_compares(pool, block, generation):
    """Right too: once it is held, it cannot be handed out."""
    try:
        pool.retain([block])
    except PoolError:
        return False
    if pool.generation(block) == generation:
        return True
    pool.release([block])
    return False


def looks_first_all_the_same(pool, block, generation):
    """The look saves an exception, and is not relied on."""
    if not pool.holders(block) or pool.generation(block) != generation:
        return False
    return retains_with_generation(pool, block, generation)


def retains_with_an_owner(pool, block, generation):
    try:
        pool.retain((block,), "taken over", (generation,))
        return True
    except UseAfterFree:
        return False


def without_the_generation(pool, block, generation):
    try:
        pool.retain([block])
    except UseAfterFree:
        return False
    return True


def looks_and_retains(pool, block, generation):
    if pool.generation(block) == generation and pool.holders(block):
        pool.retain([block])
        return True
    return False


def looks_and_retains_carefully(pool, block, generation):
    return pool.generation(block) == generation and without_the_generation(pool, block, generation)


def compares_with_not_older(pool, block, generation):
    try:
        pool.retain([block])
    except UseAfterFree:
        return False
    if pool.generation(block) <= generation:
        return True
    pool.release([block])
    return False


def keeps_it_all_the_same(pool, block, generation):
    try:
        pool.retain([block])
    except UseAfterFree:
        return False
    return pool.generation(block) == generation


def retains_twice(pool, block, generation):
    try:
        pool.retain([block, block], generations=[generation, generation])
    except UseAfterFree:
        return False
    return True


def lets_it_raise(pool, block, generation):
    pool.retain([block], generations=[generation])
    return True


def catches_another_error(pool, block, generation):
    try:
        pool.retain([block], generations=[generation])
    except KeyError:
        return False
    return True


def allocates_instead(pool, block, generation):
    return bool(pool.allocate(1))


def allocates_a_copy(pool, block, generation):
    if not retains_with_generation(pool, block, generation):
        return False
    pool.allocate(1)
    return True


def gives_it_back_again(pool, block, generation):
    if not retains_with_generation(pool, block, generation):
        return False
    pool.release([block])
    return True


def only_looks(pool, block, generation):
    return pool.generation(block) == generation and pool.refcount(block) > 0


def forgets_to_say_true(pool, block, generation):
    try:
        pool.retain([block], generations=[generation])
    except UseAfterFree:
        return False


def forgets_to_say_false(pool, block, generation):
    try:
        pool.retain([block], generations=[generation])
        return True
    except UseAfterFree:
        pass


def without_generation_zero(pool, block, generation):
    try:
        pool.retain([block], generations=[generation] if generation else [1])
    except UseAfterFree:
        return False
    return True


def asks_for_the_next(pool, block, generation):
    return retains_with_generation(pool, block, generation + 1)


def only_if_not_held(pool, block, generation):
    if pool.slot in pool.holders(block):
        return True
    return retains_with_generation(pool, block, generation)


def tries_for_ever(pool, block, generation):
    while not retains_with_generation(pool, block, generation):
        pass
    return True


# ── 08.6 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def takes_back(words, counts, slot, free):
    bit = 1 << slot
    for block, word in enumerate(words):
        if word & bit:
            word &= ~(bit | CACHED)
            words[block] = word
            if not word & HOLDERS:
                free(block)
        counts[slot][block] = 0


def takes_back_in_two_rounds(words, counts, slot, free):
    freed = []
    for block in range(len(words)):
        if words[block] >> slot & 1 == 0:
            continue
        words[block] -= 1 << slot
        if words[block] & CACHED:
            words[block] -= CACHED
        if words[block] & HOLDERS == 0:
            freed.append(block)
    counts[slot] = [0] * len(words)
    for block in freed:
        free(block)


def takes_back_from_behind(words, counts, slot, free):
    for block in reversed(range(len(words))):
        counts[slot][block] = 0
        holders = [each for each in range(NUM_SLOTS) if words[block] >> each & 1]
        if slot not in holders:
            continue
        generation, content = words[block] >> 50, words[block] & CONTENT
        words[block] = generation << 50 | content | sum(1 << each for each in holders if each != slot)
        if holders == [slot]:
            free(block)


def takes_back_with_a_comprehension(words, counts, slot, free):
    held = [block for block, word in enumerate(words) if word >> slot & 1]
    words[:] = [word & ~(1 << slot | CACHED) if word >> slot & 1 else word for word in words]
    counts[slot][:] = [0] * len(words)
    any(free(block) for block in held if not words[block] & HOLDERS)


def _takes_back(held=lambda word, count, slot: word >> slot & 1, new=lambda word, slot: word & ~(1 << slot | CACHED),
                is_free=lambda word: not word & HOLDERS, count=lambda counts, slot, block: 0, word_first=True):
    """The right one, with parts exchanged."""
    def take_back(words, counts, slot, free):
        for block, word in enumerate(words):
            if held(word, counts[slot][block], slot):
                if word_first:
                    words[block] = new(word, slot)
                if is_free(new(word, slot)):
                    free(block)
                words[block] = new(word, slot)
            counts[slot][block] = count(counts, slot, block)
    return take_back


def forgets_the_counts_where_it_is_no_holder(words, counts, slot, free):
    before = [list(counts[slot])]
    holders = [word >> slot & 1 for word in words]
    takes_back(words, counts, slot, free)
    counts[slot][:] = [0 if was else count for was, count in zip(holders, before[0])]


def clears_all_rows(words, counts, slot, free):
    takes_back(words, counts, slot, free)
    for row in counts:
        row[:] = [0] * len(row)


def changes_only_its_variable(words, counts, slot, free):
    for block, word in enumerate(words):
        if word >> slot & 1:
            word &= ~(1 << slot | CACHED)
            if not word & HOLDERS:
                counts[slot][block] = 0


def frees_once_for_each_reference(words, counts, slot, free):
    for block, word in enumerate(words):
        if word >> slot & 1:
            words[block] = word & ~(1 << slot | CACHED)
            if not words[block] & HOLDERS:
                for _ in range(max(1, counts[slot][block])):
                    free(block)
        counts[slot][block] = 0


def frees_in_a_second_round(words, counts, slot, free):
    """Everything that is free then, also what was free before."""
    takes_back(words, counts, slot, lambda block: None)
    for block, word in enumerate(words):
        if not word & HOLDERS:
            free(block)


def empties_the_row(words, counts, slot, free):
    takes_back(words, counts, slot, free)
    counts[slot].clear()


def appends_words(words, counts, slot, free):
    takes_back(words, counts, slot, free)
    words.append(0)


def ignores_slot_0(words, counts, slot, free):
    if slot:
        takes_back(words, counts, slot, free)


ACCEPTED = {
    "08.5": (retains_with_generation, retains_and_compares, looks_first_all_the_same, retains_with_an_owner),
    "08.6": (takes_back, takes_back_in_two_rounds, takes_back_from_behind, takes_back_with_a_comprehension,
             _takes_back()),
}
REJECTED = {
    "08.5": {
        "no generation": (without_the_generation, "the generation does"),
        "looks, then retains": (looks_and_retains, "a look is old as soon as it is over"),
        "looks, then retains, and catches": (looks_and_retains_carefully, "a look is old as soon as it is over"),
        "not older": (compares_with_not_older, "returned True, for a block that was handed out again"),
        "keeps it": (keeps_it_all_the_same, "returned False, and keeps 1 reference"),
        "twice": (retains_twice, "returned True, with 2 references more"),
        "raises": (lets_it_raise, "raised UseAfterFree"),
        "catches another error": (catches_another_error, "raised UseAfterFree"),
        "allocates": (allocates_instead, "returned True, with no reference more"),
        "allocates besides": (allocates_a_copy, "you also hold block"),
        "gives it back": (gives_it_back_again, "returned True, with no reference more"),
        "only looks": (only_looks, "returned True, with no reference more"),
        "always True": (lambda pool, block, generation: True, "returned True, with no reference more"),
        "always False": (lambda pool, block, generation: False, "still the hand-out that you were told of"),
        "returns nothing when in time": (forgets_to_say_true, "returned None, and 1 reference more"),
        "returns nothing when late": (forgets_to_say_false, "returned None"),
        "generation 0": (without_generation_zero, "the generation came round to 0"),
        "the next generation": (asks_for_the_next, "still the hand-out that you were told of"),
        "not if held": (only_if_not_held, "you hold the block already"),
        "for ever": (tries_for_ever, "had not returned"),
        "no function": (5, "check gets your function"),
        "other arguments": (lambda pool, block: True, "raised TypeError"),
    },
    "08.6": {
        "clears the word": (_takes_back(new=lambda word, slot: 0), "All of the word is gone"),
        "the generation goes up": (_takes_back(new=lambda word, slot: (word & ~(1 << slot | CACHED)) + (1 << 50)),
                                   "The generation has to stay"),
        "CONTENT goes": (_takes_back(new=lambda word, slot: word & ~(1 << slot | CACHED | CONTENT)),
                         "CONTENT has to stay"),
        "CACHED stays": (_takes_back(new=lambda word, slot: word & ~(1 << slot)), "CACHED has to go"),
        "CACHED is passed over": (_takes_back(held=lambda word, count, slot: word >> slot & 1 and not word & CACHED),
                                  "The word is as it was"),
        "frees what others hold": (_takes_back(is_free=lambda word: True), "slot 5 holds it"),
        "all holders": (_takes_back(new=lambda word, slot: word & ~(HOLDERS | CACHED)), "Slot 5 lives"),
        "by the counts": (_takes_back(held=lambda word, count, slot: count), "The word is as it was"),
        "by the counts too": (_takes_back(held=lambda word, count, slot: count or word >> slot & 1),
                              "a count without its holder's bit means nothing"),
        "turns the bit": (_takes_back(held=lambda word, count, slot: True, new=lambda word, slot: word ^ 1 << slot),
                          "was none"),
        "uncaches everybody's": (_takes_back(held=lambda word, count, slot: word >> slot & 1 or word & CACHED),
                                 "which lives"),
        "treats all alike": (_takes_back(held=lambda word, count, slot: True), "nothing: it was free before"),
        "frees everything free": (frees_in_a_second_round, "nothing: it was free before"),
        "never frees": (_takes_back(is_free=lambda word: False), "was never called"),
        "frees not what has content": (_takes_back(is_free=lambda word: not word & (HOLDERS | CONTENT)),
                                       "was never called"),
        "frees for each reference": (frees_once_for_each_reference, "is called twice"),
        "frees first": (_takes_back(word_first=False), "first the word, then free"),
        "counts stay": (_takes_back(count=lambda counts, slot, block: counts[slot][block]), "counts[2][0] is 1"),
        "one count less": (_takes_back(count=lambda counts, slot, block: max(0, counts[slot][block] - 1)),
                           "counts[2][0] is 2"),
        "leftovers stay": (forgets_the_counts_where_it_is_no_holder, "Whoever joins in this slot next"),
        "all rows": (clears_all_rows, "written by nobody else"),
        "its variable": (changes_only_its_variable, "words[block] = … changes it"),
        "a negative word": (_takes_back(new=lambda word, slot: ~(1 << slot), is_free=lambda word: False),
                            "~mask alone is negative"),
        "slot 0": (ignores_slot_0, "slot 0"),
        "empties the row": (empties_the_row, "entries now"),
        "more words": (appends_words, "words now"),
        "free gets a list": (lambda words, counts, slot, free: free([0]), "free gets a block's number"),
        "does nothing": (lambda words, counts, slot, free: print(end=""), "The word is as it was"),
        "raises": (lambda words, counts, slot, free: words[len(words)], "raised IndexError"),
        "no function": ("take_back", "check gets your function"),
    },
}


def _needs_sharing(exercise):
    if exercise == "08.5" and not can_share:
        pytest.skip("no shared pools here")


@pytest.mark.parametrize("exercise, answer", [(exercise, answer) for exercise, answers in ACCEPTED.items()
                                              for answer in answers])
def test_a_right_answer_is_accepted(exercise, answer):
    _needs_sharing(exercise)
    verdict = grade(BY_ID[exercise], answer)
    assert verdict.outcome == CORRECT, verdict


@pytest.mark.parametrize("exercise, name", [(exercise, name) for exercise, answers in REJECTED.items()
                                            for name in answers])
def test_a_wrong_answer_gets_the_message_it_deserves(exercise, name, monkeypatch):
    _needs_sharing(exercise)
    if name == "for ever":
        monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 1)
    answer, message = REJECTED[exercise][name]
    verdict = grade(BY_ID[exercise], answer)
    assert verdict.outcome == WRONG, verdict
    assert message in verdict.message, verdict


def test_placeholders_are_not_yet():
    def take_over(pool, block, generation):
        ...

    for exercise in EXERCISES:
        assert grade(exercise, take_over).outcome == NOT_YET


def test_without_shared_pools_the_check_says_so(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    verdict = grade(BY_ID["08.5"], retains_with_generation)
    assert verdict.outcome == NOT_YET and "shared pools work on Linux only" in verdict.message
    assert grade(BY_ID["08.6"], takes_back).outcome == CORRECT


def test_a_check_leaves_nothing_behind():
    _needs_sharing("08.5")
    before = set(Path("/dev/shm").glob("pagedkv*check*"))
    grade(BY_ID["08.5"], retains_with_generation)
    grade(BY_ID["08.5"], lets_it_raise)
    assert set(Path("/dev/shm").glob("pagedkv*check*")) <= before
