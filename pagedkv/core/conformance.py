"""The conformance suite: does a pool keep the contract of `pagedkv.core.contract`?

Each rule is a function below, its docstring the rule in one sentence. A rule gets a function that makes a fresh pool,
and raises `RuleBroken` with what it did, what came back and what was expected. Any pool can be put to it: one of ours,
one in Java behind its adapter, a learner's. A pool that raises, returns nonsense or never returns breaks a rule; it
cannot break the suite.

    report = check_rules(MyPool)        # MyPool(num_blocks) makes a pool
    print(report)
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from pagedkv.core.deadline import DeadlineExceeded, run_with_deadline
from pagedkv.core.errors import DoubleFree, NotABlock, OutOfBlocks, UseAfterFree
from pagedkv.core.events import refcounts
from pagedkv.core.replay import PoolState

MakePool = Callable[[int], Any]
RULE_SECONDS = 5.0  # every rule takes milliseconds: a pool that needs this long is in a loop


class RuleBroken(Exception):
    """A pool did something that the contract does not allow."""


class RuleResult(NamedTuple):
    rule: str
    sentence: str
    broken: str | None  # None: the rule is kept
    hung: bool = False  # broken by a call that did not return

    def __str__(self) -> str:
        return f"broken: {self.rule} – {self.sentence}\n    {self.broken}" if self.broken else f"kept:   {self.rule}"


@dataclass(frozen=True)
class ConformanceReport:
    results: tuple[RuleResult, ...]

    @property
    def broken(self) -> tuple[RuleResult, ...]:
        return tuple(result for result in self.results if result.broken)

    @property
    def passed(self) -> bool:
        return not self.broken

    def __str__(self) -> str:
        kept = len(self.results) - len(self.broken)
        return "\n".join([f"{kept} of {len(self.results)} rules kept", *map(str, self.broken)])


def check_rules(make_pool: MakePool, observed: bool | None = None) -> ConformanceReport:
    """Put pools made by `make_pool(num_blocks)` to every rule. Never raises.

    observed: whether the pool must report events too; None means yes if it has an attribute `observer`.
    """
    results = []
    for rule in RULES:
        if rule in EVENT_RULES and observed is None:
            observed = _is_observed(make_pool)
        if rule in EVENT_RULES and not observed:
            continue
        results.append(check_rule(rule.__name__, _sentence(rule), lambda: rule(make_pool), make_pool))
        if results[-1].broken and rule is all_free_at_first or results[-1].hung:
            break  # no pool at all, or one to wait for at every call: the other rules would only say it again
    return ConformanceReport(tuple(results))


def check_rule(name: str, sentence: str, run: Callable[[], None], make_pool: MakePool,
               seconds: float | None = None) -> RuleResult:
    """Run one rule, whatever the pool does. A `make_pool` with an attribute `abort_handle` can be stopped in a call
    outside Python too (see `run_with_deadline`)."""
    name = name.replace("_", " ")
    try:
        run_with_deadline(run, seconds or RULE_SECONDS, getattr(make_pool, "abort_handle", None))
    except RuleBroken as error:
        return RuleResult(name, sentence, str(error))
    except DeadlineExceeded as error:
        return RuleResult(name, sentence, f"a call did not return: {error}", hung=True)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit too: the pool's own code ran here
        return RuleResult(name, sentence, f"the pool raised {describe(error)}")
    return RuleResult(name, sentence, None)


# ── the rules ────────────────────────────────────────────────────────────────────────────────────────────────────────

def all_free_at_first(make_pool: MakePool) -> None:
    """A new pool has the blocks it was asked for, all of them free, with refcount 0."""
    for num_blocks in (1, 8):
        pool = make_pool(num_blocks)
        for name in ("allocate", "retain", "release", "refcount"):
            if not callable(getattr(pool, name, None)):
                raise RuleBroken(f"a pool has a method {name}(); this {type(pool).__name__} has none")
        expect_equal("num_blocks of a new pool", pool.num_blocks, num_blocks)
        _expect_state(pool, [0] * num_blocks, f"a new pool of {num_blocks} blocks")


def allocate_gives_distinct_blocks(make_pool: MakePool) -> None:
    """allocate(n) gives a list of n different blocks of the pool, each with refcount 1."""
    pool = make_pool(8)
    first = allocate(pool, 3)
    second = allocate(pool, 5)
    for block in first + second:
        expect_equal(f"refcount({block}) after it was allocated", pool.refcount(block), 1)
    expect_equal("blocks given by allocate(3) and allocate(5) of 8", sorted(first + second), list(range(8)))
    expect_equal("num_free_blocks after all were allocated", pool.num_free_blocks, 0)


def allocate_nothing(make_pool: MakePool) -> None:
    """allocate(0) gives an empty list, also when the pool is full; so do retain([]) and release([]) nothing."""
    pool = make_pool(2)
    allocate(pool, 0)
    blocks = allocate(pool, 2)
    allocate(pool, 0)
    pool.retain([])
    pool.release([])
    _expect_state(pool, _counts(2, blocks), "after calls that name no block")


def out_of_blocks_takes_none(make_pool: MakePool) -> None:
    """allocate(n) with fewer than n free raises OutOfBlocks and takes none."""
    pool = make_pool(4)
    blocks = allocate(pool, 3)
    expect_refusal(pool, OutOfBlocks, "allocate(2) with 1 of 4 free", lambda: pool.allocate(2))
    rest = allocate(pool, 1)
    expect_refusal(pool, OutOfBlocks, "allocate(1) with none free", lambda: pool.allocate(1))
    expect_equal("blocks in use", sorted(blocks + rest), [0, 1, 2, 3])


def counts_are_checked(make_pool: MakePool) -> None:
    """A negative count is a ValueError, a bool, float, string or None a TypeError; nothing is taken."""
    pool = make_pool(4)
    expect_refusal(pool, ValueError, "allocate(-1)", lambda: pool.allocate(-1))
    for wrong in (True, 1.0, "1", None):
        expect_refusal(pool, TypeError, f"allocate({wrong!r})", lambda: pool.allocate(wrong))


def retain_adds_a_reference(make_pool: MakePool) -> None:
    """retain adds one reference for each time a block stands in the call."""
    pool = make_pool(4)
    a, b = allocate(pool, 2)
    pool.retain([a, b])
    pool.retain([b, b])
    _expect_state(pool, _counts(4, [a, a, b, b, b, b]), f"after retain([{a}, {b}]) and retain([{b}, {b}])")


def shared_blocks_stay(make_pool: MakePool) -> None:
    """A block is free only after its last reference is released; until then it is not given out again."""
    pool = make_pool(2)
    a, b = allocate(pool, 2)
    pool.retain([a])
    pool.release([a])
    expect_refusal(pool, OutOfBlocks, "allocate(1) while both blocks are held", lambda: pool.allocate(1))
    pool.release([a])
    _expect_state(pool, _counts(2, [b]), f"after the last reference to block {a} was released")
    expect_equal("the only free block, allocated again", allocate(pool, 1), [a])


def released_blocks_come_back(make_pool: MakePool) -> None:
    """Every released block can be allocated again, with refcount 1, and none twice."""
    pool = make_pool(6)
    for _ in range(3):
        blocks = allocate(pool, 6)
        pool.retain(blocks[:2])
        pool.release(blocks[2:])
        pool.release(blocks[:2])
        pool.release(blocks[:2])
    _expect_state(pool, [0] * 6, "after everything was released three times over")


def double_free_is_refused(make_pool: MakePool) -> None:
    """release of a free block raises DoubleFree and changes nothing."""
    pool = make_pool(4)
    a, b = allocate(pool, 2)
    pool.release([a])
    expect_refusal(pool, DoubleFree, f"release([{a}]) when block {a} is free", lambda: pool.release([a]))
    never_used = next(block for block in range(4) if block not in (a, b))
    expect_refusal(pool, DoubleFree, f"release([{never_used}]), a block never allocated",
                   lambda: pool.release([never_used]))
    expect_equal("the 3 free blocks", sorted(allocate(pool, 3) + [b]), [0, 1, 2, 3])


def twice_in_one_release(make_pool: MakePool) -> None:
    """release([b, b]) is right if b's refcount is at least 2, else DoubleFree, and nothing changes."""
    pool = make_pool(4)
    a, b = allocate(pool, 2)
    expect_refusal(pool, DoubleFree, f"release([{a}, {a}]) with refcount 1", lambda: pool.release([a, a]))
    pool.retain([a])
    expect_refusal(pool, DoubleFree, f"release([{a}, {b}, {a}, {a}]) with refcount 2 of block {a}",
                   lambda: pool.release([a, b, a, a]))
    pool.release([a, a])
    _expect_state(pool, _counts(4, [b]), f"after release([{a}, {a}]) with refcount 2")
    expect_equal("the 3 free blocks and the held one", sorted(allocate(pool, 3) + [b]), [0, 1, 2, 3])


