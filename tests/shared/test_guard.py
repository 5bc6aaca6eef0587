"""Guard mode: a write beyond a block is found, with the block, its owner, and the first overwritten byte."""

import pytest

from pagedkv.shared import BlockOverrun
from pagedkv.core.errors import PoolError


def around(pool, block):
    """All of a block's stride, as somebody with a wild pointer reaches it."""
    layout = pool._sizes
    return pool._view[layout.stride_at(block):layout.stride_at(block) + layout.stride_bytes]


@pytest.mark.parametrize("block_bytes", [64, 100, 4096])
def test_an_overrun_is_named_when_the_block_is_released(create, block_bytes):
    pool, other = create(block_bytes=block_bytes, guard=True), create.join()
    mine, = pool.allocate(1)
    block, = other.allocate(1)
    around(other, block)[64 + block_bytes + 2:64 + block_bytes + 5] = b"xyz"
    with pytest.raises(BlockOverrun) as raised:
        other.release([block])
    overrun, = raised.value.overruns
    assert (overrun.block, overrun.first_byte, overrun.num_bytes, overrun.found, overrun.owner, overrun.behind) == \
        (block, block_bytes + 2, 3, b"xyz", 1, True)
    assert f"block {block}, last handed out to slot 1 (generation 1): byte {block_bytes + 2} of it, behind its end" in \
        str(raised.value)
    assert isinstance(raised.value, PoolError) and other.refcount(block) == 1  # nothing was released
    assert pool.verify() == other.verify() == (overrun,)
    pool.release([mine])  # another block is none of this one's business
    other.repair(block)
    assert pool.verify() == ()
    other.release([block])
    assert pool.num_free_blocks == 8


@pytest.mark.parametrize("at, first_byte", [(63, -1), (32, -32), (0, -64), (9, -55)])
def test_a_write_in_front_of_a_block(create, at, first_byte):
    pool = create(guard=True)
    block, = pool.allocate(1)
    around(pool, block)[at] ^= 0x40
    overrun, = pool.verify()
    assert overrun.first_byte == first_byte and not overrun.behind and "in front of it" in str(overrun)
    with pytest.raises(BlockOverrun):
        pool.release([block])


def test_a_run_from_one_block_into_the_next(create):
    pool = create(guard=True)
    pool.allocate(8)
    at = pool._sizes.block_at(2)
    pool._view[at:at + 200] = b"\0" * 200
    assert [(overrun.block, overrun.first_byte) for overrun in pool.verify()] == [(2, 64), (3, -64)]


def test_every_single_byte_is_watched(create):
    pool = create(num_blocks=1, block_bytes=100, guard=True)
    pool.allocate(1)
    stride = around(pool, 0)
    for i, byte in enumerate(bytes(stride)):
        stride[i] ^= 1
        expected = not (64 <= i < 164 or 16 <= i < 32)  # the block itself; whom it was handed out to
        assert bool(pool.verify()) == expected, i
        stride[i] = byte


def test_what_is_free_is_watched_too(create):
    pool = create(guard=True)
    around(pool, 5)[-1] = 0
    overrun, = pool.verify()
    assert (overrun.block, overrun.owner) == (5, None) and "nobody yet" in str(overrun)


def test_writing_all_of_a_block_is_no_overrun(create):
    pool = create(block_bytes=100, guard=True)
    blocks = pool.allocate(8)
    for block in blocks:
        pool.buffer(block)[:] = b"\xff" * 100
    assert pool.guard and not pool.verify()
    pool.release(blocks)


def test_without_guards_there_is_nothing_to_look_at(create):
    pool = create()
    assert not pool.guard and pool.verify() == ()
    pool.repair(3)
