"""Exercise 08.5: a block handed over from one member to another, while others go on.

The learner's function gets a real member of a real shared pool. Between its calls something may happen: then the block
has been released by its giver, or handed out again, exactly before the n-th call, for every n. So a race is no matter
of luck here: each moment at which it can happen is tried.
"""

import itertools
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from pagedkv.lab.counter_example import counter_example
from pagedkv.lab.grading import NotYet, Wrong, describe_error
from pagedkv.lab.workers_processes import pool_name
from pagedkv.lab.workers_watch import word_table
from pagedkv.shared import SharedPool, segment
from pagedkv.shared.layout import NUM_GENERATIONS

_NUM_BLOCKS, _BLOCK_BYTES = 4, 64
_MOST_CALLS = 6  # a moment before each of them is tried
_numbers = itertools.count()


class _Members:
    """giver, taker (the learner's) and third, of one pool; the giver holds `block`, of which it tells generation."""

    def __init__(self, giver: SharedPool, taker: SharedPool, third: SharedPool):
        self.giver, self.taker, self.third = giver, taker, third
        self.block, = giver.allocate(1)
        self.generation = giver.generation(self.block)

    def released(self) -> None:
        """The giver gives its reference back."""
        self.giver.release([self.block])

    def taken_by(self, member: SharedPool) -> None:
        """The giver gives its reference back; and if that made the block free, `member` is handed it out."""
        self.released()
        if not self.taker.refcount(self.block):
            others = _allocated_until(member, self.block)
            member.release(others)

    def references(self) -> int:
        """Of the taker alone."""
        return word_table(self.taker, [self.block]).rows[0].counts.get(self.taker.slot, 0)


class Event(NamedTuple):
    """Something that happens: what it does, in words and in deed."""

    words: str
    happens: Callable[[_Members], None]


_RELEASED = Event("the giver releases the block", _Members.released)
_HANDED_OUT = Event("the giver releases the block, and it is handed out again, to somebody else",
                    lambda members: members.taken_by(members.third))
_OURS_AGAIN = Event("the giver releases the block, and it is handed out again, to you, for something else",
                    lambda members: members.taken_by(members.taker))


class _Watched:
    """The taker's pool as the learner sees it: the same, but before a certain call something happens."""

    def __init__(self, members: _Members, event: Event | None, before_call: int):
        self._members, self._event, self._before_call = members, event, before_call
        self.calls: list[str] = []
        self.has_happened = False

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._members.taker, name)
        if not callable(found):
            self._call(name)
            return getattr(self._members.taker, name)

        def call(*args, **kwargs):
            self._call(name)
            return found(*args, **kwargs)
        return call

    def _call(self, name: str) -> None:
        if self._event is not None and len(self.calls) == self._before_call:
            self.has_happened = True
            self._event.happens(self._members)
        self.calls.append(name)


def try_take_over(take_over: Any) -> str:
    """Raises Wrong at the first hand-over that goes wrong, NotYet where there are no shared pools."""
    if not callable(take_over):
        raise Wrong(f'check gets your function: check("08.5", take_over); got {take_over!r:.80}')
    try:
        segment.check_system()
    except NotImplementedError as error:
        raise NotYet(f"this exercise cannot be checked on this machine. {error}") from None
    with _members() as members:
        _in_time(take_over, members)
    with _members() as members:
        members.taker.retain([members.block])
        _in_time(take_over, members, "you hold the block already, with one reference")
    with _members(last_generation=True) as members:
        _in_time(take_over, members, "the generation came round to 0")
    tried = 0
    for event in (_HANDED_OUT, _RELEASED, _OURS_AGAIN):
        for before_call in range(_MOST_CALLS):
            with _members() as members:
                tried += 1
                if not _with_event(take_over, members, event, before_call):
                    break  # it makes fewer calls
    with _members(last_generation=True, go_on=True) as members:
        _with_event(take_over, members, _HANDED_OUT, 0)
    return f"3 hand-overs in time, and {tried} in which the block was gone before, between, or after your calls"


