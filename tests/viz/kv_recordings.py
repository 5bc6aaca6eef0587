"""Recordings of managers of sequences, for the tests of pictures."""

import random

from pagedkv.core.errors import OutOfBlocks
from pagedkv.core.events import Recording, record
from pagedkv.core.manager import KVCacheManager
from tests.viz.recordings import told

WORDS = dict(enumerate("<s> You are a helpful assistant . Answer in one short sentence What is paging ? Who wrote "
                       "Faust Goethe did It maps pages to frames sharing saves blocks".split()))
SYSTEM, PAGING, FAUST = list(range(12)), [12, 13, 14, 15], [16, 17, 18, 15]


def chat() -> Recording:
    """Three sequences with one system prompt, of which one forks and writes; then some end, and a fourth comes."""
    manager = KVCacheManager(num_blocks=32, block_size=4)
    with record(manager) as recording:
        a = manager.add_sequence(SYSTEM + PAGING + [21], owner="A")
        b = manager.add_sequence(SYSTEM + FAUST + [19], owner="B")
        for token in (22, 23):
            manager.append_token(a, token)
        manager.append_token(b, 20)
        c = manager.fork(a, owner="C")
        manager.append_token(c, 24)
        manager.append_token(a, 25)
        for token in (26, 27, 28):
            manager.append_token(c, token)
        manager.free_sequence(b)
        d = manager.add_sequence(SYSTEM + PAGING + [22, 23], owner="D")
        manager.append_token(d, 19)
        manager.free_sequence(a)
        manager.free_sequence(c)
        manager.free_sequence(d)
    return recording


def copy_frame(recording: Recording) -> int:
    """The first frame at which a block is being copied."""
    return 1 + next(number for number, event in enumerate(recording.events) if "copied_from" in event.detail)


def random_chat(seed: int, num_blocks: int = 24, size: int = 3, calls: int = 120, watch=None) -> Recording:
    """A manager that is kept busy at random; recorded after 20 calls. watch(manager, recording): called before each
    further one."""
    chance, manager, live = random.Random(seed), KVCacheManager(num_blocks=num_blocks, block_size=size), []
    recorder = None
    try:
        for call in range(calls):
            if call == 20:
                recorder = record(manager)
            if watch is not None and recorder is not None:
                watch(manager, recorder.recording)
            kind = chance.random()
            try:
                if kind < 0.25 or not live:
                    prompt = chance.choices(range(2), k=chance.randint(1, 5 * size))
                    live.append(manager.add_sequence(prompt, salt=chance.choice([None, None, "x", b"y"])))
                elif kind < 0.35:
                    live.append(manager.fork(chance.choice(live)))
                elif kind < 0.55:
                    manager.free_sequence(live.pop(chance.randrange(len(live))))
                else:
                    manager.append_token(chance.choice(live), chance.randrange(2))
            except OutOfBlocks:
                manager.free_sequence(live.pop(chance.randrange(len(live))))
    finally:
        recorder.stop()
    return recorder.recording


def _cached(blocks, parents, tokens, **more):
    return "cache", "A", blocks, {"parents": tuple(parents), "tokens": tuple(tuple(each) for each in tokens), **more}


# By hand: two salts, a branch, an eviction in the middle of a chain, and a block that is cached without its tokens.
BY_HAND = told(
    ("allocate", "A", [0, 1, 2], {"num_tokens": 6, "tokens": (1, 2, 3, 4, 5, 6)}),
    _cached([0, 1, 2], [-1, 0, 1], [(1, 2), (3, 4), (5, 6)]),
    ("allocate", "B", [3], {"num_tokens": 2, "tokens": (1, 2)}), _cached([3], [-1], [(1, 2)], salt="b"),
    ("allocate", "C", [4], {"num_tokens": 1, "tokens": (7,)}), ("write", "C", [4], {"num_tokens": 2, "tokens": (8,)}),
    _cached([4], [0], [(7, 8)]), ("evict", "A", [1]), ("allocate", "C", [5]), ("cache", "C", [5]),
    ("release", "A", [2, 1, 0]),
    ("write", "C", [5], {"num_tokens": 3}))
