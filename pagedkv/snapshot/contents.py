"""What a snapshot holds, as checked records.

The words are PyTorch's. A block is `active_allocated` (a tensor has it), `active_pending_free` (its tensor is gone, but
work queued on another stream may still use it; older versions say `active_awaiting_free`) or `inactive` (free).

The records come from dicts that anybody may have written. What can be done without is replaced when it is missing:
torch has added keys over the years, and a trace need not be there. What cannot be done without is an error that names
the place, such as `segments[3].blocks[0].size`.
"""

import posixpath
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pagedkv.snapshot.errors import SnapshotError

ALLOCATED, PENDING, INACTIVE = "active_allocated", "active_pending_free", "inactive"
_STATES = {ALLOCATED: ALLOCATED, PENDING: PENDING, "active_awaiting_free": PENDING, INACTIVE: INACTIVE}

_USUAL = frozenset(("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
                    "segment_unmap"))
MOST_BYTES = 1 << 62  # of an address or a size; more is no memory of this world
PROGRESS_EVERY = 100_000  # trace entries


class Frame(NamedTuple):
    """One line of a stack trace."""

    filename: str
    line: int
    name: str

    def __str__(self) -> str:
        return f"{self.filename}:{self.line} {self.name}"

    @property
    def short(self) -> str:
        """`attention.py:88 forward`"""
        return f"{posixpath.basename(self.filename.replace(chr(92), '/'))}:{self.line} {self.name}"


class Stack(Sequence):
    """The frames of one entry or block, innermost first. Many entries share one stack, and most are never looked at, so
    the frames are read when they are asked for.

    site  the innermost frame that is neither torch's nor C++, in its short form; "" without such a frame
    """

    __slots__ = ("_raw", "_site")

    def __init__(self, raw: list):
        self._raw, self._site = raw, None

    def __len__(self) -> int:
        return len(self._raw)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return tuple(_frame(raw) for raw in self._raw[index])
        return _frame(self._raw[index])

    def __iter__(self) -> Iterator[Frame]:
        return map(_frame, self._raw)

    @property
    def site(self) -> str:
        if self._site is None:
            self._site = next((frame.short for frame in self if not _is_torchs(frame)), "")
        return self._site


NO_STACK = Stack([])


class Block(NamedTuple):
    address: int
    size_bytes: int
    requested_bytes: int
    state: str
    stack: Stack


class SegmentRecord(NamedTuple):
    """kind  "small" (for requests up to 1 MiB) or "large"
    pool      which memory pool it belongs to; (0, 0) is the common one, a CUDA graph has its own"""

    address: int
    size_bytes: int
    stream: int
    kind: str
    pool: tuple
    expandable: bool
    blocks: tuple[Block, ...]
    stack: Stack

    @property
    def allocated_bytes(self) -> int:
        return sum(block.size_bytes for block in self.blocks if block.state == ALLOCATED)

    @property
    def active_bytes(self) -> int:
        """What is not free: allocated, or pending."""
        return sum(block.size_bytes for block in self.blocks if block.state != INACTIVE)

    @property
    def free_bytes(self) -> int:
        return self.size_bytes - self.active_bytes


class Entry(NamedTuple):
    """One entry of a trace.

    size_bytes         what was asked for (alloc, free_…), or a segment's size
    time_us            None where the version of torch did not write it
    device_free_bytes  what the device still had, by its own account; only in an "oom"
    """

    action: str
    address: int
    size_bytes: int
    stream: int
    time_us: int | None
    stack: Stack
    device_free_bytes: int | None


class Device(NamedTuple):
    number: int
    segments: tuple[SegmentRecord, ...]
    trace: tuple[Entry, ...]

    @property
    def reserved_bytes(self) -> int:
        return sum(segment.size_bytes for segment in self.segments)

    @property
    def allocated_bytes(self) -> int:
        return sum(segment.allocated_bytes for segment in self.segments)


