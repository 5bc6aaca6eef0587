"""Worker processes for the cells of a notebook: members of a shared pool that can be told, stopped and killed.

    with Workers(pool) as workers:
        a, b = workers.python("A"), workers.java("B")
        first, *others = a.allocate(3)
        b.retain(*a.handed_over(first))
        a.kill()
        pool.reap()

Each is a real process of its own, in Python (`workers_processes_child`) or Java (`pagedkv.shared.PoolWorker`), and does
nothing but what it is told. No process outlives the kernel, whatever happens to that: a worker's stdin ends with the
kernel, and that ends the worker. One that is stopped is in a process group of its own, so the system wakes it up and
ends it (an orphaned group with stopped processes gets SIGHUP and SIGCONT).
"""

import atexit
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from pathlib import Path

from pagedkv.core import errors
from pagedkv.shared import SharedPool, segment
from pagedkv.shared.slots import Member
from pagedkv.shared.watch import WatchedPool

ANSWER_SECONDS = 20.0  # a start on a machine that is busy with something else; an answer takes milliseconds
_JVM_FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xms16m", "-Xmx64m", "-Xshare:auto")


class WorkerFailed(Exception):
    """A worker did not start, did not answer, or said that something went wrong that is no refusal."""


class WorkerGone(WorkerFailed):
    """A worker is told something after it was killed or has left."""


class WorkerStopped(WorkerFailed):
    """A worker is told something while it is stopped."""


