"""`PagedStep`: what one pass through a model hands to each of its layers.

A layer does two things with it. It *writes* the keys and values of the new tokens into their slots, and then it
*attends*: each new token's query looks at the keys and values of its own sequence, which lie in the blocks of its
table. All of a layer's writing comes before its attending, so that a sequence may share blocks that another one writes
in the same pass.

A model computes more rows than it needs if its batch is padded, or if it starts a row of a batch before that row has
something to compute. Such rows are left out here: nothing is written for them, and their attention is zero.

Where some sequences have one new token and others several, the two kinds attend apart: a kernel for decode steps would
leave a mixed batch as a whole to the slower way.
"""

from collections.abc import Callable, Sequence as AnySequence
from itertools import accumulate
from typing import NamedTuple

import torch

from pagedkv.attention.batch import PagedBatch
from pagedkv.storage.kv_storage import KVStorage


class PagedStep:
    """attend   the backend: see `pagedkv.attention.backends`
    rows        int64: which rows of the model's batch, taken as one list, are the query tokens of `batch`; None: all of
                them
    written     int64: which of these query tokens are written; None: all of them. The others are there already, and are
                computed once more because their logits are wanted
    parts       how `batch` is cut for attending, as `split` does it; none: it is not
    """

    def __init__(self, storage: KVStorage, attend: Callable[..., torch.Tensor], batch: PagedBatch,
                 rows: torch.Tensor | None = None, written: torch.Tensor | None = None,
                 parts: AnySequence["Part"] = ()):
        self.storage, self.batch = storage, batch
        self._attend, self._rows, self._written, self._parts = attend, rows, written, parts
        self._slots = batch.rows if written is None else storage.rows_unchecked(batch.slots[written])
        self._attended: list[int] = []  # the layers, as they came

    def write(self, layer: int, keys: torch.Tensor, values: torch.Tensor) -> None:
        """keys, values [batch, KV heads, tokens, head_dim], as the model has them."""
        if self._slots.num_tokens:
            self.storage.write(layer, self._slots, self._chosen(keys), self._chosen(values))

    def attend(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        """query [batch, heads, tokens, head_dim]; returns [batch, tokens, heads, head_dim], as the model wants it."""
        self._attended.append(layer)
        query = query.transpose(1, 2)
        flat = query.flatten(0, 1)
        if self._rows is None:
            return self._attend_packed(layer, flat, scale).view(query.shape)
        result = torch.zeros(flat.shape, dtype=flat.dtype, device=flat.device)
        result[self._rows] = self._attend_packed(layer, flat[self._rows], scale)
        return result.view(query.shape)

    def check_complete(self) -> None:
        """To be called when the pass is over. Raises RuntimeError unless each layer has attended, and only once: else
        what is in the pool is not what the model has computed with."""
        if self._attended != list(range(self.storage.num_layers)):
            raise RuntimeError(f"this pass does not count: attention of this cache was called in the layers "
                               f"{self._attended}, not once in each of the {self.storage.num_layers}, one after the "
                               "other. Either the model has layers of another kind, or its attention was changed in "
                               "the middle of the pass, by another thread perhaps: use one thread at a time")

    def _attend_packed(self, layer: int, query: torch.Tensor, scale: float) -> torch.Tensor:
        if not self._parts:
            return self._attend(query, self.storage, layer, self.batch, scale)
        result = torch.empty_like(query)
        for rows, batch in self._parts:
            result[rows] = self._attend(query[rows], self.storage, layer, batch, scale)
        return result

    def _chosen(self, tensor: torch.Tensor) -> torch.Tensor:
        tensor = tensor.transpose(1, 2).flatten(0, 1)
        if self._rows is not None:
            tensor = tensor[self._rows]
        return tensor if self._written is None else tensor[self._written]


class Part(NamedTuple):
    """Some sequences of a batch: which of its query tokens they have (int64), and a batch of their own."""

    rows: torch.Tensor
    batch: PagedBatch


def split(tables: list[list[int]], context_lens: list[int], query_lens: list[int], storage: KVStorage) -> list[Part]:
    """What `PagedBatch.build` is called with, in two parts: the sequences with one new token, and those with more. None
    if all are of one kind."""
    kinds: tuple[list[int], list[int]] = [], []
    for number, length in enumerate(query_lens):
        kinds[length > 1].append(number)
    if not all(kinds):
        return []
    starts = list(accumulate(query_lens, initial=0))
    parts = []
    for numbers in kinds:
        rows = [row for number in numbers for row in range(starts[number], starts[number + 1])]
        batch = PagedBatch.build(*([what[number] for number in numbers] for what in (tables, context_lens, query_lens)),
                                 storage)
        parts.append(Part(torch.tensor(rows, device=storage.device), batch))
    return parts
