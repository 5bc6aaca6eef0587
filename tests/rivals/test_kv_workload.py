"""KV-cache requests: lengths, traces, and the workload made of them."""

from pathlib import Path

import pytest

from pagedkv.core.memory_metrics import Metrics
from pagedkv.core.memory_replay import replay_memory
from pagedkv.rivals.kv_workload import (AZURE_CODE, AZURE_CONVERSATION, PROFILES, KVRequest, as_workload, cut,
                                        draw_requests, read_trace)
from pagedkv.rivals.paged import PagedAllocator
from pagedkv.rivals.workload import Request, run

DATA = Path(__file__).resolve().parents[2] / ".." / "shared" / "data"


def share_up_to(lengths, length):
    return sum(one <= length for one in lengths) / len(lengths)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda profile: profile.name)
def test_drawn_lengths_have_the_published_percentiles(profile):
    requests = draw_requests(profile, 8000)
    for known, lengths in ((profile.prompt, [request.prompt_tokens for request in requests]),
                           (profile.output, [request.output_tokens for request in requests])):
        assert share_up_to(lengths, known.p50 + 0.5) == pytest.approx(0.5, abs=0.04)
        assert share_up_to(lengths, known.p90) == pytest.approx(0.9, abs=0.02)
        assert share_up_to(lengths, known.p99) == pytest.approx(0.99, abs=0.005)
        assert 1 <= min(lengths) and max(lengths) <= known.most
        # the mean was not put in: between the percentiles the shape is an assumption, and this is how good it is
        assert sum(lengths) / len(lengths) == pytest.approx(known.mean, rel=0.2)


def test_percentiles_are_met_exactly_and_rise():
    for profile in PROFILES:
        for known in (profile.prompt, profile.output):
            met = [known.at(share) for share in (0.5, 0.9, 0.99)]
            assert met == pytest.approx([known.p50, known.p90, known.p99], abs=0.6)
            lengths = [known.at(share / 1000) for share in range(1, 1000)]
            assert lengths == sorted(lengths)


def test_the_same_seed_draws_the_same():
    assert draw_requests(AZURE_CODE, 50, seed=3) == draw_requests(AZURE_CODE, 50, seed=3)
    assert draw_requests(AZURE_CODE, 50, seed=3) != draw_requests(AZURE_CODE, 50, seed=4)
    assert draw_requests(AZURE_CODE, 50, seed=3) == draw_requests(AZURE_CODE, 90, seed=3)[:50]
    assert len({request.name for request in draw_requests(AZURE_CODE, 50)}) == 50


def test_cut():
    long, longer, longest = KVRequest("a", 90, 10), KVRequest("b", 90, 30), KVRequest("c", 5, 300)
    assert cut([long, longer, longest], 100) == [long, KVRequest("b", 70, 30), KVRequest("c", 1, 99)]
    assert max(request.total_tokens for request in draw_requests(AZURE_CONVERSATION, 500, longest_tokens=2048)) == 2048
    with pytest.raises(ValueError, match="at least 2"):
        cut([long], 1)


@pytest.mark.parametrize("text", [
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0,3180,8",
    "arrived_at,num_prefill_tokens,num_decode_tokens\n0.0,4808,10\n0.5,3180,8\n",
    "\ufeffTimestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n5,ChatGPT,4808,10,4818,API log\n"
    "6,GPT-4,77,0,77,API log\n7,GPT-4,3180,8,3188,API log\n"], ids=["azure", "vidur", "burstgpt"])
def test_traces_of_several_origins(tmp_path, text):
    path = tmp_path / "trace.csv"
    path.write_text(text, encoding="utf-8", newline="")
    assert read_trace(path) == [KVRequest("r0", 4808, 10), KVRequest("r1", 3180, 8)]
    assert read_trace(path, most_requests=1) == [KVRequest("r0", 4808, 10)]


@pytest.mark.parametrize("text, message", [
    ("a,b\n1,2\n", "none of the known pairs of columns .*it has a, b"),
    ("", "it has none"),
    ("ContextTokens,GeneratedTokens\n1,2\n3,x\n", "line 3: expected two lengths in tokens, got '3' and 'x'"),
    ("ContextTokens,GeneratedTokens\n-1,2\n", "line 2"),
    ("ContextTokens,GeneratedTokens\n1\n", "line 2"),
])
def test_what_is_no_trace(tmp_path, text, message):
    path = tmp_path / "trace.csv"
    path.write_text(text)
    with pytest.raises(ValueError, match=message):
        read_trace(path)


@pytest.mark.parametrize("name, count, profile", [("azure_llm_2023_conv.csv", 19366, AZURE_CONVERSATION),
                                                  ("azure_llm_2023_code.csv", 8819, AZURE_CODE)])
def test_the_real_traces_have_the_percentiles_we_state(name, count, profile):
    if not (DATA / name).is_file():
        pytest.skip(f"the trace {name} is not beside this checkout")
    requests = read_trace(DATA / name)
    assert len(requests) == count
    for known, lengths in ((profile.prompt, sorted(request.prompt_tokens for request in requests)),
                           (profile.output, sorted(request.output_tokens for request in requests))):
        assert sum(lengths) / count == pytest.approx(known.mean, abs=0.06)
        assert lengths[-1] == known.most
        for share, length in ((0.5, known.p50), (0.9, known.p90), (0.99, known.p99)):
            at = int(share * (count - 1))
            assert lengths[at] - 0.1 <= length <= lengths[at + 1] + 0.1


def test_requests_take_turns():
    requests = [KVRequest("a", 2, 2), KVRequest("b", 1, 1), KVRequest("c", 3, 1)]
    workload = as_workload(requests, 10, concurrent=2)
    assert list(workload.requests) == [
        Request("allocate", "a", 20), Request("allocate", "b", 10),
        Request("grow", "a", 30), Request("grow", "b", 20),
        Request("grow", "a", 40), Request("free", "b"), Request("allocate", "c", 30),
        Request("free", "a"), Request("grow", "c", 40),
        Request("free", "c")]
    one_by_one = as_workload(requests, 10, concurrent=1).requests
    assert [request.op for request in one_by_one[:4]] == ["allocate", "grow", "grow", "free"]
    big_steps = as_workload(requests, 10, concurrent=2, tokens_per_step=16)
    assert [request.size_bytes for request in big_steps.requests if request.op == "grow"] == [40, 20, 40]
    with pytest.raises(ValueError, match="concurrent is at least 1"):
        as_workload(requests, 10, concurrent=0)


def test_a_workload_runs_and_everything_comes_back():
    requests = draw_requests(AZURE_CODE, 30, longest_tokens=1000)
    recording = run(as_workload(requests, 64, concurrent=5, tokens_per_step=4), PagedAllocator(16 * 64 * 400, 16 * 64))
    states = [Metrics.of(state) for state in replay_memory(recording)]
    assert not any(event.refused for event in recording.events)
    assert states[-1].used_bytes == 0 and max(state.used_bytes for state in states) > 2000 * 64
    # never more than the last blocks of five requests are lost
    assert max(state.internal_bytes for state in states) <= 5 * 15 * 64
