"""A worker process in Python: a member of a shared pool that does what it is told, line by line.

`java/src/main/java/pagedkv/shared/PoolWorker.java` is the same in Java. `pagedkv.lab.workers_processes` tells both.

Commands come on stdin, one a line, and are answered by one line on stdout, in order. A block is written B, a block and
its generation B:G, bytes are in hexadecimal digits.

    join NAME                  join the pool; before anything else             ok SLOT
    allocate N                                                                 ok B:G B:G …
    retain B or B:G …          one more reference to each; of that generation  ok
    release B …                                                                ok
    generation B                                                               ok G
    write B BYTES              from the block's beginning on                   ok
    read B N                   its first N bytes                               ok BYTES
    publish T,T,… B …          these blocks hold these tokens                  ok NUM_FOUND
    find T,T,…                                                                 ok B …
    reuse T,T,…                                                                ok B:G …
    reap                                                                       ok SLOT:REFERENCES:BLOCKS …
    close                      leave the pool                                  ok

What the pool refuses is answered "refused", the error's name, and its message; anything else that goes wrong "failed"
likewise. The process ends when stdin does, at once and without leaving the pool: as if it had been killed.
"""

import os
import sys

from pagedkv.core.errors import PoolError
from pagedkv.shared import SharedPool


class Worker:
    """One method for each command; its answer is what stands behind "ok"."""

    pool: SharedPool

    def join(self, name: str) -> list:
        self.pool = SharedPool.join(name)
        return [self.pool.slot]

    def allocate(self, n: str) -> list:
        return self._with_generations(self.pool.allocate(int(n)))

    def retain(self, *named: str) -> list:
        pairs = [each.partition(":") for each in named]
        blocks = [int(block) for block, _, _ in pairs]
        generations = [int(generation) for _, colon, generation in pairs if colon]
        self.pool.retain(blocks, generations=generations or None)
        return []

    def release(self, *blocks: str) -> list:
        self.pool.release(list(map(int, blocks)))
        return []

    def generation(self, block: str) -> list:
        return [self.pool.generation(int(block))]

    def write(self, block: str, digits: str) -> list:
        data = bytes.fromhex(digits)
        if len(data) > self.pool.block_bytes:
            raise ValueError(f"{len(data)} bytes do not fit into a block of {self.pool.block_bytes}")
        self.pool.buffer(int(block))[:len(data)] = data
        return []

    def read(self, block: str, num_bytes: str) -> list:
        return [self.pool.buffer(int(block))[:int(num_bytes)].hex()]

    def publish(self, tokens: str, *blocks: str) -> list:
        return [self.pool.publish(_tokens(tokens), list(map(int, blocks)))]

    def find(self, tokens: str) -> list:
        return self.pool.find(_tokens(tokens))

    def reuse(self, tokens: str) -> list:
        return self._with_generations(self.pool.reuse(_tokens(tokens)))

    def reap(self) -> list:
        return [f"{dead.slot}:{dead.num_references}:{dead.num_free_blocks}" for dead in self.pool.reap().dead]

    def close(self) -> list:
        self.pool.close()
        return []

    def _with_generations(self, blocks: list[int]) -> list[str]:
        return [f"{block}:{self.pool.generation(block)}" for block in blocks]


def _tokens(text: str) -> list[int]:
    return list(map(int, text.split(",")))


def _answer(worker: Worker, line: str) -> str:
    command, *arguments = line.split()
    try:
        return " ".join(["ok", *map(str, getattr(worker, command)(*arguments))])
    except Exception as error:
        how = "refused" if isinstance(error, PoolError) else "failed"
        return f"{how} {type(error).__name__} {error}".replace("\n", " ")


def main() -> None:
    sys.stdin.reconfigure(encoding="utf-8")
    sys.stdout.reconfigure(encoding="utf-8")
    worker = Worker()
    for line in sys.stdin:
        print(_answer(worker, line), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
