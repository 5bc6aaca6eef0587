"""`Int8KVStorage`: one byte for each number of a key or value, and a scale for each vector.

A *scale* turns the bytes back: number ≈ byte * scale. There is one for each token and KV head, for its key and for its
value, so that one large number spoils its own vector only. It is *symmetric*: the scale is the largest magnitude in the
vector divided by 127, and zero stays zero.

    head_dim bytes + 2 for the fp16 scale, against 2 * head_dim in fp16: 1.94 times fewer at head_dim 64, not 2

A block holds as many tokens as before, so block tables stay as they are; it takes fewer bytes, and more blocks fit.
"""

import torch

from pagedkv.core.kv_size import SCALE_BYTES
from pagedkv.storage.kv_storage import KVStorage, Rows

_LARGEST = 127
_SMALLEST_SCALE = 2.0**-24  # below, fp16 has only zero


class Int8KVStorage(KVStorage):
    """As `KVStorage`; `dtype` is what goes in and comes out, in between everything is INT8.

    data     int8 Tensor [2, num_layers, num_blocks, num_kv_heads, block_size, head_dim]
    scales   float16 Tensor [2, num_layers, num_blocks, num_kv_heads, block_size]
    """

    def _allocate(self) -> None:
        self.data = self._zeros(torch.int8, self.head_dim)
        self.scales = self._zeros(torch.float16)
        self._layers = self._as_rows(self.data)
        self._layer_scales = self._as_rows(self.scales)

    @property
    def vector_bytes(self) -> int:
        return self.head_dim + SCALE_BYTES

    def _put(self, layer: int, rows: Rows, keys: torch.Tensor, values: torch.Tensor) -> None:
        for part, given in enumerate((keys, values)):
            numbers, scales = quantise(given.detach().reshape(-1, self.head_dim))
            self._layers[layer][part].index_copy_(0, rows.rows, numbers)
            self._layer_scales[layer][part].index_copy_(0, rows.rows, scales)

    def gather_unchecked(self, layer: int, blocks: torch.Tensor, num_tokens: int) -> tuple[torch.Tensor, torch.Tensor]:
        keys, values = (
            dequantise(self._in_order(self.data[part, layer], blocks, num_tokens),
                       self._in_order(self.scales[part, layer], blocks, num_tokens), self.dtype) for part in (0, 1))
        return keys, values

    def tensors(self) -> list[torch.Tensor]:
        return [self.data, self.scales]


def quantise(vectors: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Float vectors [..., head_dim] as int8 of the same shape and float16 scales [...].

    The rounding uses the scale as it is stored, not the exact one: the error is then at most half a step. (A scale that
    fp16 rounds down would let the largest number come out as 128, so that one is cut.) A vector whose largest magnitude
    is beyond 127 * 65,504 has no fp16 scale; the model has then been lost before."""
    vectors = vectors.float()
    scales = (vectors.abs().amax(-1) / _LARGEST).clamp(_SMALLEST_SCALE, torch.finfo(torch.float16).max).half()
    numbers = (vectors / scales.float()[..., None]).round().clamp(-_LARGEST, _LARGEST).to(torch.int8)
    return numbers, scales


def dequantise(numbers: torch.Tensor, scales: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Back: numbers [..., head_dim] * scales [...], in `dtype`."""
    return (numbers.float() * scales.float()[..., None]).to(dtype)
