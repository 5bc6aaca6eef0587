"""Snapshots to test with: the two real ones, where they are at hand, and small ones made by hand."""

import csv
import json
import sys
from functools import cache
from pathlib import Path

import pytest

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
REAL = ("inference", "training")
MIB = 1 << 20
BASE = 0x7F0000000000  # where CUDA's addresses usually lie

needs_real_files = pytest.mark.skipif(not (DATA / "torch_snapshot_medium_1024_training_trace.csv").is_file(),
                                      reason="the real snapshots are not here (../shared/data)")


@cache
def real(name: str) -> dict:
    """A real snapshot in torch's own structure, put together from its two files. Nobody may change it."""
    plain = json.loads((DATA / f"torch_snapshot_medium_1024_{name}_segments.json").read_text())
    with open(DATA / f"torch_snapshot_medium_1024_{name}_trace.csv", newline="") as file:
        plain["device_traces"] = [[{"action": sys.intern(row["action"]), "addr": int(row["addr"]),
                                    "size": int(row["size"]),
                                    "stream": int(row["stream"]), "time_us": int(row["time_us"])}
                                   for row in csv.DictReader(file)]]
    return plain


def block(size, state="active_allocated", requested=None, **more):
    return {"size": size, "requested_size": size if requested is None else requested, "state": state, **more}


def free(size):
    return block(size, "inactive", 0)


def segment(address, *blocks, **more):
    """Of these blocks, one behind the other."""
    placed, at = [], address
    for each in blocks:
        placed.append({"address": at, **each})
        at += each["size"]
    size = at - address
    return {"device": 0, "address": address, "total_size": size, "stream": 0,
            "segment_type": "small" if size <= 2 * MIB else "large", "segment_pool_id": (0, 0), "is_expandable": False,
            "blocks": placed, **more}


def entry(action, addr, size, **more):
    return {"action": action, "addr": addr, "size": size, "stream": 0, **more}


def freed(addr, size, **more):
    """The two entries of a free."""
    return [entry("free_requested", addr, size, **more), entry("free_completed", addr, size, **more)]


def snapshot(segments=(), *traces, **more):
    return {"segments": list(segments), "device_traces": [list(trace) for trace in traces], **more}


def frames(*lines):
    """Innermost first, as `("cache.py", 12, "append")`."""
    return [{"filename": filename, "line": line, "name": name} for filename, line, name in lines]
