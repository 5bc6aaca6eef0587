"""A small random model for tests: grouped-query attention, fp32, the same weights every time."""

import os
from contextlib import contextmanager
from functools import cache

# Nothing here is to look for a network.
os.environ.setdefault("HF_HUB_OFFLINE", "1")

VOCABULARY = 97
EOS = 3


@cache
def tiny_model(seed: int = 0, max_positions: int = 256):
    """Three layers, 6 heads of 8 numbers, 2 KV heads. The same object for the same arguments: do not change it."""
    from transformers import LlamaConfig
    return random_model(LlamaConfig(
        vocab_size=VOCABULARY, hidden_size=48, intermediate_size=64, num_hidden_layers=3, num_attention_heads=6,
        num_key_value_heads=2, head_dim=8, max_position_embeddings=max_positions, bos_token_id=1, eos_token_id=EOS,
        pad_token_id=0), seed)


def random_model(config, seed: int = 0):
    """Of any architecture. Its weights are large enough for the tokens to depend on what came before."""
    import torch
    from transformers import AutoModelForCausalLM
    before = torch.get_rng_state()
    try:
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.dim() == 2:
                    parameter.normal_(0, 0.25)
    finally:
        torch.set_rng_state(before)
    model.generation_config.eos_token_id = EOS
    model.generation_config.pad_token_id = 0
    return model


def random_prompts(lengths, seed: int = 0) -> list[list[int]]:
    """Token ids that are neither padding nor the end of a text."""
    import random
    numbers = random.Random(seed)
    return [[numbers.randrange(4, VOCABULARY) for _ in range(length)] for length in lengths]


@contextmanager
def one_thread():
    """Tensors this small are computed faster by one thread than by several that wait for each other."""
    import torch
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def shuffle_pool(paged, seed: int = 0) -> None:
    """Hand out and give back blocks in an odd order, so that tables come out neither contiguous nor ascending."""
    import random
    numbers = random.Random(seed)
    pool = paged.manager.pool
    blocks = pool.allocate(pool.num_blocks)
    numbers.shuffle(blocks)
    pool.release(blocks)
