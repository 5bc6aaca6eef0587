"""Notebook 01: every right answer is accepted, whatever its form; every wrong one gets the message it deserves.

ACCEPTED: exercise → answers of different kinds. REJECTED: exercise → (answer, a piece of the message it must get).
Untouched placeholders, for all exercises, are in test_commands.py.
"""

from collections import Counter, defaultdict

import pytest

from pagedkv import BlockPool
from pagedkv.java import jclass, start
from pagedkv.lab.exercises import exercises_of, find_exercise
from pagedkv.lab.grading import CORRECT, NOT_YET, WRONG, grade
from tests.lab.exercises.java_answers import compile_java

# ── 01.1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def handler(body):
    return lambda: compile_java("import io.netty.buffer.ByteBuf;\npublic class Handler {\n"
                                "public static void handle(ByteBuf buffer, Consumer<ByteBuf> work) {\n" + body + "\n}\n}")


HANDLERS_ACCEPTED = {
    "finally": handler("try { work.accept(buffer); } finally { buffer.release(); }"),
    "catch and rethrow": handler("try { work.accept(buffer); } catch (Throwable t) { buffer.release(); throw t; }"
                                 " buffer.release();"),
    "netty's helper": handler("try { work.accept(buffer); } finally { io.netty.util.ReferenceCountUtil.release(buffer); }"),
    "try with resources": handler("try (AutoCloseable it = buffer::release) { work.accept(buffer); }"
                                  " catch (RuntimeException e) { throw e; } catch (Exception e) { throw new Error(e); }"),
}
HANDLERS_REJECTED = {
    "only the good way": (handler("work.accept(buffer); buffer.release();"), "work that throws"),
    "never": (handler("work.accept(buffer);"), "work that only reads"),
    "forgets errors": (handler("try { work.accept(buffer); } catch (RuntimeException e) { buffer.release(); throw e; }"
                               " buffer.release();"), "work that throws an Error:"),
    "never works": (handler("buffer.release();"), "did the work 0 times"),
    "releases first": (handler("buffer.release(); work.accept(buffer);"), "threw IllegalReferenceCountException"),
    "wraps": (handler("try { work.accept(buffer); } catch (RuntimeException e) { throw new IllegalStateException(e); } "
                      "finally { buffer.release(); }"), "handle() threw IllegalStateException"),
    "not static": (lambda: compile_java("public class Handler { public void handle(io.netty.buffer.ByteBuf b, "
                                        "Consumer<io.netty.buffer.ByteBuf> w) { } }"), "it has to be public static"),
    "swallows": (handler("try { work.accept(buffer); } catch (RuntimeException e) { } finally { buffer.release(); }"),
                 "the exception was swallowed"),
    "until it is free": (handler("try { work.accept(buffer); } finally { while (buffer.refCnt() > 0) buffer.release(); }"),
                         "work that keeps the buffer"),
    "twice": (handler("try { work.accept(buffer); buffer.release(); } finally { buffer.release(); }"),
              "handle() threw IllegalReferenceCountException: refCnt: 0"),
    "a retain too many": (handler("buffer.retain(); try { work.accept(buffer); } finally { buffer.release(); }"),
                          "expected:  refCnt 0"),
    "another method": (lambda: compile_java("public class Handler { public static void manage() { } }"),
                       "public static method handle()"),
    "not a class": (lambda: 7, "check gets your Java class"),
}

# ── 01.2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def double_release(pool):
    block = pool.allocate(1)
    pool.release(block)
    pool.release(block)
    pool.allocate(1, owner="B")
    pool.allocate(1, owner="C")


def twice_in_one_release(pool):
    block = pool.allocate(1, owner="A")
    pool.release(block * 2)
    pool.allocate(1, owner="B")
    pool.allocate(1, owner="C")


def retains_a_free_block(pool):
    block = pool.allocate(1, owner="A")
    pool.release(block)
    pool.retain(block, owner="A")
    pool.allocate(8, owner="B")


def drains_it(pool):
    for _ in range(3):
        pool.release([0])
    for owner in range(11):
        pool.allocate(1, owner=owner)


