"""Notebook 03: every right answer is accepted, whatever its form; every wrong one gets the message it deserves.

ACCEPTED: exercise → answers of different kinds. REJECTED: exercise → (answer, a piece of the message it must get). The
answers of an exercise with two are pairs.
"""

from bisect import insort

import numpy
import pytest

from pagedkv.lab.exercises import exercises_of, find_exercise
from pagedkv.lab.fragmentation_cases import BLOCK_LIMIT, BY_HAND, MIB, reserved_after_each, share_without_tokens
from pagedkv.lab.fragmentation_snapshot import server_history
from pagedkv.lab.fragmentation_trial import calls
from pagedkv.lab.grading import CORRECT, NOT_YET, WRONG, grade
from pagedkv.rivals.demos import the_article, the_article_filled, two_holes
from pagedkv.rivals.workload import Workload

# ── 03.1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

HOLES = "a A 20M\na B 30M\na C 20M\na D 30M\nf A\nf C\n"

DEMOS_ACCEPTED = {
    "one more than section 1": HOLES + "a E 26M",
    "all that is free": HOLES + "a E 40M",
    "just too long": HOLES + "a E 21M",
    "a workload": Workload.parse(HOLES + "a E 30M", "mine"),
    "with comments": "# the memory is full\n" + HOLES + "\na E 40960K   # two holes of 20",
    "every second": ("".join(f"a r{i} 1M\n" for i in range(100)) + "".join(f"f r{i}\n" for i in range(0, 100, 2))
                     + "a big 50M"),
    "a rest at the end": "a A 30M\na B 40M\nf A\na C 45M",
    "by growing": "a A 20M\na B 20M\na C 20M\ng C 40M\na D 20M\nf A\nf C\na E 50M",
    "bytes that are no MiB, in whole blocks": "a A 20000000\na B 30M\na C 40M\nf A\na D 22M",
}
DEMOS_REJECTED = {
    "the article's": (the_article(), "first fit serves it, at 50 MiB: the largest free run has 50 MiB"),
    "the article's, filled": (the_article_filled(), "only 20 MiB are free in total. That is not fragmentation"),
    "fits exactly": (HOLES + "a E 20M", "first fit serves it, at 0 B"),
    "neighbours freed": ("a A 20M\na B 30M\na C 50M\nf A\nf B\na D 45M", "first fit serves it"),
    "more than there is": (HOLES + "a E 101M", "only 40 MiB are free in total"),
    "one more than is free": (HOLES + "a E 41M", "Free more before, or ask for less"),
    "ends with a free": (HOLES, "the last line has to be the request that fails"),
    "ends with a growth": ("a A 20M\na B 40M\na C 40M\nf B\ng A 70M\n", "yours is a grow of A"),
    "refused before": (HOLES + "a E 25M\nf B\na F 90M",
                       "first fit refuses a request before the last one already: request 7 of 9, allocate(E, 25 MiB)"),
    "refused before, and served last": (HOLES + "a E 25M\na F 20M",
                                        "25 MiB wanted; 40 MiB free, the largest run 20 MiB"),
    "paging rounds up": ("".join(f"a r{i} 1500K\n" for i in range(20)) + "a most 59M\nf r1\nf r3\nf r5\na big 14M",
                         "paging refuses too:\n   it has 7 MiB free"),
    "paging is out of blocks early": ("".join(f"a r{i} 600K\n" for i in range(101)) + "f r1\na big 50M",
                                      "paging refuses a request before the last one already: request 101 of 103"),
    "that of section 1": (two_holes(), "this is the demonstration of section 1. It holds, but"),
    "that of section 1, with other names": ((HOLES + "a E 25M").replace("A", "first").replace("C", "A"),
                                            "please write one of your own"),
    "not a line": ("a A 20M\nb B 30M", "this is no workload: line 2: expected `a OWNER SIZE`"),
    "allocates twice": ("a A 20M\na A 30M", "A allocates again before it has freed what it has"),
    "a size in words": ("a A much", "a size is written as"),
    "a number": (25, "the answer is a text with one request a line, or a Workload; got 25"),
    "lines in a list": (["a A 20M"], "the answer is a text with one request a line"),
}

