"""BlockPool beyond the contract: what the conformance suite cannot see from outside."""

import sys
from array import array

import numpy
import pytest

from pagedkv import BlockPool, DoubleFree, NotABlock, OutOfBlocks, UseAfterFree


def state(pool):
    return pool.refcounts(), sorted(pool._free), pool.num_free_blocks


@pytest.mark.parametrize("container", [
    tuple, set, iter, numpy.array, lambda ids: array("i", ids), lambda ids: numpy.array(ids, dtype=numpy.uint8),
    lambda ids: [numpy.int64(ids[0]), *ids[1:]], lambda ids: [int(str(block)) for block in ids]],
    ids=["tuple", "set", "iterator", "numpy", "array", "uint8", "mixed", "other int objects"])
def test_ids_in_any_container_and_integer_type(container):
    pool = BlockPool(256)
    ids = pool.allocate(200)
    pool.retain(container(ids[100:]))
    pool.release(container(ids))
    assert pool.num_free_blocks == 156 and pool.refcounts().count(1) == 100
    pool.release(container(ids[100:]))
    assert sorted(pool.allocate(256)) == list(range(256))
    assert all(type(block) is int for block in pool._free + ids)


class _Explodes:
    def __index__(self):
        raise RuntimeError("cannot be read")


@pytest.mark.parametrize("wrong, error", [
    (-1, NotABlock), (8, NotABlock), (2**70, NotABlock), (True, TypeError), (numpy.bool_(True), TypeError),
    (1.0, TypeError), (numpy.float32(1), TypeError), ("1", TypeError), (None, TypeError), ([1], TypeError),
    (slice(0, 1), TypeError), (_Explodes(), RuntimeError)], ids=repr)
@pytest.mark.parametrize("op", ["retain", "release"])
def test_a_bad_id_anywhere_in_the_call_changes_nothing(op, wrong, error):
    pool = BlockPool(8)
    ids = pool.allocate(5)
    pool.retain(ids[:2])
    before = state(pool)
    for position in (0, 2, 5):
        blocks = list(ids)
        blocks.insert(position, wrong)
        with pytest.raises(error):
            getattr(pool, op)(blocks)
        assert state(pool) == before


@pytest.mark.parametrize("wrong", [7, "12", None, True, 1.5], ids=repr)
def test_a_single_block_is_not_a_list_of_blocks(wrong):
    with pytest.raises(TypeError, match=r"as a list, such as \[7\]"):
        BlockPool(8).release(wrong)


@pytest.mark.parametrize("wrong, error", [(-1, ValueError), (True, TypeError), (2.0, TypeError), ("2", TypeError)])
def test_bad_pool_sizes(wrong, error):
    with pytest.raises(error, match="num_blocks"):
        BlockPool(wrong)


def test_a_pool_of_no_blocks():
    pool = BlockPool(0)
    assert pool.allocate(0) == []
    with pytest.raises(OutOfBlocks, match="need 1 blocks, 0 of 0 are free"):
        pool.allocate(1)


def test_numpy_counts():
    assert len(BlockPool(8).allocate(numpy.int32(3))) == 3
    with pytest.raises(ValueError):
        BlockPool(8).allocate(numpy.int32(-3))


def test_messages_name_block_count_and_remedy():
    pool = BlockPool(100)
    a, b = pool.allocate(60)[:2]
    with pytest.raises(OutOfBlocks, match="need 80 blocks, 40 of 100 are free"):
        pool.allocate(80)
    with pytest.raises(DoubleFree, match=f"block {a} has refcount 1 but stands 2 times in this release"):
        pool.release([b, a, a])
    pool.release([a])
    with pytest.raises(DoubleFree, match=f"block {a} is already free"):
        pool.release([b, a])
    with pytest.raises(UseAfterFree, match=rf"block {a} is free \(refcount 0\): use it before"):
        pool.retain([a])
    with pytest.raises(NotABlock, match="100 is not a block of this pool: its ids go from 0 to 99"):
        pool.refcount(100)


def test_an_observer_that_raises_does_not_undo_the_call():
    """The call is over when the observer hears of it."""
    pool = BlockPool(4)
    ids = pool.allocate(2)

    def observer(event):
        raise IndexError("the observer's own trouble")

    pool.observer = observer
    with pytest.raises(IndexError, match="own trouble"):
        pool.release(ids)
    assert pool.num_free_blocks == 4 and pool.refcounts() == [0] * 4


def test_the_list_given_out_is_the_callers():
    pool = BlockPool(4)
    given = pool.allocate(2)
    given.append(99)
    pool.release(given[:2])
    assert pool.num_free_blocks == 4


def test_bytes_per_block():
    num_blocks = 65_536
    pool = BlockPool(num_blocks)
    lists = (pool._ids, pool._free, pool._refcounts)
    total = sum(map(sys.getsizeof, lists)) + sum(map(sys.getsizeof, pool._ids))
    assert total / num_blocks <= 80


def test_no_step_costs_the_pool():
    """N7: a call on a large pool executes as many lines as on a small one."""
    def lines(num_blocks):
        pool = BlockPool(num_blocks)
        seen = 0

        def trace(frame, event, arg):
            nonlocal seen
            seen += event == "line"
            return trace

        sys.settrace(trace)
        try:
            ids = pool.allocate(3)
            pool.retain(ids)
            pool.release(ids + ids)
            with pytest.raises(DoubleFree):
                pool.release(ids)
        finally:
            sys.settrace(None)
        return seen

    assert lines(10) == lines(100_000)
