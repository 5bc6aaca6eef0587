"""Notebook 04: every right answer is accepted, whatever its form; every wrong one gets the message it deserves.

ACCEPTED: exercise → answers of different kinds. REJECTED: exercise → (answers, a piece of the message it must get).
Java answers are compiled when they are needed.
"""

import subprocess
import sys
from fractions import Fraction
from functools import cache

import numpy
import pytest

from pagedkv.java.build import checkout
from pagedkv.lab.exercises import exercises_of, find_exercise
from pagedkv.lab.grading import CORRECT, NOT_YET, WRONG, grade
from tests.lab.exercises.java_answers import compile_java

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


class Java:
    """A Java answer that is not compiled yet."""

    def __init__(self, source):
        self.source = source


def compiled(answers):
    return tuple(_compiled_once(answer.source) if isinstance(answer, Java) else answer for answer in answers)


_compiled_once = cache(compile_java)


# ── 04.1 (B7) ────────────────────────────────────────────────────────────────────────────────────────────────────────


def translation(body):
    return Java("import pagedkv.exercise.TranslatesAddress;\npublic class Mine implements TranslatesAddress {\n"
                f"public long slot(int[] table, int position, int size) {{\n{body}\n}}\n}}")


REFUSE = "if (position < 0) throw new IndexOutOfBoundsException();"
TRANSLATIONS_ACCEPTED = {
    "straight": translation(REFUSE + "return (long) table[position / size] * size + position % size;"),
    "longs throughout": translation(REFUSE + "long b = table[position / size]; return b * size + position % size;"),
    "Math.multiplyFull": translation("int i = java.util.Objects.checkIndex(position, Integer.MAX_VALUE) / size;"
                                     "return Math.multiplyFull(table[i], size) + Math.floorMod(position, size);"),
    "floorDiv refuses": translation("return (long) table[Math.floorDiv(position, size)] * size + position % size;"
                                    .replace("return", "if (position == Integer.MAX_VALUE) throw new "
                                             "IllegalArgumentException(); return")),
    "the pool's own": translation("return pagedkv.table.AddressTranslation.slot(table, position, size);"),
}
TRANSLATIONS_REJECTED = {
    "nobody refuses": (translation("return (long) table[position / size] * size + position % size;"),
                       "position -1, blocks of 16:\n   yours:     slot 143, which is in block 8\n"
                       "   expected:  an exception: positions begin at 0"),
    "as Python would": (translation("int i = Math.floorDiv(position, size); if (i < 0) i += table.length;"
                                    "return (long) table[i] * size + Math.floorMod(position, size);"),
                        "slot 127, which is in block 7"),
    "an int": (translation(REFUSE + "return table[position / size] * size + position % size;"),
               "yours:     -2,147,483,648\n   expected:  2,147,483,648: -2,147,483,648 is what 32 bits leave of it"),
    "cast too late": (translation(REFUSE + "return (long) (table[position / size] * size) + position % size;"),
                      "compute in long"),
    "no table": (translation(REFUSE + "return position;"), "yours:     37\n   expected:  117"),
    "no offset": (translation(REFUSE + "return (long) table[position / size] * size;"),
                  "yours:     112\n   expected:  117: logical block 2, offset 5, physical block 7"),
    "shifts by four": (translation(REFUSE + "return (long) table[position >> 4] * size + (position & 15);"), "yours:"),
    "powers of two only": (translation(REFUSE + "return (long) table[position / size] * size + "
                                       "(position & (size - 1));"), "position 17, blocks of 12"),
    "refuses position 0": (translation("if (position <= 0) throw new IndexOutOfBoundsException(); return (long) "
                                       "table[position / size] * size + position % size;"), "position 0, blocks of 16"),
    "swaps the two": (translation(REFUSE + "return (long) table[position % table.length] * size + position / size;"),
                      "yours:"),
    "the end wraps": (translation(REFUSE + "return (long) table[position / size % table.length] * size + "
                                  "position % size;"),
                      "position 48, blocks of 16:\n   yours:     slot 144, which is in block 9\n"
                      "   expected:  an exception: the table has 3 blocks"),
    "-1 for a refusal": (translation("if (position < 0) return -1; return (long) table[position / size] * size + "
                                     "position % size;"), "slot -1, which is before the pool's beginning"),
    "asserts": (translation("assert position >= 0; return (long) table[position / size] * size + position % size;"),
                "position -1, blocks of 16:\n   yours:     an AssertionError\n   expected:  an exception. Here "
                "assertions are on, but a server runs without -ea"),
    "loops": (translation("while (true) { }"), "had not returned"),
    "a function": (lambda table, position, size: 0, "implements TranslatesAddress"),
}