# ── 03.2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Holes:
    """Sorted holes, merged in one loop."""

    def __init__(self, capacity):
        self.holes, self.sizes = [(0, capacity)], {}

    def choose(self, size):
        return next((hole for hole in self.holes if hole[1] >= size), None)

    def allocate(self, size):
        hole = self.choose(size)
        if hole is None:
            return None
        at, (start, length) = self.holes.index(hole), hole
        self.holes[at:at + 1] = [(start + size, length - size)] * (length > size)
        self.sizes[start] = size
        return start

    def free(self, start):
        holes, self.holes = sorted([*self.holes, (start, self.sizes.pop(start))]), []
        for start, length in holes:
            if self.holes and sum(self.holes[-1]) == start:
                self.holes[-1] = (self.holes[-1][0], self.holes[-1][1] + length)
            else:
                self.holes.append((start, length))


class Cells:
    """One entry for each unit of the memory, searched from the beginning."""

    def __init__(self, capacity):
        self.used = numpy.zeros(capacity, dtype=bool)
        self.sizes = {}

    def allocate(self, size):
        for start in range(len(self.used) - size + 1):
            if not self.used[start:start + size].any():
                self.used[start:start + size] = True
                self.sizes[start] = size
                return numpy.int64(start)

    def free(self, start):
        self.used[start:start + self.sizes.pop(start)] = False
        return True


class PiecesOnly:
    """Keeps the pieces; the holes lie between them."""

    def __init__(self, capacity):
        self._pieces = [(capacity, capacity)]

    def allocate(self, size):
        end = 0
        for start, until in self._pieces:
            if start - end >= size:
                insort(self._pieces, (end, end + size))
                return end
            end = until
        return None

    def free(self, start):
        self._pieces = [piece for piece in self._pieces if piece[0] != start]


class BestFit(Holes):
    def choose(self, size):
        return min((hole for hole in self.holes if hole[1] >= size), key=lambda hole: hole[1], default=None)


class WorstFit(Holes):
    def choose(self, size):
        return max((hole for hole in self.holes if hole[1] >= size), key=lambda hole: hole[1], default=None)


class LastFit(Holes):
    def choose(self, size):
        return next((hole for hole in reversed(self.holes) if hole[1] >= size), None)


class NextFit(Holes):
    rover = 0

    def choose(self, size):
        behind = (hole for hole in self.holes if hole[0] >= self.rover and hole[1] >= size)
        chosen = next(behind, None) or super().choose(size)
        if chosen:
            self.rover = chosen[0] + size
        return chosen


class LongerThanAsked(Holes):
    def choose(self, size):
        return next((hole for hole in self.holes if hole[1] > size), None)


class FromTheEnd(Holes):
    def allocate(self, size):
        hole = self.choose(size)
        if hole is None:
            return None
        at, (start, length) = self.holes.index(hole), hole
        self.holes[at:at + 1] = [(start, length - size)] * (length > size)
        self.sizes[start + length - size] = size
        return start + length - size


class NeverMerges(Holes):
    def free(self, start):
        self.holes = sorted([*self.holes, (start, self.sizes.pop(start))])


class MergesBehindOnly(Holes):
    def free(self, start):
        size = self.sizes.pop(start)
        behind = next((hole for hole in self.holes if hole[0] == start + size), None)
        if behind:
            self.holes.remove(behind)
            size += behind[1]
        self.holes = sorted([*self.holes, (start, size)])


class MergesInFrontOnly(Holes):
    def free(self, start):
        size = self.sizes.pop(start)
        front = next((hole for hole in self.holes if sum(hole) == start), None)
        if front:
            self.holes.remove(front)
            start, size = front[0], front[1] + size
        self.holes = sorted([*self.holes, (start, size)])


class MergesOneOfTwo(Holes):
    def free(self, start):
        size = self.sizes.pop(start)
        front = next((hole for hole in self.holes if sum(hole) == start), None)
        behind = next((hole for hole in self.holes if hole[0] == start + size), None)
        if front:
            self.holes.remove(front)
            start, size = front[0], front[1] + size
        elif behind:
            self.holes.remove(behind)
            size += behind[1]
        self.holes = sorted([*self.holes, (start, size)])


class ForgetsTheOrder(Holes):
    def free(self, start):
        super().free(start)
        self.holes.sort(key=lambda hole: -hole[0])


class NoStartIsNothing(Holes):
    def free(self, start):
        if not start:
            return
        super().free(start)