class Snapshot(NamedTuple):
    """settings  `allocator_settings` as the file has them; {} for older versions
    remarks     what is unusual about the file, for people
    origin      where it came from, if the file says so (torch's own files do not)"""

    devices: tuple[Device, ...]
    settings: dict[str, Any]
    remarks: tuple[str, ...]
    origin: str = ""

    def device(self, number: int | None = None) -> Device:
        """The device of this number, or the one that holds most. Raises SnapshotError if there is none."""
        if number is None:
            return max(self.devices, key=lambda device: (device.reserved_bytes, len(device.trace), -device.number))
        for device in self.devices:
            if device.number == number:
                return device
        raise SnapshotError(f"the snapshot has no device {number}; it has "
                            f"{', '.join(str(each.number) for each in self.devices)}")


def from_plain(data: object, most_records: int = 1 << 40,
               on_progress: Callable[[int, int], None] | None = None) -> Snapshot:
    """The snapshot in torch's own structure, checked. Raises SnapshotError that names the place of what is wrong.

    most_records  how many segments, blocks and entries there may be. One list that stands in many places of a small
                  pickle can make billions of them; a file of n bytes has never more than n
    on_progress   is told now and then (entries done, entries in all)
    """
    if isinstance(data, list):  # torch.cuda.memory_snapshot() alone gives the segments without the dict around them
        data = {"segments": data}
    if not isinstance(data, dict):
        raise SnapshotError(f"this holds {_kind(data)}, not a memory snapshot, which is a dict with 'segments' and "
                            "'device_traces'")
    if "segments" not in data and "device_traces" not in data:
        raise SnapshotError("this is not a memory snapshot: it has neither 'segments' nor 'device_traces', but "
                            + (", ".join(repr(str(key)[:30]) for key in list(data)[:6]) or "nothing at all"))
    return _Checker(most_records, on_progress).snapshot(data)


