"""Requests to a language model, seen from the memory: how long a prompt, how long an answer.

A *token*'s keys and values take a fixed number of bytes (512 KiB for a 7B model with 32 heads in fp16). A request needs
them for its prompt at once, and for one more token per step until its last output token; then all of it is free.

Requests come from a trace (`read_trace`), or are drawn at random so that their lengths have the published percentiles
of a public trace (`draw_requests`). The percentiles were computed from the data sets themselves:

    AZURE_CONVERSATION, AZURE_CODE   Azure LLM inference traces 2023, 19,366 and 8,819 requests; CC-BY-4.0. Patel
                                     et al., "Splitwise: Efficient Generative LLM Inference Using Phase Splitting",
                                     ISCA 2024
    BURSTGPT                         BurstGPT, the first 400 requests without 17 failures; CC-BY-4.0. Wang et al.,
                                     "BurstGPT: A Real-World Workload Dataset to Optimize LLM Serving Systems", KDD 2025
    MOONCAKE_CONVERSATION            Mooncake, 12,031 requests; Apache-2.0. Qin et al., "Mooncake: Trading More Storage
                                     for Less Computation", FAST 2025
    ARXIV_SUMMARIZATION              arXiv articles and their summaries in Llama-2 tokens, 5,000 rows, from
                                     microsoft/vidur; MIT. Agrawal et al., "Vidur: A Large-Scale Simulation Framework
                                     for LLM Inference", MLSys 2024
"""

import csv
import math
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import NormalDist
from typing import NamedTuple

from pagedkv.core.arguments import as_count
from pagedkv.rivals.workload import Request, Workload


class KVRequest(NamedTuple):
    """One request. output_tokens is at least 1."""

    name: str
    prompt_tokens: int
    output_tokens: int

    @property
    def total_tokens(self) -> int:
        """What it holds in the end."""
        return self.prompt_tokens + self.output_tokens


class Percentiles(NamedTuple):
    """Of a length in tokens. `mean` is there to check against; drawing does not use it."""

    p50: float
    p90: float
    p99: float
    most: int
    mean: float

    def at(self, share: float) -> int:
        """The length that this share of the requests does not exceed, 0 < share < 1.

        Between the known percentiles the logarithm of the length follows a normal distribution, which all these lengths
        roughly do; above P99 it goes on as between P90 and P99, up to `most`, and below P50 as between P50 and P90."""
        z = _NORMAL.inv_cdf(share)
        (z_low, low), (z_high, high) = (((0.0, self.p50), (_Z90, self.p90)) if z <= _Z90
                                        else ((_Z90, self.p90), (_Z99, self.p99)))
        slope = (math.log(high) - math.log(low)) / (z_high - z_low)
        return max(1, min(self.most, round(low * math.exp(slope * (z - z_low)))))


class LengthProfile(NamedTuple):
    """The lengths of a trace's prompts and answers."""

    name: str
    prompt: Percentiles
    output: Percentiles


_NORMAL = NormalDist()
_Z90, _Z99 = _NORMAL.inv_cdf(0.9), _NORMAL.inv_cdf(0.99)

AZURE_CONVERSATION = LengthProfile("Azure 2023 conversation", Percentiles(1020, 2734.5, 4142, 14050, 1154.7),
                                   Percentiles(129, 424, 601, 1000, 211.1))
AZURE_CODE = LengthProfile("Azure 2023 code", Percentiles(1469, 5187.6, 7436, 7437, 2047.8),
                           Percentiles(13, 55, 251.5, 1899, 27.9))
BURSTGPT = LengthProfile("BurstGPT", Percentiles(353, 1436.6, 1958.4, 2126, 543.6),
                         Percentiles(238, 584.2, 1424.8, 2019, 288.8))
MOONCAKE_CONVERSATION = LengthProfile("Mooncake conversation", Percentiles(6909, 27367, 85400.4, 126195, 12035.1),
                                      Percentiles(350, 597, 1118.5, 2000, 342.6))
ARXIV_SUMMARIZATION = LengthProfile("arXiv summarization", Percentiles(2712, 3699, 3928, 4035, 2565.3),
                                    Percentiles(165, 379, 3344.3, 4056, 305.3))
PROFILES = (AZURE_CONVERSATION, AZURE_CODE, BURSTGPT, MOONCAKE_CONVERSATION, ARXIV_SUMMARIZATION)

# prompt and output column of the traces that can be read
_COLUMNS = (("ContextTokens", "GeneratedTokens"), ("num_prefill_tokens", "num_decode_tokens"),
            ("Request tokens", "Response tokens"))


