"""What exercise 08.4 tries an evictor on.

An *evictor* (`pagedkv.concurrent.Evictor`, in Java) makes requests give their blocks up. The pool calls its
`whenShort(victim)` with the pool's lock held; the thread of each request calls `betweenSteps(request)` with no lock
held. There are four trials:

    one eviction, step by step  `_one_eviction`: who is chosen gives up, nobody else does, and neither method waits for
                                somebody who waits for the pool's lock
    two victims                 `_two_victims`: both are chosen before one of them gets to its `betweenSteps`
    the known schedule          `pagedkv.concurrent.Deadlock`: a thread has its request's lock and waits for the pool's
    many threads                `pagedkv.concurrent.DeadlockTrial`: requests go on being done, and no block is lost

The first three make their threads reach the same places on every run; only the last one leaves it to chance.
"""

import time
from collections.abc import Callable
from typing import Any

from pagedkv.java import JvmError, implement, jclass
from pagedkv.lab.exercises.java_classes import is_java_class
from pagedkv.lab.grading import NotYet, Wrong, describe_error, is_java

PATIENCE_SECONDS = 4.0  # a right evictor is done in milliseconds
NUM_THREADS = 6
REQUESTS_PER_THREAD = 300
_ATTEMPTS = 3
_LOOK_EVERY_SECONDS = 0.005
_TO_END_MILLIS = 500

# What a right evictor may meet by chance: threads that ran one after the other, so that the pool was never short; or an
# evictor's own thread that had blocks in its hand when the others were done and the free ones were counted.
_BY_CHANCE = ("nobody was ever evicted", "blocks got lost", "should be free")


def try_evictor(answer: Any) -> str:
    """What the answer was tried on, if it is right. Raises Wrong, NotYet, or Java's NotYet.

    answer: a Java class that implements Evictor and can be made without arguments; an object of one will do.
    """
    _one_eviction(_new(answer))
    _two_victims(_new(answer))
    for _ in range(_ATTEMPTS):
        result = _under_load(_new(answer))
        if result.passed():
            return (f"a request that is chosen gives its blocks up, and no other one does; no deadlock on the schedule "
                    f"that is known for one; {NUM_THREADS} threads did all their {int(result.requests()):,} requests, "
                    "though there were never enough blocks, and none was lost")
        if not any(piece in str(result.problem()) for piece in _BY_CHANCE):
            break
    raise _verdict(result)


def _new(answer: Any) -> Any:
    wanted = 'check gets your Java class that implements Evictor, such as check("08.4", MyEvictor)'
    try:
        evictor = jclass("pagedkv.concurrent.Evictor")
    except JvmError:
        raise Wrong(f"{wanted}; got {answer!r}") from None
    if not is_java_class(answer):
        if isinstance(answer, evictor):
            return answer
        raise Wrong(f"{wanted}; got {answer!r}")
    if not issubclass(answer, evictor):
        raise Wrong(f"{wanted}; {answer.__name__} does not implement it")
    try:
        return answer()
    except Exception as error:
        if isinstance(error, TypeError) or is_java(error, "java.lang.InstantiationException"):
            raise Wrong(f"new {answer.__name__}() is not possible: the class has to be public, with both methods, and "
                        "its constructor too, without arguments; no constructor at all will do") from None
        if is_java(error, "pagedkv.exercise.NotYet") or not hasattr(error, "getStackTrace"):
            raise
        raise Wrong(f"new {answer.__name__}() threw {describe_error(error)}") from None


# ── one eviction, step by step ───────────────────────────────────────────────────────────────────────────────────────


