"""The exercises of notebook 01, reference counts."""

import random
from collections import Counter
from collections.abc import Iterable

from pagedkv.core.errors import PoolError
from pagedkv.core.events import Recording, record
from pagedkv.core.pool import BlockPool
from pagedkv.core.replay import Replay
from pagedkv.java import JavaPool, jclass
from pagedkv.lab.exercises.java_classes import is_java_class, static_method
from pagedkv.lab.grading import Exercise, NotYet, Wrong, describe_error, is_java
from pagedkv.lab.pool_trial import allocate, release, retain, try_random_calls, try_scenarios

# ── 01.1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def handled_and_released(handler) -> str:
    """The handler does the work once, gives up its own reference exactly once on every way out, and hides nothing."""
    work, buffers = jclass("pagedkv.exercise.Work"), jclass("io.netty.buffer.Unpooled")
    handle = static_method(handler, "handle")
    cases = {"work that only reads": (work.reads(), 0), "work that throws": (work.fails(), 0),
             "work that throws an Error": (work.failsBadly(), 0),
             "work that keeps the buffer with retain()": (work.keeps(), 1),
             "work that keeps the buffer and then throws": (work.keepsAndFails(), 1),
             "a buffer that somebody else holds too": (work.reads(), 1)}
    for name, (todo, expected) in cases.items():
        buffer = buffers.buffer(16)
        if name.startswith("a buffer"):
            buffer.retain()
        raised = _raised_by(lambda: handle(buffer, todo))
        if raised is not None and (not hasattr(raised, "getStackTrace") or not raised.equals(todo.failure())):
            if is_java(raised, "pagedkv.exercise.NotYet"):
                raise raised
            if isinstance(raised, TypeError):
                raise Wrong("handle() cannot be called: it has to be public static void handle(ByteBuf, Consumer<ByteBuf>)")
            raise Wrong(f"{name}: handle() threw {describe_error(raised)}")
        if int(todo.calls()) != 1:
            raise Wrong(f"{name}: handle() did the work {todo.calls()} times; expected once")
        if int(buffer.refCnt()) != expected:
            raise Wrong(f"{name}:\n   yours:     refCnt {buffer.refCnt()} after handle()\n"
                        f"   expected:  refCnt {expected}: handle() owns one reference, and gives up that one")
        if raised is None and todo.failure() is not None:
            raise Wrong(f"{name}: the exception was swallowed; whoever called handle() has to hear of it")
    return f"{len(cases)} cases on real Netty: {', '.join(cases)}"


# ── 01.2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def broken_twice(break_it) -> str:
    """Two owners hold the same block of the article's pool, by allocate, retain and release alone."""
    pool = JavaPool.of("pagedkv.article.RefCountedBlockPool", 8)
    with record(pool) as recording:
        break_it(pool)
    if not recording.events:
        raise Wrong("break_it(pool) called neither allocate, retain nor release of the pool that it was given")
    state = Replay(recording).end()
    replay = Replay(recording)
    taken_twice = [fault for fault in state.faults if "was given to" in fault.message]
    two_owners = [fault for fault in taken_twice
                  if len(set(replay.at(fault.step + 1).owners(fault.block)) - {None}) > 1]
    if taken_twice and not two_owners:
        raise Wrong(f"at step {taken_twice[0].step}, {taken_twice[0].message}. That is the pool's fault, and you found "
                    "it; now let it be two different owners: owner=\"A\", owner=\"B\"")
    if not two_owners:
        found = "; ".join(fault.message for fault in state.faults) or "every call was one that a correct pool allows"
        raise Wrong("no block was given out while somebody held it. Your calls:\n"
                    + "\n".join(f"   {event}" for event in recording.events) + f"\n   found: {found}")
    first = two_owners[0]
    return f"in {len(recording)} calls: at step {first.step}, {first.message}"


# ── 01.3 and 01.4 ────────────────────────────────────────────────────────────────────────────────────────────────────

SCENARIOS = {
    "take and give back": [allocate(3, "a b c"), release("a c"), allocate(2), release("b")],
    "give back twice": [allocate(2, "a b"), release("a"), release("a"), allocate(1)],
    "share, then both give back": [allocate(2, "a b"), retain("a"), release("a"), allocate(1, "c"), release("a c b")],
    "retain a block that is free": [allocate(2, "a b"), release("a"), retain("a"), retain("b a")],
    "twice in one release": [allocate(2, "a b"), release("a a"), retain("a"), release("a a"), release("b")],
    "one bad block among good ones": [allocate(3, "a b c"), release("b"), release("a b c"), release("c a")],
    "more than there is": [allocate(6, "a b c d e f"), allocate(3), allocate(2), allocate(1), allocate(0)],
    "retain the same block twice": [allocate(1, "a"), retain("a a"), release("a"), release("a a"), release("a")],
}


