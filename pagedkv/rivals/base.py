"""What all rivals share: reading arguments, counting steps, reporting events, growing by copying.

A rival says how it places and frees memory, in `_place` and `_release`. Where it changes the memory it calls `_changed`,
where it considers a candidate `_look`, where it decides something else `_note`, and where it calls the device
`_device_call`; while nobody observes, these do nothing.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any, ClassVar, NamedTuple

from pagedkv.core.arguments import as_count
from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import MOST_LOOKS, Change, Decision, Layout, Look, MemoryEvent, as_text


class Setting(NamedTuple):
    """One of an allocator's settings, for a form: the keyword of its constructor, what people call it, its default, and
    either the values to choose from or (first, last, step)."""

    keyword: str
    label: str
    default: Any
    choices: tuple = ()
    span: tuple[int, int, int] | None = None
    unit: str = ""


class Rival(ABC):
    """Base of the allocators in this package.

    SETTINGS  what a person may choose, beside the capacity
    in_pieces whether one request may be served with several pieces
    explain   whether the events tell the decision; it costs time
    """

    SETTINGS: ClassVar[tuple[Setting, ...]] = ()
    source = "allocator"
    in_pieces = False

    def __init__(self, capacity_bytes: int):
        self.capacity_bytes = as_count(capacity_bytes, "capacity_bytes")
        if not self.capacity_bytes:
            raise ValueError("capacity_bytes is at least 1")
        self.observer: Callable[[MemoryEvent], None] | None = None
        self.explain = True
        self._step = 0
        self._report: _Report | None = None  # while an observed call is carried out

    def allocate(self, owner: Hashable, size_bytes: int) -> Any:
        size_bytes = as_size(size_bytes)
        if self.observer is None:
            return self._place(owner, size_bytes)
        return self._observed("allocate", owner, size_bytes, lambda: self._place(owner, size_bytes))

    def grow(self, handle: Any, size_bytes: int) -> Any:
        size_bytes = as_size(size_bytes)
        if self.observer is None:
            return self._grow_live(handle, size_bytes)
        return self._observed("grow", getattr(handle, "owner", None), size_bytes,
                              lambda: self._grow_live(handle, size_bytes))

    def free(self, handle: Any) -> None:
        if self.observer is None:
            return self._free_live(handle)
        return self._observed("free", getattr(handle, "owner", None), getattr(handle, "requested_bytes", 0),
                              lambda: self._free_live(handle))

    def _grow_live(self, handle: Any, size_bytes: int) -> Any:
        owner, old_bytes = self._about(handle)
        if size_bytes < old_bytes:
            raise ValueError(f"{owner} has {as_text(old_bytes)} and cannot grow to {as_text(size_bytes)}, which is less")
        return self._regrow(handle, size_bytes)

    def _free_live(self, handle: Any) -> None:
        self._about(handle)
        self._release(handle)

    # what a rival has to say

    @abstractmethod
    def layout(self) -> Layout:
        """All segments and pieces, in order of their addresses."""

    @abstractmethod
    def _place(self, owner: Hashable, size_bytes: int) -> Any:
        """A handle, or OutOfMemory."""

    @abstractmethod
    def _release(self, handle: Any) -> None:
        """Free what a live handle stands for."""

    @abstractmethod
    def _about(self, handle: Any) -> tuple[Hashable, int]:
        """Who has it, and how many bytes they asked for. Raises DoubleFree for a handle that is not live."""

    def _regrow(self, handle: Any, size_bytes: int) -> Any:
        """New memory, a copy, and the old memory back: both exist for a moment. A rival that can do better overrides it."""
        owner, old_bytes = self._about(handle)
        new = self._place(owner, size_bytes)
        if self._report is not None:
            self._report.moved_bytes += old_bytes
        self._release(handle)
        return new

    # for the events

    def _changed(self, kind: str, address: int, size_bytes: int, requested_bytes: int = 0, label: str = "") -> None:
        if self._report is not None:
            self._report.changes.append(Change(kind, address, size_bytes, requested_bytes, label))

    def _look(self, what: str, address: int, size_bytes: int, verdict: str) -> None:
        if self._report is not None and self.explain:
            self._report.look(Look(what, address, size_bytes, verdict))

    def _note(self, text: str) -> None:
        if self._report is not None and self.explain:
            self._report.notes.append(text)

    def _rounded(self, size_bytes: int) -> None:
        if self._report is not None:
            self._report.rounded_bytes = size_bytes

    def _device_call(self, kind: str, count: int = 1) -> None:
        if self._report is not None:
            self._report.device_calls[kind] = self._report.device_calls.get(kind, 0) + count

    def _observed(self, op: str, owner: Hashable, size_bytes: int, call: Callable[[], Any]) -> Any:
        report = self._report = _Report()
        try:
            answer = call()
        except Exception as error:
            report.detail = {"error": type(error).__name__, "message": str(error)}
            raise
        else:
            return answer
        finally:
            self._report = None
            step, self._step = self._step, self._step + 1
            self.observer(MemoryEvent(step, op, owner, size_bytes, tuple(report.changes),
                                      report.told(size_bytes, self.explain and op != "free")))


class _Report:
    """What one call did, while it does it."""

    def __init__(self):
        self.changes: list[Change] = []
        self.looks: list[Look] = []
        self.num_looks = 0
        self.notes: list[str] = []
        self.rounded_bytes: int | None = None
        self.device_calls: dict[str, int] = {}
        self.moved_bytes = 0
        self.detail: dict[str, Any] = {}

    def look(self, look: Look) -> None:
        self.num_looks += 1
        if len(self.looks) == MOST_LOOKS:
            if look.verdict != "chosen":
                return
            self.looks.pop()
        self.looks.append(look)

    def told(self, asked_bytes: int, explained: bool) -> dict[str, Any]:
        detail = dict(self.detail)
        if explained:
            rounded = asked_bytes if self.rounded_bytes is None else self.rounded_bytes
            detail["decision"] = Decision(asked_bytes, rounded, tuple(self.looks), self.num_looks, tuple(self.notes))
        if self.device_calls:
            detail["device_calls"] = self.device_calls
        if self.moved_bytes:
            detail["moved_bytes"] = self.moved_bytes
        return detail


def as_size(size_bytes: object) -> int:
    """A request's size as a plain int. Raises TypeError for a bool or a non-integer, ValueError below 1."""
    size = as_count(size_bytes, "a size in bytes")
    if not size:
        raise ValueError("a request is for at least 1 byte")
    return size


def out_of_memory(size_bytes: int, free_bytes: int, largest_bytes: int) -> OutOfMemory:
    """The refusal, in words that say which of the two reasons it has."""
    if free_bytes < size_bytes:
        return OutOfMemory(f"{as_text(size_bytes)} wanted, {as_text(free_bytes)} free")
    return OutOfMemory(f"{as_text(size_bytes)} wanted; {as_text(free_bytes)} free, the largest run {as_text(largest_bytes)}")
