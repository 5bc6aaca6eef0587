"""Notebook 08, the stacks of 08.1 to 08.3: every right answer is accepted, every wrong one gets the message it deserves."""

import pytest

from pagedkv.java import jclass, start
from pagedkv.lab.exercises import find_exercise
from pagedkv.lab.grading import CORRECT, NOT_YET, WRONG, grade
from pagedkv.lab.workers_stack import BLOCKS_COME_BACK, explore, many_threads, stop_everywhere
from pagedkv.viz import StepsView
from tests.lab.exercises.java_answers import compile_java


@pytest.fixture(autouse=True, scope="module")
def jvm():
    start()


def stack(pop: str, push: str, fields: str = ""):
    """pop, push: a body each, or a whole method that begins with public."""
    pop = pop if pop.startswith("public") else f"public int pop() {{ {pop} }}"
    push = push if push.startswith("public") else f"public void push(int block) {{ {push} }}"
    return lambda: compile_java("import java.util.concurrent.atomic.*;\nimport java.util.concurrent.locks.*;\n"
                                "import pagedkv.interleaving.SharedStack;\n"
                                f"public class MyStack extends SharedStack {{\n{fields}\n{pop}\n{push}\n}}")


BARE_POP = "int top = (int) head(); if (top == NONE) return NONE; setHead(below(top)); return top;"
BARE_PUSH = "setBelow(block, (int) head()); setHead(block);"


def locked(before: str, after: str, fields: str = ""):
    return stack(f"{before} try {{ {BARE_POP} }} finally {{ {after} }}", f"{before} try {{ {BARE_PUSH} }} finally {{ {after} }}",
                 fields)


LOCK_ACCEPTED = {
    "synchronized methods": stack(f"public synchronized int pop() {{ {BARE_POP} }}",
                                  f"public synchronized void push(int block) {{ {BARE_PUSH} }}"),
    "one object": stack(f"synchronized (lock) {{ {BARE_POP} }}", f"synchronized (lock) {{ {BARE_PUSH} }}",
                        "final Object lock = new Object();"),
    "ReentrantLock": locked("lock.lock();", "lock.unlock();", "final ReentrantLock lock = new ReentrantLock();"),
    "write lock": locked("lock.writeLock().lock();", "lock.writeLock().unlock();",
                         "final ReentrantReadWriteLock lock = new ReentrantReadWriteLock();"),
    "a static lock": stack(f"synchronized (MyStack.class) {{ {BARE_POP} }}", f"synchronized (MyStack.class) {{ {BARE_PUSH} }}"),
    "a semaphore": locked("lock.acquireUninterruptibly();", "lock.release();",
                          "final java.util.concurrent.Semaphore lock = new java.util.concurrent.Semaphore(1);"),
    "a lock that spins": locked("while (!taken.compareAndSet(false, true)) Thread.onSpinWait();", "taken.set(false);",
                                "final AtomicBoolean taken = new AtomicBoolean();"),
    "a look before the lock": stack(f"if ((int) head() == NONE) return NONE; synchronized (this) {{ {BARE_POP} }}",
                                    f"synchronized (this) {{ {BARE_PUSH} }}"),
}
LOCK_REJECTED = {
    "none": (stack(BARE_POP, BARE_PUSH), "lost"),
    "only pop": (stack(f"synchronized (this) {{ {BARE_POP} }}", BARE_PUSH), "lost"),
    "only push": (stack(BARE_POP, f"synchronized (this) {{ {BARE_PUSH} }}"), "lost"),
    "two locks": (stack(f"synchronized (a) {{ {BARE_POP} }}", f"synchronized (b) {{ {BARE_PUSH} }}",
                        "final Object a = new Object(), b = new Object();"), "lost"),
    "a lock for each call": (stack(f"synchronized (new Object()) {{ {BARE_POP} }}",
                                   f"synchronized (new Object()) {{ {BARE_PUSH} }}"), "lost"),
    "not over the write": (stack("int top; synchronized (this) { top = (int) head(); if (top == NONE) return NONE; } "
                                 "int below = below(top); synchronized (this) { setHead(below); } return top;",
                                 f"synchronized (this) {{ {BARE_PUSH} }}"), "lost"),
    "forgets to unlock": (stack(f"lock.lock(); {BARE_POP}", f"lock.lock(); {BARE_PUSH} lock.unlock();",
                                "final ReentrantLock lock = new ReentrantLock();"), "waits for"),
    "keeps the lock when empty": (stack("lock.lock(); int top = (int) head(); if (top == NONE) return NONE; "
                                        "setHead(below(top)); lock.unlock(); return top;",
                                        f"lock.lock(); {BARE_PUSH} lock.unlock();",
                                        "final ReentrantLock lock = new ReentrantLock();"), "waits for"),
    "volatile is no lock": (stack("top = (int) head(); if (top == NONE) return NONE; setHead(below(top)); return top;",
                                  BARE_PUSH, "volatile int top;"), "yours:"),
    "never takes anything": (stack("return NONE;", ""), "returned NONE"),
    "its own stack": (stack("synchronized (mine) { return mine.isEmpty() ? NONE : mine.pop(); }",
                            "synchronized (mine) { mine.push(block); }",
                            "final java.util.ArrayDeque<Integer> mine = new java.util.ArrayDeque<>();"), "yours:"),
    "throws when empty": (stack('if ((int) head() == NONE) throw new IllegalStateException("empty"); '
                                f"synchronized (this) {{ {BARE_POP} }}", f"synchronized (this) {{ {BARE_PUSH} }}"), "empty"),
    "the block below NONE": (stack("synchronized (this) { int top = (int) head(); setHead(below(top)); return top; }",
                                   f"synchronized (this) {{ {BARE_PUSH} }}"), "where there is no block"),
}

