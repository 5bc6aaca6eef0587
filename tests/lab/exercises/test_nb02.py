"""Notebook 02: every right answer is accepted, whatever its form; every wrong one gets the message it deserves.

ACCEPTED: exercise → answers of different kinds. REJECTED: exercise → (answer, a piece of the message it must get).
"""

import math

import numpy
import pytest

from pagedkv.java import start
from pagedkv.lab.exercises import exercises_of, find_exercise
from pagedkv.lab.grading import CORRECT, NOT_YET, WRONG, grade
from tests.lab.exercises.java_answers import compile_java

_MIB = 1 << 20

# ── 02.1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def rounding(body):
    return lambda: compile_java("public class Rounding {\npublic static int normalizeCapacity(int n) {\n" + body
                                + "\n}\n}")


ROUNDING_ACCEPTED = {
    "highest bit": rounding("if (n >= 16 << 20) return n; if (n < 512) return (n + 15) / 16 * 16; "
                            "int p = Integer.highestOneBit(n); return p == n ? p : 2 * p;"),
    "netty's own shifts": rounding("""
        if (n >= 16777216) return n;
        if (n >= 512) {
            int x = n - 1;
            x |= x >>> 1; x |= x >>> 2; x |= x >>> 4; x |= x >>> 8; x |= x >>> 16;
            return x + 1;
        }
        return (n & 15) == 0 ? n : (n & ~15) + 16;"""),
    "a loop": rounding("if (n > 16 << 20) return n; int size = 16; "
                       "while (size < n) size += size < 512 ? 16 : size; return size;"),
    "logarithm": rounding("if (n >= 1 << 24) return n; if (n < 512) return (int) Math.ceil(n / 16.0) * 16; "
                          "return 1 << 32 - Integer.numberOfLeadingZeros(n - 1);"),
}
ROUNDING_REJECTED = {
    "nothing": (rounding("return n;"), "normalizeCapacity(1)\n   yours:         1\n   Netty 4.1.48:  16"),
    "powers of two only": (rounding("int s = 16; while (s < n) s *= 2; return s;"),
                           "normalizeCapacity(200)\n   yours:         256\n   Netty 4.1.48:  208"),
    "multiples of 16 only": (rounding("return n >= 16 << 20 ? n : (n + 15) / 16 * 16;"),
                             "normalizeCapacity(513)\n   yours:         528\n   Netty 4.1.48:  1,024"),
    "doubles powers of two": (rounding("if (n >= 16 << 20) return n; return n < 512 ? (n + 15) / 16 * 16 : "
                                       "2 * Integer.highestOneBit(n);"),
                              "normalizeCapacity(512)\n   yours:         1,024"),
    "rounds down": (rounding("return n >= 16 << 20 ? n : n < 512 ? (n + 15) / 16 * 16 : Integer.highestOneBit(n);"),
                    "normalizeCapacity(513)\n   yours:         512"),
    "always adds": (rounding("return n >= 16 << 20 ? n : n < 512 ? n / 16 * 16 + 16 : "
                             "Integer.highestOneBit(2 * n - 1);"),
                    "normalizeCapacity(16)\n   yours:         32"),
    "rounds huge ones too": (rounding("if (n < 512) return (n + 15) / 16 * 16; int p = Integer.highestOneBit(n); "
                                      "return p == n ? p : 2 * p;"), "normalizeCapacity(16,777,217)"),
    "refuses huge ones": (rounding("if (n > 16 << 20) throw new IllegalArgumentException(\"huge\"); if (n < 512) "
                                   "return (n + 15) / 16 * 16; int p = Integer.highestOneBit(n); "
                                   "return p == n ? p : 2 * p;"),
                          "threw IllegalArgumentException: huge"),
    "not static": (lambda: compile_java("public class Rounding { public int normalizeCapacity(int n) { return n; } }"),
                   "it has to be public static"),
    "another method": (lambda: compile_java("public class Rounding { public static int round(int n) { return n; } }"),
                       "public static method normalizeCapacity()"),
    "returns a text": (lambda: compile_java("public class Rounding { public static String normalizeCapacity(int n) "
                                            "{ return \"\" + n; } }"), "returns an int"),
    "not a class": (lambda: 3000, "check gets your Java class"),
}

# ── 02.2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def search(body, members=""):
    return lambda: compile_java("import pagedkv.netty.tiers.*;\npublic class MySearch implements TreeSearch {\n"
                                "@Override public int allocateNode(byte[] memoryMap, int depth) {\n" + body + "\n}\n"
                                + members + "}")


