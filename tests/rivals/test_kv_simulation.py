"""How much memory holds tokens: the counting simulation against one that is slow and plain."""

from collections import deque
from pathlib import Path

import pytest

from pagedkv.core.errors import OutOfMemory
from pagedkv.rivals.kv_schemes import (PAPER_FILLED, KVMemory, buddy_exact, doubling, first_fit_exact, paged,
                                       reserve_exact, reserve_max, reserve_pow2_output, usual_schemes)
from pagedkv.rivals.kv_simulation import KEEP_FREE_SHARE, compare, simulate, sweep_block_sizes
from pagedkv.rivals.kv_sins import duplicate_blocks, duplicate_ids, long_tail, memory_without_tokens
from pagedkv.rivals.kv_workload import AZURE_CONVERSATION, KVRequest, cut, draw_requests, read_trace

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"
GIB, TOKEN = 1 << 30, 512 << 10

CHAT = draw_requests(AZURE_CONVERSATION, 300, longest_tokens=4096)


def plain(requests, scheme, capacity_bytes, bytes_per_token):
    """The same closed loop, one call per token, measured by looking at every piece. Returns what `simulate` must."""
    longest = max(request.total_tokens for request in requests)
    allocator = scheme.make(KVMemory(capacity_bytes, bytes_per_token, longest, requests))
    final = {request.name: request.total_tokens for request in requests}
    waiting = deque((request.name, request.prompt_tokens) for request in requests)
    running = []  # [name, tokens, handle], the oldest first
    warm = None
    finished = preemptions = steps = 0
    sums = [0, 0, 0, 0, 0]  # filled, reserved, internal, external bytes; running
    while waiting or running:
        for one in [one for one in running if one[1] == final[one[0]]]:
            allocator.free(one[2])
            running.remove(one)
            finished += 1
        while waiting:
            name, tokens = waiting[0]
            asked = bytes_per_token * (final[name] if scheme.at_once else tokens + 1)
            used = sum(piece.size_bytes for piece in allocator.layout().pieces)
            try:
                if running and scheme.may_run_out and capacity_bytes - used - asked < KEEP_FREE_SHARE * capacity_bytes:
                    raise OutOfMemory
                running.append([name, tokens, allocator.allocate(name, asked)])
            except OutOfMemory:
                assert running, "a request that never fits"
                warm = len(running) if warm is None else warm
                break
            waiting.popleft()
        for one in list(running):
            while one in running and not scheme.at_once:
                try:
                    one[2] = allocator.grow(one[2], (one[1] + 1) * bytes_per_token)
                    break
                except OutOfMemory:
                    youngest = running.pop()
                    allocator.free(youngest[2])
                    waiting.appendleft((youngest[0], youngest[1]))
                    preemptions += 1
        for one in running:
            one[1] += 1
        if warm is not None and finished >= warm and waiting:
            steps += 1
            now = {name: tokens * bytes_per_token for name, tokens, _ in running}
            aside = dict.fromkeys(now, 0)
            for piece in allocator.layout().pieces:
                aside[piece.owner] += piece.size_bytes
            filled = sum(now.values())
            will_be = sum(min(aside[name], final[name] * bytes_per_token) for name in now)
            sums[0] += filled
            sums[1] += will_be - filled
            sums[2] += sum(aside.values()) - will_be
            sums[3] += capacity_bytes - sum(aside.values())
            sums[4] += len(running)
    shares = tuple(part / steps / capacity_bytes for part in sums[:4])
    return shares, sums[4] / steps, steps, finished, preemptions


