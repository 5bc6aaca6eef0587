"""How fast is the simulated caching allocator? Prints events a second, and ratios to a linear scan in the same run.

    python benchmarks/caching.py [--rounds 7] [--data path/to/data]

An event is one allocate or one free. The workloads: 60,000 random events with up to 400 live allocations between 512
bytes and 100 MiB, of a fixed seed; and the training trace of a real GPU, if the data is there (beside the checkout, in
shared/data). The linear scan follows the same rules the plainest way: a list of free blocks, looked through for every
request and every merge. Variants take turns, CPU time is counted, and medians are compared. All variants must agree on
the memory they end up with.
"""

import argparse
import csv
import json
import random
import statistics
import time
from pathlib import Path

from pagedkv.core.memory import GIVE, TAKE
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.caching_rules import MIB, round_size, segment_size
from pagedkv.snapshot.contents import from_plain
from pagedkv.snapshot.history import history_of

CAPACITY_BYTES = 200 << 30
SHARED_DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
TRAINING = "torch_snapshot_medium_1024_training"


class LinearScan:
    """The same rules without settings and without a limit: free blocks in a list, [size, address, segment] each."""

    def __init__(self):
        self.free_blocks = {True: [], False: []}  # small, large
        self.live = {}  # address → size, requested, segment, small
        self.reserved_bytes = 0
        self.next_address = 2 * MIB

    def allocate(self, owner, size_bytes):
        rounded = round_size(size_bytes)
        small = rounded <= MIB
        fitting = [block for block in self.free_blocks[small] if block[0] >= rounded]
        if fitting:
            best = min(fitting)
            self.free_blocks[small].remove(best)
        else:
            best = [segment_size(rounded), self.next_address, self.next_address]
            self.next_address += best[0]
            self.reserved_bytes += best[0]
        size, address, segment = best
        rest = size - rounded
        if rest >= (512 if small else MIB + 512):
            self.free_blocks[small].append([rest, address + rounded, segment])
        else:
            rounded = size
        self.live[address] = rounded, segment, small
        return address

    def free(self, address):
        size, segment, small = self.live.pop(address)
        blocks = self.free_blocks[small]
        for other in list(blocks):
            if other[2] == segment and other[1] + other[0] == address:
                blocks.remove(other)
                address, size = other[1], size + other[0]
            elif other[2] == segment and address + size == other[1]:
                blocks.remove(other)
                size += other[0]
        blocks.append([size, address, segment])


def random_requests(count=60_000, most_live=400, seed=7):
    """(key, size) for an allocation, (key, 0) for a free."""
    rng, live, requests = random.Random(seed), [], []
    sizes = [512, 4096, 64 << 10, 300 << 10, 2 * MIB, 4 * MIB, 12 * MIB, 16 * MIB + 512, 40 * MIB, 100 * MIB]
    for key in range(count):
        if live and (len(live) == most_live or rng.random() < 0.45):
            at = rng.randrange(len(live))
            live[at], live[-1] = live[-1], live[at]
            requests.append((live.pop(), 0))
        else:
            requests.append((key, rng.choice(sizes) + rng.randrange(2) * rng.randrange(10_000)))
            live.append(key)
    return requests


def training_requests(data):
    """What a real GPU was asked for; what is older than the trace is asked for first."""
    with open(data / f"{TRAINING}_segments.json", encoding="utf-8") as file:
        plain = json.load(file)
    with open(data / f"{TRAINING}_trace.csv", encoding="utf-8", newline="") as file:
        plain["device_traces"] = [[{"action": row["action"], "addr": int(row["addr"]), "size": int(row["size"]),
                                    "stream": int(row["stream"])} for row in csv.DictReader(file)]]
    recording = history_of(from_plain(plain)).recording
    live, requests = {}, []
    for piece in recording.initial.pieces:
        live[piece.address] = len(requests)
        requests.append((len(requests), piece.requested_bytes))
    for event in recording.events:
        for change in event.changes:
            if change.kind == TAKE:
                live[change.address] = len(requests)
                requests.append((len(requests), event.size_bytes))
            elif change.kind == GIVE:
                requests.append((live.pop(change.address), 0))
    return requests


def observed():
    allocator = CachingAllocator(CAPACITY_BYTES)
    allocator.observer = lambda event: None
    return allocator


VARIANTS = {"linear scan": LinearScan, "simulator": lambda: CachingAllocator(CAPACITY_BYTES),
            "simulator, expandable": lambda: CachingAllocator(CAPACITY_BYTES, expandable_segments=True),
            "simulator, observed": observed}


def put(requests, allocator):
    """CPU seconds for all requests."""
    allocate, free, handles = allocator.allocate, allocator.free, {}
    start = time.process_time()
    for key, size in requests:
        if size:
            handles[key] = allocate(key, size)
        else:
            free(handles.pop(key))
    return time.process_time() - start


def compare(title, requests, rounds):
    seconds, reserved = {name: [] for name in VARIANTS}, {}
    for _ in range(rounds):
        for name, make in VARIANTS.items():
            allocator = make()
            seconds[name].append(put(requests, allocator))
            reserved[name] = allocator.reserved_bytes
    if len({reserved[name] for name in VARIANTS if "expandable" not in name}) != 1:
        raise SystemExit(f"the variants do not agree on the memory they reserve: {reserved}")
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    print(f"{title}: {len(requests):,} events")
    for name, median in medians.items():
        print(f"  {name:22}{len(requests) / median:12,.0f} events/s{medians['linear scan'] / median:8.2f} × linear scan"
              f"{reserved[name] / MIB:12,.0f} MiB reserved")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--data", type=Path, default=SHARED_DATA)
    arguments = parser.parse_args()
    compare("random, seed 7", random_requests(), arguments.rounds)
    if (arguments.data / f"{TRAINING}_trace.csv").exists():
        compare("training trace", training_requests(arguments.data), arguments.rounds)
    else:
        print(f"training trace: left out, {arguments.data} is not there")


if __name__ == "__main__":
    main()
