"""The exercises of notebook 04, block tables."""

import math
import numbers
import operator
import random
from collections.abc import Mapping
from typing import Any

from pagedkv.core.block_table import locate
from pagedkv.core.memory import as_text
from pagedkv.java import jclass
from pagedkv.lab.exercises.java_classes import is_java_class
from pagedkv.lab.grading import Exercise, NotYet, Wrong, describe_error, is_java
from pagedkv.lab.tables_cases import CLAIMS, SLIPS, Claim, shares
from pagedkv.lab.tables_trial import NO_ASSERTION, StoreTrial, try_random_sequences, try_sequences
from pagedkv.rivals.block_size import ARTICLE_SIZES_TOKENS, measure_block_size
from pagedkv.viz.words import count

# ── 04.1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_TABLE = [9, 4, 7]
_ADDRESSES = (  # table, position, block size; ordinary ones first
    (_TABLE, 37, 16), (_TABLE, 0, 16), (_TABLE, 15, 16), (_TABLE, 16, 16), (_TABLE, 47, 16), ([5], 3, 4),
    ([3, 0, 2], 5, 1 + 1), ([3, 0, 2], 2, 1), ([6, 1], 17, 12), ([2**27], 0, 16), ([200_000_000], 5, 16),
    ([7, 2**31 - 1], 255, 128))
_NO_ADDRESSES = ((_TABLE, -1, 16), (_TABLE, -15, 16), (_TABLE, -16, 16), (_TABLE, -17, 16), ([3], -1, 1),
                 (_TABLE, -2**31, 16), (_TABLE, 48, 16), (_TABLE, 2**31 - 1, 16), ([], 0, 16))


def address_translated(translation) -> str:
    """From a position to its slot; what is not in the sequence is refused."""
    translate = _instance_of(translation, "pagedkv.exercise.TranslatesAddress", "MyTranslation").slot
    ints = jclass("int[]")
    for table, position, size in _ADDRESSES:
        right = locate(table, position, size)
        try:
            answer = int(translate(ints(table), position, size))
        except Exception as error:
            _not_yet_goes_on(error)
            raise Wrong(f"{_asked(table, position, size)}:\n   yours:     threw {describe_error(error)}\n"
                        f"   expected:  {right.slot:,}", _way(table, position, size)) from None
        if answer != right.slot:
            way = (f"logical block {right.logical_block}, offset {right.offset}, physical block "
                   f"{right.physical_block:,}")
            why = f": {answer:,} is what 32 bits leave of it, so compute in long" \
                if (answer - right.slot) % 2**32 == 0 else f": {way}"
            raise Wrong(f"{_asked(table, position, size)}:\n   yours:     {answer:,}\n"
                        f"   expected:  {right.slot:,}{why}", _way(table, position, size))
    for table, position, size in _NO_ADDRESSES:
        try:
            answer = int(translate(ints(table), position, size))
        except Exception as error:
            _not_yet_goes_on(error)
            if is_java(error, "java.lang.AssertionError"):
                raise Wrong(f"{_asked(table, position, size)}:\n   yours:     an AssertionError\n"
                            f"   expected:  {NO_ASSERTION}") from None
            continue
        why = "positions begin at 0" if position < 0 else f"the table has {count(len(table), 'block')}"
        where = f", which is in block {answer // size}" if answer >= 0 else ", which is before the pool's beginning"
        raise Wrong(f"{_asked(table, position, size)}:\n   yours:     slot {answer:,}{where}\n"
                    f"   expected:  an exception: {why}", _way(table, position, size))
    return f"{len(_ADDRESSES)} positions are translated, {len(_NO_ADDRESSES)} that are not there are refused"


def _asked(table: list[int], position: int, size: int) -> str:
    return f"table {table}, position {position:,}, blocks of {size}"


def _way(table: list[int], position: int, size: int) -> tuple[bytes, str] | None:
    """A picture of the way to the slot, where it can be drawn."""
    if not table or max(table) > 20 or not -len(table) * size <= position < len(table) * size:
        return None
    from pagedkv.viz.address_plot import NUM_STEPS, Address, still_address
    picture = still_address(Address(table, size, max(table) + 3, len(table) * size, [], position), NUM_STEPS,
                            "What was asked for")
    return picture.png(), picture.alt


# ── 04.2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