class Worker:
    """A process that has joined a pool; made by `Workers`.

    name, language   what it is called; "Python" or "Java"
    slot             in the pool
    state            "running", "stopped", "killed" or "left"

    What the pool refuses is raised here as it would be in the worker: OutOfBlocks, UseAfterFree, DoubleFree, NotABlock.
    """

    def __init__(self, name: str, language: str, command: list[str], pool_name: str, environ: dict[str, str]):
        self.name, self.language, self.state = name, language, "running"
        self._said = tempfile.TemporaryFile()
        self._pending = b""
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._said,
                                         env=environ, process_group=0)
        try:
            self.slot = int(self._ask("join", pool_name)[0])
        except BaseException:
            self.kill()
            raise

    def __repr__(self) -> str:
        return f"<Worker {self.name}: {self.language}, {self.state}>"

    # ── as a member ──────────────────────────────────────────────────────────────────────────────────────────────────

    def allocate(self, n: int) -> list[int]:
        """Take n free blocks."""
        return [block for block, _ in _pairs(self._ask("allocate", n))]

    def retain(self, block: int, generation: int | None = None) -> None:
        """One more reference to the block, if it has this generation."""
        self._ask("retain", block if generation is None else f"{block}:{generation}")

    def release(self, *blocks: int) -> None:
        self._ask("release", *blocks)

    def generation(self, block: int) -> int:
        return int(self._ask("generation", block)[0])

    def handed_over(self, block: int) -> tuple[int, int]:
        """What another member has to know to take the block over: the block and its generation."""
        return block, self.generation(block)

    def write(self, block: int, data: bytes | str) -> None:
        """Into the block, from its beginning on; a text in UTF-8."""
        data = data.encode() if isinstance(data, str) else bytes(data)
        if data:
            self._ask("write", block, data.hex())

    def read(self, block: int, num_bytes: int) -> bytes:
        """The block's first bytes."""
        return bytes.fromhex("".join(self._ask("read", block, num_bytes)))

    def publish(self, token_ids: list[int], blocks: list[int]) -> int:
        """Make what these blocks contain findable; how many are found in these very blocks."""
        return int(self._ask("publish", _tokens(token_ids), *blocks)[0])

    def find(self, token_ids: list[int]) -> list[int]:
        """The blocks that hold the longest known beginning of these tokens."""
        return list(map(int, self._ask("find", _tokens(token_ids))))

    def reuse(self, token_ids: list[int]) -> list[int]:
        """The same, with one more reference to each."""
        return [block for block, _ in _pairs(self._ask("reuse", _tokens(token_ids)))]

    def reap(self) -> list[tuple[int, int, int]]:
        """Take back what dead members held: (slot, references, blocks that became free) of each."""
        return [tuple(map(int, each.split(":"))) for each in self._ask("reap")]

    # ── as a process ─────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def pid(self) -> int:
        return self._process.pid

    def kill(self) -> None:
        """SIGKILL: it ends where it is, and nothing of it is given back. Returns when it is gone; does nothing to one
        that is."""
        if self.state in ("running", "stopped"):
            self._end("killed")

    def stop(self) -> None:
        """SIGSTOP: it goes on to live, and does nothing, until `go_on`."""
        self._check_there()
        if self.state == "running":
            os.kill(self.pid, signal.SIGSTOP)
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
            self.state = "stopped"

    def go_on(self) -> None:
        """SIGCONT, after `stop`."""
        self._check_there()
        if self.state == "stopped":
            os.kill(self.pid, signal.SIGCONT)
            self.state = "running"

    def leave(self) -> None:
        """Give back what it holds, leave the pool, and end. Kills one that is stopped; does nothing to one that is
        gone."""
        if self.state == "stopped":
            self.kill()
        elif self.state == "running":
            self._ask("close")
            self._end("left")

    def _end(self, state: str) -> None:
        self.state = state
        self._process.kill()
        self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()

    # ── telling it ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, command: str, *arguments: object) -> list[str]:
        self._check_there()
        if self.state == "stopped":
            raise WorkerStopped(f"worker {self.name} is stopped and cannot answer: {self.name}.go_on() first")
        line = " ".join(map(str, (command, *arguments))) + "\n"
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except OSError:
            raise self._failed("ended") from None
        answer, _, rest = self._line(command).partition(" ")
        if answer == "ok":
            return rest.split()
        kind, _, message = rest.partition(" ")
        if answer == "refused":
            raise _refusal(kind, f"worker {self.name}: {message}")
        raise WorkerFailed(f"worker {self.name} could not {command}: {kind}: {message}")

    def _line(self, command: str) -> str:
        give_up = time.monotonic() + ANSWER_SECONDS
        output = self._process.stdout.fileno()
        while b"\n" not in self._pending:
            left = give_up - time.monotonic()
            try:
                if left <= 0 or not select.select([output], [], [], left)[0]:
                    raise self._failed(f"has not answered {command!r} in {ANSWER_SECONDS:g} s")
            except KeyboardInterrupt:
                self._end("killed")  # its answer would be taken for that of the next command
                raise
            more = os.read(output, 65_536)
            if not more:
                raise self._failed(f"ended instead of answering {command!r}")
            self._pending += more
        line, self._pending = self._pending.split(b"\n", 1)
        return line.decode()

    def _failed(self, what: str) -> WorkerFailed:
        self._end("killed")
        self._said.seek(0)
        said = self._said.read().decode(errors="replace").strip()
        last = "\n".join(said.splitlines()[-12:])
        return WorkerFailed(f"worker {self.name} {what}, and was killed" + (f". It said:\n{last}" if last else ""))

    def _check_there(self) -> None:
        if self.state in ("killed", "left"):
            what = "was killed" if self.state == "killed" else "has left the pool"
            raise WorkerGone(f"worker {self.name} {what}: start another one")


