"""The measurements: what they measure with a tiny model, and the laws that they fit. How fast anything is stays out."""

import pytest
import torch

from pagedkv.attention import measure
from tests.attention.tiny_model import one_thread, random_prompts, tiny_model


@pytest.fixture(scope="module", autouse=True)
def threads():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def model():
    return tiny_model()


def test_equality_sees_what_is_equal_and_what_is_not(model, monkeypatch):
    prompts = random_prompts([9, 14])
    rows = measure.measure_equality(model, prompts, num_tokens=6, num_beams=2, block_size=4)
    assert [row.case.split(",")[0] for row in rows] == ["single", "batch", "batch", "shared prefix", "forked",
                                                        "beam search"]
    assert all(row.is_equal and row.num_tokens == 6 * row.num_sequences for row in rows)

    def wrong(query, storage, layer, batch, scale):
        return torch.roll(query, 1, 0)

    monkeypatch.setattr("pagedkv.attention.paged_model.backend_function", lambda name: wrong)
    rows = measure.measure_equality(model, prompts, num_tokens=6, num_beams=2, block_size=4)
    assert not any(row.is_equal for row in rows)


def test_prefix(model):
    shared, tail = random_prompts([64, 7])
    seen = []
    times = measure.measure_prefix(model, shared, tail, following_tokens=5, rounds=2, block_size=4,
                                   progress=lambda items: seen.append(True) or items)
    assert (times.num_tokens, times.num_cached_tokens, times.same_tokens) == (71, 64, True) and seen
    assert times.ratio == times.without_seconds / times.with_seconds > 0


def test_concatenation(model):
    rows = measure.measure_concatenation(model, lengths=(8, 33), batch=2, steps=3, block_size=4)
    assert [row.num_tokens for row in rows] == [8, 33]
    for row in rows:
        assert min(row.concatenated_seconds, row.in_place_seconds, row.dynamic_cache_seconds, row.paged_seconds) > 0
        assert row.ratio == row.dynamic_cache_seconds / row.paged_seconds


def test_steps(model):
    rows = measure.measure_steps(model, lengths=(20, 5), rounds=2, block_size=4)
    assert [row.num_tokens for row in rows] == [5, 20]
    assert all(row.without_seconds > 0 and row.with_seconds > 0 for row in rows)


def test_a_law_is_found_again():
    lengths = [64, 128, 256, 512, 1024]
    law = measure.fit_law(lengths, [2e-3 + 3e-6 * n + 5e-9 * n * n for n in lengths], 2)
    assert law.coefficients == pytest.approx((2e-3, 3e-6, 5e-9)) and law.largest_residual < 1e-9
    assert law(100) == pytest.approx(2e-3 + 3e-4 + 5e-5)
    assert str(law) == "2 ms + 3 µs·n + 5 ns·n²"


def test_residuals_tell_how_far_off_the_law_is():
    lengths = [64, 128, 256, 512, 1024]
    doubling = [1e-3 * 2 ** (n / 128) for n in lengths]
    assert measure.fit_law(lengths, doubling, 2).largest_residual > 0.3
    linear = measure.fit_law(lengths, [1e-3, 1e-3, 1e-3, 1e-3, 1.2e-3], 1)
    assert 0.02 < linear.largest_residual < 0.2 and len(linear.residuals) == 5


def test_a_law_needs_more_lengths_than_coefficients():
    with pytest.raises(ValueError, match="3 coefficients fit 3 lengths whatever"):
        measure.fit_law([1, 2, 3], [1.0, 2.0, 4.0], 2)
    with pytest.raises(ValueError, match="2 lengths and 3 times"):
        measure.fit_law([1, 2], [1.0, 2.0, 4.0], 0)


def test_int8_drift(model):
    texts = random_prompts([40, 25])
    both, keys, values = measure.int8_drift(model, texts, block_size=4)
    assert both.num_tokens == 65
    assert 0.7 < both.agreement <= 1 and 0 < both.max_logit_change and 0 < both.mean_kl
    assert 0 < keys.mean_kl < 2 * both.mean_kl and 0 < values.mean_kl < 2 * both.mean_kl


def test_rounded_storage_gives_what_int8_storage_gives(model):
    from pagedkv.attention import PagedModel
    rounded = measure.RoundedKVStorage.for_model(model, 10, 4)
    [tokens] = random_prompts([30])
    both = PagedModel(model, storage=rounded).logits_of_all(tokens)
    assert torch.allclose(both, PagedModel(model, 10, 4, int8=True).logits_of_all(tokens), atol=1e-4)
    rounded.rounds_keys = rounded.rounds_values = False
    assert not torch.allclose(both, PagedModel(model, storage=rounded).logits_of_all(tokens), atol=1e-4)
