"""Whether a model gives the same logits through a paged cache as without any cache, on a few tokens.

A configuration does not say all that a model does in its attention: two softmaxes that are subtracted, layers that run
twice, positions that begin at 2. Such a model would run and give wrong tokens. So each is tried once: two short texts
go through a pool of a few blocks in two passes, in unlike pieces and in odd blocks, and all logits are compared. That
takes three passes, some tenths of a second with a small model on a CPU.
"""

from weakref import WeakSet

import torch

from pagedkv.attention import gather
from pagedkv.attention.batch import PagedBatch
from pagedkv.attention.step import PagedStep
from pagedkv.attention.transformers_cache import packed_pass
from pagedkv.storage.device import OutOfDeviceMemory
from pagedkv.storage.kv_storage import KVStorage

_NUM_TOKENS = 5
# How many tokens of each text the two passes bring, and where they lie.
_PIECES = (3, 1), (2, 4)
_BLOCK_SIZE = 2
_TABLES = [4, 0, 2], [5, 1, 3]
# Of the spread of the logits. Rounding is far below, another attention far above.
_TOLERANCES = {torch.float32: 2e-3, torch.float16: 0.05, torch.bfloat16: 0.25}

_right: "WeakSet[torch.nn.Module]" = WeakSet()


def try_out(model) -> None:
    """Raises ValueError if a model that `check_model` has let through is none that works after all."""
    if model in _right:
        return
    name = type(model).__name__
    modes = [(module, module.training) for module in model.modules()]
    try:
        model.eval()  # without dropout
        error = _error(model)
    except (torch.OutOfMemoryError, OutOfDeviceMemory):
        raise
    except Exception as reason:
        raise ValueError(f"{name} cannot run on a paged cache: {reason}") from reason
    finally:
        for module, training in modes:
            module.training = training
    if not error <= _TOLERANCES[model.dtype]:
        raise ValueError(f"{name} cannot run on a paged cache: its attention is not the usual one. On a few tokens its "
                         f"logits are not those that it has without a cache, by {error:.0%} of their spread")
    _right.add(model)


def _error(model) -> float:
    """The largest difference at any place, relative to the spread of the logits there."""
    texts = _texts(model)
    with torch.no_grad():
        expected = model(input_ids=torch.tensor(texts, device=model.device), use_cache=False, return_dict=True).logits
    storage = KVStorage.for_model(model, 6, _BLOCK_SIZE, model.dtype, model.device)
    written = [0, 0]
    found: list[list[torch.Tensor]] = [[], []]
    for pieces in _PIECES:
        tokens = [token for text, begin, length in zip(texts, written, pieces) for token in text[begin:begin + length]]
        written = [begin + length for begin, length in zip(written, pieces)]
        step = PagedStep(storage, gather.attend, PagedBatch.build(_TABLES, written, pieces, storage))
        logits = packed_pass(model, step, tokens).logits[0]
        for parts, part in zip(found, logits.split(list(pieces))):
            parts.append(part)
    if not expected.isfinite().all():
        return 0.0  # weights that mean nothing: nothing can be told
    ours, expected = torch.stack([torch.cat(parts) for parts in found]).float(), expected.float()
    spread = (expected - expected.mean(-1, keepdim=True)).norm(dim=-1)
    return float(((ours - expected).norm(dim=-1) / spread.clamp(min=1e-30)).max())


def _texts(model) -> list[list[int]]:
    """Tokens from all over the vocabulary, without those that mean something: padding is often looked for."""
    config, size = model.config, model.get_input_embeddings().weight.shape[0]
    special = set()
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        ids = getattr(config, name, None)
        special.update(ids if isinstance(ids, (list, tuple)) else [ids])
    ordinary = [token for token in range(min(size, 1000)) if token not in special] or [0]
    step = max(len(ordinary) // (2 * _NUM_TOKENS), 1)
    chosen = [ordinary[number * step % len(ordinary)] for number in range(2 * _NUM_TOKENS)]
    return [chosen[:_NUM_TOKENS], chosen[_NUM_TOKENS:]]
