"""B6, B7: block tables in three layouts."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedkv import BlockPool
from pagedkv.rivals.block_tables import (DenseTables, LinkedTables, TwoLevelTables, dense_layout_bytes,
                                         linked_layout_bytes, two_level_layout_bytes)

MAKES = {"dense": lambda: DenseTables(8, 6), "two-level": TwoLevelTables, "linked": LinkedTables}
EACH = pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["set", "append", "remove", "lookup"]), st.integers(0, 7), st.integers(0, 6),
                          st.integers(0, 2**31 - 1)), max_size=40))
def test_all_answer_like_a_dictionary_of_lists(calls):
    tables, model = [make() for make in MAKES.values()], {}
    for call, sequence, number, block in calls:
        for each in tables:
            if call == "set":
                each.set(sequence, [block - n if block > n else n for n in range(number)])
            elif sequence not in model:
                with pytest.raises(KeyError, match=f"sequence {sequence} has no block table"):
                    getattr(each, call)(sequence, *[1] * (call != "remove"))
            elif call == "append" and len(model[sequence]) < 6:
                each.append(sequence, block)
            elif call == "remove":
                each.remove(sequence)
            elif call == "lookup" and number < len(model[sequence]):
                assert each.lookup(sequence, number) == model[sequence][number]
            elif call == "lookup":
                with pytest.raises(IndexError, match=f"there is no logical block {number}"):
                    each.lookup(sequence, number)
        if call == "set":
            model[sequence] = [block - n if block > n else n for n in range(number)]
        elif sequence in model and call == "append" and len(model[sequence]) < 6:
            model[sequence].append(block)
        elif sequence in model and call == "remove":
            del model[sequence]
        for each in tables:
            assert {sequence: each.blocks(sequence) for sequence in model} == model
    entries = sum(map(len, model.values()))
    assert [each.layout_bytes for each in tables] == [8 * 6 * 4, entries * 4 + len(model) * 8,
                                                      entries * 16 + len(model) * 8]


@EACH
def test_a_negative_logical_block_is_refused(make):
    """B7: in Python -1 // 16 is -1, and table[-1] the last block."""
    tables = make()
    tables.set(0, [7, 8, 9])
    assert -1 // 16 == -1 and [7, 8, 9][-1 // 16] == 9
    with pytest.raises(IndexError, match="logical block -1 of sequence 0 is before its first"):
        tables.lookup(0, -1)
    with pytest.raises(KeyError):
        tables.lookup(-1, 0)


@EACH
def test_refusals_leave_a_table_as_it_was(make):
    tables = make()
    tables.set(1, [7, 8])
    for call in (lambda: tables.append(1, 2**31), lambda: tables.append(1, 1.0), lambda: tables.set(1, [1, 2**31]),
                 lambda: tables.set(-1, [1]),
                 lambda: tables.append(0, 1), lambda: tables.lookup(1, 2), lambda: tables.remove(0)):
        with pytest.raises((OverflowError, TypeError, ValueError, LookupError)):
            call()
        assert tables.blocks(1) == [7, 8]


def test_a_dense_table_ends():
    tables = DenseTables(2, 3)
    tables.set(1, [1, 2, 3])
    with pytest.raises(ValueError, match="sequence 1 has 3 blocks, and a row has no room for more"):
        tables.append(1, 4)
    with pytest.raises(ValueError, match="4 blocks do not fit into a row of 3"):
        tables.set(1, range(4))
    with pytest.raises(ValueError, match="there is no row 2: rows go from 0 to 1"):
        tables.set(2, [1])
    assert tables.blocks(1) == [1, 2, 3]


def test_the_articles_bytes():
    """B6: 2.8 MB are 100,000 × (5 × 4 + 8) B; a dense table of 256 MiB is one of 65,536 × 1024 × 4 B."""
    assert two_level_layout_bytes(100_000, 500_000) == 100_000 * (5 * 4 + 8) == 2_800_000
    assert dense_layout_bytes(65_536, 1024) == 256 << 20
    assert dense_layout_bytes(100_000, 1024) / two_level_layout_bytes(100_000, 500_000) == pytest.approx(146, abs=0.5)
    assert linked_layout_bytes(100_000, 500_000) == 8_800_000


def test_what_python_really_holds():
    """B6, measured: each small array costs more for being an object than for its entries, each node still more."""
    pool, sequences = BlockPool(10_000), 2000
    dense, two_level, linked = DenseTables(sequences, 1024), TwoLevelTables(), LinkedTables()
    for sequence in range(sequences):
        blocks = pool.allocate(5)
        for tables in (dense, two_level, linked):
            tables.set(sequence, blocks)
    assert dense.num_bytes == pytest.approx(sequences * 1024 * 4, rel=0.01)
    assert dense.num_bytes > 20 * two_level.num_bytes > 20 * two_level.layout_bytes
    assert 5 * two_level.layout_bytes < two_level.num_bytes < linked.num_bytes
    for tables in (two_level, linked):
        before = tables.num_bytes
        tables.append(0, 9_999_999)
        assert tables.num_bytes > before
        for sequence in range(sequences):
            tables.remove(sequence)
        assert tables.layout_bytes == 0 and tables.num_bytes < before / 4, "a dictionary never shrinks"


def test_ints_that_nodes_share_count_once():
    shared, own = LinkedTables(), LinkedTables()
    number = 123_456
    for sequence in range(50):
        shared.set(sequence, [])
        own.set(sequence, [])
        shared.append(sequence, number)
        own.append(sequence, number + sequence + 1)
    assert own.num_bytes - shared.num_bytes == 49 * sys.getsizeof(number)
