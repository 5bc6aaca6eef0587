"""What is written in torch's own structure is read again as the same."""

import gzip
import json
import pickle

import pytest

from pagedkv.core.memory import MemoryRecording, record_memory
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.snapshot.contents import from_plain
from pagedkv.snapshot.demo import GROWING, simulated
from pagedkv.snapshot.history import history_of
from pagedkv.snapshot.read import read_snapshot
from pagedkv.snapshot.write import plain_of_recording, plain_of_snapshot, write_plain
from tests.snapshot.files import BASE, MIB, REAL, block, entry, frames, free, needs_real_files, real, segment, snapshot


@needs_real_files
@pytest.mark.parametrize("name", REAL)
@pytest.mark.parametrize("ending", [".pickle", ".json", ".json.gz"])
def test_the_real_snapshots_come_back(tmp_path, name, ending):
    original = from_plain(real(name))
    path = write_plain(plain_of_snapshot(original), tmp_path / f"again{ending}")
    assert read_snapshot(path) == original
    again = read_snapshot(path)
    assert history_of(again).recording == history_of(original).recording


@needs_real_files
def test_torchs_own_keys_are_all_there():
    plain = plain_of_snapshot(from_plain(real("training")))
    theirs, ours = real("training"), plain
    assert theirs.keys() <= ours.keys()
    assert theirs["segments"][5].keys() <= ours["segments"][5].keys()
    for mine, original in zip(ours["segments"], sorted(theirs["segments"], key=lambda each: each["address"])):
        assert {**mine, "segment_pool_id": list(mine["segment_pool_id"]), "blocks": None, "frames": None} == \
            {**original, "blocks": None, "frames": None}


def test_everything_a_file_may_hold_comes_back(tmp_path):
    plain = snapshot(
        [segment(BASE, block(512, frames=frames(("a.py", 1, "f"), ("b.py", 2, "g"))),
                 block(1024, "active_pending_free", 700),
                 free(2 * MIB - 1536), stream=9, segment_pool_id=(0, 3)),
         segment(BASE + (1 << 30), free(20 * MIB), is_expandable=True, device=2)],
        [entry("alloc", BASE, 512, time_us=7, frames=frames(("a.py", 1, "f"))),
         {"action": "oom", "size": MIB, "device_free": 3},
         {"action": "oom", "size": MIB}, entry("segment_map", BASE, 512), entry("odd", 0, 0)], [], [],
         allocator_settings={"x": 1})
    read = from_plain(plain)
    for ending in (".pickle", ".json"):
        again = read_snapshot(write_plain(plain_of_snapshot(read), tmp_path / f"x{ending}"))
        assert again.settings == read.settings
        for one, other in zip(again.devices, read.devices, strict=True):
            assert one.number == other.number
            assert [each._replace(stack=tuple(each.stack)) for each in one.trace] == \
                [each._replace(stack=tuple(each.stack)) for each in other.trace]
            strip = [[(b[:4], tuple(b.stack)) for b in s.blocks] for s in other.segments]
            assert [[(b[:4], tuple(b.stack)) for b in s.blocks] for s in one.segments] == strip
            assert [s[:6] for s in one.segments] == [s[:6] for s in other.segments]


def test_a_simulated_allocator_is_written_as_if_it_were_a_gpu(tmp_path):
    allocator = CachingAllocator(100 * MIB)
    with record_memory(allocator) as recording:
        first = allocator.allocate("a", 700)
        allocator.record_stream(first, 1)
        allocator.free(first)
        allocator.allocate("b", 30 * MIB)
        try:
            allocator.allocate("c", 90 * MIB)
        except MemoryError:
            pass
        except Exception as error:
            assert type(error).__name__ == "OutOfMemory"
    plain = plain_of_recording(recording, {"expandable_segments": False}, "simulated",
                               lambda event: [{"filename": f"{event.owner}.py", "line": 1, "name": "f"}])
    read = read_snapshot(write_plain(plain, tmp_path / "simulated.json.gz"))
    history = history_of(read)
    assert not history.problems and read.origin == "simulated" and "simulated" in history.recording.source
    ours, theirs = history.end.layout(), allocator.layout()
    assert [(piece.address, piece.size_bytes, piece.held, piece.requested_bytes) for piece in ours.pieces] == \
        [(piece.address, piece.size_bytes, piece.held, piece.requested_bytes) for piece in theirs.pieces]
    assert [segment[:2] for segment in ours.segments] == [segment[:2] for segment in theirs.segments]
    assert history.recording.capacity_bytes == 100 * MIB, "the refusal tells"
    assert "b.py:1 f" in {piece.owner for piece in ours.pieces}


def test_other_allocators_can_be_written_too():
    arena = FirstFit(64 * MIB)
    with record_memory(arena) as recording:
        handle = arena.grow(arena.allocate("a", MIB), 2 * MIB)
        arena.allocate("b", MIB)
        arena.free(handle)
    history = history_of(from_plain(plain_of_recording(recording)))
    assert history.end.used_bytes == sum(piece.size_bytes for piece in arena.layout().pieces)


def test_an_impossible_recording_is_refused():
    allocator = CachingAllocator(100 * MIB)
    with record_memory(allocator) as recording:
        allocator.allocate("a", 700)
    with pytest.raises(ValueError, match="step 1 .* impossible"):
        plain_of_recording(MemoryRecording(None, events=[recording.events[0], recording.events[0]._replace(step=1)]))


def test_the_same_content_gives_the_same_bytes(tmp_path):
    plain = snapshot([segment(BASE, free(2 * MIB))])
    for ending in (".pickle", ".json", ".json.gz"):
        one, other = write_plain(plain, tmp_path / f"one{ending}"), write_plain(plain, tmp_path / f"another{ending}")
        assert one.read_bytes() == other.read_bytes()
    assert json.loads(gzip.decompress((tmp_path / "one.json.gz").read_bytes()))["segments"]
    assert pickle.loads((tmp_path / "one.pickle").read_bytes()) == plain
    with pytest.raises(ValueError, match="written as .pickle"):
        write_plain(plain, tmp_path / "one.txt")


def test_torchs_own_viewer_reads_what_was_written():
    """`python torch/cuda/_memory_viz.py segments | trace` on our recording."""
    viewer = pytest.importorskip("torch.cuda._memory_viz")
    plain = simulated(GROWING)
    assert "total_reserved: 496.0MiB" in viewer.segsum(plain) and "total_allocated: 256.0MiB" in viewer.segsum(plain)
    told = viewer.trace(plain)
    assert f"{len(plain['device_traces'][0])} entries" in told and "cudaMalloc(2097152, 20.0MiB)" in told
