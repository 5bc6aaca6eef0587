"""benchmarks/gpu.py on the CPU: every row is computed for real, with nothing but torch, triton and numpy to import;
what fails says so and stops nothing else. How fast anything is stays out of the tests."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "benchmarks" / "gpu.py"

# Runs the script in a process where a package can be imported only if torch, triton or numpy needs it.
BARE = """
import re, runpy, sys
from importlib import metadata

def canonical(name):
    return re.sub("[-_.]+", "-", name).lower()

def closure(name, seen):
    if name not in seen:
        seen.add(name)
        for need in metadata.requires(name) or []:
            needed = canonical(re.match("[A-Za-z0-9._-]+", need)[0])
            if "extra ==" not in need and needed in installed:
                closure(needed, seen)
    return seen

installed = {canonical(distribution.name) for distribution in metadata.distributions()}
allowed = closure("torch", closure("triton", closure("numpy", set()))) | {"pagedkv"}
packages = {module: set(map(canonical, names)) for module, names in metadata.packages_distributions().items()}
refused = {module for module, names in packages.items() if not names & allowed}
assert {"pytest", "matplotlib"} <= refused, "the closure of torch, triton and numpy is far too large"

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in refused:
            raise ModuleNotFoundError(f"{name} is not here", name=name.split(".")[0])

