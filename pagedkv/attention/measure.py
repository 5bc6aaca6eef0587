"""What a paged cache is worth with a real model: the measurements behind the figures, for notebooks and for
`benchmarks/model_cache.py`.

    measure_equality        whether the tokens are those of transformers' own cache
    measure_prefix          the first token's time if the beginning of the prompt is there already
    measure_concatenation   a cache that grows by concatenation against one that is written in place
    measure_steps, fit_law  the time of a token by length, with and without a cache, and the law behind it
    int8_drift              what INT8 keys and values change

Times are seconds: the process's CPU time where PyTorch has one thread (`OMP_NUM_THREADS=1`), which another program on
the machine hardly disturbs; else, and on a GPU, the time on the clock. Variants take turns, and medians are given.

`progress` wraps what a function goes through, as tqdm does: measure_steps(..., progress=tqdm.auto.tqdm).
"""

import copy
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from pagedkv.attention.paged_model import PagedModel
from pagedkv.attention.transformers_cache import DynamicCache
from pagedkv.core.block_table import num_blocks_for
from pagedkv.storage.int8_storage import dequantise, quantise
from pagedkv.storage.kv_storage import KVStorage, Rows

Progress = Callable[[Iterable], Iterable]


def clock(device: torch.device) -> Callable[[], float]:
    """Seconds, of the kind that the module's docstring says."""
    if device.type == "cuda":
        def synchronised() -> float:
            torch.cuda.synchronize(device)
            return time.perf_counter()
        return synchronised
    return time.process_time if torch.get_num_threads() == 1 else time.perf_counter


# ── equality ─────────────────────────────────────────────────────────────────────────────────────────────────────────

@dataclass(frozen=True)
class Equality:
    """One case: in how many of its sequences all tokens are the same."""

    case: str
    num_sequences: int
    num_equal: int
    num_tokens: int  # compared, in all of them

    @property
    def is_equal(self) -> bool:
        return self.num_equal == self.num_sequences


def measure_equality(model, prompts: Sequence[Sequence[int]], num_tokens: int = 24, num_beams: int = 3,
                     block_size: int = 16, backend: str = "auto", progress: Progress = iter) -> list[Equality]:
    """Greedy tokens of the model with a paged cache against those with a `DynamicCache`: alone, in padded and in ragged
    batches, with a shared prefix, forked, and with beam search.

    prompts   at least two, of different lengths"""
    prompts = [list(prompt) for prompt in prompts]
    longest = max(map(len, prompts))
    num_blocks = 2 * max(len(prompts), 4) * num_beams * num_blocks_for(2 * longest + 2 * num_tokens, block_size)
    paged = PagedModel(model, num_blocks, block_size, backend=backend)
    cases = {
        "single": lambda: [_same_in_generate(paged, [prompt], num_tokens) for prompt in prompts],
        "batch, padded on the left": lambda: [_same_in_generate(paged, prompts, num_tokens)],
        "batch, ragged": lambda: [_same_one_by_one(paged, prompts, num_tokens)],
        "shared prefix": lambda: [_same_with_prefix(paged, prompts, num_tokens)],
        "forked": lambda: [_same_forked(paged, prompt, num_tokens) for prompt in prompts],
        f"beam search, {num_beams} beams": lambda: [_same_in_generate(paged, prompts, num_tokens, num_beams=num_beams)],
    }
    rows = []
    for case, run in progress(cases.items()):
        flags = [flag for part in run() for flag in part]
        rows.append(Equality(case, len(flags), sum(flags), len(flags) * num_tokens))
    return rows


