"""The findings: each where it belongs, with the right numbers, and none where all is well."""

import pytest

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import record_memory
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.snapshot.analysis import THRESHOLDS, analyse
from pagedkv.snapshot.contents import from_plain
from pagedkv.snapshot.history import history_of
from pagedkv.snapshot.write import plain_of_recording
from tests.snapshot.files import (BASE, MIB, REAL, block, entry, frames, free, freed, needs_real_files, real, segment,
                                  snapshot)

GIB = 1 << 30
WHO = frames(("torch/nn/modules/linear.py", 114, "forward"), ("model.py", 88, "attention"), ("train.py", 3, "main"))


def looked_at(plain, capacity_bytes=None):
    read = from_plain(plain)
    return analyse(read, history_of(read), capacity_bytes)


def kinds(analysis):
    return [finding.kind for finding in analysis.findings]


def the(analysis, kind):
    found = [finding for finding in analysis.findings if finding.kind == kind]
    assert len(found) == 1, kinds(analysis)
    return found[0]


def simulated(capacity_mib, calls, **settings):
    """A recording of the simulated allocator in torch's structure. calls: sizes in MiB to allocate, or names to
    free; a pair
    (name, MiB) allocates under this name."""
    allocator = CachingAllocator(capacity_mib * MIB, **settings)
    handles = {}
    with record_memory(allocator) as recording:
        for call in calls:
            try:
                if isinstance(call, str):
                    allocator.free(handles.pop(call))
                else:
                    name, size = call if isinstance(call, tuple) else ("kept", call)
                    handles[name if isinstance(call, tuple) else len(handles)] = allocator.allocate(name,
                                                                                                    int(size * MIB))
            except OutOfMemory:
                pass
    return plain_of_recording(recording)


@needs_real_files
def test_the_figures_of_the_real_snapshots():
    figures = looked_at(real("training")).figures
    assert (figures.reserved_bytes, figures.num_segments, figures.num_wholly_free) == (24012 * MIB, 234, 71)
    assert round(figures.allocated_bytes / MIB) == 6556 and round(figures.inactive_split_bytes / MIB) == 6410
    assert figures.wholly_free_bytes + figures.inactive_split_bytes + figures.allocated_bytes == figures.reserved_bytes
    assert figures.capacity_bytes is None and figures.num_entries == 22331 and round(figures.seconds, 3) == 0.647
    figures = looked_at(real("inference")).figures
    assert round(figures.inactive_split_bytes / MIB, 1) == 13.2 and figures.reserved_bytes == 3056 * MIB


@needs_real_files
@pytest.mark.parametrize("name, expected", [
    ("inference", ["unallocated", "wholly free", "inactive split misleads"]),
    ("training", ["unallocated", "segments of one size", "wholly free", "inactive split misleads", "inactive split",
                  "pinned segments"])])
def test_the_findings_of_the_real_snapshots(name, expected):
    analysis = looked_at(real(name))
    assert kinds(analysis) == expected
    stakes = [finding.stake_bytes for finding in analysis.findings]
    assert stakes == sorted(stakes, reverse=True) and min(stakes) >= THRESHOLDS.least_bytes
    if name == "training":
        assert "71 segments" in the(analysis, "wholly free").title
        pinned = the(analysis, "pinned segments")
        assert len(pinned.addresses) == 24 and "0x8fd600000, 256 MiB: kept by 4 MiB in 1 block" in pinned.evidence[0]
        assert "since entry 9,442 of 22,331" in pinned.evidence[1]
        assert any("438 blocks" in remark for remark in analysis.remarks)
    assert analysis.owners[0].name == "16 MiB"


def test_a_memory_that_is_in_use_has_no_findings():
    analysis = looked_at(snapshot([segment(BASE, block(600 * MIB)),
                                   segment(BASE + GIB, block(500 * MIB), free(20 * MIB))]))
    assert analysis.findings == ()


