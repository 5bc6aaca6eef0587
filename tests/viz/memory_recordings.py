"""Recordings of allocators for the tests of pictures."""

import random

from pagedkv.core.memory import (FILL, GIVE, HOLD, RESERVE, TAKE, UNRESERVE, Change, Decision, Layout, Look,
                                 MemoryEvent, MemoryRecording, Piece, Segment)
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.workload import Workload, run

MIB = 1 << 20
OWNERS = [None, "A", "B", 7, "7", ("a", "tuple"), "", "(no name)", "request 17", "</script><b>"]

# 64 MiB; at the last request 24 MiB are free, in three pieces
FRAGMENTED = Workload.parse("""
    a A 8M
    a B 8M
    a C 16M
    a D 8M
    a E 16M
    f B
    f D
    a F 12M
""", "fragmented")
# more than all the memory that is left
EXHAUSTED = Workload.parse("a A 30M\na B 30M\ng A 32M\na C 10M\nf C\nf B", "exhausted")


def fragmented():
    return run(FRAGMENTED, FirstFit(64 * MIB))


def exhausted():
    return run(EXHAUSTED, FirstFit(64 * MIB))


def events_of(*calls, capacity_bytes=64 * MIB, source="test allocator", initial=Layout()):
    """A recording of (op, owner, size, changes[, detail]) calls."""
    return MemoryRecording(capacity_bytes, source, initial, [
        MemoryEvent(step, op, owner, size, tuple(Change(*change) for change in changes), *(rest or ({},)))
        for step, (op, owner, size, changes, *rest) in enumerate(calls)])


def pinned():
    """Three segments; in the second 1 of 20 MiB is in use, in the third nothing is set aside for good."""
    base = 1 << 40
    return events_of(
        ("allocate", "weights", 18 * MIB, [(RESERVE, base, 20 * MIB, 0, "large"), (TAKE, base, 18 * MIB, 18 * MIB)],
         {"device_calls": {"malloc": 1}}),
        ("allocate", "mask", MIB,
         [(RESERVE, base + 64 * MIB, 20 * MIB, 0, "large"), (TAKE, base + 70 * MIB, MIB, MIB - 512)],
         {"device_calls": {"malloc": 1}}),
        ("allocate", "step", 300,
         [(RESERVE, base + 128 * MIB, 2 * MIB, 0, "small"), (TAKE, base + 128 * MIB, 512, 300)],
         {"device_calls": {"malloc": 1}}),
        ("free", "step", 300, [(HOLD, base + 128 * MIB, 512)]),
        ("free", "step", 300, [(GIVE, base + 128 * MIB, 512)]),
        ("free", "step", 0, [(UNRESERVE, base + 128 * MIB, 2 * MIB)], {"device_calls": {"free": 1}}))


def random_memory_recording(seed, events=120, base=1 << 41):
    """Whatever an observer might be told, also what no correct allocator does: segments that come and go, expandable
    ones, pieces that overlap, memory given away twice."""
    chance = random.Random(seed)
    unit, room = 512, 64
    initial = Layout((Segment(base, 8 * unit, "small"),),
                     (Piece(base, unit, "A", 300), Piece(base + 2 * unit, 2 * unit, None, 2 * unit, True)))
    recording = MemoryRecording(None if seed % 3 == 0 else 1 << 20, "test allocator", initial)
    taken = [base, base + 2 * unit]
    for step in range(events):
        changes = []
        for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
            kind = chance.choice([RESERVE, RESERVE, TAKE, TAKE, TAKE, TAKE, FILL, GIVE, GIVE, GIVE, HOLD, UNRESERVE])
            size = chance.randint(1, 4) * unit
            if kind in (RESERVE, UNRESERVE):
                address = base + chance.randrange(0, room, 4) * unit
                size = chance.choice([4, 4, 8]) * unit
            else:
                address = base + chance.randrange(room) * unit
                if kind == TAKE:
                    taken.append(address)
                elif chance.random() < 0.8:  # else what is there would hardly ever be met
                    address = taken[-chance.randint(1, min(6, len(taken)))]
            label = chance.choice(["expandable", "small", "large"])
            changes.append(Change(kind, address, size, chance.randint(0, size), label))
        detail = {}
        if chance.random() < 0.1:
            detail, changes = {"error": "OutOfMemory", "message": f"no, at {step % 5}"}, []
        elif chance.random() < 0.1:
            detail, changes = {"skipped": True}, []
        if chance.random() < 0.3:
            looks = tuple(Look("free block", base + i * unit, unit, chance.choice(["too short", "chosen"]))
                          for i in range(step % 4))
            detail["decision"] = Decision(700, 1024, looks, len(looks) + step % 3, ("rounded to 512",)[:step % 2])
        if chance.random() < 0.2:
            detail["device_calls"] = {chance.choice(["malloc", "free", "map"]): chance.randint(1, 3)}
        if chance.random() < 0.2:
            detail["moved_bytes"] = chance.randint(1, 9) * unit
        op = chance.choice(["allocate", "grow", "free", "sync"])
        recording.events.append(MemoryEvent(2 * step if seed % 2 else step, op, chance.choice(OWNERS),
                                            chance.randint(0, 4000), tuple(changes), detail))
    return recording
