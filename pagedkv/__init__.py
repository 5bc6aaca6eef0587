"""pagedkv: a lab for the memory side of LLM serving, in Java and Python side by side."""

from pagedkv.core.errors import DoubleFree, NotABlock, OutOfBlocks, PoolError, UseAfterFree
from pagedkv.core.events import Event, Recording, record, side_by_side
from pagedkv.core.leaks import leak_report
from pagedkv.core.manager import KVCacheManager
from pagedkv.core.pool import BlockPool
from pagedkv.core.replay import Replay
from pagedkv.core.snapshot import Snapshot, diff_snapshots, take_snapshot

__all__ = ["BlockPool", "DoubleFree", "Event", "KVCacheManager", "NotABlock", "OutOfBlocks", "PoolError", "Recording", "Replay",
           "Snapshot", "UseAfterFree", "diff_snapshots", "leak_report", "record", "side_by_side", "take_snapshot"]