def _in_time(take_over: Callable, members: _Members, more: str = "") -> None:
    """The giver still holds it, and nothing happens meanwhile."""
    before = members.references()
    pool = _Watched(members, None, 0)
    situation = _situation(members, more and f"{more}. ", "the giver goes on to hold it, and nothing else happens")
    answer = _run(take_over, pool, members, situation, "True")
    got = members.references() - before
    if answer is not True:
        if got:
            raise counter_example(situation, f"returned {answer!r:.40}, and {_references(got)} more",
                                  "True: you have a reference to it now")
        raise counter_example(situation, f"returned {answer!r:.40}", "True, and one reference to it: it is still the "
                              "hand-out that you were told of")
    if got != 1:
        hint = ", and you would have to release it as often" if got > 1 else ""
        raise counter_example(situation, f"returned True, with {_references(got)} more", f"one reference more{hint}")
    _check_others(members, situation)


def _with_event(take_over: Callable, members: _Members, event: Event, before_call: int) -> bool:
    """Whether it has happened."""
    pool = _Watched(members, event, before_call)
    when = "before you look" if before_call == 0 else f"after your call {before_call}, and before the next"
    situation = _situation(members, "", f"{when}: {event.words}")
    answer = _run(take_over, pool, members, situation, "True or False: too late is an answer, no error")
    if not pool.has_happened:
        return False
    calls = ", ".join(pool.calls)
    same = members.taker.generation(members.block) == members.generation
    ours = members.references() - (event is _OURS_AGAIN and not same)
    situation += f"\n   your calls: {calls}; the block's generation is now {members.taker.generation(members.block)}"
    if answer is True and not same:
        looks = "a look is old as soon as it is over: let the retain itself compare" if before_call else \
            "the block alone does not say which hand-out is meant: the generation does"
        raise counter_example(situation, "returned True, for a block that was handed out again", f"False: {looks}")
    if answer is True and ours != 1:
        raise counter_example(situation, f"returned True, with {_references(ours)} more", "one reference for True")
    if answer is False and ours:
        raise counter_example(situation, f"returned False, and keeps {_references(ours)}",
                              "none: nobody will release it, as it seems that you have nothing")
    if answer is False and ours < 0:
        raise counter_example(situation, "returned False, and a reference that you had is gone", "it stays")
    if answer is not True and answer is not False:
        raise counter_example(situation, f"returned {answer!r:.40}", "True or False")
    _check_others(members, situation)
    return True


def _run(take_over: Callable, pool: _Watched, members: _Members, situation: str, expected: str) -> Any:
    try:
        return take_over(pool, members.block, members.generation)
    except (NotYet, Wrong):
        raise
    except Exception as error:
        raise counter_example(situation, f"raised {describe_error(error)}", expected) from None


def _check_others(members: _Members, situation: str) -> None:
    extra = [block for block in range(_NUM_BLOCKS) if block != members.block and
             members.taker.slot in members.taker.holders(block)]
    if extra:
        raise counter_example(situation, f"you also hold block {extra[0]} now", "nothing but the block handed over: "
                              "its bytes are what it is about, and another block has others")


def _situation(members: _Members, more: str, then: str) -> str:
    return (f"the giver, in slot {members.giver.slot}, holds block {members.block}, generation {members.generation}, "
            f"and tells you; you are in slot {members.taker.slot}\n   {more}{then}")


def _references(count: int) -> str:
    return "no reference" if count == 0 else "1 reference" if count == 1 else f"{count} references"


# ── the pool ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@contextmanager
def _members(last_generation: bool = False, go_on: bool = False) -> Iterator[_Members]:
    """Three members of a new pool. last_generation: the block that is handed over has
    generation 0, after the last one; with go_on it has the last one, so that 0 comes next."""
    name = pool_name(f"check-{next(_numbers)}")
    pools = [SharedPool.create(name, _NUM_BLOCKS, _BLOCK_BYTES)]
    try:
        pools += [SharedPool.join(name) for _ in range(2)]
        if last_generation:
            _turn_generations(pools[0], NUM_GENERATIONS - 2 if go_on else NUM_GENERATIONS - 1)
        yield _Members(*pools)
    finally:
        pools[0].unlink()
        with _nothing_to_say():
            for pool in pools:
                pool.close()


def _turn_generations(pool: SharedPool, generations: int) -> None:
    """Hand out and take back every block so often."""
    for _ in range(generations):
        pool.release(pool.allocate(_NUM_BLOCKS))


def _allocated_until(member: SharedPool, block: int) -> list[int]:
    """Let `member` take blocks until it has this one; the others that it took."""
    others = []
    while (taken := member.allocate(1)[0]) != block:
        others.append(taken)
    return others


@contextmanager
def _nothing_to_say():
    """Closing a pool says in the log what was still held, which is as it should be here."""
    log = logging.getLogger("pagedkv")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(level)
