"""What notebook 06 imports besides its exercises: the model or a stand-in, and what is measured."""

import pytest
import torch

from pagedkv.lab import real_model, real_timing
from pagedkv.lab.real_cases import survives
from pagedkv.lab.real_model import model_or_noise, noise
from pagedkv.lab.real_timing import attention_seconds, backends_here, exponential, medians
from pagedkv.model import ModelNotAvailable
from pagedkv.storage.kv_storage import KVStorage

TINY = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 320}
CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def tiny():
    return noise(device="cpu", **TINY)


def test_the_real_model_if_it_is_there(monkeypatch):
    monkeypatch.setattr(real_model, "load_model", lambda **options: (torch.nn.Linear(2, 3), "its tokenizer"))
    chosen = model_or_noise()
    assert (chosen.tokenizer, chosen.missing, chosen.name) == ("its tokenizer", "", "SmolLM2-135M-Instruct")


def test_noise_and_the_reason_where_it_is_not(monkeypatch, tiny):
    def none(**options):
        assert options == {"device": "cpu"}
        raise ModelNotAvailable("No network. Fetch it once: python -m pagedkv.model")
    monkeypatch.setattr(real_model, "load_model", none)
    monkeypatch.setattr(real_model, "noise", lambda dtype, device: tiny)
    chosen = model_or_noise(device="cpu")
    assert chosen.model is tiny[0] and chosen.name == "random weights"
    assert repr(chosen).endswith("what it writes is noise. The real model is not here:\n"
                                 "No network. Fetch it once: python -m pagedkv.model")
    assert "torch.float32 on cpu" in repr(chosen)


def test_noise_has_the_shape_of_the_real_one_and_is_always_the_same(tiny):
    shape = real_model._SHAPE
    assert KVStorage(shape["num_hidden_layers"], shape["num_key_value_heads"], shape["head_dim"], 1, 1).token_bytes == 22.5 * 1024
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    again, _ = noise(device="cpu", **TINY)
    assert torch.equal(torch.rand(1), expected), "whoever draws random numbers is not disturbed"
    for one, other in zip(tiny[0].parameters(), again.parameters(), strict=True):
        assert torch.equal(one, other) and not one.requires_grad


def test_the_tokenizer_of_noise(tiny):
    model, tokenizer = tiny
    text = "Paris, 1 € – naïve?\n"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert all(0 <= token < 320 for token in tokenizer.encode(text))
    both = tokenizer(["a", "long"], return_tensors="pt", padding=True)
    assert both["attention_mask"].tolist() == [[0, 0, 0, 1], [1, 1, 1, 1]], "on the left"
    tokens = model.generate(**both, max_new_tokens=5, do_sample=False)
    assert tokens.shape == (2, 9) and isinstance(tokenizer.decode(tokens[0]), str), "nothing ends it"


def test_medians_leave_the_first_round_out(monkeypatch):
    clock, cost = [0.0], {"a": iter([100, 1, 2, 9]), "b": iter([100, 5, 5, 5])}
    monkeypatch.setattr(real_timing, "clock", lambda device: lambda: clock[0])

    def work(name):
        return lambda: clock.__setitem__(0, clock[0] + next(cost[name]))
    assert medians({"a": work("a"), "b": work("b")}, CPU, rounds=3) == {"a": 2, "b": 5}


def test_an_exponential_through_two_points():
    lengths, seconds = [64, 128, 512], [3, 9, 300]
    curve = exponential(lengths, seconds)
    assert [curve(64), curve(512)] == pytest.approx([3, 300])
    assert curve(288) == pytest.approx(30), "halfway, their geometric mean"


def test_attention_by_backend(tiny, monkeypatch):
    storage = KVStorage.for_model(tiny[0], num_blocks=2)
    here = backends_here(storage)
    assert {"gather", "blockwise"} <= set(here) and "triton" not in here, "there is no GPU where the storage is"

    def nothing_fast(name, storage):
        if name in ("compiled", "triton"):
            raise RuntimeError("no compiler")
        return name
    monkeypatch.setattr(real_timing, "choose_backend", nothing_fast)
    times, num_bytes = attention_seconds(tiny[0], batch_size=1, num_tokens=18, num_layers=2, rounds=1)
    assert list(times) == ["in one piece", "gather", "blockwise"] and num_bytes == 18 * 2 * 2 * 8 * 4


def attends(query, keys_pool, values_pool, block_table, num_tokens, scale, cut_at=None):
    keys, values = (pool[block_table].transpose(0, 1).flatten(1, 2)[:, :cut_at].repeat_interleave(2, 0)
                    for pool in (keys_pool, values_pool))
    scores = (keys @ query[:, :, None])[:, :, 0] * scale
    scores[:, num_tokens:] = -torch.inf
    return (scores.softmax(-1)[:, None] @ values)[:, 0]


def untouched(query, keys_pool, values_pool, block_table, num_tokens, scale):
    ...


def test_who_survives_what_lies_behind_the_last_token():
    assert survives(lambda *args: attends(*args, cut_at=args[4])).startswith("yes")
    assert survives(lambda *args: attends(*args, cut_at=args[4]).tolist()).startswith("yes")
    assert survives(attends) == "no – 0 × NaN: it reads what lies behind num_tokens"
    for placeholder in (untouched, ..., None):
        assert survives(placeholder) == "not yet – attend() still has its placeholder"

    def of_no_use(*args):
        raise KeyError(args)
    for wrong in (lambda *args: print(end=""), lambda *args: args[0], lambda *args: attends(*args[:4], 8, 0.5), of_no_use):
        assert survives(wrong).startswith("not yet – attend() is not right without NaN either")
