"""One step's work, packed: lengths, positions, slots, and what is refused."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedkv import NotABlock
from pagedkv.attention.batch import PagedBatch
from pagedkv.core.block_table import locate
from pagedkv.storage.kv_storage import KVStorage


@pytest.fixture(scope="module")
def storage():
    return KVStorage(1, 1, 2, num_blocks=10, block_size=4, dtype=torch.float32, device="cpu")


def test_a_decode_and_a_prefill_in_one_step(storage):
    batch = PagedBatch.build([[7, 2], [5]], context_lens=[6, 3], query_lens=[1, 3], storage=storage)
    assert batch.query_starts.tolist() == [0, 1, 4]
    assert batch.positions.tolist() == [5, 0, 1, 2]
    assert batch.slots.tolist() == [2 * 4 + 1, 20, 21, 22]
    assert batch.block_tables.tolist() == [[7, 2], [5, 0]] and batch.block_tables.dtype == torch.int32
    assert batch.context_lens.tolist() == batch.context_lens_list == [6, 3]
    assert (batch.num_sequences, batch.num_query_tokens, batch.is_decode) == (2, 4, False)


def test_one_new_token_each_is_a_decode(storage):
    assert PagedBatch.build([[7, 2], [5]], [6, 3], [1, 1], storage).is_decode


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_every_token_goes_where_its_table_says(data, storage):
    ids = data.draw(st.permutations(range(10)))
    tables, contexts, queries = [], [], []
    while ids and data.draw(st.booleans()) or not tables:
        table, ids = ids[:(n := data.draw(st.integers(1, len(ids))))], ids[n:]
        tables.append(table)
        contexts.append(data.draw(st.integers(1, 4 * n)))
        queries.append(data.draw(st.integers(1, contexts[-1])))
    batch = PagedBatch.build(tables, contexts, queries, storage)
    expected = [(position, locate(table, position, 4).slot) for table, context, query in zip(tables, contexts, queries)
                for position in range(context - query, context)]
    assert list(zip(batch.positions.tolist(), batch.slots.tolist())) == expected
    assert batch.rows.num_tokens == len(expected)


def test_spare_blocks_in_a_table_do_not_matter(storage):
    assert PagedBatch.build([[7, 2, 9]], [3], [3], storage).slots.tolist() == [28, 29, 30]


@pytest.mark.parametrize("tables, contexts, queries, error, words", [
    ([], [], [], ValueError, "at least one sequence"),
    ([[1], [2]], [3], [1, 1], ValueError, "2 block tables, 1 context lengths and 2 query lengths"),
    ([[1]], [3], [0], ValueError, "3 tokens of which 0 are new"),
    ([[1]], [3], [4], ValueError, "3 tokens of which 4 are new"),
    ([[1]], [0], [0], ValueError, "0 tokens"),
    ([[1], [2, 3]], [4, 9], [1, 1], IndexError, "sequence 1 has 9 tokens, beyond the last of its 2 blocks of 4"),
    ([list(range(10)) + [0]], [4], [1], ValueError, "sequence 0 has 11 entries, the pool only 10 blocks"),
    ([[1], [10]], [4, 4], [1, 1], NotABlock, "10 is not a block of this pool: its ids go from 0 to 9"),
    ([[1, -1]], [4], [1], NotABlock, "-1 is not a block"),
])
def test_what_does_not_fit_together_is_refused(tables, contexts, queries, error, words, storage):
    with pytest.raises(error, match=words):
        PagedBatch.build(tables, contexts, queries, storage)


def test_arrays_that_are_packed_already_give_the_same(storage):
    built = PagedBatch.build([[7, 2], [5]], [6, 3], [1, 3], storage)
    packed = PagedBatch.from_arrays(np.array([[7, 2], [5, 0]], dtype=np.int32), [6, 3], [1, 3], storage)
    for name in ("block_tables", "context_lens", "query_starts", "slots", "positions"):
        one, other = getattr(built, name), getattr(packed, name)
        assert torch.equal(one, other) and one.dtype == other.dtype
