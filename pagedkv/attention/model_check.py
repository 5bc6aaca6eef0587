"""Which models can run on a paged cache, and what is wrong with the others.

Paged attention here is plain causal attention of every token to all tokens before it, with keys and values of the same
shape in every layer. A model that does something else in its attention would run, and give wrong tokens; so it is
refused with the reason. What a configuration does not tell comes out when the model is tried (`trial`).
"""

from pagedkv.storage.kv_storage import KVStorage


def check_model(model) -> None:
    """Raises TypeError for what is no causal language model of transformers, ValueError, with the reason, for one whose
    attention is another."""
    config = getattr(model, "config", None)
    if config is None or not hasattr(model, "generate"):
        raise TypeError(f"a causal language model of transformers is needed, such as AutoModelForCausalLM loads, got "
                        f"{type(model).__name__}")
    reason = _reason(model, config)
    if reason:
        raise ValueError(f"{type(model).__name__} cannot run on a paged cache: {reason}")


def _reason(model, config) -> str | None:
    def has(name: str) -> bool:
        return getattr(config, name, None) not in (None, 0, False)

    layer_types = getattr(config, "layer_types", None) or ()
    others = sorted(set(layer_types) - {"full_attention"})
    if getattr(config, "is_encoder_decoder", False):
        return "it has an encoder, whose keys and values do not grow with the text; only decoders work"
    if has("kv_lora_rank"):
        return "it has multi-head latent attention (MLA): it keeps one latent vector for a token, not keys and values"
    if others:
        return f"not all of its layers keep every token, it has {', '.join(others)}; all have to be full_attention"
    if not layer_types and (has("sliding_window") or has("attention_chunk_size")):
        window = getattr(config, "sliding_window", None) or config.attention_chunk_size
        return f"its layers see only a window of {window} tokens; all have to see every token before"
    if has("attn_logit_softcapping"):
        return "it caps the scores of its attention (attn_logit_softcapping), which paged attention does not do"
    if has("num_kv_shared_layers"):
        return "some of its layers use the keys and values of others (num_kv_shared_layers)"
    if any(name.endswith(".sinks") for name, _ in model.named_parameters()):
        return "it has attention sinks, which paged attention does not know"
    if not getattr(config, "is_causal", True):
        return "its attention is not causal"
    if _is_bidirectional(model, config):
        return ("it is an encoder, in which each token sees those after it, too (is_decoder is False). To load it as a "
                "decoder, set is_decoder=True in its configuration")
    for name in ("num_hidden_layers", "num_attention_heads", "hidden_size"):
        if not has(name):
            return f"its configuration does not say {name}"
    if not getattr(model, "_supports_attention_backend", False):
        return "it does not take its attention function from transformers' AttentionInterface"
    if len({parameter.device for parameter in model.parameters()}) > 1:
        return "its weights lie on several devices; the pool lies on one"
    return None


def _is_bidirectional(model, config) -> bool:
    """Encoders that can be loaded as decoders say so in their layers: there an is_decoder stands beside the attention.
    In other models the configuration's is_decoder means nothing."""
    return not getattr(config, "is_decoder", True) and any(getattr(module, "is_decoder", True) is False
                                                           for module in model.modules())


def check_storage(model, storage: KVStorage) -> None:
    """Raises ValueError if the keys and values of this model do not fit the storage."""
    config = model.config
    heads = config.num_attention_heads
    for what, needed, has in (
            ("layers", config.num_hidden_layers, storage.num_layers),
            ("KV heads", getattr(config, "num_key_value_heads", None) or heads, storage.num_kv_heads),
            ("numbers in a head (head_dim)", getattr(config, "head_dim", None) or config.hidden_size // heads,
             storage.head_dim)):
        if needed != has:
            raise ValueError(f"the model has {needed} {what}, the storage {has}: make it with "
                             "KVStorage.for_model(model, num_blocks)")
    if model.dtype != storage.dtype:
        raise ValueError(f"the model computes in {model.dtype}, and the storage takes {storage.dtype}: leave the dtype "
                         f"out, or convert the model with model.to({storage.dtype})")
    if model.device != storage.device:
        raise ValueError(f"the model is on {model.device}, the storage on {storage.device}: move the model with "
                         f"model.to({str(storage.device)!r})")