def _one_eviction(evictor: Any) -> None:
    """Of three requests, the two younger ones are chosen, one after the other, while the pool's lock is held:

        "wants a block"                              "gives up"
        takes the pool's lock, takes a block
        the pool is short: whenShort(request 2)
                                                     betweenSteps(request 2): evicts it, waits for the pool's lock
        it is short still: whenShort(request 1)
        lets go of the pool's lock
                                                     gets it, gives the blocks back

    Two threads wait for each other here if both methods take a lock of the evictor's own, or if whenShort() waits until
    the blocks are back.
    """
    script = []  # what the pool's next call of whenShort() does
    pool, oldest, middle, youngest = _short_pool(script)

    _run(_Caller("one step", "betweenSteps", lambda: evictor.betweenSteps(oldest)))
    if oldest.numBlocks() != 2 or oldest.isMarked():
        raise Wrong(f"betweenSteps(request), before any request was chosen\n   yours:     now there is {oldest}\n"
                    "   expected:  nothing happens. whenShort(victim) says who has to give its blocks up")

    gives_up = _Caller("gives up", "betweenSteps", lambda: evictor.betweenSteps(youngest))
    wants = _Caller("wants a block", "whenShort", lambda: pool.grow(oldest))

    def with_the_pools_lock_held() -> None:
        if wants.tries(lambda: evictor.whenShort(youngest)):
            gives_up.thread.start()
            _soon(lambda: gives_up.waits() or not gives_up.runs(), PATIENCE_SECONDS / 2)
            wants.tries(lambda: evictor.whenShort(middle))

    script.append(with_the_pools_lock_held)
    _run(wants, gives_up)

    _run(_Caller("one step", "betweenSteps", lambda: evictor.betweenSteps(oldest)))
    if oldest.numBlocks() != 3:
        raise Wrong("requests 1 and 2 were chosen, and then came betweenSteps(the oldest request)\n"
                    f"   yours:     now there is {oldest}\n"
                    "   expected:  it keeps its 3 blocks. It is never chosen, so that always somebody gets done")
    _run(_Caller("one step", "betweenSteps", lambda: evictor.betweenSteps(middle)))
    for request in (youngest, middle):
        if not _soon(lambda request=request: request.numBlocks() == 0):
            raise Wrong(f"whenShort({request.name()}), and then betweenSteps({request.name()})\n"
                        f"   yours:     now there is {request}\n"
                        "   expected:  it has given up all its blocks, by evict()")


def _two_victims(evictor: Any) -> None:
    """The pool is short, and is so again before the first victim gets to its next step. An evictor that knows of one
    victim only forgets one of them here."""
    script = []
    pool, oldest, middle, youngest = _short_pool(script)
    wants = _Caller("wants a block", "whenShort", lambda: pool.grow(oldest))

    def with_the_pools_lock_held() -> None:
        if wants.tries(lambda: evictor.whenShort(youngest)):
            wants.tries(lambda: evictor.whenShort(middle))

    script.append(with_the_pools_lock_held)
    _run(wants)
    for request in (youngest, middle):
        _run(_Caller("one step", "betweenSteps", lambda request=request: evictor.betweenSteps(request)))
    for request in (youngest, middle):
        if not _soon(lambda request=request: request.numBlocks() == 0):
            raise Wrong("whenShort(request 2), then whenShort(request 1), and only then betweenSteps() of both\n"
                        f"   yours:     now there is {request}\n"
                        "   expected:  both have given up all their blocks. The pool may choose a second victim before "
                        "the first one gets to its next step")


def _short_pool(script: list) -> tuple[Any, Any, Any, Any]:
    """A pool that is short all the time, and three requests with two blocks each, the oldest first. script: what its
    next calls of whenShort() do, the last one first; when there is nothing left, they do nothing."""
    pool = jclass("pagedkv.concurrent.EvictingPool")(8, 8, implement(
        "pagedkv.concurrent.Evictor", whenShort=lambda victim: script.pop()() if script else None,
        betweenSteps=lambda request: None))  # of 8 blocks, 8 should be free
    requests = [pool.begin(name) for name in ("the oldest request", "request 1", "request 2")]
    for request in requests * 2:
        pool.grow(request)
    return pool, *requests


class _Caller:
    """A Java thread that calls one method of the evictor, and can be ended.

    Not a thread of Python's: the JVM keeps those in its list when they have ended, and takes them for the owners of
    monitors whose owners have got the same piece of memory for their stack.

    method: its name, for messages; error: what it raised, or None.
    """

    def __init__(self, name: str, method: str, call: Callable[[], Any]):
        self.method, self.error = method, None
        self.thread = jclass("java.lang.Thread")(implement("java.lang.Runnable", run=lambda: self.tries(call) and None),
                                                 name)
        self.thread.setDaemon(True)

    def tries(self, call: Callable[[], Any]) -> bool:
        """Whether the call went well; if not, that is this thread's error."""
        try:
            call()
        except BaseException as error:
            self.error = self.error or error
        return self.error is None

    def runs(self) -> bool:
        return self.thread.isAlive()

    def waits(self) -> bool:
        """For a lock, a signal, or another thread."""
        return str(self.thread.getState()) in ("BLOCKED", "WAITING", "TIMED_WAITING")


