"""Two small recordings that come with this package, for whoever has no GPU at hand.

    growing cache      16 tensors, the keys and values of 8 layers, from 8 MiB on; in each step all of them are replaced
                       by ones that are 128 KiB longer, as torch.cat does it, until each has 16 MiB
    preallocated pool  the same 16 tensors at 16 MiB from the start; the steps write into them and allocate nothing

In each step both also allocate and free the small and middle-sized tensors that a model's layers need for a moment.
They are made by the simulated allocator, and say so (`origin`); `pagedkv.storage.cuda_recording` makes the same on a
GPU.

    python -m pagedkv.snapshot.demo         write them again (same bytes)
"""

import sys
from collections.abc import Callable
from pathlib import Path

from pagedkv.core.memory import MemoryEvent, record_memory
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.snapshot.write import plain_of_recording, write_plain

MIB = 1 << 20
NUM_TENSORS, FIRST_BYTES, STEP_BYTES, NUM_STEPS = 16, 8 * MIB, 128 << 10, 64
LAST_BYTES = FIRST_BYTES + NUM_STEPS * STEP_BYTES
PASSING_BYTES = (3 * MIB, 512 << 10)  # hidden states and the like, for one layer and one step
CAPACITY_BYTES = 4096 * MIB
ORIGIN = "simulated by pagedkv"

GROWING, PREALLOCATED = "growing cache", "preallocated pool"
FOLDER = Path(__file__).with_name("data")
FILES = {GROWING: FOLDER / "growing_cache.json.gz", PREALLOCATED: FOLDER / "preallocated_pool.json.gz"}

# what the stack of a real recording would say
_FRAMES = {"cache": ("cache.py", 21, "append"), "pool": ("cache.py", 8, "__init__"),
           "passing": ("model.py", 40, "forward")}


def run_workload(workload: str, empty: Callable[[str, int], object], release: Callable[[object], None]) -> list[object]:
    """Put one of the two workloads to anything that allocates: `empty(what, size_bytes)` gives a tensor (or a handle),
    and `release` takes it back. What is live at the end is returned, so that it stays live."""
    if workload not in FILES:
        raise ValueError(f"a workload is one of {', '.join(map(repr, FILES))}, got {workload!r}")
    grows = workload == GROWING
    cache = [empty("cache" if grows else "pool", FIRST_BYTES if grows else LAST_BYTES) for _ in range(NUM_TENSORS)]
    for step in range(1, NUM_STEPS + 1):
        for number in range(NUM_TENSORS):
            passing = [empty("passing", size) for size in PASSING_BYTES if number % 2 == 0]
            if grows:
                old, cache[number] = cache[number], empty("cache", FIRST_BYTES + step * STEP_BYTES)
                release(old)
                del old  # for a tensor, this is the release
            while passing:
                release(passing.pop())
    return cache


def simulated(workload: str) -> dict:
    """The recording, in torch's structure."""
    allocator = CachingAllocator(CAPACITY_BYTES)
    allocator.explain = False
    with record_memory(allocator) as recording:
        run_workload(workload, allocator.allocate, allocator.free)
    return plain_of_recording(recording, _settings(), ORIGIN, _frames_of)


def _frames_of(event: MemoryEvent) -> list[dict]:
    filename, line, name = _FRAMES[event.owner]
    return [{"filename": filename, "line": line, "name": name}]


def _settings() -> dict:
    return {"PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
            "expandable_segments": False, "roundup_power2_divisions": {str(1 << power): 0 for power in range(16)}}


def main() -> int:
    FOLDER.mkdir(exist_ok=True)
    for workload, path in FILES.items():
        write_plain(simulated(workload), path)
        print(f"{path}: {path.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