SEQUENCE_CASES = {  # blocks, tokens in a block, calls
    "a prompt, then token by token": (8, 4, "A5 A1 A1 A1 A1 A1"),
    "a prompt that fills its block": (8, 4, "A4 A1 A1"),
    "a prompt of several blocks": (8, 4, "A12 A1"),
    "several tokens, across a boundary": (8, 4, "A3 A6 A1"),
    "two sequences take turns": (8, 2, "A1 B1 A1 B1 A1 B1 A1 B1 A1"),
    "blocks of one token": (4, 1, "A1 A1 A2"),
    "the pool runs out at a boundary": (2, 4, "A8 A1 A1"),
    "a full pool, and room in the last block": (2, 4, "A5 A1 A1 A1"),
    "a prompt of which only a part would fit": (3, 4, "A4 B12 B4 B4"),
    "more tokens than there is room for, with room for some": (3, 4, "A2 B4 A9 A6 A1"),
}
_RANDOM_RUNS = 60


def sequence_that_grows(sequence_class) -> str:
    """A sequence takes a block only when it needs one, and all of them or none."""
    if not isinstance(sequence_class, type):
        raise Wrong(f'check gets your class, such as check("04.2", MySequence); got {sequence_class!r:.80}')
    if not callable(getattr(sequence_class, "append", None)):
        raise Wrong("your class has no method append()")
    try_sequences(sequence_class, SEQUENCE_CASES)
    for seed in range(_RANDOM_RUNS):
        try_random_sequences(sequence_class, 3 + seed // 2, seed)
    return f"{len(SEQUENCE_CASES)} named cases and {_RANDOM_RUNS} random runs agree with the model"


# ── 04.3 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_STORE_CASES = {
    "one sequence": lambda t: (t.append(7, 9), t.append(7, 4), t.append(7, 7), t.look_everywhere(), t.remove(7)),
    "two sequences in turn": lambda t: (t.append(7, 9), t.append(3, 2), t.append(7, 4), t.append(3, 8),
                                        t.look_everywhere(), t.remove(3), t.look_everywhere()),
    "a sequence that is not there": lambda t: (t.lookup(7, 0), t.append(7, 9), t.lookup(3, 0), t.remove(3)),
    "negative logical blocks": lambda t: (t.append(7, 9), t.append(7, 4), t.lookup(7, -1)),
    "behind the last block": lambda t: (*(t.append(7, block) for block in range(1, 6)), t.lookup(7, 4), t.lookup(7, 5)),
    "removed, and come again": lambda t: (t.append(7, 9), t.append(7, 4), t.remove(7), t.lookup(7, 0), t.remove(7),
                                          t.append(7, 5), t.look_everywhere()),
    "ids are not row numbers": lambda t: (t.append(2**40, 9), t.append(-3, 4), t.append(2**32, 1), t.append(0, 2),
                                          t.look_everywhere()),
    "block 0 is a block": lambda t: (t.append(7, 0), t.append(7, 3), t.append(7, 0), t.look_everywhere(), t.remove(7)),
    "the same block in two tables": lambda t: (t.append(7, 9), t.append(3, 9), t.remove(7), t.look_everywhere()),
}
_LONG_BLOCKS, _MOST_TIMES_OURS = 2_000, 25
_MANY_SEQUENCES = 3_000


def two_level_table(store_class) -> str:
    """A Java store of tables, whose lookup does not walk."""
    _instance_of(store_class, "pagedkv.table.TableStore", "MyTables")
    left: dict[int, list[int]] = {}  # in the store before: no new one may know of it
    cases = {**_STORE_CASES, f"{_MANY_SEQUENCES:,} sequences at once": lambda t: t.many_sequences(_MANY_SEQUENCES)}
    for name, play in cases.items():
        trial = StoreTrial(store_class(), left)
        try:
            play(trial)
        except Wrong as wrong:
            raise Wrong(f"{name}: {wrong}", wrong.picture) from None
        left = trial.tables
    rng = random.Random(1)
    for number in (10, 20, 40, 400, 1_500):
        StoreTrial(store_class()).random_calls(number, rng)
    times = _times_ours(store_class)
    if _MOST_TIMES_OURS < times < 10 * _MOST_TIMES_OURS:  # the machine may have been busy with something else
        times = min(times, _times_ours(store_class))
    if times > _MOST_TIMES_OURS:
        raise Wrong("every answer is right, but a lookup at a random place of a table of "
                    f"{_LONG_BLOCKS:,} blocks takes too long:\n"
                    f"   yours:     {times:,.0f} times as long as a lookup in arrays\n"
                    "   expected:  about as long, wherever the block stands. A list of nodes is walked from its end; "
                    "an array is not")
    return (f"{len(cases)} named cases, one with {_MANY_SEQUENCES:,} sequences, and 1,970 random calls agree with the "
            f"model; a lookup\n   in a table of {_LONG_BLOCKS:,} blocks does not walk")


