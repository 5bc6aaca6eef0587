"""The pools in Java, measured: pictures of what `make bench-java` has written."""

import json
from collections.abc import Mapping
from pathlib import Path

from pagedkv.viz import palette
from pagedkv.viz.picture import Picture, default_style

_MARKERS = "osD^vP*X"
_BENCHMARK = "allocate + write 8 bytes + release, Java"


def read_bench(path: str | Path) -> dict:
    """The results in this file. Raises ValueError if it is not one of `make bench-java BENCH='--json FILE'`."""
    try:
        bench = json.loads(Path(path).read_text(encoding="utf-8"))
        if bench["benchmark"] == _BENCHMARK and bench["results"]:
            return bench
    except (ValueError, KeyError, TypeError):
        pass
    raise ValueError(f"{path} holds no results of the Java pools; make bench-java BENCH='--json FILE' writes some")


def machine_of(bench: Mapping) -> str:
    """What these figures were measured on, in one line."""
    machine = bench["machine"]
    return f"{machine['cpu']}, {machine['cores']} cores, {machine['jdk']}, Netty {machine['netty']}"


def plot_bench(bench: Mapping, batch_blocks: int = 1, title: str = "") -> Picture:
    """Allocate-and-release pairs per second, by threads: a line for each pool, the quartiles as a bar.

    bench         of `read_bench`
    batch_blocks  how many blocks a call takes or gives back

    Raises ValueError for a batch that was not measured."""
    from matplotlib.figure import Figure
    rows = [row for row in bench["results"] if row["series"] == "threads" and row["batch_blocks"] == batch_blocks]
    if not rows:
        known = sorted({row["batch_blocks"] for row in bench["results"] if row["series"] == "threads"})
        raise ValueError(f"batches of {batch_blocks} were not measured; there are {known}")
    pools = list(dict.fromkeys(row["pool"] for row in rows))
    words = []
    with default_style():
        figure = Figure(figsize=(7, 3.4), layout="constrained")
        axes = figure.add_subplot()
        for number, pool in enumerate(pools):
            of_pool = sorted((row for row in rows if row["pool"] == pool), key=lambda row: row["threads"])
            threads = [row["threads"] for row in of_pool]
            spreads = [row["pairs_per_s"] for row in of_pool]
            medians, errors = _in_millions(spreads)
            # side by side, so that the bars of one number of threads can be told apart
            places = [count + 0.04 * (number - (len(pools) - 1) / 2) for count in threads]
            axes.errorbar(places, medians, yerr=errors, label=pool, color=palette.hue(number), capsize=2,
                          marker=_MARKERS[number % len(_MARKERS)], markersize=5, linewidth=1.4)
            words.append(f"{pool} " + ", ".join(f"{median:.1f} at {count}" for count, median in zip(threads, medians)))
        cores = bench["machine"]["cores"]
        axes.axvline(cores, color=palette.FAINT_INK, linewidth=0.8, linestyle=":")
        axes.set(xlabel=f"threads (dotted: the machine's {cores} cores)", ylabel="million pairs per second",
                 xticks=sorted({row["threads"] for row in rows}), ylim=(0, None))
        axes.set_title(title or f"{_blocks(batch_blocks)} a call", fontsize=9.5, loc="left", weight="bold")
        axes.spines[["top", "right"]].set_visible(False)
        figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", fontsize=8, frameon=False)
        figure.supxlabel(machine_of(bench), fontsize=6.5, color=palette.FAINT_INK, x=0.01, ha="left")
    return Picture(figure, f"{title or 'Java pools'}, million pairs of allocate and release per second by number of "
                           f"threads, {_blocks(batch_blocks)} a call: {'; '.join(words)}. Measured on {machine_of(bench)}.")


def plot_cache_sizes(bench: Mapping, title: str = "") -> Picture:
    """By the size of each thread's cache: how many allocations it serves, and how fast the pool is, with the
    quartiles as a bar.

    Raises ValueError where that was not measured."""
    from matplotlib.figure import Figure
    rows = sorted((row for row in bench["results"] if row["series"] == "cache size"), key=lambda row: row["cache_blocks"])
    if not rows:
        raise ValueError("cache sizes were not measured: --only must not leave the pool \"cached\" out")
    sizes = [row["cache_blocks"] for row in rows]
    hits = [100 * row["hit_rate"] for row in rows]
    pairs, errors = _in_millions([row["pairs_per_s"] for row in rows])
    with default_style():
        figure = Figure(figsize=(7, 2.7), layout="constrained")
        panels = figure.subplots(1, 2)
        for number, (axes, values, bars, label) in enumerate(zip(
                panels, (hits, pairs), (None, errors), ("hits, % of allocations", "million pairs per second"))):
            axes.errorbar(range(len(sizes)), values, yerr=bars, color=palette.hue(number), capsize=2,
                          marker=_MARKERS[number], markersize=5)
            axes.set(xlabel="blocks in a thread's cache", ylabel=label, xticks=range(len(sizes)), xticklabels=sizes,
                     ylim=(0, None))
            axes.spines[["top", "right"]].set_visible(False)
        figure.suptitle(title or f"{rows[0]['threads']} threads, each takes {rows[0]['batch_blocks']} blocks one by one and "
                        "gives them back", fontsize=9.5, x=0.01, ha="left", weight="bold")
        figure.supxlabel(machine_of(bench), fontsize=6.5, color=palette.FAINT_INK, x=0.01, ha="left")
    words = "; ".join(f"{size}: {hit:.0f} % and {pair:.1f} million" for size, hit, pair in zip(sizes, hits, pairs))
    return Picture(figure, f"Hits of a thread's cache, and the median of pairs per second, by the cache's size in "
                           f"blocks: {words}. Measured on {machine_of(bench)}.")


def _in_millions(spreads: list[Mapping]) -> tuple[list[float], list[list[float]]]:
    """The medians, and how far the quartiles are below and above them."""
    medians = [spread["median"] / 1e6 for spread in spreads]
    return medians, [[median - spread["first_quartile"] / 1e6 for median, spread in zip(medians, spreads)],
                     [spread["third_quartile"] / 1e6 - median for median, spread in zip(medians, spreads)]]


def _blocks(number: int) -> str:
    return f"{number} block{'s' if number > 1 else ''}"
