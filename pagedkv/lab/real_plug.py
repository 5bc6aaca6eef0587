"""Exercise 06.4: a learner's cache over our storage, first alone and then in a model.

Alone it gets keys and values that say whose they are, so each call of `update` can be looked at: what it returned, what
it wrote and where, and how many tokens it says there are. Then a small model with random weights generates with it and
with the library's own cache: what counts in the end is that the tokens are the same.
"""

import random
from typing import Any, NamedTuple

import torch
from transformers import DynamicCache, LlamaForCausalLM

from pagedkv.lab.counter_example import counter_example
from pagedkv.lab.grading import NotYet, Wrong, describe_error
from pagedkv.lab.real_cache import PluggedCache, small_model
from pagedkv.lab.real_coded import KINDS, Coded, used_storage
from pagedkv.storage.kv_storage import KVStorage
from pagedkv.viz.words import count

_NUM_LAYERS, _HEAD_DIM, _NUM_BLOCKS, _BLOCK_SIZE = 3, 4, 9, 4
_RANDOM_CASES = 10
_NEW_TOKENS = 10
_PROMPTS = ([5, 17, 3, 42, 8, 17, 29, 61, 2, 33], [5, 17, 3, 9])
_TABLES = ([7, 2, 5, 0, 8, 1], [10, 4, 11, 3])
_LOGIT_TOLERANCE = 1e-3  # of logits around 1; a wrong key moves them a hundred times as far


class PlugCase(NamedTuple):
    """steps: how many new tokens in each step of the model."""

    name: str
    block_table: list[int]
    steps: list[int]
    num_kv_heads: int = 2


CASES = (
    PlugCase("a prompt", [6], [3]),
    PlugCase("as many tokens as KV heads", [6], [2]),
    PlugCase("a prompt over several blocks, in no order", [6, 1, 8], [10]),
    PlugCase("a prompt, then token by token", [6, 1, 8], [5, 1, 1, 1, 1]),
    PlugCase("a prompt in two chunks", [3, 0, 7], [3, 6, 1], 3),
    PlugCase("one KV head", [2, 5], [4, 1, 1], 1),
)


def try_cache(cache_class: Any) -> str:
    """Raises Wrong at the first call of `update` that does something else, or where the model does. Returns what was
    tried."""
    if not isinstance(cache_class, type) or not issubclass(cache_class, PluggedCache):
        raise Wrong('check gets your class, which extends PluggedCache: check("06.4", MyCache); '
                    f"got {cache_class!r:.80}")
    if cache_class.update is PluggedCache.update:
        raise NotYet("your class has no update() yet")
    for case in CASES:
        _play(cache_class, case)
    rng = random.Random(1)
    for _ in range(_RANDOM_CASES):
        _play(cache_class, _random_case(rng))
    _two_in_turn(cache_class)
    _generate(cache_class)
    return (f"{len(CASES)} named cases, {_RANDOM_CASES} random ones and two sequences in turn, each call looked at; "
            f"{count(_NEW_TOKENS, 'token')} of a small model, the same as with the library's own cache")


def _random_case(rng: random.Random) -> PlugCase:
    table = rng.sample(range(_NUM_BLOCKS), rng.randint(2, 5))
    steps = [rng.randint(1, 7)]
    while len(steps) < 6 and sum(steps) < len(table) * _BLOCK_SIZE:
        steps.append(1)
    return PlugCase("a random case", table, [min(steps[0], len(table) * _BLOCK_SIZE - len(steps) + 1), *steps[1:]],
                    rng.choice((1, 2, 3)))