def walk(none="if (memoryMap[1] > depth) return -1;", levels="int i = 0; i < depth; i++",
         step="node *= 2; if (memoryMap[node] > depth) node++;", then="return node;"):
    """Netty's walk, or one with a slip."""
    return search(f"{none} int node = 1; for ({levels}) {{ {step} }} {then}")


SEARCH_ACCEPTED = {
    "netty's way": walk(),
    "bits, as in netty": search("""
        int id = 1, initial = -(1 << depth);
        byte val = memoryMap[id];
        if (val > depth) return -1;
        while (val < depth || (id & initial) == 0) {
            id <<= 1;
            val = memoryMap[id];
            if (val > depth) { id ^= 1; val = memoryMap[id]; }
        }
        return id;"""),
    "recursion": search("return below(memoryMap, 1, 0, depth);", """
        private static int below(byte[] map, int node, int at, int depth) {
            if (map[node] > depth) return -1;
            if (at == depth) return node;
            int left = below(map, 2 * node, at + 1, depth);
            return left != -1 ? left : below(map, 2 * node + 1, at + 1, depth);
        }"""),
    "from left to right": search("""
        int unusable = Integer.numberOfTrailingZeros(memoryMap.length);
        nodes: for (int node = 1 << depth; node < 2 << depth; node++) {
            if (memoryMap[node] != depth) continue;
            for (int above = node / 2; above > 0; above /= 2) if (memoryMap[above] == unusable) continue nodes;
            return node;
        }
        return -1;"""),
    "marks what it found": walk(then="memoryMap[node] = 99; return node;"),
}
SEARCH_REJECTED = {
    "to the right first": (walk(step="node = 2 * node + 1; if (memoryMap[node] > depth) node--;"),
                           "node 15, which is free; another one lies further to the left"),
    "always to the left": (walk(step="node *= 2;"),
                           "the first page is taken; wanted: depth 3, which is 1 page:\n"
                           "   yours:     node 8, which is taken"),
    "looks at one leaf only": (search("if (memoryMap[1] > depth) return -1; int first = 1 << depth; "
                                      "return first + (memoryMap[first] > depth ? 1 : 0);"),
                               "which is part of a larger run that is taken"),
    "compares for equality": (walk(step="node *= 2; if (memoryMap[node] != depth) node++;"), "yours:"),
    "goes on where there is no room": (walk(none=""), "expected:  -1: the root's value is 1"),
    "one level short": (walk(levels="int i = 1; i < depth; i++"), "node 4, which has depth 2"),
    "one level too far": (walk(levels="int i = 0; i <= depth; i++"), "threw ArrayIndexOutOfBoundsException"),
    "off by one at a full chunk": (walk(none="if (memoryMap[1] > depth + 1) return -1;"), "expected:  -1"),
    "0 for none": (walk(none="if (memoryMap[1] > depth) return 0;"), "0, which is no node"),
    "gives up early": (walk(none="if (memoryMap[1] >= depth) return -1;"), "-1, as if nothing were free"),
    "any node with the right value": (search("for (int node = 1; node < memoryMap.length; node++) { "
                                             "if (memoryMap[node] == depth) return node; } return -1;"), "yours:"),
    "below what is taken": (search("for (int node = 1 << depth; node < 2 << depth; node++) { "
                                   "if (memoryMap[node] == depth) return node; } return -1;"),
                            "which is part of a larger run that is taken"),
    "a part is taken": (walk(none="int none = Integer.numberOfTrailingZeros(memoryMap.length); "
                                  "if (memoryMap[1] > depth) return -1;",
                             step="node *= 2; if (memoryMap[node] == none) node++;"),
                        "of which a part is taken: its value is 3, not 2"),
    "wants an argument": (search("return -1;", "public MySearch(int n) { }"), "a public constructor without param"),
    "another class": (lambda: compile_java("public class MySearch { }"), "implements TreeSearch"),
    "an object": (lambda: search("return -1;")()(), "implements TreeSearch"),
}

# ── 02.3 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def duel(allocator, thread):
    return lambda: compile_java(f"""
import io.netty.buffer.*;
import io.netty.util.concurrent.FastThreadLocalThread;
public class Duel {{
    public static PooledByteBufAllocator allocator(boolean cached) {{ {allocator} }}
    public static Thread newThread(Runnable work) {{ {thread} }}
}}""")


def one_arena(small, normal, for_all):
    return f"return new PooledByteBufAllocator(true, 1, 1, 8192, 9, {small}, {normal}, {for_all});"


