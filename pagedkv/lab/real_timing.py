"""What notebook 06 measures besides `pagedkv.attention.measure`, with its clock: attention by backend, and bandwidths.

Where several ways are compared, they take turns, and each one's median counts: what disturbs the machine disturbs all.
"""

import statistics
from collections.abc import Callable, Sequence

import torch
from torch.nn.functional import scaled_dot_product_attention

from pagedkv.attention.backends import BACKENDS, backend, choose_backend
from pagedkv.attention.batch import PagedBatch
from pagedkv.attention.measure import clock
from pagedkv.core.block_table import num_blocks_for
from pagedkv.storage.kv_storage import KVStorage

_BLOCK_SIZE = 16


def seconds_of(work: Callable[[], object], device: torch.device) -> float:
    """One call; on a GPU, until its work is done."""
    now = clock(device)
    begin = now()
    work()
    return now() - begin


def medians(works: dict[str, Callable[[], object]], device: torch.device, rounds: int = 5) -> dict[str, float]:
    """Seconds of each. One round before does not count."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for number in range(rounds + 1):
        for name, work in works.items():
            seconds = seconds_of(work, device)
            if number:
                times[name].append(seconds)
    return {name: statistics.median(seconds) for name, seconds in times.items()}


def exponential(lengths: Sequence[int], seconds: Sequence[float]) -> Callable[[float], float]:
    """The exponential through the first and the last point: seconds at a length."""
    growth = (seconds[-1] / seconds[0]) ** (1 / (lengths[-1] - lengths[0]))
    return lambda length: seconds[0] * growth ** (length - lengths[0])


def copy_bandwidth(device: torch.device, num_bytes: int = 1 << 27) -> float:
    """Bytes per second, read and written, of a copy within the device's memory."""
    source = torch.zeros(num_bytes, dtype=torch.uint8, device=device)
    target = torch.zeros_like(source)
    return 2 * num_bytes / medians({"copy": lambda: target.copy_(source)}, device)["copy"]


def backends_here(storage: KVStorage) -> list[str]:
    """Those that can run on the storage's device."""
    found = []
    for name in BACKENDS:
        try:
            found.append(choose_backend(name, storage))
        except Exception:  # no compiler, no Triton, no GPU
            continue
    return found


def attention_seconds(model, batch_size: int, num_tokens: int, num_layers: int = 6, rounds: int = 3
                      ) -> tuple[dict[str, float], int]:
    """One decode step's attention in one layer: (seconds by backend, the bytes of keys and values that it has to read).

    Blocks lie in random order. "in one piece" is PyTorch's attention on keys and values that were never cut into blocks."""
    blocks_each = num_blocks_for(num_tokens, _BLOCK_SIZE)
    whole = KVStorage.for_model(model, num_blocks=1)
    storage = KVStorage(num_layers, whole.num_kv_heads, whole.head_dim, batch_size * blocks_each, _BLOCK_SIZE, whole.dtype,
                        whole.device)
    storage.data.normal_()
    order = torch.randperm(storage.num_blocks, generator=torch.Generator().manual_seed(0)).tolist()
    tables = [order[start:start + blocks_each] for start in range(0, len(order), blocks_each)]
    batch = PagedBatch.build(tables, [num_tokens] * batch_size, [1] * batch_size, storage)
    query = torch.randn(batch_size, model.config.num_attention_heads, storage.head_dim, dtype=storage.dtype,
                        device=storage.device)
    scale = storage.head_dim ** -0.5
    # the query heads of a group as rows of one product: the fastest way that it has
    rows = query.view(batch_size, storage.num_kv_heads, -1, storage.head_dim)
    pieces = [[torch.stack(parts) for parts in zip(*(storage.gather(layer, table, num_tokens) for table in tables))]
              for layer in range(num_layers)]

    def in_one_piece():
        for keys, values in pieces:
            scaled_dot_product_attention(rows, keys, values, scale=scale)

    def in_blocks(attend):
        for layer in range(num_layers):
            attend(query, storage, layer, batch, scale)

    works: dict[str, Callable[[], object]] = {"in one piece": in_one_piece}
    for name in backends_here(storage):
        works[name] = lambda attend=backend(name): in_blocks(attend)
    times = medians(works, storage.device, rounds)
    num_bytes = batch_size * num_tokens * storage.token_bytes // num_layers
    return {name: seconds / num_layers for name, seconds in times.items()}, num_bytes
