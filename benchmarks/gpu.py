"""What the GPU does with paged memory. Prints a table and writes one JSON file; takes less than 5 minutes.

    python benchmarks/gpu.py                          all rows on the GPU, into gpu.json
    python benchmarks/gpu.py --snapshots              and the two allocator snapshots beside it
    python benchmarks/gpu.py --device cpu --tiny      every row for real, too small to count: to test this script

Needs torch, triton and numpy. A row that does not fit in memory shrinks (fewer layers) or says "skipped", as does one
of a library that is not there; one that fails says "failed" and why, and the others go on. The exit code is 1 if a row
of ours failed, or gave wrong numbers.

bandwidth   A copy from device to device reads and writes each byte; both count. "read" sums a tensor, which only reads.
            What is measured here, not the vendor's figure, is what the other rows are compared with.
attention   One decode step of one layer: `batch` sequences of `context` tokens, 32 heads over 8 KV heads of 128
            numbers, float16, as in Llama-3-8B. GB/s is the keys and values that have to be read, divided by the time:
            reading them once is the least that any attention can do, so this is the useful bandwidth, and its share
            of the measured copy bandwidth says how good a kernel is. Layers take turns, so that a step never finds
            its keys in the cache. "device" is the time of the GPU alone, where a CUDA graph can record the step
            ("timing" in the file says so); "call" is the time with Python's launches, longer at small sizes.
              triton            ours, through shuffled block tables; INT8 reads about half the bytes
              gather            ours, copies first: what a paged cache costs without a kernel of its own
              sdpa              PyTorch's attention on contiguous memory, all lengths equal, with enable_gqa=True
              sdpa, group rows  the same, the heads of a group given as rows of one query: no KV head is read twice
              flashinfer, flash-attn   their paged decode on the same blocks (flash-attn wants blocks of 256)
            "error" is the largest difference to `gather` in a small case, computed with every row's own code.
allocator   A cache that grows by allocating anew against one that is allocated once, the same requests beside:
            what PyTorch took from the device at most, and what of it was in use at most.
blocks      Copying blocks within the pool (both directions count), to pinned host memory and back (one direction),
            against a plain pinned copy of the same size; and wiping blocks that are used again (`zero_on_reuse`).

To check a bandwidth with NVIDIA's own counters, see the line that is printed last.
"""

import argparse
import contextlib
import gc
import importlib
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch.nn.functional import scaled_dot_product_attention

from pagedkv.attention import gather, triton_kernels
from pagedkv.attention.batch import PagedBatch
from pagedkv.rivals.caching import CachingAllocator
from pagedkv.snapshot.demo import CAPACITY_BYTES, GROWING, PREALLOCATED, run_workload
from pagedkv.storage.cuda_recording import record_live
from pagedkv.storage.device import OutOfDeviceMemory
from pagedkv.storage.host_blocks import HostBlocks
from pagedkv.storage.int8_storage import Int8KVStorage
from pagedkv.storage.kv_storage import KVStorage

NCU_HINT = ("ncu --kernel-name regex:decode_split --launch-skip 20 --launch-count 5 --metrics "
            "dram__bytes_read.sum,dram__throughput.avg.pct_of_peak_sustained_elapsed python benchmarks/gpu.py")
SNAPSHOT_FILES = {GROWING: "growing.pickle", PREALLOCATED: "preallocated.pickle"}
# a kernel that is off by more is wrong: float16 rounds the results (up to about 4) to 2e-3, and the weights before
TOLERANCE = 1e-2
OUT_OF_MEMORY = (torch.OutOfMemoryError, OutOfDeviceMemory, MemoryError)


@dataclass(frozen=True)
class Sizes:
    """What is measured; all of it is smaller with --tiny."""

    num_heads: int = 32
    num_kv_heads: int = 8
    head_dim: int = 128
    batches: tuple[int, ...] = (1, 8, 32, 128)
    contexts: tuple[int, ...] = (1024, 4096, 16_384, 65_536)
    most_layers: int = 64
    copied_bytes: int = 1 << 30
    # one block of the pool that is copied and swapped: 2 MiB, in 64 pieces of 32 KiB, as in Llama-3-8B
    pool_layers: int = 32
    pool_blocks: int = 1024
    moved_blocks: tuple[int, ...] = (1, 256)
    rounds: int = 15


