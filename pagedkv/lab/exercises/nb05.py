"""The exercises of notebook 05, sharing."""

import operator
import random
from collections.abc import Iterable
from typing import Any

from pagedkv.core.errors import OutOfBlocks
from pagedkv.core.events import Event
from pagedkv.java import jclass
from pagedkv.java.pool import JavaPool
from pagedkv.lab.counter_example import counter_example
from pagedkv.lab.exercises.java_classes import is_java_class, static_method
from pagedkv.lab.grading import Exercise, NotYet, Wrong, describe_error, is_java
from pagedkv.lab.pool_trial import draw_two
from pagedkv.lab.sharing_eviction import CachedBlock, SmallPool, random_tree, right_victims
from pagedkv.lab.sharing_index import try_index
from pagedkv.lab.sharing_writes import try_writer

# ── 05.1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_POOL_OF = 12
# name → blocks of A, shared ones, own ones, who leaves first
PREFIX_CASES = {
    "A leaves first": (5, 3, 1, "A"),
    "B leaves first": (5, 3, 1, "B"),
    "B has none of its own": (4, 2, 0, "A"),
    "nothing is shared": (3, 0, 2, "B"),
    "all of A is shared": (3, 3, 4, "A"),
}


def shared_prefix_in_java(answer) -> str:
    """B's table begins with A's blocks; whoever leaves first, in the end every block is free; all or nothing."""
    share = _as_share(answer)
    for name, (of_a, shared, own, first) in PREFIX_CASES.items():
        _share_and_leave(share, name, of_a, shared, own, first)
    _share_from_b(share)
    _share_too_much(share)
    rng = random.Random(1)
    for _ in range(30):
        of_a = rng.randint(1, 8)
        shared, own = rng.randint(0, of_a), rng.randint(0, _POOL_OF - of_a)
        _share_and_leave(share, "a random case", of_a, shared, own, rng.choice("AB"))
    return (f"{len(PREFIX_CASES) + 2} named cases and 30 random ones: no block is lost, "
            "and B reads its prefix where A wrote it")


def _as_share(answer) -> Any:
    shares = jclass("pagedkv.exercise.SharesPrefix")
    if isinstance(answer, shares):
        return answer.share
    if is_java_class(answer) and issubclass(answer, shares):
        return answer().share
    return static_method(answer, "share")


class _Prefix:
    """A pool with A's table, and what was said of B's."""

    def __init__(self, name: str, of_a: int):
        self.name = name
        self.pool = jclass("pagedkv.pool.BlockPool")(_POOL_OF)
        self.a = jclass("pagedkv.exercise.BareTable")(self.pool, "A")
        self.a.allocate(of_a)
        self.events: list[Event] = []
        JavaPool(self.pool).observer = self.events.append

    def share(self, share, table, shared: int, own: int, owner: str) -> Any:
        self.events.clear()
        new = share(table, shared, own, self.pool, owner)
        for event in self.events:
            if event.op in ("allocate", "retain") and event.owner not in (None, owner):
                raise counter_example(self.name, f'pool.{event.op}(…, "{event.owner}")',
                                      f'"{owner}": these references are {owner}\'s, and a leak report would blame '
                                      f"{event.owner}")
        if new is None:
            raise Wrong(f"{self.name}: share() returned null; expected: the new table")
        if not hasattr(new, "blocks"):
            raise Wrong(f"{self.name}: share() returned {new!r:.60}; expected: a BareTable")
        return new

    def expect(self, when: str, tables: Iterable[Any]) -> None:
        """Each block is counted as often as it stands in a table."""
        counts = [int(count) for count in self.pool.refcounts()]
        listed = [int(block) for table in tables for block in table.blocks()]
        expected = [listed.count(block) for block in range(_POOL_OF)]
        wrong = [block for block in range(_POOL_OF) if counts[block] != expected[block]]
        if wrong:
            lost = counts.count(0) < expected.count(0) and not listed
            yours = f"{_POOL_OF - counts.count(0)} blocks never come back" if lost else \
                f"block {wrong[0]} has refcount {counts[wrong[0]]}"
            right = f"all {_POOL_OF} are free" if lost else f"{expected[wrong[0]]}, since it stands in so many tables"
            raise counter_example(f"{self.name}; {when}", yours, right, draw_two(counts, expected, wrong, when))


