"""The way back: torch's own structure, from records or from the recording of any allocator.

    plain_of_snapshot(snapshot)      what torch would have written
    plain_of_recording(recording)    a simulated allocator's recording, as if it had been a GPU's
    write_plain(plain, path)         as a pickle, or as JSON, with or without gzip, by the name's ending

The same content gives the same bytes: no times, no names of files.
"""

import gzip
import io
import json
import os
import pickle
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from pagedkv.core.memory import GIVE, HOLD, RESERVE, TAKE, UNRESERVE, Change, MemoryEvent, MemoryRecording, Piece
from pagedkv.core.memory_replay import EXPANDABLE, MemoryState
from pagedkv.snapshot.contents import Device, SegmentRecord, Snapshot, Stack

Frames = list[dict[str, Any]]
_NO_FRAMES: Frames = []


def plain_of_snapshot(snapshot: Snapshot) -> dict[str, Any]:
    """Raises nothing: any snapshot that was read can be written."""
    devices = {device.number: device for device in snapshot.devices}
    plain: dict[str, Any] = {
        "segments": [_segment(segment, device.number) for device in snapshot.devices for segment in device.segments],
        "device_traces": [_trace(devices.get(number)) for number in range(max(devices) + 1)],
        "allocator_settings": dict(snapshot.settings),
    }
    if snapshot.origin:
        plain["origin"] = snapshot.origin
    return plain


def plain_of_recording(recording: MemoryRecording, settings: dict[str, Any] | None = None, origin: str = "",
                       frames_of: Callable[[MemoryEvent], Frames] = lambda event: _NO_FRAMES) -> dict[str, Any]:
    """One device, one stream. Event i happens i microseconds after the first. Raises ValueError if the recording has
    faults: no GPU could have recorded those."""
    state = MemoryState(recording.initial)
    trace: list[dict[str, Any]] = []
    frames_at: dict[int, Frames] = {}  # address → who allocated what is there
    for event in recording.events:
        frames = frames_of(event)
        for change in event.changes:
            if change.kind == TAKE:
                frames_at[change.address] = frames
            trace += [_entry(action, change.address, size, event.step, frames)
                      for action, size in _actions(change, state.pieces.get(change.address))]
            state.apply(event._replace(changes=(change,)))
        if event.refused:
            entry = _entry("oom", 0, event.size_bytes, event.step, frames)
            del entry["addr"]
            if recording.capacity_bytes is not None:
                entry["device_free"] = recording.capacity_bytes - state.reserved_bytes
            trace.append(entry)
    if state.faults:
        raise ValueError(f"step {state.faults[0].step} of the recording is impossible: {state.faults[0].message}")
    plain = {"segments": list(_segments_of(state, frames_at)), "device_traces": [trace],
             "allocator_settings": settings or {}}
    return {**plain, "origin": origin} if origin else plain


def write_plain(plain: dict[str, Any], path: str | os.PathLike) -> Path:
    """.pickle, .json or .json.gz. Raises ValueError for another ending."""
    path = Path(path)
    name = path.name.lower()
    if name.endswith((".pickle", ".pkl")):
        data = pickle.dumps(plain, protocol=4)
    elif name.endswith((".json", ".json.gz")):
        data = json.dumps(plain, separators=(",", ":")).encode()
    else:
        raise ValueError(f"{path.name}: a snapshot is written as .pickle, .json or .json.gz")
    if name.endswith(".gz"):
        packed = io.BytesIO()
        with gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as file:
            file.write(data)
        data = packed.getvalue()
    path.write_bytes(data)
    return path


def _segment(segment: SegmentRecord, device: int) -> dict[str, Any]:
    requested = sum(block.requested_bytes for block in segment.blocks if block.state == "active_allocated")
    return {"device": device, "address": segment.address, "total_size": segment.size_bytes,
            "allocated_size": segment.allocated_bytes, "active_size": segment.active_bytes, "requested_size": requested,
            "stream": segment.stream, "segment_type": segment.kind, "segment_pool_id": segment.pool,
            "is_expandable": segment.expandable, "frames": _frames(segment.stack),
            "blocks": [{"address": block.address, "size": block.size_bytes, "requested_size": block.requested_bytes,
                        "state": block.state, "frames": _frames(block.stack)} for block in segment.blocks]}


def _trace(device: Device | None) -> list[dict[str, Any]]:
    entries = []
    for entry in device.trace if device else ():
        plain = _entry(entry.action, entry.address, entry.size_bytes, entry.time_us, _frames(entry.stack), entry.stream)
        if entry.action == "oom":
            del plain["addr"]
            if entry.device_free_bytes is not None:
                plain["device_free"] = entry.device_free_bytes
        if entry.time_us is None:
            del plain["time_us"]
        entries.append(plain)
    return entries


def _frames(stack: Stack) -> Frames:
    return [frame._asdict() for frame in stack] if stack else _NO_FRAMES


def _entry(action: str, address: int, size: int, time_us: int | None, frames: Frames,
           stream: int = 0) -> dict[str, Any]:
    return {"action": action, "addr": address, "size": size, "stream": stream, "time_us": time_us, "frames": frames}


def _actions(change: Change, piece: Piece | None) -> Iterable[tuple[str, int]]:
    """What torch would have written of one change, as (action, size). piece: what was there before."""
    if change.kind == RESERVE:
        return (("segment_map" if change.label == EXPANDABLE else "segment_alloc", change.size_bytes),)
    if change.kind == UNRESERVE:
        return (("segment_unmap" if change.label == EXPANDABLE else "segment_free", change.size_bytes),)
    if change.kind == TAKE:
        return (("alloc", change.requested_bytes),)
    if change.kind in (HOLD, GIVE) and piece is not None:
        asked, done = ("free_requested", piece.requested_bytes), ("free_completed", piece.requested_bytes)
        if change.kind == HOLD:
            return (asked,)
        return (done,) if piece.held else (asked, done)
    return ()


def _segments_of(state: MemoryState, frames_at: dict[int, Frames]) -> Iterable[dict[str, Any]]:
    layout, at = state.layout(), 0
    for segment in layout.segments:
        blocks: list[dict[str, Any]] = []
        start, end = segment.address, segment.address + segment.size_bytes

        def block(address: int, size: int, requested: int, what: str, frames: Frames) -> None:
            blocks.append({"address": address, "size": size, "requested_size": requested, "state": what,
                           "frames": frames})

        while at < len(layout.pieces) and layout.pieces[at].address < end:
            piece, at = layout.pieces[at], at + 1
            if piece.address > start:
                block(start, piece.address - start, 0, "inactive", _NO_FRAMES)
            block(piece.address, piece.size_bytes, piece.requested_bytes,
                  "active_pending_free" if piece.held else "active_allocated", frames_at.get(piece.address, _NO_FRAMES))
            start = piece.address + piece.size_bytes
        if start < end:
            block(start, end - start, 0, "inactive", _NO_FRAMES)

        def total(key: str, *states: str) -> int:
            return sum(each[key] for each in blocks if each["state"] in states)

        yield {"device": 0, "address": segment.address, "total_size": segment.size_bytes,
               "allocated_size": total("size", "active_allocated"),
               "active_size": total("size", "active_allocated", "active_pending_free"),
               "requested_size": total("requested_size", "active_allocated"), "stream": 0,
               "segment_type": "small" if segment.label == "small" else "large", "segment_pool_id": [0, 0],
               "is_expandable": segment.label == EXPANDABLE, "frames": _NO_FRAMES, "blocks": blocks}
