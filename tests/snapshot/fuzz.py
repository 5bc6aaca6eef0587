"""Damaged and hostile snapshots, by chance: whatever the bytes are, the answer is a snapshot or a SnapshotError.

    python -m tests.snapshot.fuzz --runs 2000 --seed 0

Each run takes a good file, damages it (its bytes, or the values in its structure), opens it and goes all the way to the
findings and the table of other settings. It fails for any other exception, for a fault in the recording, for a state at
the end that is not the file's, for anything that was imported or called on the way, and for taking too long.
"""

import argparse
import builtins
import copy
import gzip
import json
import os
import pickle
import random
import sys
import time
from collections import Counter

from pagedkv.core.memory_replay import end_of
from pagedkv.snapshot.analysis import analyse
from pagedkv.snapshot.contents import INACTIVE
from pagedkv.snapshot.errors import SnapshotError
from pagedkv.snapshot.history import history_of
from pagedkv.snapshot.read import parse_snapshot
from pagedkv.snapshot.what_if import what_if
from tests.snapshot.files import BASE, MIB, block, entry, frames, free, freed, segment, snapshot

MOST_SECONDS = 5  # for one small file; the usual is some milliseconds


class Ran(BaseException):
    """Code from a file was run. Not an Exception, so that nobody handles it."""


def harm(what):
    raise Ran(what)


class Watched:
    """A call of a function that a file must never get: pickles to `os.system`, and so on."""

    CALLS = [(os.system, ("echo harm",)), (builtins.eval, ("1",)), (builtins.exec, ("1",)),
             (builtins.getattr, ("a", "upper")),
             (os.remove, ("/nowhere",)), (harm, ("done",)), (bytearray, (9,)), (complex, (1, 2))]

    def __init__(self, chance):
        self.call = chance.choice(self.CALLS)

    def __reduce__(self):
        return self.call

    def __deepcopy__(self, memo):  # copying would call it
        return self


def good_files():
    """Small files with everything in them that a file may have."""
    who = frames(("torch/functional.py", 1, "cat"), ("model.py", 12, "append"))
    mixed = snapshot(
        [segment(BASE, block(1024, requested=700, frames=who), free(2 * MIB - 1024)),
         segment(BASE + 64 * MIB, block(5 * MIB, frames=who), block(3 * MIB, "active_pending_free"), free(12 * MIB),
                 stream=7),
         segment(BASE + 256 * MIB, block(30 * MIB), free(10 * MIB), is_expandable=True),
         segment(BASE, free(20 * MIB), device=1)],
        [entry("segment_alloc", BASE + 64 * MIB, 20 * MIB, time_us=1, stream=7),
         entry("alloc", BASE + 64 * MIB, 5 * MIB, time_us=2, stream=7, frames=who),
         entry("alloc", BASE + 69 * MIB, 3 * MIB, stream=7),
         entry("free_requested", BASE + 69 * MIB, 3 * MIB, stream=7),
         *freed(BASE + 2048, 900), entry("segment_map", BASE + 256 * MIB, 40 * MIB),
         entry("alloc", BASE + 256 * MIB, 30 * MIB),
         entry("alloc", BASE + 286 * MIB, 4 * MIB), *freed(BASE + 286 * MIB, 4 * MIB),
         entry("segment_unmap", BASE + 300 * MIB, 2 * MIB),
         entry("segment_free", BASE + 512 * MIB, 20 * MIB),
         {"action": "oom", "size": 64 * MIB, "device_free": 9 * MIB, "stream": 0},
         entry("snapshot", 0, 0)],
        [entry("alloc", BASE, 2 * MIB), *freed(BASE, 2 * MIB)],
        allocator_settings={"max_split_size": -1, "expandable_segments": False,
                            "roundup_power2_divisions": {"1": 0, "2": 4}})
    grows, size = [], 8 * MIB
    for step in range(30):
        grows += [entry("alloc", BASE + (step + 1) * 64 * MIB, size + 8192), *freed(BASE + step * 64 * MIB, size)]
        size += 8192
    growing = snapshot([segment(BASE + step * 64 * MIB, free(20 * MIB)) for step in range(30)]
                       + [segment(BASE + 30 * 64 * MIB, block(size), free(2 * MIB))], grows)
    return [mixed, growing]


def damaged_values(chance, plain):
    """A few values of the structure are other ones."""
    plain = copy.deepcopy(plain)
    odd = [None, True, -1, 0, 1, 511, 1 << 20, BASE, BASE + 512, BASE + 64 * MIB, (1 << 62) - 1, 1 << 62, 1 << 200,
           2.5, 1e300,
           float("nan"), "", "alloc", "oom", "free_completed", "segment_unmap", "inactive", "\x1b[2J", "<script>",
           "\ud800", [], {}, [[]]]
    for _ in range(chance.choice([1, 1, 2, 5, 20])):
        holder, key = plain, chance.choice(list(plain))
        while isinstance(holder[key], (dict, list)) and holder[key] and chance.random() < 0.93:
            holder = holder[key]
            key = chance.choice(list(holder)) if isinstance(holder, dict) else chance.randrange(len(holder))
        act = chance.random()
        if act < 0.5:
            holder[key] = chance.choice(odd)
        elif act < 0.65:
            del holder[key]
        elif act < 0.75 and isinstance(holder, list):
            holder.insert(key, copy.deepcopy(chance.choice(holder)))
        elif act < 0.85 and isinstance(holder, list):
            chance.shuffle(holder)
        elif act < 0.93 and type(holder[key]) is int:
            holder[key] += chance.choice([-MIB, -512, -1, 1, 512, MIB, 20 * MIB])
        else:
            holder[key] = Watched(chance)
        if not isinstance(plain, dict) or not plain:
            break
    return plain


