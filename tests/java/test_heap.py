"""The heap of the running JVM, and of children with other collectors (claims N2 and N11)."""

import glob
import os
import subprocess
import sys
import tempfile

import pytest

from pagedkv.core.replay import Replay
from pagedkv.java import jclass
from pagedkv.java.build import checkout
from pagedkv.java.heap import (
    ChildJvmFailed,
    allocate_humongous,
    check_region_sizes,
    compare_collectors,
    heap_summary,
    move_objects,
    record_regions,
    region_size_by_rule,
    run_child_jvm,
    trace_tlabs,
)

MIB = 1 << 20
PATTERN = "pagedkv.jvm.AllocationPattern"


def left_behind():
    return glob.glob(os.path.join(tempfile.gettempdir(), f"pagedkv-*-{os.getpid()}-*"))


def test_the_heap_in_numbers():
    """N2: read, never assumed."""
    heap = heap_summary()
    assert heap.region_size_bytes == heap.by_rule_bytes
    assert sum(heap.counts.values()) == heap.committed_regions <= heap.num_regions
    assert 0 < heap.used_bytes <= heap.max_heap_bytes
    assert set(heap.counts) == {"eden", "survivor", "old", "humongous", "archive", "free"}
    assert f"{heap.num_regions:,} regions" in str(heap)


@pytest.mark.parametrize("max_heap, size", [
    (8 * MIB, 1), (2048 * MIB, 1), (2049 * MIB, 2), (3072 * MIB, 2), (4096 * MIB, 2), (4097 * MIB, 4),
    (33 << 30, 32), (64 << 30, 32), (1 << 40, 32)])
def test_the_rule_for_the_region_size(max_heap, size):
    assert region_size_by_rule(max_heap) == size * MIB


def test_real_jvms_keep_the_rule():
    """N2: not "2048 regions of 1 MB"."""
    table = check_region_sizes(("64m", "2g", "3g"))
    assert [row.real_bytes for row in table.rows] == [row.by_rule_bytes for row in table.rows] == [MIB, MIB, 2 * MIB]
    assert [row.num_regions for row in table.rows] == [64, 2048, 1536]
    assert "1,536" in str(table)


