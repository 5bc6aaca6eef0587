"""What notebook 08 says about the stored measurements of the Java pools (claims S12, N4, S16), held against them."""

import pytest

from pagedkv.lab.workers_bench import stored_bench
from pagedkv.viz.bench_plot import machine_of

BENCH = stored_bench()
MONITOR, SHARDED, LOCK_FREE, CACHED, NETTY = "monitor", "sharded", "lock-free", "cached", "netty pooled"


def pairs_per_s(pool, threads, batch_blocks):
    row, = (row for row in BENCH["results"] if (row["series"], row["pool"], row["threads"], row["batch_blocks"]) ==
            ("threads", pool, threads, batch_blocks))
    return row["pairs_per_s"]["median"]


def order(threads, batch_blocks):
    return sorted((MONITOR, SHARDED, LOCK_FREE, CACHED, NETTY), key=lambda pool: pairs_per_s(pool, threads, batch_blocks))


def test_the_machine_is_named():
    assert "2 cores" in machine_of(BENCH) and BENCH["netty_settings"].startswith("thread caches on")


def test_one_block_a_call():
    assert order(1, 1)[-1] == MONITOR
    assert set(order(2, 1)[:2]) == {LOCK_FREE, MONITOR} and pairs_per_s(CACHED, 4, 1) > pairs_per_s(CACHED, 2, 1)
    assert max(pairs_per_s(pool, 2, 1) / pairs_per_s(pool, 1, 1) for pool in (LOCK_FREE, MONITOR)) < 0.4
    assert {pool for pool in order(1, 1) if pairs_per_s(pool, 2, 1) > pairs_per_s(pool, 1, 1)} == \
        {SHARDED, CACHED, NETTY}


def test_eight_blocks_a_call():
    for threads in (2, 4):
        assert pairs_per_s(LOCK_FREE, threads, 8) < pairs_per_s(MONITOR, threads, 8)
        assert set(order(threads, 8)[-2:]) == {SHARDED, CACHED}


@pytest.mark.parametrize("threads", [1, 2])
def test_the_cached_pool_is_no_slower_than_netty(threads):
    """The goal that was set: at least Netty's pairs, in the same run."""
    assert pairs_per_s(CACHED, threads, 1) >= pairs_per_s(NETTY, threads, 1)


def test_the_cache_sizes():
    rows = {row["cache_blocks"]: row for row in BENCH["results"] if row["series"] == "cache size"}
    assert {size: row["hit_rate"] > 0.99 for size, row in rows.items()} == \
        {0: False, 2: False, 4: False, 8: True, 64: True}
    pairs = {size: row["pairs_per_s"]["median"] for size, row in rows.items()}
    assert max(pairs[2], pairs[4]) < 1.5 * pairs[0] < 0.5 * pairs[8] and pairs[64] > pairs[8]
