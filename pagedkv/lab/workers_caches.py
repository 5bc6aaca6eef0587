"""Where the blocks of a real pool are after each call of a few threads: held, in a thread's cache, or on the stack.

The pool is Java's `CachedLockFreePool`. Its callers are real threads, each with its own cache, but they take turns: the
next call begins when the one before has returned and somebody has looked. So the story is the same on every run.

A *hit* is a block that came from the caller's own cache, a *miss* one that did not. It came from the stack, or, when
that was too short, out of another thread's cache: then it was *hunted*.
"""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

from pagedkv.core.arguments import as_count
from pagedkv.core.errors import OutOfBlocks
from pagedkv.java.pool import JavaPool, carried_over
from pagedkv.viz.words import count

STACK = "global stack"

# Two threads in front of 12 blocks; the last call wants what the other thread has put aside.
CACHE_CALLS = [
    ("T1", "allocate", 1), ("T1", "allocate", 2), ("T2", "allocate", 1), ("T1", "release", 2), ("T1", "allocate", 1),
    ("T2", "allocate", 5), ("T2", "release", 6), ("T2", "allocate", 2), ("T2", "release", 2), ("T1", "allocate", 9),
]


def cache_trace(calls: Iterable[tuple[str, str, int]] = CACHE_CALLS, num_blocks: int = 12, cache_blocks: int = 4,
                title: str = "") -> dict:
    """The trace of these calls, for `StepsView`; its form is said in pagedkv/viz/steps_tape.py. Needs a running JVM.

    calls         (thread, "allocate" or "release", number of blocks), in order. A thread has any name; it gives back
                  the blocks that it has held longest, one by one. A refused allocate is a step too, with a mark
    num_blocks    of the pool
    cache_blocks  how many free blocks a thread keeps at most: 0 to 64

    Besides a trace's own keys there are "hits", "misses" and "hunted", blocks of all calls together; the hunted ones
    are among the misses, and a refused call counts nowhere. Raises ValueError for another operation, for less than one
    block, for a release of more blocks than the thread holds, and for sizes that Java refuses.
    """
    calls = _checked(calls)
    names = list(dict.fromkeys(thread for thread, _, _ in calls))
    pool = carried_over(JavaPool.of, "pagedkv.concurrent.CachedLockFreePool", num_blocks, as_count(cache_blocks))
    story = _Story(pool, names)
    try:
        for name, operation, number in calls:
            story.carry_out(name, operation, number)
    finally:
        story.end()
    places = [{"name": STACK, "kind": "set"}]
    for name in names:
        places += [{"name": _cache(name), "kind": "stack", "actor": name},
                   {"name": _hand(name), "kind": "set", "actor": name}]
    return {"version": 1, "title": title or f"A cache of at most {count(cache_blocks, 'block')} for each thread",
            "source": story.pool.source, "actors": names, "places": places, "steps": story.steps, "result": "",
            "hits": story.hits, "misses": story.misses, "hunted": story.hunted}


class _Worker:
    """A thread with its name. What it holds, the longest first; what its cache lists, the next one first; its hits and
    misses so far."""

    def __init__(self, name: str, pool: JavaPool):
        self._pool = pool
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=f"worker {name}")
        self.held: list[int] = []
        self.listed: list[int] = []
        self.hits = self.misses = 0

    def run(self, call, *arguments):
        """Carry a call out on the worker's own thread, and wait for it."""
        return self._thread.submit(call, *arguments).result()

    def look(self) -> None:
        """Only a thread itself can see its own cache."""
        def inside():
            java = self._pool.java
            stats = java.cacheStatsOfThisThread()
            return [int(block) for block in java.cachedByThisThread()], int(stats.hits()), int(stats.misses())

        self.listed, self.hits, self.misses = self.run(inside)

    def end(self) -> None:
        self._thread.shutdown()


