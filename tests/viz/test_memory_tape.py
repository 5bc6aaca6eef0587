"""A memory tape says at every frame what MemoryState says, in Python and in the browser's own code."""

import base64
import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pagedkv.core.memory import Layout, MemoryRecording, Segment, as_text
from pagedkv.core.memory_replay import replay_memory
from pagedkv.rivals.fits import FirstFit
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.workload import Workload, run
from pagedkv.viz.memory_layout import lay_out
from pagedkv.viz.memory_tape import PINNED_FREE_SHARE, MemoryTape
from pagedkv.viz.memory_words import fragmentation, memory_caption, summary
from pagedkv.viz.names import NO_NAME
from tests.viz.memory_recordings import (MIB, OWNERS, events_of, exhausted, fragmented, pinned,
                                         random_memory_recording)

JS = Path(__file__).with_name("js")
needs_node = pytest.mark.skipif(shutil.which("node") is None,
                                reason="Node runs the front end's tests; it is not on PATH")


def in_the_browser(tape, frames=(), sizes=(), width=600):
    """What the front end's modules make of a tape, under Node."""
    message = tape.message()
    packed = [name for name, value in message.items() if isinstance(value, bytes)]
    message |= {name: base64.b64encode(message[name]).decode() for name in packed} | {"packed": packed}
    asked = {"message": message, "frames": list(frames), "sizes": list(sizes), "width": width}
    run = subprocess.run(["node", str(JS / "show_memory.mjs")], text=True, capture_output=True, timeout=60,
                         input=json.dumps(asked))
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.mark.parametrize("seed", range(10))
def test_every_moment_is_that_of_memory_state(seed):
    recording = random_memory_recording(seed)
    tape = MemoryTape(recording)
    names = {number: owner for owner, number in tape._names.numbers.items()}
    for frame, state in enumerate(replay_memory(recording)):
        moment, layout = tape.moment(frame), state.layout()
        assert moment.segments == [tuple(segment) for segment in layout.segments]
        assert [(piece.address, piece.size_bytes, names[piece.owner], piece.requested_bytes, piece.held)
                for piece in moment.pieces] == [tuple(piece) for piece in layout.pieces]
        assert moment.free_runs() == list(state.free)
        assert [tape.used[frame], tape.requested[frame], tape.reserved[frame], tape.held[frame],
                tape.largest_free[frame], tape.free_at(frame)] == [
            state.used_bytes, state.requested_bytes, state.reserved_bytes, state.held_bytes, state.largest_free_bytes,
            state.free_bytes]
    assert tape.num_changes > 25 and any("faults" in note for note in tape._notes), "or it tests nothing"


@needs_node
@pytest.mark.parametrize("seed", range(5))
def test_the_browser_shows_what_memory_state_says(seed):
    recording = random_memory_recording(seed)
    tape, chance = MemoryTape(recording), random.Random(seed)
    ways = [len(recording), 0, *range(0, 60), *range(60, 30, -1), *chance.choices(range(len(recording) + 1), k=40)]
    states = [tape.moment(frame) for frame in range(len(recording) + 1)]
    for frame, shown in zip(ways, in_the_browser(tape, ways)["shown"], strict=True):
        moment = states[frame]
        assert shown["segments"] == [list(segment) for segment in moment.segments]
        assert shown["pieces"] == [[piece.address, piece.size_bytes, piece.owner, piece.requested_bytes, piece.held]
                                   for piece in moment.pieces]
        assert shown["sums"] == shown["columns"] == [tape.used[frame], tape.requested[frame], tape.reserved[frame],
                                                     tape.held[frame], tape.largest_free[frame]]
        assert shown["runs"] == [list(run) for run in moment.free_runs()]
        assert shown["pinned"] == [[each.address, each.free_bytes, [piece.address for piece in each.pieces]]
                                   for each in moment.pinned()]
        owned = [[0, 0] for _ in tape.owners]
        for piece in moment.pieces:
            owned[piece.owner][0] += 1
            owned[piece.owner][1] += piece.size_bytes
        assert shown["owners"] == owned
        assert shown["caption"] == memory_caption(tape, frame)
        decision = tape.decision(frame - 1) if frame else None
        if decision is None:
            assert shown["decision"] is None
        else:
            assert shown["decision"] == {
                "asked": decision.asked_bytes, "rounded": decision.rounded_bytes, "numLooks": decision.num_looks,
                "looks": [{"what": look.what, "address": look.address, "size": look.size_bytes, "verdict": look.verdict}
                          for look in decision.looks], "notes": list(decision.notes)}


@pytest.mark.parametrize("make", [fragmented, exhausted, pinned, lambda: random_memory_recording(3)])
def test_decisions_arrive_whole(make):
    recording = make()
    tape = MemoryTape(recording)
    for number, event in enumerate(recording.events):
        assert tape.decision(number) == event.detail.get("decision")


