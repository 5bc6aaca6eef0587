"""Small cases of keys and values for notebook 06: made up, the same on every machine.

`attend_whole_blocks` is wrong on purpose: it makes the mistake that several engines have made. `survives` tells whether
a learner's attention makes it too.
"""

from collections.abc import Callable

import torch

from pagedkv.lab.placeholders import placeholders_in
from pagedkv.lab.real_attend import as_result, close
from pagedkv.storage.kv_storage import KVStorage


def made_up_vectors(tokens, num_heads: int, head_dim: int) -> torch.Tensor:
    """[tokens, num_heads, head_dim] between -1 and 1: equal tokens have equal vectors. (In a model they also depend on all
    tokens before.)"""
    token = torch.as_tensor(list(tokens))[:, None, None]
    head = torch.arange(num_heads)[None, :, None]
    number = torch.arange(head_dim)
    # cubes modulo a prime look like chance: no vector's numbers are all alike, nor are two tokens' vectors
    return ((((token * 64 + head) * 64 + number + 17) % 10_007) ** 3 % 10_007 % 11 - 5) / 5


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


def survives(attend: Callable) -> str:
    """Whether an answer to exercise 06.2 gives what it should although NaN lies behind the last token, in one line.

    "not yet" for one that is not there, cannot be run, or is wrong even with zeros there."""
    if not callable(attend) or placeholders_in(attend):
        return "not yet – attend() still has its placeholder"
    vectors, query = made_up_vectors(range(6), num_heads=2, head_dim=8), made_up_vectors([1], num_heads=4, head_dim=8)[0]
    storage = KVStorage(num_layers=1, num_kv_heads=2, head_dim=8, num_blocks=4, block_size=4, dtype=torch.float32,
                        device="cpu")
    storage.write(0, torch.tensor([8, 9, 10, 11, 4, 5]), vectors, vectors)
    expected = attend_whole_blocks(query, storage, 0, [2, 1], 6, 0.5)  # right, as long as zeros lie there
    results = []
    for left in (0.0, torch.nan):
        storage.keys(0)[1, :, 2:] = storage.values(0)[1, :, 2:] = left
        try:
            answer = attend(query, storage.keys(0), storage.values(0), [2, 1], 6, 0.5)
            results.append(close(as_result(answer, (4, 8), "attend()", "[num_heads, head_dim]", ""), expected, answer))
        except Exception:
            results.append(False)
    with_zeros, with_nan = results
    if not with_zeros:
        return 'not yet – attend() is not right without NaN either: see check("06.2", attend)'
    return "yes – it reads nothing behind num_tokens" if with_nan else "no – 0 × NaN: it reads what lies behind num_tokens"
