"""Creating, joining, leaving and removing; and everything that is refused on the way, with what the message says."""

import errno
import os
import pickle
import struct
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pagedkv.core.native import NoCompiler
from pagedkv.shared import (IncompatiblePool, NoAtomics, NoFreeSlot, NoSharedMemory, NoSuchPool, NotReady, PoolClosed,
                            PoolExists, SharedPool, compiled_operations, operations, portable_operations, segment)

ROOT = Path(__file__).resolve().parents[2]


def patch(name, offset, data):
    with open(Path("/dev/shm") / f"pagedkv.{name}", "r+b") as file:
        file.seek(offset)
        file.write(data)


def left_over(name):
    return list(Path("/dev/shm").glob(f"pagedkv*{name}*"))


def test_two_members_see_the_same_pool(create):
    pool, other = create(num_blocks=10, block_bytes=100), create.join()
    assert (other.num_blocks, other.block_bytes, other.slot) == (10, 100, 1)
    blocks = pool.allocate(4)
    assert other.num_free_blocks == 6 and other.refcounts() == pool.refcounts()
    assert not set(other.allocate(6)) & set(blocks)
    other.retain(blocks[:1])
    pool.buffer(blocks[0])[:5] = b"hello"
    assert bytes(other.buffer(blocks[0])[:5]) == b"hello"
    assert pool.holders(blocks[0]) == (0, 1) and pool.refcount(blocks[0]) == 2
    assert [member.slot for member in pool.members()] == [0, 1] and all(member.alive for member in pool.members())
    assert str(pool.members()[1]) == f"slot 1: process {os.getpid()} (Python)"


@pytest.mark.parametrize("wrong", ["a/b", "", ".hidden", "x" * 65, "with space", "größe", None, 7, "line\n"])
def test_names_that_cannot_be(wrong):
    for call in (lambda: SharedPool.create(wrong, 4, 64), lambda: SharedPool.join(wrong),
                 lambda: SharedPool.remove(wrong)):
        with pytest.raises(ValueError, match="1 to 64 of A-Z a-z 0-9 .* no slash"):
            call()


def test_one_that_is_not_there(name):
    with pytest.raises(NoSuchPool, match=f"there is no pool '{name}' .*: create it first"):
        SharedPool.join(name)
    assert issubclass(NoSuchPool, FileNotFoundError) and not SharedPool.remove(name)


def test_one_that_is_there_already(create, name):
    pool = create()
    with pytest.raises(PoolExists, match=r"join it; or, if nobody needs it any more, create\(…, replace=True\)"):
        SharedPool.create(name, 8, 64)
    new = create(num_blocks=3, replace=True)
    assert pool.allocate(8) and new.allocate(3)  # the old one goes on, and they share nothing
    assert create.join().num_blocks == 3


@pytest.mark.parametrize("num_blocks, block_bytes, error", [
    (0, 64, ValueError), (4, 0, ValueError), (-1, 64, ValueError), (2 ** 32, 64, ValueError), (4.0, 64, TypeError),
    (4, True, TypeError)])
def test_sizes_that_cannot_be(name, num_blocks, block_bytes, error):
    with pytest.raises(error):
        SharedPool.create(name, num_blocks, block_bytes)
    assert not left_over(name)


@pytest.mark.parametrize("cache_blocks", [-1, 1025, 1.5])
def test_caches_that_cannot_be(name, cache_blocks):
    with pytest.raises((ValueError, TypeError)):
        SharedPool.create(name, 8, 64, cache_blocks=cache_blocks)
    assert not left_over(name)


@pytest.mark.parametrize("offset, data, message", [
    (0, b"\0DEGAPVK", "its magic number: found 0x.*, expected 0x564b4445474150 .*byte order"),
    (0, b"PAGEDXX\0", "its magic number"),
    (8, struct.pack("<I", 7), "its version: found 7, expected 2: remove it, and create it again"),
    (8, struct.pack("<I", 1), "its version: found 1, expected 2: remove it, and create it again"),
    (12, struct.pack("<I", 64), "its number of slots: found 64, expected 48"),
    (16, struct.pack("<Q", 4096), r"longer than it was made: it has \d+ bytes, its header says 4096"),
    (24, struct.pack("<Q", 0), "header is damaged: 8 blocks of 0 bytes"),
    (24, struct.pack("<Q", 65), "bytes from one block to the next: found 64, expected 128"),
    (32, struct.pack("<Q", 0), "header is damaged: 0 blocks"),
    (32, struct.pack("<Q", 9), "the offset of its|its size in bytes"),
    (48, struct.pack("<I", 16), "its index entries: found 0, expected 64"),
    (48, struct.pack("<II", 1000, 64), "the offset of its data"),
    (48, struct.pack("<I", 65_537), "header is damaged"),
    (52, struct.pack("<I", 64), "its index entries: found 64, expected 0"),
    (56, struct.pack("<Q", 2), "its flags: found 2, expected 0"),
    (56, struct.pack("<Q", 1), "bytes from one block to the next: found 64, expected 192"),
    (72, struct.pack("<Q", 7169), "the offset of its empty hints: found 7169, expected 7168"),
    (112, struct.pack("<Q", 0), "the offset of its data: found 0, expected"),
    (120, struct.pack("<Q", 0), "header is damaged: .* id 0")])
