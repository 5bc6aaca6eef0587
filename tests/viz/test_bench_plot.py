"""Pictures of the Java benchmark: what they say is what is in the file."""

import json

import pytest

from pagedkv.viz.bench_plot import machine_of, plot_bench, plot_cache_sizes, read_bench

MACHINE = {"cpu": "A CPU", "cores": 2, "os": "Linux", "jdk": "OpenJDK 17", "netty": "4.2", "load_before": 0.1}


def row(series, pool, threads, batch, pairs, cache=None, hit_rate=None):
    spread = {"median": pairs, "first_quartile": 0.9 * pairs, "third_quartile": 1.1 * pairs, "lowest": 0, "highest": 2 * pairs}
    return {"series": series, "pool": pool, "threads": threads, "batch_blocks": batch, "calls": "batch",
            "cache_blocks": cache, "pairs_per_s": spread, "pairs_per_cpu_s": spread, "hit_rate": hit_rate}


@pytest.fixture
def bench(tmp_path):
    results = [row("threads", pool, threads, batch, 1e6 * (10 * batch + threads + place))
               for place, pool in enumerate(["monitor", "cached"]) for threads in (2, 1) for batch in (1, 8)]
    results += [row("cache size", "cached", 2, 8, 4e6, size, size / 64) for size in (64, 0, 4)]
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"benchmark": "allocate + write 8 bytes + release, Java", "machine": MACHINE,
                                "results": results}))
    return read_bench(path)


def test_by_threads(bench):
    picture = plot_bench(bench)
    assert "1 block a call" in picture.alt and "monitor 11.0 at 1, 12.0 at 2; cached 12.0 at 1, 13.0 at 2" in picture.alt
    assert machine_of(bench) in picture.alt and picture.png() == plot_bench(bench).png()
    assert "monitor 81.0 at 1" in plot_bench(bench, 8).alt
    [axes] = picture.figure.axes
    assert [text.get_text() for text in picture.figure.legends[0].get_texts()] == ["monitor", "cached"]
    assert axes.get_ylim()[0] == 0


def test_by_cache_size(bench):
    picture = plot_cache_sizes(bench)
    assert "0: 0 % and 4.0 million; 4: 6 % and 4.0 million; 64: 100 % and 4.0 million" in picture.alt
    assert "the median of pairs per second" in picture.alt and picture.png()
    hits, pairs = picture.figure.axes
    assert not hits.collections
    bars, = pairs.collections
    assert [segment[:, 1].round(6).tolist() for segment in bars.get_segments()] == [[3.6, 4.4]] * 3


def test_what_was_not_measured(bench):
    with pytest.raises(ValueError, match=r"batches of 64 were not measured; there are \[1, 8\]"):
        plot_bench(bench, 64)
    bench["results"] = [each for each in bench["results"] if each["series"] == "threads"]
    with pytest.raises(ValueError, match="cache sizes were not measured"):
        plot_cache_sizes(bench)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"benchmark": "something else", "results": [1]}', "null"])
def test_a_file_that_is_none(tmp_path, text):
    path = tmp_path / "none.json"
    path.write_text(text)
    with pytest.raises(ValueError, match="holds no results"):
        read_bench(path)