@needs_node
def test_sizes_in_words_are_those_of_as_text():
    chance = random.Random(1)
    sizes = [0, 1, 1023, 1024, 1280, 1408, 1792, 10 * MIB, MIB + MIB // 4, MIB + 3 * MIB // 4, 5 << 28,
             (1 << 30) + (5 << 20), 999 << 30, 80 << 30,
             *(chance.randrange(1 << chance.randrange(1, 45)) for _ in range(300)),
             *(chance.randrange(1, 4000) * 128 for _ in range(300))]
    assert in_the_browser(MemoryTape(MemoryRecording(None)), sizes=sizes)["texts"] == [as_text(size) for size in sizes]


@needs_node
@pytest.mark.parametrize("make, width", [(fragmented, 620), (pinned, 333.5), (lambda: random_memory_recording(4), 47),
                                         (lambda: many_segments(), 575), (lambda: MemoryRecording(5), 300)])
def test_print_and_screen_have_the_same_layout(make, width):
    tape = MemoryTape(make())
    layout, shown = lay_out(tape, width, 400), in_the_browser(tape, width=width)["layout"]
    assert shown["rowBytes"] == layout.row_bytes and shown["rows"] == layout.num_rows
    assert shown["words"] == [[word.address, word.end, word.row, word.at] for word in layout.words]


@needs_node
def test_they_have_it_too_where_a_row_is_given_its_bytes():
    tape = MemoryTape(pinned(), row_bytes=3 * MIB)
    layout, shown = lay_out(tape, 333.5, 400), in_the_browser(tape, width=333.5)["layout"]
    assert shown["rowBytes"] == layout.row_bytes == 3 * MIB and shown["rows"] == layout.num_rows
    assert shown["words"] == [[word.address, word.end, word.row, word.at] for word in layout.words]


def many_segments(seed=2, segments=500):
    chance, at, made = random.Random(seed), 1 << 45, []
    for _ in range(segments):
        size = chance.choice([2, 2, 2, 20, 20, 64, 1000]) * MIB
        made.append(Segment(at, size, "large"))
        at += size + chance.choice([0, 0, MIB, 1 << 33])
    return MemoryRecording(1 << 40, "many", Layout(tuple(made)))


def test_words_of_what_happened():
    tape = MemoryTape(fragmented())
    assert memory_caption(tape, 0) == "before the first event: nothing is in use"
    assert memory_caption(tape, 1) == "allocate(A, 8 MiB) → 0x0"
    assert memory_caption(tape, 6) == "free(B) – 8 MiB free again"
    assert memory_caption(tape, 8) == ("allocate(F, 12 MiB) – refused: OutOfMemory · 12 MiB wanted; 24 MiB free, "
                                       "the largest run 8 MiB")
    assert summary(tape, 8) == ("40 MiB used, 64 MiB reserved, largest free run 8 MiB of 24 MiB, "
                                "external fragmentation 67 %")
    tape = MemoryTape(pinned())
    assert memory_caption(tape, 2) == "allocate(mask, 1 MiB) → 0x10004600000, 1 MiB set aside · device: 1 malloc"
    assert memory_caption(tape, 4) == "free(step) – 512 B let go of, not free yet"
    assert memory_caption(tape, 6) == "free(step) · device: 1 free"
    lost = events_of(("free", "A", 9, [], {"skipped": True}), ("allocate", None, 9, [("take", 0, 9, 9)]))
    assert memory_caption(MemoryTape(lost), 1) == "free(A) – skipped: what it is about was refused before"
    assert memory_caption(MemoryTape(lost), 2) == \
        "allocate(9 B) – fault: memory that is not free was given to None, at 0x0"
    moved = events_of(
        ("allocate", "A", 5, [("reserve", 0, 64), ("take", 0, 8, 5)]), ("grow", "A", 7, [("fill", 0, 8, 7)]),
        ("grow", "A", 12, [("give", 0, 8), ("take", 0, 12, 12)]),
        ("grow", "A", 20, [("take", 30, 20, 20), ("give", 0, 12)], {"moved_bytes": 12}),
        ("allocate", "B", 4, [("take", 0, 2, 2), ("take", 8, 2, 2)]))
    assert [memory_caption(MemoryTape(moved), frame) for frame in range(1, 6)] == [
        "allocate(A, 5 B) → 0x0, 8 B set aside", "grow(A, 7 B) – stays at 0x0", "grow(A, 12 B) – stays at 0x0",
        "grow(A, 20 B) → 0x1e, 12 B moved", "allocate(B, 4 B) → 0x0 and 1 more"]


def test_the_opening_frame():
    assert MemoryTape(fragmented()).opening_frame() == 8, "the first refused request"
    assert MemoryTape(exhausted()).opening_frame() == 3
    assert MemoryTape(pinned()).opening_frame() == 3, "else the fullest"
    assert MemoryTape(MemoryRecording(None)).opening_frame() == 0