def _share_and_leave(share, name: str, of_a: int, shared: int, own: int, first: str) -> None:
    """A has blocks, B shares some, one of them leaves, then the other."""
    case = _Prefix(f"{name}: A has {of_a} blocks, B shares {shared} and takes {own} more", of_a)
    before = _ints(case.a.blocks())
    b = case.share(share, case.a, shared, own, "B")
    of_b = _ints(b.blocks())
    new = of_b[shared:]
    if _ints(case.a.blocks()) != before:
        raise counter_example(case.name, f"the table of A is now {_ints(case.a.blocks())}", f"{before}, as before")
    if of_b[:shared] != before[:shared] or len(new) != own:
        raise counter_example(case.name, f"the table of B is {of_b}",
                              f"{before[:shared]}, then {own} new: else B cannot find its own beginning")
    if set(new) & set(before) or len(set(new)) != own:
        raise counter_example(case.name, f"the table of B is {of_b}", f"new blocks after {before[:shared]}")
    case.expect("both are there", [case.a, b])
    leaving, staying = (case.a, b) if first == "A" else (b, case.a)
    leaving.close()
    case.expect(f"{first} has left", [staying])
    staying.close()
    case.expect("both have left", [])


def _share_from_b(share) -> None:
    case = _Prefix("C shares 3 of B's blocks, of which 2 are A's", 4)
    b = case.share(share, case.a, 2, 1, "B")
    c = case.share(share, b, 3, 1, "C")
    if _ints(c.blocks())[:3] != _ints(b.blocks()):
        raise counter_example(case.name, f"the table of C is {_ints(c.blocks())}",
                              f"{_ints(b.blocks())}, then a new one")
    case.expect("all are there", [case.a, b, c])
    for table, left in ((b, [case.a, c]), (case.a, [c]), (c, [])):
        table.close()
        case.expect(f"{table.owner()} has left", left)


def _share_too_much(share) -> None:
    case = _Prefix(f"A has 5 of {_POOL_OF} blocks, B shares 3 and wants 8 more, 7 are free", 5)
    expected = "the pool's OutOfBlocksException goes on to the caller"
    try:
        share(case.a, 3, 8, case.pool, "B")
    except Exception as error:
        if is_java(error, "pagedkv.exercise.NotYet"):
            raise
        if not is_java(error, "pagedkv.pool.OutOfBlocksException"):
            raise counter_example(case.name, f"threw {describe_error(error)}", expected) from None
    else:
        raise counter_example(case.name, "the call went through", expected)
    case.expect("the call was refused", [case.a])


def _ints(blocks) -> list[int]:
    return [int(block) for block in blocks]


# ── 05.2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def chained_index(index_class) -> str:
    """An index that finds the longest beginning, and nothing that is not there."""
    if not isinstance(index_class, type):
        raise Wrong(f"check gets your class, such as check(\"05.2\", MyIndex); got {index_class!r:.80}")
    for name in ("insert", "longest_prefix"):
        if not callable(getattr(index_class, name, None)):
            raise Wrong(f"your class has no method {name}()")
    return try_index(index_class)


# ── 05.3 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def writes_after_a_copy(answer) -> str:
    """A sequence in Java that copies a shared last block before it writes."""
    return try_writer(answer)