TINY = Sizes(num_heads=4, num_kv_heads=2, head_dim=16, batches=(1, 2), contexts=(40, 96), most_layers=2,
             copied_bytes=1 << 20, pool_layers=2, pool_blocks=16, moved_blocks=(1, 4), rounds=1)


# ── time ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Clock:
    """Seconds of work on the device: CUDA events on a GPU, the process's clock on the CPU; medians."""

    def __init__(self, device: torch.device, rounds: int):
        self.device, self.rounds = device, rounds
        self.on_gpu = device.type == "cuda"

    def call_seconds(self, work: Callable[[], object]) -> float:
        """With everything that Python does to launch it."""
        work()
        return statistics.median(self._once(work) for _ in range(self.rounds))

    def device_seconds(self, work: Callable[[], object]) -> tuple[float, str]:
        """Of the device alone, and how that was measured: the work is recorded as a CUDA graph, and replayed. Where it
        cannot be recorded, as `call_seconds`."""
        if not self.on_gpu:
            return self.call_seconds(work), "clock"
        work()  # compiles; nothing may be compiled while a graph is recorded
        try:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                work()
        except OUT_OF_MEMORY:
            raise
        except Exception:
            torch.cuda.synchronize()
            return self.call_seconds(work), "events"
        return self.call_seconds(graph.replay), "graph"

    def _once(self, work: Callable[[], object]) -> float:
        if not self.on_gpu:
            start = time.perf_counter()
            work()
            return time.perf_counter() - start
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        start.record()
        work()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / 1000


# ── rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Report:
    """Rows, printed as they come."""

    def __init__(self, copy_gb_per_s: float | None = None):
        self.rows: list[dict] = []
        self.copy_gb_per_s = copy_gb_per_s

    def add(self, section: str, name: str, status: str = "ok", **figures) -> None:
        row = {"section": section, "name": name, "status": status, **figures}
        if "gb_per_s" in row and self.copy_gb_per_s:
            row["share_of_copy"] = row["gb_per_s"] / self.copy_gb_per_s
        self.rows.append(row)
        print(_line(row), flush=True)

    @contextlib.contextmanager
    def guarded(self, section: str, name: str, foreign: bool = False, **figures) -> Iterator[None]:
        """A row that ends in an exception says so. `foreign`: it is another library's, and fails on its own account."""
        try:
            yield
        except OUT_OF_MEMORY as error:
            self.add(section, name, f"skipped: out of memory: {_first_line(error)}", **figures)
        except Exception as error:
            if foreign and isinstance(error, ModuleNotFoundError):
                self.add(section, name, f"skipped: {error.name} is not installed", **figures)
                return
            self.add(section, name, f"failed: {type(error).__name__}: {_first_line(error)}", foreign=foreign, **figures)
            if not foreign:
                traceback.print_exc()

    @property
    def failed(self) -> list[dict]:
        return [row for row in self.rows if row["status"].startswith("failed") and not row.get("foreign")]


def _first_line(error: BaseException) -> str:
    return (str(error).splitlines() or ["no message"])[0][:200]


HEADER = (f"{'':10} {'':28} {'batch context':>14} {'device':>15} {'call':>15} {'':>14} {'of copy':>7} {'error':>7}\n"
          f"{'':10} {'':28} {'(or blocks)':>14}")


