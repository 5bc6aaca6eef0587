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

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from weakref import WeakKeyDictionary, WeakMethod, finalize, ref

import torch
from transformers import AttentionInterface, Cache, DynamicCache, StaticCache

from pagedkv.attention.left_padding import left_padding
from pagedkv.attention.step import PagedStep
from pagedkv.core.errors import UseAfterFree
from pagedkv.core.manager import Sequence

__all__ = ["AttentionSwitch", "DynamicCache", "PagedCache", "StaticCache", "StepCache", "packed_pass"]

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
                           "brings the ordinary one back. If another thread uses the model with a paged cache, it is "
                           "that one's: use one thread at a time")
    if sliding_window is not None or softcap is not None or s_aux is not None:
        raise ValueError("this layer asks for a sliding window, capped scores or attention sinks, which paged "
                         "attention does not do")
    if dropout:
        raise ValueError("the model is in training mode, with dropout in its attention: call model.eval() first")
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    return paged_step.attend(module.layer_idx, query, scale), None


AttentionInterface.register(ATTENTION_NAME, paged_attention)


class AttentionSwitch:
    """Names our attention in a model's configurations, and puts back what stood there. One for each model.

    While it is on, the model belongs to the thread that has switched it on: any other that calls it is refused."""

    _of_models: "WeakKeyDictionary[torch.nn.Module, AttentionSwitch]" = WeakKeyDictionary()
    _lock = threading.Lock()

    def __init__(self, model):
        configs = [model.config] + [module.config for module in model.modules() if hasattr(module, "config")]
        self._configs = list({id(config): config for config in configs}.values())
        self._model = ref(model)
        self._before: list | None = None  # None: it is off
        self._thread: threading.Thread | None = None
        self._hook = None

    @classmethod
    def of(cls, model) -> "AttentionSwitch":
        if model not in cls._of_models:
            cls._of_models[model] = cls(model)
        return cls._of_models[model]

    @property
    def is_with_another(self) -> bool:
        """Whether another thread is in the middle of a pass. One that has ended is in none."""
        thread = self._thread
        return thread is not None and thread is not threading.current_thread() and thread.is_alive()

    def check_thread(self, *ignored) -> None:
        if self.is_with_another:
            raise RuntimeError("another thread is in the middle of a pass of this model with a paged cache: use one "
                               "thread at a time, or a model for each")

    def on(self) -> None:
        with self._lock:
            self.check_thread()
            self._thread = threading.current_thread()
            if self._before is None:
                self._before = [config._attn_implementation for config in self._configs]
                for config in self._configs:
                    config._attn_implementation = ATTENTION_NAME
                self._hook = self._model().register_forward_pre_hook(self.check_thread)

    def off(self) -> None:
        with self._lock:
            if self._before is not None:
                for config, before in zip(self._configs, self._before):
                    config._attn_implementation = before
                self._before = None
                self._hook.remove()
            self._thread = None

    @contextmanager
    def switched(self) -> Iterator[None]:
        self.on()
        try:
            yield
        finally:
            self.off()


