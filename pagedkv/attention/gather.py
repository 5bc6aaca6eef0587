"""Paged attention by gathering: the reference, and what prefill uses.

Each sequence's keys and values are copied into one piece in its own order; then attention is the ordinary one. The copy
is as large as what attention reads anyway, so a decode step moves the bytes three times. A prefill works on every key so
often that the copy does not matter.
"""

import torch
from torch.nn.functional import scaled_dot_product_attention

from pagedkv.attention.batch import PagedBatch
from pagedkv.storage.kv_storage import KVStorage


def attend(query: torch.Tensor, storage: KVStorage, layer: int, batch: PagedBatch, scale: float) -> torch.Tensor:
    """Causal attention of every query token to its own sequence.

    query    [num_query_tokens, num_heads, head_dim], packed as `batch` says; the heads that share a KV head stand side by
             side, as in transformers
    returns  the same shape and dtype"""
    result = torch.empty_like(query)
    start = 0
    for table, context, length in zip(batch.block_tables, batch.context_lens_list, batch.query_lens):
        end = start + length
        num_blocks = -(-context // storage.block_size)
        keys, values = storage.gather_unchecked(layer, table[:num_blocks], context)
        # The query tokens are the last ones of the context, so that row r sees all but the last length - 1 - r. A prompt
        # without a past needs no mask of its own, and PyTorch is faster without.
        mask = None
        if 1 < length < context:
            mask = torch.ones(length, context, dtype=torch.bool, device=query.device).tril(context - length)
        attended = scaled_dot_product_attention(query[None, start:end].transpose(1, 2), keys[None], values[None], attn_mask=mask,
                                                is_causal=length == context, scale=scale, enable_gqa=True)
        result[start:end] = attended[0].transpose(0, 1)
        start = end
    return result
