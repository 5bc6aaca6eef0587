"""Cascade attention: what many sequences share is read once for all of them.

Sequences that begin with the same blocks share memory, but an ordinary decode step still reads those blocks once for
each sequence. Attention can be cut at any token, though:

    prefix    the shared tokens: the queries of all sequences are put to them together, one matrix product per KV head
    suffix    what each sequence has of its own, as ever

Either part yields its attention, and the *log-sum-exp* of its scores: the logarithm of what its softmax was divided by.
The whole is the average of the two attentions, weighted with the exponentials of these. Split-KV decoding on a GPU
merges its splits by the same rule. (Hydragen, arXiv 2402.05099; FlashInfer's cascade attention, 2024.)

This is the reference, in plain PyTorch, for decode steps.
"""

import math
from typing import NamedTuple

import torch

from pagedkv.attention.batch import PagedBatch
from pagedkv.storage.kv_storage import KVStorage


class Part(NamedTuple):
    """Attention to some of the tokens: its output [..., head_dim], the log-sum-exp of the scores [...]; both fp32."""

    output: torch.Tensor
    log_sum_exp: torch.Tensor


class BytesRead(NamedTuple):
    """Keys and values that one decode step reads in one layer, in bytes."""

    one_by_one: int
    cascade: int


def attend(query: torch.Tensor, storage: KVStorage, layer: int, batch: PagedBatch, scale: float,
           num_shared_blocks: int) -> torch.Tensor:
    """As `pagedkv.attention.gather.attend`, for a decode step in which all tables begin with the same
    `num_shared_blocks` blocks, all full. Raises ValueError if it is no such step."""
    shared_tokens = num_shared_blocks * storage.block_size
    _check(batch, num_shared_blocks, shared_tokens)
    num_sequences, num_heads, head_dim = query.shape
    heads = storage.num_kv_heads
    # [sequence, KV head, query heads of its group, head_dim]
    queries = query.float().view(num_sequences, heads, num_heads // heads, head_dim) * scale

    keys, values = storage.gather_unchecked(layer, batch.block_tables[0, :num_shared_blocks], shared_tokens)
    # one product per KV head with the rows of all sequences: this is where the prefix is read, once
    together = queries.transpose(0, 1).flatten(1, 2)
    prefix = attend_part(together, keys, values)
    prefix = Part(prefix.output.unflatten(1, (num_sequences, -1)).transpose(0, 1),
                  prefix.log_sum_exp.unflatten(1, (num_sequences, -1)).transpose(0, 1))

    result = torch.empty_like(query)
    for number, (table, context) in enumerate(zip(batch.block_tables, batch.context_lens_list)):
        last = -(-context // storage.block_size)
        keys, values = storage.gather_unchecked(layer, table[num_shared_blocks:last], context - shared_tokens)
        suffix = attend_part(queries[number], keys, values)
        whole = merge(Part(prefix.output[number], prefix.log_sum_exp[number]), suffix)
        result[number] = whole.output.view(num_heads, head_dim).to(query.dtype)
    return result


def attend_part(queries: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> Part:
    """All rows to all tokens: queries [KV heads, rows, head_dim], fp32 and scaled, keys and values [KV heads, tokens,
    head_dim]. No tokens at all is allowed: such a part has no weight."""
    scores = queries @ keys.float().transpose(-1, -2)
    if not scores.shape[-1]:
        return Part(torch.zeros_like(queries), queries.new_full(queries.shape[:-1], -math.inf))
    log_sum_exp = scores.logsumexp(-1)
    return Part(torch.exp(scores - log_sum_exp[..., None]) @ values.float(), log_sum_exp)


def merge(first: Part, second: Part) -> Part:
    """Attention to the tokens of both."""
    log_sum_exp = torch.logaddexp(first.log_sum_exp, second.log_sum_exp)
    output = sum(part.output * torch.exp(part.log_sum_exp - log_sum_exp)[..., None] for part in (first, second))
    return Part(output, log_sum_exp)


def bytes_read(context_lens: list[int], shared_tokens: int, storage: KVStorage) -> BytesRead:
    """What one decode step reads, sequence by sequence and in cascade. `context_lens` count the shared tokens too."""
    if shared_tokens < 0 or any(context < shared_tokens for context in context_lens):
        raise ValueError(f"every sequence has the {shared_tokens} shared tokens, got lengths {context_lens}")
    token_bytes = storage.token_bytes // storage.num_layers
    own_tokens = sum(context_lens) - len(context_lens) * shared_tokens
    return BytesRead(sum(context_lens) * token_bytes, (shared_tokens + own_tokens) * token_bytes)


def _check(batch: PagedBatch, num_shared_blocks: int, shared_tokens: int) -> None:
    if not batch.is_decode:
        raise ValueError("cascade attention is for decode steps: one new token for each sequence")
    if not 1 <= num_shared_blocks <= batch.block_tables.shape[1]:
        raise ValueError(f"num_shared_blocks goes from 1 to {batch.block_tables.shape[1]}, got {num_shared_blocks}")
    if min(batch.context_lens_list) < shared_tokens:
        raise ValueError(f"the shared blocks hold {shared_tokens} tokens, a sequence only has "
                         f"{min(batch.context_lens_list)}")
    shared = batch.block_tables[:, :num_shared_blocks]
    if not torch.equal(shared, shared[:1].expand_as(shared)):
        raise ValueError(f"the first {num_shared_blocks} blocks are not the same in all tables")
