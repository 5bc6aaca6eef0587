"""`PluggedCache`: what a learner's cache for a model of transformers begins with.

transformers keeps keys and values in a `Cache`. In each step the model asks it once how many tokens it has, and then
calls `update` once in each layer, with the keys and values of the new tokens; what `update` returns is attended to.
Here a cache lies over a `KVStorage` and has one sequence; only `update` is missing.

    cache = MyCache(KVStorage.for_model(model, num_blocks=64), block_table=[9, 4, 7])
    model.generate(**inputs, cache=cache)

Written against transformers 5.24: the methods that a model asks change between versions. `small_model` is a model to
try a cache with; it stands here because importing its class takes seconds, and a check has a deadline.
"""

from collections.abc import Iterable

import torch
from transformers import Cache, LlamaConfig, LlamaForCausalLM

from pagedkv.core.arguments import as_block_ids
from pagedkv.storage.kv_storage import KVStorage


class PluggedCache(Cache):
    """One sequence's keys and values, in the blocks of its table.

    storage       the KVStorage; other sequences have blocks in it too
    block_table   list of ints
    length        tokens that are written in all layers
    last_layer    the number of the last layer of the model
    """

    def __init__(self, storage: KVStorage, block_table: Iterable[int]):
        super().__init__(layers=[])  # none of the library's own
        self.storage = storage
        self.block_table = as_block_ids(block_table, storage.num_blocks)
        self.length = 0
        self.last_layer = storage.num_layers - 1

    def slots(self, start: int, end: int) -> torch.Tensor:
        """Where the tokens at the positions start … end - 1 lie: int64 [end - start], block * block_size + offset.

        Raises IndexError for positions beyond the table's last block."""
        size = self.storage.block_size
        if not 0 <= start <= end <= len(self.block_table) * size:
            raise IndexError(f"positions {start} … {end - 1} are not all in a table of {len(self.block_table)} blocks "
                             f"of {size} tokens")
        positions = torch.arange(start, end)
        slots = torch.tensor(self.block_table)[positions // size] * size + positions % size
        return slots.to(self.storage.device)

    def update(self, keys: torch.Tensor, values: torch.Tensor, layer: int, *args, **kwargs
               ) -> tuple[torch.Tensor, torch.Tensor]:
        """Keep the keys and values of the new tokens, [1, KV heads, new tokens, head_dim], in this layer; returns all
        keys and values so far, [1, KV heads, tokens, head_dim]."""
        raise NotImplementedError("update() is yours to write")

    # ── what the model and generate() ask ────────────────────────────────────────────────────────────────────────────

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        """How many keys there will be, and from which position on."""
        return self.length + query_length, 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return self.length

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return len(self.block_table) * self.storage.block_size

    @property
    def is_croppable(self) -> bool:
        return False

    def reset(self) -> None:
        self.length = 0

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.length} tokens in the blocks {self.block_table}>"


def small_model() -> LlamaForCausalLM:
    """Random weights, always the same: two layers, four heads, two KV heads. What it says means nothing."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(13)  # of the first forty seeds, the one whose best tokens are furthest ahead
        # large weights, so that the tokens' scores lie apart
        config = LlamaConfig(vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                             num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=128,
                             initializer_range=0.3, bos_token_id=None, eos_token_id=None, pad_token_id=None)
        return LlamaForCausalLM(config).float().eval()
