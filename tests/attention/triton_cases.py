"""The Triton kernels against PyTorch's attention, run by Triton's interpreter on the CPU. A process of its own:

    TRITON_INTERPRET=1 python -m tests.attention.triton_cases

since that variable counts when Triton is imported. Prints one line of JSON: what each case gave.
"""

import json
import traceback
from dataclasses import dataclass, replace

import torch

from pagedkv.attention import gather, triton_kernels
from pagedkv.attention.batch import PagedBatch
from pagedkv.storage.int8_storage import Int8KVStorage
from pagedkv.storage.kv_storage import KVStorage

TYPES = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}
# fp32 differs by the order of the sums; the others also round the weights before they meet the values
TOLERANCES = {"fp32": 2e-6, "fp16": 2e-3, "bf16": 3.2e-2}


@dataclass(frozen=True)
class Case:
    """Two layers, of which the second is looked at; blocks in a shuffled order."""

    group: int = 3
    num_kv_heads: int = 2
    head_dim: int = 64
    block_size: int = 16
    dtype: str = "fp32"
    int8: bool = False
    # one token; within the first block; a full last block; one token in the last block
    context_lens: tuple[int, ...] = (1, 7, 48, 97)
    split_tokens: int | None = None


BASE = Case()
CASES = {
    "ragged lengths": BASE,
    "a batch of one": replace(BASE, context_lens=(300,)),
    **{f"group of {group}": replace(BASE, group=group) for group in (1, 2, 4, 7, 8, 16)},
    "group of 17": replace(BASE, group=17, num_kv_heads=1),
    "group of 71, as Falcon-7B": replace(BASE, group=71, num_kv_heads=1, context_lens=(1, 70)),
    **{f"head_dim {dim}": replace(BASE, head_dim=dim) for dim in (8, 32, 80, 96, 128, 256)},
    **{f"head_dim {dim}, group of 1": replace(BASE, head_dim=dim, group=1) for dim in (80, 128)},
    **{f"blocks of {size}": replace(BASE, block_size=size) for size in (1, 4, 24, 32, 64, 128)},
    "float16": replace(BASE, dtype="fp16", group=4),
    "bfloat16": replace(BASE, dtype="bf16", group=4),
    "float16, group of 1": replace(BASE, dtype="fp16", group=1),
    "bfloat16, head_dim 80, blocks of 24": replace(BASE, dtype="bf16", head_dim=80, block_size=24),
    "INT8 for float32": replace(BASE, int8=True),
    "INT8 for float16": replace(BASE, int8=True, dtype="fp16", head_dim=96),
    "INT8 for bfloat16": replace(BASE, int8=True, dtype="bf16", block_size=64),
    "INT8, group of 1": replace(BASE, int8=True, group=1),
    "INT8, splits": replace(BASE, int8=True, split_tokens=64),
    # lengths of 1 and 65 leave later splits of theirs empty; 192 ends exactly with a split
    **{f"splits of {tokens}": replace(BASE, context_lens=(1, 65, 192, 290), split_tokens=tokens)
       for tokens in (32, 64, 256, 512)},
    "splits, group of 1": replace(BASE, context_lens=(1, 65, 192), group=1, split_tokens=64),
    "splits, float16, head_dim 80": replace(BASE, context_lens=(3, 200), head_dim=80, dtype="fp16", split_tokens=64),
    "more splits than are merged at once": replace(BASE, context_lens=(1000, 31), num_kv_heads=1, split_tokens=32),
}


