"""Worker processes: told, stopped, killed, and never left over."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pagedkv import DoubleFree, NotABlock, OutOfBlocks, Replay, UseAfterFree
from pagedkv.java.build import JavaBuildFailed, ensure_built
from pagedkv.java.jdk import ToolNotFound, find_jdk
from pagedkv.lab import workers_processes
from pagedkv.lab.workers_processes import WorkerFailed, WorkerGone, Workers, WorkerStopped, pool_name
from pagedkv.shared import SharedPool, segment

try:
    segment.check_system()
except NotImplementedError as error:
    pytest.skip(str(error), allow_module_level=True)


@pytest.fixture
def pool():
    with SharedPool.create(pool_name("workers-test"), 16, 64, tokens_per_block=4) as pool:
        yield pool
        pool.unlink()


@pytest.fixture
def workers(pool):
    workers = Workers(pool)
    yield workers
    workers.kill()


@pytest.fixture(params=["python", "java"])
def start(request, workers):
    """Starts a worker of this language."""
    if request.param == "java":
        try:
            ensure_built(find_jdk())
        except (ToolNotFound, JavaBuildFailed) as problem:
            pytest.skip(str(problem))
    return getattr(workers, request.param)


def gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"  # ended, and nobody has asked


def wait_until(condition, seconds=20):
    give_up = time.monotonic() + seconds
    while not condition() and time.monotonic() < give_up:
        time.sleep(0.01)
    assert condition()


def test_it_does_what_it_is_told(pool, workers, start):
    a, b = start("A"), workers.python("B")
    first, *others = a.allocate(3)
    assert pool.holders(first) == (a.slot,) and a.generation(first) == pool.generation(first) == 1
    a.write(first, "hello")
    b.retain(*a.handed_over(first))
    a.release(first, *others)
    assert b.read(first, 5) == b"hello" and pool.refcount(first) == 1
    a.retain(first)
    assert pool.holders(first) == (a.slot, b.slot)
    full = a.allocate(1)
    assert a.publish([1, 2, 3, 4], full) == 1
    assert b.find([1, 2, 3, 4, 5]) == full == b.reuse([1, 2, 3, 4, 5])
    assert a.publish([1, 2, 3, 4], a.allocate(1)) == 0 and a.reuse([1, 2, 3, 4]) == full
    assert b.find([9, 9, 9, 9]) == []


def test_what_the_pool_refuses_is_raised_here(pool, start):
    a = start("A")
    mine, others = a.allocate(1), pool.allocate(1)
    with pytest.raises(DoubleFree, match="worker A: block"):
        a.release(*others)
    with pytest.raises(UseAfterFree, match="generation"):
        a.retain(others[0], 77)
    with pytest.raises(OutOfBlocks):
        a.allocate(17)
    with pytest.raises(NotABlock):
        a.retain(16)
    with pytest.raises(UseAfterFree):
        a.read(others[0], 4)
    with pytest.raises(WorkerFailed, match="65 bytes do not fit into a block of 64"):
        a.write(mine[0], b"x" * 65)
    assert a.state == "running" and pool.refcounts().count(1) == 2


def test_a_killed_worker_holds_until_it_is_reaped(pool, workers, start):
    a, b = start("A"), workers.python("B")
    watched = workers.watch()
    blocks = a.allocate(3)
    b.retain(blocks[0])
    watched.look()
    a.kill()
    assert gone(a.pid) and a.state == "killed" and pool.holders(blocks[1]) == (a.slot,)
    assert [(event.op, event.owner, event.detail) for event in watched.look()] == [
        ("retain", "A (dead)", {"died": True}), ("release", "A", {"died": True})]
    assert b.reap() == [(a.slot, 3, 2)]
    event, = watched.look()
    assert event[1:] == ("release", "A (dead)", tuple(blocks), {"reaped": True})
    assert Replay(watched.recording).end().refcounts() == pool.refcounts()
    with pytest.raises(WorkerGone, match="was killed"):
        a.allocate(1)
    a.kill()


def test_a_death_that_nobody_saw(pool, workers):
    a, watched = workers.python("A"), workers.watch()
    a.allocate(1)
    watched.look()
    a.kill()
    pool.reap()
    event, = watched.look()
    assert (event.op, event.owner, event.detail) == ("release", "A", {"reaped": True})


def test_the_members_are_called_by_their_workers_names(pool, workers):
    workers.python("first"), workers.python("second")
    watched = workers.watch()
    stranger = SharedPool.join(pool.name)
    assert watched.owners() == {0: "Python", 1: "first", 2: "second", 3: "Python 2"}
    stranger.close()


def test_a_stopped_worker_is_not_dead(pool, start):
    a = start("A")
    a.allocate(2)
    a.stop()
    assert a.state == "stopped" and pool.reap().dead == () and pool.num_free_blocks == 14
    with pytest.raises(WorkerStopped, match="A.go_on"):
        a.allocate(1)
    a.stop()
    a.go_on()
    assert len(a.allocate(1)) == 1
    a.stop()
    a.kill()
    assert pool.reap().dead[0].num_references == 3


def test_the_with_ends_all_and_gives_back(pool):
    with Workers(pool) as workers:
        a, b, c = (workers.python(name) for name in "ABC")
        for worker in (a, b, c):
            worker.allocate(1)
        b.kill()
        c.stop()
    assert (a.state, b.state, c.state) == ("left", "killed", "killed")
    assert all(gone(worker.pid) for worker in (a, b, c)) and pool.num_free_blocks == 14
    assert len(pool.reap().dead) == 2
    with pytest.raises(WorkerGone, match="has left"):
        a.allocate(1)
    workers.close()


def test_an_exception_in_the_with_ends_them_too(pool):
    with pytest.raises(KeyError), Workers(pool) as workers:
        a = workers.python("A")
        raise KeyError
    assert gone(a.pid)


def test_no_answer_is_an_error_and_the_end(pool, workers, monkeypatch):
    a = workers.python("A")
    monkeypatch.setattr(workers_processes, "ANSWER_SECONDS", 0.2)
    os.kill(a.pid, signal.SIGSTOP)  # behind its back
    with pytest.raises(WorkerFailed, match="has not answered 'allocate' in 0.2 s, and was killed"):
        a.allocate(1)
    assert gone(a.pid) and a.state == "killed"


def test_one_that_died_by_itself_is_told(pool, workers):
    a = workers.python("A")
    os.kill(a.pid, signal.SIGKILL)
    with pytest.raises(WorkerFailed, match="worker A ended"):
        a.allocate(1)
    with pytest.raises(WorkerGone):
        a.allocate(1)


def test_what_it_said_before_it_ended_is_in_the_error(pool, workers):
    with pytest.raises(WorkerFailed, match="(?s)worker A ended.*No module named"):
        workers._start("A", "Python", [sys.executable, "-m", "no_such_module_here"])


def test_a_pool_that_is_not_there_is_said_by_the_worker(workers, pool):
    pool.unlink()
    with pytest.raises(WorkerFailed, match="worker A could not join: NoSuchPool"):
        workers.python("A")


def test_two_of_one_name_are_refused(workers):
    workers.python("A").kill()
    workers.python("A")
    with pytest.raises(ValueError, match="there is a worker 'A' already"):
        workers.python("A")


KERNEL = """
    import sys, time
    from pagedkv.lab.workers_processes import Workers, pool_name
    from pagedkv.shared import SharedPool
    pool = SharedPool.create(pool_name("a"), 4, 64)
    workers = Workers(pool)
    a, b = workers.python("A"), workers.python("B")
    b.stop()
    print(pool.name, a.pid, b.pid, flush=True)
    {then}