def _times_ours(store_class) -> float:
    """How many times as long as ours a lookup takes in long tables, by the medians of rounds that take turns."""
    stores = jclass("java.util.LinkedHashMap")()
    makers = {"yours": lambda: store_class(), "ours": lambda: jclass("pagedkv.table.TwoLevelTable")()}
    for name, make in makers.items():
        stores.put(name, jclass("java.util.function.Supplier") @ make)
    result = jclass("pagedkv.table.TableCost").measure(1, _LONG_BLOCKS, stores)
    yours, ours = (float(result.row(name).lookup().median()) for name in makers)
    return yours / max(ours, 1.0)


# ── 04.4 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_LENGTHS = ([1], [16], [17], [33, 5, 64], [287] * 3, [100, 1], [48], [31, 32, 33], [1] * 10, [4096, 3])
_COLUMN_LENGTHS = [287, 31, 64, 500, 9]
_POOL_TOKENS = 2048


def rising_column(utilisation, lengths, column) -> str:
    """The function, lengths for which 48 beats 32, and what a rising column may have measured."""
    _try_utilisation(utilisation)
    tokens = _as_lengths(lengths)
    small, large = (measure_block_size(tokens, size) for size in (32, 48))
    if large.utilisation <= small.utilisation:
        raise Wrong(f"lengths {_short(tokens)}\n   yours:     {_slots(small)}\n              {_slots(large)}\n"
                    "   expected:  more with 48. Where does a block of 48 end and one of 32 not?")
    _try_column(column)
    return (f"lengths {_short(tokens)}: {_percent(small.utilisation)} with 32, {_percent(large.utilisation)} with 48. "
            "But 32 divides into two 16s,\n   and two blocks of 16 that one of 32 replaces are never more than it: "
            "with 16, 32, 64, 128 a column that rises\n   says how much was allocated, as B does, and not how well it "
            "is filled")


def _try_utilisation(utilisation) -> None:
    if not callable(utilisation) or is_java_class(utilisation):
        raise Wrong(f"first comes your function, utilisation; got {utilisation!r:.80}")
    rng = random.Random(4)
    drawn = [[rng.randint(1, 300) for _ in range(rng.randint(1, 6))] for _ in range(30)]
    for lengths in (*_LENGTHS, *drawn):
        for size in (16, 32, 48, 1):
            row = measure_block_size(lengths, size)
            answer = utilisation(list(lengths), size)
            if answer is None or answer is ...:
                raise NotYet("utilisation() returns nothing yet")
            asked = f"utilisation({lengths}, {size})"
            if isinstance(answer, bool) or not isinstance(answer, numbers.Real):
                raise Wrong(f"{asked}\n   yours:     {answer!r:.60}\n   expected:  a number")
            if not math.isclose(answer, row.utilisation, rel_tol=1e-9):
                percent = " (a share, not percent)" if math.isclose(answer, 100 * row.utilisation, rel_tol=1e-9) else ""
                raise Wrong(f"{asked}\n   yours:     {float(answer):.4f}\n"
                            f"   expected:  {row.utilisation:.4f}{percent}: {count(row.num_tokens, 'token')} in "
                            f"{count(row.num_blocks, 'block')} of {size}")


def _as_lengths(answer) -> list[int]:
    try:
        if isinstance(answer, (str, bytes, Mapping)):
            raise TypeError
        tokens = [operator.index(length) for length in answer]
    except TypeError:
        raise Wrong(f"lengths is a list of numbers of tokens, such as [20, 70]; got {answer!r:.60}") from None
    if not tokens or min(tokens) < 1 or len(tokens) > 100_000:
        raise Wrong(f"lengths has at least one length, and each is at least 1 token; got {answer!r:.60}")
    return tokens


def _try_column(answer) -> None:
    letter = str(answer).strip().upper()
    if letter not in ("A", "B", "C"):
        raise Wrong(f'column is one of the three, "A", "B" or "C"; got {answer!r:.60}')
    name = {"A": "filled", "B": "allocated", "C": "tokens_of_pool"}[letter]
    values = [getattr(shares(_COLUMN_LENGTHS, size, _POOL_TOKENS), name) for size in ARTICLE_SIZES_TOKENS]
    if letter != "B":
        what = "cannot rise: two small blocks never hold less in more slots" if letter == "A" else \
            "cannot change: the tokens and the pool are the same in every row"
        raise Wrong(f"lengths {_COLUMN_LENGTHS}, a pool of {_POOL_TOKENS:,} token slots, blocks of 16, 32, 64, 128\n"
                    f"   yours:     {letter} is {', '.join(map(_percent, values))}: it {what}\n"
                    "   expected:  a share that rises from 16 to 128")


