"""Small cases of keys and values for notebook 06: made up, the same on every machine.

`attend_whole_blocks` is wrong on purpose: it makes the mistake that several engines have made.
"""

import torch

from pagedkv.storage.kv_storage import KVStorage


def made_up_vectors(tokens, num_heads: int, head_dim: int) -> torch.Tensor:
    """[tokens, num_heads, head_dim] between -1 and 1: equal tokens have equal vectors. (In a model they also depend on all
    tokens before.)"""
    token = torch.as_tensor(list(tokens))[:, None, None]
    head = torch.arange(num_heads)[None, :, None]
    number = torch.arange(head_dim)
    return ((token * 7 + head * 5 + number * (token + 3)) % 11 - 5) / 5


def attend_whole_blocks(query: torch.Tensor, storage: KVStorage, layer: int, block_table: list[int], num_tokens: int,
                        scale: float) -> torch.Tensor:
    """A decode step that reads whole blocks and gives what lies behind the last token the weight 0.

    query [num_heads, head_dim]; returns the same shape."""
    keys, values = storage.gather(layer, block_table, len(block_table) * storage.block_size)
    group = len(query) // storage.num_kv_heads
    keys, values = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)
    scores = (keys @ query[:, :, None])[:, :, 0] * scale
    scores[:, num_tokens:] = -torch.inf  # exp(-inf) is 0
    return (scores.softmax(-1)[:, None] @ values)[:, 0]
