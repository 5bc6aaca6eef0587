"""The crash test: workers on one pool, killed at random moments, and what has to hold afterwards.

    make crash-test KILLS=2000                                    workers in Python and Java
    python -m tests.shared.crash --kills 2000 --seed 1            in Python alone
    python -m tests.shared.crash --kills 200 --worker "some command" --worker "another"

Workers run the loop of tests/shared/worker.py (or of another program that keeps to its protocol; several take turns).
One after the other is killed with SIGKILL and replaced, sometimes two at once, sometimes while another is stopped.
Since a random moment is seldom one in the middle of an operation, many are told to kill themselves at such a one. Every
few kills the others are told to stop and to say what they hold; the pool is reaped; and then

- the refcount of every block is exactly the sum of what the survivors, and this process, hold;
- no block is lost: all that nobody holds can be allocated, and none twice;
- what is in the prefix index is whole;
- the data of everything that is held is intact (workers check it all the time, too).
"""

import argparse
import os
import random
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from pagedkv.shared import SharedPool
from tests.shared.state import State
from tests.shared.worker import BOARD_NUMBERS

ROOT = Path(__file__).resolve().parents[2]
PYTHON_WORKER = f"{shlex.quote(sys.executable)} -m tests.shared.worker"
BLOCK_BYTES, TOKENS_PER_BLOCK = 256, 4
PATIENCE_SECONDS = 0.5
MOST_STEPS = 2000


class Failed(AssertionError):
    """Something that must hold did not."""


class WorkerProcess:
    """A worker from the other end of the pipes."""

    def __init__(self, command=PYTHON_WORKER):
        self._process = subprocess.Popen(shlex.split(command), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True, bufsize=1)
        self.slot = None
        self._kills_itself = False

    def loop(self, seed, steps):
        self._kills_itself = steps > 0
        self.send(f"loop {seed} {steps}")

    def send(self, line):
        try:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            if not self._has_killed_itself():
                raise Failed(f"the worker in slot {self.slot} has ended") from None

    def receive(self):
        """The answer as a word and the rest, or None from one that has killed itself as it was told to."""
        line = self._process.stdout.readline().strip()
        if not line and self._has_killed_itself():
            return None
        if not line or line.startswith("bad"):
            raise Failed(f"the worker in slot {self.slot} answered {line or 'nothing'!r}")
        word, *rest = line.split()
        return word, rest

    def ask(self, line):
        self.send(line)
        return self.receive()

    def signal(self, number):
        self._process.send_signal(number)

    def kill(self):
        """Or wait until it has done so itself, if it was told to, and does."""
        if self._kills_itself:
            try:
                self._process.wait(PATIENCE_SECONDS)
            except subprocess.TimeoutExpired:
                pass
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass

    def _has_killed_itself(self):
        return self._kills_itself and self._process.wait(PATIENCE_SECONDS) == -signal.SIGKILL