def packed_pass(model, step: PagedStep, token_ids: list[int], **options):
    """One pass of a model over packed tokens, at the positions that the step's batch says. Returns the model's output.

    Raises RuntimeError if the pass does not count: see `PagedStep.check_complete`."""
    storage = step.storage
    with torch.no_grad(), AttentionSwitch.of(model).switched():
        output = model(input_ids=torch.tensor([token_ids], device=storage.device),
                       position_ids=step.batch.positions[None], cache=StepCache(step, storage.num_layers),
                       use_cache=True, return_dict=True, **options)
    step.check_complete()
    return output


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
            self._refuse()
        self.step.write(layer_idx, key_states, value_states)
        kwargs["paged_step"] = self.step
        return key_states, value_states

    def _refuse(self) -> None:
        raise RuntimeError("this cache is for one pass, which is over")

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

    It can be used on for a longer text that begins with the first, without padding in what is added. `free()`, or the
    end of the `with` block, gives the blocks back; full ones can be found afterwards. A cache that nobody holds any
    more is freed as well, when its PagedModel is used the next time.
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
        self._last_tokens: torch.Tensor | None = None  # of a pass that has begun
        self._spans: list = []
        self._held = held = _Held(paged, paged.add_all(self._rows, salt))
        self._num_columns = min(pad + seq.num_cached_tokens for pad, seq in zip(self._pads, self.sequences))
        try:
            held.hook(WeakMethod(self._before_forward), WeakMethod(self._after_forward))
            finalize(self, held.abandon).atexit = False
        except BaseException:
            self.free()
            raise

    def __repr__(self) -> str:
        state = f"{len(self.sequences)} rows, {self._num_columns} columns are there" if self.is_live else "freed"
        return f"<PagedCache: {state}>"

    @property
    def sequences(self) -> list[Sequence]:
        return self._held.sequences

    @property
    def is_live(self) -> bool:
        return bool(self._held.hooks)

    def get_seq_length(self, layer_idx: int = 0) -> int:
        """How many columns of the batch are there already, padding included. Raises UseAfterFree."""
        if not self.is_live:
            self._refuse()
        return self._num_columns

    def free(self) -> None:
        """Give the blocks back; the model is then as if this cache had never been. A second call changes nothing."""
        self.step = None
        self._held.give_back()

    def __enter__(self) -> "PagedCache":
        return self

    def __exit__(self, *exc_info) -> None:
        self.free()

    def _refuse(self) -> None:
        if not self.is_live:
            raise UseAfterFree("this cache is freed. Make another one, and use it where it is live:\n"
                               "    with paged.cache_for(**inputs) as cache:\n"
                               "        tokens = model.generate(**inputs, cache=cache)")
        name = type(self._paged.model).__name__
        raise ValueError(f"this cache is for the {name} that its PagedModel was made with, called as a whole; this is "
                         "another model, or a part of that one")

    # ── one pass ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _before_forward(self, model, args: tuple, kwargs: dict) -> None:
        held, cache = self._held, _cache_among(args, kwargs)
        held.switch.check_thread()
        if cache is not self:
            if held.has_switched and cache is None:  # a pass of this cache was interrupted
                held.switch.off()
            held.has_switched = False
            return
        if len(args) > 1:
            raise TypeError("with a paged cache, pass all but the input_ids by name: attention_mask=…, position_ids=…")
        if kwargs.get("use_cache") is False:
            raise ValueError("use_cache=False, and a cache was given: leave out one of them")
        input_ids = kwargs.get("input_ids", args[0] if args else None)
        if input_ids is None:
            raise TypeError("a paged cache needs the token ids, to find and to share blocks by: pass input_ids, not "
                            "inputs_embeds")
        input_ids = input_ids.to(self._prompt.device)
        self.step = self._begin(input_ids, kwargs.get("attention_mask"), kwargs.get("position_ids"))
        held.has_switched = True
        held.switch.on()

    def _after_forward(self, model, args: tuple, kwargs: dict, output) -> None:
        if _cache_among(args, kwargs) is self and self._held.has_switched and not self._held.switch.is_with_another:
            self._held.switch.off()
            self._held.has_switched = False
            step, self.step = self.step, None
            if output is not None and step is not None:  # None: the pass has failed, and nothing counts
                step.check_complete()
                self._end()

    def _begin(self, input_ids: torch.Tensor, mask: torch.Tensor | None, positions: torch.Tensor | None) -> PagedStep:
        repeated = self._last_tokens is not None
        if repeated and not torch.equal(self._last_tokens, input_ids):
            raise RuntimeError("the pass before this one has failed, and this is another one: repeat it, or free the "
                               "cache and make a new one")
        num_columns = input_ids.shape[1]
        repeats = 1 if repeated else self._check_tokens(input_ids)
        pads = torch.tensor([pad for pad in self._pads for _ in range(repeats)], device=input_ids.device)
        self._check_mask(num_columns, pads, mask)
        self._check_positions(num_columns, pads, positions)
        if repeats > 1:
            self._repeat(repeats)
        self._last_tokens = input_ids.clone()
        # the prompt belongs to the sequences from the beginning; what comes after it is appended, unless that is done
        num_there = len(self._paged.progress[self.sequences[0]].tokens) + self._pads[0] - self._num_columns
        for column in input_ids.t()[num_there:].tolist():
            self._paged.append(self.sequences, column)
        self._catch_up()
        self._spans, rows = self._spans_of(num_columns, is_there_already=False)
        if not rows:  # a chunk of a long prompt that was computed before: something is to be computed in any case
            self._spans, rows = self._spans_of(num_columns, is_there_already=True)
        return self._paged.begin_step(self._spans, None if len(rows) == input_ids.numel() else rows)

    def _catch_up(self) -> None:
        """What comes before the next columns, and is not there after all: it was to be computed by a sequence that has
        been freed meanwhile, and one of ours has taken over."""
        behind = []
        for seq, pad in zip(self.sequences, self._pads):
            progress = self._paged.progress[seq]
            if progress.begin < self._num_columns - pad:
                behind.append((progress, progress.begin, self._num_columns - pad))
        if behind:
            self._paged.compute(behind)

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
        self._last_tokens = None

    # ── whether a pass is the one it should be ───────────────────────────────────────────────────────────────────────

    def _check_tokens(self, input_ids: torch.Tensor) -> int:
        """Whether these columns are the ones it was made for. Returns how many rows the batch has for each of ours."""
        there, (num_rows, num_columns) = self._num_columns, input_ids.shape
        width = self._prompt.shape[1]
        if there >= width:
            if num_rows != len(self.sequences):
                raise ValueError(f"this cache has {len(self.sequences)} rows, the batch {num_rows}")
            return 1
        repeats, rest = divmod(num_rows, len(self._prompt))
        expected = self._prompt.repeat_interleave(repeats, 0)
        if not rest and torch.equal(expected[:, there:there + num_columns], input_ids):
            return repeats
        if not rest and there and torch.equal(expected[:, :num_columns], input_ids):
            raise ValueError(f"this cache has the first {there} columns of the prompt already: pass "
                             "input_ids[:, cache.get_seq_length():]")
        raise ValueError(f"this cache was made for other input_ids: for {len(self._prompt)} rows of {width} tokens. "
                         "Give cache_for the same inputs as generate")

    def _check_mask(self, num_columns: int, pads: torch.Tensor, mask: torch.Tensor | None) -> None:
        """A mask says what is padding. Attention here does not look at it, so it has to say what we know."""
        if mask is None:
            return
        there = self._num_columns
        shape = len(pads), there + num_columns
        if not isinstance(mask, torch.Tensor) or mask.shape != shape:
            raise ValueError(f"this cache holds {there} columns, and this pass brings {num_columns} more: the "
                             f"attention_mask is [batch, all columns] = {list(shape)}, got "
                             f"{list(mask.shape) if isinstance(mask, torch.Tensor) else type(mask).__name__}. For the "
                             "same texts once more make a new cache")
        expected = torch.arange(shape[1], device=pads.device) >= pads[:, None]
        if not torch.equal(mask.to(pads.device) != 0, expected):
            if there < self._prompt.shape[1]:
                raise ValueError("this batch is padded otherwise than the cache was told: give cache_for the same "
                                 "attention_mask as generate")
            raise ValueError(f"this cache holds {there} columns, and the attention_mask hides something besides the "
                             "padding on the left of the first prompt: padding between two parts of a text is not "
                             "supported. Make a new cache for the texts as they are now; it finds what is computed")

    def _check_positions(self, num_columns: int, pads: torch.Tensor, positions: torch.Tensor | None) -> None:
        """Keys and values hold the positions that the model was given, and whoever finds them relies on these."""
        columns = torch.arange(self._num_columns, self._num_columns + num_columns, device=pads.device)
        expected = columns - pads[:, None]
        given = columns if positions is None else positions.to(pads.device)
        if given.dim() > 2 or given.shape[-1] != num_columns or given.dim() == 2 and len(given) not in (1, len(pads)):
            raise ValueError(f"position_ids are [batch, tokens] = {list(expected.shape)}, got {list(given.shape)}")
        if ((given != expected) & (expected >= 0)).any():
            if positions is None:
                raise ValueError("without position_ids the model counts the padding, too, and the keys and values "
                                 "would be wrong for every other text: pass position_ids=(attention_mask.cumsum(1) - 1)"
                                 f".clamp(0)[:, {self._num_columns}:], or use model.generate, which does so")
            raise ValueError(f"this cache holds {self._num_columns} columns, and these position_ids are not those that "
                             "follow: they count each row's tokens from 0, without the padding, as (attention_mask"
                             f".cumsum(1) - 1).clamp(0)[:, {self._num_columns}:] does, and model.generate. For the same "
                             "texts once more make a new cache")

    # ── what generate does with a cache between two passes ───────────────────────────────────────────────────────────

    def _repeat(self, repeats: int) -> None:
        """Each row becomes so many: beams, or several answers to one prompt. They share what can be found."""
        more = repeats - 1
        others = iter(self._paged.add_all([row for row in self._rows for _ in range(more)], self._salt))
        self._held.sequences = [seq for first in self.sequences
                                for seq in (first, *(next(others) for _ in range(more)))]
        self._pads = [pad for pad in self._pads for _ in range(repeats)]
        self._rows = [row for row in self._rows for _ in range(repeats)]
        self._prompt = self._prompt.repeat_interleave(repeats, 0)

    def reorder_cache(self, beam_idx: torch.Tensor) -> None:
        """Beam search goes on with these of its beams. One that is chosen several times is forked: the blocks are
        shared, and the last one is copied by whoever writes to it first. One that is not chosen is freed."""
        beams = beam_idx.tolist()
        kept, forked = [], []
        try:
            for place, beam in enumerate(beams):
                seq = self.sequences[beam]
                if beam in beams[:place]:
                    seq = self._paged.fork(seq)
                    forked.append(seq)
                kept.append(seq)
        except BaseException:
            self._paged.free(forked)
            raise
        left = [seq for beam, seq in enumerate(self.sequences) if beam not in beams]
        self._pads = [self._pads[beam] for beam in beams]
        self._held.sequences = kept
        self._paged.free(left)

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


