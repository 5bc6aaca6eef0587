"""Keys and values that say whose they are: every number of every vector is another one, and can be read back.

A number that was written is positive, and what lay in the pool before is negative, so a look at a pool tells for each
slot which token's vector is in it, or that nobody has touched it.
"""

import torch

from pagedkv.storage.kv_storage import KVStorage

KINDS = ("key", "value")
UNTOUCHED, MIXED = None, -1  # instead of a position


class Coded:
    """The vectors of one sequence with up to `most_tokens` tokens. Whole numbers, which float32 has up to 2**24."""

    def __init__(self, num_layers: int, num_kv_heads: int, head_dim: int, most_tokens: int):
        self.shape = 2, num_layers, most_tokens, num_kv_heads, head_dim
        numbers = 2 * num_layers * most_tokens * num_kv_heads * head_dim
        self._all = torch.arange(1, numbers + 1, dtype=torch.float32).view(self.shape)

    def vectors(self, kind: int, layer: int, start: int, end: int) -> torch.Tensor:
        """[end - start, num_kv_heads, head_dim]; kind 0 for keys, 1 for values. A tensor of its own."""
        return self._all[kind, layer, start:end].clone()

    def whose(self, vector: torch.Tensor) -> tuple[int, int, int, int] | None:
        """(kind, layer, position, head) of a vector [head_dim], or None if it is nobody's as a whole."""
        size, first = self.shape[-1], float(vector[0])
        if not first.is_integer() or not 1 <= first <= self._all.numel():
            return None
        place, dimension = divmod(int(first) - 1, size)
        if dimension or not torch.equal(vector, torch.arange(size) + first):
            return None
        kind, layer, position, head = (int(part) for part in torch.unravel_index(torch.tensor(place), self.shape[:-1]))
        return kind, layer, position, head

    def describe(self, vector: torch.Tensor) -> str:
        if bool((vector < 0).all()):
            return "what lay there before"
        whose = self.whose(vector)
        if whose is None:
            return "no token's as a whole"
        kind, layer, position, head = whose
        return f"the {KINDS[kind]} of position {position}, KV head {head}" + f", layer {layer}" * (self.shape[1] > 1)


def used_storage(num_layers: int, num_kv_heads: int, head_dim: int, num_blocks: int, block_size: int) -> KVStorage:
    """A storage that others have used before: every number in it is negative."""
    storage = KVStorage(num_layers, num_kv_heads, head_dim, num_blocks, block_size, torch.float32, "cpu")
    storage.data.copy_(-torch.arange(1, storage.data.numel() + 1, dtype=torch.float32).view_as(storage.data))
    return storage