class CrashTest:
    def __init__(self, kills, seed, num_workers=3, commands=(PYTHON_WORKER,), num_blocks=200, operations="auto",
                 say=lambda text: None):
        self._kills, self._random, self._say = kills, random.Random(seed), say
        self._num_workers, self._commands, self._num_blocks = num_workers, commands, num_blocks
        self._operations = operations
        self.name = f"crash-{os.getpid()}"
        self._started = 0
        self.workers: list[WorkerProcess] = []
        self._spare: list[WorkerProcess] = []
        self.num_kills = self.num_checks = self.num_operations = 0
        self.kills_by_language = Counter()
        self.num_published = 0
        self.num_references = self.num_healed = self.most_references = 0

    def run(self):
        board = Path(f"/dev/shm/{self.name}.board")
        board.write_bytes(bytes(8 * BOARD_NUMBERS))
        self._board = board
        try:
            self.pool = SharedPool.create(self.name, self._num_blocks, BLOCK_BYTES, tokens_per_block=TOKENS_PER_BLOCK,
                                          operations=self._operations)
            with self.pool:
                self._own = self.pool.allocate(7)
                for block in self._own:
                    self.pool.buffer(block)[:] = bytes([block]) * BLOCK_BYTES
                while self.num_kills < self._kills:
                    self._round()
                self.pool.release(self._own)
        finally:
            for worker in self.workers + self._spare:
                worker.kill()
            SharedPool.remove(self.name)
            board.unlink()

    def _start(self):
        """A worker that is up, while the one after it is still starting."""
        while len(self._spare) < 2:
            self._spare.append(WorkerProcess(self._commands[self._started % len(self._commands)]))
            self._started += 1
        worker = self._spare.pop(0)
        word, (slot,) = worker.ask(f"join {self.name} {self._random.choice([0, 0, 4, 16])} {self._board}")
        worker.slot = int(slot)
        worker.language, = [member.language for member in self.pool.members() if member.slot == worker.slot]
        return worker

    def _round(self):
        choose = self._random
        while len(self.workers) < self._num_workers:
            self.workers.append(self._start())
        for worker in self.workers:
            worker.loop(choose.getrandbits(30), 0)
        for _ in range(choose.randint(2, 6)):
            time.sleep(choose.uniform(0, 0.02))
            victims = choose.sample(self.workers, choose.choices([1, 2], [4, 1])[0])
            stopped = choose.choice([worker for worker in self.workers if worker not in victims])
            is_stopped = choose.random() < 0.2
            if is_stopped:
                stopped.signal(signal.SIGSTOP)
            for victim in victims:
                self._end(victim)
            if choose.random() < 0.3:
                self._reap()
            if is_stopped:
                stopped.signal(signal.SIGCONT)
            for _ in victims:
                worker = self._start()
                worker.loop(choose.getrandbits(30), choose.choice([0, choose.randint(1, MOST_STEPS)]))
                self.workers.append(worker)
        for worker in self.workers:
            worker.send("stop")
        for worker in self.workers.copy():
            answer = worker.receive()
            if answer is None:
                self._end(worker)
            else:
                self.num_operations += int(answer[1][0])
        self.check()

    def _end(self, worker):
        worker.kill()
        self.workers.remove(worker)
        self.num_kills += 1
        self.kills_by_language[worker.language] += 1

    def _reap(self):
        report = self.pool.reap()
        self.num_references += sum(reaped.num_references for reaped in report.dead)
        self.num_healed += report.num_healed_hints

    def check(self):
        self._reap()
        held = Counter(self._own)
        for worker in self.workers:
            for pair in worker.ask("held")[1]:
                block, count = map(int, pair.split(":"))
                held[block] += count
            worker.ask("check")
        expected = [held[block] for block in range(self._num_blocks)]
        found = self.pool.refcounts()
        wrong = [(block, found[block], expected[block]) for block in range(self._num_blocks)
                 if found[block] != expected[block]]
        self._expect(not wrong, f"refcounts are not what the survivors hold: (block, found, expected) {wrong[:5]}")
        slots = [self.pool.slot, *(worker.slot for worker in self.workers)]
        state = State(self.name)
        self.num_published = state.last_node
        faults = list(state.faults(slots))
        self._expect(not faults, f"{faults[:3]}")
        # no block is lost, none handed out twice
        free = {block for block in range(self._num_blocks) if not held[block]} - state.cached
        self._expect(self.pool.num_free_blocks == len(free), f"{self.pool.num_free_blocks} are free, not {len(free)}")
        blocks = self.pool.allocate(len(free))
        self._expect(sorted(blocks) == sorted(free), f"allocated {sorted(blocks)}, free were {sorted(free)}")
        self.pool.release(blocks)
        for block in self._own:
            self._expect(self.pool.buffer(block) == bytes([block]) * BLOCK_BYTES, f"block {block} was overwritten")
        self.num_checks += 1
        self.most_references = max(self.most_references, held.total())
        self._say(f"{self.num_kills} kills, {self.num_operations:,} operations of survivors, {held.total()} references "
                  f"held, {self.num_references} taken back from the dead, {self.num_healed} hints healed")

    def _expect(self, holds, what):
        if not holds:
            raise Failed(f"after {self.num_kills} kills: {what}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1, help="which worker is killed when; the processes stay processes")
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--worker", action="append", help="the command of a worker; several of them take turns")
    parser.add_argument("--java", action="store_true", help="the Java worker and the Python worker take turns")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pagedkv-worker-") as folder:
        commands = arguments.worker or [PYTHON_WORKER]
        if arguments.java:
            from tests.shared import java_worker  # not needed, nor a JDK, for Python alone
            commands.append(java_worker.command(Path(folder)))
        start = time.monotonic()
        test = CrashTest(arguments.kills, arguments.seed, arguments.workers, commands, say=print)
        test.run()
        killed = ", ".join(f"{number} of {language}" for language, number in sorted(test.kills_by_language.items()))
        print(f"{test.num_kills} kills ({killed}) and {test.num_checks} checks in {time.monotonic() - start:.0f} s: no "
              "block lost, none handed out twice, counts and data of all survivors exact")


if __name__ == "__main__":
    main()
