"""A worker of the crash test: a process that joins a pool and does what it is told, or what it likes, until it is
killed.

A worker in another language takes part if it keeps to this protocol. Commands come on stdin, one a line; each is
answered on stdout by one line, in order. Whatever is wrong is answered "bad" and what it was; then the test has failed.

    join NAME CACHE BOARD    join the pool, with a local cache of that many blocks     joined SLOT
    loop SEED STEPS          work at random until the next line comes, which is used   stopped OPERATIONS
                             up; STEPS > 0: die of SIGKILL before the STEPS-th write
                             to the pool (a worker that cannot count them ignores it)
    held                     what it holds                                             held B:COUNT B:COUNT …
    check                    look at the data of all that it holds                     good
    allocate N               and write the data of these blocks                        blocks B B …, or refused NAME
    retain B B …                                                                       done, or refused NAME
    release B B …                                                                      done, or refused NAME
    reap                                                                               reaped SLOT SLOT …
    close                                                                              closed
    quit                     end, without closing                                      (no answer)

The *board* is a file of 64 numbers of u64, on which workers tell each other which blocks they could share: 0, or
(block + 1) << 16 | generation. It is written without care; a number that is out of date is refused by `retain`.

The *data* of a block is written by who allocated it, before it is put on the board: u64 block, u64 generation, random
bytes, and in the last 4 bytes the CRC-32 of all before. Nobody changes it until the block is handed out again. So each
holder can check it whenever it likes.

In a pool with a prefix index there are 16 *chains* of 4 blocks; block i of chain c has the tokens c, i, c, i … A block
that is to be published has c × 256 + i instead of the first 8 of the random bytes, and whoever finds it checks that.

The loop, at random: allocate 1 to 8 and write their data; retain what the board offers, and check the data; retain
again; release, after checking; put a block on the board; publish the beginning of a chain; reuse one, and check the
data; unpublish; refusals that must be (another's block released, a free one retained); now and then, reap.
"""

import mmap
import os
import random
import select
import struct
import sys
import zlib
from collections import Counter

from pagedkv.core.errors import DoubleFree, OutOfBlocks, PoolError, UseAfterFree
from pagedkv.shared import SharedPool
from tests.shared.steps import stepped

BOARD_NUMBERS = 64
MOST_HELD = 60  # references of one worker
NUM_CHAINS, CHAIN_BLOCKS = 16, 4


class Bad(Exception):
    """What a worker saw must not be."""


class Lines:
    """Lines from a file descriptor, and whether one has come, without waiting."""

    def __init__(self, descriptor=0):
        self._descriptor, self._pending = descriptor, b""

    def has_come(self):
        return b"\n" in self._pending or bool(select.select([self._descriptor], [], [], 0)[0])

    def next(self):
        while b"\n" not in self._pending:
            more = os.read(self._descriptor, 4096)
            if not more:
                return None
            self._pending += more
        line, self._pending = self._pending.split(b"\n", 1)
        return line.decode()


