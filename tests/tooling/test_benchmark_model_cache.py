"""benchmarks/model_cache.py: every section runs with a tiny model and prints its figure. Speed stays out."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "model_cache.py"


def run(*arguments):
    return subprocess.run([sys.executable, str(SCRIPT), *map(str, arguments)], capture_output=True, text=True,
                          timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"})


def test_every_section_of_a_tiny_run(tmp_path):
    out = tmp_path / "figures.json"
    done = run("--tiny", "--json", out)
    assert done.returncode == 0, done.stderr
    figures = json.loads(out.read_text())
    assert list(figures) == ["equality", "prefix", "concatenation", "no_cache", "int8"]
    assert all(f"── {name} ──" in done.stdout for name in figures)

    assert len(figures["equality"]) == 6
    assert all(row["num_equal"] == row["num_sequences"] > 0 for row in figures["equality"])
    assert figures["prefix"]["same_tokens"] and figures["prefix"]["num_cached_tokens"] == 64
    assert "the 6 tokens that follow are the same" in done.stdout
    assert [row["num_tokens"] for row in figures["concatenation"]] == [16, 64]
    assert [row["num_tokens"] for row in figures["no_cache"]["rows"]] == [8, 16, 24, 32, 48, 64]
    assert len(figures["no_cache"]["laws"]["without"]["coefficients"]) == 3
    assert len(figures["no_cache"]["laws"]["with"]["coefficients"]) == 2
    assert "without a cache: " in done.stdout and "ns·n²" in done.stdout
    both, keys, values = figures["int8"]
    for row in figures["int8"]:
        assert 0.5 < row["agreement"] <= 1 and row["mean_kl"] > 0 and row["max_logit_change"] > 0
    assert both["num_tokens"] == keys["num_tokens"] == values["num_tokens"] == 200


@pytest.mark.parametrize("names", [["speed"], ["int8", "equal"]])
def test_a_section_that_is_none(names):
    done = run("--tiny", *names)
    assert done.returncode == 2 and "a section is one of equality, prefix" in done.stderr