BREAKERS_REJECTED = {
    "nothing": (lambda: lambda pool: print("hm"), "called neither allocate"),
    "a right use": (lambda: lambda pool: pool.release(pool.allocate(3)), "every call was one that a correct pool allows"),
    "stops half way": (lambda: lambda pool: [pool.release(b) for b in [pool.allocate(1)] * 2],
                       "block 7 was released while it was free"),
    "one owner": (lambda: lambda pool: [pool.release([7]), pool.allocate(2, owner="B")], "two different owners"),
    "takes another's": (lambda: lambda pool: pool.release(pool.allocate(1, owner="A"), owner="B"),
                        "released by B, who holds no reference"),
    "asks for too much": (lambda: lambda pool: pool.allocate(9), "your code raised OutOfBlocks"),
    "its own pool": (lambda: lambda pool: double_release(BlockPool(8)), "your code raised DoubleFree"),
    "not a function": (lambda: 3, "'int' object is not callable"),
}

# ── 01.3 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def safe_pool(add, drop, take="int[] blocks = new int[n]; for (int i = 0; i < n; i++) { blocks[i] = free.pop(); "
                              "refcounts[blocks[i]] = 1; } return blocks;"):
    return lambda: compile_java(f"""
public class SafePool extends ObservedPool {{
    private final int[] refcounts;
    private final Deque<Integer> free = new ArrayDeque<>();
    public SafePool(int numBlocks) {{
        refcounts = new int[numBlocks];
        for (int block = 0; block < numBlocks; block++) free.push(block);
    }}
    @Override protected int[] take(int n) {{ requireFree(n); {take} }}
    @Override protected void addReferences(int[] blocks) {{ {add} }}
    @Override protected void dropReferences(int[] blocks) {{ {drop} }}
    @Override public int refcount(int block) {{ return refcounts[block]; }}
    @Override public int numFreeBlocks() {{ return free.size(); }}
    @Override public int numBlocks() {{ return refcounts.length; }}
}}""")


ADD = """for (int b : blocks) if (refcounts[b] == 0) throw new IllegalStateException("free");
         for (int b : blocks) refcounts[b]++;"""
DROP = """var times = new HashMap<Integer, Integer>();
          for (int b : blocks) if (times.merge(b, 1, Integer::sum) > refcounts[b]) throw new IllegalStateException("no");
          for (int b : blocks) if (--refcounts[b] == 0) free.push(b);"""
SAFE_ACCEPTED = {
    "count first": safe_pool(ADD, DROP),
    "work on a copy": safe_pool(
        "int[] copy = refcounts.clone(); for (int b : blocks) if (copy[b]++ == 0) throw new RuntimeException(); "
        "System.arraycopy(copy, 0, refcounts, 0, copy.length);",
        "int[] copy = refcounts.clone(); for (int b : blocks) if (--copy[b] < 0) throw new Error(); "
        "for (int b : blocks) if (--refcounts[b] == 0) free.addLast(b);"),
    "the contract's exceptions": safe_pool(
        ADD.replace('new IllegalStateException("free")', 'new UseAfterFreeException("free")'),
        """for (int i = 0; i < blocks.length; i++) { int seen = 0; for (int b : blocks) if (b == blocks[i]) seen++;
           if (seen > refcounts[blocks[i]]) throw new DoubleFreeException("no"); }
           for (int b : blocks) if (--refcounts[b] == 0) free.push(b);"""),
    "undo": safe_pool(ADD, """
        for (int i = 0; i < blocks.length; i++) {
            if (refcounts[blocks[i]] == 0) {
                for (int j = 0; j < i; j++) if (refcounts[blocks[j]]++ == 0) free.remove(blocks[j]);
                throw new IllegalStateException();
            }
            if (--refcounts[blocks[i]] == 0) free.push(blocks[i]);
        }"""),
}
SAFE_REJECTED = {
    "checks after lowering": (safe_pool(ADD, """for (int b : blocks) { if (--refcounts[b] < 0) throw new RuntimeException();
        if (refcounts[b] == 0) free.push(b); }"""), "give back twice\n   call 3 of 4: release("),
    "looks at each by itself": (safe_pool(ADD, """for (int b : blocks) if (refcounts[b] == 0) throw new RuntimeException();
        for (int b : blocks) if (--refcounts[b] == 0) free.push(b);"""), "twice in one release\n   call 2 of 5"),
    "half done": (safe_pool(ADD, """for (int b : blocks) { if (refcounts[b] == 0) throw new RuntimeException();
        if (--refcounts[b] == 0) free.push(b); }"""), "a refused call leaves everything as it was"),
    "ignores a bad call": (safe_pool(ADD, """for (int b : blocks) if (refcounts[b] > 0 && --refcounts[b] == 0)
        free.push(b);"""), "expected:  an exception"),
    "retains a free block": (safe_pool("for (int b : blocks) refcounts[b]++;", DROP), "retain a block that is free"),
    "retains half": (safe_pool("for (int b : blocks) { if (refcounts[b] == 0) throw new RuntimeException(); refcounts[b]++; }",
                               DROP), "retain a block that is free\n   call 4 of 4"),
    "forgets to put it back": (safe_pool(ADD, DROP.replace("free.push(b)", "times.clear()")), "blocks are free"),
    "asserts": (safe_pool("for (int b : blocks) assert refcounts[b] > 0; for (int b : blocks) refcounts[b]++;", DROP),
                "refused with assert"),
    "endless": (safe_pool(ADD, "while (true) { }"), "had not returned"),
    "not a pool": (lambda: compile_java("public class SafePool { }"), "check gets your Java class"),
    "an object": (lambda: compile_java("public class Thing { }")(), "check gets your Java class"),
}

