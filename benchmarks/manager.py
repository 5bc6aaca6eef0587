"""How fast and how large is KVCacheManager? Prints rates, and ratios to a bare reference in the same run.

    python benchmarks/manager.py [--yardstick path/to/baseline.py] [--rounds 11] [--only a,c2,memory] [--json out.json]

The workloads, in a pool of 65,536 blocks of 16 tokens:

    a   allocate requests of 64 blocks from the raw pool, 256 of them at a time, and release them
    b   one more token for each of 256 live sequences, 64 times over: one call per token, and one call per step
    c1  admit 1,000 requests that share their first 1,024 tokens and have 256 of their own; all stay live
    c2  the same, but each is finished before the next comes: the shared blocks are revived every time
    c3  as c2 with 4,096 blocks, so that cached blocks have to be evicted
    d   fork a sequence of 63 blocks into 8, write a token into each (8 copies on write), take the copies, free the 8

then `memory`, the bytes per block of an empty pool and of one whose blocks are all cached and unreferenced, and
`scaling`, the time of one operation in a large pool as a multiple of its time in one of 1,024 blocks: about 1 if no
step costs time in proportion to the pool. What is above 1 there is memory that lies farther apart.

The bare reference is the least that gives the same answers: an exact dict, lists and slices, no checks and no events.
Variants take turns, each with a manager of its own that is new in every round and built before the clock runs. CPU
time is counted, with the garbage collector off as `timeit` does it. A rate is that of the median time. A ratio of 0.8
means that KVCacheManager does 0.8 times as much in the same time; it is the median of the ratios within each round,
because what disturbs a machine for a while disturbs all variants of a round, so it need not be the quotient of the two
rates beside it. All variants must agree on what they reused and copied.

--yardstick: a file with a class MiniBM (as in shared/bench beside the checkout, which is used where it is there).
"""

import argparse
import gc
import importlib.util
import json
import random
import statistics
import sys
import time
import tracemalloc
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from operator import truediv
from pathlib import Path

from pagedkv import KVCacheManager

BLOCK_SIZE = 16  # tokens
REQUEST_BLOCKS = 64
SHARED_TOKENS, OWN_TOKENS = 1_024, 256
FORKED_TOKENS = 62 * BLOCK_SIZE + 8  # 63 blocks, the last one half full: a child that writes has to copy it
FORKS = 8
SMALL_POOL_BLOCKS = 1_024
SHARED_YARDSTICK = Path(__file__).resolve().parents[2] / "shared" / "bench" / "baseline.py"
OURS, BARE, YARDSTICK = "KVCacheManager", "bare", "yardstick"
INPUTS = ("list", "array('i')")
PARTS = ("a", "b", "c1", "c2", "c3", "d", "memory", "scaling")