def _same_in_generate(paged: PagedModel, prompts: list[list[int]], num_tokens: int, **options) -> list[bool]:
    width = max(map(len, prompts))
    ids = [[0] * (width - len(prompt)) + prompt for prompt in prompts]
    mask = [[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts]
    device = paged.storage.device
    inputs = {"input_ids": torch.tensor(ids, device=device), "attention_mask": torch.tensor(mask, device=device)}
    options |= {"max_new_tokens": num_tokens, "do_sample": False, "eos_token_id": None, "pad_token_id": 0}
    theirs = paged.model.generate(**inputs, **options)
    with paged.cache_for(**inputs) as cache:
        ours = paged.model.generate(**inputs, **options, cache=cache)
    return (ours == theirs).all(1).tolist()


def _same_one_by_one(paged: PagedModel, prompts: list[list[int]], num_tokens: int) -> list[bool]:
    ours = paged.generate(prompts, num_tokens, eos_token_id=[])
    return [tokens == _greedy(paged.model, prompt, num_tokens) for tokens, prompt in zip(ours, prompts)]


def _same_with_prefix(paged: PagedModel, prompts: list[list[int]], num_tokens: int) -> list[bool]:
    longest = max(prompts, key=len)
    sharing = [longest + prompt for prompt in prompts]
    return _same_one_by_one(paged, sharing, num_tokens)


def _same_forked(paged: PagedModel, prompt: list[int], num_tokens: int, num_forks: int = 3) -> list[bool]:
    """Each fork goes on with another token, and the DynamicCache's deep copies with the same ones."""
    cache = DynamicCache(config=paged.model.config)
    with torch.no_grad():
        logits = paged.model(torch.tensor([prompt], device=paged.storage.device), cache=cache).logits[0, -1]
    best = logits.topk(num_forks).indices.tolist()
    with paged.generation([prompt], num_tokens + 1, eos_token_id=[]) as generation:
        forks = [generation.fork(generation.texts[0], token, max_new_tokens=num_tokens + 1) for token in best]
        generation.stop(generation.texts[0])
        for _ in generation:
            pass
    return [fork.tokens == [token, *_greedy(paged.model, [token], num_tokens, copy.deepcopy(cache))]
            for fork, token in zip(forks, best)]


def _greedy(model, tokens: list[int], num_tokens: int, cache=None) -> list[int]:
    cache = DynamicCache(config=model.config) if cache is None else cache
    new: list[int] = []
    with torch.no_grad():
        for _ in range(num_tokens):
            output = model(torch.tensor([tokens], device=model.device), cache=cache, use_cache=True)
            tokens = [int(output.logits[0, -1].argmax())]
            new += tokens
    return new


# ── a prefix that is there ───────────────────────────────────────────────────────────────────────────────────────────

@dataclass(frozen=True)
class PrefixTimes:
    """Seconds until the first token of a prompt."""

    num_tokens: int          # of the prompt
    num_cached_tokens: int   # of these, what was there
    without_seconds: float
    with_seconds: float
    following_tokens: int
    same_tokens: bool        # whether the tokens that follow are the same with and without

    @property
    def ratio(self) -> float:
        return self.without_seconds / self.with_seconds


def measure_prefix(model, shared: Sequence[int], tail: Sequence[int], following_tokens: int = 40, rounds: int = 3,
                   block_size: int = 16, backend: str = "auto", progress: Progress = iter) -> PrefixTimes:
    """A prompt shared + tail, once with the blocks of `shared` in the cache and once without, by turns."""
    shared, tail = list(shared), list(tail)
    most = num_blocks_for(len(shared) + len(tail) + following_tokens, block_size)
    paged = PagedModel(model, 4 * most, block_size, backend=backend)
    now = clock(paged.storage.device)

    def first_token(prompt: list[int], salt: str | None) -> tuple[float, int]:
        start = now()
        with paged.sequence(prompt, salt=salt) as seq:
            int(paged.forward([seq]).argmax())
            return now() - start, seq.num_cached_tokens

    first_token(shared + [0], None)
    without, with_it, cached = [], [], 0
    for number in progress(range(rounds)):
        turned = tail[number % len(tail):] + tail[:number % len(tail)]  # another tail, so that nothing of it is there
        without.append(first_token(shared + turned, f"round {number}")[0])
        seconds, cached = first_token(shared + turned, None)
        with_it.append(seconds)
    [found], [computed] = (paged.generate([shared + tail], following_tokens, eos_token_id=[], salt=salt)
                           for salt in (None, "anew"))
    return PrefixTimes(len(shared) + len(tail), cached, statistics.median(without), statistics.median(with_it),
                       following_tokens, found == computed)


# ── concatenation ────────────────────────────────────────────────────────────────────────────────────────────────────

@dataclass(frozen=True)
class ConcatenationTimes:
    """Seconds for one more token in one layer, for a whole batch; nothing is attended to."""

    num_tokens: int          # that each sequence has already
    concatenated_seconds: float  # tensors alone: torch.cat
    in_place_seconds: float      # tensors alone: one that is large enough from the beginning
    dynamic_cache_seconds: float
    paged_seconds: float

    @property
    def ratio(self) -> float:
        """DynamicCache against the paged cache."""
        return self.dynamic_cache_seconds / self.paged_seconds


def measure_concatenation(model, lengths: Sequence[int] = (128, 1024, 4096, 8192), batch: int = 8, steps: int = 9,
                          block_size: int = 16, progress: Progress = iter) -> list[ConcatenationTimes]:
    """What it costs to add a token's keys and values to what is there, with tensors of this model's shape, by length.

    model   or its configuration. The pool has one layer, so that long contexts fit into the memory of a laptop."""
    whole = KVStorage.for_model(model, 1, block_size)
    heads, head_dim, dtype, device = whole.num_kv_heads, whole.head_dim, whole.dtype, whole.device
    now = clock(device)
    rows = []
    for length in progress(lengths):
        blocks_each = num_blocks_for(length + steps, block_size)
        storage = KVStorage(1, heads, head_dim, batch * blocks_each, block_size, dtype, device)
        shape = batch, heads, length, head_dim
        keys, values = torch.zeros(shape, dtype=dtype, device=device), torch.zeros(shape, dtype=dtype, device=device)
        roomy = torch.zeros(2, batch, heads, length + steps, head_dim, dtype=dtype, device=device)
        dynamic = DynamicCache()
        dynamic.update(keys.clone(), values.clone(), 0)
        seconds: dict[str, list[float]] = {"cat": [], "in place": [], "dynamic": [], "paged": []}
        for step in range(steps):
            new = torch.randn(2, batch, heads, 1, head_dim, dtype=dtype, device=device)
            position = length + step
            # made once in a pass, for all layers
            slots = storage.rows_unchecked(torch.arange(batch, device=device) * blocks_each * block_size + position)

            def concatenate() -> None:
                nonlocal keys, values
                keys, values = torch.cat([keys, new[0]], dim=2), torch.cat([values, new[1]], dim=2)

            def in_place() -> None:
                roomy[:, :, :, position] = new[:, :, :, 0]

            for name, call in (("cat", concatenate), ("in place", in_place),
                               ("dynamic", lambda: dynamic.update(new[0], new[1], 0)),
                               ("paged", lambda: storage.write(0, slots, new[0, :, :, 0], new[1, :, :, 0]))):
                start = now()
                call()
                seconds[name].append(now() - start)
        rows.append(ConcatenationTimes(length, *(statistics.median(times) for times in seconds.values())))
    return rows


# ── the law ──────────────────────────────────────────────────────────────────────────────────────────────────────────

@dataclass(frozen=True)
class StepTimes:
    """Seconds for the token that follows `num_tokens` others."""

    num_tokens: int
    without_seconds: float   # the model computes all of them again
    with_seconds: float      # it computes the last one


def measure_steps(model, lengths: Sequence[int] = (64, 128, 256, 384, 512, 768, 1024), rounds: int = 3,
                  block_size: int = 16, backend: str = "auto", seed: int = 0, progress: Progress = iter
                  ) -> list[StepTimes]:
    """The time of one token by length, with a paged cache and without any, by turns: `rounds` times without, and four
    times as often with it, as that is short and varies more. The tokens are random: the time does not depend on which
    they are."""
    lengths = sorted(lengths)
    steps = 4 * rounds
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(model.config.vocab_size, (max(lengths) + steps,), generator=generator).tolist()
    paged = PagedModel(model, num_blocks_for(max(lengths) + steps, block_size) + 1, block_size, backend=backend)
    now = clock(paged.storage.device)
    rows = []
    for length in progress(lengths):
        ids = torch.tensor([tokens[:length]], device=paged.storage.device)
        without, with_it = [], []
        with torch.no_grad(), paged.sequence(tokens[:length - 1]) as seq:
            paged.forward([seq])
            for number in range(steps):
                if number % 4 == 0:
                    start = now()
                    model(ids, use_cache=False, logits_to_keep=1).logits.argmax().item()
                    without.append(now() - start)
                start = now()
                paged.append(seq, tokens[length - 1 + number])
                paged.forward([seq]).argmax().item()
                with_it.append(now() - start)
        rows.append(StepTimes(length, statistics.median(without), statistics.median(with_it)))
    return rows


@dataclass(frozen=True)
class Law:
    """seconds ≈ a + b·n + c·n² …, with as many terms as `coefficients`.

    residuals   how far each measured value is from the law, as a fraction of the law's: 0.1 is 10 % above it"""

    coefficients: tuple[float, ...]
    residuals: tuple[float, ...]

    @property
    def largest_residual(self) -> float:
        return max(map(abs, self.residuals))

    def __call__(self, n: float) -> float:
        return sum(coefficient * n**power for power, coefficient in enumerate(self.coefficients))

    def __str__(self) -> str:
        """In ms, microseconds per token and nanoseconds per token²."""
        text = ""
        for coefficient, factor, unit in zip(self.coefficients, (1e3, 1e6, 1e9), (" ms", " µs·n", " ns·n²")):
            size = abs(coefficient * factor)
            sign = "- " if coefficient < 0 else "+ " if text else ""
            text += f" {sign}" + (f"{size:,.0f}" if size >= 100 else f"{size:.3g}") + unit
        return text.strip()


def fit_law(lengths: Sequence[float], seconds: Sequence[float], degree: int) -> Law:
    """The polynomial of this degree that is nearest by least squares, of relative distances: else the longest would
    decide alone. Raises ValueError for fewer lengths than it has coefficients, plus one: such a law fits anything."""
    n, measured = np.asarray(lengths, dtype=float), np.asarray(seconds, dtype=float)
    if len(n) != len(measured) or (measured <= 0).any():
        raise ValueError(f"{len(n)} lengths and {len(measured)} times, all above 0, are needed in pairs")
    if len(set(lengths)) < degree + 2:
        raise ValueError(f"{degree + 1} coefficients fit {len(set(lengths))} lengths whatever was measured: take "
                         "more lengths")
    powers = n[:, None] ** np.arange(degree + 1)
    scale = powers.max(0)  # or the least squares would be solved with numbers of very different size
    solution = np.linalg.lstsq(powers / scale / measured[:, None], np.ones(len(n)), rcond=None)[0] / scale
    law = Law(tuple(map(float, solution)), ())
    return Law(law.coefficients, tuple(float(time / law(length) - 1) for length, time in zip(n, measured)))


# ── INT8 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

@dataclass(frozen=True)
class Drift:
    """What another storage changes, at every place of given texts (*teacher forcing*).

    agreement           in which part of the places the most likely token is the same
    max_logit_change    the largest change of any logit
    mean_kl             the Kullback-Leibler divergence of the predictions, in nats, on average
    """

    what: str
    num_tokens: int
    agreement: float
    max_logit_change: float
    mean_kl: float


class RoundedKVStorage(KVStorage):
    """Keys, or values, or both, as they come out of INT8, kept in full precision: to see which of them matters."""

    def __init__(self, *args, keys: bool = True, values: bool = True, **options):
        super().__init__(*args, **options)
        self.rounds_keys, self.rounds_values = keys, values

    def _put(self, layer: int, rows: Rows, keys: torch.Tensor, values: torch.Tensor) -> None:
        if self.rounds_keys:
            keys = dequantise(*quantise(keys), self.dtype)
        if self.rounds_values:
            values = dequantise(*quantise(values), self.dtype)
        super()._put(layer, rows, keys, values)


def int8_drift(model, texts: Sequence[Sequence[int]], block_size: int = 16, backend: str = "auto",
               progress: Progress = iter) -> list[Drift]:
    """INT8 keys and values against full precision, over several texts as token ids: both, keys only, values only.

    Not generated freely: there one token that comes out otherwise changes all that follow, and the comparison is one of
    different texts."""
    num_blocks = num_blocks_for(max(map(len, texts)), block_size)
    exact = PagedModel(model, num_blocks, block_size, backend=backend)
    others = {"INT8 keys and values": PagedModel(model, num_blocks, block_size, backend=backend, int8=True)}
    for what, parts in (("keys only", (True, False)), ("values only", (False, True))):
        storage = RoundedKVStorage.for_model(model, num_blocks, block_size)
        storage.rounds_keys, storage.rounds_values = parts
        others[what] = PagedModel(model, storage=storage, backend=backend)
    same = dict.fromkeys(others, 0)
    change = dict.fromkeys(others, 0.0)
    kl = dict.fromkeys(others, 0.0)
    num_tokens = sum(map(len, texts))
    for tokens in progress(texts):
        expected = exact.logits_of_all(tokens).float()
        expected_log = expected.double().log_softmax(-1)  # the divergences are small differences of large sums
        for what, paged in others.items():
            logits = paged.logits_of_all(tokens).float()
            same[what] += int((logits.argmax(-1) == expected.argmax(-1)).sum())
            change[what] = max(change[what], float((logits - expected).abs().max()))
            divergence = expected_log.exp() * (expected_log - logits.double().log_softmax(-1))
            kl[what] += float(divergence.sum())
    return [Drift(what, num_tokens, same[what] / num_tokens, change[what], kl[what] / num_tokens) for what in others]