# ── 05.4 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_Nodes = list[CachedBlock]
VICTIM_CASES: dict[str, _Nodes] = {
    "one chain": [CachedBlock(4, None, 0, 1), CachedBlock(2, 4, 0, 1), CachedBlock(7, 2, 0, 1)],
    "one chain, listed from its end": [CachedBlock(7, 2, 0, 1), CachedBlock(2, 4, 0, 1), CachedBlock(4, None, 0, 1)],
    "two chains": [CachedBlock(1, None, 0, 5), CachedBlock(2, 1, 0, 5), CachedBlock(3, None, 0, 3),
                   CachedBlock(4, 3, 0, 3)],
    "one beginning, two endings": [CachedBlock(1, None, 0, 6), CachedBlock(2, 1, 0, 6), CachedBlock(3, 1, 0, 4)],
    "a held block": [CachedBlock(1, None, 1, 2), CachedBlock(2, None, 0, 3)],
    "a held chain, and the rest of another": [CachedBlock(1, None, 2, 9), CachedBlock(2, 1, 1, 9),
                                              CachedBlock(3, 1, 0, 7), CachedBlock(4, 3, 0, 6)],
    "block 0 is a parent": [CachedBlock(0, None, 0, 2), CachedBlock(3, 0, 0, 2)],
    # as a manager leaves it where a block was computed twice: what follows hangs under one that nobody holds any more
    "nobody holds the parent, somebody what is below": [CachedBlock(1, None, 0, 2), CachedBlock(2, 1, 1, 3)],
    "every block is held": [CachedBlock(1, None, 1, 2), CachedBlock(2, 1, 1, 2)],
    "nothing is cached": [],
}
_TREES = 60