class NoneForZero(Holes):
    def allocate(self, size):
        return super().allocate(size) or None


class LosesTheRest(Holes):
    def allocate(self, size):
        hole = self.choose(size)
        if hole is None:
            return None
        self.holes.remove(hole)
        self.sizes[hole[0]] = hole[1]
        return hole[0]


class KeepsTheHole(Holes):
    def allocate(self, size):
        hole = self.choose(size)
        if hole is not None:
            self.sizes[hole[0]] = size
            return hole[0]


class TakesWhatThereIs(Holes):
    def allocate(self, size):
        start = super().allocate(size)
        if start is None and self.holes:
            self.holes.pop()
        return start


class NoneIsMinusOne(Holes):
    def allocate(self, size):
        start = super().allocate(size)
        return -1 if start is None else start


class RaisesInstead(Holes):
    def allocate(self, size):
        start = super().allocate(size)
        if start is None:
            raise MemoryError("no hole is long enough")
        return start


class ReturnsHoles(Holes):
    def allocate(self, size):
        return self.choose(size)


class NeverFree:
    def __init__(self, capacity):
        self.top, self.capacity = 0, capacity

    def allocate(self, size):
        if self.top + size > self.capacity:
            return None
        self.top += size
        return self.top - size

    def free(self, start):
        self.top += 0  # as a bump allocator does it


class HalfWritten(Holes):
    def free(self, start):
        ...


class Loops(Holes):
    def allocate(self, size):
        while True:
            pass


FITS_REJECTED = {
    "best fit": (BestFit, "the lowest hole, not the tightest"),
    "worst fit": (WorstFit, "back to the beginning"),
    "last fit": (LastFit, "expected:  0: the lowest hole that is long enough"),
    "next fit": (NextFit, "back to the beginning, not on from the last place"),
    "more than exactly": (LongerThanAsked, "exactly as long as needed"),
    "from the hole's end": (FromTheEnd, "one after the other\n   100 units, call 1 of 3: allocate(30)\n"
                                        "   in use:    nothing\n   yours:     70\n   expected:  0"),
    "never merges": (NeverMerges, "a free joins"),
    "merges with what is behind": (MergesBehindOnly, "a free joins the hole in front of it"),
    "merges with what is in front": (MergesInFrontOnly, "a free joins the hole behind it"),
    "merges with one of two": (MergesOneOfTwo, "a free joins the holes on both sides"),
    "loses the order": (ForgetsTheOrder, "the lowest hole that is long enough"),
    "if not start": (NoStartIsNothing, "the piece at 0 is a piece like any other"),
    "None for 0": (NoneForZero, "allocate(30)\n   in use:    nothing\n   yours:     None\n   expected:  0"),
    "loses what is left": (LosesTheRest,
                           "yours:     None\n   expected:  30: the lowest hole that is long enough is 30–100"),
    "keeps the hole": (KeepsTheHole, "yours:     0, but 0–30 is in use"),
    "takes what there is": (TakesWhatThereIs, "takes nothing"),
    "-1 for None": (NoneIsMinusOne,
                    "yours:     -1, which is before the memory's beginning\n   expected:  None: no hole has 1"),
    "raises": (RaisesInstead, "yours:     raised MemoryError: no hole is long enough\n   expected:  None"),
    "returns holes": (ReturnsHoles, "(0, 100), which is neither a start nor None"),
    "never free": (NeverFree, "the piece at 0 is a piece like any other"),
    "loops": (Loops, "had not returned"),
    "an allocator": (Holes(100), "check gets your class"),
    "no free": (type("NoFree", (), {"allocate": lambda self, size: 0}), "your class has no method free()"),
    "no capacity": (type("NoCapacity", (), {"allocate": len, "free": len}), "your code raised TypeError"),
}

# ── 03.3 to 03.5 ─────────────────────────────────────────────────────────────────────────────────────────────────────

def owned_by(owner):
    """The address of something that this owner has."""
    return next(piece.address for piece in server_history().end.layout().pieces if piece.owner == owner)


SEGMENTS, EXPANDABLE = [2, 22, 22, 52, 52, 94, 94], [2, 22, 22, 62, 62, 62, 82]

