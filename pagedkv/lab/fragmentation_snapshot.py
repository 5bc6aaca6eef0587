"""The snapshot of exercise 03.5: a small server's memory, in which little keeps much.

Six batches have run. For each of them the model needed 40 MiB for a moment, and the server kept 3 MiB of statistics,
which PyTorch put into the very segment that had just become free. A warm-up did the same once, on a larger scale. Then
all of the model's passing memory is free, and nearly all of it can go nowhere: a long prompt, which needs 160 MiB at
once, is refused.

    pinned  free memory of a segment that would be wholly free if one owner let go of what it has there
"""

import tempfile
from collections import defaultdict
from functools import cache
from pathlib import Path

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import Layout, MemoryEvent, MemoryRecording, record_memory
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.snapshot.contents import Snapshot, from_plain
from pagedkv.snapshot.history import History, history_of
from pagedkv.snapshot.write import plain_of_recording, plain_of_snapshot, write_plain

MIB = 1 << 20
SERVER_BYTES = 768 * MIB
_BATCHES = 6
WEIGHTS, WARM_UP, FORWARD, STATISTICS, CACHE = "weights", "warm-up", "forward", "statistics", "cache"
_FRAMES = {WEIGHTS: ("weights.py", 30, "load"), WARM_UP: ("warmup.py", 15, "probe"),
           FORWARD: ("model.py", 40, "forward"), STATISTICS: ("metrics.py", 9, "record"),
           CACHE: ("cache.py", 21, "append")}


@cache
def server_snapshot() -> Snapshot:
    """As torch would have written it; it says that it is simulated."""
    return from_plain(plain_of_recording(_record(), {}, "simulated by pagedkv", _frames_of))


def write_oom_snapshot() -> Path:
    """The snapshot as the file `oom.pickle`, in a folder of its own that the system may delete."""
    return write_plain(plain_of_snapshot(server_snapshot()), Path(tempfile.mkdtemp(prefix="pagedkv-"), "oom.pickle"))


@cache
def server_history() -> History:
    return history_of(server_snapshot())


def pinned_by_owner(layout: Layout) -> dict[str, int]:
    """owner → bytes of free memory that only this owner keeps from going back to the device."""
    pinned: dict[str, int] = defaultdict(int)
    for segment in layout.segments:
        end = segment.address + segment.size_bytes
        pieces = [piece for piece in layout.pieces if segment.address <= piece.address < end]
        owners = {str(piece.owner) for piece in pieces}
        for owner in owners:
            pinned[owner] += segment.size_bytes - sum(piece.size_bytes for piece in pieces) if len(owners) == 1 else 0
    return dict(pinned)


def _record() -> MemoryRecording:
    allocator = CachingAllocator(SERVER_BYTES)
    with record_memory(allocator) as recording:
        for _ in range(8):
            allocator.allocate(WEIGHTS, 32 * MIB)
        probe = allocator.allocate(FORWARD, 120 * MIB)
        allocator.free(probe)
        allocator.allocate(WARM_UP, 8 * MIB)
        rest = allocator.allocate(FORWARD, 112 * MIB)
        for _ in range(5):
            allocator.allocate(CACHE, 16 * MIB)
        batches = [allocator.allocate(FORWARD, 40 * MIB) for _ in range(_BATCHES)]
        for number in range(_BATCHES):
            allocator.free(batches[number])
            allocator.allocate(STATISTICS, 3 * MIB)
            batches[number] = allocator.allocate(FORWARD, 37 * MIB)
        for handle in (rest, *batches):
            allocator.free(handle)
        try:
            allocator.allocate(FORWARD, 160 * MIB)
        except OutOfMemory:
            pass  # this is what the snapshot is about
    return recording


def _frames_of(event: MemoryEvent) -> list[dict]:
    filename, line, name = _FRAMES[event.owner]
    return [{"filename": f"/srv/app/{filename}", "line": line, "name": name}]
