"""The real model, as it lies in the cache of this machine."""

import os

import pytest

from pagedkv.model import is_ready, load_model

pytestmark = [
    pytest.mark.skipif(not is_ready(), reason="the model is not here: python -m pagedkv.model"),
    pytest.mark.skipif("PAGEDKV_MODEL" in os.environ, reason="PAGEDKV_MODEL names another model"),
]


@pytest.fixture(scope="module")
def loaded():
    return load_model(device="cpu", fetch=False)


def test_its_shape_is_the_one_that_the_course_speaks_of(loaded):
    config = loaded[0].config
    assert (config.num_hidden_layers, config.num_attention_heads, config.num_key_value_heads, config.head_dim) == \
        (30, 9, 3, 64)
    assert 2 * 30 * 3 * 64 * 2 / 1024 == 22.5, "KiB of KV cache per token in fp16"


def test_it_is_a_language_model(loaded):
    """English is far likelier than its own words in another order: random or damaged weights see no difference."""
    import torch
    model, tokenizer = loaded
    ids = tokenizer("The cat sat on the mat and looked out of the window at the birds in the garden.",
                    return_tensors="pt").input_ids
    torch.manual_seed(0)
    shuffled = ids[:, torch.randperm(ids.shape[1])]

    def nats_per_token(tokens):
        logits = model(tokens).logits
        assert torch.isfinite(logits).all()
        return torch.nn.functional.cross_entropy(logits[0, :-1], tokens[0, 1:]).item()

    assert nats_per_token(ids) < 4 < 6 < nats_per_token(shuffled)


def test_it_answers_in_a_chat_and_knows_when_it_is_done(loaded):
    model, tokenizer = loaded
    prompt = tokenizer.apply_chat_template([{"role": "user", "content": "What is the capital of France?"}],
                                           add_generation_prompt=True, return_tensors="pt", return_dict=True)
    start = prompt["input_ids"].shape[1]
    answer = model.generate(**prompt, max_new_tokens=100, do_sample=False)[0, start:].tolist()
    assert answer[-1] == tokenizer.convert_tokens_to_ids("<|im_end|>"), "it ends before the limit, at its own end"
    assert 1 < len(answer) < 100


def test_text_comes_back_as_it_was(loaded):
    _, tokenizer = loaded
    for text in ("Hello world 12345\n\n\tdef f(x):\n    return 1", "naïve 日本 😀"):
        assert tokenizer.decode(tokenizer(text).input_ids) == text
