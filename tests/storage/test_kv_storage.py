"""The tensor that holds keys and values: where they go, and what is refused."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedkv import KVCacheManager, NotABlock
from pagedkv.core.block_table import locate
from pagedkv.core.kv_size import MODELS, kv_bytes_per_token
from pagedkv.storage.int8_storage import Int8KVStorage
from pagedkv.storage.kv_storage import KVStorage

KINDS = [KVStorage, Int8KVStorage]


def small(kind=KVStorage, num_blocks=6, dtype=torch.float32, **settings):
    return kind(num_layers=2, num_kv_heads=3, head_dim=8, num_blocks=num_blocks, block_size=4, dtype=dtype, device="cpu",
                **settings)


def tokens(n, dtype=torch.float32, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return tuple(torch.randn(n, 3, 8, generator=generator).to(dtype) for _ in "kv")


def slots_of(table, positions, block_size=4):
    return torch.tensor([locate(table, position, block_size).slot for position in positions])


def contents(storage):
    return [tensor.clone() for tensor in storage.tensors()]


def unchanged(storage, before):
    return all(torch.equal(now, then) for now, then in zip(storage.tensors(), before, strict=True))


def test_the_layout_and_its_bytes():
    shape = MODELS["Llama-3-8B"]
    storage = KVStorage(shape.num_layers, shape.num_kv_heads, shape.head_dim, num_blocks=2, device="cpu")
    assert storage.data.shape == (2, 32, 2, 8, 16, 128)
    assert storage.token_bytes == kv_bytes_per_token(shape) == 128 * 1024
    assert storage.num_bytes == storage.data.nbytes == 2 * 16 * storage.token_bytes


def test_keys_and_values_are_views_not_clones():
    """B11."""
    storage = small()
    view = storage.keys(1)
    view[4, 2, 3] = 7
    assert torch.equal(storage.data[0, 1, 4, 2, 3], torch.full((8,), 7.0))
    assert storage.values(1).data_ptr() == storage.data[1, 1].data_ptr()
    assert storage.keys(0).shape == (6, 3, 4, 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_token_is_written_through_its_table_and_gathered_again(dtype):
    storage = small(dtype=dtype)
    table, (keys, values) = [5, 0, 3], tokens(10, dtype)
    storage.write(1, slots_of(table, range(10)), keys, values)
    for position in range(10):
        place = locate(table, position, 4)
        assert torch.equal(storage.keys(1)[place.physical_block, :, place.offset], keys[position])
        assert torch.equal(storage.values(1)[place.physical_block, :, place.offset], values[position])
    gathered_keys, gathered_values = storage.gather(1, table, 10)
    assert torch.equal(gathered_keys, keys.transpose(0, 1)) and torch.equal(gathered_values, values.transpose(0, 1))
    assert not storage.keys(0).any(), "another layer was written to"
    assert not storage.keys(1)[[1, 2, 4]].any(), "a block of nobody was written to"


@pytest.mark.parametrize("kind", KINDS)
def test_slots_prepared_once_write_the_same_in_every_layer(kind):
    one, other, (keys, values) = small(kind), small(kind), tokens(5)
    slots = slots_of([4, 1], range(5))
    rows = one.rows(slots)
    for layer in (0, 1):
        one.write(layer, rows, keys, values)
        other.write(layer, slots, keys, values)
    assert unchanged(one, contents(other))


def test_what_a_model_gives_is_written_without_being_contiguous():
    storage, (keys, values) = small(), tokens(6)
    as_model = keys.transpose(0, 1).contiguous().transpose(0, 1)
    assert not as_model.is_contiguous()
    storage.write(0, torch.arange(6), as_model, values)
    assert torch.equal(storage.gather(0, [0, 1], 6)[0], keys.transpose(0, 1))


def test_what_is_written_is_no_part_of_a_gradient():
    storage, (keys, values) = small(), tokens(2)
    storage.write(0, torch.arange(2), keys.requires_grad_(), values)
    assert not storage.data.requires_grad
    storage.keys(0)[0] = 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_pool_made_in_inference_mode_can_be_written_outside(kind):
    with torch.inference_mode():
        storage = small(kind)
    storage.write(0, torch.arange(2), *tokens(2))
    assert storage.keys(0).any()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("change, error, words", [
    (lambda a: a.update(keys=a["keys"][:1]), ValueError, r"keys are \[tokens, KV heads, head_dim\] = \[2, 3, 8\], got \[1, 3, 8\]"),
    (lambda a: a.update(values=a["values"].transpose(0, 1)), ValueError, r"values are .* got \[3, 2, 8\]"),
    (lambda a: a.update(keys=a["keys"].double()), ValueError, r"torch.float64, the pool takes torch.float32.*\.to\(torch.float32\)"),
    (lambda a: a.update(values=a["values"].to("meta")), ValueError, "values are on meta, the pool on cpu"),
    (lambda a: a.update(slots=torch.tensor([0, 24])), IndexError, "slot 24 is outside .* slots 0 to 23"),
    (lambda a: a.update(slots=torch.tensor([-1, 3])), IndexError, "slot -1 is outside"),
    (lambda a: a.update(slots=torch.tensor([0.0, 1.0])), TypeError, "int64"),
    (lambda a: a.update(slots=[3, 4]), TypeError, r"such as torch.tensor\(\[3, 4\]\), got \[3, 4\]"),
    (lambda a: a.update(layer=2), IndexError, "no layer 2: they go from 0 to 1"),
    (lambda a: a.update(layer=-1), IndexError, "no layer -1"),
])
def test_a_write_that_does_not_fit_is_refused_and_writes_nothing(kind, change, error, words):
    storage, (keys, values) = small(kind), tokens(2)
    arguments = {"layer": 0, "slots": torch.tensor([3, 4]), "keys": keys, "values": values}
    change(arguments)
    before = contents(storage)
    with pytest.raises(error, match=words):
        storage.write(**arguments)
    assert unchanged(storage, before)


def test_gather_refuses_what_is_not_there():
    storage = small()
    with pytest.raises(IndexError, match="9 tokens do not fit in a table of 2 blocks of 4"):
        storage.gather(0, [0, 1], 9)
    with pytest.raises(NotABlock, match="6 is not a block"):
        storage.gather(0, [0, 6], 5)
    with pytest.raises(NotABlock, match="-1 is not a block"):
        storage.gather(0, [0, -1], 5)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=60, deadline=None)
@given(pairs=st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=12))
def test_blocks_are_copied_one_after_the_other(kind, pairs):
    """Also where a target is a source later on, or is written twice."""
    storage = small(kind)
    for layer in (0, 1):
        storage.write(layer, torch.arange(24), *tokens(24, seed=layer))
    expected = contents(storage)
    for source, target in pairs:
        for tensor in expected:
            tensor[:, :, target] = tensor[:, :, source].clone()
    storage.copy_blocks(pairs)
    assert unchanged(storage, expected)


def test_many_copies_at_once_are_the_same():
    storage = KVStorage(1, 1, 2, num_blocks=1500, block_size=1, dtype=torch.float32, device="cpu")
    storage.data.copy_(torch.arange(2 * 1500 * 2).view(storage.data.shape))
    before = storage.data.clone()
    storage.copy_blocks([(block, block + 750) for block in range(750)])
    assert torch.equal(storage.data[:, :, 750:], before[:, :, :750]) and torch.equal(storage.data[:, :, :750], before[:, :, :750])


@pytest.mark.parametrize("kind", KINDS)
def test_a_copy_with_a_block_that_is_none_copies_nothing(kind):
    storage = small(kind)
    storage.write(0, torch.arange(8), *tokens(8))
    before = contents(storage)
    with pytest.raises(NotABlock):
        storage.copy_blocks([(0, 2), (1, 6)])
    with pytest.raises(NotABlock):
        storage.zero_blocks([0, -1])
    assert unchanged(storage, before)


@pytest.mark.parametrize("kind", KINDS)
def test_the_copies_of_a_fork_keep_both_texts_apart(kind):
    """The manager says what to copy, the storage copies: afterwards each sequence reads its own tokens."""
    manager, storage = KVCacheManager(num_blocks=6, block_size=4), small(kind)
    parent = manager.add_sequence(list(range(6)))
    storage.write(0, slots_of(parent.block_table, range(6)), *tokens(6))
    child = manager.fork(parent)
    for seq, seed in ((parent, 1), (child, 2)):
        manager.append_token(seq, seed)
        storage.copy_blocks(manager.take_block_copies())
        storage.write(0, slots_of(seq.block_table, [6]), *tokens(1, seed=seed))
    for seq, seed in ((parent, 1), (child, 2)):
        keys = storage.gather(0, seq.block_table, 7)[0]
        expected = torch.cat([tokens(6)[0], tokens(1, seed=seed)[0]]).transpose(0, 1)
        assert torch.allclose(keys, expected, atol=0.02 if kind is Int8KVStorage else 0)


@pytest.mark.parametrize("kind", KINDS)
def test_blocks_are_wiped_on_reuse_only_if_that_is_wanted(kind):
    for wanted in (False, True):
        storage = small(kind, zero_on_reuse=wanted)
        for layer in (0, 1):
            storage.write(layer, torch.arange(24), *tokens(24))
        storage.prepare([2, 4])
        for tensor in storage.tensors():
            assert bool(tensor[:, :, [2, 4]].any()) is not wanted
            assert tensor[:, :, [0, 1, 3, 5]].any(-1).float().mean() > 0.9, "another block was wiped"


def test_the_storage_of_a_model_has_its_shape():
    class Config:
        num_hidden_layers, num_attention_heads, hidden_size = 4, 6, 48

    class Model:
        config, dtype, device = Config(), torch.bfloat16, torch.device("cpu")

    storage = KVStorage.for_model(Model(), num_blocks=3)
    assert storage.data.shape == (2, 4, 3, 6, 16, 8) and storage.dtype == torch.bfloat16
    Config.num_key_value_heads, Config.head_dim = 2, 10
    assert KVStorage.for_model(Model(), 3, block_size=8, dtype=torch.float16).data.shape == (2, 4, 3, 2, 8, 10)
    assert KVStorage.for_model(Config(), 3, device="cpu").dtype == torch.float16


@pytest.mark.parametrize("settings, error, words", [
    ({"num_blocks": 0}, ValueError, "num_blocks is at least 1"),
    ({"num_layers": -1}, ValueError, "num_layers cannot be negative"),
    ({"head_dim": 2.5}, TypeError, "head_dim is an integer"),
    ({"block_size": 0}, ValueError, "block_size"),
    ({"dtype": torch.int8}, ValueError, "Int8KVStorage"),
    ({"dtype": "fp16"}, TypeError, "torch.float16"),
    ({"device": "gpu"}, ValueError, "no device 'gpu'"),
])
def test_a_size_or_type_that_is_none_is_refused(settings, error, words):
    sizes = {"num_layers": 1, "num_kv_heads": 1, "head_dim": 8, "num_blocks": 4, "device": "cpu"}
    with pytest.raises(error, match=words):
        KVStorage(**{**sizes, **settings})


def test_random_sequences_never_read_each_other():
    """Many tables over one pool, written in turns: each reads exactly what it wrote."""
    order, storage = random.Random(3), small(num_blocks=40)
    manager, written = KVCacheManager(num_blocks=40, block_size=4), {}
    for number in range(12):
        seq = manager.add_sequence([number] * order.randint(1, 9))
        written[seq] = tokens(seq.num_tokens, seed=number)
        storage.write(0, slots_of(seq.block_table, range(seq.num_tokens)), *written[seq])
        if number % 3 == 2:
            gone = order.choice(list(written))
            manager.free_sequence(gone)
            del written[gone]
    assert len(written) == 8
    for seq, (keys, values) in written.items():
        found = storage.gather(0, seq.block_table, seq.num_tokens)
        assert torch.equal(found[0], keys.transpose(0, 1)) and torch.equal(found[1], values.transpose(0, 1))