def use_after_free_is_refused(make_pool: MakePool) -> None:
    """retain of a free block raises UseAfterFree and changes nothing."""
    pool = make_pool(4)
    a, b = allocate(pool, 2)
    pool.release([a])
    expect_refusal(pool, UseAfterFree, f"retain([{a}]) when block {a} is free", lambda: pool.retain([a]))
    expect_refusal(pool, UseAfterFree, f"retain([{b}, {a}]) when block {a} is free", lambda: pool.retain([b, a]))


def release_is_all_or_nothing(make_pool: MakePool) -> None:
    """If one block of a release is refused, none of the others is released."""
    pool = make_pool(4)
    a, b, c = allocate(pool, 3)
    pool.release([b])
    pool.retain([c])
    expect_refusal(pool, DoubleFree, f"release([{a}, {c}, {b}]) when block {b} is free",
                   lambda: pool.release([a, c, b]))


def ids_outside_the_pool(make_pool: MakePool) -> None:
    """An id below 0 or from num_blocks up raises NotABlock in retain, release and refcount; nothing changes."""
    pool = make_pool(4)
    blocks = allocate(pool, 4)
    for wrong in (-1, 4, 2**40):
        expect_refusal(pool, NotABlock, f"release([{blocks[0]}, {wrong}])", lambda: pool.release([blocks[0], wrong]))
        expect_refusal(pool, NotABlock, f"retain([{blocks[0]}, {wrong}])", lambda: pool.retain([blocks[0], wrong]))
        expect_refusal(pool, NotABlock, f"refcount({wrong})", lambda: pool.refcount(wrong))