# ── 01.4 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Lists:
    def __init__(self, num_blocks):
        self.num_blocks = num_blocks
        self._refcounts = [0] * num_blocks
        self._free = list(range(num_blocks))

    @property
    def num_free_blocks(self):
        return len(self._free)

    def refcount(self, block):
        return self._refcounts[block]

    def allocate(self, n):
        if n > len(self._free):
            raise MemoryError
        blocks = [self._free.pop() for _ in range(n)]
        for block in blocks:
            self._refcounts[block] = 1
        return blocks

    def retain(self, blocks):
        if not all(self._refcounts[block] for block in blocks):
            raise LookupError
        for block in blocks:
            self._refcounts[block] += 1

    def release(self, blocks):
        for block, times in Counter(blocks).items():
            if times > self._refcounts[block]:
                raise ValueError(block)
        for block in blocks:
            self._refcounts[block] -= 1
            if not self._refcounts[block]:
                self._free.append(block)


class OneDict:
    """No free list at all: what is not in the dict is free; blocks come in ascending order, as a tuple."""

    def __init__(self, num_blocks):
        self.num_blocks, self.counts = num_blocks, {}

    @property
    def num_free_blocks(self):
        return self.num_blocks - len(self.counts)

    def refcount(self, block):
        return self.counts.get(block, 0)

    def allocate(self, n):
        free = [block for block in range(self.num_blocks) if block not in self.counts][:n]
        if len(free) < n:
            raise RuntimeError("full")
        self.counts.update(dict.fromkeys(free, 1))
        return tuple(free)

    def retain(self, blocks):
        new = dict(self.counts)
        for block in blocks:
            new[block] += 1
        self.counts = new

    def release(self, blocks):
        new = dict(self.counts)
        for block in blocks:
            new[block] -= 1
            if new[block] == 0:
                del new[block]
        self.counts = new


class ReleasesWhatItCan(Lists):
    def release(self, blocks):
        for block in blocks:
            super().release([block])


class LooksAtEachByItself(Lists):
    def release(self, blocks):
        if not all(self._refcounts[block] for block in blocks):
            raise ValueError
        for block in blocks:
            self._refcounts[block] -= 1
            if self._refcounts[block] == 0:
                self._free.append(block)


class TakesTheRest(Lists):
    def allocate(self, n):
        return super().allocate(min(n, len(self._free)))


class TakesBeforeItLooks(Lists):
    def allocate(self, n):
        blocks = []
        for _ in range(n):
            blocks.append(self._free.pop())
        for block in blocks:
            self._refcounts[block] = 1
        return blocks


class ForgetsReturn(Lists):
    def allocate(self, n):
        super().allocate(n)


class SetsTheCount(Lists):
    def retain(self, blocks):
        for block in blocks:
            if not self._refcounts[block]:
                raise ValueError
        for block in set(blocks):
            self._refcounts[block] += 1


