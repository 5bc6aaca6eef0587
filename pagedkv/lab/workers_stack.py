"""A Java stack of free blocks, tried: under schedules picked one after the other, and under real threads.

    explored = explore(MyStack)             the programs TAKE_AND_GIVE_BACK; explore(MyStack, BLOCKS_COME_BACK)
    StepsView(explored.trace)               what broke it, step by step
    many_threads(MyStack)                   two real threads, at full speed

A *program* says how many blocks lie on the stack and what each of a few threads does with it. A *schedule* says which
thread takes the next step. The Java side, `pagedkv.interleaving`, explains both. What `explore` finds is the same on
every run; what `many_threads` finds is not. Both need a running JVM.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pagedkv.java import jclass
from pagedkv.lab.exercises.java_classes import is_java_class
from pagedkv.viz.words import count

Program = tuple[int, Sequence[str]]

TAKE_AND_GIVE_BACK: list[Program] = [
    (3, ["pop a, push a", "pop a, push a"]),
    (1, ["push 1", "push 2"]),
    (1, ["pop a, push a", "pop a, push a"]),
    (2, ["push 2", "pop a, pop b"]),
]
"""Two threads that use a block each; two that only push; two that want the last block; one that takes what the other
has just given."""

BLOCKS_COME_BACK: list[Program] = [
    (3, ["pop a", "pop a, pop b, push a"]),
    (2, ["pop a", "pop a, pop b, push a"]),
    (2, ["pop a, pop b", "pop a, push a"]),
]
"""While one thread is in the middle of a pop, another one takes the block on top, more of them, and brings it back."""

ALWAYS_LATE: list[Program] = [
    (3, ["pop a", "pop b, push b, pop c, push c, pop d, push d, pop e, push e"]),
    (3, ["push 3", "pop b, push b, pop c, push c, pop d, push d, pop e, push e"]),
]
"""A thread with one call, and another one that has enough of them to come before it again and again."""

MOST_SCHEDULES = 150  # for each program; a stack of a few lines breaks within some dozen


@dataclass(frozen=True)
class Explored:
    """What trying schedules has shown.

    stack      the name of the class
    schedules  how many were tried; the last one is the one that broke it
    program    in words: what each thread does, and what lies on the stack in the beginning
    finding    what is wrong then, and expected what is right; None if no schedule broke it
    trace      the steps, for `StepsView`; None if no schedule broke it
    story      the same steps, a line each; empty if no schedule broke it
    thrown     what the stack threw, if that is what is wrong
    """

    stack: str
    schedules: int
    program: str
    finding: str | None = None
    expected: str | None = None
    trace: dict | None = None
    story: str = ""
    thrown: Any = None

    @property
    def passed(self) -> bool:
        return self.finding is None

    def __repr__(self) -> str:
        if self.passed:
            return f"{self.stack}: none of {count(self.schedules, 'schedule')} breaks it"
        return f"{self.stack}: schedule {self.schedules:,} breaks it. {self.program}\n   {self.finding}"


def explore(stack: Any, programs: Sequence[Program] = TAKE_AND_GIVE_BACK,
            most_schedules: int = MOST_SCHEDULES) -> Explored:
    """Try schedules on this stack, program after program, until one breaks it.

    stack     a Java class that extends pagedkv.interleaving.SharedStack
    programs  (blocks on the stack, [what thread A does, what thread B does]), such as (3, ["pop a, push a", "pop b"])

    Raises TypeError for what is no such class, ValueError for a program that cannot be read.
    """
    explorer = jclass("pagedkv.interleaving.Explorer")
    return _explored(stack, explorer.explore(stack_class(stack), most_schedules, _programs(programs)))


def stop_everywhere(stack: Any, programs: Sequence[Program] = TAKE_AND_GIVE_BACK) -> Explored:
    """Stop each thread for good after each of its steps. The others have to come to an end: a lock does not pass."""
    explorer = jclass("pagedkv.interleaving.Explorer")
    return _explored(stack, explorer.stopEverywhere(stack_class(stack), _programs(programs)))


def disturb(stack: Any, programs: Sequence[Program] = ALWAYS_LATE) -> Explored:
    """Let thread B make a whole call before each compare-and-set of thread A, for as long as it has calls. A has to go on
    trying until it is through."""
    explorer = jclass("pagedkv.interleaving.Explorer")
    return _explored(stack, explorer.disturb(stack_class(stack), _programs(programs)))


@dataclass(frozen=True)
class ManyThreads:
    """What real threads have met. problem: what one of them met first, or None."""

    stack: str
    rounds: int
    num_blocks: int
    lost_blocks: int
    problem: str | None

    @property
    def passed(self) -> bool:
        return self.problem is None and not self.lost_blocks

    def __repr__(self) -> str:
        said = f"{self.stack}: {count(self.rounds, 'round')}, {self.lost_blocks} of {self.num_blocks} blocks lost"
        return f"{said}\n   {self.problem}" if self.problem else said


def many_threads(stack: Any, num_threads: int = 2, rounds: int = 200_000) -> ManyThreads:
    """Real threads, at full speed: in each round each pops two blocks and pushes them back in the same order, until
    all rounds are done or one thread meets something that cannot be.

    Raises TypeError for what is no stack class, ValueError for numbers out of range.
    """
    try:
        result = jclass("pagedkv.interleaving.ManyThreads").run(stack_class(stack), num_threads, rounds)
    except jclass("java.lang.IllegalArgumentException") as error:
        raise ValueError(str(error.getMessage())) from None
    return ManyThreads(_name(stack), int(result.rounds()), int(result.numBlocks()), int(result.lostBlocks()),
                       None if result.problem() is None else str(result.problem()))


def stack_class(stack: Any) -> Any:
    """The java.lang.Class of a stack class. Raises TypeError for anything else."""
    base = jclass("pagedkv.interleaving.SharedStack")
    if not is_java_class(stack) or not issubclass(stack, base):
        raise TypeError(f"a Java class that extends SharedStack is wanted, without (); got {stack!r}")
    return stack.class_


def _name(stack: Any) -> str:
    return str(stack.class_.getSimpleName())


def _programs(programs: Sequence[Program]) -> list:
    java = jclass("pagedkv.interleaving.Program")
    try:
        return [java.of(blocks, list(threads)) for blocks, threads in programs]
    except jclass("java.lang.IllegalArgumentException") as error:
        raise ValueError(str(error.getMessage())) from None


def _explored(stack: Any, result: Any) -> Explored:
    name, tried, program = _name(stack), int(result.schedules()), str(result.program())
    found = result.finding()
    if found is None:
        return Explored(name, tried, program)
    return Explored(name, tried, program, str(found.yours()), str(found.expected()), _plain(result.trace()),
                    str(result.story()), found.thrown())


def _plain(value: Any) -> Any:
    """Java maps, lists, strings and numbers as Python's."""
    if isinstance(value, jclass("java.util.Map")):
        return {str(key): _plain(inside) for key, inside in value.items()}
    if isinstance(value, jclass("java.util.List")):
        return [_plain(inside) for inside in value]
    if isinstance(value, jclass("java.lang.Number")):
        return int(value)
    return None if value is None else str(value)
