"""`model_or_noise`: the real model of `pagedkv.model`, or, where it cannot be had, one of the same shape that knows nothing.

The second one has random weights and a tokenizer that takes each byte of a text for a token. All that a notebook measures
or compares works with it too; what it writes is noise.
"""

from typing import NamedTuple

from pagedkv.model import ModelNotAvailable, load_model

# SmolLM2-135M-Instruct. With the usual initializer_range, 0.02, such a model repeats one token for ever.
_SHAPE = {"vocab_size": 49_152, "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30,
          "num_attention_heads": 9, "num_key_value_heads": 3, "head_dim": 64, "max_position_embeddings": 8192,
          "tie_word_embeddings": True, "initializer_range": 0.05}


class Chosen(NamedTuple):
    """model, tokenizer   of transformers
    missing            why it is not the real one, and what to type; empty if it is
    """

    model: object
    tokenizer: object
    missing: str

    @property
    def name(self) -> str:
        return "random weights" if self.missing else "SmolLM2-135M-Instruct"

    def __repr__(self) -> str:
        weights = sum(parameter.numel() for parameter in self.model.parameters())
        line = f"{self.name}: {weights / 1e6:.0f} million weights in {self.model.dtype} on {self.model.device}"
        if self.missing:
            return f"{line}; what it writes is noise. The real model is not here:\n{self.missing}"
        return line


def model_or_noise(**options) -> Chosen:
    """options: of `pagedkv.model.load_model`; dtype and device hold for the other one too."""
    try:
        return Chosen(*load_model(**options), "")
    except ModelNotAvailable as error:
        return Chosen(*noise(options.get("dtype"), options.get("device")), str(error))


def noise(dtype=None, device=None, **shape):
    """(model, tokenizer) with random weights, always the same. shape: of the model, where it is to be another than that of
    SmolLM2-135M."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    with torch.random.fork_rng(devices=[]):  # the notebook's own random numbers go on as if nothing had been
        torch.manual_seed(6)
        model = LlamaForCausalLM(LlamaConfig(**_SHAPE | shape)).eval().requires_grad_(False)
    model.generation_config.eos_token_id = None  # it would end a text by chance
    return model.to(device, dtype or torch.float32), _byte_tokenizer(model.config.vocab_size)


def _byte_tokenizer(vocab_size: int):
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    names = sorted(pre_tokenizers.ByteLevel.alphabet())
    names += [f"<{number}>" for number in range(len(names), vocab_size)]
    tokenizer = Tokenizer(models.BPE({name: number for number, name in enumerate(names)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token=names[-1], padding_side="left")
