"""One arena: all the memory is taken from the device at the start, as one segment, and cut into *slots*.

Each owner has one slot: contiguous, at an address that changes only if it moves. Where no slot is there is a free run
(`pagedkv.core.free_runs`). Neighbouring runs are one, so a slot that comes back leaves no seam.
"""

from abc import abstractmethod
from collections.abc import Hashable
from typing import Any

from pagedkv.core.free_runs import FreeRuns
from pagedkv.core.memory import FILL, GIVE, TAKE, Layout, Piece, Segment, as_text
from pagedkv.rivals.base import out_of_memory
from pagedkv.rivals.handles import Handle, RivalWithHandles


class Slot(Handle):
    __slots__ = ("address", "size_bytes")

    def __init__(self, owner: Hashable, requested_bytes: int, address: int, size_bytes: int):
        super().__init__(owner, requested_bytes)
        self.address, self.size_bytes = address, size_bytes

    @property
    def end(self) -> int:
        return self.address + self.size_bytes


class ArenaRival(RivalWithHandles):
    """Base of the allocators that place slots in one arena. They differ in which run they choose (`_find`), and in how
    much they set aside for a request (`_slot_bytes`)."""

    def __init__(self, capacity_bytes: int):
        super().__init__(capacity_bytes)
        self._free = FreeRuns()
        self._free.add(0, self.capacity_bytes, 0, self.capacity_bytes)

    def layout(self) -> Layout:
        slots = sorted(self._live, key=lambda slot: slot.address)
        return Layout((Segment(0, self.capacity_bytes, "arena"),),
                      tuple(Piece(slot.address, slot.size_bytes, slot.owner, slot.requested_bytes) for slot in slots))

    def set_aside_bytes(self, handle: Slot) -> int:
        return handle.size_bytes

    @abstractmethod
    def _find(self, size_bytes: int) -> int | None:
        """The address of a run that is long enough, by this allocator's rule; None if there is none."""

    def _slot_bytes(self, owner: Hashable, size_bytes: int) -> int:
        """How much to set aside for a request. Raises OutOfMemory for one that is never served."""
        return size_bytes

    def _place(self, owner: Hashable, size_bytes: int) -> Slot:
        slot_bytes = self._slot_bytes(owner, size_bytes)
        self._rounded(slot_bytes)
        address = self._find(slot_bytes)
        if address is None:
            raise out_of_memory(slot_bytes, self._free.total_bytes, self._free.largest_bytes)
        return self._occupy(Slot(owner, size_bytes, address, slot_bytes))

    def _release(self, slot: Slot) -> None:
        del self._live[slot]
        self._free.add(slot.address, slot.size_bytes, 0, self.capacity_bytes)
        self.used_bytes -= slot.size_bytes
        self._changed(GIVE, slot.address, slot.size_bytes, slot.requested_bytes)

    def _regrow(self, slot: Slot, size_bytes: int) -> Any:
        """As C's realloc: where it is, if it can; else a new slot, a copy, and the old slot back."""
        slot_bytes = self._slot_bytes(slot.owner, size_bytes)
        if slot_bytes <= slot.size_bytes:
            self._rounded(slot.size_bytes)
            self._note(f"it fits into the {as_text(slot.size_bytes)} that are set aside")
            return self._fill(slot, size_bytes)
        if self._free_behind(slot) >= slot_bytes - slot.size_bytes:
            self._rounded(slot_bytes)
            self._note("the free run behind it is long enough: it grows where it is")
            self._release(slot)
            return self._occupy(Slot(slot.owner, size_bytes, slot.address, slot_bytes))
        self._note("what lies behind it is in use or too short: it moves")
        return super()._regrow(slot, size_bytes)

    def _fill(self, slot: Slot, size_bytes: int) -> Slot:
        slot.requested_bytes = size_bytes
        self._changed(FILL, slot.address, slot.size_bytes, size_bytes)
        return slot

    def _free_behind(self, slot: Slot) -> int:
        run = self._free.around(slot.end)
        return run[1] - slot.end if run else 0

    def _occupy(self, slot: Slot) -> Slot:
        self._free.take(slot.address, slot.size_bytes)
        self._live[slot] = None
        self.used_bytes += slot.size_bytes
        self._changed(TAKE, slot.address, slot.size_bytes, slot.requested_bytes)
        return slot