def _run(first: _Caller, *others: _Caller) -> None:
    """Starts the first one, which starts the others. Raises what they raised, or Wrong if they do not all end."""
    callers = (first, *others)
    report = None

    def is_over() -> bool:
        nonlocal report
        running = [caller.thread for caller in callers if caller.runs()]
        report = jclass("pagedkv.concurrent.DeadlockReport").of(jclass("java.util.Arrays").asList(*running))
        return not running or report is not None or any(caller.error for caller in callers)

    first.thread.start()
    _soon(is_over)
    failed = next((caller for caller in callers if caller.error), None)
    stuck = [caller for caller in callers if caller.runs()]
    _end([caller.thread for caller in stuck])
    if failed:
        if is_java(failed.error, "pagedkv.exercise.NotYet") or not hasattr(failed.error, "getStackTrace"):
            raise failed.error
        raise Wrong(f"{failed.method}() threw {describe_error(failed.error)}")
    if report is not None:
        raise Wrong("one thread has the pool's lock and calls whenShort(), while another one is in betweenSteps() and "
                    f"gives blocks back: they wait for each other. The JVM says:\n{_readable(report)}")
    if stuck:
        raise Wrong(f"{stuck[0].method}() had not returned after {PATIENCE_SECONDS:g} seconds" + (
            ". The pool calls it with its lock held: whoever has a block to give back has to wait for that lock"
            if stuck[0].method == "whenShort" else ", though nobody held the pool's lock"))


def _soon(what: Callable[[], Any], seconds: float | None = None) -> bool:
    """Whether it comes true in time."""
    give_up = time.monotonic() + (PATIENCE_SECONDS if seconds is None else seconds)
    while not what():
        if time.monotonic() > give_up:
            return False
        time.sleep(_LOOK_EVERY_SECONDS)
    return True


def _end(java_threads: list[Any]) -> None:
    """Ends them: those that wait by an interrupt, those that do not hear of it by Thread.stop(), where there is one."""
    for thread in java_threads:
        thread.interrupt()
    _soon(lambda: not any(thread.isAlive() for thread in java_threads), _TO_END_MILLIS / 1e3)
    for thread in java_threads:
        if thread.isAlive():
            jclass("pagedkv.notebook.CellRun").stop(thread, _TO_END_MILLIS)


# ── the known schedule, and many threads ─────────────────────────────────────────────────────────────────────────────


def _under_load(evictor: Any) -> Any:
    """The trial's result. Its threads end with it, also those that swallow an interrupt."""
    before = {int(thread.getId()) for thread in _trial_threads()}
    try:
        return jclass("pagedkv.concurrent.DeadlockTrial").run(evictor, NUM_THREADS, REQUESTS_PER_THREAD)
    finally:
        _end([thread for thread in _trial_threads() if int(thread.getId()) not in before])


def _trial_threads() -> list[Any]:
    return [thread for thread in jclass("java.lang.Thread").getAllStackTraces().keySet()
            if str(thread.getName()).startswith(("A grows", "B ends", "request thread "))]


def _verdict(result: Any) -> Exception:
    """What to raise for a trial that was not passed."""
    problem = str(result.problem())
    if "pagedkv.exercise.NotYet" in problem:
        return NotYet('a part of your evictor still has its placeholder. hint("08.4") gives a first nudge.')
    if result.report() is not None:
        return Wrong(f"{problem}. The JVM says:\n{_readable(result.report())}")
    if "nothing has moved" in problem:
        return Wrong(f"{problem}\n   yours:     {int(result.finishedRequests()):,} of {int(result.requests()):,} "
                     f"requests were done; blocks were given out {int(result.grownBlocks()):,} times\n"
                     "   expected:  all get done. The JVM sees who waits for a lock. It does not see who waits for a "
                     "signal, a permit or a thread, nor who loses its blocks again and again")
    return Wrong(problem)


def _readable(report: Any) -> str:
    """Without the frames by which Java calls Python."""
    return "\n".join(f"   {line}" for line in str(report).splitlines() if "JPypeProxy" not in line)
