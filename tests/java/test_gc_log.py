"""Reading garbage collection logs. Those in logs/ were written by real JVMs (17.0.15 and 25.0.3, heaps of 24 and
64 MiB) and cut down to the lines that are read. Beside each G1 log lies the JVM's own table of its regions (VM.info) at
the moment of the log's last line: the control for what the parser makes of the log."""

from pathlib import Path

import pytest

from pagedkv.core.replay import Replay
from pagedkv.java.gc_log import (
    HeapAtStart,
    read_collector,
    read_generations,
    read_pauses,
    read_region_size_bytes,
    read_regions,
)

LOGS = Path(__file__).parent / "logs"
MIB = 1 << 20
LETTERS = {"E": "eden", "S": "survivor", "O": "old", "HS": "humongous", "HC": "humongous", "OA": "archive",
           "CA": "archive"}


def log(name):
    return (LOGS / f"{name}.log").read_text(encoding="utf-8")


def line(words, region, filled=0x100000, tags="[0.1s][trace][gc,region]"):
    start = 0xFC000000 + region * MIB
    return f"{tags} G1HR {words} [0x{start:016x}, 0x{start + filled:016x}, 0x{start + MIB:016x}]\n"


def calls(recording):
    return [str(event) for event in recording.events]


@pytest.mark.parametrize("jdk", ["jdk17", "jdk25"])
def test_the_recording_ends_where_the_jvm_says(jdk):
    text = log(f"{jdk}-g1")
    assert "EVAC-FAILURE" in text and "POST-COMPACTION(HUMC)" in text  # the hard cases are in it
    state = Replay(read_regions(text)).end()
    rows = (row.split() for row in (LOGS / f"{jdk}-g1.regions").read_text().splitlines())
    table = {int(region): LETTERS[letters] for region, letters in rows if letters != "F"}
    assert {region: state.owners(region) for region in state.references} == \
        {region: (kind,) for region, kind in table.items()}
    assert state.faults == []


@pytest.mark.parametrize("jdk", ["jdk17", "jdk25"])
def test_a_log_cut_anywhere_can_be_read(jdk):
    text = log(f"{jdk}-g1")
    whole = read_regions(text).events
    start = text.index("ALLOC(EDEN)")
    for end in range(start, start + 400):
        events = read_regions(text[:end]).events
        assert [event[:4] for event in events] == [event[:4] for event in whole[:len(events)]]


def test_the_heap_is_a_pool_of_regions():
    recording = read_regions(log("jdk17-g1"))
    assert recording.num_blocks == 24
    assert recording.source == "JVM heap, G1 regions of 1 MiB"
    assert {event.owner for event in recording.events} == {"archive", "eden", "survivor", "old", "humongous"}
    assert {event.op for event in recording.events} == {"allocate", "release"}
    assert [event.step for event in recording.events] == list(range(len(recording)))


def test_a_region_that_changes_its_kind_is_released_and_allocated():
    text = line("ALLOC(EDEN)", 3) + line("ALLOC(SURV)", 2) + line("POST-COMPACTION(OLD)", 2) + \
        line("POST-COMPACTION(FREE)", 3)
    recording = read_regions(text, HeapAtStart(0xFC000000, 8, {}))
    assert calls(recording) == ["allocate(1, 'eden') → [3]", "allocate(1, 'survivor') → [2]",
                                "release([2], 'survivor')", "release([3], 'eden')", "allocate(1, 'old') → [2]"]


def test_a_humongous_object_is_one_event():
    text = line("ALLOC(HUMS)", 4) + line("ALLOC(HUMC)", 5) + line("ALLOC(HUMS)", 1) + line("ALLOC(HUMC)", 2)
    assert calls(read_regions(text, HeapAtStart(0xFC000000, 8, {}))) == \
        ["allocate(2, 'humongous') → [4, 5]", "allocate(2, 'humongous') → [1, 2]"]