def problem(case: Case) -> tuple[torch.Tensor, KVStorage, PagedBatch, float]:
    """A query, and a storage in which everything that the sequences do not own is NaN."""
    generator = torch.Generator().manual_seed(20)
    num_blocks = sum(-(-context // case.block_size) for context in case.context_lens) + 3
    kind = Int8KVStorage if case.int8 else KVStorage
    storage = kind(2, case.num_kv_heads, case.head_dim, num_blocks, case.block_size, TYPES[case.dtype], "cpu")
    # int8 has no NaN; there the scales have
    (storage.scales if case.int8 else storage.data).fill_(torch.nan)
    free = torch.randperm(num_blocks, generator=generator).tolist()
    tables = [[free.pop() for _ in range(-(-context // case.block_size))] for context in case.context_lens]
    prefill = PagedBatch.build(tables, case.context_lens, case.context_lens, storage)
    for layer in range(2):
        shape = 2, prefill.num_query_tokens, case.num_kv_heads, case.head_dim
        storage.write(layer, prefill.slots, *torch.randn(shape, generator=generator).to(storage.dtype))
    batch = PagedBatch.build(tables, case.context_lens, [1] * len(tables), storage)
    query = torch.randn(len(tables), case.num_kv_heads * case.group, case.head_dim, generator=generator)
    return query.to(storage.dtype), storage, batch, case.head_dim ** -0.5


def error_of(case: Case) -> float:
    query, storage, batch, scale = problem(case)
    expected = gather.attend(query, storage, 1, batch, scale)
    got = triton_kernels.decode(query, storage, 1, batch, scale, case.split_tokens)
    assert got.shape == query.shape and got.dtype == query.dtype
    return largest_difference(got, expected)


def largest_difference(first: torch.Tensor, second: torch.Tensor) -> float:
    return (first.float() - second.float()).abs().max().nan_to_num(torch.inf).item()


def repeated() -> dict:
    """The same step three times, and with other splits."""
    query, storage, batch, scale = problem(replace(BASE, context_lens=(1, 65, 300)))
    results = [triton_kernels.decode(query, storage, 1, batch, scale, 64) for _ in range(3)]
    others = [triton_kernels.decode(query, storage, 1, batch, scale, tokens) for tokens in (32, 128, 512)]
    return {"equal": all(torch.equal(results[0], result) for result in results),
            "largest_difference": max(largest_difference(results[0], other) for other in others)}


def strided_query() -> float:
    """A query as a model's projection gives it, [heads, tokens, head_dim] seen the other way round."""
    query, storage, batch, scale = problem(BASE)
    strided = query.transpose(0, 1).contiguous().transpose(0, 1)
    assert not strided.is_contiguous()
    return largest_difference(triton_kernels.attend(strided, storage, 1, batch, scale),
                              gather.attend(query, storage, 1, batch, scale))


def prefill() -> float:
    """More than one new token: `attend` hands over to gather."""
    _, storage, batch, scale = problem(BASE)
    tables = [[int(block) for block in table] for table in batch.block_tables]
    batch = PagedBatch.build(tables, BASE.context_lens, [1, 7, 5, 1], storage)
    query = torch.randn(14, BASE.num_kv_heads * BASE.group, BASE.head_dim)
    return largest_difference(triton_kernels.attend(query, storage, 1, batch, scale),
                              gather.attend(query, storage, 1, batch, scale))


def far_block() -> float | None:
    """A block whose offset does not fit in 32 bits: in a pool of 4 GiB, of which only a few pages are ever touched."""
    case = replace(BASE, num_kv_heads=1, head_dim=128, int8=True, context_lens=(5,))
    query, near, batch, scale = problem(case)
    num_blocks = (1 << 31) // (case.block_size * case.head_dim) + 8
    far = Int8KVStorage(1, 1, case.head_dim, 1, case.block_size, torch.float32, "cpu")
    try:
        far.data = torch.empty((2, 1, num_blocks, 1, case.block_size, case.head_dim), dtype=torch.int8)
        far.scales = torch.empty((2, 1, num_blocks, 1, case.block_size), dtype=torch.float16)
    except (RuntimeError, MemoryError):
        return None  # not on this machine
    far.num_blocks = num_blocks
    source = int(batch.block_tables[0, 0])
    far.data[:, 0, num_blocks - 2] = near.data[:, 1, source]
    far.scales[:, 0, num_blocks - 2] = near.scales[:, 1, source]
    moved = PagedBatch.build([[num_blocks - 2]], case.context_lens, [1], far)
    return largest_difference(triton_kernels.decode(query, far, 0, moved, scale),
                              triton_kernels.decode(query, near, 1, batch, scale))


def outcome(run) -> object:
    try:
        return run()
    except Exception:
        return traceback.format_exc()


def main() -> None:
    torch.set_num_threads(1)
    results = {name: outcome(lambda case=case: error_of(case)) for name, case in CASES.items()}
    others = {run.__name__: outcome(run) for run in (repeated, strided_query, prefill, far_block)}
    print(json.dumps({"cases": results, "others": others}))


if __name__ == "__main__":
    main()
