"""The Java pools as they were measured once, for a notebook that cannot wait half an hour.

The file beside this one was written by

    make bench-java BENCH="--quick --forks 3 --json pagedkv/lab/workers_bench.json"

It names the machine; on another one the figures are others.
"""

from pathlib import Path

from pagedkv.viz.bench_plot import read_bench


def stored_bench() -> dict:
    """The results, as `pagedkv.viz.bench_plot` draws them."""
    return read_bench(Path(__file__).with_name("workers_bench.json"))