def test_a_header_that_does_not_fit(create, name, offset, data, message):
    create()
    patch(name, offset, data)
    with pytest.raises(IncompatiblePool, match=f"cannot be joined: .*{message}"):
        create.join()


@pytest.mark.parametrize("size, message", [(4095, "truncated: it has 4095 bytes, a header alone takes 4096"),
                                           (8192, r"truncated: it has 8192 bytes, its header says \d+")])
def test_a_truncated_file(create, name, size, message):
    create()
    copy = name + "-copy"
    (Path("/dev/shm") / f"pagedkv.{copy}").write_bytes((Path("/dev/shm") / f"pagedkv.{name}").read_bytes()[:size])
    with pytest.raises(IncompatiblePool, match=message):
        SharedPool.join(copy)
    assert SharedPool.remove(copy)


def test_something_else_under_the_name(name):
    (Path("/dev/shm") / f"pagedkv.{name}").write_text("not a pool " * 1000)
    with pytest.raises(IncompatiblePool, match="its magic number"):
        SharedPool.join(name)


@pytest.mark.parametrize("how_far", ["empty", "reserved", "written"])
def test_one_that_is_not_ready(create, name, how_far):
    path = Path("/dev/shm") / f"pagedkv.{name}"
    if how_far == "written":
        create().unlink()
        path.write_bytes(bytes(8192))
        create(replace=True)
        patch(name, 128, bytes(8))
    else:
        path.write_bytes(b"" if how_far == "empty" else bytes(8192))
    with pytest.raises(NotReady, match=r"still being created, or its creator died .* create\(…, replace=True\)"):
        SharedPool.join(name, wait_seconds=0)
    with pytest.raises(PoolExists):
        create()
    assert create(replace=True).num_free_blocks == 8


def test_joining_waits_for_one_that_is_being_made(create, name):
    create()
    patch(name, 128, bytes(8))
    timer = threading.Timer(0.2, patch, (name, 128, struct.pack("<Q", 1)))
    timer.start()
    assert create.join(wait_seconds=20).slot == 1
    timer.join()


def test_one_that_is_removed_while_it_is_joined(create, name):
    create()
    for path in Path("/dev/shm").glob(f"pagedkv-lock.{name}.*"):
        path.unlink()
    # a process that has not opened the lock file yet; this one has
    code = f"from pagedkv.shared import SharedPool; SharedPool.join({name!r})"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "NoSuchPool" in run.stderr and "has just been removed" in run.stderr


def test_the_49th_member_is_refused(create):
    pool = create(num_blocks=60)
    others = [create.join() for _ in range(47)]
    assert sorted(other.slot for other in others) == list(range(1, 48))
    with pytest.raises(NoFreeSlot) as raised:
        create.join(wait_seconds=0.05)
    message = str(raised.value)
    assert "48 members already" in message and message.count(f"process {os.getpid()} (Python)") == 48
    others[20].close()
    assert create.join().slot == others[20].slot
    assert pool.num_free_blocks == 60


def test_close_gives_everything_back(create, caplog):
    pool, other = create(), create.join(cache_blocks=2)
    a, b, *rest = other.allocate(5)
    pool.retain([a])
    other.retain([a, b])
    other.release(rest[:2])
    other.close()
    assert "closed with 5 references held; they are given back, and 4 blocks" in caplog.text
    assert pool.refcounts() == [int(block == a) for block in range(8)] and pool.num_free_blocks == 7
    assert [member.slot for member in pool.members()] == [0] and pool.num_reaps == 0
    other.close()
    for call in (lambda: other.allocate(1), lambda: other.num_free_blocks, lambda: other.retain([a]), other.refcounts,
                 lambda: other.release([a]), lambda: other.refcount(a), lambda: other.buffer(a), other.reap,
                 other.members, lambda: other.holders(a), lambda: other.generation(a), other.verify,
                 lambda: other.repair(a)):
        with pytest.raises(PoolClosed, match="is closed"):
            call()
    assert "closed" in repr(other)


