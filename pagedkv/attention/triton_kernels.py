"""Paged decode attention on the GPU, in Triton: chooses tiles and splits, and launches `triton_decode`'s kernels.

    attend      the backend: decode goes to the kernels, anything with more than one new token to `gather`
    prepare     whether the kernels can run
    Tiling      how much one program holds at a time, chosen from the shapes
    split       a run of tokens of one sequence that one program reads; see `triton_decode`

Prefill goes to `gather`: there one key serves hundreds of query rows, so arithmetic is the cost and the copy that
gathering makes is small beside it, and torch's own kernels for that case are hard to beat. In decode one key serves
one row (of each head of its group), reading it is the cost, and a copy would triple what is moved.

Grid and splits follow the lengths, which the host knows. A CUDA graph freezes them: whoever records one records it for
the longest sequences it may meet; splits beyond a sequence's end do nothing.

Triton is imported on the first use. It has no build for macOS and for Windows; `TRITON_INTERPRET=1`, set before Triton
is imported, runs the same kernels with numpy on the CPU: right values, no speed.
"""

import functools
import math
import os
from typing import NamedTuple

import torch

from pagedkv.attention import gather
from pagedkv.attention.batch import PagedBatch
from pagedkv.storage.kv_storage import KVStorage

# Enough programs to hide one another's waits. A streaming multiprocessor (SM) has room for several programs of these
# kernels at once; four per SM also keep the last, partly filled round short against the whole.
PROGRAMS_PER_SM = 4
# Each split writes and reads back head_dim fp32 numbers per head. From this length on that is a few per cent of the
# keys and values that it reads.
SHORTEST_SPLIT_TOKENS = 128
# The scratch has room for the splits of the longest sequence in every row; among many short ones that would be a waste.
MOST_SCRATCH_BYTES = 64 << 20
# Keys and values of a tile. With a second tile on its way this stays within 99 KiB of shared memory, which is all that
# small cards (sm_86, sm_89) have.
MOST_TILE_BYTES = 32 << 10
SPLITS_AT_ONCE = 16
# tl.dot on tensor cores needs at least 16 rows
LEAST_DOT_ROWS = 16


class Tiling(NamedTuple):
    """Fixed when a kernel is compiled. `group_padded` is 1 where a KV head has a single query head: then there is no
    second row to share a tile with, and products are summed without tl.dot."""

    group_padded: int
    head_dim_padded: int
    tile_tokens: int
    num_warps: int
    num_stages: int


def choose_tiling(group: int, head_dim: int, itemsize: int, compute_itemsize: int) -> Tiling:
    """`group` query heads per KV head; `itemsize` bytes per number as stored, `compute_itemsize` as computed with."""
    group_padded = 1 if group == 1 else max(LEAST_DOT_ROWS, _power_of_two_from(group))
    head_dim_padded = max(16, _power_of_two_from(head_dim))
    int8 = itemsize < compute_itemsize
    # here numbers pass through registers before they are multiplied: 64 tokens of INT8 spilled some on sm_80
    tile_tokens = 32 if compute_itemsize == 4 or int8 and group_padded > 1 else 64
    while tile_tokens > 16 and 2 * tile_tokens * head_dim_padded * itemsize > MOST_TILE_BYTES:
        tile_tokens //= 2
    num_warps = 8 if group_padded * head_dim_padded >= 64 * 128 else 4
    # a tile's address waits for the block table, which takes a stage too: 3 load one tile ahead, 5 two
    return Tiling(group_padded, head_dim_padded, tile_tokens, num_warps, num_stages=5 if int8 else 3)