class GivesItsOwnList(Lists):
    """Returns the pool's own internals: the list that it goes on changing."""

    def __init__(self, num_blocks):
        super().__init__(num_blocks)
        self._given = []

    def allocate(self, n):
        blocks = super().allocate(n)
        self._given[:] = blocks
        return self._given


class Asserts(Lists):
    def retain(self, blocks):
        assert all(self._refcounts[block] for block in blocks)
        super().retain(blocks)


class FreeCountIsAMethod(Lists):
    def num_free_blocks(self):
        return len(self._free)


class Loops(Lists):
    def release(self, blocks):
        while True:
            pass


class Exits(Lists):
    def retain(self, blocks):
        raise SystemExit


class Shouts(Lists):
    def allocate(self, n):
        print("x" * 1_000_000)
        return None


class HalfWritten(Lists):
    def release(self, blocks):
        ...


class NoFreeCount:
    def __init__(self, num_blocks):
        self.num_blocks = num_blocks


POOLS_REJECTED = {
    "releases what it can": (ReleasesWhatItCan, "a refused call leaves everything as it was"),
    "looks at each by itself": (LooksAtEachByItself, "twice in one release\n   call 2 of 5: release("),
    "takes the rest": (TakesTheRest, "more than there is"),
    "takes before it looks": (TakesBeforeItLooks, "raised IndexError, but"),
    "forgets return": (ForgetsReturn, "returned None\n   expected:  a list of 3 blocks"),
    "retains a block once per call": (SetsTheCount, "retain the same block twice"),
    "gives its own list": (GivesItsOwnList, "what was given out belongs to the caller"),
    "asserts": (Asserts, "refused with assert, which production switches off"),
    "the free count is a method": (FreeCountIsAMethod, "make it a property"),
    "loops": (Loops, "had not returned"),
    "exits": (Exits, "left the interpreter"),
    "shouts": (Shouts, "and 999,001 characters more"),
    "has no free count": (NoFreeCount, "your pool has no num_free_blocks"),
    "an object, not the class": (lambda: Lists(8), "check gets your class"),
}

# ── 01.5 and 01.6 ────────────────────────────────────────────────────────────────────────────────────────────────────

FOOLING_REJECTED = {
    "right": ([1, 2], "goes through and is right"), "refused": ([3], "is refused"), "no block": ([99], "there is no block 99"),
    "counted from the end": ([-7, 1], "there is no block -7"),
    "shared, twice is right": ([0, 0], "goes through and is right"), "nothing": ([], "goes through and is right"),
    "a number": (1, "the answer is a list of blocks"), "text": ("ab", "the answer is a list of blocks"),
}


def by_counter(events, live_owners):
    held = defaultdict(Counter)
    for event in events:
        if event.refused:
            continue
        if event.op == "release":
            held[event.owner].subtract(event.blocks)
        else:
            held[event.owner].update(event.blocks)
    return {owner: list((+blocks).keys()) for owner, blocks in held.items() if owner not in live_owners}


def each_reference(events, live_owners):
    """Lists a block once for each reference that is left."""
    return {owner: list(Counter({block: 2 for block in blocks}).elements())
            for owner, blocks in by_counter(events, live_owners).items()}


def by_lists(events, live_owners):
    held = []
    for event in events:
        if "error" not in event.detail:
            for block in event.blocks:
                if event.op == "release":
                    held.remove((event.owner, block))
                else:
                    held.append((event.owner, block))
    return {owner: {block for holder, block in held if holder == owner}
            for owner, _ in held if owner not in live_owners}


def ignores_retain(events, live_owners):
    return by_counter([event for event in events if event.op != "retain"], live_owners)


def ignores_how_often(events, live_owners):
    held = set()
    for event in events:
        for block in () if event.refused else event.blocks:
            (held.discard if event.op == "release" else held.add)((event.owner, block))
    return {owner: [block for holder, block in held if holder == owner] for owner, _ in held if owner not in live_owners}


def reports_the_living(events, live_owners):
    return by_counter(events, set())


def _counted(events, live_owners, which):
    held = defaultdict(Counter)
    for event in events:
        if which(event):
            (held[event.owner].subtract if event.op == "release" else held[event.owner].update)(event.blocks)
    return {owner: list(+blocks) for owner, blocks in held.items() if owner not in live_owners}


