"""How many bytes a model keeps for a token: the arithmetic below every pool size.

For each token, each layer of a transformer keeps a *key* and a *value* for each of its *KV heads*, a vector of head_dim
numbers each:

    bytes per token = 2 × layers × KV heads × head_dim × bytes per number

    MHA  multi-head attention: as many KV heads as query heads
    GQA  grouped-query attention: several query heads share a KV head
    MQA  multi-query attention: all of them share one
    MLA  multi-head latent attention: neither keys nor values, but one *latent* vector of kv_lora_rank numbers from
         which both are computed, and rope_dim numbers with the position. Without the 2 and without heads (DeepSeek-V2,
         arXiv 2405.04434)

A *hybrid* model has several kinds of layers, and there is no such thing as its bytes per token:

    full attention    keeps every token
    sliding window    keeps the last window_tokens tokens: its bytes stop growing
    state space       keeps a state of fixed size per sequence, however long that is

*Tensor parallelism* cuts each layer into ranks, one per GPU. The KV heads are dealt out to the ranks; where there are
more ranks than KV heads, several ranks keep the same head. A latent vector has no heads, so every rank keeps all of it.

Quantised numbers (int8, fp8) need *scales* to be turned back; here an fp16 number for each vector that is kept.
"""

from dataclasses import dataclass, replace

from pagedkv.core.arguments import as_count

DTYPE_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8": 1, "int8": 1}
SCALE_BYTES = 2  # fp16


def at_least_1(value: object, what: str) -> int:
    """`value` as a plain int. Raises ValueError for less, TypeError for what is no integer."""
    value = as_count(value, what)
    if not value:
        raise ValueError(f"{what} is at least 1")
    return value


@dataclass(frozen=True)
class LayerGroup:
    """The layers of a hybrid model that keep the same.

    window_tokens   of a sliding window; 0 for full attention
    state_elements  numbers in the state of one state-space layer, which then keeps no tokens; 0 for attention
    """

    num_layers: int
    window_tokens: int = 0
    state_elements: int = 0

    def __post_init__(self):
        for what in ("num_layers", "window_tokens", "state_elements"):
            as_count(getattr(self, what), what)
        if not self.num_layers:
            raise ValueError("a group has at least 1 layer")
        if self.window_tokens and self.state_elements:
            raise ValueError("a layer has a window or a state, not both")

    def kept_tokens(self, num_tokens: int) -> int:
        """Of a sequence of so many tokens, how many each of these layers still keeps."""
        if self.state_elements:
            return 0
        return min(num_tokens, self.window_tokens) if self.window_tokens else num_tokens