def test_close_with_nothing_held_says_nothing(create, caplog):
    pool = create(cache_blocks=2)
    pool.release(pool.allocate(3))
    pool.close()
    assert not caplog.text


def test_views_outlive_the_member(create):
    pool = create()
    view = pool.buffer(pool.allocate(1)[0])
    pool.close()
    view[:3] = b"abc"
    assert bytes(view[:3]) == b"abc"


def test_unlink_lets_members_go_on(create, name):
    pool, other = create(), create.join()
    pool.unlink()
    assert not left_over(name)
    blocks = pool.allocate(3)
    other.retain(blocks)
    pool.close()
    assert other.num_free_blocks == 5
    with pytest.raises(NoSuchPool):
        create.join()
    new = create()
    other.unlink()  # the name is another pool's by now
    assert create.join().num_blocks == new.num_blocks
    other.release(blocks)


def test_a_full_disk(name, monkeypatch):
    def full(file, offset, size):
        raise OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(NoSharedMemory, match=r"takes [\d,]+ bytes of shared memory; [\d,]+ are free .*--shm-size"):
        SharedPool.create(name, 1024, 65_536)
    assert not left_over(name)


def test_a_really_full_disk(name, tmp_path, monkeypatch, kind):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", tmp_path], capture_output=True).returncode:
        pytest.skip("no right to mount a small file system here")
    try:
        monkeypatch.setattr(segment, "FOLDER", tmp_path)
        with pytest.raises(NoSharedMemory, match="are free"):
            SharedPool.create(name, 1024, 4096, operations=kind)
        assert not list(tmp_path.iterdir())
        with SharedPool.create(name, 8, 4096, operations=kind) as pool:
            for block in pool.allocate(8):
                pool.buffer(block)[:] = bytes(4096)
            pool.release(range(8))
    finally:
        # lazily: the lock file stays open to the end of the process
        subprocess.run(["umount", "--lazy", tmp_path], check=True)


def test_two_that_create_at_once(name):
    """Exactly one makes it, and all can join."""
    code = f"""
import sys
from pagedkv.shared import SharedPool, PoolExists
sys.stdin.readline()
try:
    pool = SharedPool.create({name!r}, 500, 64)
    made = True
except PoolExists:
    made = False
    pool = SharedPool.join({name!r}, wait_seconds=20)
blocks = pool.allocate(100)
print(made, *blocks, flush=True)
sys.stdin.readline()
"""
    processes = [subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  text=True) for _ in range(4)]
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    answers = [process.stdout.readline().split() for process in processes]
    assert sorted(answer[0] for answer in answers) == ["False"] * 3 + ["True"]
    assert len({block for answer in answers for block in answer[1:]}) == 400
    for process in processes:
        process.communicate("done\n")


def test_a_member_stays_in_its_process(create, name):
    with pytest.raises(TypeError, match=f"hand over the name, and join there with SharedPool.join\\('{name}'\\)"):
        pickle.dumps(create())
    with pytest.raises(TypeError, match="made by SharedPool.create"):
        SharedPool()


@pytest.mark.parametrize("platform, message", [("win32", "Linux only: Windows has no"), ("darwin", "no /dev/shm")])
def test_other_systems(monkeypatch, name, platform, message):
    monkeypatch.setattr(sys, "platform", platform)
    for call in (lambda: SharedPool.create(name, 4, 64), lambda: SharedPool.join(name),
                 lambda: SharedPool.remove(name)):
        with pytest.raises(NotImplementedError, match=message):
            call()


def test_without_a_compiler_it_says_that_it_is_slower(name, monkeypatch, caplog):
    def none():
        raise NoCompiler("no compiler")
    monkeypatch.setattr(compiled_operations, "load", none)
    monkeypatch.setattr(operations, "_said", set())
    with SharedPool.create(name, 8, 64) as pool:
        assert pool._operations.kind == "portable" and len(pool.allocate(3)) == 3
        pool.release(range(0))
    with pytest.raises(NoCompiler):
        SharedPool.join(name, operations="compiled")
    SharedPool.join(name).close()
    assert caplog.text.count("slower by far") == 1

    def neither(library):
        raise OSError("not there")
    monkeypatch.setattr(portable_operations.ctypes, "CDLL", neither)
    with pytest.raises(NoAtomics, match="no compiler. Without one it could do with no libatomic.* install libatomic1"):
        SharedPool.join(name)
    with pytest.raises(ValueError, match='"auto", "compiled" or "portable", got \'quick\''):
        SharedPool.join(name, operations="quick")
