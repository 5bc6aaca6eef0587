"""Cascade attention gives what gather gives, from fewer bytes."""

import pytest
import torch

from pagedkv.attention import cascade, gather
from pagedkv.attention.batch import PagedBatch
from pagedkv.storage.kv_storage import KVStorage


def problem(context_lens, num_shared_blocks, query_lens=None, group=3):
    """Sequences that begin with the same blocks; what no sequence owns is NaN."""
    generator = torch.Generator().manual_seed(10)
    storage = KVStorage(2, 2, 16, 40, 4, torch.float32, "cpu")
    storage.data.fill_(torch.nan)
    free = torch.randperm(storage.num_blocks, generator=generator).tolist()
    shared = [free.pop() for _ in range(num_shared_blocks)]
    tables = [shared + [free.pop() for _ in range(-(-context // 4) - num_shared_blocks)] for context in context_lens]
    written = PagedBatch.build(tables, context_lens, context_lens, storage)
    for layer in range(2):
        storage.write(layer, written.slots, *torch.randn(2, written.num_query_tokens, 2, 16, generator=generator))
    batch = PagedBatch.build(tables, context_lens, query_lens or [1] * len(context_lens), storage)
    return torch.randn(batch.num_query_tokens, 2 * group, 16, generator=generator), storage, batch


@pytest.mark.parametrize("context_lens", [[9, 20, 13], [8, 11], [33]])
@pytest.mark.parametrize("num_shared_blocks", [1, 2])
@pytest.mark.parametrize("group", [1, 3])
def test_as_gather(context_lens, num_shared_blocks, group):
    query, storage, batch = problem(context_lens, num_shared_blocks, group=group)
    expected = gather.attend(query, storage, 1, batch, 0.25)
    got = cascade.attend(query, storage, 1, batch, 0.25, num_shared_blocks)
    torch.testing.assert_close(got, expected, atol=2e-6, rtol=1e-5)


def test_large_scores_do_not_overflow():
    query, storage, batch = problem([9, 20], 2)
    expected = gather.attend(query, storage, 1, batch, 200.0)
    torch.testing.assert_close(cascade.attend(query, storage, 1, batch, 200.0, 2), expected, atol=2e-4, rtol=1e-3)


def test_merging_in_any_order_and_any_cut():
    generator = torch.Generator().manual_seed(3)
    queries, keys, values = torch.randn(3, 2, 10, 8, generator=generator).unbind()
    whole = cascade.attend_part(queries, keys, values)
    for cut in range(11):
        first = cascade.attend_part(queries, keys[:, :cut], values[:, :cut])
        second = cascade.attend_part(queries, keys[:, cut:], values[:, cut:])
        for merged in (cascade.merge(first, second), cascade.merge(second, first)):
            torch.testing.assert_close(merged.output, whole.output)
            torch.testing.assert_close(merged.log_sum_exp, whole.log_sum_exp)


def test_bytes_read():
    storage = KVStorage(5, 2, 16, 4, 4, torch.float16, "cpu")
    token_bytes = 2 * 2 * 16 * 2  # keys and values, 2 heads of 16, 2 bytes: one layer
    assert cascade.bytes_read([110, 120, 100], 100, storage) == (330 * token_bytes, 130 * token_bytes)
    assert cascade.bytes_read([7, 9], 0, storage) == (16 * token_bytes, 16 * token_bytes)
    with pytest.raises(ValueError, match="every sequence has the 8 shared tokens"):
        cascade.bytes_read([7, 9], 8, storage)


@pytest.mark.parametrize(("arguments", "num_shared_blocks", "message"), [
    (([9, 20], 2, [2, 1]), 2, "for decode steps"),
    (([9, 20], 2), 3, "shared blocks hold 12 tokens, a sequence only has 9"),
    (([16, 20], 2), 3, "first 3 blocks are not the same"),
    (([9, 20], 2), 0, "goes from 1 to 5, got 0"),
    (([9, 20], 2), 6, "goes from 1 to 5, got 6"),
])
def test_what_is_no_cascade(arguments, num_shared_blocks, message):
    query, storage, batch = problem(*arguments)
    with pytest.raises(ValueError, match=message):
        cascade.attend(query, storage, 0, batch, 0.25, num_shared_blocks)