def draw_requests(profile: LengthProfile, count: int, seed: int = 1,
                  longest_tokens: int | None = None) -> list[KVRequest]:
    """So many requests with this profile's lengths, the same for the same seed. Prompt and output are drawn
    independently of each other. With longest_tokens, what a model's context cuts off: a prompt loses its beginning, at
    worst down to 1 token, then the answer its end."""
    rng = random.Random(seed)
    requests = []
    for number in range(as_count(count, "count")):
        prompt, output = profile.prompt.at(_share(rng)), profile.output.at(_share(rng))
        requests.append(KVRequest(f"r{number}", prompt, output))
    return cut(requests, longest_tokens) if longest_tokens is not None else requests


def cut(requests: Iterable[KVRequest], longest_tokens: int) -> list[KVRequest]:
    """The requests as a model with a context of longest_tokens would have served them, see `draw_requests`."""
    if longest_tokens < 2:
        raise ValueError("longest_tokens is at least 2, one for the prompt and one for the answer, got "
                         f"{longest_tokens}")
    shorter = []
    for request in requests:
        output = min(request.output_tokens, longest_tokens - 1)
        prompt = min(request.prompt_tokens, longest_tokens - output)
        shorter.append(KVRequest(request.name, prompt, output))
    return shorter


def read_trace(path: str | Path, most_requests: int | None = None) -> list[KVRequest]:
    """The requests of a CSV file, in its order, the first `most_requests` of them.

    Understood are the columns of the Azure 2023 traces (ContextTokens, GeneratedTokens), of Vidur (num_prefill_tokens,
    num_decode_tokens) and of BurstGPT (Request tokens, Response tokens); others do not matter. Requests without a
    prompt or an answer failed and are left out. Raises ValueError that names the line for anything else that is no
    length."""
    requests: list[KVRequest] = []
    with open(path, newline="", encoding="utf-8-sig") as file:
        rows = csv.DictReader(file)
        found = rows.fieldnames or []
        columns = next((pair for pair in _COLUMNS if set(pair) <= set(found)), None)
        if columns is None:
            known = "; ".join(", ".join(pair) for pair in _COLUMNS)
            raise ValueError(f"{path} has none of the known pairs of columns ({known}); it has "
                             f"{', '.join(found) or 'none'}")
        for row in rows:
            if most_requests is not None and len(requests) >= most_requests:
                break
            try:
                prompt, output = (int(row[column]) for column in columns)
                if prompt < 0 or output < 0:
                    raise ValueError
            except (TypeError, ValueError):
                raise ValueError(f"{path}, line {rows.line_num}: expected two lengths in tokens, got "
                                 f"{row[columns[0]]!r} and {row[columns[1]]!r}") from None
            if prompt and output:
                requests.append(KVRequest(f"r{len(requests)}", prompt, output))
    return requests


def as_workload(requests: Sequence[KVRequest], bytes_per_token: int, concurrent: int = 8, tokens_per_step: int = 1,
                name: str = "KV cache") -> Workload:
    """These requests as a workload, in which up to `concurrent` of them run at a time.

    They take turns: whose turn it is grows by tokens_per_step tokens, or by what is left; who was complete the last
    time frees its memory, and the next one that waits begins, with its prompt, in its place. Nothing here depends on
    the allocator, so a request that is refused by one is simply missing there; `pagedkv.rivals.kv_simulation` lets it
    wait."""
    for what, value in (("bytes_per_token", bytes_per_token), ("concurrent", concurrent),
                        ("tokens_per_step", tokens_per_step)):
        if as_count(value, what) < 1:
            raise ValueError(f"{what} is at least 1")
    waiting = iter(requests)
    running: list[tuple[KVRequest, int] | None] = []  # and how many tokens it has
    calls: list[Request] = []

    def begin() -> tuple[KVRequest, int] | None:
        request = next(waiting, None)
        if request is not None:
            calls.append(Request("allocate", request.name, request.prompt_tokens * bytes_per_token))
        return request and (request, request.prompt_tokens)

    running = [first for first in (begin() for _ in range(concurrent)) if first]
    while running:
        for place, (request, tokens) in enumerate(running):
            if tokens == request.total_tokens:
                calls.append(Request("free", request.name))
                running[place] = begin()
            else:
                tokens = min(tokens + tokens_per_step, request.total_tokens)
                calls.append(Request("grow", request.name, tokens * bytes_per_token))
                running[place] = request, tokens
        running = [one for one in running if one]
    return Workload(name, tuple(calls))


def _share(rng: random.Random) -> float:
    return rng.random() or 0.5  # 0.0 has no quantile
