"""The golden table: every figure of every row, and the compact sequences it is written in."""

import pytest

from pagedkv.rivals import golden
from pagedkv.rivals.golden import TABLE, Golden, expand
from pagedkv.rivals.caching_rules import MIB
from pagedkv.rivals.workload import Request


@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.report + str(row.settings or ""))
def test_row(row):
    assert row.measure() == row.expected


def test_all_seven_reports_are_there():
    assert len([row for row in TABLE if not row.report.startswith("…")]) == 7


def test_the_rows_are_workloads_for_any_allocator():
    assert [len(row.workload) for row in TABLE[:3]] == [7, 24, 506]


def test_the_command_prints_the_table_and_fails_on_a_difference(monkeypatch, capsys):
    assert golden.main() == 0
    assert "DIFFERS" not in capsys.readouterr().out
    monkeypatch.setattr(golden, "TABLE", (Golden("wrong", "5-", {"reserved": 21}),))
    assert golden.main() == 1
    assert "DIFFERS" in capsys.readouterr().out


@pytest.mark.parametrize("old_is_held, unallocated", [(False, 260), (True, 736)])
def test_inactive_split_sees_little_of_a_growing_caches_fragmentation(old_is_held, unallocated):
    assert golden.unseen_by_inactive_split(old_is_held) == (32, unallocated)


def test_max_split_size_20_strands_the_segments_that_it_just_fits():
    assert golden.stranded_by_max_split(20) == (200, 0, 0)
    assert golden.stranded_by_max_split(21) == (20, 0, 0)


def test_a_sequence():
    assert list(expand("2x(A=1.5; ?; -A); 3x4; 5-")) == [
        Request("allocate", "A", 3 * MIB // 2), None, Request("free", "A"),
        Request("allocate", "A", 3 * MIB // 2), None, Request("free", "A"),
        Request("allocate", "3", 4 * MIB), Request("allocate", "4", 4 * MIB), Request("allocate", "5", 4 * MIB),
        Request("allocate", "6", 5 * MIB), Request("free", "6")]
    assert len(list(expand("2x(3x(1-))"))) == 12


@pytest.mark.parametrize("text", ["5 MiB", "2x(1", "1)", "a=5"])
def test_a_sequence_that_cannot_be_read(text):
    with pytest.raises(ValueError):
        list(expand(text))
