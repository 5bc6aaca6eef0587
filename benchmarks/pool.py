"""How fast is BlockPool? Prints ratios against a bare reference in the same run.

    python benchmarks/pool.py [--yardstick path/to/baseline.py]

The workload: a pool of 65,536 blocks, requests of 64 blocks; 256 of them are allocated, then released, over and over.
The reference does the same with two lists and hardly a check. Variants take turns, CPU time is counted, and the
medians are compared; a ratio of 0.8 means that BlockPool does 0.8 times as many blocks in the same time.

--yardstick: a file with a class MiniBM(num_blocks) that has alloc(n) and release(blocks), to compare with as well.
"""

import argparse
import importlib.util
import statistics
import sys
import time

from pagedkv import BlockPool

NUM_BLOCKS, REQUEST_BLOCKS, LIVE_REQUESTS = 65_536, 64, 256


class BareReference:
    """The least that counts references: no check but a negative count, no events."""

    def __init__(self, num_blocks):
        self.free = list(range(num_blocks - 1, -1, -1))
        self.refcounts = [0] * num_blocks

    def allocate(self, n):
        blocks = self.free[-n:]
        del self.free[-n:]
        refcounts = self.refcounts
        for block in blocks:
            refcounts[block] = 1
        return blocks

    def release(self, blocks):
        refcounts, free = self.refcounts, self.free
        for block in blocks:
            count = refcounts[block] - 1
            if count < 0:
                raise RuntimeError(f"double free of block {block}")
            refcounts[block] = count
            if count == 0:
                free.append(block)


def round_seconds(allocate, release):
    start = time.process_time()
    for _ in range(20):
        held = [allocate(REQUEST_BLOCKS) for _ in range(LIVE_REQUESTS)]
        for blocks in held:
            release(blocks)
    return time.process_time() - start


def observed_pool():
    pool = BlockPool(NUM_BLOCKS)
    pool.observer = lambda event: None
    return pool


def load_yardstick(path):
    spec = importlib.util.spec_from_file_location("yardstick", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.MiniBM(NUM_BLOCKS)


def bytes_per_block(make_pool):
    """What a new pool holds: its lists, and each int object once."""
    pool = make_pool(NUM_BLOCKS)
    lists = [value for value in vars(pool).values() if isinstance(value, list)]
    objects = {id(item): sys.getsizeof(item) for values in lists for item in values}
    return (sum(map(sys.getsizeof, lists)) + sum(objects.values())) / NUM_BLOCKS


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--yardstick", help="a file with a class MiniBM to compare with")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()

    pools = {"bare reference": BareReference(NUM_BLOCKS), "BlockPool": BlockPool(NUM_BLOCKS),
             "BlockPool, observed": observed_pool()}
    calls = {name: (pool.allocate, pool.release) for name, pool in pools.items()}
    if arguments.yardstick:
        yardstick = load_yardstick(arguments.yardstick)
        calls["yardstick"] = (yardstick.alloc, yardstick.release)

    seconds = {name: [] for name in calls}
    for _ in range(arguments.rounds):
        for name, (allocate, release) in calls.items():
            seconds[name].append(round_seconds(allocate, release))

    medians = {name: statistics.median(times) for name, times in seconds.items()}
    references = [name for name in ("bare reference", "yardstick") if name in medians]
    print(f"{'':22}" + "".join(f"{'× ' + name:>18}" for name in references))
    for name, median in medians.items():
        print(f"{name:22}" + "".join(f"{medians[reference] / median:18.2f}" for reference in references))
    print(f"bytes per block, new: BlockPool {bytes_per_block(BlockPool):.0f}, "
          f"bare reference {bytes_per_block(BareReference):.0f}")


if __name__ == "__main__":
    main()
