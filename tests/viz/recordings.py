"""Recordings for the tests of pictures."""

import random

from pagedkv.core.events import Event, Recording

OWNERS = [None, "A", "B", 7, "7", ("a", "tuple"), frozenset({1}), "", "(no name)", True, "request 17"]


def random_recording(seed, num_blocks=12, events=80, source="test pool", trusted=False):
    """Whatever an observer might be told: also what no correct pool does, unless `trusted`."""
    chance = random.Random(seed)
    initial = {block: chance.randint(1, 3) for block in chance.sample(range(num_blocks), chance.randint(0, 3))}
    recording = Recording(num_blocks, source, initial)
    for step in range(events):
        owner = chance.choice(OWNERS)
        op = chance.choice(["allocate", "allocate", "retain", "release", "release", "release", "cache", "evict"])
        blocks = tuple(chance.choices(range(num_blocks), k=chance.randint(0, 5)))
        detail = {"num_tokens": chance.randint(0, 99)} if chance.random() < 0.2 else {}
        if chance.random() < 0.15:
            detail = {"error": "DoubleFree", "message": f"no, at {step % 5}"}
            if op == "allocate":
                detail["requested_blocks"] = 3
        elif not trusted and chance.random() < 0.1:
            blocks += (num_blocks + chance.randint(0, 9), -1)
        recording.events.append(Event(step * 2 if seed % 2 else step, op, owner, blocks, detail))
    return recording


def told(*calls, num_blocks=8, source="test pool", **initial):
    """A recording of (op, owner, blocks[, detail]) calls."""
    return Recording(num_blocks, source, **initial, events=[
        Event(step, op, owner, tuple(blocks), *(rest or ({},))) for step, (op, owner, blocks, *rest) in enumerate(calls)])


GIVEN_TWICE = told(("allocate", "A", [0, 1]), ("allocate", "B", [1]), ("release", "A", [1]), ("release", "A", [0]),
                   ("release", "A", [0]))
SHARED_AND_CACHED = told(("allocate", "A", [3, 2]), ("retain", "B", [3]), ("cache", "A", [3, 2]), ("release", "A", [3, 2]),
                         ("release", "C", [7], {"error": "DoubleFree", "message": "block 7 is free"}))
