"""The Triton backend: right values (by Triton's interpreter, in its own process), how it splits, what it refuses."""

import importlib.util
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from pagedkv.attention import triton_kernels
from pagedkv.attention.batch import PagedBatch
from pagedkv.attention.triton_kernels import (LEAST_DOT_ROWS, MOST_SCRATCH_BYTES, PROGRAMS_PER_SM,
                                              SHORTEST_SPLIT_TOKENS, choose_split_tokens, choose_tiling)
from pagedkv.storage.int8_storage import Int8KVStorage
from pagedkv.storage.kv_storage import KVStorage
from tests.attention.triton_cases import CASES, TOLERANCES

ROOT = Path(__file__).resolve().parents[2]
needs_triton = pytest.mark.skipif(importlib.util.find_spec("triton") is None,
                                  reason="Triton is not installed: it has no build for macOS and Windows")


@pytest.fixture(scope="module")
def results():
    child = subprocess.run([sys.executable, "-m", "tests.attention.triton_cases"], cwd=ROOT, capture_output=True,
                           text=True, env={**os.environ, "TRITON_INTERPRET": "1"}, timeout=600)
    assert child.returncode == 0, child.stderr
    return json.loads(child.stdout.splitlines()[-1])


@needs_triton
@pytest.mark.parametrize("name", CASES)
def test_as_gather(results, name):
    error = results["cases"][name]
    assert isinstance(error, float), error
    assert error <= TOLERANCES[CASES[name].dtype]


@needs_triton
def test_the_same_in_every_run_and_nearly_so_with_other_splits(results):
    repeated = results["others"]["repeated"]
    assert repeated["equal"]
    assert repeated["largest_difference"] <= TOLERANCES["fp32"]


@needs_triton
@pytest.mark.parametrize("name", ["strided_query", "prefill"])
def test_other_queries(results, name):
    assert results["others"][name] <= TOLERANCES["fp32"]


@needs_triton
def test_a_block_beyond_32_bits(results):
    if results["others"]["far_block"] is None:
        pytest.skip("this machine does not give 4 GiB of address space")
    assert results["others"]["far_block"] == 0.0


# ── how many splits ──────────────────────────────────────────────────────────────────────────────────────────────────

H100_SMS = 132


def num_programs(context_lens, num_kv_heads, split_tokens):
    return num_kv_heads * sum(math.ceil(context / split_tokens) for context in context_lens)


def test_a_batch_of_one_fills_the_gpu():
    split_tokens = choose_split_tokens([65_536], 8, H100_SMS, 64, 1024)
    assert H100_SMS <= num_programs([65_536], 8, split_tokens) <= PROGRAMS_PER_SM * H100_SMS


def test_a_short_batch_of_one_is_cut_no_finer_than_pays():
    assert choose_split_tokens([300], 8, H100_SMS, 64, 1024) == SHORTEST_SPLIT_TOKENS


def test_a_batch_that_fills_the_gpu_is_not_split():
    assert choose_split_tokens([1000] * 128, 8, H100_SMS, 64, 1024) >= 1000


def test_one_sequence_far_longer_than_the_others_is_cut_although_the_batch_fills_the_gpu():
    context_lens = [32_768] + [500] * 128
    split_tokens = choose_split_tokens(context_lens, 8, H100_SMS, 64, 1024)
    assert math.ceil(32_768 / split_tokens) > 8


def test_the_scratch_stays_small_for_one_long_sequence_among_very_many():
    context_lens, partial_bytes = [131_072] + [1] * 1000, 1001 * 32 * 128 * 4
    split_tokens = choose_split_tokens(context_lens, 8, H100_SMS, 64, partial_bytes)
    assert math.ceil(131_072 / split_tokens) * partial_bytes <= MOST_SCRATCH_BYTES


@pytest.mark.parametrize("tile_tokens", [32, 64])
@pytest.mark.parametrize("context_lens", [[1], [17, 4000], [999] * 7, [100_000]])
def test_a_split_is_a_whole_number_of_tiles(context_lens, tile_tokens):
    assert choose_split_tokens(context_lens, 3, 16, tile_tokens, 1024) % tile_tokens == 0


@pytest.mark.parametrize(("group", "padded"), [(1, 1), (2, LEAST_DOT_ROWS), (16, 16), (17, 32), (71, 128)])
def test_groups_are_padded_for_the_tensor_cores_unless_they_are_single_rows(group, padded):
    assert choose_tiling(group, 64, 2, 2).group_padded == padded


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────


def problem(kind=KVStorage):
    storage = kind(1, 2, 8, num_blocks=4, block_size=4, dtype=torch.float32, device="cpu")
    return storage, PagedBatch.build([[2, 1]], [6], [1], storage)


@needs_triton
def test_the_cpu_without_the_interpreter(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    storage, batch = problem()
    with pytest.raises(ValueError, match="needs a GPU, and the pool is on cpu; TRITON_INTERPRET=1"):
        triton_kernels.attend(torch.zeros(1, 4, 8), storage, 0, batch, 1.0)


def test_no_triton(monkeypatch):
    monkeypatch.setitem(sys.modules, "triton", None)  # importing it now raises ImportError
    storage, batch = problem()
    with pytest.raises(ImportError, match="needs the package triton"):
        triton_kernels.attend(torch.zeros(1, 4, 8), storage, 0, batch, 1.0)


@needs_triton
@pytest.mark.parametrize(("query", "message"), [
    (torch.zeros(2, 4, 8), "one query row per sequence: got 2 rows for 1 sequences"),
    (torch.zeros(1, 4, 16), "4 heads of 16, the storage 2 KV heads of 8"),
    (torch.zeros(1, 3, 8), "3 heads of 8, the storage 2 KV heads of 8"),
    (torch.zeros(1, 4, 8, dtype=torch.float16), "float16 on cpu, the storage torch.float32 on cpu"),
])
@pytest.mark.parametrize("kind", [KVStorage, Int8KVStorage])
def test_a_query_that_does_not_fit(monkeypatch, kind, query, message):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    storage, batch = problem(kind)
    with pytest.raises(ValueError, match=message):
        triton_kernels.attend(query, storage, 0, batch, 1.0)


@needs_triton
def test_a_split_that_cuts_a_tile(monkeypatch):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    storage, batch = problem()
    with pytest.raises(ValueError, match="positive multiple of the tile, 32 tokens, got 40"):
        triton_kernels.decode(torch.zeros(1, 4, 8), storage, 0, batch, 1.0, split_tokens=40)


def test_importing_the_backend_does_not_import_triton():
    code = "import sys, pagedkv.attention.triton_kernels; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
