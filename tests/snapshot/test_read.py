"""Whatever file somebody brings: it is read, or the message says what it is instead and what to do."""

import copy
import gzip
import json
import pickle
import struct
import zipfile

import pytest

from pagedkv.snapshot.contents import INACTIVE, PENDING, from_plain
from pagedkv.snapshot.errors import SnapshotError
from pagedkv.snapshot.read import parse_snapshot, read_snapshot
from tests.snapshot.files import (BASE, DATA, MIB, REAL, block, entry, frames, free, freed, needs_real_files, real,
                                  segment, snapshot)

TWO_MIB = [segment(BASE, block(1024, requested=700), free(2 * MIB - 1024))]
FIGURES = {"inference": (108, 14, 3056.0, 1624.8, 3840), "training": (234, 71, 24012.0, 6556.0, 22331)}


@needs_real_files
@pytest.mark.parametrize("name", REAL)
def test_the_real_snapshots_have_the_figures_of_their_description(name):
    device = parse_snapshot(pickle.dumps(real(name))).device()
    wholly_free = sum(not each.active_bytes for each in device.segments)
    assert (len(device.segments), wholly_free, device.reserved_bytes / MIB, round(device.allocated_bytes / MIB, 1),
            len(device.trace)) == FIGURES[name]


@needs_real_files
@pytest.mark.parametrize("name", REAL)
def test_all_forms_hold_the_same(name):
    plain = real(name)
    text = json.dumps(plain).encode()
    forms = [pickle.dumps(plain, 2), pickle.dumps(plain, 4), pickle.dumps(plain, 5), text, gzip.compress(text, 1),
             gzip.compress(pickle.dumps(plain), 1)]
    first, *others = [parse_snapshot(form) for form in forms]
    assert all(other == first for other in others)


def test_the_form_is_told_by_the_content(tmp_path):
    path = tmp_path / "oom.txt"
    for form in (pickle.dumps(snapshot(TWO_MIB)), json.dumps(snapshot(TWO_MIB)).encode()):
        for data in (form, gzip.compress(form)):
            path.write_bytes(data)
            assert read_snapshot(path).device().reserved_bytes == 2 * MIB


