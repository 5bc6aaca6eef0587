"""`PagedStep`: what one pass through a model hands to each of its layers.

A layer does two things with it. It *writes* the keys and values of the new tokens into their slots, and then it
*attends*: each new token's query looks at the keys and values of its own sequence, which lie in the blocks of its
table. All of a layer's writing comes before its attending, so that a sequence may share blocks that another one writes
in the same pass.

A model computes more rows than it needs if its batch is padded, or if it starts a row of a batch before that row has
something to compute. Such rows are left out here: nothing is written for them, and their attention is zero.
"""

from collections.abc import Callable

import torch

from pagedkv.attention.batch import PagedBatch
from pagedkv.storage.kv_storage import KVStorage


class PagedStep:
    """attend   the backend: see `pagedkv.attention.backends`
    rows        int64: which rows of the model's batch, taken as one list, are the query tokens of `batch`; None: all of
                them
    written     int64: which of these query tokens are written; None: all of them. The others are there already, and are
                computed once more because their logits are wanted
    """

    def __init__(self, storage: KVStorage, attend: Callable[..., torch.Tensor], batch: PagedBatch,
                 rows: torch.Tensor | None = None, written: torch.Tensor | None = None):
        self.storage, self.batch = storage, batch
        self._attend, self._rows, self._written = attend, rows, written
        self._slots = batch.rows if written is None else storage.rows_unchecked(batch.slots[written])

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """keys, values [batch, KV heads, tokens, head_dim], as the model has them."""
        if self._slots.num_tokens:
            self.storage.write(layer, self._slots, self._chosen(keys), self._chosen(values))

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        """query [batch, heads, tokens, head_dim]; returns [batch, tokens, heads, head_dim], as the model wants it."""
        query = query.transpose(1, 2)
        flat = query.flatten(0, 1)
        if self._rows is None:
            return self._attend(flat, self.storage, layer, self.batch, scale).view(query.shape)
        result = torch.zeros(flat.shape, dtype=flat.dtype, device=flat.device)
        result[self._rows] = self._attend(flat[self._rows], self.storage, layer, self.batch, scale)
        return result.view(query.shape)

    def _chosen(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.transpose(1, 2).flatten(0, 1)
        if self._rows is not None:
            tensor = tensor[self._rows]
        return tensor if self._written is None else tensor[self._written]