def safe_pool_in_java(pool_class) -> str:
    """A Java pool that no sequence of calls can corrupt."""
    pool = jclass("pagedkv.pool.Pool")
    if not is_java_class(pool_class) or not issubclass(pool_class, pool):
        raise Wrong(f"check gets your Java class, such as check(\"01.3\", SafePool); got {pool_class!r}")
    return _pool_of(lambda num_blocks: JavaPool.of(pool_class, num_blocks))


def pool_in_python(pool_class) -> str:
    """A Python pool with the same promise."""
    if not isinstance(pool_class, type):
        raise Wrong(f"check gets your class, such as check(\"01.4\", MyPool); got {pool_class!r}")
    pool = pool_class(8)
    for name in ("num_blocks", "num_free_blocks"):
        if not hasattr(pool, name):
            raise Wrong(f"your pool has no {name}")
        if callable(getattr(pool, name)):
            raise Wrong(f"{name} is a method of your pool: make it a property, with @property above it")
    return _pool_of(pool_class)


def _pool_of(make_pool) -> str:
    try_scenarios(make_pool, SCENARIOS)
    try_random_calls(make_pool)
    return f"{len(SCENARIOS)} named cases and 2,000 random calls agree with the model"


# ── 01.5 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class ChecksEachBlockFirst:
    """A release with the weakness that a real engine had (vllm#42571): every block is looked at before the first count
    is lowered, so that the call is all or nothing, and the same block twice in one call gets through."""

    def __init__(self, num_blocks: int):
        self.num_blocks = num_blocks
        self.free = list(range(num_blocks))
        self.counts = [0] * num_blocks

    @property
    def num_free_blocks(self) -> int:
        return len(self.free)

    def refcount(self, block: int) -> int:
        return self.counts[block]

    def allocate(self, n: int) -> list[int]:
        blocks, self.free = self.free[:n], self.free[n:]
        for block in blocks:
            self.counts[block] = 1
        return blocks

    def retain(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self.counts[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        if any(self.counts[block] == 0 for block in blocks):
            raise ValueError("a block of this call is free already")
        for block in blocks:
            self.counts[block] -= 1
            if self.counts[block] <= 0:
                self.free.append(block)


def fooling_call(blocks) -> str:
    """One release call, of a pool in which A holds blocks 0, 1, 2 and B shares block 0, that corrupts the pool."""
    try:
        blocks = [int(block) for block in blocks]
    except (TypeError, ValueError):
        raise Wrong(f"the answer is a list of blocks, such as [1, 2]; got {blocks!r}") from None
    for block in blocks:
        if block not in range(8):
            raise Wrong(f"there is no block {block}: they go from 0 to 7")
    pool = ChecksEachBlockFirst(8)
    pool.retain(pool.allocate(3)[:1])
    try:
        pool.release(blocks)
    except ValueError as error:
        raise Wrong(f"release({blocks}) is refused: {error}. Nothing is corrupted") from None
    twice = [block for block, times in Counter(pool.free).items() if times > 1]
    if not twice and min(pool.counts) >= 0:
        raise Wrong(f"release({blocks}) goes through and is right: refcounts {pool.counts[:3]}, free {pool.free}")
    listed = f", and block {twice[0]} is on the free list twice" if twice else ""
    return f"after release({blocks}) the refcounts are {pool.counts[:3]}{listed}: {len(pool.free)} blocks free"


# ── 01.6 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def leaks_found(find_leaks) -> str:
    """From events alone: every owner that is gone and still holds blocks, and which."""
    for name, recording, live in _recordings():
        expected = _leaks(recording, live)
        answer = find_leaks(list(recording.events), set(live))
        if answer is None:
            raise NotYet("find_leaks() returns nothing yet")
        try:
            got = {str(owner): sorted({int(block) for block in blocks}) for owner, blocks in dict(answer).items() if blocks}
        except (TypeError, ValueError):
            raise Wrong(f"find_leaks() returns a dict, owner → blocks; got {answer!r}") from None
        if got != expected:
            story = "\n".join(f"   {event}" for event in recording.events)
            raise Wrong(f"{name}, live owners {sorted(live) or 'none'}:\n{story}\n   yours:     {got}\n"
                        f"   expected:  {expected}")
    return "7 named recordings and 20 random ones"


def _recordings() -> Iterable[tuple[str, Recording, set[str]]]:
    def recorded(calls) -> Recording:
        pool = BlockPool(8)
        with record(pool) as recording:
            calls(pool)
        return recording

    def forgets(pool):
        pool.allocate(2, owner="A")
        pool.release(pool.allocate(2, owner="B"), owner="B")

    def shares(pool):
        prompt = pool.allocate(2, owner="A")
        pool.retain(prompt, owner="B")
        pool.release(prompt, owner="A")

    def refused(call):
        try:
            call()
        except PoolError:
            pass

    def refused_allocation(pool):
        pool.allocate(2, owner="A")
        refused(lambda: pool.allocate(7, owner="B"))

    def refused_retain(pool):
        pool.allocate(1, owner="A")
        refused(lambda: pool.retain([5], owner="B"))

    def refused_release(pool):
        block = pool.allocate(1, owner="A")
        refused(lambda: pool.release(block * 2, owner="A"))

    def twice(pool):
        block = pool.allocate(1, owner="A")
        pool.retain(block, owner="A")
        pool.release(block, owner="A")

    yield "A never releases", recorded(forgets), set()
    yield "B shares A's blocks and keeps them", recorded(shares), {"A"}
    yield "a refused allocation gives nobody anything", recorded(refused_allocation), {"A"}
    yield "a refused retain gives nobody anything", recorded(refused_retain), {"A"}
    yield "a refused release takes nothing away", recorded(refused_release), set()
    yield "A holds a block twice and releases it once", recorded(twice), set()
    yield "A holds a block twice", recorded(lambda pool: pool.retain(pool.allocate(1, owner="A"), owner="A")), set()
    for length in range(2, 42, 2):  # the shortest first, so that a counter-example can be read
        recording = recorded(lambda pool: _random_calls(pool, length, random.Random(length)))
        yield f"a random recording of {len(recording)} events", recording, set("ACE"[:length // 2 % 4])


def _random_calls(pool: BlockPool, calls: int, rng: random.Random) -> None:
    held: list[tuple[str, int]] = []
    for _ in range(calls):
        owner, op = rng.choice("ABCDE"), rng.choice(["allocate", "retain", "release"])
        if op == "allocate" and pool.num_free_blocks:
            held += [(owner, block) for block in pool.allocate(rng.randint(1, pool.num_free_blocks), owner=owner)]
        elif op == "retain" and held:
            block = rng.choice(held)[1]
            pool.retain([block], owner=owner)
            held.append((owner, block))
        elif op == "release" and held:
            owner, block = held.pop(rng.randrange(len(held)))
            pool.release([block], owner=owner)


def _leaks(recording: Recording, live: set[str]) -> dict[str, list[int]]:
    leaks: dict[str, list[int]] = {}
    for block, references in Replay(recording).end().references.items():
        for owner in {reference.owner for reference in references} - live:
            leaks.setdefault(owner, []).append(block)
    return {owner: sorted(blocks) for owner, blocks in leaks.items()}


# ── helpers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _raised_by(call):
    try:
        call()
    except Exception as error:
        return error
    return None


EXERCISES = (
    Exercise("01.1", "Release on every way out", 5, (
        "What does handle() own? One reference: the one that its caller handed over.",
        "Where do you put a call that has to run whether or not an exception is thrown?",
        "try { work.accept(buffer); } finally { … } – and release once, not until the count is 0."),
        handled_and_released),
    Exercise("01.2", "Break the article's pool", 5, (
        "Which of the two calls, retain or release, does the pool carry out although the block is free?",
        "It is retain. Does the block leave the free list when somebody retains it?",
        'Take a block for "A", release it, retain it for "A" although it is free, then allocate one for "B".'), broken_twice),
    Exercise("01.3", "A pool that cannot be corrupted, in Java", 12, (
        "Look before you change anything: a call that is refused must leave every count as it was.",
        "The same block may stand in the array several times. How often does the call want to release it?",
        "First loop: count how often each block occurs, and throw if that is more than its refcount. Second loop: lower "
        "the counts, and push a block whose count has become 0."), safe_pool_in_java),
    Exercise("01.4", "The same pool, in Python", 6, (
        "It is the Java pool once more: a list of counts and a list of free blocks.",
        "collections.Counter(blocks) says how often each block stands in the call.",
        "allocate: refuse if n > len(self._free), else take n from the end and set their counts to 1. retain: refuse if "
        "any count is 0. release: refuse if any block occurs more often than its count. Only then change."),
        pool_in_python),
    Exercise("01.5", "Fool a release that looks first", 2, (
        "The check looks at each block by itself.",
        "What if the same block stands in the call twice, and has refcount 1?"), fooling_call),
    Exercise("01.6", "Who leaked?", 12, (
        "Walk through the events and keep, for each block, how many references each owner has.",
        "allocate and retain add a reference for event.owner, release takes one away. event.refused calls changed nothing.",
        "At the end report, for each owner that is not in live_owners, the blocks of which it still has a reference."),
        leaks_found),
)
