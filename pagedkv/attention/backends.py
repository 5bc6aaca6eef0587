"""Which paged attention runs: all of them take the same arguments and give the same numbers, within rounding.

    gather      copies into one piece, then PyTorch's attention: the reference
    blockwise   block by block with an online softmax, in plain PyTorch: to be read, not to be fast
    compiled    C++ on the CPU, compiled when it is first used
    triton      a kernel for GPUs
"""

import logging
from collections.abc import Callable
from importlib import import_module

import torch

from pagedkv.storage.kv_storage import KVStorage

_log = logging.getLogger("pagedkv")
_MODULES = {"gather": "gather", "blockwise": "blockwise", "compiled": "compiled", "triton": "triton_kernels"}
BACKENDS = tuple(_MODULES)

Attend = Callable[..., torch.Tensor]


def backend(name: str) -> Attend:
    """The function `attend(query, storage, layer, batch, scale)` of a backend. Raises ValueError for a name that is none."""
    if name not in _MODULES:
        raise ValueError(f"a backend is one of {', '.join(_MODULES)}, or auto, got {name!r}")
    return import_module(f"pagedkv.attention.{_MODULES[name]}").attend


def choose_backend(name: str, storage: KVStorage) -> str:
    """The name of the backend to use. "auto" takes the fastest one that runs here, and logs a warning if that is not the
    one meant for the device. A backend that was asked for by name and cannot run raises: ValueError on the wrong device,
    else what is missing."""
    if name != "auto":
        backend(name)
        _check(name, storage)
        return name
    best = "triton" if storage.device.type == "cuda" else "compiled"
    try:
        _check(best, storage)
    except Exception as error:  # no compiler, no Triton: slower, and right all the same
        _log.warning("paged attention goes on without %r, by gathering, which is slower: %s", best, error)
        return "gather"
    return best


def _check(name: str, storage: KVStorage) -> None:
    on_gpu = storage.device.type == "cuda"
    if name == "compiled":
        if on_gpu:
            raise ValueError(f"the compiled backend is for the CPU, the pool is on {storage.device}")
        from pagedkv.attention import compiled
        compiled.prepare()
    if name == "triton":
        from pagedkv.attention import triton_kernels
        triton_kernels.prepare(storage)