# ── alone ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Sequence:
    """A learner's cache that is fed step by step, and what should be in the storage."""

    def __init__(self, cache_class: type, case: PlugCase, storage, expected: torch.Tensor, told: str):
        self.case, self.storage, self.expected, self.told = case, storage, expected, told
        self.cache = cache_class(storage, list(case.block_table))
        self.coded = Coded(storage.num_layers, case.num_kv_heads, storage.head_dim, sum(case.steps))
        self.length = 0

    def step(self, num_tokens: int) -> None:
        for layer in range(self.storage.num_layers):
            self._update(layer, self.length, self.length + num_tokens)
        self.length += num_tokens

    def _update(self, layer: int, start: int, end: int) -> None:
        positions = f"positions {start} … {end - 1}" if end - start > 1 else f"position {start}"
        situation = (f"{self.told}\n   block_table {self.case.block_table}, blocks of {_BLOCK_SIZE} tokens; "
                     f"update(…) for {positions}, layer {layer} of 0 … {self.cache.last_layer}")
        keys, values = (self.coded.vectors(kind, layer, start, end).transpose(0, 1)[None] for kind in (0, 1))
        for position in range(start, end):
            block, offset = self.case.block_table[position // _BLOCK_SIZE], position % _BLOCK_SIZE
            for kind, new in enumerate((keys, values)):
                self.expected[kind, layer, block, :, offset] = new[0, :, position - start]
        try:
            answer = self.cache.update(keys, values, layer, kwargs={})
        except (NotYet, Wrong):
            raise
        except Exception as error:
            raise counter_example(situation, f"raised {describe_error(error)}", "all keys and values so far, "
                                  f"[1, KV heads, tokens, head_dim] = {self._shape(end)}") from None
        self._compare_length(situation, layer, start, end)
        for kind, part in enumerate(self._two(situation, answer)):
            self._compare_returned(situation, kind, part, layer, start, end)
        self._compare_storage(situation, layer)

    def _shape(self, num_tokens: int) -> list[int]:
        return [1, self.case.num_kv_heads, num_tokens, self.storage.head_dim]

    def _two(self, situation: str, answer: Any) -> tuple[torch.Tensor, torch.Tensor]:
        if answer is None:
            raise NotYet("update() returns nothing yet")
        if not isinstance(answer, (tuple, list)) or len(answer) != 2:
            what = f"a tensor {list(answer.shape)}" if isinstance(answer, torch.Tensor) else f"{answer!r:.60}"
            raise counter_example(situation, what, "two tensors: all keys, all values")
        for part in answer:
            if not isinstance(part, torch.Tensor):
                raise counter_example(situation, f"an object of type {type(part).__name__}",
                                      "two tensors: all keys, all values")
        return answer

    def _compare_length(self, situation: str, layer: int, start: int, end: int) -> None:
        expected = end if layer == self.cache.last_layer else start
        length = int(self.cache.length)
        if length == expected:
            return
        why = "it grows after the last layer" if expected == end else \
            f"in this step the layers to come write at the same positions, {start} on, and ask self.length for them"
        raise counter_example(situation, f"self.length is {length}", f"{expected}: {why}")

    def _compare_returned(self, situation: str, kind: int, part: torch.Tensor, layer: int, start: int, end: int
                          ) -> None:
        shape, right = list(part.shape), self._shape(end)
        if shape != right:
            raise counter_example(situation, f"{KINDS[kind]}s of shape {shape}",
                                  f"{right}{self._why_shape(shape, start, end)}")
        wanted = self.coded.vectors(kind, layer, 0, end).transpose(0, 1)
        wrong = (part[0].detach().float() != wanted).any(-1).nonzero()
        if len(wrong):
            head, position = wrong[0].tolist()
            raise counter_example(situation, f"at position {position}, KV head {head}, of the {KINDS[kind]}s is "
                                  f"{self.coded.describe(part[0, head, position].detach().float())}",
                                  f"the {KINDS[kind]} of position {position}, KV head {head}, layer {layer}")

    def _why_shape(self, shape: list[int], start: int, end: int) -> str:
        _, heads, _, dim = self._shape(end)
        whole = len(self.case.block_table) * _BLOCK_SIZE
        if start and shape == self._shape(end - start):
            return f": these are the new ones only, and the model attends to what it gets; {start} come before"
        if shape == self._shape(whole) or shape == self._shape(-(-end // _BLOCK_SIZE) * _BLOCK_SIZE):
            return f": behind the last token lies what an earlier owner left; there are {end} tokens"
        if shape == [heads, end, dim]:
            return ": the 1 in front is the batch, [None] puts it there"
        if sorted(shape[:3]) == sorted([1, heads, end]) and len(shape) == 4:
            return ": the dimensions are in another order"
        return ""

    def _compare_storage(self, situation: str, layer: int) -> None:
        data = self.storage.data
        wrong = (data != self.expected).any(-1).nonzero()
        if not len(wrong):
            return
        # a write that went astray says more than the place that stayed empty
        strays = [place for place in wrong.tolist() if place[1] != layer] or wrong.tolist()
        kind, at_layer, block, head, offset = strays[0]
        where = f"in layer {at_layer}, block {block}, offset {offset}, KV head {head}, of the {KINDS[kind]}s"
        right = self.coded.describe(self.expected[kind, at_layer, block, head, offset])
        why = f". update was called for layer {layer}" if at_layer != layer else ""
        raise counter_example(situation, f"{where} is {self.coded.describe(data[kind, at_layer, block, head, offset])}",
                              f"{right}{why}")


def _play(cache_class: type, case: PlugCase) -> None:
    storage = used_storage(_NUM_LAYERS, case.num_kv_heads, _HEAD_DIM, _NUM_BLOCKS, _BLOCK_SIZE)
    sequence = _Sequence(cache_class, case, storage, storage.data.clone(), case.name)
    for num_tokens in case.steps:
        sequence.step(num_tokens)


def _two_in_turn(cache_class: type) -> None:
    """Two sequences in one storage: neither knows of the other."""
    storage = used_storage(_NUM_LAYERS, 2, _HEAD_DIM, _NUM_BLOCKS, _BLOCK_SIZE)
    expected = storage.data.clone()
    a, b = (_Sequence(cache_class, PlugCase(name, table, steps), storage, expected, f"two sequences in turn, {name}")
            for name, table, steps in (("A", [6, 1, 8], [5, 1, 1, 1]), ("B", [0, 7], [3, 1, 1, 1])))
    for step_of_a, step_of_b in zip(a.case.steps, b.case.steps):
        a.step(step_of_a)
        b.step(step_of_b)


# ── in a model ───────────────────────────────────────────────────────────────────────────────────────────────────────


def _generate(cache_class: type) -> None:
    """Two sequences of the model in one storage, step by step; then generate() by itself."""
    model = small_model()
    storage = KVStorage.for_model(model, 12, _BLOCK_SIZE)
    storage.data.fill_(3.0)  # what earlier owners left
    with torch.no_grad():
        caches = [cache_class(storage, list(table)) for table in _TABLES]
        for prompt, cache in zip(_PROMPTS, caches):
            _compare_generation(model, prompt, cache)
        _compare_generate(model, cache_class(storage, list(_TABLES[0])))


def _compare_generation(model: LlamaForCausalLM, prompt: list[int], cache: PluggedCache) -> None:
    """Both get the library's tokens; the first step at which the logits differ is told."""
    own, new = DynamicCache(config=model.config), list(prompt)
    for step in range(_NEW_TOKENS):
        tokens = torch.tensor([new])
        right = model(tokens, cache=own).logits[0, -1]
        situation = (f"a model with random weights, a prompt of {len(prompt)} tokens, blocks of {_BLOCK_SIZE}: "
                     f"step {step}, {count(len(new), 'new token')}")
        try:
            logits = model(tokens, cache=cache).logits[0, -1]
        except (NotYet, Wrong):
            raise
        except Exception as error:
            raise counter_example(situation, f"raised {describe_error(error)}",
                                  "the logits of the next token") from None
        if not torch.allclose(logits, right, rtol=_LOGIT_TOLERANCE, atol=_LOGIT_TOLERANCE):
            raise counter_example(situation, f"the next token is {int(logits.argmax())}, and the logits are up to "
                                  f"{float((logits - right).abs().max()):.2g} off",
                                  f"token {int(right.argmax())}, and the same logits as with the library's own cache")
        new = [int(right.argmax())]


def _compare_generate(model: LlamaForCausalLM, cache: PluggedCache) -> None:
    prompt = torch.tensor([_PROMPTS[0]])
    inputs = {"input_ids": prompt, "attention_mask": torch.ones_like(prompt)}
    settings = {"max_new_tokens": _NEW_TOKENS, "do_sample": False}
    right = model.generate(**inputs, **settings)[0, len(_PROMPTS[0]):].tolist()
    situation = f"model.generate(…, max_new_tokens={_NEW_TOKENS}) of a model with random weights"
    try:
        tokens = model.generate(**inputs, **settings, cache=cache)[0, len(_PROMPTS[0]):].tolist()
    except (NotYet, Wrong):
        raise
    except Exception as error:
        raise counter_example(situation, f"raised {describe_error(error)}", str(right)) from None
    if tokens != right:
        raise counter_example(situation, str(tokens), f"{right}, as with the library's own cache")
