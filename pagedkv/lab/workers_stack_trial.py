"""Exercises 08.1 to 08.3: a Java stack of free blocks that several threads use at once.

Each is tried under schedules that are picked one after the other, so that every counter-example is the same on every
run, with each of its steps; at the end by real threads, too. Two more questions are asked where no lock is allowed: does
everybody else come to an end when one thread is stopped for good, and does the head ever come back to an old value?
"""

from collections.abc import Sequence
from typing import Any

from pagedkv.java import jclass
from pagedkv.lab.exercises.java_classes import is_java_class
from pagedkv.lab.grading import Wrong
from pagedkv.lab.workers_stack import (BLOCKS_COME_BACK, TAKE_AND_GIVE_BACK, Explored, Program, disturb, explore,
                                       many_threads, stack_class, stop_everywhere)
from pagedkv.viz.words import count

_REAL_THREADS, _REAL_ROUNDS = 3, 30_000
_TAG_ROUNDS = 30_000  # two changes each: a tag of 16 bits has enough values
_MOST_LINES = 40


def try_stack_with_lock(stack: Any) -> str:
    """08.1: right under every schedule; how is not asked."""
    return _tried([_all_schedules(stack, TAKE_AND_GIVE_BACK), _real_threads(stack)])


def try_stack_without_lock(stack: Any) -> str:
    """08.2: the same, and nobody waits for a thread that is stopped. A block that comes back is the next exercise."""
    return _tried([_no_plain_field(stack), _nobody_waits(stack), _all_schedules(stack, TAKE_AND_GIVE_BACK),
                   _goes_on_trying(stack)])


def try_tagged_stack(stack: Any) -> str:
    """08.3: the same where blocks come back, too."""
    return _tried([_no_plain_field(stack), _nobody_waits(stack), _all_schedules(stack, TAKE_AND_GIVE_BACK),
                   _goes_on_trying(stack), _all_schedules(stack, BLOCKS_COME_BACK, "blocks that come back"), _no_head_comes_back(stack),
                   _real_threads(stack)])


def _tried(said: Sequence[str]) -> str:
    return "tried: " + "; ".join(filter(None, said))


def _all_schedules(stack: Any, programs: Sequence[Program], what: str = "") -> str:
    explored = explore(_checked(stack), programs)
    if not explored.passed:
        raise _broken(explored, f"{explored.program}. Schedule {explored.schedules:,}")
    return f"{count(explored.schedules, 'schedule')}{' with ' * bool(what)}{what}"


def _nobody_waits(stack: Any) -> str:
    explored = stop_everywhere(_checked(stack))
    if not explored.passed:
        raise _broken(explored, f"{explored.program}. One thread is stopped in the middle of a call, for good, as a "
                                "thread that the system does not let run")
    return f"one thread stopped at each of {explored.schedules} places"


def _no_head_comes_back(stack: Any) -> str:
    found = jclass("pagedkv.interleaving.HeadsThatComeBack").lookFor(stack_class(stack), _TAG_ROUNDS)
    rounds = int(found.rounds())
    if rounds:
        raise Wrong(f"two blocks on the stack; one thread pops the top one and pushes it back, over and over. After "
                    f"{count(rounds, 'round')} the head is {_head(int(found.head()))}, as it was before. A thread that "
                    "slept in the meantime takes that for \"nothing has changed\"\n   expected:  a new value after each "
                    f"round, {_TAG_ROUNDS:,} times at least: a tag of 16 bits or more, and there is room for 32")
    return f"{_TAG_ROUNDS:,} heads, none twice"


def _no_plain_field(stack: Any) -> str:
    """Each access to such a field is a step, too, but none that the schedules are made of."""
    modifiers = jclass("java.lang.reflect.Modifier")
    for field in _checked(stack).class_.getDeclaredFields():
        if field.getType().isPrimitive() and not modifiers.isFinal(field.getModifiers()):
            raise Wrong(f"your field {field.getName()} is shared by all threads, and no step guards it: two threads read the "
                        "same value, or one that has slept writes an old one. What has to change together with the head "
                        "has to be in the head: a compare-and-set compares all 64 bits at once")
    return ""


def _goes_on_trying(stack: Any) -> str:
    explored = disturb(_checked(stack))
    if not explored.passed:
        raise _broken(explored, f"{explored.program}. B makes a whole call before each compare-and-set of A")
    return "one thread that is too late again and again"


def _real_threads(stack: Any) -> str:
    result = many_threads(stack, _REAL_THREADS, _REAL_ROUNDS)
    if not result.passed:
        raise Wrong(f"every schedule that was tried went well, but {_REAL_THREADS} real threads broke it, each popping "
                    f"two blocks and pushing them back: {result}")
    return f"{result.rounds:,} rounds of {_REAL_THREADS} real threads"


def _broken(explored: Explored, situation: str) -> Wrong:
    if explored.thrown is not None and str(explored.thrown.getClass().getName()) == "pagedkv.exercise.NotYet":
        raise explored.thrown
    lines = explored.story.splitlines()
    if len(lines) > _MOST_LINES:
        lines = [*lines[:_MOST_LINES], f"… and {len(lines) - _MOST_LINES} more steps"]
    steps = "\n".join(f"      {line}" for line in lines)
    return Wrong(f"{situation}:\n{steps}\n   yours:     {explored.finding}\n   expected:  {explored.expected}",
                 _picture(explored))


def _picture(explored: Explored) -> tuple[bytes, str]:
    from pagedkv.viz import StepsView
    picture = StepsView(explored.trace).still()
    return picture.png(), picture.alt


def _head(head: int) -> str:
    return f"0x{head & 0xFFFF_FFFF_FFFF_FFFF:016x}"


def _checked(stack: Any) -> Any:
    try:
        stack_class(stack)
    except TypeError as error:
        hint = ""
        if not is_java_class(stack) and hasattr(stack, "getClass"):
            hint = ". An object of it was given: give the class"
        raise Wrong(f"{error}{hint}") from None
    return stack