def other_sides(with_cache, without):
    """The cache as it should be, but the constructor's first five arguments differ."""
    return duel(f"return cached ? new PooledByteBufAllocator({with_cache}, 256, 64, false) : "
                f"new PooledByteBufAllocator({without}, 0, 0, false);", "return new FastThreadLocalThread(work);")


SIZES = one_arena("cached ? 256 : 0", "cached ? 64 : 0", "false")
DUELS_ACCEPTED = {
    "netty's threads": duel(SIZES, "return new FastThreadLocalThread(work);"),
    "plain threads, told to cache": duel(one_arena("cached ? 256 : 0", "cached ? 64 : 0", "true"),
                                         "return new Thread(work);"),
    "plain threads, the flag alone": duel(one_arena("256", "64", "cached"), "return new Thread(work);"),
    "netty's factory": duel(SIZES, "return new io.netty.util.concurrent.DefaultThreadFactory(\"a\").newThread(work);"),
    "defaults": duel("return cached ? new PooledByteBufAllocator(true) : new PooledByteBufAllocator(true, "
                     "PooledByteBufAllocator.defaultNumHeapArena(), PooledByteBufAllocator.defaultNumDirectArena(), "
                     "8192, 9, 0, 0, false);", "return new FastThreadLocalThread(work);"),
}
DUELS_REJECTED = {
    "plain threads": (duel(SIZES, "return new Thread(work);"), "since 4.1.75 a plain thread gets no cache"),
    "a cache of size 0": (duel(one_arena("0", "0", "true"), "return new Thread(work);"),
                          "a smallCacheSize of 0 keeps nothing"),
    "a cache on both sides": (duel(one_arena("256", "64", "true"), "return new Thread(work);"),
                              "the arena served 1 of them, the thread's cache 999\n"
                              "   expected:  the arena serves all 1,000"),
    "the flag on netty's threads": (duel(one_arena("256", "64", "cached"), "return new FastThreadLocalThread(work);"),
                                    "Netty's own threads have a cache whatever useCacheForAllThreads says"),
    "other chunks": (other_sides("true, 1, 1, 8192, 9", "true, 1, 1, 8192, 11"),
                     "differ in more than the cache\n   chunk size:    4 MiB with the cache, 16 MiB without"),
    "other pages": (other_sides("true, 1, 1, 4096, 10", "true, 1, 1, 8192, 9"),
                    "the cache\n   page size:     4 KiB with the cache, 8 KiB without"),
    "other arenas": (other_sides("true, 1, 1, 8192, 9", "true, 1, 2, 8192, 9"),
                     "direct arenas: 1 with the cache, 2 without"),
    "other buffers": (other_sides("true, 1, 1, 8192, 9", "false, 1, 1, 8192, 9"),
                      "buffers:       direct with the cache, heap without"),
    "nearly all differs": (duel("return cached ? new PooledByteBufAllocator(true, 1, 1, 4096, 10, 256, 64, true) : "
                                "new PooledByteBufAllocator(false, 1, 1, 8192, 9, 0, 0, true);",
                                "return new Thread(work);"), "differ in more than the cache\n   buffers:"),
    "still keeps the large ones": (duel(one_arena("cached ? 256 : 0", "64", "false"),
                                        "return new FastThreadLocalThread(work);"),
                                   "allocator(false): 1,000 buffers of 32 KiB are taken"),
    "keeps the small ones only": (duel(one_arena("cached ? 256 : 0", "0", "false"),
                                       "return new FastThreadLocalThread(work);"),
                                  "a normalCacheSize of 0 keeps nothing"),
    "a thread for each side": (lambda: compile_java("""
import io.netty.buffer.*;
import io.netty.util.concurrent.FastThreadLocalThread;
public class Duel {
    private static boolean fast;
    public static PooledByteBufAllocator allocator(boolean cached) {
        fast = cached;
        return new PooledByteBufAllocator(true, 1, 1, 8192, 9, 256, 64, false);
    }
    public static Thread newThread(Runnable work) {
        return fast ? new FastThreadLocalThread(work) : new Thread(work);
    }
}"""), "a FastThreadLocalThread for allocator(true), and a Thread for allocator(false)"),
    "another thread each time": (lambda: compile_java("""
import io.netty.buffer.*;
import io.netty.util.concurrent.FastThreadLocalThread;
public class Duel {
    private static int calls;
    public static PooledByteBufAllocator allocator(boolean cached) {
        return new PooledByteBufAllocator(true, 1, 1, 8192, 9, cached ? 256 : 0, cached ? 64 : 0, false);
    }
    public static Thread newThread(Runnable work) {
        return calls++ % 2 == 0 ? new FastThreadLocalThread(work) : new Thread(work);
    }
}"""), "both sides run on the same kind of thread"),
    "started already": (duel(SIZES, "var thread = new FastThreadLocalThread(work); thread.start(); return thread;"),
                        "has been started already"),
    "forgets the work": (duel(SIZES, "return new FastThreadLocalThread();"), "Hand `work` to the thread's constructor"),
    "no thread": (duel(SIZES, "return null;"), "newThread(work) returns a thread"),
    "no allocator": (duel("return null;", "return new Thread(work);"), "returns a new PooledByteBufAllocator"),
    "throws": (duel("throw new IllegalStateException(\"hm\");", "return new Thread(work);"),
               "allocator(true) threw IllegalStateException: hm"),
    "not static": (lambda: compile_java("public class Duel { public Object allocator(boolean cached) { return null; } "
                                        "public static Thread newThread(Runnable work) { return null; } }"),
                   "it has to be public static"),
    "a method is missing": (lambda: compile_java("public class Duel { public static Object allocator(boolean c) "
                                             "{ return null; } }"),
                            "public static method newThread()"),
}

