"""Paged attention of decode steps by a C++ kernel: the fast backend on the CPU.

The kernel (decode.cpp beside this file) reads keys and values where they lie in the pool, through the block table, and
copies nothing. It is compiled with the system's C++ compiler when it is first needed, which takes a few seconds, and
kept in the user's cache folder. It knows nothing of PyTorch or Python: it gets addresses, sizes and strides. So it
needs no headers but the compiler's own, and everything has to be checked on this side.

A prefill, where a sequence has several new tokens, goes to `gather`: there the copy does not matter.

Threads are those of the OpenMP library that PyTorch itself has loaded, found by looking up `GOMP_parallel` there.
Linking an OpenMP library at compile time could bring in a second one, whose threads would compete with PyTorch's.
"""

import ctypes
import threading
from pathlib import Path

import torch

from pagedkv.attention import gather
from pagedkv.attention.batch import PagedBatch
from pagedkv.core import native
from pagedkv.core.native import NoCompiler, cache_folder  # NoCompiler: for whoever calls prepare()
from pagedkv.storage.kv_storage import KVStorage

SOURCE = Path(__file__).with_name("decode.cpp")
# Nothing like -ffast-math: with GCC before version 13, loading such a library switches the whole process to flushing
# subnormal numbers to zero. Contraction, of a product and a sum to one instruction, is all that the kernel needs.
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=fast", "-shared", "-fPIC")
# The first that the compiler takes: Clang on ARM knows only the second.
TUNINGS = (("-march=native",), ("-mcpu=native",), ())
_ROW_TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, torch.int8: 3}


class _Call(ctypes.Structure):
    """`struct Call` of decode.cpp, where the fields are explained."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in ("query", "output", "keys", "values", "key_scales", "value_scales",
                                               "block_tables", "context_lens", "parallel")),
        *((name, ctypes.c_int64) for name in ("block_stride", "head_stride", "token_stride", "scale_block_stride",
                                              "scale_head_stride", "scale_token_stride", "num_sequences", "table_width",
                                              "num_kv_heads", "group", "head_dim", "block_size")),
        ("row_type", ctypes.c_int32), ("num_threads", ctypes.c_int32), ("scale", ctypes.c_float)]


def attend(query: torch.Tensor, storage: KVStorage, layer: int, batch: PagedBatch, scale: float) -> torch.Tensor:
    """Causal attention of every query token to its own sequence; see `gather.attend`.

    Sums are kept in float32. The result does not depend on the number of threads, which is `torch.get_num_threads()`.
    Gradients are not tracked. Raises ValueError for a tensor of another shape, dtype or device than the pool's,
    NoCompiler if the kernel cannot be built."""
    if not batch.is_decode:
        return gather.attend(query, storage, layer, batch, scale)
    decode = _decode or prepare()
    _check(query, storage, layer, batch)
    given = query.float().contiguous()
    output = torch.empty_like(given)
    data, tables = storage.data, batch.block_tables
    num_sequences, num_heads, head_dim = query.shape
    values_apart, layers_apart, *strides, _ = data.stride()
    size_bytes = data.element_size()
    keys = data.data_ptr() + layer * layers_apart * size_bytes
    key_scales = value_scales = None
    scale_strides = 0, 0, 0
    if storage.scales is not None:
        scale_values_apart, scale_layers_apart, *scale_strides = storage.scales.stride()
        key_scales = storage.scales.data_ptr() + layer * scale_layers_apart * 2
        value_scales = key_scales + scale_values_apart * 2
    call = _Call(given.data_ptr(), output.data_ptr(), keys, keys + values_apart * size_bytes, key_scales, value_scales,
                 tables.data_ptr(), batch.context_lens.data_ptr(), _parallel, *strides, *scale_strides,
                 num_sequences, tables.shape[1], storage.num_kv_heads, num_heads // storage.num_kv_heads, head_dim,
                 storage.block_size, _ROW_TYPES[data.dtype], torch.get_num_threads(), scale)
    if decode(call) != 0:
        raise MemoryError("the compiled attention found no memory to work in")
    return output.to(query.dtype)


def _check(query: torch.Tensor, storage: KVStorage, layer: int, batch: PagedBatch) -> None:
    """What the kernel relies on; but `PagedBatch.build` has looked at the table's entries and the lengths."""
    if storage.device.type != "cpu" or query.device.type != "cpu":
        raise ValueError(f"the compiled attention is for the CPU; the query is on {query.device}, the pool on "
                         f"{storage.device}")
    if query.dtype != storage.dtype:
        raise ValueError(f"the query is {query.dtype}, the pool has {storage.dtype}: convert it with "
                         f".to({storage.dtype})")
    heads, shape = storage.num_kv_heads, query.shape
    if (len(shape) != 3 or shape[0] != batch.num_sequences or shape[1] == 0 or shape[1] % heads
            or shape[2] != storage.head_dim):
        raise ValueError("the query of a decode step is [sequences, heads, head_dim] = "
                         f"[{batch.num_sequences}, a multiple of {heads}, {storage.head_dim}], got {list(shape)}")
    if not 0 <= layer < storage.num_layers:
        raise IndexError(f"there is no layer {layer}: they go from 0 to {storage.num_layers - 1}")
    tables, lens = batch.block_tables, batch.context_lens
    if (tables.dtype != torch.int32 or lens.dtype != torch.int32 or not tables.is_contiguous()
            or not lens.is_contiguous() or tables.device.type != "cpu" or lens.device.type != "cpu"):
        raise ValueError("block tables and context lengths are contiguous int32 tensors on the CPU, as "
                         "PagedBatch.build makes them")


# ── getting the kernel ───────────────────────────────────────────────────────────────────────────────────────────────

_lock = threading.Lock()
_decode = None
_parallel = None  # address of GOMP_parallel; None: one thread


def is_ready() -> bool:
    """Whether the kernel is loaded, so that nothing has to be compiled any more."""
    return _decode is not None


def prepare():
    """Load the kernel, and compile it before if this machine has not yet done so. Returns it; later calls do nothing.

    Raises NoCompiler. The library is kept in `cache_folder()`. Where that cannot be written, it is compiled for this
    process only."""
    global _decode, _parallel
    with _lock:
        if _decode is None:
            piece = native.Piece("the compiled attention", SOURCE, native.CPP, FLAGS, TUNINGS)
            library = native.load(piece, cache_folder())
            decode = library.pagedkv_decode
            decode.argtypes, decode.restype = [ctypes.POINTER(_Call)], ctypes.c_int
            _parallel = _find_parallel()
            _decode = decode
    return _decode


def _find_parallel() -> int | None:
    """`GOMP_parallel` of the OpenMP library that PyTorch is linked with: GCC's has it, and LLVM's and Intel's too. The
    linker looks a name up in a library and in all that it depends on."""
    try:
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None