@dataclass(frozen=True)
class ModelShape:
    """What of a model's configuration decides the size of its KV cache.

    num_heads               query heads; only comparisons need them
    kv_lora_rank, rope_dim  of MLA; then KV heads and head_dim do not count
    groups                  of a hybrid model, together num_layers; empty: all layers have full attention

    Raises ValueError for a shape that no model can have.
    """

    name: str
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    kv_lora_rank: int = 0
    rope_dim: int = 0
    groups: tuple[LayerGroup, ...] = ()

    def __post_init__(self):
        for what in ("num_layers", "num_heads", "num_kv_heads", "head_dim"):
            at_least_1(getattr(self, what), what)
        for what in ("kv_lora_rank", "rope_dim"):
            as_count(getattr(self, what), what)
        if self.num_heads % self.num_kv_heads:
            raise ValueError(f"{self.num_heads} query heads cannot share {self.num_kv_heads} KV heads evenly: "
                             "num_kv_heads divides num_heads")
        if self.rope_dim and not self.kv_lora_rank:
            raise ValueError("rope_dim belongs to MLA: give kv_lora_rank too")
        in_groups = sum(group.num_layers for group in self.groups)
        if self.groups and in_groups != self.num_layers:
            raise ValueError(f"the groups have {in_groups} layers together, and the model {self.num_layers}")

    @property
    def attention(self) -> str:
        if self.kv_lora_rank:
            return "MLA"
        if self.num_kv_heads == self.num_heads:
            return "MHA"
        return "MQA" if self.num_kv_heads == 1 else "GQA"

    @property
    def is_hybrid(self) -> bool:
        return any(group.window_tokens or group.state_elements for group in self.groups)

    @property
    def layer_groups(self) -> tuple[LayerGroup, ...]:
        return self.groups or (LayerGroup(self.num_layers),)

    def as_full_attention(self) -> "ModelShape":
        """The same model as the formula takes it: as if every layer kept every token."""
        return replace(self, groups=())

    def on_rank(self, tensor_parallel: int) -> "ModelShape":
        """What one of so many ranks keeps, as a shape of its own. Raises ValueError for a number of ranks that
        does not divide the query heads, or that neither divides the KV heads nor is a multiple of them."""
        ranks = at_least_1(tensor_parallel, "tensor_parallel")
        if self.num_heads % ranks:
            raise ValueError(f"{self.name} has {self.num_heads} query heads, which {ranks} ranks cannot share evenly: "
                             "take a number that divides them")
        if self.num_kv_heads % ranks and ranks % self.num_kv_heads:
            raise ValueError(f"{self.name} has {self.num_kv_heads} KV heads, which {ranks} ranks can neither share nor "
                             "repeat evenly: take a number that divides them, or a multiple of it")
        for group in self.groups:
            if group.state_elements % ranks:
                raise ValueError(f"{self.name} has states of {group.state_elements} numbers, which {ranks} ranks "
                                 "cannot share evenly")
        groups = tuple(replace(group, state_elements=group.state_elements // ranks) for group in self.groups)
        return replace(self, name=f"{self.name}, 1 of {ranks} ranks" if ranks > 1 else self.name,
                       num_heads=self.num_heads // ranks, num_kv_heads=max(1, self.num_kv_heads // ranks),
                       groups=groups)


# num_layers, num_heads, num_kv_heads, head_dim: from the configurations that were published with the weights.
MODELS = {shape.name: shape for shape in (
    ModelShape("Llama-2-7B", 32, 32, 32, 128),
    ModelShape("Llama-2-13B", 40, 40, 40, 128),
    ModelShape("Llama-2-70B", 80, 64, 8, 128),
    ModelShape("Llama-3-8B", 32, 32, 8, 128),
    ModelShape("Llama-3-70B", 80, 64, 8, 128),
    ModelShape("Qwen2.5-7B", 28, 28, 4, 128),
    ModelShape("Qwen2.5-72B", 80, 64, 8, 128),
    ModelShape("Qwen3-8B", 36, 32, 8, 128),
    ModelShape("DeepSeek-V3", 61, 128, 128, 128, kv_lora_rank=512, rope_dim=64),
    ModelShape("SmolLM2-135M", 30, 9, 3, 64),
)}

# All layers of Mistral 7B v0.1 have a sliding window, of Gemma 3 five in six (arXiv 2503.19786), of gpt-oss every
# second. Of Jamba's layers one in eight has attention (arXiv 2403.19887, which gives 4 GB at 256K tokens); the others
# are Mamba layers of 2 × 4096 channels, each with a state of 16 numbers and the last 4 - 1 inputs of its convolution.
_JAMBA_STATE = 2 * 4096 * (16 + 4 - 1)
HYBRID_MODELS = {shape.name: shape for shape in (
    ModelShape("Mistral-7B-v0.1", 32, 32, 8, 128, groups=(LayerGroup(32, window_tokens=4096),)),
    ModelShape("Gemma-3-12B", 48, 16, 8, 256, groups=(LayerGroup(8), LayerGroup(40, window_tokens=1024))),
    ModelShape("gpt-oss-20b", 24, 64, 8, 64, groups=(LayerGroup(12), LayerGroup(12, window_tokens=128))),
    ModelShape("Jamba-v0.1", 32, 32, 8, 128, groups=(LayerGroup(4), LayerGroup(28, state_elements=_JAMBA_STATE))),
)}


def layer_bytes_per_token(shape: ModelShape, dtype: str = "fp16", scales: bool = False) -> int:
    """What one attention layer keeps for one token.

    scales  with an fp16 scale for each vector (a key or a value of one head; a latent vector): int8 and fp8 only
    Raises ValueError for a dtype that is not in DTYPE_BYTES, or one that needs no scales."""
    number_bytes = _number_bytes(dtype)
    if scales and number_bytes != 1:
        raise ValueError(f"{dtype} needs no scales: they belong to int8 and fp8")
    if shape.kv_lora_rank:
        vectors, numbers = 1, shape.kv_lora_rank + shape.rope_dim
    else:
        vectors, numbers = 2 * shape.num_kv_heads, shape.head_dim
    return vectors * (numbers * number_bytes + (SCALE_BYTES if scales else 0))


def kv_bytes_per_token(shape: ModelShape, dtype: str = "fp16", scales: bool = False) -> int:
    """What all layers keep for one token. Raises ValueError for a hybrid model: there it depends on which token."""
    if shape.is_hybrid:
        raise ValueError(f"{shape.name} has no bytes per token: not all of its layers keep every token. Ask for "
                         "sequence_bytes(shape, num_tokens), or for shape.as_full_attention() to see what the formula "
                         "would say")
    return shape.num_layers * layer_bytes_per_token(shape, dtype, scales)


def kv_block_bytes(shape: ModelShape, block_size: int = 16, dtype: str = "fp16", scales: bool = False) -> int:
    """A block of so many tokens, over all layers."""
    return at_least_1(block_size, "block_size") * kv_bytes_per_token(shape, dtype, scales)


def kv_bytes_per_token_per_rank(shape: ModelShape, tensor_parallel: int, dtype: str = "fp16",
                                scales: bool = False) -> int:
    """What each of so many ranks keeps for one token. All ranks together keep more than one GPU would as soon as
    heads are repeated."""
    return kv_bytes_per_token(shape.on_rank(tensor_parallel), dtype, scales)


def sequence_bytes(shape: ModelShape, num_tokens: int, dtype: str = "fp16", scales: bool = False,
                   block_size: int = 1, state_dtype: str = "bf16") -> int:
    """What one sequence of so many tokens keeps, in whole blocks; right for hybrid models too.

    block_size   1: no rounding. A manager that frees the blocks behind a window may hold one block more than counted
                 here, since a window seldom begins where a block does
    state_dtype  of state-space layers; their states are rarely quantised, and often fp32
    """
    tokens, block = as_count(num_tokens, "num_tokens"), at_least_1(block_size, "block_size")
    token_bytes, state_bytes = layer_bytes_per_token(shape, dtype, scales), _number_bytes(state_dtype)
    return sum(group.num_layers * (-(-group.kept_tokens(tokens) // block) * block * token_bytes
                                   + group.state_elements * state_bytes) for group in shape.layer_groups)


def tokens_that_fit(shape: ModelShape, memory_bytes: int, dtype: str = "fp16", scales: bool = False,
                    block_size: int = 1) -> int:
    """The greatest number of tokens, in whole blocks, that this memory holds. In a hybrid model: of one sequence, in
    any other also of several. Raises ValueError where any number fits, because no layer keeps every token."""
    memory_bytes, block = as_count(memory_bytes, "memory_bytes"), at_least_1(block_size, "block_size")

    def fits(num_blocks: int) -> bool:
        return sequence_bytes(shape, num_blocks * block, dtype, scales, block) <= memory_bytes

    if not fits(0):
        return 0  # not even its states
    growing = sum(group.num_layers for group in shape.layer_groups
                  if not group.window_tokens and not group.state_elements)
    if growing:
        none = 1 + memory_bytes // (growing * layer_bytes_per_token(shape, dtype, scales) * block)
    else:
        none = 1 + max(-(-group.window_tokens // block) for group in shape.layer_groups)
        if fits(none):
            raise ValueError(f"any number of tokens fits: no layer of {shape.name} keeps more than its window or "
                             f"state, {sequence_bytes(shape, none * block, dtype, scales, block):,} B in all")
    most = 0  # most blocks fit, none do not
    while none - most > 1:
        middle = (most + none) // 2
        most, none = (middle, none) if fits(middle) else (most, middle)
    return most * block


def _number_bytes(dtype: str) -> int:
    if dtype not in DTYPE_BYTES:
        raise ValueError(f"{dtype!r} is not a known dtype: take one of {', '.join(DTYPE_BYTES)}")
    return DTYPE_BYTES[dtype]
