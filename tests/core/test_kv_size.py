"""N6, S1, S8, S20, X3, X4: how many bytes a token takes."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pagedkv.core.kv_size import (DTYPE_BYTES, HYBRID_MODELS, MODELS, LayerGroup, ModelShape, kv_block_bytes,
                                  kv_bytes_per_token, kv_bytes_per_token_per_rank, layer_bytes_per_token,
                                  sequence_bytes, tokens_that_fit)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
LLAMA_7B, LLAMA_70B, DEEPSEEK = MODELS["Llama-2-7B"], MODELS["Llama-2-70B"], MODELS["DeepSeek-V3"]
MISTRAL, GEMMA, GPT_OSS, JAMBA = (HYBRID_MODELS[name] for name in ("Mistral-7B-v0.1", "Gemma-3-12B", "gpt-oss-20b",
                                                                   "Jamba-v0.1"))


@pytest.mark.parametrize("name, kib, attention", [
    ("Llama-2-7B", 512, "MHA"), ("Llama-2-13B", 800, "MHA"), ("Llama-2-70B", 320, "GQA"), ("Llama-3-8B", 128, "GQA"),
    ("Llama-3-70B", 320, "GQA"), ("Qwen2.5-7B", 56, "GQA"), ("Qwen2.5-72B", 320, "GQA"), ("Qwen3-8B", 144, "GQA"),
    ("DeepSeek-V3", 68.625, "MLA"), ("SmolLM2-135M", 22.5, "GQA")])
def test_bytes_per_token_in_fp16(name, kib, attention):
    assert kv_bytes_per_token(MODELS[name]) == kib * KIB
    assert MODELS[name].attention == attention


def test_every_model_is_in_the_table_above():
    assert len(MODELS) == 10 and all(name == shape.name for name, shape in (MODELS | HYBRID_MODELS).items())


def test_the_articles_figures():
    """S1: 7B has 512 KiB per token and 2 GiB at 4096 tokens, 13B 800 KiB; 32 × 2000 tokens are 31.25 GiB, not 64 GB."""
    hidden = LLAMA_7B.num_heads * LLAMA_7B.head_dim
    assert kv_bytes_per_token(LLAMA_7B) == 2 * LLAMA_7B.num_layers * hidden * 2 == 512 * KIB
    assert sequence_bytes(LLAMA_7B, 4096) == 2 * GIB
    assert kv_bytes_per_token(MODELS["Llama-2-13B"]) == 800 * KIB
    assert 32 * sequence_bytes(LLAMA_7B, 2000) == 31.25 * GIB
    assert 32 * sequence_bytes(LLAMA_7B, 4096) == 64 * GIB
    # with the hidden size in place of the KV heads, a model with GQA comes out too large
    llama_3 = MODELS["Llama-3-8B"]
    assert 2 * llama_3.num_layers * llama_3.num_heads * llama_3.head_dim * 2 == 4 * kv_bytes_per_token(llama_3)


def test_70b():
    """N6: 1024 tokens of Llama-2-70B are 320 MiB; "32 layers × 128 dims" is one head of a smaller model, 16 MiB."""
    assert sequence_bytes(LLAMA_70B, 1024) == 320 * MIB
    one_head = ModelShape("as claimed", 32, 1, 1, 128)
    assert sequence_bytes(one_head, 1024) == 16 * MIB
    assert 100 * sequence_bytes(one_head, 2048) == 3.125 * GIB
    assert 100 * sequence_bytes(LLAMA_70B, 2048) == 62.5 * GIB


def test_blocks():
    """S8: 16 tokens of 7B are 8 MiB, so that a physical block of 2 to 16 MiB has 4 to 32 tokens."""
    assert kv_block_bytes(LLAMA_7B, 16) == 8 * MIB
    assert (kv_block_bytes(LLAMA_7B, 4), kv_block_bytes(LLAMA_7B, 32)) == (2 * MIB, 16 * MIB)
    assert kv_block_bytes(MODELS["Qwen2.5-7B"], 16) == 896 * KIB, "the bytes are no measure for other models"


def test_widths_and_scales():
    """S20: int8 is half of fp16, and 260 KiB for 7B with a scale for each key and value of a head, not 256."""
    sizes = {dtype: kv_bytes_per_token(LLAMA_7B, dtype) // KIB for dtype in DTYPE_BYTES}
    assert sizes == {"fp32": 1024, "fp16": 512, "bf16": 512, "fp8": 256, "int8": 256}
    for dtype in ("int8", "fp8"):
        assert kv_bytes_per_token(LLAMA_7B, dtype, scales=True) == 260 * KIB
        for name, ratio in (("Llama-2-7B", 2 / (1 + 2 / 128)), ("SmolLM2-135M", 2 / (1 + 2 / 64))):
            shape = MODELS[name]
            assert kv_bytes_per_token(shape) / kv_bytes_per_token(shape, dtype, True) == pytest.approx(ratio)
    assert kv_bytes_per_token(DEEPSEEK, "int8", scales=True) == 61 * (512 + 64 + 2)
    with pytest.raises(ValueError, match="fp16 needs no scales"):
        kv_bytes_per_token(LLAMA_7B, "fp16", scales=True)
    with pytest.raises(ValueError, match="'float16' is not a known dtype: take one of fp32, fp16, bf16, fp8, int8"):
        kv_bytes_per_token(LLAMA_7B, "float16")


def test_mla_keeps_neither_keys_nor_values():
    as_if_not = replace(DEEPSEEK, kv_lora_rank=0, rope_dim=0)
    assert as_if_not.attention == "MHA" and kv_bytes_per_token(as_if_not) / kv_bytes_per_token(DEEPSEEK) > 56


@pytest.mark.parametrize("ranks, kib", [(1, 320), (2, 160), (4, 80), (8, 40), (16, 40), (64, 40)])
def test_tensor_parallel_splits_then_repeats(ranks, kib):
    """X4: the 8 KV heads of Llama-2-70B go to up to 8 ranks; 16 keep each head twice."""
    assert kv_bytes_per_token_per_rank(LLAMA_70B, ranks) == kib * KIB
    assert ranks * kv_bytes_per_token_per_rank(LLAMA_70B, ranks) == max(1, ranks // 8) * kv_bytes_per_token(LLAMA_70B)


def test_tensor_parallel_of_a_latent_vector():
    """X4: MLA replicates. Eight GPUs hold no more tokens than one."""
    for ranks in (1, 2, 8, 128):
        assert kv_bytes_per_token_per_rank(DEEPSEEK, ranks) == kv_bytes_per_token(DEEPSEEK)


def test_tensor_parallel_of_a_hybrid():
    whole, half = sequence_bytes(JAMBA, 5000), sequence_bytes(JAMBA.on_rank(2), 5000)
    assert half * 2 == whole


def test_tensor_parallel_that_does_not_divide():
    """X4: refused."""
    with pytest.raises(ValueError, match="Llama-2-70B has 64 query heads, which 3 ranks cannot share evenly"):
        kv_bytes_per_token_per_rank(LLAMA_70B, 3)
    twelve = ModelShape("m", 1, 24, 6, 64)
    with pytest.raises(ValueError, match="6 KV heads, which 4 ranks can neither share nor repeat evenly"):
        kv_bytes_per_token_per_rank(twelve, 4)
    assert kv_bytes_per_token_per_rank(twelve, 12) == kv_bytes_per_token(twelve) // 6
    with pytest.raises(ValueError, match="tensor_parallel is at least 1"):
        kv_bytes_per_token_per_rank(LLAMA_70B, 0)
    with pytest.raises(ValueError, match="states of 3 numbers"):
        ModelShape("m", 1, 8, 8, 64, groups=(LayerGroup(1, state_elements=3),)).on_rank(2)


def test_windows_stop_growing():
    """X3: Mistral 7B v0.1 keeps 128 KiB for each of the last 4096 tokens, and then no more."""
    assert sequence_bytes(MISTRAL, 1000) == 1000 * 128 * KIB
    assert sequence_bytes(MISTRAL, 4096) == sequence_bytes(MISTRAL, 4097) == sequence_bytes(MISTRAL, 10**6) == GIB // 2
    assert sequence_bytes(MISTRAL.as_full_attention(), 32_768) == 4 * GIB, "what the formula says"


def test_some_layers_slide():
    """X3: at 128K tokens the formula says 48 GiB for Gemma 3 12B, and it keeps 8.3: 8 layers of 48 keep all."""
    tokens = 128 * KIB
    layer_token = 2 * 8 * 256 * 2
    assert layer_bytes_per_token(GEMMA) == layer_token == 8 * KIB
    assert sequence_bytes(GEMMA.as_full_attention(), tokens) == tokens * 48 * layer_token == 48 * GIB
    assert sequence_bytes(GEMMA, tokens) == (8 * tokens + 40 * 1024) * layer_token
    assert sequence_bytes(GEMMA, tokens) / GIB == pytest.approx(8.31, abs=0.01)
    assert sequence_bytes(GEMMA, 1024) == sequence_bytes(GEMMA.as_full_attention(), 1024), "right while it is short"
    assert sequence_bytes(GPT_OSS, 1128) - sequence_bytes(GPT_OSS, 128) == 1000 * 12 * 2 * KIB


def test_states_do_not_grow():
    """X3: Jamba's 28 Mamba layers keep the same for 1 token as for 256K, where its paper gives 4 GB for the rest."""
    states = 28 * 8192 * 19 * 2
    assert sequence_bytes(JAMBA, 0) == states
    assert sequence_bytes(JAMBA, 256 * KIB) == states + 4 * GIB
    assert sequence_bytes(JAMBA.as_full_attention(), 256 * KIB) == 32 * GIB
    assert sequence_bytes(JAMBA, 1) > 60 * sequence_bytes(JAMBA.as_full_attention(), 1), "short sequences cost more"
    assert sequence_bytes(JAMBA, 0, "int8", state_dtype="fp32") == 2 * states