def test_large_arrays_take_whole_regions():
    """N11: the large-request problem again."""
    table = allocate_humongous()
    region, header = table.region_size_bytes, table.header_bytes
    assert [row.num_regions for row in table.rows] == [0, 1, 1, 2, 2, 4]
    assert [row.object_bytes for row in table.rows][:3] == [region // 2, region // 2 + 8, region]
    assert all(row.object_bytes == row.array_bytes + header for row in table.rows)
    assert [row.wasted_bytes for row in table.rows[1:3]] == [region // 2 - 8, 0]
    assert table.rows[3].wasted_bytes == region - header
    assert f"{header} bytes" in str(table)


def test_arrays_of_chosen_lengths():
    region = heap_summary().region_size_bytes
    table = allocate_humongous(region * 2, 1024)
    assert [(row.array_bytes, row.num_regions) for row in table.rows] == [(region * 2, 3), (1024, 0)]


def test_most_objects_are_allocated_without_an_event():
    """N11: TLABs, and that a large array goes outside them."""
    report = trace_tlabs((20_000, 200_000))
    for each in report.rounds:
        assert len(each.tlab_bytes) + len(each.outside_bytes) < each.num_objects / 10
        assert each.outside_bytes[-1] >= report.large_bytes
    sizes = {size for each in report.rounds for size in each.tlab_bytes}
    assert len(sizes) > 1, "TLABs are resized at run time"
    assert "no TLAB event" in str(report)
    assert left_behind() == []


def test_a_jvm_of_its_own_traces_tlabs_and_moves():
    """N11: whatever this JVM has done before."""
    report = trace_tlabs((20_000, 100_000), in_child=True)
    assert [each.num_objects for each in report.rounds] == [20_000, 100_000]
    for each in report.rounds:
        assert 0 < len(each.tlab_bytes) < each.num_objects / 10
        assert each.outside_bytes[-1] >= report.large_bytes == MIB
    sizes = {size for each in report.rounds for size in each.tlab_bytes}
    assert len(sizes) > 1, "TLABs are resized at run time"
    moved = move_objects(in_child=True)
    assert moved.kept_bytes == MIB <= moved.copied_bytes <= moved.collected_bytes
    assert moved.collected_regions == moved.freed_regions > 0


def test_a_child_that_fails_says_why():
    with pytest.raises(ChildJvmFailed, match="(?s)ObjectMoves failed in a JVM of its own.*OutOfMemoryError"):
        move_objects(1500 * MIB, in_child=True)


def test_requests_in_a_jvm_of_its_own():
    """N11: eden is gone after each young collection; what was alive stands in other regions."""
    run = run_child_jvm("pagedkv.jvm.Requests", flags=("-XX:+UseG1GC", "-Xmx64m", "-Xmn16m"))
    assert run.exit_status == 0 and run.values["fileBytes"] == str(20 * MIB)
    assert len(run.pauses) >= 5 and run.recording.num_blocks == 64 and run.regions["humongous"] == 21
    freed = [event for event in run.recording.events if event.op == "release" and event.owner == "eden"]
    assert len(freed) >= 5
    replay = Replay(run.recording)
    for event in freed:
        state = replay.at(event.step + 1)
        kinds = {state.owners(region)[0] for region in state.references}
        assert "eden" not in kinds and {"survivor", "old"} & kinds


def test_a_young_collection_moves_what_is_alive():
    """N11: a paged cache never does."""
    report = move_objects()
    assert report.kept_bytes == MIB <= report.copied_bytes <= report.collected_bytes
    assert report.collected_regions == report.freed_regions > 0
    assert "copied" in str(report)


def test_the_regions_while_a_function_runs():
    kept = []
    size = heap_summary().region_size_bytes
    recording = record_regions(lambda: kept.append(jclass("java.nio.ByteBuffer").allocate(2 * size)))
    objects = [event.blocks for event in recording.events if event.owner == "humongous" and len(event.blocks) >= 3]
    assert any(blocks == tuple(range(blocks[0], blocks[0] + 3)) for blocks in objects)
    assert Replay(recording).end().faults == []
    assert recording.num_blocks == heap_summary().num_regions
    assert left_behind() == []


def test_the_regions_while_a_java_runnable_runs():
    recording = record_regions(jclass("java.lang.Thread")())
    assert "old" in {event.owner for event in recording.events}


def test_what_the_function_raises_is_raised_and_the_log_is_off():
    with pytest.raises(ZeroDivisionError):
        record_regions(lambda: 1 / 0)
    assert left_behind() == []
    assert len(record_regions(lambda: None)) > 0


def test_another_collector_is_named():
    code = """
from pagedkv.java import start
start("-XX:-UseG1GC", "-XX:+UseSerialGC")
from pagedkv.java.heap import *
from pagedkv.java import JvmError
for ask in heap_summary, allocate_humongous, move_objects, trace_tlabs, lambda: record_regions(print):
    try:
        ask()
    except JvmError as error:
        print(error)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, cwd=checkout())
    message = "this JVM runs Serial, whose heap has no G1 regions: start the JVM with -XX:+UseG1GC\n"
    assert (run.stdout, run.stderr) == (5 * message, "")


def test_one_pattern_under_several_collectors():
    """N2: what moves objects places the large array; Epsilon, which never collects, is the control."""
    said = []
    table = compare_collectors(("Serial", "Parallel", "G1", "ZGC", "Epsilon"), out=said.append)
    assert said[0] == "1 of 5: Serial …" and len(said) == 5
    assert [row.placed for row in table.rows] == [True, True, True, True, False]
    assert [row.run.collector for row in table.rows] == ["Serial", "Parallel", "G1", "ZGC", "Epsilon"]
    serial, parallel, g1, zgc, epsilon = table.rows
    assert {change.generation for change in serial.run.generations} == {"DefNew", "Tenured"}
    assert any(pause.is_full for pause in serial.run.pauses) and serial.run.regions == {}
    assert g1.run.regions["humongous"] == 19  # 18 MiB and a header
    assert not any(pause.is_full for pause in zgc.run.pauses)
    assert epsilon.used_bytes is None and epsilon.run.pauses == ()
    assert all(row.used_bytes > 41 * MIB for row in table.rows[:4])
    assert "NOT placed" in str(table) and "19 humongous" in str(table)
    assert "sizes of the generations" in str(serial.run)


def test_a_childs_arguments_and_output():
    run = run_child_jvm(PATTERN, 1, 64, 2)
    assert run.exit_status == 0
    assert run.values["longLivedBytes"] == str(MIB) and run.values["largeBytes"] == str(2 * MIB)
    assert run.recording.num_blocks == 64
    assert run.regions["humongous"] == 3


def test_a_program_that_fails_is_a_result():
    run = run_child_jvm(PATTERN, "many")
    assert run.exit_status == 1 and "NumberFormatException" in run.errors


@pytest.mark.parametrize("main_class, flags, said", [
    (PATTERN, ("-XX:+UseNoSuchGC",), "UseNoSuchGC"),
    (PATTERN, ("-Xmx1k",), "Too small maximum heap"),
    ("pagedkv.jvm.Missing", (), "pagedkv.jvm.Missing"),
])
def test_a_child_that_does_not_start(main_class, flags, said):
    with pytest.raises(ChildJvmFailed, match=said):
        run_child_jvm(main_class, flags=flags)


def test_a_child_that_does_not_end_is_killed():
    with pytest.raises(ChildJvmFailed, match="had not ended after 0.01 s and was killed"):
        run_child_jvm(PATTERN, time_limit_seconds=0.01)


def test_a_collector_that_does_not_exist():
    with pytest.raises(ValueError, match="CMS; there are Serial, Parallel, G1, ZGC"):
        compare_collectors(("CMS",))
