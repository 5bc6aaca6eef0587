"""One pool, two languages: the same bytes, the same refusals, and each takes back what a dead member of the other held.

Java runs in this process (through JPype), and in processes of its own (the worker of the crash test).
"""

import os
import signal
import struct
import time
from array import array
from pathlib import Path

import pytest

jpype = pytest.importorskip("jpype")

from pagedkv.core.errors import DoubleFree, OutOfBlocks, UseAfterFree
from pagedkv.java import JavaPool, jclass, start
from pagedkv.lab.conformance import check_pool
from pagedkv.shared import BlockOverrun, IncompatiblePool, NoFreeSlot, NotReady, PoolExists, SharedPool
from tests.shared import java_worker
from tests.shared.crash import CrashTest, PYTHON_WORKER, WorkerProcess
from tests.shared.state import State, numbers


def file_of(name):
    return Path("/dev/shm") / f"pagedkv.{name}"


@pytest.fixture(scope="module")
def java():
    """The Java class of shared pools."""
    start()
    return jclass("pagedkv.shared.SharedPool")


@pytest.fixture(scope="module")
def java_command(tmp_path_factory):
    return java_worker.command(tmp_path_factory.mktemp("worker"))


@pytest.fixture
def options(java):
    return jclass("pagedkv.shared.PoolOptions").DEFAULT


@pytest.fixture
def members():
    """Closed after the test, whichever language they are in."""
    members = []
    yield lambda member: members.append(member) or member
    for member in members:
        member.close()


@pytest.fixture
def worker(name, tmp_path, java_command):
    workers = []

    def start_one():
        (tmp_path / "board").write_bytes(bytes(512))
        workers.append(WorkerProcess(java_command))
        workers[-1].ask(f"join {name} 0 {tmp_path / 'board'}")
        return workers[-1]

    yield start_one
    for process in workers:
        process.kill()


@pytest.mark.parametrize("guard", [False, True])
@pytest.mark.parametrize("num_blocks, block_bytes", [(1, 1), (64, 64), (70, 100)])
def test_the_bytes_of_a_new_pool_are_the_same(java, options, name, members, num_blocks, block_bytes, guard):
    options = options.withGuard() if guard else options
    of_java = members(java.create(name, num_blocks, block_bytes, options))
    of_python = members(SharedPool.create(name + ".python", num_blocks, block_bytes, guard=guard))
    assert of_java.slot() == of_python.slot == 0
    files = [bytearray(file_of(which).read_bytes()) for which in (name, name + ".python")]
    for file in files:
        file[120:128] = bytes(8)  # the id, which is random
        assert struct.unpack_from("<QQ", file, 4096) == (os.getpid(), 2 if file is files[0] else 1)
        file[4104:4112] = bytes(8)  # the language of the member in slot 0
    assert files[0] == files[1]
    locks = [path for path in Path("/dev/shm").glob(f"pagedkv-lock.{name}.*")]
    assert len(locks) == 2 and all(path.stat().st_size == 0 for path in locks)


def test_a_java_member_keeps_the_contract_of_all_pools(java, name):
    """The conformance suite of all pools, on Java's member, through the adapter."""
    def make(num_blocks):
        return JavaPool(java.create(name, num_blocks, 64,
                                    jclass("pagedkv.shared.PoolOptions").DEFAULT.withReplace()))
    report = check_pool(make, examples=40)
    assert report.passed, report


@pytest.mark.parametrize("creator", ["Java", "Python"])
def test_each_goes_on_with_what_the_other_has(java, name, members, creator):
    if creator == "Java":
        theirs = members(java.create(name, 8, 100))
        ours = members(SharedPool.join(name))
    else:
        ours = members(SharedPool.create(name, 8, 100))
        theirs = members(java.join(name))
    assert (theirs.numBlocks(), theirs.blockBytes(), ours.num_blocks, ours.block_bytes) == (8, 100, 8, 100)
    assert {str(member.language) for member in ours.members()} == {"Java", "Python"}
    assert all(member.alive for member in ours.members()) and all(m.alive() for m in theirs.members())

    mine, yours = ours.allocate(3), list(theirs.allocate(5))
    assert sorted(mine + yours) == list(range(8)) and ours.num_free_blocks == theirs.numFreeBlocks() == 0
    with pytest.raises(OutOfBlocks):
        ours.allocate(1)

    # what one wrote, the other reads, without a copy
    ours.buffer(mine[0])[:5] = b"hello"
    theirs.retain(ints(mine[:1]))
    view = theirs.buffer(mine[0])
    assert bytes(memoryview(view))[:5] == b"hello" and view.remaining() == 100
    view.putLong(8, 4711)
    assert struct.unpack_from("<Q", ours.buffer(mine[0]), 8) == (4711,)

    # counts of both add up, by the word and by each one's row
    ours.retain(yours[:2] * 2, generations=[theirs.generation(block) for block in yours[:2] * 2])
    expected = {mine[0]: 2, yours[0]: 3, yours[1]: 3}
    assert ours.refcounts() == list(theirs.refcounts()) == [expected.get(block, 1) for block in range(8)]
    assert set(ours.holders(yours[0])) == set(theirs.holders(yours[0])) == {0, 1}
    with pytest.raises(DoubleFree, match="no reference of this member"):
        ours.release([yours[2]])
    with pytest.raises(UseAfterFree, match="handed out again"):
        ours.retain(yours[:1], generations=[2])

    # what one releases, the other is given
    theirs.release(ints(yours))
    assert theirs.refcount(yours[0]) == 2
    ours.release(mine + yours[:2] * 2)
    theirs.release(ints(mine[:1]))
    assert ours.num_free_blocks == 8 and len(theirs.allocate(8)) == 8
    assert ours.refcounts() == [1] * 8
    assert not list(State(name).faults([0, 1]))