def ids_are_integers(make_pool: MakePool) -> None:
    """A bool, float, string or None is no block id: TypeError, and nothing changes."""
    pool = make_pool(4)
    allocate(pool, 4)
    for wrong in (True, 1.0, "1", None):
        expect_refusal(pool, TypeError, f"release([{wrong!r}])", lambda: pool.release([wrong]))
        expect_refusal(pool, TypeError, f"retain([{wrong!r}])", lambda: pool.retain([wrong]))
        expect_refusal(pool, TypeError, f"refcount({wrong!r})", lambda: pool.refcount(wrong))


def any_integer_type_will_do(make_pool: MakePool) -> None:
    """Integers that are not Python's int, such as NumPy's, are good counts and ids, in lists, tuples and ranges."""
    pool = make_pool(4)
    blocks = allocate(pool, _Integer(2))
    pool.retain([_Integer(block) for block in blocks])
    pool.release(tuple(blocks))
    expect_equal(f"refcount of {blocks[0]}", pool.refcount(_Integer(blocks[0])), 1)
    pool.release([_Integer(block) for block in blocks])
    allocate(pool, 4)
    pool.release(range(4))
    again = allocate(pool, 4)
    if any(type(block) is not int for block in again):
        raise RuleBroken(f"blocks given out are plain ints, got {again!r}")


def owners_are_only_labels(make_pool: MakePool) -> None:
    """allocate takes an owner, of any kind, and does the same as without one."""
    pool = make_pool(4)
    blocks = [block for owner in ("A", 7, None) for block in as_blocks(pool.allocate(1, owner=owner), 1)]
    _expect_state(pool, _counts(4, blocks), "after allocate(1, owner=…) for three owners")


def an_event_for_each_call(make_pool: MakePool) -> None:
    """The observer gets one event per call, steps from 0, with op, owner and blocks; refused calls say the error."""
    pool = make_pool(4)
    events = []
    pool.observer = events.append
    blocks = as_blocks(pool.allocate(2, owner="A"), 2)
    pool.retain(blocks)
    pool.release(blocks[:1])
    _refused(lambda: pool.allocate(3, owner="B"))
    _refused(lambda: pool.release([blocks[0], blocks[0]]))
    pool.observer = None
    pool.release(blocks)
    seen = [(event.step, event.op, event.owner, tuple(event.blocks), event.detail.get("error")) for event in events]
    expected = [(0, "allocate", "A", tuple(blocks), None), (1, "retain", None, tuple(blocks), None),
                (2, "release", None, tuple(blocks[:1]), None), (3, "allocate", "B", (), "OutOfBlocks"),
                (4, "release", None, (blocks[0], blocks[0]), "DoubleFree")]
    for i, (got, wanted) in enumerate(zip(seen, expected)):
        expect_equal(f"event {i}", got, wanted)
    expect_equal("number of events for 5 observed calls", len(seen), 5)
    expect_equal("requested_blocks of the refused allocate(3)", events[3].detail.get("requested_blocks"), 3)


