"""The same requests, other settings: near the recording where the settings are the same, and right where they
differ."""

import pytest

from pagedkv.core.errors import OutOfMemory
from pagedkv.core.memory import record_memory
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.workload import Request, Workload, run
from pagedkv.snapshot.contents import from_plain
from pagedkv.snapshot.history import history_of
from pagedkv.snapshot.what_if import BLOCK_BYTES, recorded_settings, table, what_if
from pagedkv.snapshot.write import plain_of_recording
from tests.snapshot.files import BASE, MIB, REAL, block, entry, free, freed, needs_real_files, real, segment, snapshot


def rows_of(plain, capacity_bytes=None):
    read = from_plain(plain)
    return {row.title: row for row in what_if(read, history_of(read), capacity_bytes)}


def recorded(capacity_mib, requests, **settings):
    """requests: (name, MiB) allocates, a name frees."""
    allocator = CachingAllocator(capacity_mib * MIB, **settings)
    handles = {}
    with record_memory(allocator) as recording:
        for request in requests:
            try:
                if isinstance(request, str):
                    allocator.free(handles.pop(request))
                else:
                    handles[request[0]] = allocator.allocate(request[0], int(request[1] * MIB))
            except OutOfMemory:
                pass
    return plain_of_recording(recording, {"max_split_size": settings.get("max_split_size_mb", 0) * MIB or -1,
                                          "expandable_segments": settings.get("expandable_segments", False)})


@needs_real_files
@pytest.mark.parametrize("name", REAL)
def test_the_simulator_follows_a_real_gpu(name):
    """From the recorded start, it never needs a segment that the GPU did not need, and begun afresh its peak is
    within 1 %."""
    rows = rows_of(real(name))
    truth, placed = rows["as recorded"], rows["simulated, from the recorded start"]
    afresh = rows["simulated, begun afresh"]
    assert truth.baseline and placed.baseline and afresh.baseline and not rows["expandable_segments:True"].baseline
    assert (placed.peak_bytes, placed.end_bytes, placed.device_calls) == (truth.peak_bytes, truth.end_bytes, 0)
    assert afresh.peak_bytes == pytest.approx(truth.peak_bytes, rel=0.01)
    assert all(row.num_refused is None for row in rows.values()), "how much the device had is not known"
    assert "garbage_collection_threshold:0.8" not in rows


FRAGMENTED = [("big", 1100), "big", ("a", 16), ("b", 16), ("c", 16), ("d", 16), ("again", 1100)]


def test_what_would_have_helped():
    rows = rows_of(recorded(2048, FRAGMENTED))
    assert rows["as recorded"].num_refused == rows["simulated, begun afresh"].num_refused == 1
    assert rows["expandable_segments:True"].num_refused == 0
    assert rows["paged, blocks of 2 MiB"].num_refused == 0
    assert rows["max_split_size_mb:512"].num_refused == 0, "the large block is kept whole for the second request"
    assert rows["garbage_collection_threshold:0.8"].peak_bytes <= 2048 * MIB


def test_the_rows_of_the_simulator_are_the_simulators():
    rows = rows_of(recorded(2048, FRAGMENTED[:-1]), 4096 * MIB)
    allocator = CachingAllocator(4096 * MIB, expandable_segments=True)
    peak, handles = 0, {}
    for request in FRAGMENTED[:-1]:
        if isinstance(request, str):
            allocator.free(handles.pop(request))
        else:
            handles[request[0]] = allocator.allocate(request[0], request[1] * MIB)
        peak = max(peak, allocator.reserved_bytes)
    row = rows["expandable_segments:True"]
    assert (row.peak_bytes, row.end_bytes) == (peak, allocator.reserved_bytes)
    assert row.device_calls == allocator.num_device_mallocs + allocator.num_device_frees


def test_the_paged_rows_are_those_of_the_paged_allocator():
    requests = [Request("allocate", "a", 3 * MIB + 1), Request("allocate", "b", 700),
                Request("allocate", "c", 40 * MIB),
                Request("free", "a"), Request("allocate", "d", 30 * MIB), Request("allocate", "e", 5 * MIB),
                Request("free", "b")]
    calls = [request.owner if request.op == "free" else (request.owner, request.size_bytes / MIB)
             for request in requests]
    rows = rows_of(recorded(200, calls), 64 * MIB)
    for block_bytes in BLOCK_BYTES:
        allocator = PagedAllocator(64 * MIB, block_bytes)
        refused = sum(event.refused for event in run(Workload("same", tuple(requests)), allocator).events)
        row = next(row for title, row in rows.items() if title.startswith("paged") and row.title.endswith(
            {64 << 10: "64 KiB", 512 << 10: "512 KiB", 2 * MIB: "2 MiB"}[block_bytes]))
        assert (row.num_refused, row.end_bytes) == (refused, allocator.used_bytes) and refused


def test_recorded_settings_are_kept_and_not_tried_twice():
    plain = recorded(2048, FRAGMENTED[:-1], max_split_size_mb=128)
    assert recorded_settings(plain["allocator_settings"]) == {"max_split_size_mb": 128}
    rows = rows_of(plain)
    assert "max_split_size_mb:128" not in rows and "max_split_size_mb:64" in rows
    plain = recorded(2048, FRAGMENTED[:-1], expandable_segments=True)
    rows = rows_of(plain)
    assert "expandable_segments:True" not in rows
    assert "simulated, from the recorded start" not in rows, "expandable segments cannot be put in place"
    assert rows["simulated, begun afresh"].peak_bytes == rows["as recorded"].peak_bytes


@pytest.mark.parametrize("settings, keywords", [
    ({}, {}), ({"max_split_size": -1, "expandable_segments": False, "roundup_power2_divisions": {"1": 0}}, {}),
    ({"max_split_size": 64 * MIB}, {"max_split_size_mb": 64}), ({"max_split_size": "x", "expandable_segments": 1}, {}),
    ({"roundup_power2_divisions": {"1": 4, "2": 8}},
     {"roundup_power2_divisions": {**{1 << power: 0 for power in range(16)}, 1: 4, 2: 8}}),
    ({"roundup_power2_divisions": {"1": 3}}, {}), ({"roundup_power2_divisions": {"x": []}}, {}),
    ({"roundup_power2_divisions": 1.5}, {}),
])
def test_settings_as_files_have_them(settings, keywords):
    assert recorded_settings(settings) == keywords


def test_streams_are_kept_apart():
    plain = snapshot([segment(BASE, block(64 * MIB), stream=1 << 40),
                      segment(BASE + (1 << 30), free(64 * MIB), stream=-5)],
                     [entry("alloc", BASE, 64 * MIB, stream=1 << 40), *freed(BASE + (1 << 30), 64 * MIB, stream=-5)])
    rows = rows_of(plain)
    assert rows["simulated, begun afresh"].end_bytes == 128 * MIB, "one stream cannot have the other one's block"
    many = [entry("alloc", BASE + number * 512, 512, stream=number) for number in range(200)]
    assert rows_of(snapshot([segment(BASE, free(2 * MIB))], many))


def test_without_a_trace_there_is_no_table():
    assert rows_of(snapshot([segment(BASE, free(2 * MIB))])) == {}


def test_the_table_is_aligned():
    lines = table(list(rows_of(recorded(2048, FRAGMENTED)).values())).splitlines()
    assert lines[0].split() == ["at", "first", "peak", "at", "the", "end", "device", "calls", "refused"]
    assert len({len(line) for line in lines}) == 1