sys.meta_path.insert(0, Refuse())
sys.argv = [sys.argv[1], *sys.argv[2:]]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    if importlib.util.find_spec("triton") is None:
        pytest.skip("Triton is not installed: it has no build for macOS and Windows")
    output = tmp_path_factory.mktemp("gpu") / "gpu.json"
    arguments = ["--device", "cpu", "--tiny", "--output", str(output)]
    done = subprocess.run([sys.executable, "-c", BARE, str(SCRIPT), *arguments], cwd=ROOT, capture_output=True,
                          text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(output.read_text(encoding="utf-8")), done.stdout


@pytest.fixture
def benchmark(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # the script sets it: put back afterwards
    threads = torch.get_num_threads()
    spec = importlib.util.spec_from_file_location("gpu_benchmark", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]
    torch.set_num_threads(threads)


def rows_of(result, section):
    return [row for row in result["rows"] if row["section"] == section]


def test_attention_rows(tiny, benchmark):
    result, printed = tiny
    rows = rows_of(result, "attention")
    cells = [(batch, context) for batch in benchmark.TINY.batches for context in benchmark.TINY.contexts]
    for kind in benchmark.KINDS:
        own = [row for row in rows if row["name"] == kind.name]
        assert kind.name in printed
        if kind.foreign:
            assert [row["status"].split(":")[0] for row in own] == ["skipped"]
            continue
        assert [(row["batch"], row["context"]) for row in own] == cells
        for row in own:
            assert row["status"] == "ok" and 0 <= row["error"] <= benchmark.TOLERANCE
            assert row["gb_per_s"] == pytest.approx(row["bytes"] / row["device_us"] / 1e3)
            assert row["share_of_copy"] == pytest.approx(row["gb_per_s"] / result["copy_gb_per_s"])


def test_bytes_that_have_to_be_read(tiny, benchmark):
    """Two heads of 16 numbers, keys and values, 2 bytes each, or 1 and a scale of 2 bytes for each head."""
    rows = {(row["name"], row["batch"], row["context"]): row["bytes"]
            for row in rows_of(tiny[0], "attention") if "bytes" in row}
    assert rows["triton, blocks of 16", 2, 96] == rows["sdpa", 2, 96] == 2 * 96 * 2 * 2 * 16 * 2
    assert rows["triton, blocks of 16, INT8", 2, 96] == 2 * 96 * 2 * 2 * (16 + 2)


def test_the_kernels_were_compared_with_something_else(tiny):
    """A kernel that only handed over to gather would differ by nothing at all."""
    errors = {row["name"]: row["error"] for row in rows_of(tiny[0], "attention") if "error" in row}
    assert all(error > 0 for name, error in errors.items() if name.startswith("triton"))
    assert errors["gather, blocks of 16"] == 0


def test_other_rows(tiny, benchmark):
    result, printed = tiny
    assert [row["name"] for row in rows_of(result, "bandwidth")] == ["copy", "read"]
    growing, preallocated = rows_of(result, "allocator")
    assert growing["source"] == preallocated["source"] == "simulated by pagedkv"
    assert growing["reserved_bytes_peak"] > preallocated["reserved_bytes_peak"] >= preallocated["allocated_bytes_peak"]
    moves = ("copy_blocks", "swap out", "swap in", "zero_on_reuse")
    expected = [(name, count) for count in benchmark.TINY.moved_blocks for name in moves]
    expected += [(name, max(benchmark.TINY.moved_blocks)) for name in ("plain copy out", "plain copy in")]
    assert [(row["name"], row["blocks"]) for row in rows_of(result, "blocks")] == expected
    assert all(row["status"] == "ok" for row in result["rows"] if row["section"] != "attention")
    assert "dram__bytes_read.sum" in printed


def test_the_versions_are_there(tiny):
    result, _ = tiny
    assert result["device"] == "CPU" and result["tiny"] is True
    assert result["versions"]["torch"] == torch.__version__ and "triton" in result["versions"]


# ── what goes wrong ──────────────────────────────────────────────────────────────────────────────────────────────────


def broken(error):
    def step(problem):
        raise error
    return step


def wrong_step(problem):
    return lambda layer: torch.zeros_like(problem.queries[layer])


def run_with(benchmark, monkeypatch, tmp_path, kinds, *arguments):
    monkeypatch.setattr(benchmark, "KINDS", tuple(kinds))
    output = tmp_path / "gpu.json"
    code = benchmark.main(["--device", "cpu", "--tiny", "--output", str(output), *arguments])
    return code, {row["name"]: row["status"] for row in json.loads(output.read_text(encoding="utf-8"))["rows"]}


def test_a_row_of_ours_that_fails_stops_nothing_else(benchmark, monkeypatch, tmp_path, capfd):
    kinds = [benchmark.Kind("broken", broken(RuntimeError("no such luck\nsecond line")), 16),
             benchmark.Kind("wrong", wrong_step, 16), benchmark.Kind("gather", benchmark.gather_step, 16)]
    code, rows = run_with(benchmark, monkeypatch, tmp_path, kinds)
    assert code == 1
    assert rows["broken"] == "failed: RuntimeError: no such luck"
    assert rows["wrong"].startswith("failed: differs from gather by ")
    assert rows["gather"] == rows["copy"] == rows["swap in"] == "ok"
    assert "failed: attention, broken" in capfd.readouterr().err


def test_what_others_lack_is_no_failure_of_ours(benchmark, monkeypatch, tmp_path):
    kinds = [benchmark.Kind("broken", broken(RuntimeError("theirs")), 16, foreign=True),
             benchmark.Kind("missing", broken(ModuleNotFoundError("No module", name="theirs")), 16, foreign=True),
             benchmark.Kind("too large", broken(torch.OutOfMemoryError("out of memory")), 16)]
    code, rows = run_with(benchmark, monkeypatch, tmp_path, kinds)
    assert code == 0
    assert rows["broken"] == "failed: RuntimeError: theirs"
    assert rows["missing"] == "skipped: theirs is not installed"
    assert rows["too large"] == "skipped: out of memory: out of memory"


def test_a_section_that_fails_stops_no_other(benchmark, monkeypatch, tmp_path):
    monkeypatch.setattr(benchmark, "HostBlocks", broken(ModuleNotFoundError("No module", name="pinned")))
    code, rows = run_with(benchmark, monkeypatch, tmp_path, [benchmark.Kind("gather", benchmark.gather_step, 16)])
    assert code == 1
    assert rows["all rows"].startswith("failed:") and rows["gather"] == "ok"


def test_no_time_left(benchmark, monkeypatch, tmp_path):
    kinds = [benchmark.Kind("gather", benchmark.gather_step, 16)]
    code, rows = run_with(benchmark, monkeypatch, tmp_path, kinds, "--seconds", "0")
    assert code == 0 and rows["gather"].startswith("skipped: out of time")


def test_wrong_blocks_are_a_failure(benchmark, monkeypatch, tmp_path):
    monkeypatch.setattr(benchmark.KVStorage, "copy_blocks", lambda self, pairs: None)
    code, rows = run_with(benchmark, monkeypatch, tmp_path, [])
    assert code == 1 and rows["copy_blocks"] == "failed: ValueError: copy_blocks left wrong numbers in the blocks"


def test_the_cpu_at_full_size(benchmark, capsys):
    with pytest.raises(SystemExit):
        benchmark.main(["--device", "cpu"])
    assert "only --tiny makes sense" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_no_gpu(benchmark, capsys):
    with pytest.raises(SystemExit):
        benchmark.main([])
    assert "PyTorch sees no GPU here" in capsys.readouterr().err
