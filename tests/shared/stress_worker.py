"""One of the processes of the stress test.

    python -m tests.shared.stress_worker NAME TABLE NUMBER ROUNDS KIND CACHE [SOURCE]

TABLE is a file with a u64 for each block. Who is handed a block finds 0 there, writes its own number, and clears it
before the release; anything else means that two had it at once. SOURCE: another pool.c than ours.
"""

import mmap
import random
import sys
from pathlib import Path

from pagedkv.core.errors import OutOfBlocks
from pagedkv.shared import SharedPool
from tests.shared.steps import stepped


def main(name, path, number, rounds, kind, cache, source=None):
    number = int(number)
    make = stepped(kind, Path(source))[1] if source else kind
    pool = SharedPool.join(name, operations=make, cache_blocks=int(cache))
    with open(path, "r+b") as file:
        table = memoryview(mmap.mmap(file.fileno(), 0)).cast("Q")
    choose = random.Random(number)
    held, operations = [], 0
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(rounds)):
        if choose.random() < 0.5:
            try:
                blocks = pool.allocate(choose.randint(1, 12))
            except OutOfBlocks:
                blocks = []
            for block in blocks:
                if table[block]:
                    sys.exit(f"block {block} was handed out to {number}, {table[block]} has it")
                table[block] = number
            held += blocks
        elif held:
            choose.shuffle(held)
            blocks = [held.pop() for _ in range(min(len(held), choose.randint(1, 12)))]
            for block in blocks:
                if table[block] != number:
                    sys.exit(f"block {block} was {number}'s, now {table[block]} has it")
                table[block] = 0
            pool.release(blocks)
        operations += 1
    for block in held:
        table[block] = 0
    pool.release(held)
    print(operations, flush=True)
    pool.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