def replay_gives_the_refcounts(make_pool: MakePool) -> None:
    """Replaying the events gives exactly the pool's refcounts, and finds nothing impossible."""
    pool = make_pool(8)
    state = PoolState(8)
    pool.observer = state.apply
    a = as_blocks(pool.allocate(3, owner="A"), 3)
    pool.retain(a[:2], owner="B")
    b = as_blocks(pool.allocate(4, owner="C"), 4)
    pool.release(a, owner="A")
    _refused(lambda: pool.retain([a[2]], owner="B"))
    pool.release(b[1:], owner="C")
    expect_equal("refcounts by replay", state.refcounts(), list(refcounts(pool)))
    expect_equal("faults found by replay", state.faults, [])


RULES = (all_free_at_first, allocate_gives_distinct_blocks, allocate_nothing, out_of_blocks_takes_none,
         counts_are_checked, retain_adds_a_reference, shared_blocks_stay, released_blocks_come_back,
         double_free_is_refused, twice_in_one_release, use_after_free_is_refused, release_is_all_or_nothing,
         ids_outside_the_pool, ids_are_integers, any_integer_type_will_do, owners_are_only_labels,
         an_event_for_each_call, replay_gives_the_refcounts)
EVENT_RULES = (an_event_for_each_call, replay_gives_the_refcounts)


# ── what rules are made of ───────────────────────────────────────────────────────────────────────────────────────────

def allocate(pool, n: int) -> list[int]:
    """pool.allocate(n), after a look at what came back."""
    return as_blocks(pool.allocate(n), int(n))


def as_blocks(answer: object, n: int) -> list[int]:
    """The answer of an allocation of `n` blocks as a list. Raises RuleBroken if it is none."""
    try:
        blocks = list(islice(answer, n + 1))  # it may be endless
        distinct = len(set(blocks))
    except TypeError:
        raise RuleBroken(f"allocate({n}) gives a list of blocks, got {answer!r}") from None
    if len(blocks) != n or distinct != n:
        raise RuleBroken(f"allocate({n}) gives {n} different blocks, got {blocks!r}")
    return blocks


def expect_equal(what: str, got: object, expected: object) -> None:
    if got != expected:
        raise RuleBroken(f"{what}: expected {expected!r}, got {got!r}")


def expect_refusal(pool, error: type[Exception], what: str, call: Callable[[], Any]) -> None:
    """The call raises `error` and leaves every refcount and the number of free blocks as they were."""
    before = list(refcounts(pool)), pool.num_free_blocks
    raised = _refused(call)
    if raised is None:
        raise RuleBroken(f"{what}: expected {error.__name__}, but the call went through")
    if not isinstance(raised, error):
        raise RuleBroken(f"{what}: expected {error.__name__}, got {describe(raised)}")
    after = list(refcounts(pool)), pool.num_free_blocks
    if after != before:
        raise RuleBroken(f"{what} was refused with {error.__name__}, but not all is as before: "
                         f"{_difference(before, after)}")


def describe(error: BaseException) -> str:
    text = str(error).strip().split("\n")[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


class _Integer:
    """An integer of a type of its own, as NumPy's are."""

    def __init__(self, value: int):
        self._value = value

    def __index__(self) -> int:
        return self._value

    __int__ = __index__

    def __eq__(self, other) -> bool:
        return self._value == other

    def __hash__(self) -> int:
        return hash(self._value)

    def __repr__(self) -> str:
        return f"Integer({self._value})"


def _is_observed(make_pool: MakePool) -> bool:
    result = check_rule("observed", "", lambda: make_pool(1).observer, make_pool)
    return result.broken is None


def _refused(call: Callable[[], Any]) -> Exception | None:
    try:
        call()
    except Exception as error:
        return error
    return None


def _expect_state(pool, counts: list[int], when: str) -> None:
    got = list(refcounts(pool))
    if got != counts:
        raise RuleBroken(f"{when}: {_difference((counts, None), (got, None), 'expected', 'got')}")
    expect_equal(f"num_free_blocks {when}", pool.num_free_blocks, counts.count(0))


def _difference(before: tuple, after: tuple, old: str = "before", new: str = "now") -> str:
    for block, (was, now) in enumerate(zip(before[0], after[0])):
        if was != now:
            return f"refcount({block}) – {old} {was}, {new} {now}"
    if len(before[0]) != len(after[0]):
        return f"number of blocks – {old} {len(before[0])}, {new} {len(after[0])}"
    return f"num_free_blocks – {old} {before[1]}, {new} {after[1]}"


def _counts(num_blocks: int, references: list[int]) -> list[int]:
    times = Counter(references)
    return [times[block] for block in range(num_blocks)]


def _sentence(rule: Callable) -> str:
    return " ".join(rule.__doc__.split())