ACCEPTED = {
    "03.1": {name: (answer,) for name, answer in DEMOS_ACCEPTED.items()},
    "03.2": {"holes": (Holes,), "cells": (Cells,), "pieces": (PiecesOnly,)},
    "03.3": {"an int": (144,), "numpy's": (numpy.int64(144),), "a float": (144.0,),
             "a float of numpy's": (numpy.float64(144),)},
    "03.4": {"lists": (SEGMENTS, EXPANDABLE), "floats": (tuple(map(float, SEGMENTS)), numpy.array(EXPANDABLE))},
    "03.5": {"its name": ("metrics.py:9 record",), "in part": (" Metrics.py",), "the function": ("record",),
             "with its path": ("/srv/app/metrics.py:9 record",), "an address": (owned_by("metrics.py:9 record"),)},
}
REJECTED = {
    "03.1": {name: ((answer,), message) for name, (answer, message) in DEMOS_REJECTED.items()},
    "03.2": {name: ((answer,), message) for name, (answer, message) in FITS_REJECTED.items()},
    "03.3": {"a power of two": ((128,), "But so it is with 144"), "too large": ((160,), "expected:  less than 5%"),
             "the usual one": ((16,), "But so it is with 32"), "odd": ((150,), "150 is not a multiple of 16"),
             "zero": ((0,), "not a multiple of 16"), "huge": ((4096,), "larger than most requests"),
             "half a token": ((144.5,), "the answer is a number of tokens"),
             "NaN": ((float("nan"),), "a number of tokens"),
             "a share": ((0.05,), "the answer is a number of tokens"),
             "True": ((True,), "the answer is a number of tokens")},
    "03.4": {
        "the device gets it back": (([2, 22, 22, 52, 22, 64, 64], EXPANDABLE),
                                    "with segments, line 5: f D\n   yours:     22 MiB reserved\n   expected:  52 MiB: "
                                    "the block is free, and the device gets nothing back"),
        "exact segments": (([0.5, 6.5, 18.5, 48.5, 48.5, 59.5, 66.5], EXPANDABLE),
                           "with segments, line 1: a A 512 KiB\n   yours:     0.5 MiB reserved\n   expected:  2 MiB"),
        "every miss 20": (([2, 22, 22, 42, 42, 62, 62], EXPANDABLE), "a segment of its own, 30 MiB"),
        "not rounded to 2": (([2, 22, 22, 52, 52, 93, 93], EXPANDABLE), "42 MiB, the size rounded up to 2 MiB"),
        "no best fit": (([2, 22, 42, 72, 72, 114, 114], EXPANDABLE), "a free block of 14 MiB is long enough"),
        "the end does not count": ((SEGMENTS, [2, 22, 22, 62, 62, 122, 122]),
                                   "with expandable segments, line 6: a E 41 MiB\n   yours:     122 MiB reserved\n"
                                   "   expected:  62 MiB: a free block of 42 MiB"),
        "one page": ((SEGMENTS, [2, 22, 22, 42, 42, 62, 62]),
                     "28 MiB are lacking at the segment's end, so 2 pages of 20 MiB are mapped"),
        "as with segments": ((SEGMENTS, SEGMENTS), "with expandable segments, line 4"),
        "the last is a miss": ((SEGMENTS, [2, 22, 22, 62, 62, 62, 62]),
                               "6 MiB are lacking at the segment's end, so 1 page of 20 MiB is mapped"),
        "the wrong way round": ((EXPANDABLE, SEGMENTS), "with segments, line 4"),
        "too few": ((SEGMENTS[:6], EXPANDABLE), "with segments: 6 values for 7 lines; a free is a line too"),
        "bytes": (([mib << 20 for mib in SEGMENTS], EXPANDABLE),
                  "with segments: 98,566,144 looks like bytes; in MiB, please"),
        "expandable in bytes": ((SEGMENTS, [mib << 20 for mib in EXPANDABLE]),
                                "with expandable segments: 85,983,232 looks"),
        "a text": (("2 22 22 52", EXPANDABLE), "the answer is a list of numbers"),
        "words": ((["two", *SEGMENTS[1:]], EXPANDABLE), "'two' is not a number of MiB"),
        "one of them": ((SEGMENTS,), "your code raised TypeError"),
    },
    "03.5": {
        "who has most": (("weights.py:30 load",),
                         "has 256 MiB; no free memory is kept by it alone: its segments are full"),
        "the largest segment": (("warmup.py",), "112 MiB of free memory are kept by it alone\n"
                                                "   expected:  somebody who keeps 222 MiB, all segments together"),
        "full segments": (("cache.py:21 append",), "has 80 MiB; no free memory"),
        "who is gone": (("model.py:40 forward",),
                        "names nobody: the owners are cache.py:21 append, metrics.py:9 record"),
        "several": (("py",), "names several"),
        "an address of another": ((owned_by("warmup.py:15 probe"),), "112 MiB of free memory are kept by it alone"),
        "nothing there": ((17,), "nothing is in use at 0x11"),
        "nothing": (("  ",), "names nobody"),
        "a list": ((["metrics.py"],), "the answer is an owner's name"),
    },
}


