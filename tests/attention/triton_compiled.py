"""Compiles the Triton kernels to machine code for NVIDIA GPUs; none is needed for that. A process of its own:

    python -m tests.attention.triton_compiled

without TRITON_INTERPRET, which turns the compiler off when Triton is imported. Prints one line of JSON.
"""

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

from pagedkv.attention import triton_decode
from pagedkv.attention.triton_kernels import SPLITS_AT_ONCE, choose_tiling

CAPABILITIES = (80, 90)  # A100, H100
NAMES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.int8: "i8"}


@dataclass(frozen=True)
class Shape:
    group: int
    head_dim: int
    dtype: torch.dtype
    block_size: int = 16
    int8: bool = False
    partials: bool = True


# on all of them: one for each way through the kernel (tensor cores on 16-bit types, INT8 blocks, fp32)
SHAPES = {
    "Llama-3-8B": Shape(4, 128, torch.bfloat16),
    "Llama-3-8B, INT8": Shape(4, 128, torch.bfloat16, int8=True),
    "SmolLM2-135M, fp32": Shape(3, 64, torch.float32),
}
# other shapes, and where there is least room, on the first
MORE_SHAPES = {
    "Llama-3-8B, no splits, blocks of 64": Shape(4, 128, torch.float16, block_size=64, partials=False),
    "Llama-2-7B": Shape(1, 128, torch.float16),
    "Llama-2-7B, INT8": Shape(1, 128, torch.float16, int8=True),
    "fp32, head_dim 256": Shape(2, 256, torch.float32),
    "Gemma, head_dim 256": Shape(8, 256, torch.bfloat16),
    "Phi-3, head_dim 96, INT8": Shape(16, 96, torch.float16, int8=True),
    "head_dim 80": Shape(4, 80, torch.float16),
    "head_dim 512": Shape(8, 512, torch.float16),
    "Falcon-7B": Shape(71, 64, torch.bfloat16),
}


def compile_kernel(kernel: JITFunction, capability: int, constants: dict, types: dict, **options):
    # what the launcher would find out by itself: these pointers and strides are multiples of 16
    aligned = [name for name, kind in types.items()
               if kind.startswith("*") or name in ("block_stride", "scales_stride")]
    attributes = {(kernel.arg_names.index(name),): [["tt.divisibility", 16]] for name in aligned}
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    source = ASTSource(kernel, signature, constexprs=constants, attrs=attributes)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def decode_split(shape: Shape, capability: int):
    stored = torch.int8 if shape.int8 else shape.dtype
    tiling = choose_tiling(shape.group, shape.head_dim, stored.itemsize, shape.dtype.itemsize)
    computed, kept = f"*{NAMES[shape.dtype]}", f"*{NAMES[stored]}"
    scales = "*fp16" if shape.int8 else kept
    types = {"queries": computed, "keys": kept, "values": kept, "scales_of_keys": scales, "scales_of_values": scales,
             "block_tables": "*i32", "context_lens": "*i32", "outputs": computed, "partial_maxima": "*fp32",
             "partial_sums": "*fp32", "partial_outputs": "*fp32", "scale_log2": "fp32", "block_stride": "i32",
             "scales_stride": "i32", "table_stride": "i32", "split_tokens": "i32", "num_splits": "i32"}
    constants = {"GROUP": shape.group, "GROUP_PADDED": tiling.group_padded, "HEAD_DIM": shape.head_dim,
                 "HEAD_DIM_PADDED": tiling.head_dim_padded, "BLOCK_SIZE": shape.block_size, "TILE": tiling.tile_tokens,
                 "QUANTISED": shape.int8, "WRITE_PARTIALS": shape.partials, "WIDEN": False}
    return compile_kernel(triton_decode.decode_split, capability, constants, types,
                          num_warps=tiling.num_warps, num_stages=tiling.num_stages)


def combine_splits(dtype: torch.dtype, head_dim: int, capability: int):
    types = {"outputs": f"*{NAMES[dtype]}", "partial_maxima": "*fp32", "partial_sums": "*fp32",
             "partial_outputs": "*fp32", "context_lens": "*i32", "split_tokens": "i32", "num_splits": "i32"}
    constants = {"HEAD_DIM": head_dim, "HEAD_DIM_PADDED": choose_tiling(1, head_dim, 2, 2).head_dim_padded,
                 "SPLITS_AT_ONCE": SPLITS_AT_ONCE}
    return compile_kernel(triton_decode.combine_splits, capability, constants, types)


def facts(compiled) -> dict:
    cubin = compiled.asm["cubin"]
    return {"kernel": compiled.metadata.name, "is_elf": cubin[:4] == b"\x7fELF", "cubin_bytes": len(cubin),
            "shared_bytes": compiled.metadata.shared, "warps": compiled.metadata.num_warps, **resources(cubin)}


def resources(cubin: bytes) -> dict:
    """Registers per thread, and bytes of each thread's local memory (spilled registers), as cuobjdump tells them;
    nothing where Triton comes without that tool."""
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    if not tool.exists():
        return {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        output = subprocess.run([tool, "-res-usage", file], capture_output=True, text=True, check=True).stdout
    usage = dict(part.split(":") for part in output.split() if part.startswith(("REG:", "STACK:", "LOCAL:")))
    return {"registers": int(usage["REG"]), "spilled_bytes": int(usage["STACK"]) + int(usage["LOCAL"])}


def main() -> None:
    results = {}
    for capability in CAPABILITIES:
        shapes = SHAPES | MORE_SHAPES if capability == CAPABILITIES[0] else SHAPES
        for name, shape in shapes.items():
            results[f"sm_{capability}: {name}"] = facts(decode_split(shape, capability))
        for dtype, head_dim in ((torch.bfloat16, 128), (torch.float32, 80)):
            results[f"sm_{capability}: combine, {NAMES[dtype]}"] = facts(combine_splits(dtype, head_dim, capability))
    kernels = [name for name, value in vars(triton_decode).items() if isinstance(value, JITFunction)]
    print(json.dumps({"kernels": kernels, "results": results}))


if __name__ == "__main__":
    main()
