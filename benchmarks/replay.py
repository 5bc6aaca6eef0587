"""How long does the fragmentation lab take from an edit to the new picture? Prints seconds for each allocator.

    python benchmarks/replay.py [--requests 20000] [--rounds 3]

    run      the workload on the allocator, observed
    tape     the recording made into what the browser plays
    summary  the row of the table
    sent     what goes to the page, in MB

Then for a lab of all of them: until an edit is answered, and until it is shown. Each line gives the best of the rounds,
as other programs may take the processor meanwhile.
"""

import argparse
import random
import time

from pagedkv.rivals.buddy import BuddyChunkAllocator
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.fits import BestFit, FirstFit
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.setup import Setup
from pagedkv.rivals.workload import Request, Workload, run
from pagedkv.viz.allocator_summary import outcome_of
from pagedkv.viz.fragmentation_lab import FragmentationLab
from pagedkv.viz.memory_tape import MemoryTape

MIB = 1 << 20
CAPACITY_BYTES = 2048 * MIB
KINDS = (FirstFit, BestFit, BuddyChunkAllocator, CachingAllocator, PagedAllocator)


def random_workload(num_requests: int, seed: int = 1) -> Workload:
    """About 120 owners at a time with up to 48 MiB each, some of whom grow: a bit more than fits."""
    draw, requests, live, sizes = random.Random(seed), [], [], {}
    while len(requests) < num_requests:
        roll = draw.random()
        if live and (roll < 0.35 or len(live) > 120):
            requests.append(Request("free", live.pop(draw.randrange(len(live)))))
        elif live and roll < 0.5:
            owner = draw.choice(live)
            sizes[owner] += draw.randrange(1, 4 * MIB)
            requests.append(Request("grow", owner, sizes[owner]))
        else:
            owner = f"request {len(requests)}"
            sizes[owner] = draw.randrange(MIB, 48 * MIB)
            live.append(owner)
            requests.append(Request("allocate", owner, sizes[owner]))
    return Workload("at random", tuple(requests))


def seconds_of(act) -> tuple[float, object]:
    begin = time.perf_counter()
    result = act()
    return time.perf_counter() - begin, result


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--requests", type=int, default=20_000)
    options.add_argument("--rounds", type=int, default=3)
    options = options.parse_args()
    workload = random_workload(options.requests)
    print(f"{'':<40}{'run':>8}{'tape':>8}{'summary':>9}{'sent':>9}")
    for kind in KINDS:
        best = [float("inf")] * 3
        for _ in range(options.rounds):
            ran, recording = seconds_of(lambda: run(workload, kind(CAPACITY_BYTES)))
            taped, tape = seconds_of(lambda: MemoryTape(recording))
            counted, _ = seconds_of(lambda: outcome_of(recording, tape))
            best = [min(pair) for pair in zip(best, (ran, taped, counted))]
        sent = sum(len(value) for value in tape.message().values() if isinstance(value, bytes)) / 1e6
        print(f"{recording.source:<40}{best[0]:>7.2f}s{best[1]:>7.2f}s{best[2]:>8.3f}s{sent:>6.1f} MB")

    lab = FragmentationLab(workload, *map(Setup, KINDS), capacity_bytes=CAPACITY_BYTES)
    answered = shown = float("inf")
    for size_bytes in range(1, options.rounds + 1):
        edit = {"kind": "lab", "ticket": "benchmark", "do": "resize", "number": 0, "size_bytes": size_bytes * MIB,
                "version": lab.lab_requests["version"]}
        begin = time.perf_counter()
        lab._handle_custom_msg(edit, [])
        answered = min(answered, time.perf_counter() - begin)
        assert lab.recordings[0].events[0].size_bytes == size_bytes * MIB
        shown = min(shown, time.perf_counter() - begin)
    print(f"an edit in a lab of these {len(KINDS)}: answered after {answered:.3f} s, replayed after {shown:.2f} s")


if __name__ == "__main__":
    main()
