"""What a model multiplies in one decode step, counted, with a KV cache and without.

*Projections* are the products with the weights; each token that is computed needs all of them. *Attention* is the products
of queries with keys, and of weights with values: two for each pair of a query and a key, in every head and layer.

With a cache a step computes one token and attends to all t: P + A·t. Without, it computes all t tokens, each of which
attends to t: P·t + A·t². A whole generation of n tokens is the sum: n and n² with, n² and n³ without.

A *multiply-add* is one multiplication and the addition that goes with it. Pairs that the causal mask takes away again are
counted, as a plain attention computes them; a kernel that skips them saves up to half, and the law stays the same.
"""

from typing import NamedTuple


class StepWork(NamedTuple):
    """Multiply-adds of one step."""

    projections: int
    attention: int

    @property
    def total(self) -> int:
        return self.projections + self.attention


def step_work(config, num_tokens: int, cached: bool) -> StepWork:
    """The step that computes the logits after `num_tokens` tokens (claims B1, S2).

    config      of a model of transformers with the architecture of Llama
    cached      whether the keys and values of all tokens but the last are there
    """
    if num_tokens < 1:
        raise ValueError(f"a step has at least 1 token, got {num_tokens}")
    heads, kv_heads = config.num_attention_heads, config.num_key_value_heads
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // heads
    hidden = config.hidden_size
    per_token = config.num_hidden_layers * (hidden * head_dim * (2 * heads + 2 * kv_heads)  # queries, keys, values, output
                                            + 3 * hidden * config.intermediate_size)
    per_pair = config.num_hidden_layers * 2 * heads * head_dim
    computed = 1 if cached else num_tokens
    # only the last token's logits are needed
    return StepWork(computed * per_token + hidden * config.vocab_size, computed * num_tokens * per_pair)