def test_a_fragmented_refusal_as_in_a_real_report():
    """A device of 2048 MiB: 1100 used and freed, 4 × 16 in its place, then 1100 again. 948 are free and none is long
    enough."""
    analysis = looked_at(simulated(2048, [("big", 1100), "big", 16, 16, 16, 16, 1100]))
    refusal = analysis.findings[0]
    assert refusal.kind == "out of memory" and "this is fragmentation" in refusal.title
    assert "the longest 1.01 GiB" in refusal.evidence[0] and "948 MiB left" in refusal.evidence[0]
    assert "1.94 GiB were free in all" in refusal.title
    assert any("expandable_segments" in advice for advice in refusal.advice)
    assert analysis.figures.capacity_bytes == 2048 * MIB


def test_an_exhausted_refusal():
    refusal = looked_at(simulated(1000, [("weights", 900), ("cache", 64), ("more", 300)])).findings[0]
    assert "it is full, and no allocator could have served this" in refusal.title
    assert "had then: 900 MiB in 1 block: 900 MiB" in refusal.evidence


def test_the_message_of_torch_names_the_segment():
    refusal = looked_at(simulated(1000, [("weights", 990), ("more", 3)])).findings[0]
    assert "3 MiB asked for (20 MiB of the device, the figure in PyTorch's message)" in refusal.title


def test_a_refusal_by_a_limit():
    plain = snapshot([segment(BASE, block(2 * MIB))],
                     [{"action": "oom", "size": 64 * MIB, "device_free": GIB, "frames": WHO}])
    refusal = looked_at(plain).findings[0]
    assert "a limit of the program's own" in refusal.title and "set_per_process_memory_fraction" in refusal.advice[0]
    assert "the request came from model.py:88 attention ← train.py:3 main" in refusal.evidence


def test_a_refusal_because_the_free_memory_is_another_streams():
    plain = snapshot([segment(BASE, free(100 * MIB), stream=7), segment(BASE + GIB, block(64 * MIB))],
                     [{"action": "oom", "size": 64 * MIB, "device_free": MIB, "stream": 0}])
    assert "belongs to another stream" in looked_at(plain).findings[0].title


def test_a_refusal_while_memory_is_pending():
    plain = snapshot([segment(BASE, block(100 * MIB, "active_pending_free"))],
                     [{"action": "oom", "size": 64 * MIB, "device_free": MIB}])
    analysis = looked_at(plain)
    assert "if the other streams were through" in analysis.findings[0].title
    assert "wait for another stream" in the(analysis, "pending").title


def test_an_oom_without_what_the_device_had():
    analysis = looked_at(snapshot([], [{"action": "oom", "size": 64 * MIB}, {"action": "oom", "size": 64 * MIB}]))
    assert "a free amount that the file does not tell" in analysis.findings[0].evidence[0]
    assert any("the last of 2 failed requests" in line for line in analysis.findings[0].evidence)


def test_memory_outside_of_pytorch():
    oom = {"action": "oom", "size": 64 * MIB, "device_free": 10 * MIB}
    plain = snapshot([segment(BASE, block(20 * GIB))], [oom])
    assert "outside PyTorch" not in kinds(looked_at(plain))
    outside = the(looked_at(plain, 24 * GIB), "outside PyTorch")
    assert outside.stake_bytes == 4 * GIB - 10 * MIB and "3.99 GiB of the card's 24 GiB" in outside.title
    growing = snapshot([segment(BASE, block(20 * GIB))], [{**oom, "device_free": 500 * MIB}, oom])
    assert "490 MiB went to somebody outside" in the(looked_at(growing), "outside PyTorch").title


def test_pinned_segments_name_who_pins_them():
    analysis = looked_at(snapshot([segment(BASE + number * GIB, block(2 * MIB, frames=WHO), free(98 * MIB))
                                   for number in range(7)],
                                  [entry("alloc", BASE, 2 * MIB, frames=WHO)]))
    pinned = the(analysis, "pinned segments")
    assert pinned.stake_bytes == 7 * 98 * MIB
    assert "7 segments of 700 MiB are kept from going back by 14 MiB" in pinned.title
    assert "    2 MiB at 0x7f0000000000, since entry 0 of 1, from model.py:88 attention ← train.py:3 main" in \
        pinned.evidence
    assert "older than the trace" in pinned.evidence[3] and pinned.evidence[-1] == "and 2 more"


def test_expandable_segments_are_neither_split_nor_pinned():
    analysis = looked_at(snapshot([segment(BASE, block(2 * MIB), free(98 * MIB), is_expandable=True)]))
    assert kinds(analysis) == ["unallocated", "inactive split misleads"]
    assert analysis.figures.expandable_free_bytes == 98 * MIB


