"""Paged attention block by block, with an *online softmax*: nothing is gathered. To be read; PyTorch runs it slowly.

The softmax of a row of scores needs their sum, and their maximum so that no exponential overflows. Neither is known before
the last block. So three things are kept while the blocks go by:

    m     the largest score so far
    total the sum of exp(score - m) so far
    out   the sum of exp(score - m) * value so far

A block with a larger score moves the maximum from m to m': what was summed up is too large by exp(m - m'), and is
multiplied by exp(m - m') ≤ 1 once. At the end out / total is the attention, exactly (Milakov and Gimelshein, "Online
normalizer calculation for softmax", 2018; FlashAttention, 2022, brought it to attention).
"""

import torch

from pagedkv.attention.batch import PagedBatch
from pagedkv.storage.kv_storage import KVStorage


def attend(query: torch.Tensor, storage: KVStorage, layer: int, batch: PagedBatch, scale: float) -> torch.Tensor:
    """As `pagedkv.attention.gather.attend`."""
    result = torch.empty_like(query)
    starts = batch.query_starts.tolist()
    for number, (table, context) in enumerate(zip(batch.block_tables.tolist(), batch.context_lens_list)):
        rows = slice(starts[number], starts[number + 1])
        result[rows] = attend_sequence(query[rows], storage, layer, table, context, scale)
    return result


def attend_sequence(query: torch.Tensor, storage: KVStorage, layer: int, table: list[int], context: int, scale: float
                    ) -> torch.Tensor:
    """One sequence: query [tokens, num_heads, head_dim] are its last tokens, `context` counts all of them."""
    num_query, num_heads, head_dim = query.shape
    heads, size = storage.num_kv_heads, storage.block_size
    # [KV heads, query heads of each, tokens, head_dim], so that a KV head is multiplied with its whole group at once
    q = query.float().view(num_query, heads, num_heads // heads, head_dim).permute(1, 2, 0, 3) * scale
    positions = torch.arange(context - num_query, context, device=query.device)
    m = torch.full(q.shape[:3], -torch.inf, device=query.device)
    total = torch.zeros_like(m)
    out = torch.zeros_like(q)
    for logical, first in enumerate(range(0, context, size)):
        block = torch.tensor(table[logical:logical + 1], device=query.device)
        keys, values = storage.gather_unchecked(layer, block, min(size, context - first))
        scores = q @ keys.float()[:, None].transpose(-1, -2)
        seen = positions[:, None] >= first + torch.arange(keys.shape[1], device=query.device)
        scores = scores.masked_fill(~seen, -torch.inf)
        # block 0 has a token that every row sees, so m is finite from then on
        new_m = torch.maximum(m, scores.amax(-1))
        weights = torch.exp(scores - new_m[..., None])
        correction = torch.exp(m - new_m)
        total = total * correction + weights.sum(-1)
        out = out * correction[..., None] + weights @ values.float()[:, None]
        m = new_m
    return (out / total[..., None]).permute(2, 0, 1, 3).reshape(query.shape).to(query.dtype)
