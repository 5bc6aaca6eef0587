"""A Java allocator behind the Python contract of memory in bytes.

Events come from the Java allocator itself. They cross the bridge as JSON: one text for one event, or, with `run_java`,
one text for a whole workload.
"""

import json
from collections.abc import Callable, Hashable
from typing import Any

import jpype

from pagedkv.core.errors import DoubleFree
from pagedkv.core.memory import Change, Decision, Layout, Look, MemoryEvent, MemoryRecording, Piece, Segment
from pagedkv.java.jvm import jclass
from pagedkv.java.pool import carried_over
from pagedkv.rivals.base import as_size
from pagedkv.rivals.workload import Workload

_MOST_BYTES = 2**62  # a request for more than any device has stays one, and a Java long can hold it


class JavaAllocator:
    """The contract of `pagedkv.core.memory`, carried out by a Java object that implements
    `pagedkv.memory.MemoryAllocator`.

    java    the Java object
    source  what the recording's badge says
    """

    def __init__(self, java, source: str | None = None):
        if not isinstance(java, jclass("pagedkv.memory.MemoryAllocator")):
            kind = java.getClass().getName() if isinstance(java, jpype.JObject) else type(java).__name__
            raise TypeError(f"{kind} is not an allocator: its Java class must implement pagedkv.memory.MemoryAllocator")
        self.java = java
        self.source = source or str(java.source())
        self.capacity_bytes = int(java.capacityBytes())
        self._observer: Callable[[MemoryEvent], None] | None = None

    @classmethod
    def of(cls, java_class, capacity_bytes: int, *arguments, source: str | None = None) -> "JavaAllocator":
        """A new allocator of a Java class (or its name), whose constructor takes the capacity and `arguments`."""
        if isinstance(java_class, str):
            java_class = jclass(java_class)
        return cls(carried_over(java_class, as_size(capacity_bytes), *arguments), source)

    def __repr__(self) -> str:
        return f"JavaAllocator({self.source}, capacity_bytes={self.capacity_bytes})"

    def allocate(self, owner: Hashable, size_bytes: int) -> Any:
        label = None if owner is None else str(owner)
        return carried_over(self.java.allocate, label, min(as_size(size_bytes), _MOST_BYTES))

    def grow(self, handle: Any, size_bytes: int) -> Any:
        return carried_over(self.java.grow, _handle(handle), min(as_size(size_bytes), _MOST_BYTES))

    def free(self, handle: Any) -> None:
        carried_over(self.java.free, _handle(handle))

    def layout(self) -> Layout:
        segments, pieces = json.loads(str(jclass("pagedkv.memory.MemoryJson").of(self.java.layout())))
        return Layout(tuple(Segment(*segment) for segment in segments), tuple(Piece(*piece) for piece in pieces))

    @property
    def observer(self) -> Callable[[MemoryEvent], None] | None:
        return self._observer

    @observer.setter
    def observer(self, observer: Callable[[MemoryEvent], None] | None) -> None:
        as_json = jclass("pagedkv.memory.MemoryJson")
        self.java.observe(None if observer is None else jpype.JProxy(
            "pagedkv.memory.MemoryObserver",
            dict={"onEvent": lambda event: observer(_to_event(json.loads(str(as_json.of(event)))))}))
        self._observer = observer


def run_java(workload: Workload | str, allocator: JavaAllocator) -> MemoryRecording:
    """Put a workload to a Java allocator, all of it in Java: the recording that `pagedkv.rivals.workload.run` would
    make, 20,000 events in a few seconds. Raises ValueError for a text that cannot be read, RuntimeError if the
    allocator has an observer already."""
    if allocator.observer is not None:
        raise RuntimeError("this allocator already reports to an observer; stop that recording first")
    text = workload if isinstance(workload, str) else workload.text()
    calls = carried_over(jclass("pagedkv.memory.Workload").parse, text)
    recording = MemoryRecording(allocator.capacity_bytes, allocator.source, allocator.layout())
    events = jclass("pagedkv.memory.WorkloadRunner").run(calls, allocator.java)
    recording.events += map(_to_event, json.loads(str(jclass("pagedkv.memory.MemoryJson").of(events))))
    if not isinstance(workload, str):
        # in Java an owner is a text; here it is again what the workload says
        recording.events[:] = [event._replace(owner=request.owner)
                               for event, request in zip(recording.events, workload.requests, strict=True)]
    return recording


def _handle(handle: Any) -> Any:
    if not isinstance(handle, jclass("pagedkv.memory.MemoryHandle")):
        raise DoubleFree(f"{handle!r} is not live here: a handle is what allocate of this allocator returned")
    return handle


def _to_event(fields: list) -> MemoryEvent:
    step, op, owner, size_bytes, changes, detail = fields
    if "decision" in detail:
        asked_bytes, rounded_bytes, looks, num_looks, notes = detail["decision"]
        detail["decision"] = Decision(asked_bytes, rounded_bytes, tuple(Look(*look) for look in looks), num_looks,
                                      tuple(notes))
    return MemoryEvent(step, op, owner, size_bytes, tuple(Change(*change) for change in changes), detail)