def _line(row: dict) -> str:
    def figure(key: str, form: str, unit: str = "") -> str:
        return f"{row[key]:{form}}{unit}" if row.get(key) is not None else ""

    where = " ".join(f"{row[key]:,}" for key in ("batch", "context", "blocks") if key in row)
    figures = (f"{figure('device_us', ',.1f', ' µs'):>15} {figure('call_us', ',.1f', ' µs'):>15} "
               f"{figure('gb_per_s', ',.1f', ' GB/s'):>14} {figure('share_of_copy', '.0%'):>7} "
               f"{figure('error', '.0e'):>7}")
    if "reserved_bytes_peak" in row:
        figures = (f"  reserved {row['reserved_bytes_peak'] / 2**20:,.0f} MiB, "
                   f"allocated {row['allocated_bytes_peak'] / 2**20:,.0f} MiB at most ({row['source']})")
    note = "" if row["status"] == "ok" else f"  {row['status']}"
    return f"{row['section']:10} {row['name']:28} {where:>14} {figures}{note}".rstrip()


# ── bandwidth ────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure_bandwidth(report: Report, sizes: Sizes, clock: Clock) -> None:
    size = sizes.copied_bytes
    if clock.on_gpu:
        size = min(size, torch.cuda.mem_get_info(clock.device)[0] // 8)
    source = torch.ones(size // 4, dtype=torch.float32, device=clock.device)
    target = torch.empty_like(source)
    size = source.nbytes
    with report.guarded("bandwidth", "copy"):
        seconds, timing = clock.device_seconds(lambda: target.copy_(source))
        report.copy_gb_per_s = 2 * size / seconds / 1e9
        report.add("bandwidth", "copy", bytes=2 * size, device_us=seconds * 1e6, timing=timing,
                   gb_per_s=report.copy_gb_per_s)
    with report.guarded("bandwidth", "read"):
        seconds, timing = clock.device_seconds(source.sum)
        report.add("bandwidth", "read", bytes=size, device_us=seconds * 1e6, timing=timing,
                   gb_per_s=size / seconds / 1e9)


# ── attention ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Problem:
    """Decode steps over `num_layers` layers: a filled pool, a batch with shuffled tables, a query per layer."""

    storage: KVStorage
    batch: PagedBatch
    queries: torch.Tensor  # [layers, sequences, heads, head_dim]

    @property
    def scale(self) -> float:
        return self.storage.head_dim ** -0.5

    @property
    def num_layers(self) -> int:
        return self.storage.num_layers


@dataclass
class Contiguous:
    """The same without blocks: data[layer] is keys and values [2, sequences, KV heads, tokens, head_dim]."""

    data: torch.Tensor
    queries: torch.Tensor
    scale: float


def paged_problem(sizes: Sizes, device: torch.device, num_layers: int, contexts: list[int], block_size: int, int8: bool,
                  generator: np.random.Generator) -> Problem:
    per_sequence = [-(-context // block_size) for context in contexts]
    num_blocks = sum(per_sequence)
    kind = Int8KVStorage if int8 else KVStorage
    storage = kind(num_layers, sizes.num_kv_heads, sizes.head_dim, num_blocks, block_size, torch.float16, device)
    if int8:
        storage.data.random_(-127, 128)
        storage.scales.fill_(1 / 64)
    else:
        storage.data.normal_()
    tables = np.zeros((len(contexts), max(per_sequence)), dtype=np.int32)
    blocks, start = generator.permutation(num_blocks), 0
    for row, count in zip(tables, per_sequence):
        row[:count] = blocks[start:start + count]
        start += count
    batch = PagedBatch.from_arrays(tables, list(contexts), [1] * len(contexts), storage)
    return Problem(storage, batch, _queries(sizes, device, num_layers, len(contexts)))


def _queries(sizes: Sizes, device: torch.device, num_layers: int, num_sequences: int) -> torch.Tensor:
    shape = num_layers, num_sequences, sizes.num_heads, sizes.head_dim
    return torch.randn(shape, dtype=torch.float16, device=device)


def contiguous_of(problem: Problem) -> Contiguous:
    """For the comparison: the pool's contents, copied out. All sequences have the same length."""
    storage, batch = problem.storage, problem.batch
    layers = []
    for layer in range(problem.num_layers):
        sequences = [storage.gather_unchecked(layer, table, context)
                     for table, context in zip(batch.block_tables, batch.context_lens_list)]
        layers.append(torch.stack([torch.stack(part) for part in zip(*sequences)]))
    return Contiguous(torch.stack(layers), problem.queries, problem.scale)


Step = Callable[[int], torch.Tensor]  # layer -> attention [sequences, heads, head_dim]


def triton_step(problem: Problem) -> Step:
    return lambda layer: triton_kernels.attend(problem.queries[layer], problem.storage, layer, problem.batch,
                                               problem.scale)


def gather_step(problem: Problem) -> Step:
    return lambda layer: gather.attend(problem.queries[layer], problem.storage, layer, problem.batch, problem.scale)


def sdpa_step(problem: Contiguous) -> Step:
    queries = problem.queries[:, :, :, None]  # one new token: [layers, sequences, heads, 1, head_dim]
    return lambda layer: scaled_dot_product_attention(
        queries[layer], *problem.data[layer], scale=problem.scale, enable_gqa=True).squeeze(2)


def sdpa_rows_step(problem: Contiguous) -> Step:
    # a single new token sees everything, so the heads of a group can be rows of one query, without a mask
    num_kv_heads = problem.data.shape[3]
    queries = problem.queries.unflatten(2, (num_kv_heads, -1))
    return lambda layer: scaled_dot_product_attention(
        queries[layer], *problem.data[layer], scale=problem.scale).flatten(1, 2)


def flashinfer_step(problem: Problem) -> Step:
    flashinfer = importlib.import_module("flashinfer")
    storage, batch = problem.storage, problem.batch
    size, contexts = storage.block_size, batch.context_lens_list
    counts = [-(-context // size) for context in contexts]
    indices = torch.cat([table[:count] for table, count in zip(batch.block_tables, counts)])
    starts = torch.tensor(np.cumsum([0, *counts]), dtype=torch.int32, device=storage.device)
    last = torch.tensor([(context - 1) % size + 1 for context in contexts], dtype=torch.int32, device=storage.device)
    workspace = torch.zeros(256 << 20, dtype=torch.uint8, device=storage.device)
    wrapper = flashinfer.BatchDecodeWithPagedKVCacheWrapper(workspace, "HND", use_tensor_cores=True)
    wrapper.plan(starts, indices, last, problem.queries.shape[2], storage.num_kv_heads, storage.head_dim, size,
                 q_data_type=storage.dtype, kv_data_type=storage.dtype)
    return lambda layer: wrapper.run(problem.queries[layer], (storage.keys(layer), storage.values(layer)))


def flash_attn_step(problem: Problem) -> Step:
    flash_attn = importlib.import_module("flash_attn")
    storage, batch = problem.storage, problem.batch
    return lambda layer: flash_attn.flash_attn_with_kvcache(
        problem.queries[layer][:, None], storage.keys(layer).transpose(1, 2), storage.values(layer).transpose(1, 2),
        cache_seqlens=batch.context_lens, block_table=batch.block_tables, softmax_scale=problem.scale).squeeze(1)


@dataclass(frozen=True)
class Kind:
    """One way to attend. block_size None: contiguous memory."""

    name: str
    step: Callable[..., Step]
    block_size: int | None
    int8: bool = False
    foreign: bool = False
    most_batch: int | None = None


KINDS = (
    Kind("triton, blocks of 16", triton_step, 16),
    Kind("triton, blocks of 64", triton_step, 64),
    Kind("triton, blocks of 16, INT8", triton_step, 16, int8=True),
    # goes sequence by sequence: with many of them this only measures launches
    Kind("gather, blocks of 16", gather_step, 16, most_batch=8),
    Kind("sdpa", sdpa_step, None),
    Kind("sdpa, group rows", sdpa_rows_step, None),
    Kind("flashinfer, blocks of 16", flashinfer_step, 16, foreign=True),
    Kind("flash-attn, blocks of 256", flash_attn_step, 256, foreign=True),
)


def error_of(kind: Kind, sizes: Sizes, device: torch.device, generator: np.random.Generator) -> float:
    """The largest difference to `gather` in a small case; ragged where the kind can be."""
    contexts = [70, 70, 70] if kind.block_size is None else [1, 70, 600, 64]
    problem = paged_problem(sizes, device, 2, contexts, kind.block_size or 16, kind.int8, generator)
    step = kind.step(contiguous_of(problem) if kind.block_size is None else problem)
    differences = (step(1).float() - gather_step(problem)(1).float()).abs()
    return differences.max().nan_to_num(torch.inf).item()


def measure_attention(report: Report, sizes: Sizes, clock: Clock, deadline: float) -> None:
    generator = np.random.default_rng(15)
    for kind in KINDS:
        error = None
        with report.guarded("attention", kind.name, kind.foreign):
            error = error_of(kind, sizes, clock.device, generator)
        if error is None:
            continue  # the row says why
        if error > TOLERANCE:
            report.add("attention", kind.name, f"failed: differs from gather by {error:.2g}", foreign=kind.foreign,
                       error=error)
            continue
        for batch in sizes.batches:
            for context in sizes.contexts:
                cell = {"batch": batch, "context": context, "block_size": kind.block_size, "error": error}
                if kind.most_batch and batch > kind.most_batch:
                    continue
                if time.monotonic() > deadline:
                    report.add("attention", kind.name, "skipped: out of time (see --seconds)", **cell)
                    continue
                with report.guarded("attention", kind.name, kind.foreign, **cell):
                    figures = attention_cell(kind, sizes, clock, batch, context, generator)
                    report.add("attention", kind.name, **cell, **figures)
                _release_memory(clock)


def attention_cell(kind: Kind, sizes: Sizes, clock: Clock, batch: int, context: int, generator: np.random.Generator
                   ) -> dict:
    layer_bytes = batch * context * 2 * sizes.num_kv_heads * (sizes.head_dim + 2 if kind.int8 else 2 * sizes.head_dim)
    num_layers = layers_for(layer_bytes, sizes, clock)
    if kind.block_size is None:
        shape = num_layers, 2, batch, sizes.num_kv_heads, context, sizes.head_dim
        data = torch.empty(shape, dtype=torch.float16, device=clock.device).normal_()
        problem = Contiguous(data, _queries(sizes, clock.device, num_layers, batch), sizes.head_dim ** -0.5)
    else:
        problem = paged_problem(sizes, clock.device, num_layers, [context] * batch, kind.block_size, kind.int8,
                                generator)
    step = kind.step(problem)

    def all_layers():
        for layer in range(num_layers):
            step(layer)

    device_seconds, timing = clock.device_seconds(all_layers)
    call_seconds = clock.call_seconds(all_layers) if timing == "graph" else device_seconds
    return {"bytes": layer_bytes, "layers": num_layers, "device_us": device_seconds / num_layers * 1e6,
            "call_us": call_seconds / num_layers * 1e6, "timing": timing,
            "gb_per_s": layer_bytes * num_layers / device_seconds / 1e9}


def layers_for(layer_bytes: int, sizes: Sizes, clock: Clock) -> int:
    """As many as it takes to be well beyond the cache, fewer where they do not fit in memory; at least one is tried."""
    properties = torch.cuda.get_device_properties(clock.device) if clock.on_gpu else None
    cache_bytes = getattr(properties, "L2_cache_size", 64 << 20) if clock.on_gpu else 0
    wanted = min(sizes.most_layers, max(2, -(-4 * cache_bytes // layer_bytes)))
    if clock.on_gpu:
        wanted = min(wanted, int(torch.cuda.mem_get_info(clock.device)[0] * 0.8) // layer_bytes)
    return max(1, wanted)


def _release_memory(clock: Clock) -> None:
    gc.collect()
    if clock.on_gpu:
        torch.cuda.empty_cache()


# ── allocator ────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure_allocator(report: Report, clock: Clock, folder: Path | None) -> None:
    """Each workload with PyTorch's allocator; on the CPU, which has none of that kind, with the simulated one."""
    for workload, file in SNAPSHOT_FILES.items():
        with report.guarded("allocator", workload), tempfile.TemporaryDirectory() as temporary:
            measure = _real_allocator if clock.on_gpu else _simulated_allocator
            report.add("allocator", workload, **measure(workload, (folder or Path(temporary)) / file))


def _real_allocator(workload: str, path: Path) -> dict:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_stats()["allocated_bytes.all.current"]
    recorded = record_live(path, workload)
    stats = torch.cuda.memory_stats()
    return {"source": recorded.badge, "before_bytes": before, "segments_peak": stats["segment.all.peak"],
            "reserved_bytes_peak": stats["reserved_bytes.all.peak"],
            "allocated_bytes_peak": stats["allocated_bytes.all.peak"],
            "inactive_split_bytes_peak": stats["inactive_split_bytes.all.peak"]}


def _simulated_allocator(workload: str, path: Path) -> dict:
    allocator = CachingAllocator(CAPACITY_BYTES)
    allocator.explain = False
    sizes_of, live, peak = {}, 0, 0

    def allocate(owner: str, size_bytes: int) -> object:
        nonlocal live, peak
        handle = allocator.allocate(owner, size_bytes)
        sizes_of[handle] = size_bytes
        live += size_bytes
        peak = max(peak, live)
        return handle

    def free(handle: object) -> None:
        nonlocal live
        live -= sizes_of.pop(handle)
        allocator.free(handle)

    run_workload(workload, allocate, free)
    # it has room for everything, so it never gives a segment back, and the end is the peak
    segments = allocator.layout().segments
    return {"source": record_live(path, workload).badge, "before_bytes": 0, "segments_peak": len(segments),
            "reserved_bytes_peak": sum(segment.size_bytes for segment in segments), "allocated_bytes_peak": peak}


# ── blocks ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def measure_blocks(report: Report, sizes: Sizes, clock: Clock) -> None:
    num_blocks = sizes.pool_blocks
    storage = KVStorage(sizes.pool_layers, sizes.num_kv_heads, sizes.head_dim, num_blocks, 16, torch.float16,
                        clock.device, zero_on_reuse=True)
    host = HostBlocks(storage, max(sizes.moved_blocks))
    blocks = np.random.default_rng(16).permutation(num_blocks).tolist()
    for count in sizes.moved_blocks:
        size = count * storage.block_bytes
        first, second, places = blocks[:count], blocks[count:2 * count], list(range(count))
        rows = {
            "copy_blocks": (2 * size, lambda: storage.copy_blocks(zip(first, second))),
            "swap out": (size, lambda: host.copy_out(first, places)),
            "swap in": (size, lambda: host.copy_in(places, first)),
            "zero_on_reuse": (size, lambda: storage.prepare(first)),
        }
        for name, (moved_bytes, work) in rows.items():
            with report.guarded("blocks", name, blocks=count):
                error = block_error(name, storage, host, first, second, places)
                if error:
                    raise ValueError(error)
                seconds = clock.call_seconds(work)
                report.add("blocks", name, blocks=count, bytes=moved_bytes, call_us=seconds * 1e6,
                           gb_per_s=moved_bytes / seconds / 1e9)
    size = max(sizes.moved_blocks) * storage.block_bytes
    on_host = torch.zeros(size, dtype=torch.uint8, pin_memory=clock.on_gpu)
    on_device = torch.zeros(size, dtype=torch.uint8, device=clock.device)
    for name, target, source in (("plain copy out", on_host, on_device), ("plain copy in", on_device, on_host)):
        with report.guarded("blocks", name, blocks=max(sizes.moved_blocks)):
            seconds = clock.call_seconds(lambda: target.copy_(source, non_blocking=True))
            report.add("blocks", name, blocks=max(sizes.moved_blocks), bytes=size, call_us=seconds * 1e6,
                       gb_per_s=size / seconds / 1e9)


def block_error(name: str, storage: KVStorage, host: HostBlocks, first: list[int], second: list[int], places: list[int]
                ) -> str | None:
    """Whether what is about to be timed does what it should."""
    storage.data.fill_(1)
    storage.data[:, :, first] = 2
    if name == "copy_blocks":
        storage.copy_blocks(zip(first, second))
        right = bool((storage.data[:, :, first + second] == 2).all())
    elif name == "zero_on_reuse":
        storage.prepare(first)
        right = not storage.data[:, :, first].any() and bool((storage.data[:, :, second] == 1).all())
    else:
        host.copy_out(first, places)
        host.copy_in(places, second)
        right = bool((storage.data[:, :, second] == 2).all())
    return None if right else f"{name} left wrong numbers in the blocks"


# ── all of it ────────────────────────────────────────────────────────────────────────────────────────────────────────


def machine(device: torch.device) -> dict:
    versions = {"python": platform.python_version(), "torch": torch.__version__, "numpy": np.__version__}
    for package in ("triton", "flashinfer-python", "flash-attn"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    facts = {"device": "CPU", "cuda": torch.version.cuda, "versions": versions}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        facts |= {"device": properties.name, "memory_bytes": properties.total_memory,
                  "capability": f"{properties.major}.{properties.minor}", "num_sms": properties.multi_processor_count,
                  "l2_bytes": getattr(properties, "L2_cache_size", None)}
    return facts


def run(device: torch.device, sizes: Sizes, seconds: float, snapshots: Path | None) -> tuple[Report, dict]:
    start = time.monotonic()
    facts = machine(device)
    print(f"{facts['device']}, " + ", ".join(f"{name} {version}" for name, version in facts["versions"].items()))
    print(HEADER)
    report, clock = Report(), Clock(device, sizes.rounds)
    # the short sections first: where time runs out it is attention's longest rows that are missing
    sections = {
        "bandwidth": lambda: measure_bandwidth(report, sizes, clock),
        "allocator": lambda: measure_allocator(report, clock, snapshots),
        "blocks": lambda: measure_blocks(report, sizes, clock),
        "attention": lambda: measure_attention(report, sizes, clock, start + seconds),
    }
    for name, section in sections.items():
        with report.guarded(name, "all rows"):
            section()
        _release_memory(clock)
    return report, {**facts, "seconds": time.monotonic() - start}


def main(command_line: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, …, or cpu together with --tiny")
    parser.add_argument("--tiny", action="store_true", help="every row, as small as can be: to test the script")
    parser.add_argument("--output", type=Path, default=Path("gpu.json"), help="the JSON file to write")
    parser.add_argument("--snapshots", action="store_true", help="keep the allocator snapshots beside the JSON file")
    parser.add_argument("--seconds", type=float, default=240, help="attention rows not begun by then are skipped")
    arguments = parser.parse_args(command_line)
    device = torch.device(arguments.device)
    if device.type == "cpu" and not arguments.tiny:
        parser.error("on the CPU only --tiny makes sense: the Triton kernels are interpreted there")
    if device.type == "cuda" and not torch.cuda.is_available():
        parser.error("PyTorch sees no GPU here; --device cpu --tiny shows what would run")
    # counts when Triton is imported, which happens later, with the first kernel
    if device.type == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
        torch.set_num_threads(1)  # tensors of this size are done before a second thread has woken up
    else:
        os.environ.pop("TRITON_INTERPRET", None)
        device = torch.device("cuda", device.index or 0)
        torch.cuda.set_device(device)

    torch.manual_seed(15)
    report, facts = run(device, TINY if arguments.tiny else Sizes(), arguments.seconds,
                        arguments.output.parent if arguments.snapshots else None)
    result = {**facts, "tiny": arguments.tiny, "copy_gb_per_s": report.copy_gb_per_s, "rows": report.rows}
    arguments.output.write_text(json.dumps(result, indent=1), encoding="utf-8")
    print(f"{len(report.rows)} rows in {facts['seconds']:.0f} s, written to {arguments.output}")
    print(f"NVIDIA's own counters for our kernel: {NCU_HINT}")
    for row in report.failed:
        print(f"failed: {row['section']}, {row['name']}: {row['status']}", file=sys.stderr)
    return 1 if report.failed else 0


if __name__ == "__main__":
    sys.exit(main())
