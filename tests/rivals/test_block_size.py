"""S8, B4, B5: what a block size wastes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedkv import BlockPool, OutOfBlocks
from pagedkv.core.kv_size import MODELS, kv_bytes_per_token
from pagedkv.core.sizing import best_block_size
from pagedkv.rivals.block_size import (ARTICLE_SIZES_TOKENS, ARTICLE_UTILISATION, LENGTHS, allocator_ns_per_token,
                                       draw_lengths, manager_ns_per_token, measure_block_size, run_in_pool, sweep,
                                       sweep_all)
from pagedkv.rivals.block_tables import TwoLevelTables

LISTS_OF_LENGTHS = st.lists(st.integers(1, 5000), min_size=1, max_size=30)


def utilisation(lengths, block_size):
    return measure_block_size(lengths, block_size).utilisation


@settings(deadline=None)
@given(LISTS_OF_LENGTHS, st.integers(1, 64), st.lists(st.integers(1, 4), max_size=4))
def test_over_nested_sizes_utilisation_never_rises(lengths, smallest, factors):
    """B4: blocks that are a multiple of smaller ones can only be filled as well or worse."""
    sizes = [smallest]
    for factor in factors:
        sizes.append(sizes[-1] * factor)
    column = [utilisation(lengths, size) for size in sizes]
    assert column == sorted(column, reverse=True)


def test_other_sizes_can_rise():
    """B4: 48 tokens fill 75 % of two blocks of 32, and 100 % of one of 48."""
    assert (utilisation([48], 32), utilisation([48], 48)) == (0.75, 1.0)


@pytest.mark.parametrize("name", LENGTHS)
def test_the_articles_column_rises_and_ours_fall(name):
    """B4: 68/82/91/94 % for 16/32/64/128 tokens is no utilisation of allocated blocks."""
    assert list(ARTICLE_UTILISATION) == sorted(ARTICLE_UTILISATION)
    assert all(large % small == 0 for small, large in zip(ARTICLE_SIZES_TOKENS, ARTICLE_SIZES_TOKENS[1:]))
    column = [row.utilisation for row in sweep(draw_lengths(name, 300), ARTICLE_SIZES_TOKENS)]
    assert column == sorted(column, reverse=True) and column[0] > column[-1]


@settings(deadline=None, max_examples=50)
@given(LISTS_OF_LENGTHS, st.integers(1, 200))
def test_a_row_counts_what_a_pool_and_tables_hold(lengths, block_size):
    row, pool, tables = measure_block_size(lengths, block_size), BlockPool(200_000), TwoLevelTables()
    for number, length in enumerate(lengths):
        table = []
        while len(table) * block_size < length:
            table += pool.allocate(1)
        tables.set(number, table)
    assert row.num_blocks == row.num_entries == pool.num_blocks - pool.num_free_blocks
    assert row.table_bytes == tables.layout_bytes
    assert row.num_slots == row.num_blocks * block_size and row.num_tokens == sum(lengths)
    assert row.waste == pytest.approx(1 - sum(lengths) / row.num_slots) and 0 <= row.waste_tokens <= block_size - 1
    assert row.waste + row.utilisation == pytest.approx(1)


def test_half_a_block_on_average():
    """S8: (B − 1) / 2 tokens per sequence for lengths that are spread out and much longer than a block ..."""
    for name in ("drawn like BurstGPT (chat)", "drawn like Azure 2023 (code)", "drawn like Mooncake (long tail)"):
        for row in sweep(draw_lengths(name, 4000), (8, 16, 32)):
            assert row.waste_tokens == pytest.approx(row.expected_waste_tokens, rel=0.05), (name, row.block_size)


def test_not_half_a_block():
    """S8: ... and not for equal lengths, or for short ones."""
    rows = {row.block_size: row for row in sweep(draw_lengths("all 287 tokens", 100), (16, 32, 64, 128))}
    assert [row.waste_tokens for row in rows.values()] == [1, 1, 33, 97]
    assert rows[32].num_blocks == 100 * 9, "B5: nine blocks of 32, not six"
    short = measure_block_size(draw_lengths("1 to 40 tokens", 4000), 128)
    assert short.waste_tokens == pytest.approx(128 - 20.5, abs=0.5) and short.waste > 0.8
    assert short.expected_waste_tokens == 63.5


def test_smaller_blocks_have_larger_tables():
    """S8: waste and tables go in opposite directions, and B5's rule finds where their sum is least."""
    lengths = draw_lengths("drawn like BurstGPT (chat)", 1000)
    rows = sweep(lengths, (1, 2, 4, 8, 16, 32))
    assert [row.table_bytes for row in rows] == sorted((row.table_bytes for row in rows), reverse=True)
    assert rows[0].table_bytes == 4 * sum(lengths) + 8 * 1000 and rows[0].waste == 0
    # A token of 2 B and an entry of 4 B never meet in practice; they bring the least overhead to where it can be seen.
    sizes = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
    overhead = {row.block_size: row.waste_tokens * 2 + row.num_entries * 4 / 1000 for row in sweep(lengths, sizes)}
    best = best_block_size(sum(lengths) / 1000, 2, 4)
    assert min(overhead, key=overhead.get) == min(sizes, key=lambda size: abs(size / best - 1)) == 64
    real = {row.block_size: row.waste_tokens * kv_bytes_per_token(MODELS["Llama-2-7B"]) + row.num_entries * 4 / 1000
            for row in rows}
    assert min(real, key=real.get) == 1


