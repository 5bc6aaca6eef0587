"""Processes that die, stop, fork: who counts as alive, and what becomes of what they hold."""

import os
import signal
import struct
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from pagedkv.shared.slots import LockFile, fcntl
from tests.shared.crash import ROOT, WorkerProcess
from tests.shared.state import State


@pytest.fixture
def worker(name, tmp_path):
    workers = []

    def start():
        (tmp_path / "board").write_bytes(bytes(512))
        workers.append(WorkerProcess())
        workers[-1].ask(f"join {name} 0 {tmp_path / 'board'}")
        return workers[-1]

    yield start
    for process in workers:
        process.kill()


def test_what_a_killed_process_held_comes_back(create, worker, name):
    pool, process = create(num_blocks=8, block_bytes=64), worker()
    blocks = list(map(int, process.ask("allocate 5")[1]))
    pool.retain(blocks[:2])
    assert pool.reap().dead == () and pool.num_free_blocks == 3
    process.kill()
    assert pool.num_free_blocks == 3 and pool.members()[1].alive is False
    reaped, = pool.reap().dead
    assert (reaped.slot, reaped.num_references, reaped.num_free_blocks, reaped.language) == (1, 5, 3, "Python")
    assert pool.refcounts() == [int(block in blocks[:2]) for block in range(8)]
    assert not list(State(name).faults([0]))


def test_a_stopped_process_is_not_reaped(create, worker):
    pool, process = create(num_blocks=8, block_bytes=64), worker()
    process.ask("allocate 5")
    process.signal(signal.SIGSTOP)
    try:
        time.sleep(1)
        assert pool.reap().dead == () and pool.num_free_blocks == 3 and pool.members()[1].alive
        assert create.join().slot == 2
    finally:
        process.signal(signal.SIGCONT)
    assert process.ask("check") == ("good", [])
    assert process.ask("release 99") == ("refused", ["NotABlock"])


def test_a_member_stopped_in_the_middle_blocks_nobody(create, kind, name):
    """It has hints in hand, or has claimed one of its blocks: others take what is left, and go on."""
    pool = create(num_blocks=70)
    code = f"""
        from pagedkv.shared import SharedPool
        from tests.shared.steps import stepped
        countdown, make = stepped({kind!r})
        pool = SharedPool.join({name!r}, operations=make)
        countdown.stop_instead()
        countdown.arm(STEPS)
        blocks = pool.allocate(20)
        countdown.disarm()
        print(*blocks, flush=True)
        """
    for steps, taken in ((1, 0), (2, 0), (3, 1), (9, 4)):
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code).replace("STEPS", str(steps))], cwd=ROOT,
                                   stdout=subprocess.PIPE, text=True)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        assert pool.reap().dead == ()
        assert pool.num_free_blocks == 70 - taken
        blocks = pool.allocate(70 - taken - 20)
        pool.release(blocks)
        pool.reap()
        blocks = pool.allocate(30)
        process.send_signal(signal.SIGCONT)
        theirs = set(map(int, process.communicate()[0].split()))
        assert len(theirs) == 20 and not theirs & set(blocks)
        pool.release(blocks)
        assert len(pool.reap().dead) == 1 and pool.num_free_blocks == 70


def test_a_forked_child_is_no_member(create, name, kind):
    """In a process of its own, since this one may have threads and a JVM."""
    pool = create()
    code = f"""
        import os
        from pagedkv.shared import PoolClosed, SharedPool
        pool = SharedPool.join({name!r}, operations={kind!r})
        blocks = pool.allocate(3)
        child = os.fork()
        if child == 0:
            for call in (lambda: pool.allocate(1), lambda: pool.release(blocks), lambda: pool.refcounts(), pool.reap):
                try:
                    call()
                    print("went through", flush=True)
                except PoolClosed as error:
                    print(error, flush=True)
            pool.close()
            own = SharedPool.join({name!r}, operations={kind!r})
            own.retain(blocks)
            print("joined", own.slot, flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print("parent", pool.refcounts() == [2 * int(block in blocks) for block in range(8)], flush=True)
        print(*[reaped.slot for reaped in pool.reap().dead], flush=True)
        pool.release(blocks)
        """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    answers = run.stdout.splitlines()
    assert all("forked child of the process that joined it" in answer and 'start processes with "spawn"' in answer
               for answer in answers[:4])
    assert answers[4:] == ["joined 2", "parent True", "2"]
    assert [reaped.slot for reaped in pool.reap().dead] == [1] and pool.num_free_blocks == 8


