"""benchmarks/manager.py: every row is printed with numbers; the bare reference gives the answers a manager must give;
the sizes count each object once. How fast anything is stays out of the tests."""

import importlib.util
import json
import math
import re
import subprocess
import sys
from array import array
from collections import OrderedDict
from pathlib import Path
from sys import getsizeof

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "manager.py"
SPEED_ROWS = ("a   allocate + free", "b   append_token", "b   append_tokens", "c1  all live, list",
              "c1  all live, array('i')", "c2  revive, list", "c2  revive, array('i')", "c3  evict, list",
              "c3  evict, array('i')", "d   fork, copy, free", "c2 / c1, list", "c2 / c1, array('i')")
MEMORY_ROWS = ("empty, objects", "empty, tracemalloc", "all cached, objects", "all cached, tracemalloc")
SCALING_ROWS = ("allocate + free 64 blocks", "append_token", "admit + finish, 64 blocks revived",
                "admit + finish, 64 blocks evicted")


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("manager_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def run(*arguments, script=SCRIPT):
    command = [sys.executable, str(script), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def numbers_of(output, row):
    """The numbers in the lines that start with `row`, one list per line."""
    lines = [line[len(row):] for line in output.splitlines() if re.match(re.escape(row) + r"  ", line)]
    return [[float(word.replace(",", "")) for word in re.findall(r"(?<=\s)[\d.,]+|\binf\b|\bnan\b", line)]
            for line in lines]


def leaves(value):
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        return [leaf for item in value for leaf in leaves(item)]
    return [value]


def test_quick_run_prints_every_row_with_numbers(tmp_path):
    out = tmp_path / "figures.json"
    done = run("--rounds", 1, "--quick", "--json", out)
    assert done.returncode == 0, done.stderr
    assert "KVCacheManager" in done.stdout and "× bare" in done.stdout
    for row in {*SPEED_ROWS, *MEMORY_ROWS, *SCALING_ROWS}:
        found = numbers_of(done.stdout, row)
        assert len(found) == 1, f"{row!r} in\n{done.stdout}"
        assert len(found[0]) >= 2 and all(math.isfinite(number) and number > 0 for number in found[0]), (row, found)

    figures = json.loads(out.read_text())
    assert [row["workload"] for row in figures["speed"]] == list(SPEED_ROWS)
    assert tuple(figures["memory_bytes_per_block"]) == MEMORY_ROWS
    assert set(figures["scaling_seconds"]) == set(SCALING_ROWS)
    numbers = [leaf for leaf in leaves(figures) if type(leaf) is float]
    assert len(numbers) >= 50 and all(math.isfinite(number) and number > 0 for number in numbers)


def test_without_a_yardstick_beside_the_checkout_its_columns_are_left_out(tmp_path):
    copy = tmp_path / "checkout" / "benchmarks" / "manager.py"
    copy.parent.mkdir(parents=True)
    copy.write_text(SCRIPT.read_text(encoding="utf-8"), encoding="utf-8")
    done = run("--rounds", 1, "--quick", "--only", "a", script=copy)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert "yardstick" not in done.stdout
    assert len(numbers_of(done.stdout, "a   allocate + free")[0]) == 3  # two rates, one ratio


@pytest.mark.parametrize("arguments, word", [(("--only", "c4"), "c4"), (("--rounds", 0), "--rounds"),
                                             (("--num-blocks", 100), "16384")])
def test_wrong_options_are_named(arguments, word):
    done = run(*arguments)
    assert done.returncode == 2 and word in done.stderr


def test_only_runs_the_parts_that_were_named():
    done = run("--rounds", 1, "--quick", "--only", "d,c1")
    assert done.returncode == 0, done.stderr
    assert {row for row in SPEED_ROWS if numbers_of(done.stdout, row)} == {
        "c1  all live, list", "c1  all live, array('i')", "d   fork, copy, free"}
    assert "bytes per block" not in done.stdout and "one operation" not in done.stdout


def test_variants_that_did_different_work_are_not_compared(benchmark):
    def forgetful(num_blocks):
        calls = benchmark.bare_calls(num_blocks)
        calls.admit = lambda tokens: benchmark.BareManager(num_blocks).admit(tokens)
        return calls

    workloads = [workload for workload in benchmark.make_workloads(benchmark.QUICK) if workload.part == "c1"]
    with pytest.raises(RuntimeError, match="did not do the same work"):
        benchmark.measure_speed(workloads, {"forgetful": forgetful, benchmark.BARE: benchmark.bare_calls}, 1)


def test_the_bare_reference_finds_full_blocks_and_leaves_the_last_token(benchmark):
    manager = benchmark.BareManager(16)
    first = manager.admit(list(range(48)))
    assert (len(first.block_table), first.num_cached_tokens) == (3, 0)
    second = manager.admit(array("i", range(48)))
    assert second.num_cached_tokens == 32 and second.block_table[:2] == first.block_table[:2]
    assert second.block_table[2] != first.block_table[2]
    other_head = manager.admit([7] * 16 + list(range(16, 48)))
    assert other_head.num_cached_tokens == 0
    for sequence in (first, second, other_head):
        manager.free(sequence)
    assert not any(manager.refcounts)
    assert len(manager.unreferenced) == 6 and len(manager.free_blocks) == 10  # second's third block was a duplicate


def test_the_bare_reference_evicts_the_oldest_and_tails_first(benchmark):
    manager = benchmark.BareManager(4)
    manager.free(manager.admit(list(range(32))))
    manager.free(manager.admit(list(range(100, 132))))
    manager.free(manager.admit([9] * 16))
    assert len(manager.cached) == 4
    assert manager.admit(list(range(33))).num_cached_tokens == 16
    with pytest.raises(MemoryError):
        manager.allocate(5)


def test_the_bare_reference_copies_a_shared_last_block(benchmark):
    manager = benchmark.BareManager(8)
    parent = manager.admit(list(range(24)))
    child = manager.fork(parent)
    shared = parent.block_table[1]
    manager.append(child, 1)
    assert manager.take_copies() == [(shared, child.block_table[1])] and manager.take_copies() == []
    assert parent.block_table[1] == shared and manager.refcounts[shared] == 1
    manager.append(parent, 2)
    assert manager.take_copies() == []
    manager.append_many([parent, child], [3, 4])
    for token in range(7):
        manager.append(child, token)
    assert [len(parent.block_table), len(child.block_table)] == [2, 3] and child.num_tokens == 33
    assert manager.admit([*range(24), 1, 4, *range(7)]).num_cached_tokens == 32
    for sequence in (parent, child):
        manager.free(sequence)
    with pytest.raises(RuntimeError, match="double free"):
        manager.free(parent)


def test_sizes_count_each_reachable_object_once(benchmark):
    class Holder:
        __slots__ = ("state", "absent")

    Holder.__module__ = "manager_benchmark"
    number, data = 10**6, bytes(100)
    state = {(number, data): [number, data], "order": OrderedDict({number: None})}
    holder = Holder()
    holder.state = state
    key = next(iter(state))
    expected = sum(map(getsizeof, (holder, state, key, number, data, state[key], "order", state["order"])))
    assert benchmark.reachable_bytes(holder) == expected
    state[key].append(test_sizes_count_each_reachable_object_once)  # the program is not the state
    assert benchmark.reachable_bytes(holder) == expected + getsizeof(state[key]) - getsizeof([number, data])