def test_segments_of_one_size():
    analysis = looked_at(snapshot([segment(BASE + number * GIB, block(5 * MIB), free(15 * MIB))
                                   for number in range(10)]))
    finding = the(analysis, "segments of one size")
    assert "10 × 20 MiB; 150 MiB of them are free" in finding.title
    assert "any request above 1 and below 10 MiB" in finding.evidence[0]


def test_rounding():
    settings = {"roundup_power2_divisions": 2}
    plain = simulated(4096, [48.1] * 10, **settings) | {"allocator_settings": settings}
    finding = the(looked_at(plain), "rounding")
    assert finding.stake_bytes == pytest.approx(10 * 15.9 * MIB,
                                                rel=1e-3) and "roundup_power2_divisions is set" in finding.advice[0]
    assert "48.1 MiB asked for, 64 MiB taken" in finding.evidence[1]


def grown(steps, step, tensors=4, held=False):
    """A cache that grows by concatenation."""
    trace, sizes, live = [], [8 * MIB] * tensors, {}
    place = iter(range(BASE, BASE + (1 << 45), 64 * MIB))
    for number in range(tensors):
        live[number] = next(place)
        trace.append(entry("alloc", live[number], sizes[number], frames=WHO))
    for _ in range(steps):
        old = dict(live)
        for number in range(tensors):
            live[number] = next(place)
            sizes[number] += step
            trace.append(entry("alloc", live[number], sizes[number], frames=WHO))
            if not held:
                trace += freed(old[number], sizes[number] - step)
        if held:
            for number in range(tensors):
                trace += freed(old[number], sizes[number] - step)
    segments = [segment(address, block(sizes[number])) for number, address in live.items()]
    return snapshot(segments, trace)


@pytest.mark.parametrize("held", [False, True])
def test_a_cache_that_grows(held):
    finding = the(looked_at(grown(20, 128 << 10, held=held)), "growing cache")
    assert "4 tensors grew by 128 KiB at a time, up to 20 times, from 8 MiB to 10.5 MiB" in finding.evidence
    assert "at model.py:88 attention (4 tensors)" in finding.evidence


def test_what_does_not_grow_is_no_cache():
    same = [each for _ in range(50) for each in (entry("alloc", BASE, 8 * MIB), *freed(BASE, 8 * MIB))]
    assert "growing cache" not in kinds(looked_at(snapshot([segment(BASE, free(20 * MIB))], same)))
    assert "growing cache" not in kinds(looked_at(grown(5, 128 << 10))), "too few steps"
    shrinks = grown(20, 128 << 10)
    shrinks["device_traces"][0].reverse()
    assert "growing cache" not in kinds(looked_at({**shrinks, "segments": []}))


@needs_real_files
@pytest.mark.parametrize("name", REAL)
def test_no_cache_grows_in_the_real_snapshots(name):
    assert "growing cache" not in kinds(looked_at(real(name)))


def test_a_file_without_a_trace_says_how_to_get_one():
    analysis = looked_at(snapshot([segment(BASE, free(64 * MIB))]))
    assert any("_record_memory_history()" in remark for remark in analysis.remarks)
    assert "holds nothing" in looked_at(snapshot([], [])).remarks[0]


def test_a_trace_that_max_entries_has_cut():
    trace = [each for _ in range(500) for each in freed(BASE, 512)[1:] + [entry("alloc", BASE, 512)]]
    remarks = looked_at(snapshot([segment(BASE, block(512), free(2 * MIB - 512))], trace)).remarks
    assert any("exactly 1,000 entries" in remark for remark in remarks)


def test_what_does_not_add_up_is_told():
    plain = snapshot([segment(BASE, free(2 * MIB))], freed(BASE, 512) + freed(BASE, 512))
    assert any("do not add up" in remark or "adds up" in remark for remark in looked_at(plain).remarks)


def test_the_text_has_all():
    text = str(looked_at(simulated(2048, [("big", 1100), "big", 16, 16, 16, 16, 1100])))
    assert "1. Out of memory" in text and "reserved 1.07 GiB in 1 segment" in text and "\n  → " in text
