"""A model is tried on a few tokens before it runs on a paged cache, so that no other kind of attention gets through."""

import copy
import gc
import weakref

import pytest
import torch

from pagedkv.attention import PagedModel, gather, trial
from tests.attention.tiny_model import one_thread, random_model, tiny_model

SMALL = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 3, "max_position_embeddings": 128}


@pytest.fixture(scope="module", autouse=True)
def threads():
    with one_thread():
        yield


@pytest.mark.parametrize("name, more, reason", [
    ("DiffLlama", {"num_key_value_heads": 4}, "does not count: attention"),
    ("JetMoe", {"num_key_value_heads": 2, "kv_channels": 8, "num_local_experts": 4, "num_experts_per_tok": 2},
     r"not the usual one.*\d% of their spread"),
    ("Bert", {"is_decoder": False}, "encoder, in which each token sees those after it.*is_decoder=True"),
    ("Roberta", {"is_decoder": False}, "encoder, in which each token sees those after it"),
    ("Electra", {"is_decoder": False}, "encoder, in which each token sees those after it"),
    ("Roberta", {"is_decoder": True}, "not the usual one"),  # its positions begin behind that of the padding token
    ("GPTNeoX", {}, "does not tell the cache"),
    ("GPTBigCode", {"num_key_value_heads": 4}, r"keys are .*\[4, 1, 8\]"),
])
def test_models_that_would_give_other_tokens_are_refused(name, more, reason):
    import transformers
    model = random_model(getattr(transformers, f"{name}Config")(**SMALL | more))
    before = model.config._attn_implementation
    for _ in range(2):
        with pytest.raises(ValueError, match=f"cannot run on a paged cache: .*({reason})"):
            PagedModel(model, 8)
    assert model.config._attn_implementation == before and not model._forward_pre_hooks


@pytest.mark.parametrize("name", ["Bert", "Electra"])
def test_encoders_that_are_loaded_as_decoders_work(name):
    import transformers
    config = getattr(transformers, f"{name}Config")(**SMALL | {"is_decoder": True})
    model = random_model(config)
    paged = PagedModel(model, 8, 4)
    prompt = [5, 20, 34, 9, 41, 17, 60]
    with paged.sequence(prompt) as seq, torch.no_grad():
        assert torch.allclose(paged.forward(seq)[0], model(torch.tensor([prompt])).logits[0, -1], atol=1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("what", ["all", "last"])
def test_wrong_attention_is_noticed_in_every_precision(monkeypatch, dtype, what):
    model = copy.deepcopy(tiny_model()).to(dtype)
    right = gather.attend

    def wrong(query, storage, layer, batch, scale):
        if what == "all":
            return right(query, storage, layer, batch, 3 * scale)
        result = right(query, storage, layer, batch, scale)
        result[-1] = result[0]
        return result

    with monkeypatch.context() as patch:
        patch.setattr(gather, "attend", wrong)
        with pytest.raises(ValueError, match="not the usual one"):
            PagedModel(model, 8)
    PagedModel(model, 8)


def test_a_model_is_tried_once_and_not_kept(monkeypatch):
    model = copy.deepcopy(tiny_model()).train()
    model.model.layers[1].eval()
    modes = [module.training for module in model.modules()]
    PagedModel(model, 8)
    assert [module.training for module in model.modules()] == modes
    monkeypatch.setattr(trial, "_error", None)  # would fail if it were called
    PagedModel(model, 8)
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_nothing_can_be_told_from_weights_that_mean_nothing():
    model = copy.deepcopy(tiny_model())
    with torch.no_grad():
        model.model.norm.weight.fill_(float("nan"))
    PagedModel(model, 8)
