"""The real model gives the same tokens through a paged cache as through transformers' own. Few cases: it is slow."""

import pytest
import torch

from pagedkv.attention import PagedModel
from pagedkv.attention.measure import int8_drift, measure_equality
from pagedkv.model import is_ready, load_model
from tests.attention.tiny_model import one_thread

pytestmark = pytest.mark.skipif(not is_ready(),
                                reason="the model is not on this machine: python -m pagedkv.model fetches it")

PROMPTS = ("A block table is",
           "My grandmother keeps her recipes in a tin box. The oldest one says that you take two eggs and",
           "for (int i = 0; i < n; i++)")


@pytest.fixture(scope="module", autouse=True)
def threads():
    with one_thread():  # several are slower where other programs run too
        yield


@pytest.fixture(scope="module")
def loaded():
    return load_model(fetch=False, device="cpu")


@pytest.fixture(scope="module")
def prompts(loaded):
    return [loaded[1](prompt).input_ids for prompt in PROMPTS]


def test_the_tokens_are_the_same_in_every_case(loaded, prompts):
    rows = measure_equality(loaded[0], prompts[::2], num_tokens=3, num_beams=2)
    assert [row.case for row in rows if not row.is_equal] == [] and len(rows) == 6


def test_three_lines(loaded):
    model, tokenizer = loaded
    inputs = tokenizer(list(PROMPTS), return_tensors="pt", padding=True)
    expected = model.generate(**inputs, max_new_tokens=8, do_sample=False)
    paged = PagedModel(model, num_blocks=32)
    with paged.cache_for(**inputs) as cache:
        tokens = model.generate(**inputs, max_new_tokens=8, do_sample=False, cache=cache)
    assert torch.equal(tokens, expected)


def test_every_backend_gives_the_logits_of_the_model(loaded, prompts):
    model = loaded[0]
    with torch.no_grad():
        expected = torch.stack([model(torch.tensor([prompt])).logits[0, -1] for prompt in prompts])
    for backend in ("gather", "blockwise", "auto"):
        paged = PagedModel(model, num_blocks=32, backend=backend)
        seqs = paged.add_all([prompt[:-1] for prompt in prompts])
        paged.forward(seqs)
        paged.append(seqs, [prompt[-1] for prompt in prompts])  # so that the last one is a decode step
        logits = paged.forward(seqs)
        assert torch.allclose(logits, expected, atol=5e-3), (backend, (logits - expected).abs().max())


def test_a_prefix_is_found_and_the_tokens_that_follow_are_the_same(loaded, prompts):
    paged = PagedModel(loaded[0], num_blocks=64)
    shared = (prompts[1] * 8)[:160]
    cold, warm = (paged.generate([shared + prompts[0]], 8, eos_token_id=[], salt=salt) for salt in ("cold", None))
    with paged.sequence(shared + prompts[0]) as seq:
        assert seq.num_cached_tokens == 160
    assert paged.generate([shared + prompts[0]], 8, eos_token_id=[]) == warm == cold


def test_int8_changes_little(loaded):
    model, tokenizer = loaded
    rows = int8_drift(model, [tokenizer(PROMPTS[1] * 3).input_ids])
    both, keys, values = rows
    assert both.agreement > 0.9 and 0 < both.mean_kl < 0.02
    assert values.mean_kl < keys.mean_kl < 2 * both.mean_kl
