"""The exercises of notebook 06, the real thing.

PyTorch takes seconds to import, and transformers as long again, so what needs them is imported when an answer comes.
"""

from typing import Any

from pagedkv.lab.grading import Exercise


def tokens_written(write_tokens: Any) -> str:
    """06.1: each key and value lies where the table says, nothing else has changed, nothing goes behind the table."""
    from pagedkv.lab.real_write import try_write
    from pagedkv.lab.real_threads import one_thread
    with one_thread():
        return try_write(write_tokens)


def attended_by_gathering(attend: Any) -> str:
    """06.2: one decode step attends to its own tokens, all of them, and reads the right KV head."""
    from pagedkv.lab.real_attend import try_attend
    from pagedkv.lab.real_threads import one_thread
    with one_thread():
        return try_attend(attend)


def folded_block_by_block(fold: Any) -> str:
    """06.3: after each block, out / total is the attention so far."""
    from pagedkv.lab.real_fold import try_fold
    from pagedkv.lab.real_threads import one_thread
    with one_thread():
        return try_fold(fold)


def cache_plugged_in(cache_class: Any) -> str:
    """06.4: a model generates the same with the learner's cache as with the library's own."""
    from pagedkv.lab.real_plug import try_cache
    from pagedkv.lab.real_threads import one_thread
    with one_thread():
        return try_cache(cache_class)


def int8_judged(agreement: Any, choose: Any = None) -> str:
    """06.5: the right figure, and the right conclusion."""
    from pagedkv.lab.real_int8 import try_int8
    from pagedkv.lab.real_threads import one_thread
    with one_thread():
        return try_int8(agreement, choose)


EXERCISES = (
    Exercise("06.1", "Write through the table", 8, (
        "The token number i of this call has the position start + i. Which entry of the table is that, and which place "
        "in the block?",
        "divmod(position, block_size) gives both. The block size is keys_pool.shape[2], the block block_table[…].",
        "keys_pool[block, :, offset] = keys[i] puts one token's key into all KV heads, for keys[i] is [KV heads, "
        "head_dim]. The same for values. A Python list raises IndexError by itself when it is too short."),
        tokens_written),
    Exercise("06.2", "Gather and attend", 8, (
        "First keys [KV heads, tokens, head_dim] in the sequence's order, from keys_pool[block_table], which is "
        "[blocks, KV heads, block_size, head_dim]. Which dimensions have to become neighbours?",
        "pool[block_table].transpose(0, 1).flatten(1, 2)[:, :num_tokens]. Then each KV head is needed num_heads // "
        "num_kv_heads times, side by side: repeat_interleave.",
        "scores = (keys @ query[:, :, None])[:, :, 0] * scale is [num_heads, tokens]. A softmax over the last "
        "dimension, and the weighted sum: (weights[:, None] @ values)[:, 0]."), attended_by_gathering),
    Exercise("06.3", "Block by block", 10, (
        "The new m is the largest of the old m and this block's scores. What was added up with the old m: is it too "
        "large or too small now?",
        "exp(score - m) = exp(score - old) · exp(old - m). So the old sums are multiplied by exp(old - m), total and "
        "out alike.",
        "weights = torch.exp(scores - m); total = total · factor + weights.sum(); out = out · factor + weights @ "
        "values. For the first block there is no old m: begin with total and out 0."), folded_block_by_block),
    Exercise("06.4", "Plug it in", 10, (
        "Three things: write the new tokens, give back all of them, and count. At which positions do the new ones "
        "begin?",
        "self.slots(self.length, end) with end = self.length + keys.shape[2]. storage.write takes [tokens, KV heads, "
        "head_dim]: keys[0].transpose(0, 1).",
        "self.storage.gather(layer, self.block_table, end) gives keys and values [KV heads, tokens, head_dim]; [None] "
        "puts the batch in front. self.length = end only if layer == self.last_layer."), cache_plugged_in),
    Exercise("06.5", "INT8, or not?", 7, (
        "argmax over the vocabulary is the token that would be chosen at a position. At how many positions are the two "
        "the same?",
        "choose: three questions. Is it needed? Is it enough? Is it good enough? Only three times yes is \"int8\".",
        "Needed: tokens × fp16_token_bytes > budget_bytes. Enough: tokens × int8_token_bytes <= budget_bytes. Good "
        "enough: teacher_forced >= least_agreement. The free-running figure is not needed."), int8_judged),
)