@dataclass(frozen=True)
class Sizes:
    """How much of everything. The quick sizes show that the benchmark works; their times mean little."""

    num_blocks: int = 65_536
    live_requests: int = 256
    raw_repeats: int = 8
    live_sequences: int = 256
    steps: int = 64
    requests: int = 1_000
    evicting_blocks: int = 4_096
    fork_repeats: int = 200
    large_pool_blocks: int = 1_048_576
    scaling_repeats: int = 200

    @property
    def needed_blocks(self) -> int:
        shared, own = SHARED_TOKENS // BLOCK_SIZE, OWN_TOKENS // BLOCK_SIZE
        # A sequence of b starts with at most 79 tokens, in 5 blocks.
        return max(self.live_requests * REQUEST_BLOCKS, shared + self.requests * own,
                   self.live_sequences * (5 + self.steps // BLOCK_SIZE))


QUICK = Sizes(num_blocks=4_096, live_requests=32, raw_repeats=3, live_sequences=32, steps=32, requests=40,
              evicting_blocks=256, fork_repeats=5, large_pool_blocks=8_192, scaling_repeats=10)


# --- the bare reference


class BareSequence:
    __slots__ = ("block_table", "num_tokens", "num_cached_tokens", "node", "tail")

    def __init__(self, block_table, num_tokens, num_cached_tokens, node, tail):
        self.block_table = block_table
        self.num_tokens = num_tokens
        self.num_cached_tokens = num_cached_tokens
        self.node = node  # of the last full block; 0 before the first
        self.tail = tail  # the tokens after the last full block


class BareManager:
    """Prefix caching with hardly a check. A *node* is the number of a cached prefix, never used twice.

    cached        (node of the part before it, the block's token bytes) → block
    keys, nodes   by block: its key in `cached`, None if it has none, and the node of the prefix that ends with it
    unreferenced  cached blocks that nobody holds, the least recently used first
    """

    def __init__(self, num_blocks):
        self.free_blocks = list(range(num_blocks - 1, -1, -1))
        self.refcounts = [0] * num_blocks
        self.keys = [None] * num_blocks
        self.nodes = [0] * num_blocks
        self.cached = {}
        self.unreferenced = OrderedDict()
        self.next_node = count(1).__next__
        self.copies = []

    def allocate(self, n):
        free = self.free_blocks
        if n > len(free):
            self.evict(n - len(free))
        blocks = free[:-n - 1:-1]
        del free[len(free) - n:]
        refcounts = self.refcounts
        for block in blocks:
            refcounts[block] = 1
        return blocks

    def evict(self, n):
        if n > len(self.unreferenced):
            raise MemoryError(f"need {n} blocks more, {len(self.unreferenced)} are cached")
        pop_oldest = self.unreferenced.popitem
        for _ in range(n):
            block = pop_oldest(last=False)[0]
            del self.cached[self.keys[block]]
            self.keys[block] = None
            self.free_blocks.append(block)

    def release(self, blocks):
        """The last block first, so that the tail of a prompt is evicted before its head."""
        refcounts, keys, unreferenced, add_free = self.refcounts, self.keys, self.unreferenced, self.free_blocks.append
        for block in blocks[::-1]:
            left = refcounts[block] - 1
            if left < 0:
                raise RuntimeError(f"double free of block {block}")
            refcounts[block] = left
            if not left:
                if keys[block] is None:
                    add_free(block)
                else:
                    unreferenced[block] = None

    def admit(self, token_ids):
        num_tokens = len(token_ids)
        data = array("i", token_ids).tobytes()
        width = BLOCK_SIZE * 4
        full = num_tokens // BLOCK_SIZE
        pieces = [data[start:start + width] for start in range(0, full * width, width)]
        cached, nodes, refcounts = self.cached, self.nodes, self.refcounts
        node, table = 0, []
        for piece in pieces[:(num_tokens - 1) // BLOCK_SIZE]:  # the last token is always left to compute
            block = cached.get((node, piece))
            if block is None:
                break
            table.append(block)
            node = nodes[block]
        hits = len(table)
        for block in table:
            if not refcounts[block]:
                del self.unreferenced[block]
            refcounts[block] += 1
        table += self.allocate((num_tokens + BLOCK_SIZE - 1) // BLOCK_SIZE - hits)
        keys, next_node = self.keys, self.next_node
        for block, piece in zip(table[hits:], pieces[hits:]):
            key = node, piece
            first = cached.setdefault(key, block)
            if first == block:
                keys[block] = key
                nodes[block] = next_node()
            node = nodes[first]
        return BareSequence(table, num_tokens, hits * BLOCK_SIZE, node, array("i", data[full * width:]))

    def append(self, sequence, token):
        table, tail = sequence.block_table, sequence.tail
        if not tail:
            table += self.allocate(1)
        else:
            shared = table[-1]
            if self.refcounts[shared] > 1:
                table[-1] = own = self.allocate(1)[0]
                self.refcounts[shared] -= 1
                self.copies.append((shared, own))
        tail.append(token)
        sequence.num_tokens += 1
        if len(tail) == BLOCK_SIZE:
            self.fill(sequence)

    def append_many(self, sequences, tokens):
        """One token each; no sequence's last block may be shared."""
        starting = [sequence for sequence in sequences if not sequence.tail]
        if starting:
            for sequence, block in zip(starting, self.allocate(len(starting))):
                sequence.block_table.append(block)
        for sequence, token in zip(sequences, tokens):
            tail = sequence.tail
            tail.append(token)
            sequence.num_tokens += 1
            if len(tail) == BLOCK_SIZE:
                self.fill(sequence)

    def fill(self, sequence):
        key = sequence.node, sequence.tail.tobytes()
        block = sequence.block_table[-1]
        first = self.cached.setdefault(key, block)
        if first == block:
            self.keys[block] = key
            self.nodes[block] = self.next_node()
        sequence.node = self.nodes[first]
        sequence.tail = array("i")

    def fork(self, sequence):
        table = sequence.block_table.copy()
        refcounts = self.refcounts
        for block in table:
            refcounts[block] += 1
        return BareSequence(table, sequence.num_tokens, sequence.num_tokens, sequence.node, sequence.tail[:])

    def free(self, sequence):
        self.release(sequence.block_table)

    def take_copies(self):
        copies, self.copies = self.copies, []
        return copies


# --- the variants, under one set of names


@dataclass
class Calls:
    """A new manager and its calls, bound."""

    manager: object
    allocate: Callable
    release: Callable
    admit: Callable
    append: Callable
    append_many: Callable
    fork: Callable
    free: Callable
    take_copies: Callable
    table: Callable
    cached_tokens: Callable


def our_calls(num_blocks):
    manager = KVCacheManager(num_blocks=num_blocks, block_size=BLOCK_SIZE)
    return Calls(manager, manager.pool.allocate, manager.pool.release, manager.add_sequence, manager.append_token,
                 manager.append_tokens, manager.fork, manager.free_sequence, manager.take_block_copies,
                 lambda sequence: sequence.block_table, lambda sequence: sequence.num_cached_tokens)


def bare_calls(num_blocks):
    manager = BareManager(num_blocks)
    return Calls(manager, manager.allocate, manager.release, manager.admit, manager.append, manager.append_many,
                 manager.fork, manager.free, manager.take_copies,
                 lambda sequence: sequence.block_table, lambda sequence: sequence.num_cached_tokens)


def yardstick_maker(path):
    spec = importlib.util.spec_from_file_location("yardstick", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

    def yardstick_calls(num_blocks):
        manager = module.MiniBM(num_blocks)
        manager.cow = []  # the class has one list for all its instances
        release = manager.release

        def take_copies():
            copies = manager.cow.copy()
            manager.cow.clear()
            return copies

        return Calls(manager, manager.alloc, release, manager.admit, manager.append, manager.append_batch, manager.fork,
                     lambda request: release(request.table), take_copies,
                     lambda request: request.table, lambda request: request.hit)

    return yardstick_calls


# --- the workloads: each prepares a new manager and returns what the clock runs around. It returns a function that
# --- tells, from what that has returned, what was done; all variants have to tell the same.


@dataclass(frozen=True)
class Workload:
    part: str
    name: str
    unit: str
    amount: int  # units that one run does
    num_blocks: int
    prepare: Callable


def raw_blocks(calls, sizes):
    allocate, release = calls.allocate, calls.release

    def run():
        for _ in range(sizes.raw_repeats):
            held = [allocate(REQUEST_BLOCKS) for _ in range(sizes.live_requests)]
            for blocks in held:
                release(blocks)
        return held

    return run, lambda held: len(set().union(*held))


def one_token_each(calls, sizes, batch):
    source = random.Random(1)
    # Lengths from 64 to 79: in every step some of the sequences start a block.
    live = [calls.admit([source.randrange(32_000) for _ in range(64 + i % BLOCK_SIZE)])
            for i in range(sizes.live_sequences)]
    steps = [[source.randrange(32_000) for _ in live] for _ in range(sizes.steps)]
    append, append_many = calls.append, calls.append_many

    def one_by_one():
        for tokens in steps:
            for sequence, token in zip(live, tokens):
                append(sequence, token)

    def in_one_call():
        for tokens in steps:
            append_many(live, tokens)

    return in_one_call if batch else one_by_one, lambda _: [len(calls.table(sequence)) for sequence in live]


def all_live(calls, prompts):
    admit = calls.admit
    return (lambda: [admit(prompt) for prompt in prompts],
            lambda live: [calls.cached_tokens(sequence) for sequence in live])


def one_after_another(calls, prompts):
    admit, free = calls.admit, calls.free

    def run():
        for prompt in prompts:
            sequence = admit(prompt)
            free(sequence)
        return sequence

    # The last prompt once more, the clock stopped: what is still cached of it, all but its last block, is a hit.
    return run, lambda last: (calls.cached_tokens(last), calls.cached_tokens(admit(prompts[-1])))


def forks(calls, sizes):
    fork, append, free, take_copies = calls.fork, calls.append, calls.free, calls.take_copies
    parent = calls.admit(list(range(FORKED_TOKENS)))

    def run():
        num_copies = 0
        for _ in range(sizes.fork_repeats):
            children = [fork(parent) for _ in range(FORKS)]
            for token, child in enumerate(children):
                append(child, token)
            num_copies += len(take_copies())
            for child in children:
                free(child)
        return num_copies

    return run, lambda num_copies: num_copies


def make_prompts(sizes):
    source = random.Random(2)
    shared = [source.randrange(32_000) for _ in range(SHARED_TOKENS)]
    return [shared + [source.randrange(32_000) for _ in range(OWN_TOKENS)] for _ in range(sizes.requests)]


def make_workloads(sizes):
    raw_amount = sizes.raw_repeats * sizes.live_requests * REQUEST_BLOCKS
    tokens = sizes.live_sequences * sizes.steps
    lists = make_prompts(sizes)
    inputs = dict(zip(INPUTS, (lists, [array("i", prompt) for prompt in lists])))
    num_blocks = sizes.num_blocks
    yield Workload("a", "a   allocate + free", "blocks/s", raw_amount, num_blocks, lambda c: raw_blocks(c, sizes))
    yield Workload("b", "b   append_token", "tokens/s", tokens, num_blocks, lambda c: one_token_each(c, sizes, False))
    yield Workload("b", "b   append_tokens", "tokens/s", tokens, num_blocks, lambda c: one_token_each(c, sizes, True))
    for part, what, blocks, prepare in (("c1", "all live", num_blocks, all_live),
                                        ("c2", "revive", num_blocks, one_after_another),
                                        ("c3", "evict", sizes.evicting_blocks, one_after_another)):
        for kind, prompts in inputs.items():
            yield Workload(part, f"{part}  {what}, {kind}", "requests/s", sizes.requests, blocks,
                           lambda c, prepare=prepare, prompts=prompts: prepare(c, prompts))
    yield Workload("d", "d   fork, copy, free", "forks/s", sizes.fork_repeats * FORKS, num_blocks,
                   lambda c: forks(c, sizes))


def cpu_seconds(run):
    """CPU seconds of one call, without the garbage collector; and what the call returned."""
    gc.collect()
    gc.disable()
    try:
        start = time.process_time()
        returned = run()
        return time.process_time() - start, returned
    finally:
        gc.enable()


def measure_speed(workloads, makers, rounds):
    """CPU seconds by workload name and variant: a list, one for each round."""
    seconds = {workload.name: {variant: [] for variant in makers} for workload in workloads}
    variants = list(makers)
    for round_number in range(rounds):
        for workload in workloads:
            done = {}
            for turn in range(len(variants)):  # each variant comes first in its turn
                variant = variants[(round_number + turn) % len(variants)]
                run, what_was_done = workload.prepare(makers[variant](workload.num_blocks))
                spent, returned = cpu_seconds(run)
                seconds[workload.name][variant].append(spent)
                done[variant] = what_was_done(returned)
                del run, what_was_done, returned  # the next variant has the memory to itself
            if any(result != done[BARE] for result in done.values()):
                raise RuntimeError(f"{workload.name}: the variants did not do the same work: {done}"[:2_000])
    return seconds


def median_ratio(numerators, denominators):
    return statistics.median(map(truediv, numerators, denominators))


# --- memory


COLLECTIONS = (list, tuple, set, frozenset, deque)
PLAIN_VALUES = (int, float, str, bytes, bytearray, array)


def reachable_bytes(root):
    """The sizes of all distinct objects that hold `root`'s state: collections, plain values, and objects whose class is
    from the same package as root's. Classes, functions and loggers belong to the program, not to the state."""
    package = package_of(root)
    total, seen, to_do = 0, set(), [root]
    while to_do:
        item = to_do.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, dict):
            to_do += item
            to_do += item.values()
        elif isinstance(item, COLLECTIONS):
            to_do += item
        elif not isinstance(item, PLAIN_VALUES):
            if isinstance(item, type) or package_of(item) != package:
                continue
            to_do += attributes(item)
        total += sys.getsizeof(item)
    return total


def package_of(item):
    return type(item).__module__.partition(".")[0]


def attributes(item):
    """The values in its slots, and the dict with all others."""
    slots = [slot for cls in type(item).__mro__ for slot in getattr(cls, "__slots__", ())]
    values = [getattr(item, slot) for slot in slots if hasattr(item, slot) and not slot.startswith("__")]
    return values + [vars(item)] if hasattr(item, "__dict__") else values


def fill_with_cached(calls, num_blocks):
    """Every block of the pool becomes a cached one that nobody holds, in prompts of 64 blocks."""
    for first in range(0, num_blocks, REQUEST_BLOCKS):
        blocks = range(first, min(first + REQUEST_BLOCKS, num_blocks))
        calls.free(calls.admit(array("i", range(blocks.start * BLOCK_SIZE, blocks.stop * BLOCK_SIZE))))
    if isinstance(calls.manager, KVCacheManager) and calls.manager.num_cached_blocks != num_blocks:
        raise RuntimeError(f"{calls.manager.num_cached_blocks} of {num_blocks} blocks are cached: expected all")


def measure_memory(makers, num_blocks):
    """Bytes per block by state and method, then by variant."""
    names = [f"{state}, {method}" for state in ("empty", "all cached") for method in ("objects", "tracemalloc")]
    result = {name: {} for name in names}
    for variant, make in makers.items():
        calls = make(num_blocks)
        objects = [reachable_bytes(calls.manager)]
        fill_with_cached(calls, num_blocks)
        objects.append(reachable_bytes(calls.manager))
        del calls
        gc.collect()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            calls = make(num_blocks)
            gc.collect()
            traced = [tracemalloc.get_traced_memory()[0] - before]
            fill_with_cached(calls, num_blocks)
            gc.collect()
            traced.append(tracemalloc.get_traced_memory()[0] - before)
        finally:
            tracemalloc.stop()
        del calls
        for name, num_bytes in zip(names, (objects[0], traced[0], objects[1], traced[1])):
            result[name][variant] = num_bytes / num_blocks
    return result


# --- scaling


def empty_pool_operations(calls, repeats):
    """Name → what the clock runs around, and how many operations that is. At most 200 blocks are in use at a time."""
    prompt = array("i", range(REQUEST_BLOCKS * BLOCK_SIZE + 1))
    calls.free(calls.admit(prompt))
    growing = calls.admit([1])

    def raw():
        for _ in range(repeats):
            calls.release(calls.allocate(REQUEST_BLOCKS))

    def append():
        for token in range(repeats * 4):
            calls.append(growing, token)

    def revive():
        for _ in range(repeats):
            calls.free(calls.admit(prompt))

    return {"allocate + free 64 blocks": (raw, repeats), "append_token": (append, repeats * 4),
            "admit + finish, 64 blocks revived": (revive, repeats)}


def evicting_operation(calls, repeats, first_token):
    prompts = [array("i", range(start, start + REQUEST_BLOCKS * BLOCK_SIZE))
               for start in range(first_token, first_token + repeats)]

    def evict():
        for prompt in prompts:
            calls.free(calls.admit(prompt))

    return evict


def measure_scaling(sizes, rounds):
    """Seconds of one operation by name, then by number of blocks."""
    pools = (SMALL_POOL_BLOCKS, sizes.large_pool_blocks)
    seconds = {}

    def note(name, num_blocks, run, operations):
        spent = cpu_seconds(run)[0] / operations
        seconds.setdefault(name, {pool: [] for pool in pools})[num_blocks].append(spent)

    for _ in range(rounds):
        for num_blocks in pools:
            operations = empty_pool_operations(our_calls(num_blocks), sizes.scaling_repeats)
            for name, (run, repeats) in operations.items():
                note(name, num_blocks, run, repeats)
    # Filling a million blocks takes seconds, so these two pools serve all rounds: they stay full of cached blocks.
    full = {num_blocks: our_calls(num_blocks) for num_blocks in pools}
    for num_blocks, calls in full.items():
        fill_with_cached(calls, num_blocks)
    for round_number in range(rounds):
        for num_blocks, calls in full.items():
            # Prompts that no round had before: each evicts 64 blocks.
            first_token = sizes.large_pool_blocks * BLOCK_SIZE + round_number * sizes.scaling_repeats
            note("admit + finish, 64 blocks evicted", num_blocks,
                 evicting_operation(calls, sizes.scaling_repeats, first_token), sizes.scaling_repeats)
    return {name: {pool: statistics.median(times) for pool, times in by_pool.items()}
            for name, by_pool in seconds.items()}


# --- the command


def print_speed(workloads, seconds, variants):
    references = [variant for variant in variants if variant != OURS]
    print(f"{'':26}{'':12}" + "".join(f"{variant:>16}" for variant in variants)
          + "".join(f"{'× ' + reference:>13}" for reference in references))
    rows, by_part = [], {}
    for workload in workloads:
        times = seconds[workload.name]
        by_part.setdefault(workload.part, []).append(times)
        rates = {variant: workload.amount / statistics.median(times[variant]) for variant in variants}
        ratios = {reference: median_ratio(times[reference], times[OURS]) for reference in references}
        print(f"{workload.name:26}{workload.unit:12}" + "".join(f"{rates[variant]:16,.0f}" for variant in variants)
              + "".join(f"{ratios[reference]:13.2f}" for reference in references))
        rows.append({"workload": workload.name, "unit": workload.unit, "rates": rates, "ratios": ratios})
    for kind, live, revive in zip(INPUTS, by_part.get("c1", ()), by_part.get("c2", ())):
        ratios = {variant: median_ratio(live[variant], revive[variant]) for variant in variants}
        name = f"c2 / c1, {kind}"
        print(f"{name:26}{'':12}" + "".join(f"{ratios[variant]:16.2f}" for variant in variants))
        rows.append({"workload": name, "unit": "", "rates": ratios, "ratios": {}})
    print()
    return rows


def print_memory(memory, variants, num_blocks):
    print(f"{f'bytes per block, {num_blocks:,} blocks':38}" + "".join(f"{variant:>16}" for variant in variants))
    for name, by_variant in memory.items():
        print(f"{name:38}" + "".join(f"{by_variant[variant]:16.1f}" for variant in variants))
    print()


def print_scaling(scaling, large):
    print(f"{'µs of one operation of ours, in blocks':38}{SMALL_POOL_BLOCKS:>16,}{large:>16,}{'ratio':>16}")
    for name, by_pool in scaling.items():
        small_us, large_us = (by_pool[pool] * 1e6 for pool in (SMALL_POOL_BLOCKS, large))
        print(f"{name:38}{small_us:16.2f}{large_us:16.2f}{large_us / small_us:16.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--yardstick", help="a file with a class MiniBM to compare with as well")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--only", default=",".join(PARTS), help=f"some of {','.join(PARTS)}")
    parser.add_argument("--num-blocks", type=int, help="blocks of the pool (default 65,536)")
    parser.add_argument("--quick", action="store_true", help="small sizes: shows that it works, not how fast")
    parser.add_argument("--json", type=Path, help="write the figures to this file as well")
    arguments = parser.parse_args()
    sizes = QUICK if arguments.quick else Sizes()
    only = arguments.only.split(",")
    if unknown := [part for part in only if part not in PARTS]:
        parser.error(f"--only: no part is called {unknown[0]!r}; there are {', '.join(PARTS)}")
    if arguments.rounds < 1:
        parser.error("--rounds: at least 1")
    if arguments.num_blocks is not None:
        if arguments.num_blocks < sizes.needed_blocks:
            parser.error(f"--num-blocks: the workloads need {sizes.needed_blocks}")
        sizes = replace(sizes, num_blocks=arguments.num_blocks)

    makers = {OURS: our_calls, BARE: bare_calls}
    if arguments.yardstick:
        makers[YARDSTICK] = yardstick_maker(arguments.yardstick)
    elif SHARED_YARDSTICK.exists():
        try:
            makers[YARDSTICK] = yardstick_maker(SHARED_YARDSTICK)
        except ImportError as error:
            print(f"without the yardstick: {error}", file=sys.stderr)

    figures = {"num_blocks": sizes.num_blocks, "block_size": BLOCK_SIZE, "rounds": arguments.rounds,
               "quick": arguments.quick}
    workloads = [workload for workload in make_workloads(sizes) if workload.part in only]
    if workloads:
        figures["speed"] = print_speed(workloads, measure_speed(workloads, makers, arguments.rounds), list(makers))
    if "memory" in only:
        figures["memory_bytes_per_block"] = measure_memory(makers, sizes.num_blocks)
        print_memory(figures["memory_bytes_per_block"], list(makers), sizes.num_blocks)
    if "scaling" in only:
        figures["scaling_seconds"] = measure_scaling(sizes, arguments.rounds)
        print_scaling(figures["scaling_seconds"], sizes.large_pool_blocks)
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
