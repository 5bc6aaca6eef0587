"""What transformers sees of a paged cache: an attention function, and `Cache` objects.

In every layer a model of transformers calls `cache.update(keys, values, layer, kwargs=…)`, and then the attention
function whose name stands in its configuration, with the same kwargs. So `update` writes the keys and values where they
belong and puts the `PagedStep` into the kwargs, and the function finds it there. No mask is built for an attention
function that has registered none; ours sees to causality and lengths itself.

    StepCache    for one pass of `PagedModel.forward`
    PagedCache   for `model.generate(**inputs, cache=…)`

The configuration names our function only while such a pass is under way (`AttentionSwitch`), so a model that is used
with `PagedModel` goes on working with its own caches.

Seen with transformers 5.24, whose cache interface differs from that of earlier versions. This is the only module here
that imports transformers.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary

import torch
from transformers import AttentionInterface, Cache, DynamicCache, StaticCache

from pagedkv.attention.left_padding import left_padding
from pagedkv.attention.step import PagedStep
from pagedkv.core.errors import UseAfterFree

__all__ = ["AttentionSwitch", "DynamicCache", "PagedCache", "StaticCache", "StepCache"]

ATTENTION_NAME = "paged"


def paged_attention(module: torch.nn.Module, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
                    attention_mask: torch.Tensor | None, scaling: float | None = None, dropout: float = 0.0,
                    paged_step: PagedStep | None = None, sliding_window: int | None = None,
                    softcap: float | None = None, s_aux: torch.Tensor | None = None, **ignored
                    ) -> tuple[torch.Tensor, None]:
    """The function that transformers calls in each layer. `key` and `value` are not looked at: they are in the pool."""
    if paged_step is None:
        raise RuntimeError("the attention 'paged' was called without a paged cache: it is for PagedModel.forward and "
                           "for model.generate(..., cache=paged.cache_for(...)). model.set_attn_implementation('sdpa') "
                           "brings the ordinary one back")
    if sliding_window is not None or softcap is not None or s_aux is not None:
        raise ValueError("this layer asks for a sliding window, capped scores or attention sinks, which paged "
                         "attention does not do")
    if dropout:
        raise ValueError("the model is in training mode, with dropout in its attention: call model.eval() first")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return paged_step.attend(module.layer_idx, query, scale), None


AttentionInterface.register(ATTENTION_NAME, paged_attention)


class AttentionSwitch:
    """Names our attention in a model's configurations, and puts back what stood there. One for each model."""

    _of_models: "WeakKeyDictionary[torch.nn.Module, AttentionSwitch]" = WeakKeyDictionary()

    def __init__(self, model):
        configs = [model.config] + [module.config for module in model.modules() if hasattr(module, "config")]
        self._configs = list({id(config): config for config in configs}.values())
        self._before: list | None = None  # None: it is off

    @classmethod
    def of(cls, model) -> "AttentionSwitch":
        if model not in cls._of_models:
            cls._of_models[model] = cls(model)
        return cls._of_models[model]

    def on(self) -> None:
        if self._before is None:
            self._before = [config._attn_implementation for config in self._configs]
            for config in self._configs:
                config._attn_implementation = ATTENTION_NAME

    def off(self) -> None:
        if self._before is not None:
            for config, before in zip(self._configs, self._before):
                config._attn_implementation = before
            self._before = None

    @contextmanager
    def switched(self) -> Iterator[None]:
        try:
            self.on()
            yield
        finally:
            self.off()


class StepCache(Cache):
    """The cache of one pass: it writes where the step says. `step` is None between two passes."""

    def __init__(self, step: PagedStep | None, num_layers: int):
        super().__init__(layers=[])
        self.step = step
        self._num_layers = num_layers

    def update(self, key_states: torch.Tensor, value_states: torch.Tensor, layer_idx: int, *args,
               kwargs: dict | None = None, **more) -> tuple[torch.Tensor, torch.Tensor]:
        if kwargs is None:
            raise TypeError("this model does not tell the cache what its attention is called with (`kwargs=` of "
                            "Cache.update), so the block tables cannot reach the attention: paged caches do not work "
                            "with it")
        if self.step is None:
            raise UseAfterFree("this cache is freed: make another one with cache_for")
        self.step.write(layer_idx, key_states, value_states)
        kwargs["paged_step"] = self.step
        return key_states, value_states

    def __len__(self) -> int:
        return self._num_layers

    # What generate() asks of the layers of a cache; here there are no such objects.

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return 0

    def get_query_offset(self, layer_idx: int = 0) -> int:
        return self.get_seq_length()

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0) -> tuple[int, int]:
        return self.get_seq_length() + query_length, 0

    def get_max_length(self, layer_idx: int | None = None) -> int:
        return -1  # no maximum: what ends is the pool

    @property
    def is_croppable(self) -> bool:
        return False

    @property
    def is_compileable(self) -> bool:
        return False

    @property
    def is_initialized(self) -> bool:
        return True

    @property
    def is_sliding(self) -> list[bool]:
        return [False] * self._num_layers

    @property
    def is_linear(self) -> list[bool]:
        return [False] * self._num_layers

    @property
    def is_dummy(self) -> list[bool]:
        return [False] * self._num_layers


