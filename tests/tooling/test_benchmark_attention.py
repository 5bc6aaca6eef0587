"""benchmarks/attention.py: every row is printed with numbers, and variants that do not agree are found. How fast
anything is stays out of the tests."""

import importlib.util
import json
import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "attention.py"

pytest.importorskip("transformers", reason="the benchmark runs a model of transformers")


@pytest.fixture(scope="module")
def benchmark():
    spec = importlib.util.spec_from_file_location("attention_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*arguments, **environ):
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, **environ})


def test_tiny_run_prints_every_row_with_numbers(tmp_path):
    """With a compiler that is not there, too: then that column is left out, and the rest is measured."""
    out = tmp_path / "figures.json"
    done = run("--tiny", "--json", out, CXX="no-such-compiler")
    assert done.returncode == 0, done.stderr
    assert "compiled is left out" in done.stderr and "Tried: no-such-compiler is not there" in done.stderr
    header, *rows = re.findall(r"^ *(?:batch|\d+) .*", done.stdout.replace("batch  context", "batch context"), re.M)
    assert "static ms" in header and "× gather" in header and "× compiled" not in done.stdout
    tables = [[float(number) for number in row.replace(",", "").split()] for row in rows if "batch" not in row]
    assert [row[:2] for row in tables] == [[1, 32], [1, 96], [3, 32], [3, 96]] * 2
    assert all(len(row) == 5 and all(math.isfinite(number) and number >= 0 for number in row) for row in tables)

    figures = json.loads(out.read_text())
    assert [(row["batch"], row["context"]) for row in figures] == [(1, 32), (1, 96), (3, 32), (3, 96)]
    for row in figures:
        assert set(row["step_seconds"]) == {"static", "gather", "blockwise"}
        assert set(row["attention_seconds"]) == {"SDPA", "gather", "blockwise"}
        assert all(number > 0 for key in ("step_seconds", "attention_seconds") for number in row[key].values())


def test_variants_take_turns_and_the_median_counts(benchmark):
    import torch
    order = []

    def variant(name, times):
        times = iter(times)

        def work():
            order.append(name)
            return next(times), torch.ones(2)

        return work

    works = {"a": variant("a", [9, 0.3, 0.1, 0.2]), "b": variant("b", [9, 0.5, 0.5, 3])}
    assert benchmark.medians(works, 3) == {"a": 0.2, "b": 0.5}
    assert "".join(order) == "ab" + "ab" + "ba" + "ab"


def test_a_slow_variant_sits_out(benchmark):
    import torch
    calls = {"quick": 0, "slow": 0}

    def work(name, seconds):
        calls[name] += 1
        return seconds, torch.ones(2)

    works = {"quick": lambda: work("quick", 0.01), "slow": lambda: work("slow", benchmark.MOST_SECONDS)}
    benchmark.medians(works, 5)
    assert calls == {"quick": 6, "slow": 2}


def test_variants_that_do_not_agree_are_not_compared(benchmark):
    import torch
    works = {"a": lambda: (1, torch.ones(2)), "b": lambda: (1, torch.tensor([1, 1.01]))}
    with pytest.raises(SystemExit, match=r"b and a do not agree: the largest difference is 1\.0e-02"):
        benchmark.medians(works, 1)
    works["b"] = lambda: (1, torch.tensor([1, torch.nan]))
    with pytest.raises(SystemExit, match="do not agree"):
        benchmark.medians(works, 1)


@pytest.mark.parametrize("arguments, message", [
    (["--contexts", "100"], "100 is no multiple of the block size, 16"),
    (["--backends", "gather,nonsense"], "nonsense is no backend: they are gather, blockwise, compiled, triton"),
    (["--batches", "0"], "--batches")])
def test_arguments_that_mean_nothing(arguments, message, benchmark, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["attention.py", *arguments])
    with pytest.raises(SystemExit) as raised:
        benchmark.main()
    assert raised.value.code == 2 and message in capsys.readouterr().err