OPCODES = b"cR\x93\x81\x82boi0123PQ(t\x85\x86\x87lsuaehjqr\x94}])NKMJ\x8a\x8cX."


def damaged_bytes(chance, data):
    data = bytearray(data)
    act = chance.random()
    if act < 0.2:
        return bytes(data[:chance.randrange(len(data))])
    if act < 0.3:
        at = chance.randrange(len(data))
        return bytes(data[:at] + data[chance.randrange(len(data)):])
    for _ in range(chance.choice([1, 1, 1, 3, 10, 100])):
        at = chance.randrange(len(data))
        if chance.random() < 0.5:
            data[at] = chance.randrange(256)
        else:  # an opcode, where one may be
            data[at:at + 1] = bytes([chance.choice(OPCODES)])
    return bytes(data)


def a_file(chance, good):
    """(bytes, what was done)"""
    plain, form = chance.choice(good), chance.choice(["pickle", "pickle", "json"])
    values = chance.random() < 0.6
    if values:
        plain = damaged_values(chance, plain)
    if form == "json":
        try:
            data = json.dumps(plain).encode()
        except (TypeError, ValueError):  # a Watched is in it, or it holds itself
            form = "pickle"
    if form == "pickle":
        data = pickle.dumps(plain, chance.choice([2, 4, 5]))
    if not values or chance.random() < 0.1:
        data = damaged_bytes(chance, data)
    if chance.random() < 0.1:
        data = gzip.compress(data, 1)
        if chance.random() < 0.5:
            data = damaged_bytes(chance, data)
    return data, f"{form}, {'values' if values else 'bytes'}"


def try_one(data):
    """"read" or "refused". Raises for what must not happen."""
    try:
        read = parse_snapshot(data)
    except SnapshotError as error:
        if not str(error) or len(str(error)) > 2000:
            raise AssertionError("a message of no use") from error
        return "refused"
    for device in read.devices[:4]:
        history = history_of(read, device.number)
        end = end_of(history.recording)
        if end.faults:
            raise AssertionError(f"a fault in the recording: {end.faults[0]}")
        of_the_file = [(each.address, each.size_bytes) for record in device.segments for each in record.blocks
                       if each.state != INACTIVE]
        if [piece[:2] for piece in end.layout().pieces] != of_the_file or end.reserved_bytes != device.reserved_bytes:
            raise AssertionError("the end is not the file's")
        text = str(analyse(read, history))
        text.encode()
        if "\x1b" in text:
            raise AssertionError("a control character got through")
        what_if(read, history)
    return "read"


def watch(event, arguments):
    """An audit hook: nothing is called, imported by name of the file, or opened."""
    if watch.on and (event in ("os.system", "exec", "compile", "os.remove", "subprocess.Popen", "pickle.find_class")
                     or event.startswith(("socket.", "shutil."))):
        raise Ran(f"{event} {arguments!r}"[:200])


watch.on = False


def fuzz(runs, seed, most_seconds=MOST_SECONDS):
    """Counts of what happened. Raises, with the run's number, for what must not."""
    if not getattr(watch, "added", False):
        sys.addaudithook(watch)
        watch.added = True
    counts, slowest, good = Counter(), 0.0, good_files()
    for data in good:  # everything that is imported late is imported now
        for form in (pickle.dumps(data), json.dumps(data).encode()):
            assert try_one(form) == "read"
    try:
        parse_snapshot(b"\x80\x02\xff")
    except SnapshotError:
        pass
    for run in range(runs):
        data, what = a_file(random.Random(f"{seed}/{run}"), good)
        started = time.perf_counter()
        watch.on = True
        try:
            answer = try_one(data)
        except BaseException as error:
            error.add_note(f"run {run} of seed {seed}: {what}, {len(data)} bytes")
            raise
        finally:
            watch.on = False
        seconds = time.perf_counter() - started
        if seconds > most_seconds:
            raise AssertionError(f"run {run} of seed {seed} took {seconds:.1f} s: {what}, {len(data)} bytes")
        slowest = max(slowest, seconds)
        counts[what, answer] += 1
    return counts, slowest


def main():
    parser = argparse.ArgumentParser(description="Open snapshots that were damaged by chance.")
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    counts, slowest = fuzz(args.runs, args.seed)
    for (what, answer), number in sorted(counts.items()):
        print(f"{what:16} {answer:8} {number:>7,}")
    print(f"{sum(counts.values()):,} files, nothing else than a snapshot or a SnapshotError; the slowest took "
          f"{slowest * 1000:.0f} ms")


if __name__ == "__main__":
    main()