# ── 02.4 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def doubled(max_heap_bytes):
    size = _MIB
    while size < max_heap_bytes / 2048 and size < 32 * _MIB:
        size *= 2
    return size


def by_logarithm(max_heap_bytes):
    wanted = min(max(max_heap_bytes / 2048, _MIB), 32 * _MIB)
    return 2 ** math.ceil(math.log2(wanted))


REGIONS_ACCEPTED = {
    "doubled": doubled,
    "logarithm": by_logarithm,
    "bit length": lambda heap: 1 << (min(max(heap // 2048, _MIB), 32 * _MIB) - 1).bit_length(),
    "clamped last": lambda heap: min(max(1 << (heap // 2048 - 1).bit_length(), _MIB), 32 * _MIB),
    "a table": lambda heap: next((m * _MIB for m in (1, 2, 4, 8, 16) if heap <= 2048 * m * _MIB), 32 * _MIB),
    "numpy": lambda heap: numpy.int64(doubled(heap)),
    "a float": lambda heap: float(doubled(heap)),
}
REGIONS_REJECTED = {
    "always 1 MiB": (lambda heap: _MIB, "a heap of at most 2,049 MiB"),
    "a 2,048th": (lambda heap: heap // 2048, "yours:     32,768 bytes\n   expected:  1 MiB, which makes 64 regions"),
    "rounded down": (lambda heap: 1 << (min(max(heap // 2048, _MIB), 32 * _MIB).bit_length() - 1),
                     "2,049 MiB; a 2,048th of it is 1.00049 MiB\n   yours:     1 MiB\n"
                     "   expected:  2 MiB, which makes 1,025 regions"),
    "no least": (lambda heap: 1 << (min(heap // 2048, 32 * _MIB) - 1).bit_length(), "1 MiB is the least"),
    "no most": (lambda heap: 1 << (max(heap // 2048, _MIB) - 1).bit_length(), "32 MiB is the most that G1 takes"),
    "one step too far": (lambda heap: min(2 * doubled(heap), 32 * _MIB), "yours:     2 MiB\n   expected:  1 MiB"),
    "in MiB": (lambda heap: doubled(heap) // _MIB, "yours:     1 byte\n"),
    "not a power of two": (lambda heap: min(max(-(-heap // (2048 * _MIB)) * _MIB, _MIB), 32 * _MIB),
                           "a heap of at most 6,144 MiB; a 2,048th of it is 3 MiB\n   yours:     3 MiB\n"
                           "   expected:  4 MiB"),
    "a text": (lambda heap: "1m", "returns a number of bytes; got '1m'"),
    "True": (lambda heap: True, "returns a number of bytes"),
    "raises": (lambda heap: heap / 0, "your code raised ZeroDivisionError"),
    "a seventh of a byte": (lambda heap: heap / 2048 / 7, "yours:     4,681.14 bytes"),
    "in whole numbers": (lambda heap: doubled(heap) + 314, "yours:     1,048,890 bytes\n"),
    "a number": (_MIB, "check gets your function, region_size; got 1048576"),
}

# ── 02.5 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

RELEASES_ACCEPTED = {"a list": ["metrics", "upload"], "names in one text": "upload, metrics",
                     "a set": {"upload", "metrics"}, "a tuple": ("upload", "metrics"),
                     "a generator": (name for name in ("metrics", "upload"))}
RELEASES_REJECTED = {
    "nothing": ([], "0 of 4 chunks go back"),
    "one name": ("upload", "1 of 4 chunks go back\n   expected:  2\n   chunk 0: kept by session and log\n"
                           "   chunk 1: kept by metrics"),
    "the smallest ones": (["metrics", "ping"], "chunk 3: empty, and stays: it was never a quarter full"),
    "the first chunk": (["session", "log"], "1 of 4 chunks go back"),
    "too many": (["metrics", "upload", "log"], "3 buffers; 2 at most"),
    "gone already": (["get1", "upload"], "'get1' holds no buffer; these do: session, log, metrics, upload, ping"),
    "twice": (["upload", "upload"], "a buffer is released once, not twice"),
    "a number": (7, "the answer is a list of names"),
}

# ── all ──────────────────────────────────────────────────────────────────────────────────────────────────────────────

ACCEPTED = {
    "02.1": ROUNDING_ACCEPTED, "02.2": SEARCH_ACCEPTED, "02.3": DUELS_ACCEPTED,
    "02.4": {name: (lambda answer=answer: answer) for name, answer in REGIONS_ACCEPTED.items()},
    "02.5": {name: (lambda answer=answer: answer) for name, answer in RELEASES_ACCEPTED.items()},
}
REJECTED = {
    "02.1": ROUNDING_REJECTED, "02.2": SEARCH_REJECTED, "02.3": DUELS_REJECTED,
    "02.4": {name: (lambda answer=answer: answer, message) for name, (answer, message) in REGIONS_REJECTED.items()},
    "02.5": {name: (lambda answer=answer: answer, message) for name, (answer, message) in RELEASES_REJECTED.items()},
}


@pytest.fixture(autouse=True)
def quick(monkeypatch, request):
    start()
    if "picture" not in request.node.name:  # they are drawn all the same; turning them into PNG takes longest
        monkeypatch.setattr("pagedkv.viz.picture.Picture.png", lambda picture: b"")
    monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 10.0)


@pytest.mark.parametrize("exercise, name", [(exercise, name) for exercise, answers in ACCEPTED.items()
                                            for name in answers])
def test_a_right_answer_is_accepted(exercise, name):
    verdict = grade(find_exercise(exercise), ACCEPTED[exercise][name]())
    assert verdict.outcome == CORRECT, verdict


@pytest.mark.parametrize("exercise, name", [(exercise, name) for exercise, answers in REJECTED.items()
                                            for name in answers])
def test_a_wrong_answer_gets_the_message_it_deserves(exercise, name):
    answer, message = REJECTED[exercise][name]
    verdict = grade(find_exercise(exercise), answer())
    assert verdict.outcome == WRONG, verdict
    assert message in str(verdict), verdict


def test_every_exercise_has_enough_answers_here():
    for exercise in exercises_of("02"):
        assert len(ACCEPTED[exercise.id]) >= 2 and len(REJECTED[exercise.id]) >= 3


def test_java_placeholders_are_seen_when_they_run():
    for exercise, answer in (("02.1", rounding("throw new NotYet();")), ("02.2", search("throw new NotYet();")),
                             ("02.3", duel("throw new NotYet();", "return new Thread(work);")),
                             ("02.3", duel(SIZES, "throw new NotYet();"))):
        verdict = grade(find_exercise(exercise), answer())
        assert verdict.outcome == NOT_YET and "() still has its placeholder" in str(verdict), verdict


def test_a_function_that_returns_nothing_is_not_finished():
    assert grade(find_exercise("02.4"), lambda heap: None).outcome == NOT_YET


def test_a_java_class_is_no_function():
    verdict = grade(find_exercise("02.4"), compile_java("public class RegionSize { }"))
    assert verdict.outcome == WRONG and "check gets your function, region_size; got <java class" in verdict.message


def test_a_search_that_never_ends_is_stopped(monkeypatch):
    monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 1.0)
    verdict = grade(find_exercise("02.2"), search("while (memoryMap[1] <= depth) { } return -1;")())
    assert verdict.outcome == WRONG and verdict.message == "your code had not returned after 1 s and was stopped"


def test_counter_examples_have_pictures_with_alternative_text():
    tree = grade(find_exercise("02.2"), SEARCH_REJECTED["always to the left"][0]()).picture
    memory = grade(find_exercise("02.5"), ["metrics", "ping"]).picture
    assert tree[1] == "A tree over 8 pages; taken: node 8; value of the root: 1; expected: node 9; yours: node 8"
    assert memory[1].startswith("After the release of metrics and ping: a row is a chunk (Netty's arena (Java)), after event 23 of 23: ")
    assert all(data.startswith(b"\x89PNG") for data, _ in (tree, memory))