def _slots(row) -> str:
    return (f"{_percent(row.utilisation)} with {row.block_size}: {count(row.num_tokens, 'token')} in "
            f"{count(row.num_blocks, 'block')}, {row.num_slots:,} slots")


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("%", " %")


def _short(values: list[int]) -> str:
    return "[" + ", ".join(map(str, values[:8])) + ", …" * (len(values) > 8) + "]"


# ── 04.5 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def slips_caught(right_bytes, slips) -> str:
    """For each claim the right bytes, and a slip that leads from there to the claim."""
    sizes = _three(right_bytes, "right_bytes", "a number of bytes")
    kinds = _three(slips, "slips", f"one of {', '.join(SLIPS)}")
    for number, (claim, size) in enumerate(zip(CLAIMS, sizes), start=1):
        _try_size(number, claim, size)
    for number, (claim, kind) in enumerate(zip(CLAIMS, kinds), start=1):
        _try_slip(number, claim, kind)
    return "\n   ".join(f"{number}: {as_text(claim.right_bytes)}; the claim has {_why_claimed(claim)}"
                        for number, claim in enumerate(CLAIMS, start=1))


def _why_claimed(claim: Claim) -> str:
    """Those explanations that fit the claim's text, too; and what they leave unexplained."""
    fitting = claim.explanations()
    ways = ",\n      or ".join(" + ".join(slip.text for slip in found.slips) for found in fitting)
    if not claim.remainder:
        return ways
    size = fitting[0].size_bytes
    both = " (the figure alone cannot tell which)" * (len(fitting) > 1)
    return (f"{ways}{both}.\n      That makes {as_text(round(size))} = {size / 1e6:.1f} MB; "
            f"{abs(fitting[0].error):.0%} remain".replace("%", " %") + f", {claim.remainder}")


def _try_size(number: int, claim: Claim, answer: Any) -> None:
    asked = f"claim {number}, {claim.text}"
    if isinstance(answer, bool) or not isinstance(answer, numbers.Real) or not 0 < answer < math.inf:
        raise Wrong(f"{asked}\n   yours:     {answer!r:.60}\n   expected:  a number of bytes")
    right = claim.report()
    if math.isclose(answer, right.right_bytes, rel_tol=0.002):
        return
    found = claim.report(float(answer)).explanations
    said = ", which comes out with " + " or ".join(map(str, found[:3])) if found else ""
    if answer < 10**6:
        said = ": in bytes, please; 3 * GIB is a way to write it"
    elif math.isclose(answer, claim.claimed_bytes, rel_tol=claim.tolerance):
        said = ", which is the claim"
    raise Wrong(f"{asked}\n   yours:     {_size(answer)}{said}\n   expected:  {right.right_arithmetic}")


def _size(answer: float) -> str:
    return as_text(round(answer)) if answer >= 1 else f"{float(answer):g} B"


def _try_slip(number: int, claim: Claim, answer: Any) -> None:
    given = {answer} if isinstance(answer, str) else answer
    try:
        kinds = {str(kind).strip() for kind in given}
    except TypeError:
        kinds = set()
    asked = f"claim {number}, {claim.text}"
    names = {name.casefold(): name for name in SLIPS}
    kinds = {names.get(kind.casefold(), kind) for kind in kinds}
    if not kinds or kinds - set(SLIPS):
        raise Wrong(f"{asked}\n   yours:     {answer!r:.60}\n   expected:  one of {', '.join(SLIPS)}")
    if not kinds <= claim.slips:
        wrong = sorted(kinds - claim.slips)[0]
        right, wanted = claim.right_bytes, claim.claimed_bytes / claim.right_bytes
        nearest = min(claim.slips_of(wrong), key=lambda slip: abs(math.log(slip.factor / wanted)))
        raise Wrong(f"{asked}\n   yours:     {wrong}: with {nearest.text} it would be "
                    f"{as_text(round(right * nearest.factor))}: {_times(nearest.factor)}, not {_times(wanted)}\n"
                    f"   expected:  a slip that, alone or with another, makes {as_text(round(claim.claimed_bytes))} of "
                    f"{as_text(right)}")