def test_a_forked_child_does_not_keep_its_dead_parent_alive(create, name):
    pool = create()
    code = f"""
        import os, time
        from pagedkv.shared import SharedPool
        pool = SharedPool.join({name!r})
        pool.allocate(4)
        child = os.fork()
        if child == 0:
            time.sleep(60)
            os._exit(0)
        print(child, flush=True)
        time.sleep(60)
        """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], cwd=ROOT, stdout=subprocess.PIPE,
                               text=True)
    child = int(process.stdout.readline())
    try:
        time.sleep(0.2)  # the child may not have closed its copy yet
        assert pool.reap().dead == ()  # closing it has not unlocked the parent
        process.kill()
        process.wait()
        assert [reaped.num_references for reaped in pool.reap().dead] == [4]
    finally:
        os.kill(child, signal.SIGKILL)
        process.stdout.close()


def test_members_of_one_process_do_not_reap_each_other(create):
    pool, other = create(), create.join()
    blocks = other.allocate(4)
    assert pool.reap().dead == () and other.reap().dead == ()
    other.release(blocks)


def test_locks_as_java_takes_them_are_respected(create, name):
    """`FileChannel.tryLock` takes POSIX locks. They belong to a process, so another one has to have it."""
    pool = create()
    lock, = segment_locks(name)
    code = f"""
        import fcntl
        file = open({str(lock)!r}, "r+b")
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 1)
        print("locked", flush=True)
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 0)
        except OSError:
            print("slot 0 is taken", flush=True)
        input()
        """
    process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(code)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert [process.stdout.readline() for _ in range(2)] == ["locked\n", "slot 0 is taken\n"]
    assert create.join().slot == 2
    process.communicate("\n")
    assert create.join().slot == 1 and pool.reap().dead == ()


def segment_locks(name):
    return list(Path("/dev/shm").glob(f"pagedkv-lock.{name}.*"))


def test_lock_files(tmp_path):
    """Two descriptions of one file, as two processes would have."""
    path = str(tmp_path / "locks")
    one, two = LockFile(path, create=True), LockFile(path, create=False)
    assert one.try_lock(3) and not one.try_lock(3) and not two.try_lock(3) and two.try_lock(4)
    assert one.is_locked(3) and two.is_locked(3) and one.is_locked(4) and not one.is_locked(5)
    one.unlock(3)
    assert not one.is_locked(3) and two.try_lock(3) and not one.try_lock(3)
    with pytest.raises(FileExistsError):
        LockFile(path, create=True)
    # closing some other descriptor of the file drops nothing
    os.close(os.open(path, os.O_RDWR))
    assert not one.try_lock(3)
    assert struct.calcsize("hhqqi0q") == 32 and fcntl.F_OFD_SETLK == 37


def test_two_reapers_at_once(create, worker, name):
    pool = create(num_blocks=300, block_bytes=64)
    reapers = [worker(), worker()]
    for _ in range(3):
        dying = [worker() for _ in range(3)]
        for process in dying:
            process.ask("allocate 90")
        for process in dying:
            process.kill()
        for process in reapers:
            process.send("reap")
        slots = [slot for process in reapers for slot in process.receive()[1]]
        slots += [str(reaped.slot) for reaped in pool.reap().dead]
        assert sorted(slots) == ["3", "4", "5"]  # each exactly once
        assert pool.num_free_blocks == 300 and not list(State(name).faults([0, 1, 2]))


def test_ctrl_c_waits_until_a_portable_operation_is_over(create, kind, monkeypatch, name):
    if kind != "portable":
        pytest.skip("a compiled operation is not interrupted anyway")
    pool = create(num_blocks=8)
    operations = pool._operations
    claim = operations._claim

    def interrupted(block):
        os.kill(os.getpid(), signal.SIGINT)
        return claim(block)

    monkeypatch.setattr(operations, "_claim", interrupted)
    with pytest.raises(KeyboardInterrupt):
        pool.allocate(4)
    monkeypatch.undo()
    assert sum(pool.refcounts()) == 4 and not list(State(name).faults([0]))
