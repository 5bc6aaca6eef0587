"""FreeRuns against a list of single bytes."""

import random

import pytest

from pagedkv.core.free_runs import FreeRuns


def runs_of(free, low_high):
    """(start, size) of the runs among single free bytes, cut at the segments' borders."""
    runs, borders = [], {low for low, _ in low_high}
    for address in sorted(free):
        if runs and runs[-1][0] + runs[-1][1] == address and address not in borders:
            runs[-1][1] += 1
        else:
            runs.append([address, 1])
    return [tuple(run) for run in runs]


def test_any_adds_and_takes():
    rng, segments = random.Random(3), [(0, 40), (40, 64), (100, 130)]
    runs, free = FreeRuns(), set()
    for _ in range(1500):
        low, high = rng.choice(segments)
        start = rng.randrange(low, high)
        end = min(high, start + rng.choice((1, 1, 2, 3, 8, 20)))
        bytes_of = set(range(start, end))
        if not bytes_of & free:
            runs.add(start, end - start, low, high)
            free |= bytes_of
        elif bytes_of <= free:
            runs.take(start, end - start)
            free -= bytes_of
        else:
            with pytest.raises(ValueError, match="is not free"):
                runs.take(start, end - start)
        expected = runs_of(free, segments)
        assert list(runs) == expected and len(runs) == len(expected)
        assert runs.total_bytes == len(free)
        assert runs.largest_bytes == max((size for _, size in expected), default=0)
        for address in range(-1, 131):
            inside = [(first, first + size) for first, size in expected if first <= address < first + size]
            assert runs.around(address) == (inside[0] if inside else None)


def test_runs_of_different_segments_stay_apart():
    runs = FreeRuns()
    runs.add(0, 10, 0, 10)
    runs.add(10, 10, 10, 20)
    assert list(runs) == [(0, 10), (10, 10)] and runs.largest_bytes == 10
    with pytest.raises(ValueError, match="0x5 … 0xf is not free"):
        runs.take(5, 10)
    assert list(runs) == [(0, 10), (10, 10)]


def test_nothing():
    runs = FreeRuns()
    runs.add(5, 0, 0, 10)
    runs.take(5, 0)
    assert list(runs) == [] and runs.largest_bytes == runs.total_bytes == 0 and runs.around(5) is None
    with pytest.raises(ValueError):
        runs.take(5, 1)
