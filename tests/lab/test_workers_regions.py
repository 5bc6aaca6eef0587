"""Engines that are killed: what is left of their regions, and who may remove it."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pagedkv.lab.workers_regions import AT_THE_END, BY_LOCKS, ONCE_MAPPED, RULES, Engine, restarts
from pagedkv.shared import segment

try:
    segment.check_system()
except NotImplementedError as error:
    pytest.skip(str(error), allow_module_level=True)

REGION_BYTES = 1 << 20


@pytest.fixture
def start():
    """Starts an engine; at the end all are killed, and nothing is left."""
    engines = []

    def started(rule, region_bytes=REGION_BYTES):
        engines.append(Engine(rule, region_bytes))
        return engines[-1]

    yield started
    for engine in engines:
        engine.kill()
        segment.remove(engine.name)


def of_engines():
    return set(Path("/dev/shm").glob(f"pagedkv*course-{os.getuid()}-{os.getpid()}-engine-*"))


@pytest.mark.parametrize("rule, left", [(AT_THE_END, [1, 2, 3]), (ONCE_MAPPED, [0, 0, 0]), (BY_LOCKS, [1, 1, 1])])
def test_what_is_left_after_each_kill(rule, left):
    restarted = restarts(rule, region_bytes=REGION_BYTES)
    # a pool has a header beside the region
    assert [round(each / REGION_BYTES) for each in restarted.left_bytes] == left
    assert restarted.can_be_joined == (rule != ONCE_MAPPED)
    assert rule in str(restarted) and ("cannot join" in str(restarted)) == (rule == ONCE_MAPPED)
    assert not of_engines()


@pytest.mark.parametrize("rule", RULES)
def test_nothing_is_left_of_one_that_ends(start, rule):
    engine = start(rule)
    assert bool(engine.bytes_left()) == engine.can_be_joined() == (rule != ONCE_MAPPED)
    engine.end()
    assert not engine.bytes_left() and not of_engines()


def test_only_what_nobody_alive_is_a_member_of_is_removed(start):
    dead, living, stopped = (start(BY_LOCKS) for _ in range(3))
    os.kill(stopped._process.pid, signal.SIGSTOP)
    dead.kill()
    assert [engine.remove_if_dead() for engine in (dead, living, stopped)] == [True, False, False]
    assert not dead.bytes_left() and living.bytes_left() and stopped.bytes_left()
    assert not dead.remove_if_dead()


def test_what_cannot_be_made_is_an_error_with_its_reason(start):
    with pytest.raises(RuntimeError, match="(?s)did not start:.*NoSharedMemory"):
        start(BY_LOCKS, 1 << 60)
    with pytest.raises(ValueError, match="rule is one of 'unlinked at the end'"):
        start("by hope")
    assert not of_engines()


def test_an_engine_ends_with_its_kernel():
    code = ("import os\nfrom pagedkv.lab.workers_regions import *\n"
            "engine = Engine(AT_THE_END, 4096)\nprint(engine._process.pid, flush=True)\nos._exit(1)")
    pid = int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False).stdout)
    for _ in range(500):
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return
        except (ProcessLookupError, FileNotFoundError):
            return
        signal.sigtimedwait([], 0.02)
    pytest.fail("the engine goes on without its kernel")