@pytest.mark.parametrize("scheme", [*usual_schemes(), paged(1), paged(7), paged(64)], ids=lambda scheme: scheme.title)
def test_counting_gives_what_a_call_per_token_gives(scheme):
    requests = [KVRequest(request.name, 1 + request.prompt_tokens // 40, 1 + request.output_tokens // 10)
                for request in draw_requests(AZURE_CONVERSATION, 90, seed=7)]
    capacity_bytes = 10 * 700
    result = simulate(requests, scheme, capacity_bytes, 10)
    shares, running, steps, finished, preemptions = plain(requests, scheme, capacity_bytes, 10)
    assert tuple(result.waste) == pytest.approx(shares)
    assert result.running == pytest.approx(running)
    assert (result.steps, result.finished, result.preemptions) == (steps, finished, preemptions)
    assert steps > 50 and finished == 90
    assert (preemptions > 0) == scheme.may_run_out, "these cases also test preemption"


def test_the_order_of_the_schemes():
    """N18: what paging gains over reservation, at the same requests and memory."""
    results = {result.title: result for result in compare(CHAT, 16 * GIB, TOKEN)}
    filled = {title: result.waste.filled_bytes for title, result in results.items()}
    assert filled["static, max"] < 0.40 < 0.60 < filled["static, oracle"] < 0.85 < filled["paged, 16 tokens"]
    assert filled["static, max"] < filled["buddy, oracle"] < filled["static, oracle"]
    assert filled["static, output to 2^k"] < filled["static, oracle"]
    assert filled["paged, 16 tokens"] > 0.93
    assert results["paged, 16 tokens"].running > 2.5 * results["static, max"].running
    assert results["static, oracle"].waste == results["first fit, final length"].waste
    assert results["static, oracle"].waste.internal_bytes == 0 < results["static, oracle"].waste.external_bytes
    for title, result in results.items():
        assert sum(result.waste) == pytest.approx(1) and min(result.waste) >= 0
        assert result.finished == len(CHAT) and not result.never_fit
        assert (result.moved_tokens > 0) == (title == "doubling, moves")
        assert result.preemptions == 0 or title in ("doubling, moves", "paged, 16 tokens")
        assert (result.recomputed_tokens > 0) == (result.preemptions > 0)
    assert {result.paper_filled for result in results.values()} >= {0.204, 0.268, 0.382, 0.963, None}
    assert set(PAPER_FILLED.values()) == {0.204, 0.268, 0.382, 0.963}


def test_block_sizes():
    """B4, S8: half a block is lost per request, and the share that is filled falls as nested blocks grow."""
    results = sweep_block_sizes(CHAT, 16 * GIB, TOKEN, (1, 2, 16, 64, 256))
    assert [result.lost_tokens for result in results[:4]] == pytest.approx([0, 0.5, 7.5, 31.5], rel=0.05)
    filled = [result.filled_of_set_aside for result in results]
    assert filled == sorted(filled, reverse=True) and filled[0] == 1 and filled[-1] < 0.93


def test_progress_and_names():
    told = []
    compare(CHAT, 16 * GIB, TOKEN, [paged(16), reserve_exact()], on_progress=lambda *how_many: told.append(how_many))
    assert told == sorted(told) and told[-1] == (600, 600) and (300, 600) in told and len(told) > 20


def test_what_never_fits_is_named_and_left_out():
    requests = [*CHAT[:100], KVRequest("huge", 40_000, 5), KVRequest("grows too far", 32_000, 2000), *CHAT[100:]]
    result = simulate(requests, paged(16), 16 * GIB, TOKEN)
    assert result.never_fit == ("huge", "grows too far") and result.finished == 300


def test_what_cannot_be_measured():
    with pytest.raises(ValueError, match="more requests, or less memory"):
        simulate(CHAT[:3], paged(16), 16 * GIB, TOKEN)
    with pytest.raises(ValueError, match="there are no requests"):
        simulate([], paged(16), 16 * GIB, TOKEN)
    with pytest.raises(ValueError, match="same name"):
        simulate(CHAT + CHAT, paged(16), 16 * GIB, TOKEN)
    with pytest.raises(ValueError, match="more than longest_tokens = 1000: cut"):
        simulate(CHAT, reserve_max(), 16 * GIB, TOKEN, longest_tokens=1000)
    simulate(cut(CHAT, 1000), reserve_max(), 4 * GIB, TOKEN, longest_tokens=1000)


def test_a_larger_limit_only_hurts_who_reserves_the_limit():
    schemes = [reserve_max(), reserve_pow2_output(), first_fit_exact(), buddy_exact()]
    tight, wide = (compare(CHAT, 16 * GIB, TOKEN, schemes, longest) for longest in (4096, 8192))
    assert wide[0].waste.filled_bytes < 0.6 * tight[0].waste.filled_bytes
    assert wide[2] == tight[2]


@pytest.mark.parametrize("name", ["conv", "code"])
def test_real_traces(name):
    path = DATA / f"azure_llm_2023_{name}.csv"
    if not path.is_file():
        pytest.skip(f"the trace {path.name} is not beside this checkout")
    static, best = compare(read_trace(path, 300), 16 * GIB, TOKEN, [reserve_max(), paged(16)])
    assert static.waste.filled_bytes < 0.4 and best.waste.filled_bytes > 0.88


def test_sin_1_most_of_the_memory_holds_no_tokens():
    """S3: more than 40 %."""
    assert memory_without_tokens(CHAT, 16 * GIB, TOKEN) > 0.6


def test_sin_2_the_longest_request_decides_for_all():
    requests = [KVRequest(f"r{i}", 90, 10) for i in range(99)] + [KVRequest("long", 900, 100)]
    tail = long_tail(requests, 10_000)
    assert tail == (1000, 100, 109.0, 10, 100) and tail.filled_in_the_end == 0.109
    assert long_tail(requests, 10_000, rarest_share=0).fits_without_rarest == 10
    with pytest.raises(ValueError, match="leaves none"):
        long_tail([], 100)
    with pytest.raises(ValueError, match="leaves none"):
        long_tail(requests, 100, 1.0)


def test_sin_3_equal_blocks_are_kept_many_times():
    system = list(range(40))
    prompts = [system + [100 + user] * 20 for user in range(5)]
    counted = duplicate_blocks(prompts, 16)
    # of each prompt 3 full blocks; the two of the system prompt alone are the same for all, the third is not
    assert counted == (15, 2 + 5) and counted.duplicates == 8 and counted.share == pytest.approx(8 / 15)
    assert duplicate_blocks(prompts, 8).duplicates == 4 * 5
    assert duplicate_blocks([[1, 2, 3]], 4) == (0, 0) and duplicate_blocks([[1, 2, 3]], 4).share == 0


def test_equal_tokens_after_different_ones_are_not_equal_blocks():
    assert duplicate_blocks([[1, 1, 7, 7], [2, 2, 7, 7]], 2) == (4, 4)
    assert duplicate_blocks([[7, 7, 7, 7]], 2) == (2, 2)


def test_ids_of_a_trace():
    assert duplicate_ids([[0, 1, 2], [0, 1, 3], [0]]) == (7, 4)


@pytest.mark.parametrize("scheme, tokens", [
    (reserve_max(), 1000), (reserve_pow2_output(), 300 + 64), (reserve_exact(), 360), (buddy_exact(), 409.6),
    (first_fit_exact(), 360), (doubling(), 512), (paged(16), 304), (paged(7), 301)], ids=lambda value: str(value)[:30])
def test_what_a_scheme_sets_aside_when_a_request_begins(scheme, tokens):
    """Of 300 tokens and 60 to come, where no request has more than 1000. The buddy's power of two is one of bytes."""
    requests = [KVRequest("A", 300, 60)]
    allocator = scheme.make(KVMemory(4096 * 10, 10, 1000, requests))
    handle = allocator.allocate("A", 10 * (360 if scheme.at_once else 300))
    assert allocator.set_aside_bytes(handle) == 10 * tokens


def test_the_output_is_rounded_up_to_a_power_of_two_that_it_may_be_already():
    requests = [KVRequest("A", 300, 64), KVRequest("B", 950, 40)]
    allocator = reserve_pow2_output().make(KVMemory(4096 * 10, 10, 1000, requests))
    assert allocator.set_aside_bytes(allocator.allocate("A", 3000)) == 3640
    assert allocator.set_aside_bytes(allocator.allocate("B", 9500)) == 10_000  # not beyond the greatest length
