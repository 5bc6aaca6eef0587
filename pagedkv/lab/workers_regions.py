"""Regions of shared memory whose engine is killed again and again: what is left of them.

    for rule in RULES:
        print(restarts(rule))

An *engine* is a process of its own. It makes a *region*, a file in shared memory, under a name that no engine had
before, maps it, and serves until it is told to end. Who removes the region? Each rule is an answer:

    AT_THE_END    the engine unlinks it when it ends, as vLLM did until pull request 52596
    ONCE_MAPPED   the engine unlinks it as soon as all have mapped it, as vLLM does since; the kernel frees the memory with
                  the last process that has it mapped
    BY_LOCKS      the engine unlinks it when it ends; and whoever starts one removes the regions of which nobody that lives
                  is a member. The region is a `SharedPool`, whose members each hold a lock (`pagedkv.shared.layout`)
"""

import itertools
import mmap
import os
import subprocess
import sys
from dataclasses import dataclass

from pagedkv.lab.workers_processes import pool_name
from pagedkv.shared import SharedPool, segment

AT_THE_END, ONCE_MAPPED, BY_LOCKS = RULES = ("unlinked at the end", "unlinked once mapped", "removed by the next start")
_KEPT_FROM_ENVIRON = ("PATH", "PYTHONPATH", "HOME", "TMPDIR")  # PYTHONPATH: a checkout that is not installed
_numbers = itertools.count(1)


class Engine:
    """A process that has made a region of this size, and serves. Raises NoSharedMemory, RuntimeError.

    name  of the region, as `pool_name` gives it: whatever happens, the region is gone when the kernel ends"""

    def __init__(self, rule: str, region_bytes: int):
        if rule not in RULES:
            raise ValueError(f"rule is one of {', '.join(map(repr, RULES))}, got {rule!r}")
        self.rule = rule
        self.name = pool_name(f"engine-{next(_numbers)}")
        environ = {key: os.environ[key] for key in _KEPT_FROM_ENVIRON if key in os.environ}
        self._process = subprocess.Popen([sys.executable, "-P", "-m", __name__, rule, self.name, str(region_bytes)],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         env=environ, text=True)
        said = self._process.stdout.readline()
        if said != "ready\n":
            said += self._process.stdout.read()  # to its end
            self.kill()
            raise RuntimeError(f"an engine with a region of {region_bytes:,} bytes did not start:\n{said.strip()}")

    def kill(self) -> None:
        """SIGKILL: nothing of its own code runs any more."""
        self._process.kill()
        self._over()

    def end(self) -> None:
        """Tell it to end, and wait until it has."""
        self._process.stdin.close()
        self._over()

    def _over(self) -> None:
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    def can_be_joined(self) -> bool:
        """Whether a process that starts now could map the region too."""
        if self.rule != BY_LOCKS:
            return segment.pool_path(self.name).exists()
        SharedPool.join(self.name).close()
        return True

    def bytes_left(self) -> int:
        """What the file system still holds under the region's name."""
        try:
            return segment.pool_path(self.name).stat().st_size
        except FileNotFoundError:
            return 0

    def remove_if_dead(self) -> bool:
        """Remove the region if nobody that lives is a member; only after BY_LOCKS does anybody know."""
        if not self.bytes_left():
            return False
        with SharedPool.join(self.name) as pool:
            if any(member.alive for member in pool.members() if member.slot != pool.slot):
                return False
            pool.unlink()
        return True


@dataclass(frozen=True)
class Restarts:
    """left_bytes: in shared memory after each kill, of all engines together; can_be_joined: whether a process that
    starts later than the others could map the region of an engine that lives."""

    rule: str
    left_bytes: tuple[int, ...]
    can_be_joined: bool

    def __str__(self) -> str:
        left = "".join(f"{left / 2**20:>5.0f}" for left in self.left_bytes)
        late = "can" if self.can_be_joined else "cannot"
        return f"{self.rule:<26}MiB after each kill:{left}    who comes late {late} join"


def restarts(rule: str, kills: int = 3, region_bytes: int = 16 << 20) -> Restarts:
    """Start an engine, kill it, start the next one, and so on. Leaves nothing behind."""
    engines, left, joined = [], [], []
    try:
        for _ in range(kills):
            if rule == BY_LOCKS:
                for engine in engines:
                    engine.remove_if_dead()
            engine = Engine(rule, region_bytes)
            engines.append(engine)
            joined.append(engine.can_be_joined())
            engine.kill()
            left.append(sum(each.bytes_left() for each in engines))
    finally:
        for engine in engines:
            engine.kill()
            segment.remove(engine.name)
    return Restarts(rule, tuple(left), all(joined))


def _engine(rule: str, name: str, region_bytes: int) -> None:
    """The engine's own process."""
    path = segment.pool_path(name)
    if rule == BY_LOCKS:
        pool = SharedPool.create(name, 1, region_bytes)
    else:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.posix_fallocate(file, 0, region_bytes)
        region = mmap.mmap(file, region_bytes)
        if rule == ONCE_MAPPED:
            os.unlink(path)
    print("ready", flush=True)
    sys.stdin.read()  # serves
    if rule == BY_LOCKS:
        pool.unlink()
        pool.close()
    elif rule == AT_THE_END:
        os.unlink(path)
        region.close()


if __name__ == "__main__":
    _engine(sys.argv[1], sys.argv[2], int(sys.argv[3]))
