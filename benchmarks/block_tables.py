"""Block tables in three layouts (claim B6): bytes, and how long a lookup, an append and a walk take.

    python benchmarks/block_tables.py [--sequences 100000] [--blocks 5] [--long-sequences 1000] [--long-blocks 256]
                                      [--rounds 9]

Two workloads: many sequences with short tables, and fewer with long ones, where a chain of nodes gets slow. Layouts
take turns within a round, CPU time is counted, and medians over the rounds are compared; × is a time in two-level ones.
All times are Python's, of which a good part is the call: they compare the layouts with each other and not with C.

    lookup  one block of a random sequence, at a random logical number
    append  one block to each of many sequences
    walk    all blocks of a sequence, per block
    bytes   what Python holds; and what the layout takes in C (see `pagedkv.rivals.block_tables`)
"""

import argparse
import gc
import random
import statistics
import time

from pagedkv.rivals.block_tables import DenseTables, LinkedTables, TwoLevelTables

CALLS = 50_000
DENSE_COLUMNS = 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=100_000)
    parser.add_argument("--blocks", type=int, default=5)
    parser.add_argument("--long-sequences", type=int, default=1000)
    parser.add_argument("--long-blocks", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    gc.disable()  # hundreds of thousands of nodes: a collection in the middle of one layout's turn is not its cost
    measure(options.sequences, options.blocks, options.rounds)
    print()
    measure(options.long_sequences, options.long_blocks, options.rounds)


def measure(num_sequences, num_blocks, rounds):
    columns = max(DENSE_COLUMNS, num_blocks + 1)
    layouts = {"two-level": TwoLevelTables(), "dense": DenseTables(num_sequences, columns), "linked": LinkedTables()}
    block_ids = random.Random(1).sample(range(num_sequences * num_blocks), num_sequences * num_blocks)
    for sequence in range(num_sequences):
        for tables in layouts.values():
            tables.set(sequence, block_ids[sequence * num_blocks:(sequence + 1) * num_blocks])
    print(f"{num_sequences:,} sequences × {num_blocks} blocks; dense rows of {columns}")
    sizes = {name: (tables.num_bytes, tables.layout_bytes) for name, tables in layouts.items()}

    rng = random.Random(2)
    places = [(rng.randrange(num_sequences), rng.randrange(num_blocks)) for _ in range(CALLS)]
    walked = [rng.randrange(num_sequences) for _ in range(max(1, CALLS // num_blocks))]
    appended = rng.sample(range(num_sequences), min(num_sequences, CALLS))
    times = {name: ([], [], []) for name in layouts}
    for _ in range(rounds):
        for name, tables in layouts.items():
            lookup, blocks, append = tables.lookup, tables.blocks, tables.append
            begin = time.process_time_ns()
            for sequence, logical in places:
                lookup(sequence, logical)
            after_lookup = time.process_time_ns()
            for sequence in walked:
                blocks(sequence)
            after_walk = time.process_time_ns()
            for sequence in appended:
                append(sequence, 7)
            end = time.process_time_ns()
            for kept, value in zip(times[name], ((after_lookup - begin) / len(places),
                                                 (end - after_walk) / len(appended),
                                                 (after_walk - after_lookup) / (len(walked) * num_blocks))):
                kept.append(value)
            for sequence in appended:  # as before, for the next round
                tables.set(sequence, block_ids[sequence * num_blocks:(sequence + 1) * num_blocks])
    medians = {name: [statistics.median(kept) for kept in each] for name, each in times.items()}
    print(f"{'':12}{'MB in Python':>14}{'MB in C':>10}" + "".join(f"{what + ', ns':>14}{'×':>7}"
                                                               for what in ("lookup", "append", "walk")))
    for name, values in medians.items():
        held, layout = sizes[name]
        print(f"{name:12}{held / 1e6:>14.1f}{layout / 1e6:>10.1f}"
              + "".join(f"{value:>14.0f}{value / usual:>7.2f}" for value, usual in zip(values, medians["two-level"])))


if __name__ == "__main__":
    main()
