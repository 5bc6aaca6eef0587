"""The bytes contract's own parts: sizes for people, events in one line, recording."""

import pytest

from pagedkv.core.memory import (FILL, GIVE, TAKE, Allocator, Change, Layout, MemoryEvent, MemoryRecording, as_text,
                                 record_memory)
from pagedkv.rivals.fits import FirstFit

MIB = 1 << 20


@pytest.mark.parametrize("size, text", [
    (0, "0 B"), (1, "1 B"), (1023, "1,023 B"), (1024, "1 KiB"), (1536, "1.5 KiB"), (MIB - 1, "1,024 KiB"),
    (MIB, "1 MiB"), (10 * MIB, "10 MiB"), (20 * MIB + 1, "20 MiB"), (1 << 30, "1 GiB"), (100 << 30, "100 GiB"),
    (int(3.05 * (1 << 30)), "3.05 GiB"), (int(3.5 * (1 << 30)), "3.50 GiB"), (3 << 40, "3,072 GiB"), (-MIB, "-1 MiB")])
def test_sizes_for_people(size, text):
    assert as_text(size) == text


@pytest.mark.parametrize("event, text", [
    (MemoryEvent(0, "allocate", "A", 64 * MIB, (Change(TAKE, 0x200000, 64 * MIB, 64 * MIB),), {}),
     "allocate(A, 64 MiB) → 0x200000"),
    (MemoryEvent(0, "grow", "A", 30, (Change(FILL, 0, 10, 10), Change(TAKE, 16, 10, 10), Change(TAKE, 32, 10, 10)), {}),
     "grow(A, 30 B) → 0x10 and 1 more"),
    (MemoryEvent(0, "grow", "A", 30, (Change(FILL, 0, 30, 30),), {}), "grow(A, 30 B)"),
    (MemoryEvent(0, "free", "A", 30, (Change(GIVE, 0, 30, 30),), {}), "free(A)"),
    (MemoryEvent(0, "allocate", "A", 30, (), {"error": "OutOfMemory", "message": "…"}),
     "allocate(A, 30 B) ✗ OutOfMemory"),
    (MemoryEvent(0, "free", "A", 0, (), {"skipped": True}), "free(A) – skipped"),
])
def test_an_event_in_one_line(event, text):
    assert str(event) == text


def test_recording_starts_from_what_is_there_and_stops():
    allocator = FirstFit(100)
    a = allocator.allocate("A", 10)
    assert allocator.observer is None
    with record_memory(allocator, "mine") as recording:
        b = allocator.allocate("B", 20)
        with pytest.raises(RuntimeError, match="already reports to another observer"):
            record_memory(allocator)
    allocator.free(a)
    assert recording.source == "mine" and recording.capacity_bytes == 100
    assert [piece.owner for piece in recording.initial.pieces] == ["A"]
    assert [(event.step, event.op, event.owner) for event in recording.events] == [(0, "allocate", "B")]
    assert len(recording) == 1 and str(recording) == "mine\n   0  allocate(B, 20 B) → 0xa"
    again = record_memory(allocator)
    allocator.free(b)
    assert again.stop() is again.stop() and len(again.recording) == 1 and again.recording.source == "first fit"
    assert allocator.observer is None


def test_a_recording_ends_when_the_block_fails():
    allocator = FirstFit(100)
    with pytest.raises(KeyError):
        with record_memory(allocator):
            raise KeyError
    assert allocator.observer is None


def test_what_cannot_be_observed():
    with pytest.raises(TypeError, match="object reports no events"):
        record_memory(object())
    assert not isinstance(object(), Allocator) and isinstance(FirstFit(1), Allocator)
    assert MemoryRecording(None).initial == Layout() and len(MemoryRecording(None)) == 0