def ints(blocks):
    return jpype.JArray(jpype.JInt)(array("i", blocks))


@pytest.mark.parametrize("creator", ["Java", "Python"])
def test_each_finds_what_the_other_has_published(java, options, name, members, creator):
    if creator == "Java":
        theirs = members(java.create(name, 8, 100, options.withTokensPerBlock(4)))
        ours = members(SharedPool.join(name))
    else:
        ours = members(SharedPool.create(name, 8, 100, tokens_per_block=4))
        theirs = members(java.join(name))
    assert ours.tokens_per_block == theirs.tokensPerBlock() == 4
    tokens = [1, -2, 3, 2**31 - 1, 5, 6, 7, 8, -2**31, 10, 11, 12]
    mine = ours.allocate(2)
    assert ours.publish(tokens[:8], mine, salt="tenant ä") == 2
    assert list(theirs.find(ints(tokens), "tenant ä")) == mine and not list(theirs.find(ints(tokens)))
    assert list(theirs.reuse(ints(tokens), "tenant ä", None)) == mine and ours.refcounts()[mine[0]] == 2
    yours = list(theirs.allocate(1))
    assert theirs.publish(ints(tokens), ints(mine + yours), "tenant ä") == 3
    ours.release(mine)
    theirs.close()
    assert ours.num_free_blocks == 8 and ours.num_cached_blocks == 3
    assert ours.find(tokens, salt="tenant ä") == ours.reuse(tokens, salt="tenant ä") == mine + yours
    assert not ours.find(tokens, salt="tenant") and not list(State(name).faults([ours.slot]))


def test_the_index_has_the_same_bytes(java, options, name, members):
    of_java = members(java.create(name, 5, 64, options.withTokensPerBlock(3)))
    of_python = members(SharedPool.create(name + ".python", 5, 64, tokens_per_block=3))
    tokens = [1, -2, 3, 4, 5, -6]
    assert of_java.publish(ints(tokens), of_java.allocate(2), "salt") == 2
    assert of_python.publish(tokens, of_python.allocate(2), salt="salt") == 2
    files = [bytearray(file_of(which).read_bytes()) for which in (name, name + ".python")]
    for file in files:
        file[120:128] = file[4104:4112] = bytes(8)  # the id, and the language of the member in slot 0
    assert files[0] == files[1]


def test_two_members_of_two_languages_in_one_process(java, name, members):
    """Java's locks are the process's, Python's are the file description's: neither takes the other's, or loses one when
    the other one closes."""
    ours, theirs = members(SharedPool.create(name, 8, 64)), members(java.join(name))
    ours.allocate(2), theirs.allocate(3)
    for _ in range(2):
        assert ours.reap().dead == () and theirs.reap().dead().isEmpty()
    more = SharedPool.join(name)
    assert (theirs.slot(), more.slot) == (1, 2)
    more.close()
    theirs.close()
    assert theirs is not None and ours.num_free_blocks == 6
    again = members(java.join(name))
    assert again.slot() == 1 and again.reap().dead().isEmpty() and ours.members()[0].alive
    again.allocate(1)
    ours.close()
    assert again.numFreeBlocks() == 7 and again.members().size() == 1
    ours = members(SharedPool.join(name))
    assert ours.slot == 0 and ours.reap().dead == () and ours.members()[1].alive


def test_a_killed_java_process_is_reaped_by_python(name, worker):
    pool, process = SharedPool.create(name, 8, 64), worker()
    with pool:
        blocks = list(map(int, process.ask("allocate 5")[1]))
        pool.retain(blocks[:2])
        assert pool.reap().dead == () and pool.members()[1].language == "Java"
        process.kill()
        assert not pool.members()[1].alive
        reaped, = pool.reap().dead
        assert (reaped.slot, reaped.language, reaped.num_references, reaped.num_free_blocks) == (1, "Java", 5, 3)
        assert pool.refcounts() == [int(block in blocks[:2]) for block in range(8)]
        assert not list(State(name).faults([0]))