class Workers:
    """Starts workers for one pool, and ends them.

    pool      one of the pool's members, or its name
    own_name  what the events of `watch` call the member `pool`, if it is one

    At the end of the `with` those that still run leave the pool, giving back what they hold; those that are stopped are
    killed. What was killed is given back by a `reap`. Without a `with`: `close()`, at the latest when the kernel ends.
    """

    def __init__(self, pool: SharedPool | str, own_name: str = "Python"):
        segment.check_system()
        self.pool_name = pool if isinstance(pool, str) else pool.name
        self._names = {} if isinstance(pool, str) else {(pool.slot, os.getpid()): own_name}
        self._workers: list[Worker] = []
        _all.add(self)

    def python(self, name: str) -> Worker:
        """A worker in Python that has joined the pool."""
        # -P: nothing from the folder in which the notebook lies
        command = [sys.executable, "-P", "-m", "pagedkv.lab.workers_processes_child"]
        return self._start(name, "Python", command)

    def java(self, name: str) -> Worker:
        """A worker in Java that has joined the pool. Raises JdkNotFound, JavaBuildFailed."""
        from pagedkv.java.build import ensure_built
        from pagedkv.java.jdk import find_jdk
        jdk = find_jdk()
        command = [str(jdk.home / "bin" / "java"), *_JVM_FLAGS, "-cp", str(ensure_built(jdk)[0]),
                   "pagedkv.shared.PoolWorker"]
        return self._start(name, "Java", command)

    def watch(self) -> WatchedPool:
        """All members of the pool, as events; each worker called by its name."""
        return WatchedPool(self.pool_name, names=self.name_of)

    def name_of(self, member: Member) -> str | None:
        """What a member is called: a worker's name, own_name, or None for others."""
        return self._names.get((member.slot, member.pid))

    def close(self) -> None:
        """End all workers. A second call does nothing."""
        problems = []
        for worker in self._workers:
            try:
                worker.leave()
            except WorkerFailed as problem:
                problems.append(problem)
        if problems:
            raise problems[0]

    def kill(self) -> None:
        """Kill all workers."""
        for worker in self._workers:
            worker.kill()

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind, *exc_info) -> None:
        try:
            self.close()
        except WorkerFailed:
            if kind is None:  # else what is under way says more
                raise

    def _start(self, name: str, language: str, command: list[str]) -> Worker:
        if any(worker.name == name and worker.state in ("running", "stopped") for worker in self._workers):
            raise ValueError(f"there is a worker {name!r} already: give each its own name")
        environ = {key: value for key, value in os.environ.items() if key not in _FLAG_VARIABLES}
        worker = Worker(name, language, command, self.pool_name, environ)
        self._workers.append(worker)
        self._names[worker.slot, worker.pid] = name
        return worker


# A JVM says on stderr that it takes flags from these, and they are for another JVM.
_FLAG_VARIABLES = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS")
_all: "weakref.WeakSet[Workers]" = weakref.WeakSet()


@atexit.register
def _kill_all() -> None:
    for workers in list(_all):
        workers.kill()


# ── names for the pools of a notebook ────────────────────────────────────────────────────────────────────────────────


def pool_name(label: str = "pool") -> str:
    """A name for a pool of this kernel, which no other kernel uses. Run again, it removes the pool that it named
    before: a cell makes its pool anew. The pool is removed when the kernel ends.

    A kernel that was killed leaves its pools behind; they are removed here by the next one: those of this user whose
    kernel is gone, and of which nobody is a member any more.

    Raises ValueError for a label that cannot be part of a name, NotImplementedError where there are no shared pools."""
    segment.check_system()
    name = f"course-{os.getuid()}-{os.getpid()}-{label}"
    segment.pool_path(name)
    _remove_leftovers()
    segment.remove(name)
    if name not in _named:
        _named.append(name)
    return name


_named: list[str] = []


@atexit.register
def _remove_named() -> None:
    for name in _named:
        segment.remove(name)


def _remove_leftovers() -> None:
    # with the lock files' names, so that those of pools are found whose file is gone already
    pattern = re.compile(rf"pagedkv(-lock)?\.(course-{os.getuid()}-(\d+)-.+)")
    for path in Path(segment.FOLDER).glob(f"pagedkv*.course-{os.getuid()}-*"):
        match = pattern.fullmatch(path.name)
        if match and not match[1] and not _is_process(int(match[3])) and not _has_members(match[2]):
            segment.remove(match[2])


def _is_process(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _has_members(name: str) -> bool:
    """Whether somebody, in another container, holds a lock: process numbers say nothing there."""
    from pagedkv.shared import SharedPoolError, layout
    from pagedkv.shared.slots import lock_file
    try:
        sizes, mapping, _ = segment.open_pool(name)
        mapping.close()
        locks = lock_file(str(segment.lock_path(name, sizes.pool_id)))
    except SharedPoolError:
        return False  # never finished, or of another version
    return any(map(locks.is_locked, range(layout.NUM_SLOTS)))


# ── answers ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _pairs(answer: list[str]) -> list[tuple[int, int]]:
    return [(int(block), int(generation)) for block, generation in (each.split(":") for each in answer)]


def _tokens(token_ids) -> str:
    return ",".join(map(str, map(int, token_ids)))


def _refusal(kind: str, message: str) -> Exception:
    found = getattr(errors, kind, None)
    if isinstance(found, type) and issubclass(found, errors.PoolError):
        return found(message)
    return errors.PoolError(f"{message} ({kind})")
