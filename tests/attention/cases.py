"""Sequences in a pool, in shuffled blocks, and what attention over them has to give."""

import random
from dataclasses import dataclass

import torch
from torch.nn.functional import scaled_dot_product_attention

from pagedkv.attention.batch import PagedBatch
from pagedkv.storage.kv_storage import KVStorage

LAYER = 1


@dataclass
class Case:
    """query [query tokens, num_heads, head_dim]; expected: of the same shape, from the keys and values in the order of
    their tokens, as the storage holds them (so that rounding to INT8 is no error of the attention)."""

    storage: KVStorage
    batch: PagedBatch
    query: torch.Tensor
    expected: torch.Tensor
    scale: float


def case(context_lens, query_lens=None, num_kv_heads=2, group=3, head_dim=16, block_size=4, dtype=torch.float32,
         kind=KVStorage, device="cpu", seed=0):
    """query_lens None: a decode step. The blocks of nobody hold NaN: who reads one gets NaN."""
    query_lens = query_lens or [1] * len(context_lens)
    generator = torch.Generator().manual_seed(seed)
    needed = [-(-context // block_size) for context in context_lens]
    storage = kind(2, num_kv_heads, head_dim, num_blocks=sum(needed) + 3, block_size=block_size, dtype=dtype, device=device)
    poison(storage)
    ids = list(range(storage.num_blocks))
    random.Random(seed).shuffle(ids)
    tables = [[ids.pop() for _ in range(blocks)] for blocks in needed]
    for table, context in zip(tables, context_lens):
        everything = PagedBatch.build([table], [context], [context], storage)
        keys, values = torch.randn(2, context, num_kv_heads, head_dim, generator=generator).to(dtype).to(device)
        storage.write(LAYER, everything.rows, keys, values)
    query = torch.randn(sum(query_lens), num_kv_heads * group, head_dim, generator=generator).to(dtype).to(device)
    scale = head_dim**-0.5
    expected = torch.cat([
        _by_hand(part, *storage.gather(LAYER, table, context), scale)
        for part, table, context in zip(query.split(query_lens), tables, context_lens)])
    return Case(storage, PagedBatch.build(tables, context_lens, query_lens, storage), query, expected, scale)


def poison(storage):
    """Fill it with what spoils every sum that it gets into."""
    for tensor in storage.tensors():
        tensor.fill_(torch.nan if tensor.is_floating_point() else 127)


def error(attend, made, **more):
    """The largest error of a backend, relative to numbers around 1."""
    result = attend(made.query, made.storage, LAYER, made.batch, made.scale, **more)
    assert result.shape == made.query.shape and result.dtype == made.query.dtype
    return (result.float() - made.expected.float()).abs().max().item()


def _by_hand(query, keys, values, scale):
    """query [tokens, heads, head_dim], keys and values [KV heads, context, head_dim]: PyTorch's attention in fp32."""
    tokens, context = len(query), keys.shape[1]
    mask = torch.ones(tokens, context, dtype=torch.bool, device=query.device).tril(context - tokens)
    result = scaled_dot_product_attention(query.transpose(0, 1)[None].float(), keys[None].float(), values[None].float(),
                                          attn_mask=mask, scale=scale, enable_gqa=True)
    return result[0].transpose(0, 1).to(query.dtype)
