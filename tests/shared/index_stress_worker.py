"""One of the processes of the stress test of the prefix index.

    python -m tests.shared.index_stress_worker NAME NUMBER ROUNDS KIND [SOURCE]

SOURCE: another pool.c than ours.

Prompts of few kinds, in a pool that is too small for all of them, so that contents are found, published and evicted all
the time. A block contains the CRC-32 of all tokens up to its end, and of a random part. What is found has to be just
that, and nobody may write to it while it is held.
"""

import os
import random
import sys
import zlib
from pathlib import Path

from pagedkv.core.errors import OutOfBlocks
from pagedkv.core.tokens import as_token_bytes
from pagedkv.shared import SharedPool
from tests.shared.steps import stepped


def data_of(tokens, size):
    crc = zlib.crc32(as_token_bytes(tokens))
    data = crc.to_bytes(4, "little") + os.urandom(size - 8)
    return data + zlib.crc32(data).to_bytes(4, "little")


def check(pool, block, tokens, number):
    data = bytes(pool.buffer(block))
    if int.from_bytes(data[:4], "little") != zlib.crc32(as_token_bytes(tokens)) \
            or int.from_bytes(data[-4:], "little") != zlib.crc32(data[:-4]):
        sys.exit(f"{number}: block {block} is found for {tokens}, and does not contain that")


def main(name, number, rounds, kind, source=None):
    pool = SharedPool.join(name, operations=stepped(kind, Path(source))[1] if source else kind)
    size = pool.tokens_per_block
    choose = random.Random(int(number))
    live, num_found = [], 0
    print("ready", flush=True)
    sys.stdin.readline()
    for _ in range(int(rounds)):
        if choose.random() < 0.5:
            tokens = [choose.randint(1, 3) for _ in range(size * choose.randint(1, 4))]
            blocks = pool.reuse(tokens)
            for i, block in enumerate(blocks):
                check(pool, block, tokens[:(i + 1) * size], number)
            num_found += len(blocks)
            try:
                new = pool.allocate(len(tokens) // size - len(blocks))
            except OutOfBlocks:
                pool.release(blocks)
                continue
            for i, block in enumerate(new, len(blocks)):
                pool.buffer(block)[:] = data_of(tokens[:(i + 1) * size], pool.block_bytes)
            pool.publish(tokens, blocks + new)
            live.append((tokens, blocks + new))
        elif live:
            tokens, blocks = live.pop(choose.randrange(len(live)))
            for i, block in enumerate(blocks):
                check(pool, block, tokens[:(i + 1) * size], number)
            if choose.random() < 0.1:
                pool.unpublish(blocks)
            pool.release(blocks)
    for _, blocks in live:
        pool.release(blocks)
    print(num_found, flush=True)
    pool.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
