"""A memory snapshot recorded on this machine's GPU; where there is none, the one that comes with this package.

    recorded = record_live("growing.pickle")
    recorded.path, recorded.badge          # ("growing.pickle", "recorded on NVIDIA …") or (…, "simulated by pagedkv")

The workloads are those of `pagedkv.snapshot.demo`: a cache that grows by torch.cat, and one that is allocated once.
"""

import os
from pathlib import Path
from typing import NamedTuple

from pagedkv.snapshot.demo import FILES, GROWING, ORIGIN, run_workload

# a trace of 100,000 entries is ten times what the workloads make
_MOST_ENTRIES = 100_000


class Recorded(NamedTuple):
    """A snapshot, and where it comes from, for people."""

    path: Path
    badge: str


def record_live(path: str | os.PathLike, workload: str = GROWING) -> Recorded:
    """Run a workload on the GPU with PyTorch's own recording, and write the snapshot to `path`. Without CUDA nothing is
    written, and the committed recording is returned.

    The allocator's cache is emptied before. What else the process has on the GPU is in the snapshot too. Raises
    ValueError for an unknown workload, RuntimeError if memory history is being recorded already: this would end that
    recording.
    """
    if workload not in FILES:
        raise ValueError(f"a workload is one of {', '.join(map(repr, FILES))}, got {workload!r}")
    try:
        import torch
    except ImportError:
        return Recorded(FILES[workload], ORIGIN)
    if not torch.cuda.is_available():
        return Recorded(FILES[workload], ORIGIN)
    return _record(torch, Path(path), workload)


def _record(torch, path: Path, workload: str) -> Recorded:
    if torch._C._cuda_isHistoryEnabled():
        raise RuntimeError("memory history is being recorded already; end it first with "
                           "torch.cuda.memory._record_memory_history(enabled=None)")

    def empty(what: str, size_bytes: int):
        return torch.empty(size_bytes, dtype=torch.uint8, device="cuda")

    torch.cuda.synchronize()
    torch.cuda.empty_cache()
    torch.cuda.memory._record_memory_history(max_entries=_MOST_ENTRIES, stacks="python")
    try:
        # a tensor is released when nobody has it any more, so `release` has nothing to do
        kept = run_workload(workload, empty, lambda tensor: None)
        torch.cuda.synchronize()
        torch.cuda.memory._dump_snapshot(str(path))
        del kept
    finally:
        torch.cuda.memory._record_memory_history(enabled=None)
    return Recorded(path, f"recorded on {torch.cuda.get_device_name()}")