@pytest.mark.parametrize("exercise, name", [(each, name) for each, answers in ACCEPTED.items() for name in answers])
def test_a_right_answer_is_accepted(exercise, name):
    verdict = grade(find_exercise(exercise), *ACCEPTED[exercise][name])
    assert verdict.outcome == CORRECT, verdict


@pytest.mark.parametrize("exercise, name", [(each, name) for each, answers in REJECTED.items() for name in answers])
def test_a_wrong_answer_gets_the_message_it_deserves(exercise, name, monkeypatch):
    answers, message = REJECTED[exercise][name]
    if answers == (Loops,):
        monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 1.0)
    verdict = grade(find_exercise(exercise), *answers)
    assert verdict.outcome == WRONG, verdict
    assert message in str(verdict), verdict


def test_every_exercise_has_enough_answers_here():
    for exercise in exercises_of("03"):
        assert len(ACCEPTED[exercise.id]) >= 2 and len(REJECTED[exercise.id]) >= 3


@pytest.mark.parametrize("exercise, answers", [
    ("03.1", (...,)), ("03.1", ("",)), ("03.1", ("# nothing yet\n",)), ("03.2", (HalfWritten,)), ("03.3", (...,)),
    ("03.5", (...,)), ("03.4", (..., ...)), ("03.4", (SEGMENTS, ...)), ("03.4", (SEGMENTS, [2, 22, ...]))])
def test_what_is_not_written_yet_is_not_wrong(exercise, answers):
    assert grade(find_exercise(exercise), *answers).outcome == NOT_YET


@pytest.mark.parametrize("exercise, name, alt", [
    ("03.1", "the article's", "first fit, before C asks"), ("03.1", "refused before", "first fit refuses E"),
    ("03.2", "best fit", "In use: 40–50, 70–100. yours: the new piece at 50–65; expected: the new piece at 0–15"),
    ("03.2", "-1 for None", "expected: nothing placed")])
def test_the_counter_example_has_a_picture_with_alternative_text(exercise, name, alt):
    verdict = grade(find_exercise(exercise), *REJECTED[exercise][name][0])
    assert verdict.picture[0].startswith(b"\x89PNG") and alt in verdict.picture[1]


def test_a_long_story_of_random_calls_is_cut():
    class WrongInTheEnd(Holes):
        def __init__(self, capacity):
            super().__init__(capacity)
            self.capacity, self.calls = capacity, 0

        def choose(self, size):
            self.calls += 1
            return BestFit.choose(self, size) if self.capacity == 1_000 and self.calls > 200 else super().choose(size)

    verdict = grade(find_exercise("03.2"), WrongInTheEnd)
    assert verdict.outcome == WRONG and "before:    …, " in verdict.message and len(verdict.message) < 1_500


def test_how_calls_are_written():
    assert calls("a=30 -a") == [("a", 30), ("a", 0)]


def test_the_block_size_is_no_matter_of_luck():
    shares = [share_without_tokens(block_tokens) for block_tokens in range(112, 193, 16)]
    assert shares == sorted(shares)
    assert BLOCK_LIMIT - shares[2] > 0.001 and shares[3] - BLOCK_LIMIT > 0.001, "144 and 160 tokens"


def test_what_is_reserved_after_each_line():
    assert [reserved / MIB for reserved in reserved_after_each(BY_HAND, False)[1]] == SEGMENTS
    assert [reserved / MIB for reserved in reserved_after_each(BY_HAND, True)[1]] == EXPANDABLE


def test_a_workload_as_text_and_as_an_object_are_one():
    workload = Workload.parse(HOLES + "a E 26M")
    assert str(grade(find_exercise("03.1"), workload)) == str(grade(find_exercise("03.1"), workload.text()))