@pytest.mark.parametrize("shape", HYBRID_MODELS.values(), ids=str)
def test_a_hybrid_has_no_bytes_per_token(shape):
    """X3: twice the tokens do not take twice the bytes, so no one number is right."""
    assert sequence_bytes(shape, 20_000) < 2 * sequence_bytes(shape, 10_000)
    with pytest.raises(ValueError, match=f"{shape.name} has no bytes per token"):
        kv_bytes_per_token(shape)
    with pytest.raises(ValueError, match="no bytes per token"):
        kv_block_bytes(shape)


@settings(deadline=None)
@given(tokens=st.integers(0, 10_000), block=st.integers(1, 64),
       shape=st.sampled_from([*MODELS.values(), *HYBRID_MODELS.values()]), dtype=st.sampled_from([*DTYPE_BYTES]))
def test_sequences_in_whole_blocks(tokens, block, shape, dtype):
    exact, rounded = sequence_bytes(shape, tokens, dtype), sequence_bytes(shape, tokens, dtype, block_size=block)
    assert exact <= rounded <= exact + (block - 1) * shape.num_layers * layer_bytes_per_token(shape, dtype)
    one_more = sequence_bytes(shape, tokens + 1, dtype) - exact
    assert 0 <= one_more <= kv_bytes_per_token(shape.as_full_attention(), dtype)
    if not shape.is_hybrid:
        assert exact == tokens * kv_bytes_per_token(shape, dtype)
        assert rounded % kv_block_bytes(shape, block, dtype) == 0


