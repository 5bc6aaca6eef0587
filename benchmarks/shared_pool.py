"""How fast is SharedPool? Beside BlockPool in the same run; and what a death, guards and the local cache cost.

    python benchmarks/shared_pool.py [--rounds 15] [--json results.json]

All times are CPU time of this process, medians of rounds in which the variants take turns, and in microseconds for each
block (allocated and released again) if nothing else is said. No other process is on the pool, except where several are
named: those numbers show what sharing costs, and depend on how many cores there are.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

from pagedkv import BlockPool
from pagedkv.core.prefix_cache import ROOT, PrefixCachePool
from pagedkv.core.tokens import as_token_bytes
from pagedkv.shared import SharedPool

NUM_BLOCKS, BATCH_BLOCKS, LIVE_REQUESTS = 65_536, 64, 256
CACHE_BLOCKS = [0, 1, 2, 4, 8, 16, 32, 64]
NAME = f"benchmark-{os.getpid()}"


def batches(pool, repeat=4):
    """256 requests of 64 blocks allocated, then released, over and over: 16,384 blocks a time."""
    allocate, release = pool.allocate, pool.release
    start = time.process_time()
    for _ in range(repeat):
        held = [allocate(BATCH_BLOCKS) for _ in range(LIVE_REQUESTS)]
        for blocks in held:
            release(blocks)
    return (time.process_time() - start) / (repeat * LIVE_REQUESTS * BATCH_BLOCKS) * 1e6


def hot_batches(pool, repeat=1024):
    """One request of 64 blocks allocated and released at once, over and over."""
    start = time.process_time()
    for _ in range(repeat):
        pool.release(pool.allocate(BATCH_BLOCKS))
    return (time.process_time() - start) / (repeat * BATCH_BLOCKS) * 1e6


def singles(pool, repeat=4096):
    start = time.process_time()
    for _ in range(repeat):
        pool.release(pool.allocate(1))
    return (time.process_time() - start) / repeat * 1e6


def few(pool, repeat=2048):
    """Four at a time: what a local cache is for."""
    start = time.process_time()
    for _ in range(repeat):
        pool.release(pool.allocate(4))
    return (time.process_time() - start) / (4 * repeat) * 1e6


def medians(variants, rounds):
    """name → function, each run once a round, in turns."""
    times = {name: [] for name in variants}
    for _ in range(rounds):
        for name, run in variants.items():
            times[name].append(run())
    return {name: statistics.median(found) for name, found in times.items()}


def create(num_blocks=NUM_BLOCKS, block_bytes=64, suffix="", **more):
    pool = SharedPool.create(NAME + suffix, num_blocks, block_bytes, replace=True, **more)
    pool.unlink()
    return pool


def show(title, results, unit="µs"):
    print(f"\n{title}")
    for name, value in results.items():
        print(f"  {name:44} {value:10.3f} {unit}")


def pools(rounds):
    made = {"BlockPool": BlockPool(NUM_BLOCKS), "SharedPool": create(suffix="-compiled"),
            "SharedPool, local cache of 64": create(suffix="-cache", cache_blocks=64),
            "SharedPool, portable": create(suffix="-portable", operations="portable")}
    results = {}
    for title, run, slow in (("batches of 64, 16,384 blocks held", batches, 1),
                             ("batches of 64, at once", hot_batches, 16), ("single blocks", singles, 16)):
        variants = {name: lambda pool=pool, name=name: run(pool, slow) if "portable" in name else run(pool)
                    for name, pool in made.items()}
        results[title] = medians(variants, rounds)
        show(title, results[title])
    return results


def guards(rounds):
    made = {f"guard={guard}": create(suffix=f"-guard-{guard}", guard=guard, num_blocks=20_000)
            for guard in (False, True)}
    result = medians({name: lambda pool=pool: batches(pool, 1) for name, pool in made.items()}, rounds)
    show("guard mode, batches of 64", result)
    return result


def prefixes(rounds):
    """A chain of 64 blocks of 16 tokens found, held and released again, in microseconds for the whole chain. Both pools
    are given the tokens as bytes, and do not observe."""
    size, length = 16, 64
    buffer = as_token_bytes([7 * i % 50_000 for i in range(size * length)])
    cache = PrefixCachePool(1024)
    blocks, node = cache.allocate(length), ROOT
    for i, block in enumerate(blocks):
        node = cache.publish(block, buffer[4 * size * i:4 * size * (i + 1)], node)
    cache.release(blocks)

    def alone(repeat=200):
        start = time.process_time()
        for _ in range(repeat):
            found, _ = cache.find(buffer, length, 4 * size, ROOT)
            cache.release(cache.reuse_and_allocate(found, 0))
        return (time.process_time() - start) / repeat * 1e6

    def shared(pool, repeat):
        salt = bytes(32)
        start = time.process_time()
        for _ in range(repeat):
            pool.release(pool.match(buffer, length, salt, True)[0])
        return (time.process_time() - start) / repeat * 1e6

    variants = {"PrefixCachePool": alone}
    for kind, repeat in (("compiled", 200), ("portable", 5)):
        pool = create(suffix=f"-index-{kind}", num_blocks=1024, tokens_per_block=size, operations=kind)
        blocks = pool.allocate(length)
        assert pool.publish(memoryview(buffer).cast("i"), blocks) == length
        pool.release(blocks)
        variants[f"SharedPool, {kind}"] = lambda pool=pool, repeat=repeat: shared(pool, repeat)
    result = medians(variants, rounds)
    show("a chain of 64 blocks found, held and released, 16 tokens each", result)
    print(f"  SharedPool / PrefixCachePool {result['SharedPool, compiled'] / result['PrefixCachePool']:25.2f}")
    return result


def caches(rounds):
    """Alone, and with another process at work on the same pool."""
    made = {str(size): create(suffix=f"-{size}", cache_blocks=size, num_blocks=1024) for size in CACHE_BLOCKS}
    alone = medians({size: lambda pool=pool: few(pool) for size, pool in made.items()}, rounds)
    show("four blocks at a time by size of the local cache, alone", alone)
    shared = {}
    for size in CACHE_BLOCKS:
        pool = SharedPool.create(NAME, 1024, 64, cache_blocks=size, replace=True)
        other = subprocess.Popen([sys.executable, __file__, "--partner", NAME, "--cache", str(size)],
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        other.stdout.readline()
        shared[str(size)] = statistics.median(few(pool) for _ in range(rounds))
        other.communicate("end\n")
        pool.unlink()
        pool.close()
    show("the same beside another process", shared)
    return {"alone": alone, "beside another process": shared}


def partner(name, cache_blocks):
    import select
    pool = SharedPool.join(name, cache_blocks=cache_blocks)
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        few(pool, 200)


def reaping():
    """A process dies with half of the blocks; the time to reap it, wall clock, the best of three."""
    times = {}
    for exponent in range(10, 19):
        num_blocks = 1 << exponent
        pool = SharedPool.create(NAME, num_blocks, 64, replace=True)
        found = []
        for _ in range(3):
            code = (f"import os; from pagedkv.shared import SharedPool; pool = SharedPool.join({NAME!r}); "
                    f"pool.allocate({num_blocks // 2}); os.kill(os.getpid(), 9)")
            subprocess.run([sys.executable, "-c", code])
            start = time.perf_counter()
            report = pool.reap()
            found.append(time.perf_counter() - start)
            assert report.dead[0].num_free_blocks == num_blocks // 2, report
        times[num_blocks] = min(found) * 1e3
        pool.unlink()
        pool.close()
    # least squares on time = fixed + slope × blocks, relative errors, since the sizes span a factor of 256
    weights = [1 / value ** 2 for value in times.values()]
    total = sum(weights)
    x = sum(w * n for w, n in zip(weights, times)) / total
    y = sum(w * t for w, t in zip(weights, times.values())) / total
    slope = sum(w * (n - x) * (t - y) for w, (n, t) in zip(weights, times.items())) / \
        sum(w * (n - x) ** 2 for w, n in zip(weights, times))
    fixed = y - slope * x
    print("\nreap after a death that left half of the blocks")
    for num_blocks, value in times.items():
        print(f"  {num_blocks:8} blocks {value:9.3f} ms   line {fixed + slope * num_blocks:9.3f} ms")
    print(f"  {fixed * 1e3:.0f} µs + {slope * 1e6:.1f} ns for each block")
    return {"milliseconds": times, "fixed_milliseconds": fixed, "nanoseconds_per_block": slope * 1e6}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path, help="write the results there")
    parser.add_argument("--partner", help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=int, default=0, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.partner:
        return partner(arguments.partner, arguments.cache)
    machine = f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    print(machine)
    results = {"machine": machine, "pools": pools(arguments.rounds), "guard": guards(arguments.rounds),
               "prefix index": prefixes(arguments.rounds),
               "local cache": caches(arguments.rounds), "reap": reaping()}
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