"""


def kernel(then):
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(KERNEL.format(then=then))], text=True,
                               stdout=subprocess.PIPE, stdin=subprocess.PIPE)
    name, *pids = process.stdout.readline().split()
    return process, name, list(map(int, pids))


@pytest.mark.parametrize("then", ["pass", "raise SystemExit(3)"])
def test_nothing_is_left_when_the_kernel_ends(then):
    process, name, pids = kernel(then)
    process.communicate()
    assert all(map(gone, pids)) and not list(Path("/dev/shm").glob(f"pagedkv*{name}*"))


def test_nothing_but_the_pool_is_left_of_a_killed_kernel_and_the_next_one_removes_that():
    process, name, pids = kernel("time.sleep(60)")
    process.kill()
    process.communicate()
    for pid in pids:  # the stopped one too
        wait_until(lambda: gone(pid))
    assert segment.pool_path(name).exists()
    pool_name("workers-test-other")
    assert not list(Path("/dev/shm").glob(f"pagedkv*{name}*"))


def test_pools_of_kernels_that_live_are_left_alone():
    process, name, _ = kernel("sys.stdin.read()")
    pool_name("workers-test-other")
    assert segment.pool_path(name).exists()
    process.communicate("")
    assert not segment.pool_path(name).exists()


def test_a_pool_with_members_is_left_alone_even_if_its_maker_is_gone(pool):
    maker = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    name = f"course-{os.getuid()}-{maker.stdout.strip()}-abroad"
    with SharedPool.create(name, 4, 64):
        pool_name("workers-test-other")
        assert segment.pool_path(name).exists()
    pool_name("workers-test-other")
    assert not list(Path("/dev/shm").glob(f"pagedkv*{name}*"))


def test_a_name_used_again_is_a_new_pool():
    SharedPool.create(pool_name("workers-test-again"), 4, 64).close()
    name = pool_name("workers-test-again")
    assert not segment.pool_path(name).exists()
    with pytest.raises(ValueError):
        pool_name("a/b")