@settings(deadline=None)
@given(memory=st.integers(0, 1 << 36), block=st.sampled_from([1, 16, 48]),
       shape=st.sampled_from([*MODELS.values(), GEMMA, GPT_OSS, JAMBA]))
def test_tokens_that_fit(memory, block, shape):
    tokens = tokens_that_fit(shape, memory, block_size=block)
    assert tokens % block == 0
    assert sequence_bytes(shape, tokens + block, block_size=block) > memory
    assert sequence_bytes(shape, tokens, block_size=block) <= memory or tokens == 0
    if not shape.is_hybrid:
        assert tokens == memory // kv_block_bytes(shape, block) * block


def test_any_number_of_tokens_fits():
    assert tokens_that_fit(MISTRAL, GIB // 2 - 1) == 4095
    with pytest.raises(ValueError, match="any number of tokens fits: no layer of Mistral-7B-v0.1 keeps more than its"):
        tokens_that_fit(MISTRAL, GIB // 2)


@pytest.mark.parametrize("arguments, message", [
    (("m", 0, 8, 8, 64), "num_layers is at least 1"), (("m", 1, 8, 3, 64), "8 query heads cannot share 3 KV heads"),
    (("m", 1, 8, 8, 64, 0, 64), "rope_dim belongs to MLA"), (("m", 1, 8, 8, -1), "head_dim cannot be negative"),
    (("m", 3, 8, 8, 64, 0, 0, (LayerGroup(2),)), "the groups have 2 layers together, and the model 3")])
def test_shapes_that_no_model_has(arguments, message):
    with pytest.raises(ValueError, match=message):
        ModelShape(*arguments)


@pytest.mark.parametrize("arguments, message", [((0,), "at least 1 layer"), ((1, 4, 4), "not both"),
                                                ((1, -1), "cannot be negative")])
def test_groups_that_no_model_has(arguments, message):
    with pytest.raises(ValueError, match=message):
        LayerGroup(*arguments)


def test_arguments():
    with pytest.raises(TypeError, match="num_layers is an integer"):
        ModelShape("m", 1.5, 8, 8, 64)
    with pytest.raises(TypeError, match="num_tokens is an integer"):
        sequence_bytes(LLAMA_7B, 10.0)
    with pytest.raises(ValueError, match="block_size is at least 1"):
        kv_block_bytes(LLAMA_7B, 0)
    assert ModelShape("m", 1, 8, 1, 64).attention == "MQA"
