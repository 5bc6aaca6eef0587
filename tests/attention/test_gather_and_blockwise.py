"""The two backends in plain PyTorch against attention over keys and values that lie in order.

The blocks of nobody, and the rest of each last block, hold NaN: what is read beyond a sequence's end shows.
"""

import pytest
import torch

from pagedkv.attention import blockwise, gather
from pagedkv.storage.int8_storage import Int8KVStorage
from tests.attention.cases import LAYER, case, error, poison

BACKENDS = pytest.mark.parametrize("attend", [gather.attend, blockwise.attend], ids=["gather", "blockwise"])


@BACKENDS
@pytest.mark.parametrize("group", [1, 3, 8])
@pytest.mark.parametrize("block_size", [1, 4, 16])
def test_decode_of_ragged_sequences(attend, group, block_size):
    assert error(attend, case([1, 33, 16, 100, 4], group=group, block_size=block_size)) < 2e-6


@BACKENDS
def test_prefill_and_decode_in_one_step(attend):
    assert error(attend, case([5, 40, 12, 7], [5, 1, 3, 6])) < 2e-6


@BACKENDS
@pytest.mark.parametrize("dtype, most", [(torch.float16, 4e-3), (torch.bfloat16, 4e-2)])
def test_narrow_types(attend, dtype, most):
    assert error(attend, case([37, 8, 3], [1, 2, 3], dtype=dtype)) < most


@BACKENDS
def test_int8_is_read_as_it_was_rounded(attend):
    made = case([37, 8, 3], [1, 2, 3], kind=Int8KVStorage)
    assert error(attend, made) < 2e-6


@BACKENDS
def test_large_scores_do_not_overflow(attend):
    made = case([50, 9])
    made.query *= 200
    made.expected = torch.cat([
        _argmax_values(made, row) for row in range(2)])
    assert error(attend, made) < 1e-3


def _argmax_values(made, row):
    """With scores this far apart the softmax is the value of the best key."""
    context = made.batch.context_lens_list[row]
    keys, values = made.storage.gather(LAYER, made.batch.block_tables[row][:-(-context // 4)], context)
    keys, values = keys.repeat_interleave(3, 0), values.repeat_interleave(3, 0)
    scores = (made.query[row][:, None] @ keys.transpose(1, 2))[:, 0] * made.scale
    weights = torch.softmax(scores.double(), -1).float()
    return (weights[:, None] @ values)[:, 0][None]


@BACKENDS
def test_stale_memory_is_seen_if_the_length_is_wrong(attend):
    """The control: with one token more than was written the NaN comes through."""
    made = case([6])
    made.batch.context_lens_list[0] = 7
    assert attend(made.query, made.storage, LAYER, made.batch, made.scale).isnan().any()


@BACKENDS
def test_another_layer_is_not_read(attend):
    made = case([10, 3])
    assert made.storage.keys(0).isnan().all()
    made.storage.data[:, LAYER, :] = made.storage.data[:, LAYER].clone()
    assert error(attend, made) < 2e-6
    poison(made.storage)
    assert attend(made.query, made.storage, LAYER, made.batch, made.scale).isnan().any()