def test_both_spellings_of_a_freed_region():
    for freed in "CLEANUP(FREE)", "EVAC-RECLAIM(EDEN)", "  12 EAGER-RECLAIM(EDEN)":
        text = line("ALLOC(EDEN)", 4) + line("ALLOC(EDEN)", 5) + line(freed, 4) + line(freed, 5)
        assert calls(read_regions(text))[-1] == "release([0, 1], 'eden')"


def test_a_region_without_room_for_its_copies_becomes_old():
    text = line("ALLOC(EDEN)", 4) + line("EVAC-FAILURE(EDEN)", 4)
    assert calls(read_regions(text))[1:] == ["release([0], 'eden')", "allocate(1, 'old') → [0]"]


def test_a_log_that_begins_in_the_middle():
    at_start = HeapAtStart(0xFC000000, 16, {0: "old", 1: "old", 7: "eden"})
    recording = read_regions(line("ALLOC(EDEN)", 7) + line("CLEANUP(FREE)", 7), at_start)  # the first is known already
    assert calls(recording) == ["allocate(2, 'old') → [0, 1]", "allocate(1, 'eden') → [7]", "release([7], 'eden')"]
    assert recording.num_blocks == 16
    assert len(read_regions("", at_start)) == 2


def test_events_name_their_collection():
    recording = read_regions(log("jdk17-g1"))
    first = next(event for event in recording.events if event.op == "release")
    assert first.detail["gc"] == 0 and first.detail["pause"].startswith("Young (")


@pytest.mark.parametrize("text", ["", "\n", "[0.005s][info][gc] Using Serial\n", "hello"])
def test_without_region_lines_the_error_names_the_flags(text):
    with pytest.raises(ValueError, match=r"-XX:\+UseG1GC -Xlog:gc\*,gc\+region=trace"):
        read_regions(text)


@pytest.mark.parametrize("words", ["TURN-BLUE(EDEN)", "ALLOC(BLUE)"])
def test_words_that_are_not_known_are_refused(words):
    with pytest.raises(ValueError, match="line 2 of the log"):
        read_regions(line("ALLOC(EDEN)", 1) + line(words, 2) + "\n")


@pytest.mark.parametrize("jdk", ["jdk17", "jdk25"])
@pytest.mark.parametrize("name, collector, generations, pauses, full", [
    ("serial", "Serial", {"DefNew", "Tenured"}, (3, 4), {1}),
    ("parallel", "Parallel", {"PSYoungGen", "ParOldGen"}, (3, 4), {1, 2}),
    ("z", "ZGC", set(), (3, 40), {0}),
])
def test_collectors_without_regions(jdk, name, collector, generations, pauses, full):
    text = log(f"{jdk}-{name}")
    assert read_collector(text) == collector
    assert {change.generation for change in read_generations(text)} == generations
    assert pauses[0] <= len(read_pauses(text)) <= pauses[1]
    assert sum(pause.is_full for pause in read_pauses(text)) in full


def test_a_pause_and_a_generation_in_full():
    text = log("jdk17-serial")
    pause = read_pauses(text)[-1]
    assert pause == (3, "Full (Allocation Failure)", 46 * MIB, 23 * MIB, 61 * MIB, 3.529)
    assert str(pause) == "  3     3.529 ms  46 MiB → 23 MiB of 61 MiB  Full (Allocation Failure)"
    assert read_generations(text)[-1] == (3, "Tenured", 31861 << 10, 24050 << 10, 43712 << 10)
    assert str(read_pauses(log("jdk25-z"))[0]) == "  0     0.026 ms  Mark Start (Major)"


def test_the_beginning_of_a_g1_log():
    assert read_collector(log("jdk25-g1")) == "G1"
    assert read_region_size_bytes(log("jdk25-g1")) == MIB
    assert (read_collector(""), read_region_size_bytes(""), read_pauses(""), read_generations("")) == \
        (None, None, [], [])