class _Checker:
    def __init__(self, most_records: int, on_progress: Callable[[int, int], None] | None):
        self._left = self._most = most_records
        self._on_progress = on_progress
        self._stacks: dict[int, Stack] = {}  # by id of the raw list, which the data keep alive
        self._remarks: list[str] = []

    def snapshot(self, data: dict) -> Snapshot:
        by_device: dict[int, list[SegmentRecord]] = {}
        for number, raw in enumerate(self._list(data, "segments", "", required=False)):
            device, segment = self._segment(raw, f"segments[{number}]")
            by_device.setdefault(device, []).append(segment)
        traces = self._list(data, "device_traces", "", required=False)
        entries = {number: self._trace(raw, f"device_traces[{number}]") for number, raw in enumerate(traces)}
        numbers = sorted(by_device.keys() | entries.keys()) or [0]
        devices = tuple(Device(number, self._without_overlap(by_device.get(number, ()), number),
                               entries.get(number, ())) for number in numbers)
        settings = data.get("allocator_settings")
        if data.get("host_segments") or data.get("host_traces"):
            self._remarks.append("it also holds pinned host memory (host_segments); only the devices are looked at")
        origin = data.get("origin")
        return Snapshot(devices, settings if isinstance(settings, dict) else {}, tuple(self._remarks),
                        printable(origin, 200) if isinstance(origin, str) else "")

    def _segment(self, raw: object, where: str) -> tuple[int, SegmentRecord]:
        self._count(where)
        if type(raw) is not dict:
            raise SnapshotError(f"{where}: expected a dict, found {_kind(raw)}")
        address = self._size(raw, "address", where)
        blocks, at = [], address
        for number, each in enumerate(self._list(raw, "blocks", where, required=False)):
            block = self._block(each, at, f"{where}.blocks[{number}]")
            if block.address < at:
                raise SnapshotError(f"{where}.blocks[{number}].address: {block.address:#x} lies before the end of the "
                                    f"block before, {at:#x}")
            at = block.address + block.size_bytes
            blocks.append(block)
        size = self._size(raw, "total_size", where, at - address)
        if at > address + size:
            raise SnapshotError(f"{where}.blocks: they reach to {at:#x}, beyond the segment's end {address + size:#x}")
        if size == 0:
            raise SnapshotError(f"{where}.total_size: a segment of 0 bytes")
        device = self._size(raw, "device", where, 0)
        if device > 1 << 16:
            raise SnapshotError(f"{where}.device: {device:,} is no device's number")
        kind = raw.get("segment_type")
        if kind not in ("small", "large"):
            kind = "small" if size <= 2 << 20 else "large"
        pool = raw.get("segment_pool_id")
        pool = tuple(pool) if isinstance(pool, (list, tuple)) and all(type(part) is int for part in pool) else (0, 0)
        expandable = raw.get("is_expandable") is True
        return device, SegmentRecord(address, size, self._number(raw.get("stream")), kind, pool, expandable,
                                     tuple(blocks), self._stack(raw))

    def _block(self, raw: object, at: int, where: str) -> Block:
        self._count(where)
        if type(raw) is not dict:
            raise SnapshotError(f"{where}: expected a dict, found {_kind(raw)}")
        size = self._size(raw, "size", where)
        if size == 0:
            raise SnapshotError(f"{where}.size: a block of 0 bytes")
        state = raw.get("state")
        known = _STATES.get(state) if isinstance(state, str) else None
        if known is None:
            raise SnapshotError(f"{where}.state: expected active_allocated, active_pending_free or inactive, found "
                                + (repr(state[:40]) if isinstance(state, str) else _kind(state)))
        history = raw.get("history")  # up to torch 2.0: the request and its frames
        latest = history[0] if isinstance(history, list) and history and type(history[0]) is dict else {}
        stack = self._stack(raw) or self._stack(latest)
        requested = self._size(latest, "real_size", f"{where}.history[0]", size)
        requested = self._size(raw, "requested_size", where, requested)
        return Block(self._size(raw, "address", where, at), size, min(requested, size), known, stack)

    def _trace(self, raw: object, where: str) -> tuple[Entry, ...]:
        if type(raw) is not list:
            raise SnapshotError(f"{where}: expected a list, found {_kind(raw)}")
        self._count(where, len(raw))
        entries: list[Entry] = []
        stacks, total, on_progress = self._stacks, len(raw), self._on_progress
        for number, entry in enumerate(raw):
            if on_progress is not None and number % PROGRESS_EVERY == 0 and number:
                on_progress(number, total)
            try:  # a million times, so what is usual comes without a call for each key
                action, size, stream, time_us = entry["action"], entry["size"], entry["stream"], entry.get("time_us")
                address, frames = entry["addr"], entry.get("frames")
                usual = (action in _USUAL and type(size) is int and type(address) is int and type(stream) is int
                         and 0 <= size < MOST_BYTES and 0 <= address < MOST_BYTES
                         and (time_us is None or type(time_us) is int))
            except (KeyError, TypeError, AttributeError):  # what is missing, or is of a kind that is no key
                usual = False
            if not usual:
                entries.append(self._entry(entry, f"{where}[{number}]"))
                continue
            stack = stacks.get(id(frames)) if frames else NO_STACK
            if stack is None:
                stack = self._stack(entry)
            entries.append(Entry(action, address, size, stream, time_us, stack, None))
        return tuple(entries)

    def _entry(self, raw: object, where: str) -> Entry:
        if type(raw) is not dict:
            raise SnapshotError(f"{where}: expected a dict, found {_kind(raw)}")
        action = raw.get("action")
        if not isinstance(action, str):
            raise SnapshotError(f"{where}.action: expected a word such as 'alloc', found {_kind(action)}")
        time_us = raw.get("time_us")
        free = self._size(raw, "device_free", where, 0) if action == "oom" and "device_free" in raw else None
        about_a_block = action in ("alloc", "free_requested", "free_completed")
        address = self._size(raw, "addr", where, None if about_a_block else 0)
        size = self._size(raw, "size", where, 0 if action not in ("alloc", "oom") else None)
        time_us = int(time_us) if type(time_us) in (int, float) and abs(time_us) < MOST_BYTES else None
        return Entry(printable(action, 40), address, size, self._number(raw.get("stream")), time_us, self._stack(raw),
                     free)

    def _without_overlap(self, segments: Sequence[SegmentRecord], device: int) -> tuple[SegmentRecord, ...]:
        """By address; of two that overlap, the one at the lower address stays."""
        kept: list[SegmentRecord] = []
        for segment in sorted(segments, key=lambda each: each.address):
            if kept and segment.address < kept[-1].address + kept[-1].size_bytes:
                self._remarks.append(f"device {device}: the segment at {segment.address:#x} overlaps the one at "
                                     f"{kept[-1].address:#x}; it was left out")
            else:
                kept.append(segment)
        return tuple(kept)

    def _stack(self, raw: dict) -> Stack:
        frames = raw.get("frames")
        if type(frames) is not list or not frames:
            return NO_STACK
        stack = self._stacks.get(id(frames))
        if stack is None:
            stack = self._stacks[id(frames)] = Stack(frames)
        return stack

    def _list(self, raw: dict, key: str, where: str, required: bool = True) -> list:
        value = raw.get(key)
        if value is None and not required:
            return []
        if type(value) is not list:
            raise SnapshotError(f"{_path(where, key)}: expected a list, found {_kind(value)}")
        return value

    def _size(self, raw: dict, key: str, where: str, default: int | None = None) -> int:
        value = raw.get(key)
        if type(value) is int and 0 <= value < MOST_BYTES:
            return value
        if value is None and default is not None:
            return default
        if type(value) is float and value.is_integer() and 0 <= value < MOST_BYTES:
            return int(value)  # a JSON that went through JavaScript
        if value is None:
            raise SnapshotError(f"{_path(where, key)}: it is missing")
        raise SnapshotError(f"{_path(where, key)}: expected a number of bytes, found {_kind(value)}")

    def _number(self, value: object) -> int:
        return value if type(value) is int and abs(value) < MOST_BYTES else 0

    def _count(self, where: str, more: int = 1) -> None:
        self._left -= more
        if self._left < 0:
            raise SnapshotError(f"{where}: with this there are more than {self._most:,} segments, blocks and entries, "
                                "more than the "
                                "file has bytes: the same lists stand in it over and over, and no recording does that")