SET_POP = "while (true) { long seen = head(); int top = (int) seen; if (top == NONE) return NONE; " \
          "if (compareAndSetHead(seen, below(top))) return top; }"
SET_PUSH = "while (true) { long seen = head(); setBelow(block, (int) seen); if (compareAndSetHead(seen, block)) return; }"
TAG = "static long next(long seen, int block) { return ((seen >>> 32) + 1) << 32 | block & 0xFFFF_FFFFL; }"
TAGGED_POP = SET_POP.replace("compareAndSetHead(seen, below(top))", "compareAndSetHead(seen, next(seen, below(top)))")
TAGGED_PUSH = SET_PUSH.replace("compareAndSetHead(seen, block)", "compareAndSetHead(seen, next(seen, block))")
KEEP = "static long keep(long seen, int block) { return seen & 0xFFFF_FFFF_0000_0000L | block & 0xFFFF_FFFFL; }"

SET_ACCEPTED = {
    "loops": stack(SET_POP, SET_PUSH),
    "do while": stack("long seen; int top; do { seen = head(); top = (int) seen; if (top == NONE) return NONE; } "
                      "while (!compareAndSetHead(seen, below(top))); return top;",
                      "long seen; do { seen = head(); setBelow(block, (int) seen); } while (!compareAndSetHead(seen, block));"),
    "recursion": stack("long seen = head(); int top = (int) seen; if (top == NONE) return NONE; "
                       "return compareAndSetHead(seen, below(top)) ? top : pop();",
                       "long seen = head(); setBelow(block, (int) seen); if (!compareAndSetHead(seen, block)) push(block);"),
    "with a tag already": stack(TAGGED_POP, TAGGED_PUSH, TAG),
}
SET_REJECTED = {
    "a lock": (LOCK_ACCEPTED["synchronized methods"], "cannot finish while A is stopped"),
    "a lock that spins": (LOCK_ACCEPTED["a lock that spins"], "cannot finish while A is stopped"),
    "a plain write at the end": (stack(SET_POP, BARE_PUSH), "lost"),
    "once, and that is that": (stack("long seen = head(); int top = (int) seen; if (top == NONE) return NONE; "
                                     "compareAndSetHead(seen, below(top)); return top;", SET_PUSH), "in a circle"),
    "gives up": (stack("long seen = head(); int top = (int) seen; return top != NONE && "
                       "compareAndSetHead(seen, below(top)) ? top : NONE;", SET_PUSH), "returned NONE"),
    "the link behind the set": (stack(SET_POP, "while (true) { long seen = head(); if (compareAndSetHead(seen, block)) "
                                      "{ setBelow(block, (int) seen); return; } }"), "yours:"),
    "reads the head again": (stack("while (true) { int top = (int) head(); if (top == NONE) return NONE; "
                                   "int below = below(top); if (compareAndSetHead(head(), below)) return top; }", SET_PUSH),
                             "yours:"),
    "the old value for ever": (stack("long seen = head(); int top = (int) seen; if (top == NONE) return NONE; "
                                     "int below = below(top); while (!compareAndSetHead(seen, below)) Thread.onSpinWait(); "
                                     "return top;", SET_PUSH), "no end is in sight"),
    "the link of the first try": (stack(SET_POP, "long seen = head(); setBelow(block, (int) seen); "
                                        "while (!compareAndSetHead(seen, block)) seen = head();"), "lost"),
    "three tries": (stack("for (int i = 0; i < 3; i++) { long seen = head(); int top = (int) seen; if (top == NONE) "
                          "return NONE; if (compareAndSetHead(seen, below(top))) return top; } return NONE;", SET_PUSH),
                    "B makes a whole call before each compare-and-set of A"),
    "a plain link": (stack(BARE_POP, SET_PUSH), "yours:"),
}