class Worker:
    def __init__(self, lines, operations="compiled"):
        self._lines = lines
        self._countdown, self._make = stepped(operations)
        self._references = Counter()
        self._random = random.Random()

    def answer(self, command, *arguments):
        return getattr(self, f"do_{command}")(*arguments)

    # ── commands ──

    def do_join(self, name, cache, board):
        self.pool = SharedPool.join(name, cache_blocks=int(cache), operations=self._make, wait_seconds=20)
        with open(board, "r+b") as file:
            self._board = memoryview(mmap.mmap(file.fileno(), 8 * BOARD_NUMBERS)).cast("Q")
        return f"joined {self.pool.slot}"

    def do_loop(self, seed, steps):
        self._random.seed(int(seed))
        if int(steps):
            self._countdown.arm(int(steps))
        operations = 0
        while not self._lines.has_come():
            self._one()
            operations += 1
        self._countdown.disarm()
        self._lines.next()
        return f"stopped {operations}"

    def do_held(self):
        return " ".join(["held", *(f"{block}:{count}" for block, count in sorted(self._references.items()))])

    def do_check(self):
        for block in self._references:
            self._check(block)
        return "good"

    def do_allocate(self, n):
        try:
            blocks = self.pool.allocate(int(n))
        except PoolError as error:
            return f"refused {type(error).__name__}"
        self._took(blocks)
        return " ".join(["blocks", *map(str, blocks)])

    def do_retain(self, *blocks):
        return self._change(self.pool.retain, blocks, 1)

    def do_release(self, *blocks):
        return self._change(self.pool.release, blocks, -1)

    def do_reap(self):
        return " ".join(["reaped", *(str(reaped.slot) for reaped in self.pool.reap().dead)])

    def do_close(self):
        self.pool.close()
        self._references.clear()
        return "closed"

    # ── the loop ──

    def _one(self):
        held, choose = list(self._references), self._random
        indexed = 20 if self.pool.tokens_per_block else 0
        what = choose.choices(["allocate", "board", "again", "release", "publish", "wrong", "reap", "cache", "reuse",
                               "uncache"],
                              [30, 20, 10, 40 if self._references.total() < MOST_HELD else 400, 15, 3, 0.3, indexed,
                               indexed, indexed / 10])[0]
        if what == "allocate":
            try:
                self._took(self.pool.allocate(choose.randint(1, 8)))
            except OutOfBlocks:
                pass
        elif what == "board":
            self._retain_from_board()
        elif what == "reap":
            self.pool.reap()
        elif what == "cache":
            self._publish_chain(choose.randrange(NUM_CHAINS), choose.randint(1, CHAIN_BLOCKS))
        elif what == "reuse":
            self._reuse_chain(choose.randrange(NUM_CHAINS))
        elif not held:
            return
        elif what == "again":
            blocks = [choose.choice(held), choose.choice(held)]
            self.pool.retain(blocks)
            self._references.update(blocks)
        elif what == "release":
            blocks = choose.sample(held, min(len(held), choose.randint(1, 8)))
            blocks = [block for block in blocks for _ in range(choose.randint(1, self._references[block]))]
            for block in blocks:
                self._check(block)
            self.pool.release(blocks)
            self._count(blocks, -1)
        elif what == "uncache":
            self.pool.unpublish([choose.choice(held)])
        elif what == "publish":
            block = choose.choice(held)
            self._board[choose.randrange(BOARD_NUMBERS)] = (block + 1) << 16 | self.pool.generation(block)
        else:
            self._refused(held)

    def _retain_from_board(self):
        number = self._board[self._random.randrange(BOARD_NUMBERS)]
        if not number:
            return
        block, generation = (number >> 16) - 1, number & 0xFFFF
        try:
            self.pool.retain([block], generations=[generation])
        except UseAfterFree:
            return
        self._count([block], 1)
        if self.pool.generation(block) != generation:
            raise Bad(f"block {block} was retained at generation {generation}, has {self.pool.generation(block)}")
        self._check(block)

    def _tokens(self, chain, num_blocks):
        size = self.pool.tokens_per_block
        return [token for place in range(num_blocks) for token in ([chain, place] * size)[:size]]

    def _publish_chain(self, chain, num_blocks):
        try:
            blocks = self.pool.allocate(num_blocks)
        except OutOfBlocks:
            return
        self._took(blocks, [chain * 256 + place for place in range(num_blocks)])
        self.pool.publish(self._tokens(chain, num_blocks), blocks)

    def _reuse_chain(self, chain):
        blocks = self.pool.reuse(self._tokens(chain, CHAIN_BLOCKS))
        self._count(blocks, 1)
        for place, block in enumerate(blocks):
            self._check(block)
            found, = struct.unpack_from("<Q", self.pool.buffer(block), 16)
            if found != chain * 256 + place:
                raise Bad(f"block {block} was found at place {place} of chain {chain}, and is place {found % 256} of "
                          f"chain {found // 256}")

    def _refused(self, held):
        """Calls that must fail leave everything as it was; the check of counts later would show."""
        others = set(range(self.pool.num_blocks)) - set(held)
        block = self._random.choice(sorted(others))
        try:
            self.pool.release([held[0], block])
        except DoubleFree:
            pass
        else:
            raise Bad(f"block {block} was released without a reference")
        try:
            self.pool.retain([held[0], held[0]], generations=[self.pool.generation(held[0]),
                                                             (self.pool.generation(held[0]) + 1) % (1 << 14)])
        except UseAfterFree:
            pass
        else:
            raise Bad(f"block {held[0]} was retained at another generation")

    def _took(self, blocks, places=()):
        """Write their data. places: chain × 256 + place of each that is to be published."""
        for i, block in enumerate(blocks):
            if self._references[block]:
                raise Bad(f"block {block} was handed out while this worker holds it")
            view = self.pool.buffer(block)
            place = places[i].to_bytes(8, "little") if places else os.urandom(8)
            data = struct.pack("<QQ", block, self.pool.generation(block)) + place + os.urandom(len(view) - 28)
            view[:] = data + struct.pack("<I", zlib.crc32(data))
        self._count(blocks, 1)

    def _check(self, block):
        data = bytes(self.pool.buffer(block))
        number, generation = struct.unpack_from("<QQ", data)
        if (number, generation) != (block, self.pool.generation(block)) \
                or struct.unpack("<I", data[-4:])[0] != zlib.crc32(data[:-4]):
            raise Bad(f"block {block}, generation {self.pool.generation(block)}, holds data of block {number}, "
                      f"generation {generation}, or it was overwritten")

    def _change(self, call, blocks, by):
        blocks = list(map(int, blocks))
        try:
            call(blocks)
        except PoolError as error:
            return f"refused {type(error).__name__}"
        self._count(blocks, by)
        return "done"

    def _count(self, blocks, by):
        for block in blocks:
            self._references[block] += by
            if not self._references[block]:
                del self._references[block]


def main():
    lines = Lines()
    worker = Worker(lines, *sys.argv[1:])
    while (line := lines.next()) is not None and line != "quit":
        try:
            answer = worker.answer(*line.split())
        except Exception as error:
            answer = f"bad {type(error).__name__}: {error}".replace("\n", " | ")
        print(answer, flush=True)
    os._exit(0)  # as abruptly as it can be done by oneself


if __name__ == "__main__":
    main()