def _frame(raw: object) -> Frame:
    if type(raw) is not dict:
        return Frame("?", 0, printable(raw, 200) if isinstance(raw, str) else "?")
    filename, line, name = raw.get("filename"), raw.get("line"), raw.get("name")
    return Frame(printable(filename) if isinstance(filename, str) else "?",
                 line if type(line) is int and 0 <= line < 1 << 31 else 0,
                 printable(name) if isinstance(name, str) else "?")


def printable(text: str, most: int = 500) -> str:
    """A text of the file's, for a terminal or a page: not too long, and without characters that control either."""
    text = text[:most]
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "\ufffd" for character in text)


def _is_torchs(frame: Frame) -> bool:
    """Whether a frame belongs to torch, or to C++ code, which is never where a reader wants to be pointed to."""
    path = frame.filename.replace("\\", "/")
    return not path.endswith((".py", ">")) or "/torch/" in path or path.startswith("torch/") or path == "<frozen runpy>"


def _path(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _kind(value: object) -> str:
    """What something is, for a message; never the value itself, which may be huge."""
    if value is None:
        return "None"
    if isinstance(value, (bool, float)):
        return repr(value)
    if isinstance(value, int):
        return f"the int {value}" if abs(value) < 1 << 64 else f"an int of {value.bit_length():,} bits"
    names = {dict: "a dict", list: "a list", str: "a string", bytes: "bytes", tuple: "a tuple"}
    return names.get(type(value), type(value).__name__)