class PagedCache(StepCache):
    """The prompts of one call of `model.generate`, in the blocks of a `PagedModel`, which makes it (`cache_for`).

        with paged.cache_for(**inputs) as cache:
            tokens = model.generate(**inputs, cache=cache)

    sequences   those of the manager, one for each row of the batch; with beam search, for each beam

    A batch is padded on the left, so that all rows end in the same column. Padding is not written. What a row found in
    the cache need not be computed; transformers can leave out only the first columns, the same ones in every row, so it
    leaves out as many as suits the row that needs most, and of the other rows nothing is written before their turn.

    It can be used on for a longer text that begins with the first. `free()`, or the end of the `with` block, gives the
    blocks back; full ones can be found afterwards.
    """

    def __init__(self, paged, input_ids: torch.Tensor, attention_mask: torch.Tensor | None = None,
                 salt: str | bytes | None = None):
        super().__init__(None, paged.storage.num_layers)
        if not isinstance(input_ids, torch.Tensor) or input_ids.dim() != 2 or not input_ids.numel():
            raise TypeError("input_ids are a tensor [batch, tokens], as tokenizer(..., return_tensors='pt') gives them")
        self._paged, self._salt = paged, salt
        self._prompt = input_ids.to(paged.storage.device)
        self._pads = left_padding(input_ids, attention_mask)
        self._rows = [row[pad:] for row, pad in zip(input_ids.tolist(), self._pads)]
        self._hooks: list = []
        self._last_tokens: torch.Tensor | None = None  # of a pass that has begun, and of them
        self._num_appended = 0                         # how many columns belong to the sequences already
        self._spans: list = []
        self._has_switched = False
        self.sequences = paged.add_all(self._rows, salt)
        self._num_columns = min(pad + seq.num_cached_tokens for pad, seq in zip(self._pads, self.sequences))
        try:
            model = paged.model
            self._switch = AttentionSwitch.of(model)
            self._hooks.append(model.register_forward_pre_hook(self._before_forward, with_kwargs=True))
            self._hooks.append(model.register_forward_hook(self._after_forward, with_kwargs=True, always_call=True))
        except BaseException:
            self.free()
            raise

    def __repr__(self) -> str:
        state = f"{len(self.sequences)} rows, {self._num_columns} columns are there" if self.is_live else "freed"
        return f"<PagedCache: {state}>"

    @property
    def is_live(self) -> bool:
        return bool(self._hooks)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many columns of the batch are there already, padding included."""
        return self._num_columns

    def free(self) -> None:
        """Give the blocks back; the model is then as if this cache had never been. A second call changes nothing."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if self._has_switched:
            self._switch.off()
            self._has_switched = False
        self.step = None
        for seq in self.sequences:
            if seq.is_live:
                self._paged.free(seq)

    def __enter__(self) -> "PagedCache":
        return self

    def __exit__(self, *exc_info) -> None:
        self.free()

    # ── one pass ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _before_forward(self, model, args: tuple, kwargs: dict) -> None:
        cache = _cache_among(args, kwargs)
        if cache is not self:
            if self._has_switched and cache is None:  # a pass of this cache was interrupted
                self._switch.off()
            self._has_switched = False
            return
        input_ids = kwargs.get("input_ids", args[0] if args else None)
        if input_ids is None:
            raise TypeError("a paged cache needs the token ids, to find and to share blocks by: pass input_ids, not "
                            "inputs_embeds")
        mask = kwargs.get("attention_mask")
        self.step = self._begin(input_ids.to(self._prompt.device), mask)
        self._has_switched = True
        self._switch.on()

    def _after_forward(self, model, args: tuple, kwargs: dict, output) -> None:
        if _cache_among(args, kwargs) is self:
            self._switch.off()
            self._has_switched = False
            if output is not None and self.step is not None:  # None: the pass has failed, and nothing counts
                self._end()

    def _begin(self, input_ids: torch.Tensor, mask: torch.Tensor | None) -> PagedStep:
        repeated = self._last_tokens is not None
        if repeated and not torch.equal(self._last_tokens, input_ids):
            raise RuntimeError("the pass before this one has failed, and this is another one: repeat it, or free the "
                               "cache and make a new one")
        num_columns = input_ids.shape[1]
        is_prompt = self._num_columns < self._prompt.shape[1]
        if not repeated:
            self._check(input_ids, mask, is_prompt)
            self._last_tokens, self._num_appended = input_ids.clone(), num_columns if is_prompt else 0
        for column in input_ids.t()[self._num_appended:].tolist():
            self._paged.append(self.sequences, column)
            self._num_appended += 1
        self._spans, rows = self._spans_of(num_columns, is_there_already=False)
        if not rows:  # a chunk of a long prompt that was computed before: something is to be computed in any case
            self._spans, rows = self._spans_of(num_columns, is_there_already=True)
        return self._paged.begin_step(self._spans, None if len(rows) == input_ids.numel() else rows)

    def _spans_of(self, num_columns: int, is_there_already: bool) -> tuple[list, list[int]]:
        """What of the next columns is to be computed: per sequence the positions, and the rows of the batch in which
        they stand. What is there already is left out, but for a last token, since its logits are wanted."""
        spans, rows = [], []
        for row, (seq, pad) in enumerate(zip(self.sequences, self._pads)):
            progress = self._paged.progress[seq]
            end = self._num_columns + num_columns - pad
            begin = max(self._num_columns - pad, 0)
            if not is_there_already:
                begin = max(begin, min(progress.begin, len(progress.tokens) - 1))
            if begin < end:
                spans.append((progress, begin, end))
                first = row * num_columns + begin + pad - self._num_columns
                rows.extend(range(first, first + end - begin))
        return spans, rows

    def _end(self) -> None:
        self._paged.end_step(self._spans)
        self._num_columns += self._last_tokens.shape[1]
        self._last_tokens, self.step = None, None

    def _check(self, input_ids: torch.Tensor, mask: torch.Tensor | None, is_prompt: bool) -> None:
        """Whether these columns are the ones it was made for. If the batch has several rows for each of ours, so have
        we from now on."""
        if not is_prompt:
            if len(input_ids) != len(self.sequences):
                raise ValueError(f"this cache has {len(self.sequences)} rows, the batch {len(input_ids)}")
            return
        repeats, rest = divmod(len(input_ids), len(self._prompt))
        columns = slice(self._num_columns, self._num_columns + input_ids.shape[1])
        expected = self._prompt.repeat_interleave(repeats, 0) if repeats > 1 else self._prompt
        if rest or not torch.equal(expected[:, columns], input_ids):
            raise ValueError(f"this cache was made for other input_ids: for {len(self._prompt)} rows of "
                             f"{self._prompt.shape[1]} tokens. Give cache_for the same inputs as generate")
        if mask is not None and mask.dim() == 2:
            seen = min(mask.shape[1], self._prompt.shape[1])  # the columns up to the end of a chunk
            pads = (mask[:, :seen] == 0).sum(1).tolist()
            if pads != [min(pad, seen) for pad in self._pads for _ in range(repeats)]:
                raise ValueError("this batch is padded otherwise than the cache was told: give cache_for the same "
                                 "attention_mask as generate")
        if repeats > 1:
            self._repeat(repeats)

    def _repeat(self, repeats: int) -> None:
        """Each row becomes so many: beams, or several answers to one prompt. They share what can be found."""
        more = repeats - 1
        others = iter(self._paged.add_all([row for row in self._rows for _ in range(more)], self._salt))
        self.sequences = [seq for first in self.sequences for seq in (first, *(next(others) for _ in range(more)))]
        self._pads = [pad for pad in self._pads for _ in range(repeats)]
        self._rows = [row for row in self._rows for _ in range(repeats)]
        self._prompt = self._prompt.repeat_interleave(repeats, 0)

    # ── what generate does with a cache between two passes ───────────────────────────────────────────────────────────

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Beam search goes on with these of its beams. One that is chosen several times is forked: the blocks are
        shared, and the last one is copied by whoever writes to it first. One that is not chosen is freed."""
        kept, chosen = [], set()
        for beam in beam_idx.tolist():
            seq = self.sequences[beam]
            kept.append(self._paged.fork(seq) if beam in chosen else seq)
            chosen.add(beam)
        for beam, seq in enumerate(self.sequences):
            if beam not in chosen:
                self._paged.free(seq)
        self._pads = [self._pads[beam] for beam in beam_idx.tolist()]
        self.sequences = kept

    def crop(self, tokens_to_remove: int) -> None:
        if tokens_to_remove:
            raise NotImplementedError("a paged cache cannot take tokens back, so that assisted generation does not "
                                      "work with it")

    def reset(self) -> None:
        raise NotImplementedError("a paged cache is freed, not reset: make another one with cache_for")

    def batch_repeat_interleave(self, repeats: int) -> None:
        raise NotImplementedError("a paged cache repeats its rows itself, when the first pass has more of them")

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        raise NotImplementedError("a paged cache keeps the rows it was made for")


def _cache_among(args: tuple, kwargs: dict) -> StepCache | None:
    """The paged cache that a model is called with, under whatever name."""
    return next((value for value in (*args, *kwargs.values()) if isinstance(value, StepCache)), None)