def test_why_a_request_was_refused():
    tape = MemoryTape(fragmented())
    why = tape.event(7).note["why"]
    assert (why["kind"], why["size_bytes"], why["free_bytes"], why["largest_free_bytes"]) == \
        ("fragmented", 12 * MIB, 24 * MIB, 8 * MIB)
    assert why["words"].startswith("Fragmented: 12 MiB wanted, 24 MiB free in total")
    assert MemoryTape(exhausted()).event(3).note["why"]["kind"] == "exhausted"
    assert "why" not in tape.event(0).note
    wrong = events_of(("free", "A", 9, [], {"error": "DoubleFree", "message": "no"}))
    assert "why" not in MemoryTape(wrong).event(0).note, "memory was not what was missing"


def test_pinned_segments():
    tape = MemoryTape(pinned())
    (mask,) = tape.moment(6).pinned()
    assert (mask.size_bytes, mask.free_bytes, [tape.owners[piece.owner] for piece in mask.pieces]) == \
        (20 * MIB, 19 * MIB, ["mask"])
    assert mask.free_bytes >= PINNED_FREE_SHARE * mask.size_bytes
    assert len(tape.moment(4).pinned()) == 2, "what is held pins too"
    assert len(tape.moment(5).pinned()) == 1, "nothing pins a segment without any piece"
    assert MemoryTape(fragmented()).moment(1).pinned() == [], "an arena is no pinned segment"


def test_every_owner_has_a_name_of_its_own():
    calls = [("allocate", owner, 1, []) for owner in OWNERS]
    owners = MemoryTape(events_of(*calls)).owners
    assert owners[0] == NO_NAME and len(set(owners)) == len(OWNERS)


def test_addresses_that_would_lose_digits():
    with pytest.raises(ValueError, match="between 0 and 2\\^53"):
        MemoryTape(events_of(("allocate", "A", 1, [("reserve", 1 << 53, 64)])))
    with pytest.raises(ValueError, match="does not know the change 'melt'"):
        MemoryTape(events_of(("allocate", "A", 1, [("melt", 0, 64)])))


def test_progress_is_told():
    heard = []
    MemoryTape(events_of(*[("free", "A", 0, [])] * 5000), on_progress=heard.append)
    assert heard == [0, 4096]


def test_what_says_nothing_is_not_sent():
    message = MemoryTape(pinned()).message()
    assert not {"steps", "moved", "of_event"} & set(message)
    assert {"steps", "moved", "of_event"} <= set(MemoryTape(random_memory_recording(1)).message())
    json.dumps({name: value for name, value in message.items() if not isinstance(value, bytes)})


def test_a_long_recording_becomes_a_tape_quickly():
    """A training step of a small model leaves 22,331 events behind. Here is a tenth of it, in a tenth of 2 s."""
    chance, calls, live = random.Random(1), [("sync", "driver", 0, [("reserve", 0, 1 << 30)])], []
    for number in range(2233):
        if live and (chance.random() < 0.5 or len(live) > 400):
            address = live.pop(chance.randrange(len(live)))
            calls.append(("free", number % 50, 0, [("give", address, 512)]))
        else:
            address = number * 512
            live.append(address)
            calls.append(("allocate", number % 50, 512, [("take", address, 512, 500)]))
    recording = events_of(*calls)
    best = min(_seconds(lambda: MemoryTape(recording)) for _ in range(3))
    assert best < 0.2, f"{best:.2f} s"


def _seconds(act):
    begin = time.perf_counter()
    act()
    return time.perf_counter() - begin


@pytest.mark.parametrize("module", ["memory_tape", "memory_embed", "modules", "memory_layout", "memory_words"])
def test_it_needs_no_jupyter(module):
    code = ("import sys\n"
            "class Nothing:\n"
            "    def find_spec(self, name, *rest):\n"
            "        missing = 'anywidget', 'IPython', 'ipywidgets', 'traitlets', 'matplotlib', 'numpy'\n"
            "        if name.partition('.')[0] in missing:\n"
            "            raise ImportError(name)\n"
            "sys.meta_path.insert(0, Nothing())\n"
            f"import pagedkv.viz.{module}\n"
            "assert 'MemoryView' in dir(pagedkv.viz)")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_free_memory_that_serves_requests_in_pieces_is_not_fragmented():
    workload = Workload.parse("a A 2M\na B 2M\na C 2M\na D 2M\nf A\nf C\na E 3M")
    frames = {}
    for allocator in (FirstFit(8 << 20), PagedAllocator(8 << 20, 1 << 20)):
        tape = MemoryTape(run(workload, allocator))
        frames[allocator.source] = fragmentation(tape, 6), "why" in tape.note(6)
    assert frames == {"first fit": ("50 %", True), "paged": ("0 %", False)}