def test_a_killed_python_process_is_reaped_by_java(java, name, tmp_path, members):
    pool = members(java.create(name, 8, 64))
    (tmp_path / "board").write_bytes(bytes(512))
    process = WorkerProcess(PYTHON_WORKER)
    process.ask(f"join {name} 0 {tmp_path / 'board'}")
    blocks = list(map(int, process.ask("allocate 5")[1]))
    pool.retain(ints(blocks[:2]))
    assert pool.reap().dead().isEmpty()
    process.kill()
    assert not pool.members()[1].alive() and "in slot 1 has died: reap()" in str(refused(pool.allocate, 4).getMessage())
    reaped, = pool.reap().dead()
    assert (reaped.slot(), str(reaped.language())) == (1, "Python")
    assert (reaped.numReferences(), reaped.numFreeBlocks()) == (5, 3)
    assert list(pool.refcounts()) == [int(block in blocks[:2]) for block in range(8)] and pool.numReaps() == 1


def refused(call, *arguments):
    with pytest.raises(jclass("java.lang.RuntimeException")) as raised:
        call(*arguments)
    return raised.value


def test_a_stopped_java_process_is_not_reaped(name, worker):
    with SharedPool.create(name, 8, 64) as pool:
        process = worker()
        process.ask("allocate 5")
        process.signal(signal.SIGSTOP)
        try:
            time.sleep(1)
            assert pool.reap().dead == () and pool.num_free_blocks == 3 and pool.members()[1].alive
        finally:
            process.signal(signal.SIGCONT)
        assert process.ask("check") == ("good", []) and process.ask("release 99") == ("refused", ["NotABlock"])


@pytest.mark.parametrize("offset, number, error", [(0, 1, IncompatiblePool), (8, 48 << 32 | 9, IncompatiblePool),
                                                   (32, 0, IncompatiblePool), (56, 2, IncompatiblePool),
                                                   (112, 0, IncompatiblePool), (128, 0, NotReady)])
def test_both_refuse_the_same_files_in_the_same_words(java, options, name, members, offset, number, error):
    members(java.create(name, 8, 64))
    with numbers(name) as words:
        words[offset // 8] = number
    with pytest.raises(error) as raised:
        SharedPool.join(name, wait_seconds=0)
    theirs = refused(java.join, name, options.withWaitSeconds(0))
    assert str(theirs.getClass().getSimpleName()) == f"{error.__name__}Exception"
    if error is IncompatiblePool:
        assert str(theirs.getMessage()).split(": ", 1)[1] == str(raised.value).split(": ", 1)[1]


def test_a_truncated_file_and_one_that_is_there(java, name, members):
    members(SharedPool.create(name, 8, 64))
    file_of(name + ".cut").write_bytes(file_of(name).read_bytes()[:8192])
    with pytest.raises(IncompatiblePool, match="truncated") as raised:
        SharedPool.join(name + ".cut")
    assert str(refused(java.join, name + ".cut").getMessage()) == str(raised.value)
    assert "a pool" in str(refused(java.create, name, 8, 64).getMessage())
    other = members(java.create(name + ".java", 8, 64))
    with pytest.raises(PoolExists):
        SharedPool.create(str(other.name()), 8, 64)
    assert "no slash" in str(refused(java.join, "a/b").getMessage())


def test_48_members_of_both_languages_and_not_one_more(java, options, name, members):
    members(SharedPool.create(name, 60, 64))
    for i in range(47):
        members(java.join(name) if i % 2 else SharedPool.join(name))
    with pytest.raises(NoFreeSlot) as raised:
        SharedPool.join(name, wait_seconds=0)
    message = str(refused(java.join, name, options.withWaitSeconds(0)).getMessage())
    assert message == str(raised.value) and message.count("(Java)") == 23 and message.count("(Python)") == 25


def test_an_overrun_planted_by_one_is_reported_by_the_other(java, options, name, members):
    theirs, ours = members(java.create(name, 8, 100, options.withGuard())), members(SharedPool.join(name))
    block, = ours.allocate(1)
    at = ours._sizes.block_at(block) + 100
    ours._view[at:at + 3] = b"xyz"
    seen, = theirs.verify()
    assert (seen.block(), seen.firstByte(), seen.numBytes(), str(seen.found()), seen.owner(), seen.generation()) == \
        (block, 100, 3, "78 79 7a", 1, 1)
    with pytest.raises(BlockOverrun):
        ours.release([block])
    theirs.repair(block)
    assert ours.verify() == () and theirs.verify().isEmpty()
    ours.release([block])


def test_random_kills_in_both_languages(java_command):
    test = CrashTest(kills=40, seed=2, commands=(java_command, PYTHON_WORKER))
    test.run()
    assert sum(test.kills_by_language.values()) == test.num_kills >= 40 and test.kills_by_language["Java"] >= 10
    assert test.num_checks >= 5 and test.num_references > 0 and test.num_operations > 1000
