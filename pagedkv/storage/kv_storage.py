"""`KVStorage`: the keys and values themselves, in one tensor that is allocated once.

    data[0 keys | 1 values, layer, block, KV head, offset in the block, number of the head]

Within a block each head has its tokens side by side (the *HND* layout: heads, tokens ("N"), dimensions), so that whoever
reads one head of one block reads one piece of memory.

The storage knows nothing of sequences. A block table leads to its blocks, and a *slot* (block * block_size + offset) to
the place of one token. What it gives out of the tensor are views; only `gather` copies.
"""

from collections.abc import Iterable
from typing import NamedTuple

import torch

from pagedkv.core.arguments import as_block_ids, as_count
from pagedkv.core.block_table import as_block_size
from pagedkv.core.kv_size import at_least_1
from pagedkv.core.memory import as_text
from pagedkv.storage.device import choose_device, room_for

FLOAT_TYPES = (torch.float16, torch.bfloat16, torch.float32)
_MOST_COPIES_AT_ONCE = 256  # blocks that lie twice in memory while they are copied


class Rows(NamedTuple):
    """Slots, as rows of a layer's tensor seen as [num_blocks * num_kv_heads * block_size, head_dim]."""

    num_tokens: int
    rows: torch.Tensor  # int64 [num_tokens * num_kv_heads]