# ── 04.2 (N8) ────────────────────────────────────────────────────────────────────────────────────────────────────────


class Growing:
    """Rounds up, all in one call."""

    def __init__(self, pool, block_size):
        self.pool, self.block_size = pool, block_size
        self.block_table, self.num_tokens = [], 0

    def append(self, n):
        needed = -(-(self.num_tokens + n) // self.block_size) - len(self.block_table)
        self.block_table += self.pool.allocate(needed)
        self.num_tokens += n


class OneByOne(Growing):
    """Takes block after block, and gives them back if it cannot have all."""

    def append(self, n):
        new = []
        try:
            while (len(self.block_table) + len(new)) * self.block_size < self.num_tokens + n:
                new += self.pool.allocate(1, owner="mine")
        except Exception:
            self.pool.release(new)
            raise
        self.block_table = (*self.block_table, *new)
        self.num_tokens += n


class GivesBackAnInt(Growing):
    """As OneByOne, with a slip in giving back."""

    def append(self, n):
        new = []
        try:
            while (len(self.block_table) + len(new)) * self.block_size < self.num_tokens + n:
                new += self.pool.allocate(1)
        except Exception:
            for block in new:
                self.pool.release(block)
            raise
        self.block_table += new
        self.num_tokens += n


class LooksFirst(Growing):
    def append(self, n):
        needed = (self.num_tokens + n + self.block_size - 1) // self.block_size - len(self.block_table)
        if needed > self.pool.num_free_blocks:
            raise MemoryError("not enough")
        for _ in range(needed):
            self.block_table.append(self.pool.allocate(1)[0])
        self.num_tokens += n


class TokenByToken(Growing):
    def append(self, n):
        for _ in range(n):
            if self.num_tokens == len(self.block_table) * self.block_size:
                self.block_table += self.pool.allocate(1)
            self.num_tokens += 1


class OneTooEarly(Growing):
    def append(self, n):
        needed = (self.num_tokens + n) // self.block_size + 1 - len(self.block_table)
        self.block_table += self.pool.allocate(needed)
        self.num_tokens += n


class RoundsDown(Growing):
    def append(self, n):
        self.block_table += self.pool.allocate((self.num_tokens + n) // self.block_size - len(self.block_table))
        self.num_tokens += n


class ForEachToken(Growing):
    def append(self, n):
        self.block_table += self.pool.allocate(n)
        self.num_tokens += n


class ForEachCall(Growing):
    def append(self, n):
        self.block_table += self.pool.allocate(-(-n // self.block_size))
        self.num_tokens += n


class OneBlockAtMost(Growing):
    def append(self, n):
        if self.num_tokens + n > len(self.block_table) * self.block_size:
            self.block_table += self.pool.allocate(1)
        self.num_tokens += n


class CountsFirst(Growing):
    def append(self, n):
        self.num_tokens += n
        needed = -(-self.num_tokens // self.block_size) - len(self.block_table)
        self.block_table += self.pool.allocate(needed)


class Swallows(Growing):
    def append(self, n):
        try:
            super().append(n)
        except Exception:
            pass


class NeverEnters(Growing):
    def append(self, n):
        table = list(self.block_table)
        super().append(n)
        self.block_table = table


class NewOnesFirst(Growing):
    def append(self, n):
        old = self.block_table
        self.block_table = []
        needed = -(-(self.num_tokens + n) // self.block_size) - len(old)
        try:
            self.block_table = self.pool.allocate(needed) + old
        except Exception:
            self.block_table = old
            raise
        self.num_tokens += n


class OwnNumbers(Growing):
    def append(self, n):
        while len(self.block_table) * self.block_size < self.num_tokens + n:
            self.block_table.append(len(self.block_table))
        self.num_tokens += n


class HoldsOneMore(Growing):
    def append(self, n):
        needed = -(-(self.num_tokens + n) // self.block_size) - len(self.block_table)
        self.block_table += self.pool.allocate(needed + 1)[:needed]
        self.num_tokens += n


class NestedLists(Growing):
    def append(self, n):
        self.block_table.append(self.pool.allocate(-(-(self.num_tokens + n) // self.block_size)))
        self.num_tokens += n


class NoCount(Growing):
    def append(self, n):
        super().append(n)
        self.num_tokens -= n


class HalfWritten(Growing):
    def append(self, n):
        ...


SEQUENCES_REJECTED = {
    "one too early": (OneTooEarly, "2 blocks, no new block: the last block has room for 1, 1 token comes"),
    "rounds down": (RoundsDown, "expected:  2 blocks, 2 new blocks: it has no block yet, 5 tokens come"),
    "a block for each token": (ForEachToken, "5 blocks"),
    "a block for each call": (ForEachCall, "no new block: the last block has room for 3, 1 token comes"),
    "one block at most": (OneBlockAtMost, "expected:  2 blocks, 2 new blocks"),
    "token by token": (TokenByToken, "a prompt of which only a part would fit\n   a pool of 3 blocks, 4 tokens each: "
                                     "B.append(12)\n   before:    A.append(4)\n   yours:     2 blocks more are taken "
                                     "from the pool, although it raised\n   expected:  OutOfBlocks, and nothing has "
                                     "changed: 3 blocks needed, 2 free"),
    "gives back an int": (GivesBackAnInt, "2 blocks more are taken from the pool, although it raised TypeError: blocks "
                                          "are given as a list, such as [7], got"),
    "counts first": (CountsFirst, "num_tokens is 9\n   expected:  8"),
    "swallows the refusal": (Swallows, "yours:     raised nothing"),
    "enters nothing": (NeverEnters, "block_table [], 0 blocks"),
    "new ones first": (NewOnesFirst, "first, as before: new blocks are entered behind the others"),
    "numbers of its own": (OwnNumbers, "blocks that the pool gave out; 0 is none of them"),
    "one more": (HoldsOneMore, "every block that is taken is entered"),
    "lists in a list": (NestedLists, "a list of blocks, one number each"),
    "does not count": (NoCount, "num_tokens is 0\n   expected:  5"),
    "an object": (Growing(None, 4), "check gets your class"),
    "no append": (type("NoAppend", (), {}), "your class has no method append()"),
    "no block size": (type("NoSize", (), {"__init__": lambda self, pool: setattr(self, "pool", pool),
                                          "append": lambda self, n: n + 1}), "your code raised TypeError"),
}

# ── 04.3 (B6) ────────────────────────────────────────────────────────────────────────────────────────────────────────


def store(fields, append, lookup, remove):
    return Java("import pagedkv.table.TableStore;\npublic class Mine implements TableStore {\n" + fields
                + f"\npublic void append(long s, int b) {{ {append} }}\npublic int lookup(long s, int i) {{ {lookup} }}"
                f"\npublic int[] remove(long s) {{ {remove} }}\n}}")


LISTS = "final Map<Long, List<Integer>> map = new HashMap<>();"
ADD = "map.computeIfAbsent(s, id -> new ArrayList<>()).add(b);"
GET = "return map.get(s).get(i);"
TAKE = "return map.remove(s).stream().mapToInt(Integer::intValue).toArray();"
ARRAYS = "final Map<Long, int[]> map = new TreeMap<>();"
COPY = ("int[] old = map.getOrDefault(s, new int[0]); int[] t = Arrays.copyOf(old, old.length + 1); "
        "t[old.length] = b; map.put(s, t);")
SPARE = ("final Map<Long, int[]> map = new HashMap<>(); final Map<Long, Integer> lengths = new HashMap<>();")
GROW = ("int n = lengths.getOrDefault(s, 0); int[] t = map.getOrDefault(s, new int[4]); if (n == t.length) "
        "t = Arrays.copyOf(t, 2 * n); t[n] = b; map.put(s, t); lengths.put(s, n + 1);")
CHECKED = "Objects.checkIndex(i, lengths.get(s)); return map.get(s)[i];"
CUT = "int n = lengths.remove(s); return Arrays.copyOf(map.remove(s), n);"
STORES_ACCEPTED = {
    "lists": store(LISTS, ADD, GET, TAKE),
    "arrays that are copied": store(ARRAYS, COPY, "return map.get(s)[i];",
                                    "int[] t = map.remove(s); if (t == null) throw new NoSuchElementException(); "
                                    "return t;"),
    "arrays with room to spare": store(SPARE, GROW, CHECKED, CUT),
    "the course's": store("final pagedkv.table.TwoLevelTable t = new pagedkv.table.TwoLevelTable();", "t.append(s, b);",
                          "return t.lookup(s, i);", "return t.remove(s);"),
}
STORES_REJECTED = {
    "a linked list": (store(LISTS, ADD.replace("ArrayList", "LinkedList"), GET, TAKE),
                      "every answer is right, but a lookup at a random place of a table of 2,000 blocks"),
    "a chain of nodes": (store("final pagedkv.table.LinkedTable t = new pagedkv.table.LinkedTable();",
                               "t.append(s, b);", "return t.lookup(s, i);", "return t.remove(s);"),
                         "A list of nodes is walked"),
    "dense": (store("final int[][] rows = new int[64][8]; final int[] n = new int[64];",
                    "rows[(int) s][n[(int) s]++] = b;", "Objects.checkIndex(i, n[(int) s]); return rows[(int) s][i];",
                    "int k = n[(int) s]; if (k == 0) throw new NoSuchElementException(); n[(int) s] = 0; return "
                    "Arrays.copyOf(rows[(int) s], k);"),
              "ids are not row numbers: append(-3, 4)\n   before:    append(1099511627776, 9)\n"
              "   yours:     threw ArrayIndexOutOfBoundsException"),
    "ids cut to int": (store(LISTS, "map.computeIfAbsent((long) (int) s, id -> new ArrayList<>()).add(b);",
                             "return map.get((long) (int) s).get(i);",
                             TAKE.replace("remove(s)", "remove((long) (int) s)")),
                       "ids are not row numbers: lookup(1099511627776, 1)\n   before:    append(1099511627776, 9), "
                       "append(-3, 4), append(4294967296, 1), append(0, 2), lookup(1099511627776, -1): refused, "
                       "lookup(1099511627776, 0)\n   yours:     1\n   expected:  an exception: sequence 1099511627776 "
                       "has 1 block. As an int, 2^40 and 2^32 are the same"),
    "reads what is spare": (store(SPARE, GROW, "return map.get(s)[i];", CUT),
                            "yours:     0\n   expected:  an exception: sequence 7 has 3 blocks"),
    "returns what is spare": (store(SPARE, GROW, CHECKED, "lengths.remove(s); return map.remove(s);"), "remove(7)"),
    "null for unknown": (store(ARRAYS, COPY, "return map.get(s)[i];", "return map.remove(s);"),
                         "append(7, 9), lookup(3, 0): refused\n   yours:     null\n"
                         "   expected:  an exception: there is no sequence 3"),
    "-1 for unknown": (store(LISTS, ADD, "return map.containsKey(s) ? map.get(s).get(i) : -1;", TAKE),
                       "lookup(7, 0)\n   yours:     -1\n   expected:  an exception: there is no sequence 7"),
    "negative ones from behind": (store(LISTS, ADD, "var t = map.get(s); return t.get(i < 0 ? t.size() + i : i);",
                                        TAKE),
                                  "lookup(7, -1)\n   before:    append(7, 9), append(7, 4), append(7, 7)\n"
                                  "   yours:     7\n   expected:  an exception: sequence 7 has 3 blocks"),
    "forgets to remove": (store(LISTS, ADD, GET, TAKE.replace("remove", "get")), "yours:"),
    "backwards": (store(LISTS, "map.computeIfAbsent(s, id -> new ArrayList<>()).add(0, b);", GET, TAKE),
                  "the table of 7"),
    "one table for all": (store("static " + LISTS, ADD, GET, TAKE),
                          "a sequence that is not there: lookup(7, 0)\n   yours:     9\n   expected:  an exception: "
                          "there is no sequence 7. A new object knows the sequences of another: is a field static?"),
    "1,024 rows": (store("final Map<Long, Integer> rows = new HashMap<>(); final Deque<Integer> free = new "
                         "ArrayDeque<>(IntStream.range(0, 1024).boxed().toList()); final int[][] t = new int[1024][];",
                         "int r = rows.computeIfAbsent(s, id -> { int f = free.pop(); t[f] = new int[0]; return f; }); "
                         "t[r] = Arrays.copyOf(t[r], t[r].length + 1); t[r][t[r].length - 1] = b;",
                         "return t[rows.get(s)][i];", "int r = rows.remove(s); free.push(r); return t[r];"),
                   "3,000 sequences at once: append(1024003072, 2048)"),
    "asserts": (store(ARRAYS, COPY, "assert map.containsKey(s); return map.get(s)[i];", "return map.remove(s);"),
                "lookup(7, 0)\n   yours:     an AssertionError\n   expected:  an exception. Here assertions are on"),
    "replaces": (store(LISTS, "map.put(s, new ArrayList<>(List.of(b)));", GET, TAKE),
                 "one sequence: lookup(7, 0)"),
    "block 0 is none": (store(LISTS, ADD, "int b = map.get(s).get(i); if (b == 0) throw new NoSuchElementException(); "
                              "return b;", TAKE), "block 0 is a block: lookup(7, 0)"),
    "a set": (store(LISTS, "var t = map.computeIfAbsent(s, id -> new ArrayList<>()); if (!t.contains(b)) t.add(b);",
                    GET, TAKE), "block 0 is a block"),
    "another class": (Java("public class Mine { }"), "implements TableStore"),
    "wants an argument": (Java("import pagedkv.table.*;\npublic class Mine implements TableStore { "
                               "public Mine(int n) {} public void append(long s, int b) {} "
                               "public int lookup(long s, int i) { return 0; } "
                               "public int[] remove(long s) { return null; } }"),
                          "a public constructor without param"),
}

# ── 04.4 (B4) ────────────────────────────────────────────────────────────────────────────────────────────────────────


def utilisation(lengths, block_size):
    return sum(lengths) / (block_size * sum(-(-length // block_size) for length in lengths))


def rounded_down(lengths, block_size):
    return sum(lengths) / (block_size * sum(length // block_size or 1 for length in lengths))


def together(lengths, block_size):
    return sum(lengths) / (block_size * -(-sum(lengths) // block_size))


def mean_of_shares(lengths, block_size):
    return sum(length / (-(-length // block_size) * block_size) for length in lengths) / len(lengths)


def one_block_more(lengths, block_size):
    return sum(lengths) / (block_size * sum(length // block_size + 1 for length in lengths))


def percent(lengths, block_size):
    return 100 * utilisation(lengths, block_size)


def half_written(lengths, block_size):
    total = sum(lengths)
    del total


# ── 04.5 (N6, S1, B8) ────────────────────────────────────────────────────────────────────────────────────────────────

RIGHT = [320 * MIB, 32 * 2000 * 512 * KIB, 256 * 128 * 115 // 100 * 16 * MIB]
CAUGHT = ["heads", "tokens", "layers"]


def with_size(number, size):
    return RIGHT[:number - 1] + [size] + RIGHT[number:], CAUGHT


def with_slip(number, slip):
    return RIGHT, CAUGHT[:number - 1] + [slip] + CAUGHT[number:]


ACCEPTED = {
    "04.1": {name: (answer,) for name, answer in TRANSLATIONS_ACCEPTED.items()},
    "04.2": {"in one call": (Growing,), "one by one": (OneByOne,), "looks first": (LooksFirst,)},
    "04.3": {name: (answer,) for name, answer in STORES_ACCEPTED.items()},
    "04.4": {"as shown": (utilisation, [48], "B"), "in lower case": (utilisation, (48, 47, 20), " b "),
             "numpy's": (lambda lengths, size: float(utilisation(numpy.array(lengths), size)),
                         numpy.array([40, 47]), "B"),
             "a fraction": (lambda lengths, size: Fraction(sum(lengths), size * sum(-(-n // size) for n in lengths)),
                            [33] * 5, "B")},
    "04.5": {"lists": (RIGHT, CAUGHT), "heads in the third": (RIGHT, ["layers", "width", "heads"]),
             "floats": (tuple(map(float, RIGHT)), ("Heads", "width", "prefix")),
             "by number": (dict(enumerate(RIGHT, 1)), dict(enumerate(CAUGHT, 1))),
             "several slips": (RIGHT, [{"heads", "layers"}, "tokens", ["layers", "prefix"]]),
             "rounded": ([320 * MIB, 31.25 * GIB, 588.8 * GIB], CAUGHT), "numpy's": (numpy.array(RIGHT), CAUGHT)},
}
REJECTED = {
    "04.1": {name: ((answer,), message) for name, (answer, message) in TRANSLATIONS_REJECTED.items()},
    "04.2": {name: ((answer,), message) for name, (answer, message) in SEQUENCES_REJECTED.items()},
    "04.3": {name: ((answer,), message) for name, (answer, message) in STORES_REJECTED.items()},
    "04.4": {
        "rounds down": ((rounded_down, [48], "B"), "utilisation([17], 16)\n   yours:     1.0625\n"
                        "   expected:  0.5312: 17 tokens in 2 blocks of 16"),
        "one block more": ((one_block_more, [48], "B"), "utilisation([1], 1)\n   yours:     0.5000\n"
                           "   expected:  1.0000: 1 token in 1 block of 1"),
        "all in one": ((together, [48], "B"), "102 tokens in 8 blocks of 16"),
        "the mean of shares": ((mean_of_shares, [48], "B"), "102 tokens in 8 blocks of 16"),
        "percent": ((percent, [48], "B"), "(a share, not percent)"),
        "a text": ((lambda lengths, size: "94 %", [48], "B"), "expected:  a number"),
        "no function": (([48], [48], "B"), "first comes your function"),
        "32 wins": ((utilisation, [32, 64], "B"), "lengths [32, 64]\n   yours:     100.0 % with 32"),
        "a tie": ((utilisation, [96], "B"), "Where does a block of 48 end and one of 32 not?"),
        "a number": ((utilisation, 48, "B"), "lengths is a list of numbers of tokens"),
        "no lengths": ((utilisation, [], "B"), "lengths has at least one length"),
        "a length of 0": ((utilisation, [48, 0], "B"), "each is at least 1 token"),
        "A": ((utilisation, [48], "A"), "it cannot rise: two small blocks never hold less in more slots"),
        "C": ((utilisation, [48], "C"), "yours:     C is 43.5 %, 43.5 %, 43.5 %, 43.5 %: it cannot change"),
        "D": ((utilisation, [48], "D"), 'column is one of the three, "A", "B" or "C"'),
    },
    "04.5": {
        "the claims": (([16 * MIB, 64e9, 21e6], CAUGHT), "yours:     16 MiB, which is the claim"),
        "heads left out": (with_size(1, 40 * MIB), "yours:     40 MiB, which comes out with 8 KV heads left out"),
        "query heads": (with_size(1, 2560 * MIB), "64 query heads instead of 8 KV heads"),
        "keys only": (with_size(1, 160 * MIB), "K without V"),
        "in MiB": (with_size(1, 320), "in bytes, please"),
        "4,096 tokens": (with_size(2, 64 * GIB), "claim 2, Llama-2-7B: 32 requests"),
        "one request": (with_size(2, 2000 * 512 * KIB), " or one sequence instead of 32"),
        "one layer": (with_size(3, 18.4 * GIB), "18.40 GiB, which comes out with 32 KV heads left out or "
                                                "32 layers left out"),
        "no slack": (with_size(3, 512 * GIB), "the factor 1.15 left out"),
        "words": (with_size(2, "31 GiB"), "expected:  a number of bytes"),
        "zero": (with_size(2, 0), "expected:  a number of bytes"),
        "no number": (with_size(2, float("inf")), "yours:     inf\n   expected:  a number of bytes"),
        "another slip": (with_slip(1, "tokens"), "2,048 tokens instead of 1,024 it would be 640 MiB: 2 times more, not "
                                                 "20 times less"),
        "a thousand": (with_slip(1, "prefix"), "it would be 320 KiB: 1,024 times less, not 20 times less\n   "
                                               "expected:  a slip that, alone or with another, makes 16 MiB of 320 MiB"),
        "layers": (with_slip(2, "layers"), "yours:     layers: with 80 layers, as another model has, instead of 32 it "
                                           "would be 78.12 GiB: 2.5 times more, not 1.91 times more"),
        "a small one": (with_slip(3, "width"), "1 B per number (int8) instead of 2 B it would be 294.40 GiB: 2 times "
                                               "less, not 30,100 times less"),
        "no such slip": (with_slip(3, "luck"), "expected:  one of K and V, heads"),
        "two of three": ((RIGHT[:2], CAUGHT), "right_bytes has 2 entries"),
        "one number": ((320 * MIB, CAUGHT), "right_bytes is a list"),
        "a claim without an answer": (({1: 320 * MIB}, CAUGHT), "right_bytes has nothing for claim 2"),
        "a text": ((RIGHT, "heads"), "slips is a list"),
    },
}


@pytest.mark.parametrize("exercise, name", [(each, name) for each, answers in ACCEPTED.items() for name in answers])
def test_a_right_answer_is_accepted(exercise, name):
    verdict = grade(find_exercise(exercise), *compiled(ACCEPTED[exercise][name]))
    assert verdict.outcome == CORRECT, verdict


@pytest.mark.parametrize("exercise, name", [(each, name) for each, answers in REJECTED.items() for name in answers])
def test_a_wrong_answer_gets_the_message_it_deserves(exercise, name, monkeypatch):
    answers, message = REJECTED[exercise][name]
    answers = compiled(answers)
    if name == "loops":
        monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 1.0)
    verdict = grade(find_exercise(exercise), *answers)
    assert verdict.outcome == WRONG, verdict
    assert message in str(verdict), verdict


def test_every_exercise_has_enough_answers_here():
    for exercise in exercises_of("04"):
        assert len(ACCEPTED[exercise.id]) >= 2 and len(REJECTED[exercise.id]) >= 3


@pytest.mark.parametrize("exercise, answers", [
    ("04.1", (translation("throw new NotYet();"),)), ("04.2", (HalfWritten,)),
    ("04.3", (store("", "throw new NotYet();", "throw new NotYet();", "throw new NotYet();"),)),
    ("04.3", (store(LISTS, ADD, GET, "throw new NotYet();"),)),
    ("04.4", (utilisation, ..., "B")), ("04.4", (half_written, [48], "B")), ("04.5", ([..., ..., ...], CAUGHT)),
    ("04.5", (RIGHT, [..., "tokens", "layers"]))])
def test_what_is_not_written_yet_is_not_wrong(exercise, answers):
    assert grade(find_exercise(exercise), *compiled(answers)).outcome == NOT_YET


@pytest.mark.parametrize("exercise, name, alt", [("04.1", "nobody refuses", "position -1"),
                                                 ("04.1", "no offset", "37"),
                                                 ("04.2", "token by token", "The pool at call 2, B.append(12)")])
def test_the_counter_example_has_a_picture_with_alternative_text(exercise, name, alt):
    verdict = grade(find_exercise(exercise), *compiled(REJECTED[exercise][name][0]))
    assert verdict.picture[0].startswith(b"\x89PNG") and alt in verdict.picture[1]


def test_what_is_right_about_the_claims():
    said = str(grade(find_exercise("04.5"), RIGHT, CAUGHT))
    assert ("32 KV heads left out + a thousand too few: MiB for GiB,\n      or 32 layers left out + a thousand too few: "
            "MiB for GiB (the figure alone cannot tell which)") in said
    assert ("That makes 18.4 MiB = 19.3 MB; 8 % remain, of which the factor 1.15 taken twice would explain all but "
            "0.8 %") in said


def test_a_column_that_rises_is_named():
    said = str(grade(find_exercise("04.4"), utilisation, [48], "B"))
    assert "a column that rises\n   says how much was allocated, as B does" in said


def test_pure_python_needs_no_jvm():
    """After a restart of the kernel a learner may begin with any exercise."""
    code = ("import jpype\n"
            "from pagedkv.lab.exercises import find_exercise\n"
            "from pagedkv.lab.grading import grade\n"
            "from tests.lab.exercises import test_nb04 as these\n"
            "for exercise in ('04.2', '04.4', '04.5'):\n"
            "    for answers in these.ACCEPTED[exercise].values():\n"
            "        print(grade(find_exercise(exercise), *answers).outcome)\n"
            "print(grade(find_exercise('04.1'), object()))\n"
            "assert not jpype.isJVMStarted()")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=checkout())
    *outcomes, refused = run.stdout.splitlines()
    assert set(outcomes) == {CORRECT} and "check gets your Java class" in refused