def victim_chosen(next_victim) -> str:
    """Nobody's block, with none below it, unused for the longest time."""
    for name, cached in VICTIM_CASES.items():
        _drain(next_victim, name, cached)
    for seed in range(_TREES):  # the smallest first, so that a counter-example can be read
        _drain(next_victim, "a random cache", random_tree(seed, 2 + seed // 4))
    return f"{len(VICTIM_CASES)} named caches and {_TREES} random ones, each until nothing may go"


def _drain(next_victim, name: str, cached: _Nodes) -> None:
    """Evict one after the other, until None may go."""
    cached, gone = list(cached), []
    while True:
        right, situation = right_victims(cached), _situation(name, cached, gone)
        try:
            answer = next_victim(list(cached))
        except NotYet:
            raise
        except Exception as error:
            expected = f"block {min(right)}" if right else "None: no block may go"
            raise counter_example(situation, f"raised {describe_error(error)}", expected) from None
        if answer is None and not right:
            return
        victim = _as_victim(answer, situation)
        if victim not in right:
            expected = " or ".join(f"block {block}" for block in sorted(right)) or "None: no block may go"
            raise counter_example(situation, "None" if victim is None else f"block {victim}",
                                  f"{expected}{_why_not(victim, cached)}")
        cached = [node for node in cached if node.block != victim]
        gone.append(victim)


def _as_victim(answer, situation: str) -> int | None:
    if answer is None:
        return None
    if isinstance(answer, CachedBlock):
        return answer.block
    try:
        if isinstance(answer, bool):
            raise TypeError
        return operator.index(answer)
    except TypeError:
        raise counter_example(situation, f"{answer!r:.60}", "the id of a block, or None") from None


def _why_not(victim: int | None, cached: _Nodes) -> str:
    node = next((node for node in cached if node.block == victim), None)
    if victim is None and any(node.block == 0 for node in cached):
        return ". 0 is a block too: ask for `is None`, for `not 0` is true"
    if node is None:
        return "" if victim is None else f": there is no block {victim} in the cache"
    below = [other.block for other in cached if other.parent == victim]
    if node.refcount:
        return f". Somebody holds block {victim}"
    if below:
        zero = "" if victim else ". (0 is a parent too: `if node.parent` is false for it, `is not None` is true)"
        return f". Without block {victim}, nothing finds block {below[0]} any more{zero}"
    return f". Block {victim} was used later"


def _situation(name: str, cached: _Nodes, gone: list[int]) -> str:
    after = f", after {', '.join(map(str, gone))}" if gone else ""
    rows = "".join(f"\n   block {node.block:2}  parent {'-' if node.parent is None else node.parent:>2}  "
                   f"refcount {node.refcount}  last used {node.last_used}" for node in cached)
    return f"{name}{after}{rows or chr(10) + '   no cached blocks'}"


# ── 05.5 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

# name → (empty, cached, held), tokens of the prompt, hits, tokens in a block
ADMISSION_CASES = {
    "nothing is cached": (([0, 1, 2, 3], [], {}), 10, [], 4),
    "the last block is full": (([0, 1], [], {}), 8, [], 4),
    "one token": (([0], [], {}), 1, [], 4),
    "the hits are held by somebody": (([0, 1], [], {5: 1, 6: 2}), 16, [5, 6], 4),
    "nobody holds the hits, and it just fits": (([0, 1, 2], [7, 8], {}), 20, [7, 8], 4),
    "5 are free, 2 of them are the hits, 4 more are needed": (([0, 1, 2], [7, 8], {}), 24, [7, 8], 4),
    "the hits would be evicted first": (([0], [7, 8, 9], {}), 12, [7], 4),
    "one hit is held, one is not": (([0], [7, 9], {5: 1}), 16, [5, 7], 4),
    "a hit in the middle of the order": (([], [7, 8, 9], {}), 12, [8], 4),
    "cached blocks are free, once": (([0], [7, 8], {}), 16, [], 4),
    "refused, and the first hit was to be evicted next": (([], [7, 8, 9], {4: 1}), 20, [4, 7], 4),
    "more than the whole pool": (([0, 1], [], {}), 100, [], 4),
}
_PROMPTS = 200


def prompt_admitted(admit) -> str:
    """The table of a prompt, or None and nothing has changed."""
    for name, case in ADMISSION_CASES.items():
        _admit(admit, name, *case)
    rng = random.Random(1)
    for _ in range(_PROMPTS):
        _admit(admit, "a random pool", *_random_admission(rng))
    return f"{len(ADMISSION_CASES)} named cases and {_PROMPTS} random ones"


def _admit(admit, name: str, pool_of: tuple, num_tokens: int, hits: list[int], block_size: int) -> None:
    pool = SmallPool(*pool_of)
    num_new = -(-num_tokens // block_size) - len(hits)
    num_idle_hits = sum(block in pool.cached for block in hits)
    fits = num_new <= pool.num_free_blocks - num_idle_hits
    situation = f"{name}\n   {pool}\n   admit(pool, {num_tokens}, {hits}, {block_size})"
    room = f"{num_new} new blocks are needed, {pool.num_free_blocks - num_idle_hits} can be had"
    before, given = pool.state(), list(hits)
    try:
        answer = admit(pool, num_tokens, given, block_size)
    except NotYet:
        raise
    except Exception as error:
        if fits or not isinstance(error, OutOfBlocks):
            raise counter_example(situation, f"raised {describe_error(error)}",
                                  f"{'a table' if fits else 'None'}: {room}") from None
        answer = None
    if fits:
        _compare_table(situation, answer, pool, before, hits, num_new, room)
    else:
        _expect_refusal(situation, answer, pool, before, room)
    if given != hits:
        raise counter_example(situation, f"the caller's list of hits is now {given}",
                              f"{hits}, as before: make a new list, such as hits + [...]")


def _expect_refusal(situation: str, answer, pool: SmallPool, before: tuple, room: str) -> None:
    if answer is not None:
        mistaken = "" if answer else f'. With "is None" a caller would take {answer!r:.20} for a table'
        raise counter_example(situation, f"{answer!r:.80}", f"None: {room}{mistaken}")
    if pool.state() != before:
        how = "allocate raised OutOfBlocks, after the hits were retained" if pool.has_refused and \
            pool.num_references > sum(before[2].values()) else "refused, and the pool has changed"
        raise counter_example(situation, f"{how}: {pool}",
                              "refused, and the pool is as before, the order of eviction too")


def _compare_table(situation: str, answer, pool: SmallPool, before: tuple, hits: list[int], num_new: int,
                   room: str) -> None:
    expected = f"{hits}, then {num_new} others" if hits else f"{num_new} blocks"
    if answer is None or isinstance(answer, (str, bool)) or not isinstance(answer, Iterable):
        raise counter_example(situation, f"{answer!r:.80}", f"a table: {room}")
    table = list(answer)
    new = table[len(hits):]
    if table[:len(hits)] != hits or len(new) != num_new or len(set(table)) != len(table):
        reason = ". A hit was evicted, and is in the table twice" if len(set(table)) != len(table) else ""
        raise counter_example(situation, str(table), f"{expected}{reason}")
    counts = dict(before[2])
    for block in table:
        counts[block] = counts.get(block, 0) + 1
    if pool.counts != counts:
        wrong = next(block for block in {**counts, **pool.counts} if pool.refcount(block) != counts.get(block, 0))
        raise counter_example(situation, f"{table}, and block {wrong} has refcount {pool.refcount(wrong)}",
                              f"refcount {counts.get(wrong, 0)}")


def _random_admission(rng: random.Random) -> tuple:
    blocks = rng.sample(range(20), rng.randint(1, 10))
    first, second = sorted(rng.choices(range(len(blocks) + 1), k=2))
    empty, cached = blocks[:first], blocks[first:second]
    counts = {block: rng.randint(1, 3) for block in blocks[second:]}
    findable = rng.sample(cached + list(counts), len(cached) + len(counts))
    hits = findable[:rng.randint(0, min(4, len(findable)))]
    num_tokens = max(1, (len(hits) + rng.randint(0, 5)) * 4 + rng.randint(1, 4))  # the last token is never in a hit
    return (empty, cached, counts), num_tokens, hits, 4


EXERCISES = (
    Exercise("05.1", "The leak in the article", 8, (
        "close() releases what stands in the table. Which blocks were counted for B, and stand in no table?",
        "retain and enter belong together. In which order do the shared and the new blocks have to stand?",
        "What if the pool refuses the new ones? Take these first: pool.allocate(ownBlocks, owner); then retain the "
        "shared ones, and enter first these, then the new ones."), shared_prefix_in_java),
    Exercise("05.2", "Find the longest beginning", 10, (
        "A block may be used only if everything before it is the same. So what has to be part of its key?",
        "Begin with parent = None. The key of a block is (parent, tuple of its tokens); what is found under it becomes "
        "the next parent.",
        "What becomes the next parent? Not the block: the same contents may be entered with another one. Number the "
        "keys as they come, and keep the number beside the block."),
        chained_index),
    Exercise("05.3", "Copy on write, in Java", 10, (
        "When does append write into a block that others have too? Only if the last block has room and its refcount is "
        "above 1.",
        "Three cases: the last block is full (or there is none): a new one. It is shared: a copy. Else: in place.",
        "For the copy: allocate a block first, for that may be refused; store.copyBlock(shared, copy); put the copy "
        "into the table; release the shared one; then write."), writes_after_a_copy),
    Exercise("05.4", "Who goes first?", 7, (
        "Which blocks may not go at all? Those that somebody holds, and those that have another one below them.",
        "{node.parent for node in cached} is the set of blocks that have one below them.",
        "Of the others take the one with the smallest last_used: min(…, key=…, default=None)."), victim_chosen),
    Exercise("05.5", "Is there room?", 8, (
        "How many blocks does the prompt have, the last one perhaps not full? Which of them are new?",
        "num_free_blocks counts cached blocks that nobody holds. If such a block is a hit, it will not be free then.",
        "Count first, change afterwards. Then two calls are left, and their order matters: an allocation may evict "
        "what nobody holds yet, and that may be a hit."), prompt_admitted),
)
