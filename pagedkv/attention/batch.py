"""`PagedBatch`: what one step of the model works on.

Sequences of different lengths are *packed*: their new tokens (*query tokens*) stand one sequence after another, without
padding. A sequence has one new token in a *decode* step, and all of its prompt, or a chunk of it, in a *prefill*; both
kinds go together in one step.

    sequence 0: 5 tokens before, 1 new      query rows   0 │ 1 2 3
    sequence 1: none before, 3 new          positions    5 │ 0 1 2
                                            query_starts 0   1     4

The *context* of a sequence is all of its tokens, the new ones included: a query token attends to those up to its own.
"""

from collections.abc import Sequence as AnySequence
from dataclasses import dataclass

import numpy as np
import torch

from pagedkv.core.errors import NotABlock
from pagedkv.storage.kv_storage import KVStorage, Rows


@dataclass
class PagedBatch:
    """Tensors on the storage's device, and what the host needs to know without asking the device.

    block_tables        int32 [num_sequences, most_blocks], the rest of each row is 0
    context_lens        int32 [num_sequences], tokens of each, the new ones included
    query_starts        int32 [num_sequences + 1]: the new tokens of sequence i are the rows from query_starts[i] on
    slots               int64 [num_query_tokens], where their keys and values go
    positions           int64 [num_query_tokens]
    rows                the slots, as `KVStorage.write` takes them in every layer
    query_lens, context_lens_list   the lengths again, as plain integers
    """

    block_tables: torch.Tensor
    context_lens: torch.Tensor
    query_starts: torch.Tensor
    slots: torch.Tensor
    positions: torch.Tensor
    rows: Rows
    query_lens: list[int]
    context_lens_list: list[int]

    @property
    def num_sequences(self) -> int:
        return len(self.query_lens)

    @property
    def num_query_tokens(self) -> int:
        return self.rows.num_tokens

    @property
    def is_decode(self) -> bool:
        """Whether every sequence has exactly one new token."""
        return self.num_query_tokens == len(self.query_lens)

    @classmethod
    def build(cls, tables: AnySequence[AnySequence[int]], context_lens: AnySequence[int], query_lens: AnySequence[int],
              storage: KVStorage) -> "PagedBatch":
        """From block tables, the number of tokens of each sequence, and how many of these are new.

        Raises ValueError if the three do not fit together, for a table longer than the pool, and for a length that is none;
        IndexError for a length beyond a table's last block; NotABlock for an id outside the pool."""
        size, num_blocks = storage.block_size, storage.num_blocks
        context_lens, query_lens = [int(n) for n in context_lens], [int(n) for n in query_lens]
        if not len(tables) == len(context_lens) == len(query_lens):
            raise ValueError(f"{len(tables)} block tables, {len(context_lens)} context lengths and {len(query_lens)} query "
                             "lengths: there is one of each for a sequence")
        if not tables:
            raise ValueError("a batch has at least one sequence")
        for number, (table, context, query) in enumerate(zip(tables, context_lens, query_lens)):
            if not 1 <= query <= context:
                raise ValueError(f"sequence {number} has {context} tokens of which {query} are new: at least one is, and not "
                                 "more than there are")
            if len(table) > num_blocks:
                raise ValueError(f"the block table of sequence {number} has {len(table):,} entries, the pool only "
                                 f"{num_blocks:,} blocks")
            if context > len(table) * size:
                raise IndexError(f"sequence {number} has {context:,} tokens, beyond the last of its {len(table):,} blocks of "
                                 f"{size} tokens")
        packed = np.zeros((len(tables), max(map(len, tables))), dtype=np.int32)
        for row, table in zip(packed, tables):
            row[:len(table)] = table
        if packed.min() < 0 or packed.max() >= num_blocks:
            wrong = packed.min() if packed.min() < 0 else packed.max()
            raise NotABlock(f"{wrong} is not a block of this pool: its ids go from 0 to {num_blocks - 1}")
        return cls.from_arrays(packed, context_lens, query_lens, storage)

    @classmethod
    def from_arrays(cls, tables: np.ndarray, context_lens: list[int], query_lens: list[int], storage: KVStorage) -> "PagedBatch":
        """The same from a table that is packed already, int32 [num_sequences, most_blocks], and known to be right."""
        size, device = storage.block_size, storage.device
        lens = np.array(query_lens)
        starts = np.zeros(len(lens) + 1, dtype=np.int32)
        np.cumsum(lens, out=starts[1:])
        # of each query token, its sequence and its position
        sequence = np.repeat(np.arange(len(lens)), lens)
        positions = np.arange(starts[-1]) - (starts[:-1] - np.array(context_lens) + lens)[sequence]
        slots = tables[sequence, positions // size].astype(np.int64) * size + positions % size

        def tensor(array: np.ndarray) -> torch.Tensor:
            return torch.from_numpy(array).to(device)

        slots = tensor(slots)
        return cls(tensor(tables), tensor(np.array(context_lens, dtype=np.int32)), tensor(starts), slots, tensor(positions),
                   storage.rows_unchecked(slots), query_lens, context_lens)