@pytest.mark.parametrize("name, mean", [("all 287 tokens", 287), ("1 to 40 tokens", 20.5),
                                        ("drawn like BurstGPT (chat)", 832.4),
                                        ("drawn like Azure 2023 (code)", 2075.7),
                                        ("drawn like Mooncake (long tail)", 12377.7)])
def test_lengths(name, mean):
    lengths = draw_lengths(name, 4000)
    assert sum(lengths) / 4000 == pytest.approx(mean, rel=0.2) and len(lengths) == 4000
    assert lengths == draw_lengths(name, 4000) and lengths[:50] == draw_lengths(name, 50)
    assert name == "all 287 tokens" or lengths != draw_lengths(name, 4000, seed=2)


def test_sweep_all():
    rows = sweep_all(50, (16, 32))
    assert [(row.lengths, row.block_size) for row in rows] == [(name, size) for name in LENGTHS for size in (16, 32)]
    assert all(row.num_sequences == 50 for row in rows)


@settings(deadline=None, max_examples=50)
@given(LISTS_OF_LENGTHS, st.integers(8, 100), st.integers(1, 7))
def test_running_in_a_pool(lengths, block_size, at_once):
    pool = BlockPool(7 * 5000)
    assert run_in_pool(lengths, block_size, pool, at_once) == measure_block_size(lengths, block_size).num_blocks
    assert pool.num_free_blocks == pool.num_blocks


def test_the_pool_is_just_large_enough():
    made = []

    def make(num_blocks):
        made.append(BlockPool(num_blocks))
        return made[-1]

    assert allocator_ns_per_token([100, 33, 200], 16, at_once=2, make_pool=make) > 0
    assert made[0].num_blocks == 13
    with pytest.raises(OutOfBlocks):
        run_in_pool([100, 33, 200], 16, BlockPool(12), 2)


def test_more_blocks_take_more_time():
    """So much of the article's second row (B4) holds: larger blocks are allocated less often."""
    lengths = draw_lengths("drawn like BurstGPT (chat)", 200)
    small, large = (min(allocator_ns_per_token(lengths, size) for _ in range(3)) for size in (4, 128))
    assert small > 3 * large
    in_manager = [min(manager_ns_per_token(lengths[:20], size) for _ in range(3)) for size in (1, 16)]
    assert in_manager[0] > 1.2 * in_manager[1] > 0, "what a manager does for each token does not shrink with the blocks"


def test_what_cannot_be_measured():
    with pytest.raises(ValueError, match="block_size is at least 1"):
        measure_block_size([1], 0)
    with pytest.raises(ValueError, match="at least one length"):
        measure_block_size([], 16)
    with pytest.raises(ValueError, match="a length in tokens is at least 1"):
        measure_block_size([5, 0], 16)
    with pytest.raises(ValueError, match="there are no lengths 'chat': take one of all 287 tokens"):
        draw_lengths("chat")