def choose_split_tokens(context_lens: list[int], num_kv_heads: int, num_sms: int, tile_tokens: int,
                        partial_bytes: int) -> int:
    """Tokens per split: so many that all splits together are about PROGRAMS_PER_SM for each SM, a multiple of the tile,
    and at least SHORTEST_SPLIT_TOKENS. A batch that fills the GPU anyway gets a split as long as its longest sequence,
    except where that one is far longer than the others: then it is cut, or the GPU would wait for it alone.

    partial_bytes   scratch that one more split costs; the scratch stays within MOST_SCRATCH_BYTES"""
    wanted = math.ceil(sum(context_lens) * num_kv_heads / (PROGRAMS_PER_SM * num_sms))
    least = math.ceil(max(context_lens) / max(1, MOST_SCRATCH_BYTES // partial_bytes))
    return math.ceil(max(wanted, least, SHORTEST_SPLIT_TOKENS) / tile_tokens) * tile_tokens


def prepare(storage: KVStorage) -> None:
    """Check that the kernels can run on this storage. Raises ImportError without Triton, ValueError on the CPU."""
    try:
        import triton  # noqa: F401
    except ImportError as error:
        raise ImportError(f"the Triton backend needs the package triton, which comes with PyTorch's CUDA builds for "
                          f"Linux; importing it failed: {error}") from error
    if storage.device.type != "cuda" and not _interpreted():
        raise ValueError(f"the Triton backend needs a GPU, and the pool is on {storage.device}; TRITON_INTERPRET=1, "
                         f"set before Triton is imported, runs the kernels on the CPU, slowly")


def attend(query: torch.Tensor, storage: KVStorage, layer: int, batch: PagedBatch, scale: float) -> torch.Tensor:
    """As `pagedkv.attention.gather.attend`. Raises as `prepare` where the kernels cannot run, and ValueError for a
    query that does not fit the storage."""
    if batch.is_decode:
        return decode(query, storage, layer, batch, scale)
    return gather.attend(query, storage, layer, batch, scale)


def decode(query: torch.Tensor, storage: KVStorage, layer: int, batch: PagedBatch, scale: float,
           split_tokens: int | None = None) -> torch.Tensor:
    """`attend` for one new token per sequence. `split_tokens` (a multiple of the tile) overrides the choice."""
    prepare(storage)
    num_sequences, num_heads, head_dim = query.shape
    _check(query, storage, batch, num_sequences, num_heads, head_dim)
    from pagedkv.attention import triton_decode

    num_kv_heads = storage.num_kv_heads
    keys, values = storage.keys(layer), storage.values(layer)
    tiling = choose_tiling(num_heads // num_kv_heads, head_dim, keys.element_size(), query.element_size())
    context_lens = batch.context_lens_list
    if split_tokens is None:
        split_tokens = choose_split_tokens(context_lens, num_kv_heads, _num_sms(query.device), tiling.tile_tokens,
                                           partial_bytes=query.numel() * 4)
    elif split_tokens < 1 or split_tokens % tiling.tile_tokens:
        raise ValueError(f"split_tokens must be a positive multiple of the tile, {tiling.tile_tokens} tokens, "
                         f"got {split_tokens}")
    num_splits = math.ceil(max(context_lens) / split_tokens)

    query = query.contiguous()
    outputs = torch.empty_like(query)
    partials = _partials(query, num_splits)
    quantised = storage.scales is not None
    # a kernel takes a pointer for every argument; where there are no scales it is never followed
    key_scales, value_scales = (storage.scales[0, layer], storage.scales[1, layer]) if quantised else (keys, values)
    with torch.cuda.device_of(query):  # Triton launches on the current GPU; no effect on the CPU
        triton_decode.decode_split[(num_sequences, num_kv_heads, num_splits)](
            query, keys, values, key_scales, value_scales, batch.block_tables, batch.context_lens,
            outputs, *partials,
            scale / math.log(2), keys.stride(0), key_scales.stride(0), batch.block_tables.stride(0),
            split_tokens, num_splits,
            GROUP=num_heads // num_kv_heads, GROUP_PADDED=tiling.group_padded,
            HEAD_DIM=head_dim, HEAD_DIM_PADDED=tiling.head_dim_padded,
            BLOCK_SIZE=storage.block_size, TILE=tiling.tile_tokens, QUANTISED=quantised, WRITE_PARTIALS=num_splits > 1,
            # the interpreter multiplies bfloat16 as if it were integers (triton-lang/triton issue 11584)
            WIDEN=query.dtype == torch.bfloat16 and _interpreted(),
            num_warps=tiling.num_warps, num_stages=tiling.num_stages)
        if num_splits > 1:
            triton_decode.combine_splits[(num_sequences, num_heads)](
                outputs, *partials, batch.context_lens, split_tokens, num_splits,
                HEAD_DIM=head_dim, HEAD_DIM_PADDED=tiling.head_dim_padded, SPLITS_AT_ONCE=SPLITS_AT_ONCE)
    return outputs


def _check(query: torch.Tensor, storage: KVStorage, batch: PagedBatch, num_sequences: int, num_heads: int, head_dim: int
           ) -> None:
    if num_sequences != len(batch.context_lens_list):
        raise ValueError(f"decode has one query row per sequence: got {num_sequences} rows for "
                         f"{len(batch.context_lens_list)} sequences")
    if head_dim != storage.head_dim or num_heads % storage.num_kv_heads:
        raise ValueError(f"the query has {num_heads} heads of {head_dim}, the storage {storage.num_kv_heads} KV heads "
                         f"of {storage.head_dim}: head_dim must be equal, and the heads a multiple of the KV heads")
    if query.dtype != storage.dtype or query.device != storage.device:
        raise ValueError(f"the query is {query.dtype} on {query.device}, the storage {storage.dtype} on "
                         f"{storage.device}; they must agree")


def _partials(query: torch.Tensor, num_splits: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Scratch for the splits: largest scores, sums, outputs. Nothing to clear: what is read was written before."""
    if num_splits == 1:
        return query, query, query  # never followed
    num_sequences, num_heads, head_dim = query.shape
    shape = (num_sequences, num_heads, num_splits)
    empty = functools.partial(torch.empty, dtype=torch.float32, device=query.device)
    return empty(shape), empty(shape), empty((*shape, head_dim))


@functools.cache
def _num_sms(device: torch.device) -> int:
    if device.type != "cuda":
        return 1  # the interpreter runs one program after another
    return torch.cuda.get_device_properties(device).multi_processor_count


def _interpreted() -> bool:
    return os.environ.get("TRITON_INTERPRET") == "1"


def _power_of_two_from(number: int) -> int:
    return 1 << (number - 1).bit_length()