class KVStorage:
    """Room for the keys and values of `num_blocks` blocks of `block_size` tokens, in every layer.

    dtype           of the keys and values that come in and go out: float16, bfloat16 or float32
    device          "cuda", "cuda:1", "cpu"; None takes the GPU if there is one
    zero_on_reuse   whether `prepare` wipes blocks. Off by default: a right kernel never reads beyond a sequence's last
                    token, and wiping costs time

    data            Tensor [2, num_layers, num_blocks, num_kv_heads, block_size, head_dim]
    scales          None; see `Int8KVStorage`

    Raises OutOfDeviceMemory if it does not fit, ValueError and TypeError for a size, a dtype or a device that is none.
    """

    scales: torch.Tensor | None = None

    def __init__(self, num_layers: int, num_kv_heads: int, head_dim: int, num_blocks: int, block_size: int = 16,
                 dtype: torch.dtype = torch.float16, device: torch.device | str | None = None, zero_on_reuse: bool = False):
        self.num_layers = at_least_1(num_layers, "num_layers")
        self.num_kv_heads = at_least_1(num_kv_heads, "num_kv_heads")
        self.head_dim = at_least_1(head_dim, "head_dim")
        self.num_blocks = at_least_1(num_blocks, "num_blocks")
        self.block_size = as_block_size(block_size)
        if not isinstance(dtype, torch.dtype):
            raise TypeError(f"dtype is a type of PyTorch's, such as torch.float16, got {dtype!r}")
        if dtype not in FLOAT_TYPES:
            raise ValueError(f"keys and values are float16, bfloat16 or float32, got {dtype}; for INT8 there is Int8KVStorage")
        self.dtype = dtype
        self.device = choose_device(device)
        self.zero_on_reuse = bool(zero_on_reuse)
        # outside of inference mode: a tensor made there can be written to only there
        with room_for(self.num_blocks, self.block_bytes, self.device), torch.inference_mode(False):
            self._allocate()

    @classmethod
    def for_model(cls, model, num_blocks: int, block_size: int = 16, dtype: torch.dtype | None = None,
                  device: torch.device | str | None = None, zero_on_reuse: bool = False) -> "KVStorage":
        """The storage that fits a model of transformers, or its configuration; dtype and device are the model's if none
        are given."""
        if device is None:
            device = getattr(model, "device", None)
        return cls(*sizes_of(model), num_blocks, block_size, dtype_of(model, dtype), device, zero_on_reuse)

    def _allocate(self) -> None:
        self.data = self._zeros(self.dtype, self.head_dim)
        self._layers = self._as_rows(self.data)

    def _zeros(self, dtype: torch.dtype, *last: int) -> torch.Tensor:
        shape = 2, self.num_layers, self.num_blocks, self.num_kv_heads, self.block_size, *last
        return torch.zeros(shape, dtype=dtype, device=self.device)

    def _as_rows(self, tensor: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Per layer, the views of keys and values with a row for each token and head; made once, since they are needed
        in every layer of every step."""
        rows = tensor.view(2, self.num_layers, self.num_blocks * self.num_kv_heads * self.block_size, *tensor.shape[5:])
        return [(rows[0, layer], rows[1, layer]) for layer in range(self.num_layers)]

    def __repr__(self) -> str:
        return (f"<{type(self).__name__}: {self.num_blocks:,} blocks of {self.block_size} tokens, {self.num_layers} layers × "
                f"{self.num_kv_heads} KV heads × {self.head_dim}, {as_text(self.num_bytes)} on {self.device}>")

    # ── sizes ────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def vector_bytes(self) -> int:
        """One key, or one value, of one head."""
        return self.head_dim * self.dtype.itemsize

    @property
    def token_bytes(self) -> int:
        return 2 * self.num_layers * self.num_kv_heads * self.vector_bytes

    @property
    def block_bytes(self) -> int:
        return self.token_bytes * self.block_size

    @property
    def num_bytes(self) -> int:
        return self.block_bytes * self.num_blocks

    # ── views ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def keys(self, layer: int) -> torch.Tensor:
        """View [num_blocks, num_kv_heads, block_size, head_dim]: what is written there is in the pool."""
        return self.data[0, self._layer(layer)]

    def values(self, layer: int) -> torch.Tensor:
        return self.data[1, self._layer(layer)]

    # ── writing and reading ──────────────────────────────────────────────────────────────────────────────────────────

    def rows(self, slots: torch.Tensor) -> Rows:
        """Slots in the form that `write` needs, for whoever writes the same slots in many layers.

        slots   int64 [num_tokens]. Raises IndexError for one outside the pool."""
        if not isinstance(slots, torch.Tensor) or slots.dtype != torch.int64 or slots.dim() != 1:
            got = f"{slots.dtype} {list(slots.shape)}" if isinstance(slots, torch.Tensor) else repr(slots)
            raise TypeError(f"slots are an int64 tensor with one dimension, such as torch.tensor([3, 4]), got {got}")
        self._check_device(slots, "slots")
        if len(slots):
            low, high = (int(end) for end in torch.aminmax(slots))
            if low < 0 or high >= self.num_blocks * self.block_size:
                raise IndexError(f"slot {low if low < 0 else high} is outside the pool: {self.num_blocks:,} blocks of "
                                 f"{self.block_size} tokens have slots 0 to {self.num_blocks * self.block_size - 1:,}")
        return self.rows_unchecked(slots)

    def rows_unchecked(self, slots: torch.Tensor) -> Rows:
        """The same for slots that are known to be right: on a GPU a look at them would wait for it."""
        heads, size = self.num_kv_heads, self.block_size
        head = torch.arange(heads, device=slots.device)
        rows = ((slots // size)[:, None] * heads + head) * size + (slots % size)[:, None]
        return Rows(len(slots), rows.view(-1))

    def write(self, layer: int, slots: torch.Tensor | Rows, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Put the keys and values of some tokens into their slots.

        slots          int64 [num_tokens], or what `rows` made of them
        keys, values   [num_tokens, num_kv_heads, head_dim], in `dtype` and on `device`

        Raises ValueError for another shape, dtype or device, IndexError for a layer or slot that is not there; then nothing
        is written."""
        layer = self._layer(layer)
        rows = slots if isinstance(slots, Rows) else self.rows(slots)
        for what, given in (("keys", keys), ("values", values)):
            self._check_written(what, given, rows.num_tokens)
        self._put(layer, rows, keys, values)

    def _put(self, layer: int, rows: Rows, keys: torch.Tensor, values: torch.Tensor) -> None:
        pool_keys, pool_values = self._layers[layer]
        pool_keys.index_copy_(0, rows.rows, keys.detach().reshape(-1, self.head_dim))
        pool_values.index_copy_(0, rows.rows, values.detach().reshape(-1, self.head_dim))

    def gather(self, layer: int, block_table: torch.Tensor | Iterable[int], num_tokens: int
               ) -> tuple[torch.Tensor, torch.Tensor]:
        """The first `num_tokens` keys and values of a sequence, in its order: copies [num_kv_heads, num_tokens, head_dim].

        Raises IndexError if the table is too short for so many, NotABlock for an id that is no block."""
        layer = self._layer(layer)
        num_tokens = as_count(num_tokens, "num_tokens")
        blocks = self._blocks(block_table)
        if num_tokens > len(blocks) * self.block_size:
            raise IndexError(f"{num_tokens} tokens do not fit in a table of {len(blocks)} blocks of {self.block_size}")
        return self.gather_unchecked(layer, blocks, num_tokens)

    def gather_unchecked(self, layer: int, blocks: torch.Tensor, num_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        """The same for a table that is known to be right: an integer tensor on the device."""
        keys, values = (self._in_order(part, blocks, num_tokens) for part in self.data[:, layer])
        return keys, values

    @staticmethod
    def _in_order(part: torch.Tensor, blocks: torch.Tensor, num_tokens: int) -> torch.Tensor:
        """[num_blocks, heads, block_size, …] → [heads, num_tokens, …]"""
        return part.index_select(0, blocks).transpose(0, 1).flatten(1, 2)[:, :num_tokens]

    # ── whole blocks ─────────────────────────────────────────────────────────────────────────────────────────────────

    def copy_blocks(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Copy blocks in all layers: (source, target) pairs as `KVCacheManager.take_block_copies` gives them, one after the
        other. Raises NotABlock before anything is copied."""
        pairs = [(source, target) for source, target in pairs]
        sources = as_block_ids([source for source, _ in pairs], self.num_blocks)
        targets = as_block_ids([target for _, target in pairs], self.num_blocks)
        for start, end in _independent_runs(sources, targets):
            source, target = (torch.tensor(ids[start:end], device=self.device) for ids in (sources, targets))
            for tensor in self.tensors():
                tensor.index_copy_(2, target, tensor.index_select(2, source))

    def zero_blocks(self, blocks: Iterable[int]) -> None:
        """Wipe blocks in all layers. Raises NotABlock before anything is wiped."""
        blocks = torch.tensor(as_block_ids(blocks, self.num_blocks), dtype=torch.int64, device=self.device)
        for tensor in self.tensors():
            tensor.index_fill_(2, blocks, 0)

    def prepare(self, blocks: Iterable[int]) -> None:
        """To be called for blocks that were just handed out: wipes them if `zero_on_reuse` says so."""
        if self.zero_on_reuse:
            self.zero_blocks(blocks)

    def tensors(self) -> list[torch.Tensor]:
        """All that a block consists of; blocks are their third dimension."""
        return [self.data]

    # ── checks ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _layer(self, layer: int) -> int:
        if not 0 <= layer < self.num_layers:
            raise IndexError(f"there is no layer {layer}: they go from 0 to {self.num_layers - 1}")
        return layer

    def _check_device(self, tensor: torch.Tensor, what: str) -> None:
        if tensor.device != self.device:
            raise ValueError(f"{what} are on {tensor.device}, the pool on {self.device}: move them with .to({str(self.device)!r})")

    def _check_written(self, what: str, given: torch.Tensor, num_tokens: int) -> None:
        expected = (num_tokens, self.num_kv_heads, self.head_dim)
        if given.shape != expected:
            raise ValueError(f"{what} are [tokens, KV heads, head_dim] = {list(expected)}, got {list(given.shape)}")
        if given.dtype != self.dtype:
            raise ValueError(f"{what} are {given.dtype}, the pool takes {self.dtype}: convert them with .to({self.dtype})")
        self._check_device(given, what)

    def _blocks(self, block_table: torch.Tensor | Iterable[int]) -> torch.Tensor:
        """A table as an index, after a look at its ids."""
        return torch.tensor(as_block_ids(block_table, self.num_blocks), dtype=torch.int64, device=self.device)


def sizes_of(model) -> tuple[int, int, int]:
    """Layers, KV heads and head_dim of a model of transformers, or of its configuration."""
    config = getattr(model, "config", model)
    heads = config.num_attention_heads
    return (config.num_hidden_layers, getattr(config, "num_key_value_heads", None) or heads,
            getattr(config, "head_dim", None) or config.hidden_size // heads)


def dtype_of(model, dtype: torch.dtype | None = None) -> torch.dtype:
    """`dtype`, if one is given, else the model's."""
    return dtype or getattr(model, "dtype", None) or torch.float16


def _independent_runs(sources: list[int], targets: list[int]) -> list[tuple[int, int]]:
    """Where to cut a list of copies so that those of one run can be done at once: reading all of their sources first is the
    same as copying one after the other unless a block was written earlier in the run."""
    runs, start, written = [], 0, set()
    for place, (source, target) in enumerate(zip(sources, targets)):
        if source in written or target in written or place - start == _MOST_COPIES_AT_ONCE:
            runs.append((start, place))
            start, written = place, set()
        written.add(target)
    if start < len(sources):
        runs.append((start, len(sources)))
    return runs
