"""What notebook 06 claims, held: counts, bytes and equalities. Times are measured, and not held."""

import math
from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from pagedkv.attention import cascade, gather
from pagedkv.attention.batch import PagedBatch
from pagedkv.attention.paged_model import PagedModel
from pagedkv.core.kv_size import MODELS, kv_bytes_per_token
from pagedkv.lab.real_article import BlockPool, SequenceManager
from pagedkv.lab.real_cases import attend_whole_blocks, made_up_vectors
from pagedkv.lab.real_model import noise
from pagedkv.lab.real_timing import attention_seconds, copy_bandwidth
from pagedkv.lab.real_work import step_work
from pagedkv.storage.int8_storage import Int8KVStorage, dequantise, quantise
from pagedkv.storage.kv_storage import KVStorage

LENGTHS = (1, 2, 3, 5, 8, 13)
TINY = {"num_hidden_layers": 2, "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "vocab_size": 320}


@pytest.fixture(scope="module")
def tiny():
    model, _ = noise(device="cpu", **TINY)
    model.set_attn_implementation("eager")  # whose products the counter sees
    return model


def storage_of(**other):
    return KVStorage(**{"num_layers": 2, "num_kv_heads": 2, "head_dim": 8, "num_blocks": 8, "block_size": 4,
                        "dtype": torch.float32, "device": "cpu"} | other)


def multiply_adds(call):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        call()
    return counter.get_total_flops() // 2


def differences(numbers, times):
    for _ in range(times):
        numbers = [after - before for before, after in zip(numbers, numbers[1:])]
    return numbers


@pytest.mark.parametrize("length", LENGTHS)
def test_the_work_of_a_step_is_what_torch_counts(tiny, length):
    """S2, B1: without a cache all tokens are computed, with one the last."""
    ids = torch.arange(length)[None]
    counted = multiply_adds(lambda: tiny(ids, use_cache=False, logits_to_keep=1))
    assert counted == step_work(tiny.config, length, cached=False).total
    if length > 1:
        with torch.no_grad():
            cache = tiny(ids[:, :-1], use_cache=True).cache
        counted = multiply_adds(lambda: tiny(ids[:, -1:], cache=cache, use_cache=True, logits_to_keep=1))
        assert counted == step_work(tiny.config, length, cached=True).total


def test_the_law(tiny):
    """S2: with a cache constant weights and linear attention, without linear and quadratic; of a generation n² and n³."""
    def steps(part, cached):
        return [getattr(step_work(tiny.config, length, cached), part) for length in range(1, 12)]

    assert len(set(steps("projections", True))) == 1
    assert len(set(differences(steps("attention", True), 1))) == 1 and steps("attention", True)[0] > 0
    assert len(set(differences(steps("projections", False), 1))) == 1
    second = set(differences(steps("attention", False), 2))
    assert len(second) == 1 and second != {0}
    for cached, power in ((True, 2), (False, 3)):
        work = [step_work(tiny.config, length, cached).attention for length in range(1, 12)]
        generation = [sum(work[:number]) for number in range(1, 12)]
        leading = set(differences(generation, power))
        assert len(leading) == 1 and leading != {0}


def test_polynomials_are_not_exponential(tiny):
    """B1: doubled again and again, a step without a cache grows by less than four times each time."""
    work = [step_work(tiny.config, 1 << power, cached=False).total for power in range(4, 24)]
    ratios = [after / before for before, after in zip(work, work[1:])]
    assert ratios == sorted(ratios) and 1.9 < ratios[0] < ratios[-1] < 4 and ratios[-1] > 3.99


def test_no_step_without_a_token(tiny):
    with pytest.raises(ValueError, match="at least 1 token"):
        step_work(tiny.config, 0, cached=True)


def test_cat_copies_all_and_a_slot_takes_one():
    """B2: n appends by torch.cat write n (n + 1) / 2 tokens, into new memory each time; in place, n into the same."""
    grown, written, moved = torch.empty(2, 0, 8), 0, 0
    for _ in range(64):
        before, grown = grown, torch.cat([grown, torch.ones(2, 1, 8)], dim=1)
        moved += before.data_ptr() != grown.data_ptr()
        written += grown.shape[1]
    assert (written, moved) == (64 * 65 // 2, 64)

    storage = storage_of(num_blocks=16)
    address = storage.data.data_ptr()
    for slot in range(64):
        before = storage.keys(0).clone()
        storage.write(0, torch.tensor([slot]), torch.ones(1, 2, 8), torch.ones(1, 2, 8))
        assert int((storage.keys(0) != before).sum()) == 2 * 8, "one key for each KV head, and nothing else"
    assert storage.data.data_ptr() == address


def test_views_and_not_clones():
    """B11: keys, values and single blocks are in the pool's own memory; a list of blocks is a copy."""
    storage = storage_of()
    keys = storage.keys(layer=1)
    assert keys.untyped_storage().data_ptr() == storage.data.untyped_storage().data_ptr()
    assert keys[3].data_ptr() - storage.data.data_ptr() == (1 * 8 + 3) * 2 * 4 * 8 * 4
    keys[3].fill_(7)
    keys[[5, 6]].fill_(7)
    assert [block for block in range(8) if storage.data[0, 1, block].any()] == [3]
    keys[[5, 6]] = 7
    assert [block for block in range(8) if storage.data[0, 1, block].any()] == [3, 5, 6]
    assert not storage.data[0, 0].any() and not storage.data[1].any(), "layers, keys and values are apart"


def test_the_articles_classes_leak():
    """B11: reading counts, two ways back, one owner, no layers, and nothing returned."""
    pool = BlockPool(num_blocks=8, block_size=4, num_heads=2, head_dim=8)
    manager = SequenceManager(pool)
    assert manager.add_sequence("A", num_tokens=10) is None
    blocks = manager.sequences["A"]
    manager.write_kv("A", 5, torch.ones(2, 8), torch.full((2, 8), 2.0))
    views = manager.get_kv_cache("A")
    assert views[1][0].data_ptr() == pool.keys[blocks[1].block_id].data_ptr() and views[1][1][1].eq(2).all()
    assert [block.ref_count for block in blocks] == [2, 3, 2]
    manager.remove_sequence("A")
    assert len(pool.free) == 5, "none came back"
    pool.free_owner("A")
    assert len(pool.free) == 8 and [block.ref_count for block in blocks] == [1, 2, 1], "free, and in use"
    assert pool.keys.dim() == 4

    manager.add_sequence("B", num_tokens=4)
    [block] = manager.sequences["B"]
    manager.remove_sequence("B")
    assert block in pool.free and block.ref_count == 0, "without a look, it works"


def test_three_lines(tiny):
    """B12: the library's own generate gives the same tokens on a paged cache."""
    inputs = {"input_ids": torch.tensor([[5, 3, 8, 13, 21]]), "attention_mask": torch.ones(1, 5, dtype=torch.int64)}
    options = {"max_new_tokens": 12, "do_sample": False}
    own = tiny.generate(**inputs, **options)
    paged = PagedModel(tiny, num_blocks=16, block_size=4)
    with paged.cache_for(**inputs) as cache:
        ours = tiny.generate(**inputs, **options, cache=cache)
    assert own.shape == (1, 17) and torch.equal(own, ours)


def test_bandwidth_is_of_the_bytes_that_have_to_be_read(tiny):
    """B15: achieved bandwidth = keys and values of the context, once, by the time; against a copy's."""
    times, num_bytes = attention_seconds(tiny, batch_size=2, num_tokens=20, num_layers=2, rounds=1)
    assert num_bytes == 2 * 20 * 2 * 2 * 8 * 4  # sequences, tokens, keys and values, KV heads, head_dim, bytes
    assert {"in one piece", "gather", "blockwise"} <= set(times) and all(0 < seconds < 60 for seconds in times.values())
    assert 0 < copy_bandwidth(torch.device("cpu"), 1 << 20) < math.inf


def test_int8_is_1_94_times_smaller():
    """S20: scales count; tokens per block stay, so do tables."""
    shape = {"num_layers": 30, "num_kv_heads": 3, "head_dim": 64, "num_blocks": 2, "device": "cpu"}
    fp16, int8 = KVStorage(**shape), Int8KVStorage(**shape)
    assert fp16.token_bytes == 22.5 * 1024 and round(fp16.token_bytes / int8.token_bytes, 2) == 1.94
    assert fp16.token_bytes / int8.token_bytes == pytest.approx(2 / (1 + 2 / 64))
    assert sum(tensor.numel() * tensor.element_size() for tensor in int8.tensors()) == int8.num_bytes
    assert fp16.block_size == int8.block_size and fp16.num_blocks == int8.num_blocks
    large = MODELS["Llama-2-7B"]
    before, after = kv_bytes_per_token(large), kv_bytes_per_token(large, "int8", scales=True)
    assert after == 260 * 1024 and round(before / after, 2) == 1.97


@pytest.mark.parametrize("num_tokens", [4, 5, 9])
def test_a_padded_table_keeps_address_and_shape(num_tokens):
    """X7: and gives the same result, whatever the padding names."""
    storage = storage_of(num_layers=1)
    vectors = made_up_vectors(range(num_tokens), 2, 8)
    batch = PagedBatch.build([[6, 1, 3][:-(-num_tokens // 4)]], [num_tokens], [num_tokens], storage)
    storage.write(0, batch.slots, vectors, vectors)
    batch = PagedBatch.build([[6, 1, 3][:-(-num_tokens // 4)]], [num_tokens], [1], storage)
    query = made_up_vectors([1], 4, 8)
    expected = gather.attend(query, storage, 0, batch, 0.5)
    padded = torch.zeros(1, 6, dtype=torch.int32)
    address = padded.data_ptr()
    for filler in (0, 7):
        padded.fill_(filler)
        padded[:, :batch.block_tables.shape[1]] = batch.block_tables
        assert torch.equal(gather.attend(query, storage, 0, replace(batch, block_tables=padded), 0.5), expected)
    assert padded.data_ptr() == address


def test_cascade_reads_the_prefix_once():
    """X10: 12.8 times fewer bytes for a hundred requests, and the same result."""
    read = cascade.bytes_read([1100] * 100, shared_tokens=1024, storage=storage_of())
    assert read.one_by_one / read.cascade == 100 * 1100 / (1024 + 100 * 76) and round(100 * 1100 / 8624, 1) == 12.8
    storage = storage_of(num_layers=1)
    vectors = made_up_vectors(range(20), 2, 8)
    storage.write(0, torch.arange(20), vectors, vectors)
    batch = PagedBatch.build([[0, 1, 2], [0, 1, 3], [0, 1, 4]], [9, 12, 10], [1, 1, 1], storage)
    query = made_up_vectors([1, 2, 3], 4, 8)
    together = cascade.attend(query, storage, 0, batch, 0.5, num_shared_blocks=2)
    assert torch.allclose(together, gather.attend(query, storage, 0, batch, 0.5), atol=1e-6)
    assert together.abs().max() > 0.1


@pytest.mark.parametrize("old, broken", [(0.0, False), (1000.0, False), (torch.nan, True), (torch.inf, True)])
def test_nought_times_nan(old, broken):
    """What breaks: a kernel that reads whole blocks and weighs the rest with 0, until the rest is not finite."""
    storage = storage_of(num_layers=1)
    storage.values(0)[1, :, 2:] = old
    vectors = made_up_vectors(range(6), 2, 8)
    storage.write(0, torch.tensor([8, 9, 10, 11, 4, 5]), vectors, vectors)
    batch = PagedBatch.build([[2, 1]], [6], [1], storage)
    query = made_up_vectors([1], 4, 8)
    cut = gather.attend(query, storage, 0, batch, 0.5)[0]
    whole = attend_whole_blocks(query[0], storage, 0, [2, 1], 6, 0.5)
    assert cut.isfinite().all()
    assert bool(whole.isnan().all()) == broken and (broken or torch.allclose(whole, cut, atol=1e-6))


def test_equal_tokens_have_equal_vectors():
    vectors = made_up_vectors([4, 9, 4], num_heads=2, head_dim=8)
    assert vectors.shape == (3, 2, 8) and vectors.abs().max() <= 1
    assert torch.equal(vectors[0], vectors[2]) and not torch.equal(vectors[0], vectors[1])


def test_other_tokens_have_other_vectors_and_none_is_a_flat_stripe():
    for heads in (2, 4):
        vectors = [head for token in made_up_vectors(range(64), heads, head_dim=8).tolist() for head in token]
        assert len(set(map(tuple, vectors))) == 64 * heads
        assert all(len(set(vector)) >= 3 for vector in vectors)


def test_keys_carry_most_of_the_error_where_each_has_a_large_number():
    """S20: one scale for a vector is coarse where the vector has one large number, and channels would not be."""
    torch.manual_seed(1)
    usual, with_outlier = torch.randn(200, 64), torch.randn(200, 64)
    with_outlier[:, 7] += 20
    coarse, fine = ((dequantise(*quantise(keys), torch.float32) - keys)[:, 8:].pow(2).mean() for keys in
                    (with_outlier, usual))
    assert coarse > 10 * fine