LEAKS_REJECTED = {
    "counts refused calls": (lambda events, live: _counted(events, live, lambda event: True), "a refused retain"),
    "counts refused releases": (lambda events, live: _counted(
        events, live, lambda event: not event.refused or event.op == "release"), "a refused release takes nothing away"),
    "ignores retain": (ignores_retain, "B shares A's blocks and keeps them"),
    "ignores how often": (ignores_how_often, "A holds a block twice and releases it once"),
    "reports the living": (reports_the_living, "live owners ['A']"),
    "nothing leaks": (lambda events, live: {}, "A never releases"),
    "a list": (lambda events, live: [1, 2], "returns a dict, owner → blocks"),
    "raises": (lambda events, live: events[0].nothing, "your code raised AttributeError"),
}

ACCEPTED = {
    "01.1": HANDLERS_ACCEPTED,
    "01.2": {"double release": lambda: double_release, "twice in one": lambda: twice_in_one_release,
             "retain of a free block": lambda: retains_a_free_block, "drains it": lambda: drains_it},
    "01.3": SAFE_ACCEPTED,
    "01.4": {"lists": lambda: Lists, "one dict": lambda: OneDict},
    "01.5": {"block 1": lambda: [1, 1], "more than once shared": lambda: (0, 0, 0), "among others": lambda: [2, 0, 2]},
    "01.6": {"counters": lambda: by_counter, "lists and sets": lambda: by_lists, "each reference": lambda: each_reference},
}
REJECTED = {
    "01.1": HANDLERS_REJECTED,
    "01.2": BREAKERS_REJECTED,
    "01.3": SAFE_REJECTED,
    "01.4": {name: ((lambda answer=answer: answer) if isinstance(answer, type) else answer, message)
             for name, (answer, message) in POOLS_REJECTED.items()},
    "01.5": {name: (lambda answer=answer: answer, message) for name, (answer, message) in FOOLING_REJECTED.items()},
    "01.6": {name: (lambda answer=answer: answer, message) for name, (answer, message) in LEAKS_REJECTED.items()},
}


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    start()
    monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 3.0)


@pytest.mark.parametrize("exercise, name", [(exercise, name) for exercise, answers in ACCEPTED.items() for name in answers])
def test_a_right_answer_is_accepted(exercise, name, monkeypatch):
    monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 20.0)  # as a learner has: other tests may run beside this one
    verdict = grade(find_exercise(exercise), ACCEPTED[exercise][name]())
    assert verdict.outcome == CORRECT, verdict


@pytest.mark.parametrize("exercise, name", [(exercise, name) for exercise, answers in REJECTED.items() for name in answers])
def test_a_wrong_answer_gets_the_message_it_deserves(exercise, name):
    answer, message = REJECTED[exercise][name]
    verdict = grade(find_exercise(exercise), answer())
    assert verdict.outcome == WRONG, verdict
    assert message in str(verdict), verdict


def test_every_exercise_has_enough_answers_here():
    for exercise in exercises_of("01"):
        assert len(ACCEPTED[exercise.id]) >= 2 and len(REJECTED[exercise.id]) >= 3


def test_java_placeholders_are_seen_when_they_run():
    for exercise, answer in (("01.1", handler("throw new NotYet();")), ("01.3", safe_pool("throw new NotYet();", DROP)),
                             ("01.3", safe_pool(ADD, "throw new NotYet();"))):
        verdict = grade(find_exercise(exercise), answer())
        assert verdict.outcome == NOT_YET and "() still has its placeholder" in str(verdict), verdict


def test_a_half_written_class_names_the_method():
    assert str(grade(find_exercise("01.4"), HalfWritten)) == \
        'not yet – release() still has its placeholder. hint("01.4") gives a first nudge.'


def test_the_counter_example_has_a_picture_with_alternative_text():
    verdict = grade(find_exercise("01.4"), LooksAtEachByItself)
    data, alt = verdict.picture
    assert data.startswith(b"\x89PNG") and alt.startswith("The pool at call 2 of 5. yours: refcounts ")
    assert jclass("java.lang.Object")


def test_an_answer_never_reaches_past_the_deadline_message():
    verdict = grade(find_exercise("01.4"), Loops)
    assert verdict.message == "your code had not returned after 3 s and was stopped"