class _Story:
    """steps   as in a trace
    where   block → the place it is in
    hits, misses, hunted   blocks of all calls so far
    """

    def __init__(self, pool: JavaPool, names: list[str]):
        self.pool = pool
        self.workers = {name: _Worker(name, pool) for name in names}
        self.hits = self.misses = self.hunted = 0
        self.where: dict[int, str] = dict.fromkeys(range(pool.num_blocks), STACK)
        self.steps: list[dict] = []
        self._add_step(None, f"start: {count(pool.num_blocks, 'free block')}, all on the stack")

    def carry_out(self, name: str, operation: str, number: int) -> None:
        if operation == "allocate":
            self._allocate(name, number)
        else:
            self._release(name, number)

    def end(self) -> None:
        for worker in self.workers.values():
            worker.end()

    def _allocate(self, name: str, number: int) -> None:
        worker = self.workers[name]
        try:
            blocks = worker.run(self.pool.allocate, number)
        except OutOfBlocks as refusal:
            self._add_step(name, f"allocate({number}): {str(refusal).split(':')[0]}", "refused")
            return
        hits, misses = worker.hits, worker.misses
        worker.held += blocks
        worker.look()
        hits, misses = worker.hits - hits, worker.misses - misses
        self.hits, self.misses = self.hits + hits, self.misses + misses
        self.hunted += sum(self.where[block] not in (STACK, _cache(name)) for block in blocks)
        told = [count(hits, "hit")] if hits else []
        if misses:
            told.append("1 miss" if misses == 1 else f"{misses:,} misses")
        self._add_step(name, f"allocate({number}) gives {_ids(blocks)}: {', '.join(told)}")

    def _release(self, name: str, number: int) -> None:
        worker = self.workers[name]
        blocks, worker.held = worker.held[:number], worker.held[number:]
        if len(blocks) < number:
            worker.held = blocks
            raise ValueError(f"{name} holds {count(len(blocks), 'block')} and cannot give back {number}")
        for block in blocks:
            worker.run(self.pool.release, [block])
        self._add_step(name, f"gives back {_ids(blocks)}")

    def _add_step(self, actor: str | None, text: str, mark: str | None = None) -> None:
        before, places = self.where, self._places(actor)
        self.where = {block: place for place, blocks in places.items() for block in blocks}
        if sorted(self.where) != list(range(self.pool.num_blocks)) or sum(map(len, places.values())) > len(self.where):
            raise AssertionError(f"each block is in one place, but these places do not have each once: {places}")
        notes = {name: f"{worker.hits} of {worker.hits + worker.misses} from its own cache"
                 for name, worker in self.workers.items()}
        self.steps.append({"actor": actor, "call": None, "text": text + self._besides(actor, before, places),
                           "blocks": places, "notes": notes, "mark": mark})

    def _places(self, actor: str | None) -> dict[str, list[int]]:
        """Place → its blocks. The pool tells what is held and what is cached; the rest is on the stack.

        What a cache lists may be out of date: a block that another thread took, and put into its own cache later,
        stands in both lists. It is in the cache where it was put last: where it was before the call, or else the
        caller's.
        """
        refcounts = self.pool.refcounts()
        cached = [block for block in self.where if self.pool.java.isCached(block)]
        caches = {_cache(name) for name in self.workers}
        put = {block: self.where[block] if self.where[block] in caches else _cache(actor) for block in cached}
        places = {STACK: [block for block in range(self.pool.num_blocks) if not refcounts[block] and block not in put]}
        for name, worker in self.workers.items():
            worker.look()
            places[_cache(name)] = [block for block in worker.listed if put[block] == _cache(name)]
            places[_hand(name)] = sorted(worker.held)
        return places

    def _besides(self, actor: str | None, before: dict[int, str], after: dict[str, list[int]]) -> str:
        """What else the call did, as caches and stack show it."""
        if actor is None:
            return ""
        parts = []
        if filled := [block for block in after[_cache(actor)] if before[block] == STACK]:
            parts.append(f"{_ids(filled)} from the stack into its cache")
        for source in after:
            if source not in (STACK, _cache(actor), _hand(actor)):
                if hunted := [block for block in after[_hand(actor)] if before[block] == source]:
                    parts.append(f"{_ids(hunted)} out of the {source}")
        if pushed := [block for block in after[STACK] if before[block] != STACK]:
            parts.append(f"{_ids(pushed)} to the stack")
        return "".join(f"; {part}" for part in parts)


def _checked(calls: Iterable[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
    checked = [(str(thread), operation, as_count(number)) for thread, operation, number in calls]
    for thread, operation, number in checked:
        if operation not in ("allocate", "release"):
            raise ValueError(f"a call is an allocate or a release, not {operation!r}: see the calls of {thread}")
        if number < 1:
            raise ValueError(f"{operation}({number}) of {thread} would show nothing: give at least 1")
    return checked


def _cache(name: str) -> str:
    return f"cache of {name}"


def _hand(name: str) -> str:
    return f"{name} holds"


def _ids(blocks: list[int]) -> str:
    return ", ".join(map(str, blocks))
