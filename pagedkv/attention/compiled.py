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
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import torch

from pagedkv.attention import gather
from pagedkv.attention.batch import PagedBatch
from pagedkv.storage.kv_storage import KVStorage

SOURCE = Path(__file__).with_name("decode.cpp")
# Nothing like -ffast-math: with GCC before version 13, loading such a library switches the whole process to flushing
# subnormal numbers to zero. Contraction, of a product and a sum to one instruction, is all that the kernel needs.
FLAGS = ("-std=c++17", "-O3", "-ffp-contract=fast", "-shared", "-fPIC")
# The first that the compiler takes: Clang on ARM knows only the second.
TUNINGS = (("-march=native",), ("-mcpu=native",), ())
_ROW_TYPES = {torch.float32: 0, torch.float16: 1, torch.bfloat16: 2, torch.int8: 3}
_MOST_LINES = 12  # of what a compiler says, in an error
_COMPILE_SECONDS = 300


class NoCompiler(RuntimeError):
    """There is no C++ compiler, or it could not compile the kernel; the message says what was tried."""


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
            library = _load()
            decode = library.pagedkv_decode
            decode.argtypes, decode.restype = [ctypes.POINTER(_Call)], ctypes.c_int
            _parallel = _find_parallel()
            _decode = decode
    return _decode


def cache_folder() -> Path:
    """Where compiled kernels are kept: one for each compiler, processor and version of the source."""
    if sys.platform == "win32":
        user = os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local"
    elif sys.platform == "darwin":
        user = Path.home() / "Library" / "Caches"
    else:
        named = Path(os.environ.get("XDG_CACHE_HOME", ""))
        # the XDG base directory specification: a relative path is to be ignored
        user = named if named.is_absolute() else Path.home() / ".cache"
    return Path(user) / "pagedkv" / "compiled"


def _find_parallel() -> int | None:
    """`GOMP_parallel` of the OpenMP library that PyTorch is linked with: GCC's has it, and LLVM's and Intel's too. The
    linker looks a name up in a library and in all that it depends on."""
    try:
        return ctypes.cast(ctypes.CDLL(torch._C.__file__).GOMP_parallel, ctypes.c_void_p).value
    except (OSError, AttributeError):
        return None


def _load() -> ctypes.CDLL:
    tried = []
    for compiler in _compilers():
        version = _version(compiler)
        if version is None:
            tried.append(f"{shlex.join(compiler)} is not there, or does not run")
            continue
        try:
            return _load_kept(compiler, version)
        except _Failed as failed:
            tried.append(f"{shlex.join(compiler)} failed:\n{failed}")
    if not tried:
        tried = ["no c++, g++ or clang++ on the PATH"]
    raise NoCompiler("the compiled attention needs a C++ compiler, GCC or Clang (on Debian: apt install g++; with "
                     "conda: conda install cxx-compiler); the environment variable CXX can name it. Tried: "
                     + "; ".join(tried))


def _compilers() -> list[list[str]]:
    """The commands to try. CXX, if it is set, is what the user wants; then no other one is guessed."""
    chosen = shlex.split(os.environ.get("CXX", ""))
    if chosen:
        return [chosen]
    found = {os.path.realpath(path): [path] for path in map(shutil.which, ("c++", "g++", "clang++")) if path}
    return list(found.values())


def _version(compiler: list[str]) -> str | None:
    try:
        run = subprocess.run([*compiler, "--version"], stdin=subprocess.DEVNULL, capture_output=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return run.stdout.decode(errors="replace") if run.returncode == 0 else None


class _Failed(Exception):
    """What the compiler, or the loader, had to say."""


def _load_kept(compiler: list[str], version: str) -> ctypes.CDLL:
    library = cache_folder() / f"decode-{_key(compiler, version)}.so"
    if library.is_file():
        try:
            return ctypes.CDLL(str(library))
        except OSError:
            pass  # damaged, or for another machine after all: it is made again
    try:
        library.parent.mkdir(parents=True, exist_ok=True)
        folder = tempfile.TemporaryDirectory(dir=library.parent, prefix="making-")
    except OSError:
        # A name in the common temporary folder that others could guess, to put a library of theirs there, would not do.
        with tempfile.TemporaryDirectory(prefix="pagedkv-", ignore_cleanup_errors=True) as private:
            return _open(_compile(compiler, Path(private) / library.name))
    with folder as making:
        # Made elsewhere and moved there in one piece, so that no process ever loads half a library. If two of them
        # compile at the same time, the later one puts the same thing there again.
        os.replace(_compile(compiler, Path(making) / library.name), library)
    return _open(library)


def _key(compiler: list[str], version: str) -> str:
    """All that decides what comes out of the compiler. A home directory may be shared by unlike machines."""
    processor = [platform.machine(), platform.processor()]
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").split("\n\n")[0].splitlines()
        processor += [line for line in lines if line.startswith(("model name", "flags", "Features", "CPU part"))]
    except OSError:
        pass
    parts = [SOURCE.read_text(encoding="utf-8"), FLAGS, TUNINGS, compiler, version, platform.platform(), processor]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:16]


def _compile(compiler: list[str], library: Path) -> Path:
    for tuning in TUNINGS:
        command = [*compiler, *FLAGS, *tuning, "-o", str(library), str(SOURCE)]
        try:
            run = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                 timeout=_COMPILE_SECONDS, env={**os.environ, "LC_ALL": "C"})
        except subprocess.TimeoutExpired:
            raise _Failed(f"no end after {_COMPILE_SECONDS} s") from None
        said = run.stdout.decode(errors="replace")
        if run.returncode == 0:
            return library
        if "native" not in said:
            break  # it is not the tuning that it does not like
    lines = said.strip().splitlines()[:_MOST_LINES]
    raise _Failed("\n".join(lines) or f"exit status {run.returncode}, without a message")


def _open(library: Path) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(str(library))
    except OSError as error:
        raise _Failed(f"what it made cannot be loaded: {error}") from None