def _times(factor: float) -> str:
    """ "20 times less", with three digits that count."""
    times, word = (factor, "more") if factor > 1 else (1 / factor, "less")
    digits = times if math.isclose(times, round(times)) else float(f"{times:.3g}")
    return f"{digits:,.10g} times {word}"


def _three(answer: Any, name: str, what: str) -> list:
    if isinstance(answer, Mapping):
        missing = [number for number in range(1, len(CLAIMS) + 1) if number not in answer]
        if missing:
            raise Wrong(f"{name} has nothing for claim {missing[0]}: it is a list, one entry for each claim")
        answer = [answer[number] for number in range(1, len(CLAIMS) + 1)]
    if isinstance(answer, str) or not hasattr(answer, "__iter__"):
        raise Wrong(f"{name} is a list with {len(CLAIMS)} entries, {what} for each claim; got {answer!r:.60}")
    values = list(answer)
    if any(value is Ellipsis for value in values):
        raise NotYet(f'{name} still has a ... in it. hint("04.5") gives a first nudge.')
    if len(values) != len(CLAIMS):
        raise Wrong(f"{name} has {len(values)} entries; there are {len(CLAIMS)} claims")
    return values


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _instance_of(java_class: Any, interface: str, example: str) -> Any:
    """A new object of the learner's Java class, which implements this interface."""
    name = interface.rpartition(".")[2]
    if not is_java_class(java_class) or not issubclass(java_class, jclass(interface)):
        raise Wrong(f"check gets your Java class that implements {name}, such as {example}; got {java_class!r:.80}")
    try:
        return java_class()
    except TypeError:
        raise Wrong("your class needs a public constructor without parameters, or none at all") from None


def _not_yet_goes_on(error: Exception) -> None:
    if is_java(error, "pagedkv.exercise.NotYet") or not hasattr(error, "getStackTrace"):
        raise error


EXERCISES = (
    Exercise("04.1", "From a position to a slot", 5, (
        "Two numbers come out of the position: which block, and where in it. What does Java make of -1 / 16?",
        "Refuse what is below 0 before you divide. What is behind the table, Java's array refuses by itself.",
        "throw new IndexOutOfBoundsException if position < 0; else (long) table[position / size] * size + position % "
        "size. Without the (long), the product is an int."), address_translated),
    Exercise("04.2", "A sequence that grows", 7, (
        "How many blocks does it need with n tokens more? How many has it?",
        "Blocks needed: tokens divided by block_size, rounded up. -(-a // b) rounds up. self.pool.allocate(k) gives k "
        "blocks or raises, and takes nothing then.",
        "needed = -(-(self.num_tokens + n) // self.block_size) - len(self.block_table). Allocate all of them in one "
        "call, and change block_table and num_tokens only afterwards."), sequence_that_grows),
    Exercise("04.3", "Two levels", 10, (
        "A HashMap finds the sequence. What does it find there, so that block i is one step away?",
        "A List<Integer> in an array (ArrayList), or an int[] that is copied when it grows. What does map.get(id) give "
        "for a sequence that is not there?",
        "append: tables.computeIfAbsent(sequence, id -> new ArrayList<>()).add(physicalBlock). lookup and remove: get "
        "or remove the list, throw NoSuchElementException if it is null. list.get(i) refuses what is not there."),
        two_level_table),
    Exercise("04.4", "A column that rises", 5, (
        "utilisation: all tokens, divided by all slots in the blocks that they take. A block that was begun counts "
        "fully.",
        "For 48 to win, a sequence has to fill blocks of 48 better than blocks of 32. How many tokens fill one of 48?",
        "Replace two blocks of 16 by one of 32: can slots become fewer? So A cannot rise. Of B and C, which has the "
        "allocated slots above the line?"), rising_column),
    Exercise("04.5", "Three claims", 10, (
        "2 × layers × KV heads × numbers of a head × bytes of a number, for a token. The models stand in section 5.",
        "Claim 1: how many layers has this model, and where are its KV heads? Claim 2: multiply; the claim is 1.91 "
        "times that, which is about 2 × 0.93, and 0.93 is a GB written for a GiB. Claim 3: a block of 0.5 MiB, for 32 "
        "tokens: how many layers is that?",
        "Divide the right figure by the claim. 20 is 8 heads × 80 layers ÷ 32; 1.91 is 4,096 tokens for 2,000, and GB "
        "for GiB; and in the third about 32 × 1,024 are missing."), slips_caught),
)