class _Held:
    """What a PagedCache has of the pool and of the model. Apart from the cache, so that it can be given back when the
    cache is gone: the model's hooks do not keep the cache alive.

    has_switched   the switch is on, and this cache has switched it on
    """

    def __init__(self, paged, sequences: list[Sequence]):
        self.paged, self.sequences = paged, sequences
        self.switch = AttentionSwitch.of(paged.model)
        self.hooks: list = []
        self.has_switched = False

    def hook(self, before: WeakMethod, after: WeakMethod) -> None:
        model = self.paged.model
        self.hooks.append(model.register_forward_pre_hook(_if_alive(before), with_kwargs=True))
        self.hooks.append(model.register_forward_hook(_if_alive(after), with_kwargs=True, always_call=True))

    def leave_model(self) -> None:
        for hook in self.hooks:
            hook.remove()
        self.hooks = []
        if self.has_switched:
            self.switch.off()
            self.has_switched = False

    def give_back(self) -> None:
        self.leave_model()
        self.paged.free([seq for seq in self.sequences if seq.is_live])

    def abandon(self) -> None:
        """The cache is gone. Python may have found that out in the middle of another call of the PagedModel, so the
        blocks are only put down to be given back."""
        if self.hooks:
            self.leave_model()
            self.paged.abandoned.append(self)


def _if_alive(method: WeakMethod) -> Callable:
    def hook(*args):
        bound = method()
        return None if bound is None else bound(*args)
    return hook


def _cache_among(args: tuple, kwargs: dict) -> StepCache | None:
    """The paged cache that a model is called with, under whatever name."""
    return next((value for value in (*args, *kwargs.values()) if isinstance(value, StepCache)), None)