TAG_ACCEPTED = {
    "one more each time": stack(TAGGED_POP, TAGGED_PUSH, TAG),
    "only pop counts": stack(TAGGED_POP, SET_PUSH.replace("(seen, block)", "(seen, keep(seen, block))"), TAG + KEEP),
    "only push counts": stack(SET_POP.replace("(seen, below(top))", "(seen, keep(seen, below(top)))"), TAGGED_PUSH, TAG + KEEP),
    "down from the top": stack(TAGGED_POP, TAGGED_PUSH, TAG.replace("+ 1", "- 1")),
    "a counter beside": stack(TAGGED_POP, TAGGED_PUSH, "final AtomicInteger tags = new AtomicInteger(); "
                              "long next(long seen, int block) "
                              "{ return (long) tags.incrementAndGet() << 32 | block & 0xFFFF_FFFFL; }"),
    "16 bits": stack(TAGGED_POP, TAGGED_PUSH, TAG.replace("((seen >>> 32) + 1)", "((seen >>> 32) + 1 & 0xFFFF)")),
}
TAG_REJECTED = {
    "none": (stack(SET_POP, SET_PUSH), "block 1 is on the stack although somebody holds it"),
    "dropped by push": (stack(TAGGED_POP, SET_PUSH, TAG), "yours:"),
    "one bit": (stack(TAGGED_POP, TAGGED_PUSH, TAG.replace("((seen >>> 32) + 1)", "((seen >>> 32) + 1 & 1)")), "After 1 round the head is"),
    "8 bits": (stack(TAGGED_POP, TAGGED_PUSH, TAG.replace("((seen >>> 32) + 1)", "((seen >>> 32) + 1 & 0xFF)")),
               "After 128 rounds the head is"),
    "without the mask": (stack(TAGGED_POP, TAGGED_PUSH, TAG.replace(" & 0xFFFF_FFFFL", "")), "yours:"),
    "the same tag again": (stack(TAGGED_POP, TAGGED_PUSH, KEEP.replace("keep", "next")), "yours:"),
    "a tag beside the head": (stack(SET_POP.replace("if (compare", "tag.incrementAndGet(); if (compare"), SET_PUSH,
                                    "final AtomicLong tag = new AtomicLong();"), "yours:"),
    "a tag in a field": (stack(TAGGED_POP, TAGGED_PUSH, "private long tag; long next(long seen, int block) "
                               "{ return ++tag << 32 | block & 0xFFFF_FFFFL; }"), "your field tag is shared"),
    "a volatile tag": (stack(TAGGED_POP, TAGGED_PUSH, "volatile int tag; long next(long seen, int block) "
                             "{ return (long) tag++ << 32 | block & 0xFFFF_FFFFL; }"), "your field tag is shared"),
    "a lock": (LOCK_ACCEPTED["ReentrantLock"], "cannot finish while A is stopped"),
}
ACCEPTED = {"08.1": LOCK_ACCEPTED | {"a tag": TAG_ACCEPTED["one more each time"]}, "08.2": SET_ACCEPTED, "08.3": TAG_ACCEPTED}
REJECTED = {"08.1": LOCK_REJECTED, "08.2": SET_REJECTED, "08.3": TAG_REJECTED}