@pytest.mark.parametrize("data, what", [
    (b"", "is empty"),
    (gzip.compress(b""), "empty inside"),
    (b"\x80", "ends at byte 1"),
    (b"\x00" * 5000, "zero bytes"),
    (b"hello", "neither a pickle nor JSON"),
    (b"<!DOCTYPE html><html>", "HTML page"),
    (b"  <html>", "HTML page"),
    (b'{"segments": [', "cut off"),
    (b'{"segments": [{"address": "0x', "cut off"),
    (b'{"segments": [}', "no JSON: .* line 1, column 15"),
    (b'{"segments": "\xff"}', "byte 14 is not UTF-8"),
    (b"[" * 200_000, "levels deep"),
    (b'{"a":' * 200_000, "levels deep"),
    (b'{"segments": ' + b"1" * 5000 + b"}", "thousands of digits"),
    (b'{"traceEvents": []}', "trace of the PyTorch profiler"),
    (b"[[-1, 1, 512, 7]]", "memory timeline"),
    (gzip.compress(b"[[-1, 1, 512, 7]]"), "memory timeline"),
    (b"[]", None),
    (b"{}", "neither 'segments' nor 'device_traces', but nothing at all"),
    (b'{"model": 1, "optimizer": 2}', "but 'model', 'optimizer'"),
    (pickle.dumps("a string"), "this holds a string"),
    (pickle.dumps(None), "this holds None"),
    (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", "torch checkpoint"),
    (gzip.compress(b"x" * 100)[:-20], "cut off"),
    (b"\x1f\x8b\x08\x00" + b"\xff" * 50, "damaged"),
])
def test_other_files_are_told_by_name(data, what):
    if what is None:
        assert parse_snapshot(data).device().segments == ()
        return
    with pytest.raises(SnapshotError, match=what):
        parse_snapshot(data)


def test_a_checkpoint_is_told(tmp_path):
    path = tmp_path / "model.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", b"\x80\x02}.")
    with pytest.raises(SnapshotError, match="torch.save"):
        read_snapshot(path)
    with pytest.raises(SnapshotError, match="is a folder"):
        read_snapshot(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_snapshot(tmp_path / "missing")


def test_a_checkpoint_of_torchs_own_is_told(tmp_path):
    torch = pytest.importorskip("torch")
    for new in (True, False):
        torch.save({"weight": torch.zeros(3)}, tmp_path / "model.pt", _use_new_zipfile_serialization=new)
        with pytest.raises(SnapshotError, match="checkpoint"):
            read_snapshot(tmp_path / "model.pt")


@needs_real_files
def test_the_profilers_timeline_is_told():
    with pytest.raises(SnapshotError, match="memory timeline of the PyTorch profiler"):
        read_snapshot(DATA / "torch_memory_timeline.raw.gz")


def test_a_bomb_in_a_gzip_file_is_refused():
    bomb = gzip.compress(b"[" + b" " * (70 << 20), 6)
    assert len(bomb) < 1 << 20
    with pytest.raises(SnapshotError, match="compresses that well"):
        parse_snapshot(bomb)


def test_one_list_in_many_places_is_no_recording():
    """A small pickle that stands for ten thousand million blocks."""
    blocks = [block(512) for _ in range(1000)]
    one = segment(BASE, *blocks)
    data = pickle.dumps({"segments": [one] * 10_000, "device_traces": []})
    assert len(data) < 200_000
    with pytest.raises(SnapshotError, match="over and over"):
        parse_snapshot(data)


@pytest.mark.parametrize("change, what", [
    (lambda s: s.update(segments={}), r"segments: expected a list, found a dict"),
    (lambda s: s["segments"].append(3), r"segments\[1\]: expected a dict, found the int 3"),
    (lambda s: s["segments"][0].pop("address"), r"segments\[0\]\.address: it is missing"),
    (lambda s: s["segments"][0].update(address=-1),
     r"segments\[0\]\.address: expected a number of bytes, found the int -1"),
    (lambda s: s["segments"][0].update(address=True), r"segments\[0\]\.address: .* found True"),
    (lambda s: s["segments"][0].update(total_size="2"), r"segments\[0\]\.total_size: .* found a string"),
    (lambda s: s["segments"][0].update(total_size=1 << 100), r"segments\[0\]\.total_size: .* an int of 101 bits"),
    (lambda s: s["segments"][0].update(total_size=512), r"segments\[0\]\.blocks: they reach to .* beyond"),
    (lambda s: s["segments"][0].update(device=1 << 40), r"segments\[0\]\.device"),
    (lambda s: s["segments"][0].update(blocks=7), r"segments\[0\]\.blocks: expected a list"),
    (lambda s: s["segments"][0]["blocks"].append("x"), r"segments\[0\]\.blocks\[2\]: expected a dict, found a string"),
    (lambda s: s["segments"][0]["blocks"][1].update(address=BASE),
     r"segments\[0\]\.blocks\[1\]\.address: .* before the end"),
    (lambda s: s["segments"][0]["blocks"][0].update(size=0), r"segments\[0\]\.blocks\[0\]\.size: a block of 0 bytes"),
    (lambda s: s["segments"][0]["blocks"][0].update(state="used"),
     r"segments\[0\]\.blocks\[0\]\.state: .* found 'used'"),
    (lambda s: s["segments"][0]["blocks"][0].pop("state"), r"segments\[0\]\.blocks\[0\]\.state: .* found None"),
    (lambda s: s["segments"][0]["blocks"][0].update(state=[]), r"segments\[0\]\.blocks\[0\]\.state: .* found a list"),
    (lambda s: s.update(device_traces=[7]), r"device_traces\[0\]: expected a list"),
    (lambda s: s.update(device_traces=[[], [None]]), r"device_traces\[1\]\[0\]: expected a dict, found None"),
    (lambda s: s.update(device_traces=[[{"addr": 1}]]), r"device_traces\[0\]\[0\]\.action: expected a word"),
    (lambda s: s.update(device_traces=[[{"action": "alloc", "size": 1}]]),
     r"device_traces\[0\]\[0\]\.addr: it is missing"),
    (lambda s: s.update(device_traces=[[{"action": "alloc", "addr": 1}]]),
     r"device_traces\[0\]\[0\]\.size: it is missing"),
    (lambda s: s.update(device_traces=[[entry("alloc", "1", 1)]]), r"device_traces\[0\]\[0\]\.addr: .* found a string"),
])
def test_a_wrong_structure_is_told_with_its_place(change, what):
    plain = copy.deepcopy(snapshot(TWO_MIB))
    change(plain)
    for data in (pickle.dumps(plain), json.dumps(plain).encode()):
        with pytest.raises(SnapshotError, match=what):
            parse_snapshot(data)


def test_what_older_and_newer_versions_leave_out_or_add():
    old = snapshot([{"address": BASE, "total_size": 2 * MIB, "stream": 0, "segment_type": "small", "blocks": [
        {"size": 1024, "state": "active_awaiting_free", "history": [{"addr": BASE, "real_size": 700,
                                                                       "frames": frames(("a.py", 1, "f"))}]},
        {"size": 2 * MIB - 1024, "state": "inactive"}]}],
        [{"action": "alloc", "addr": BASE, "size": 700, "stream": 0},
         {"action": "snapshot", "addr": 0, "size": 0, "stream": 0}])
    device = from_plain(old).device()
    pending, rest = device.segments[0].blocks
    assert (pending.state, pending.requested_bytes, pending.stack.site) == (PENDING, 700, "a.py:1 f")
    assert (rest.address, rest.state, rest.requested_bytes) == (BASE + 1024, INACTIVE, 2 * MIB - 1024)
    assert device.trace[0].time_us is None and not device.trace[0].stack

    new = snapshot(TWO_MIB, [entry("alloc", BASE, 700, time_us=1, frames=None, user_metadata="x", pool_id=(0, 0),
                                   new_key=[1]),
                             entry("annotate", BASE, 0), entry("of the future", 0, 0)],
                   host_segments=[1], host_traces=[], external_annotations=[], allocator_settings={"a": 1})
    read = from_plain(new)
    assert [each.action for each in read.device().trace] == ["alloc", "annotate", "of the future"]
    assert read.settings == {"a": 1} and "pinned host memory" in read.remarks[0]
    assert from_plain(TWO_MIB).device().reserved_bytes == 2 * MIB, "torch.cuda.memory_snapshot() is the list alone"


def test_a_segment_without_size_or_kind():
    device = from_plain([{"address": BASE, "blocks": [{"size": 20 * MIB, "state": "inactive"}]}]).device()
    assert (device.segments[0].size_bytes, device.segments[0].kind) == (20 * MIB, "large")


def test_numbers_that_went_through_javascript():
    assert from_plain([{"address": float(BASE), "total_size": 2097152.0}]).device().reserved_bytes == 2 * MIB


def test_several_devices_and_which_one_is_meant():
    plain = snapshot([segment(BASE, free(2 * MIB)), segment(BASE + MIB * 64, free(20 * MIB), device=2)],
                     [], [entry("alloc", BASE, 1)], [])
    read = from_plain(plain)
    assert [(each.number, each.reserved_bytes, len(each.trace)) for each in read.devices] == \
        [(0, 2 * MIB, 0), (1, 0, 1), (2, 20 * MIB, 0)]
    assert read.device().number == 2 and read.device(1).number == 1
    with pytest.raises(SnapshotError, match="no device 3; it has 0, 1, 2"):
        read.device(3)


def test_an_empty_device():
    device = from_plain(snapshot([], [])).device()
    assert (device.number, device.segments, device.trace) == (0, (), ())


def test_overlapping_segments_are_left_out_with_a_remark():
    read = from_plain([segment(BASE, free(20 * MIB)), segment(BASE + MIB, free(2 * MIB))])
    assert read.device().reserved_bytes == 20 * MIB and "overlaps" in read.remarks[0]


def test_an_oom_tells_what_the_device_had():
    trace = from_plain(snapshot([], [{"action": "oom", "device_free": 5 * MIB, "size": 20 * MIB, "stream": 0},
                                     {"action": "oom", "size": 20 * MIB}])).device().trace
    assert [each.device_free_bytes for each in trace] == [5 * MIB, None]


def test_the_site_is_the_innermost_line_that_is_not_torchs():
    stack = from_plain(snapshot([], [entry("alloc", BASE, 1, frames=frames(
        ("??", 0, "c10::cuda::malloc"), ("/pytorch/aten/src/Tensor.cpp", 9, "at::empty"),
        ("/usr/lib/python3.11/site-packages/torch/functional.py", 7, "cat"),
        ("C:\\mine\\model\\attention.py", 88, "forward"),
        ("/home/me/train.py", 3, "main")))])).device().trace[0].stack
    assert stack.site == "attention.py:88 forward"
    assert [frame.line for frame in stack[3:]] == [88, 3] and len(stack) == 5


def test_frames_of_any_kind_do_no_harm():
    for odd in ([1, None, "text", [], {"filename": 3, "line": "x", "name": None}], "text", 7, {}, [[[]]]):
        plain = snapshot([segment(BASE, block(2 * MIB, frames=odd))], [entry("alloc", BASE, 2 * MIB, frames=odd)])
        device = from_plain(plain).device()
        assert all(str(frame) for frame in device.trace[0].stack)
        assert device.segments[0].blocks[0].stack.site == ""


def test_a_name_cannot_control_a_terminal():
    stack = from_plain(snapshot([], [entry("alloc", BASE, 1,
                                           frames=frames(("a\x1b[2J\ud800.py", 1, "f\n\r\u202e")))])).device() \
        .trace[0].stack
    assert stack.site.isprintable() and stack.site.encode()


def test_progress_is_told_for_many_entries():
    told = []
    many = [each for _ in range(60_000) for each in freed(BASE, 512)]
    from_plain(snapshot([], many), on_progress=lambda done, total: told.append((done, total)))
    assert told == [(100_000, 120_000)]


def test_struct_sizes_are_those_of_the_file():
    """A count that claims more than there is never gets that far."""
    data = pickle.dumps(snapshot(TWO_MIB), 4)
    longer = data.replace(struct.pack("<Q", len(data) - 11), struct.pack("<Q", 1 << 60))
    assert longer != data
    try:
        parse_snapshot(longer)
    except SnapshotError:
        pass
