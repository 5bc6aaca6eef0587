"""What notebook 08 says of processes holds: one pool in two languages, a killed worker, a prompt that outlives its author,
an overrun. (The claims are those of the course's table.)"""

import pytest

from pagedkv import KVCacheManager
from pagedkv.java import start
from pagedkv.java.build import JavaBuildFailed, ensure_built
from pagedkv.java.jdk import ToolNotFound, find_jdk
from pagedkv.lab.sharing_cases import Words
from pagedkv.lab.workers_processes import Workers, pool_name
from pagedkv.lab.workers_watch import header_table, word_table
from pagedkv.shared import BlockOverrun, IncompatiblePool, SharedPool, segment
from pagedkv.shared.layout import HEADER_BYTES

try:
    segment.check_system()
    ensure_built(find_jdk())
except (NotImplementedError, ToolNotFound, JavaBuildFailed) as error:
    pytest.skip(str(error), allow_module_level=True)

WORDS = Words()
SYSTEM = WORDS("You are a helpful assistant . Answer in one short sentence .")


@pytest.fixture
def in_java():
    """The notebook's pool, as a Java member that has created it."""
    start()
    from pagedkv.java import jclass
    options = jclass("pagedkv.shared.PoolOptions").DEFAULT.withTokensPerBlock(4)
    with jclass("pagedkv.shared.SharedPool").create(pool_name("notebook-test"), 16, 4096, options) as made:
        yield made
        made.unlink()


@pytest.fixture
def pool(in_java):
    with SharedPool.join(str(in_java.name())) as joined:
        yield joined


def test_python_reads_what_java_has_created(in_java, pool):
    """S10: the header, number by number; block 0 is clear of it; nothing in it says how many blocks are free."""
    before = header_table(pool)
    blocks = list(in_java.allocate(3))
    assert pool.num_free_blocks == 13 and [pool.holders(block) for block in blocks] == [(in_java.slot(),)] * 3
    assert header_table(pool) == before
    values = {row.name: row.value for row in before.rows}
    assert values["magic"] == b"PAGEDKV\0" and values["num_blocks"] == 16 and values["block_bytes"] == 4096
    assert values["data at"] % 4096 == 0 and values["data at"] > HEADER_BYTES
    assert values["capacity_bytes"] == before.file_bytes
    in_java.release(blocks)


@pytest.mark.parametrize("damage, message", [
    (lambda whole: whole[:8] + b"\1" + whole[9:], "its version: found 1, expected 2"),
    (lambda whole: whole[:len(whole) // 2], "the file is truncated"),
    (lambda whole: b"no pool at all\n" * 1000, "its magic number")])
def test_a_join_refuses_what_is_no_pool_of_this_version(pool, damage, message):
    """S10: and says which."""
    copy = pool_name("damaged-test")
    segment.pool_path(copy).write_bytes(damage(segment.pool_path(pool.name).read_bytes()))
    with pytest.raises(IncompatiblePool, match=f"joined: .*{message}"):
        SharedPool.join(copy)
    SharedPool.remove(copy)


def test_a_killed_workers_blocks_come_back_and_its_prompt_stays(pool):
    """S6: computed once, by a Java process; found in Python, also after its author's death."""
    manager = KVCacheManager(pool=pool)
    prompt = SYSTEM + WORDS("What is paging ?")
    with Workers(pool) as workers:
        a, b = workers.python("A"), workers.java("B")
        mine = a.allocate(3)
        b.retain(mine[0])
        a.kill()
        assert pool.num_free_blocks == 13
        dead, = pool.reap().dead
        assert (dead.num_references, dead.num_free_blocks) == (3, 2)
        assert word_table(pool, mine[:1]).rows[0].counts == {b.slot: 1}

        found = b.allocate(3)
        for block in found:
            b.write(block, f"block {block}")
        assert manager.find(prompt) == []
        b.publish(SYSTEM, found)
        assert manager.find(prompt) == found
        b.kill()
        pool.reap()
        assert pool.refcounts() == [0] * 16
        seq = manager.add_sequence(prompt)
        assert seq.num_cached_tokens == 12 and seq.block_table[:3] == found
        assert [bytes(pool.buffer(block)[:7]) for block in found] == [b"block %d" % block for block in found]
        manager.free_sequence(seq)


def test_what_can_be_found_is_read_only_and_copied_before_a_write(pool):
    """S11: the flag is in the block's word."""
    blocks = pool.allocate(3)
    pool.buffer(blocks[2])[:5] = b"words"
    pool.publish(SYSTEM, blocks)
    with SharedPool.join(pool.name) as writer:
        *others, last = writer.reuse(SYSTEM)
        with pytest.raises(TypeError, match="read-only"):
            writer.buffer(last)[:5] = b"other"
        own = writer.copy_for_writing(last)
        writer.buffer(own)[:5] = b"other"
        assert own != last and bytes(pool.buffer(last)[:5]) == b"words" and pool.holders(last) == (pool.slot,)
        writer.release([*others, own])
    pool.release(blocks)


@pytest.mark.parametrize("guard", [False, True])
def test_a_token_too_many(guard):
    """S18: without guards the neighbour loses a token, and nobody says so; with them the block is named, its owner, and
    the first byte."""
    with (SharedPool.create(pool_name("guard-test"), 8, 64, guard=guard) as writer,
          SharedPool.join(writer.name) as neighbour):
        block, = writer.allocate(1)
        below, = neighbour.allocate(1)
        neighbour.buffer(below)[:16] = b"the neighbour's "
        at = block * writer.stride_bytes
        writer.all_blocks()[at:at + 80] = b"this is a token." * 5
        assert (bytes(neighbour.buffer(below)[:16]) == b"the neighbour's ") == guard
        if guard:
            with pytest.raises(BlockOverrun) as refused:
                writer.release([block])
            overrun, = refused.value.overruns
            assert (overrun.block, overrun.owner, overrun.first_byte, overrun.num_bytes) == (block, writer.slot, 64, 16)
            writer.repair(block)
        writer.release([block])
        neighbour.release([below])
        writer.unlink()