@pytest.mark.parametrize("exercise, name", [(exercise, name) for exercise in ACCEPTED for name in ACCEPTED[exercise]])
def test_accepted(exercise, name):
    verdict = grade(find_exercise(exercise), ACCEPTED[exercise][name]())
    assert verdict.outcome == CORRECT, str(verdict)


@pytest.mark.parametrize("exercise, name", [(exercise, name) for exercise in REJECTED for name in REJECTED[exercise]])
def test_rejected(exercise, name, monkeypatch):
    monkeypatch.setattr("pagedkv.lab.workers_stack_trial._picture", lambda explored: None)  # each takes a second
    answer, piece = REJECTED[exercise][name]
    verdict = grade(find_exercise(exercise), answer())
    assert verdict.outcome == WRONG and piece in verdict.message, str(verdict)


@pytest.mark.parametrize("exercise", ACCEPTED)
def test_neither_a_stack(exercise):
    wrong = [jclass("java.lang.Object"), ACCEPTED[exercise][next(iter(ACCEPTED[exercise]))]()(), 3]
    for answer, piece in zip(wrong, ["that extends SharedStack", "give the class", "got 3"]):
        verdict = grade(find_exercise(exercise), answer)
        assert verdict.outcome == WRONG and piece in verdict.message, str(verdict)


@pytest.mark.parametrize("exercise", ACCEPTED)
@pytest.mark.parametrize("pop, push", [("throw new NotYet();", "throw new NotYet();"), (TAGGED_POP, "throw new NotYet();")])
def test_untouched(exercise, pop, push):
    assert grade(find_exercise(exercise), stack(pop, push, TAG)()).outcome == NOT_YET


def test_a_wrong_answer_comes_with_a_picture():
    verdict = grade(find_exercise("08.3"), TAG_REJECTED["none"][0]())
    png, alt = verdict.picture
    assert png.startswith(b"\x89PNG") and "block 1" in alt


# ── what the notebook shows with the same stacks ─────────────────────────────────────────────────────────────────────


def test_explored():
    bare = stack(BARE_POP, BARE_PUSH)()
    explored = explore(bare)
    assert not explored.passed and explored == explore(bare)
    assert repr(explored).startswith(f"MyStack: schedule {explored.schedules} breaks it. A: pop a, push a; B: pop a")
    assert len(StepsView(explored.trace).tapes[0]) == len(explored.story.splitlines())
    right = explore(SET_ACCEPTED["loops"]())
    assert right.passed and right.trace is None and repr(right) == f"MyStack: none of {right.schedules} schedules breaks it"
    assert not explore(SET_ACCEPTED["loops"](), BLOCKS_COME_BACK).passed
    assert not stop_everywhere(LOCK_ACCEPTED["one object"]()).passed


def test_many_threads():
    assert any(not many_threads(stack(BARE_POP, BARE_PUSH)()).passed for _ in range(20))
    right = many_threads(TAG_ACCEPTED["16 bits"](), 2, 1000)
    assert right.passed and repr(right) == "MyStack: 2,000 rounds, 0 of 6 blocks lost"


def test_what_cannot_be_tried():
    bare = stack(BARE_POP, BARE_PUSH)()
    with pytest.raises(TypeError, match="extends SharedStack"):
        explore(int)
    with pytest.raises(ValueError, match="is no call"):
        explore(bare, [(1, ["peek a"])])
    with pytest.raises(ValueError, match="1 to 16 threads"):
        many_threads(bare, 0)
