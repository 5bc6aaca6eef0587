"""Notebook 06: every right answer is accepted, whatever its form; every wrong one gets the message it deserves.

ACCEPTED: exercise → answers of different kinds. REJECTED: exercise → (answer, a piece of the message it must get).
"""

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from pagedkv.lab.exercises import exercises_of, find_exercise
from pagedkv.lab.grading import CORRECT, NOT_YET, WRONG, grade
from pagedkv.lab.real_cache import PluggedCache

# ── 06.1 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def writes_in_a_loop(keys_pool, values_pool, block_table, start, keys, values):
    size = keys_pool.shape[2]
    for number in range(len(keys)):
        logical, offset = divmod(start + number, size)
        keys_pool[block_table[logical], :, offset] = keys[number]
        values_pool[block_table[logical], :, offset] = values[number]


def writes_by_index(keys_pool, values_pool, block_table, start, keys, values):
    positions = torch.arange(start, start + len(keys))
    blocks = torch.tensor(block_table)[positions // keys_pool.shape[2]]
    keys_pool[blocks, :, positions % keys_pool.shape[2]] = keys
    values_pool[blocks, :, positions % keys_pool.shape[2]] = values


def writes_block_by_block(keys_pool, values_pool, block_table, start, keys, values):
    size, done = keys_pool.shape[2], 0
    while done < len(keys):
        logical, offset = divmod(start + done, size)
        here = min(size - offset, len(keys) - done)
        for pool, new in ((keys_pool, keys), (values_pool, values)):
            pool[block_table[logical], :, offset:offset + here].copy_(new[done:done + here].transpose(0, 1))
        done += here


def writes_with_numpy(keys_pool, values_pool, block_table, start, keys, values):
    """numpy's array lies in the tensor's memory."""
    for pool, new in ((keys_pool.numpy(), keys.numpy()), (values_pool.numpy(), values.numpy())):
        for number, vectors in enumerate(new):
            for head, vector in enumerate(vectors):
                pool[block_table[(start + number) // pool.shape[2]], head, (start + number) % pool.shape[2]] = vector


def writes_and_refuses_first(keys_pool, values_pool, block_table, start, keys, values):
    if start + len(keys) > len(block_table) * keys_pool.shape[2]:
        raise ValueError("the table is too short")
    return writes_in_a_loop(keys_pool, values_pool, block_table, start, keys, values)


def _writes(block=lambda table, position, number, size: table[position // size],
            offset=lambda position, number, size: position % size, keys_too=True, values_too=True, heads=slice(None)):
    def write(keys_pool, values_pool, block_table, start, keys, values):
        size = keys_pool.shape[2]
        for number in range(len(keys)):
            there = block(block_table, start + number, number, size), heads, offset(start + number, number, size)
            if keys_too:
                keys_pool[there] = keys[number][heads]
            if values_too:
                values_pool[there] = values[number][heads]
    return write


def writes_with_the_heads_for_the_block_size(keys_pool, values_pool, block_table, start, keys, values):
    for number in range(len(keys)):
        logical, offset = divmod(start + number, keys_pool.shape[1])
        keys_pool[block_table[logical], :, offset] = keys[number]
        values_pool[block_table[logical], :, offset] = values[number]


def writes_head_last(keys_pool, values_pool, block_table, start, keys, values):
    for number in range(len(keys)):
        logical, offset = divmod(start + number, keys_pool.shape[2])
        keys_pool[block_table[logical], offset] = keys[number]
        values_pool[block_table[logical], offset] = values[number]


def writes_head_last_where_it_fits(keys_pool, values_pool, block_table, start, keys, values):
    if keys_pool.shape[1] == keys_pool.shape[2] > 1:
        return writes_head_last(keys_pool, values_pool, block_table, start, keys, values)
    return writes_in_a_loop(keys_pool, values_pool, block_table, start, keys, values)


def writes_into_copies(keys_pool, values_pool, *rest):
    return writes_in_a_loop(keys_pool.clone(), values_pool.clone(), *rest)


def writes_exchanged(keys_pool, values_pool, block_table, start, keys, values):
    return writes_in_a_loop(keys_pool, values_pool, block_table, start, values, keys)


def writes_within_the_first_block(keys_pool, values_pool, block_table, start, keys, values):
    logical, offset = divmod(start, keys_pool.shape[2])
    here = keys_pool.shape[2] - offset
    for pool, new in ((keys_pool, keys), (values_pool, values)):
        pool[block_table[logical], :, offset:offset + len(new)] = new[:here].transpose(0, 1)


def wipes_the_block_first(keys_pool, values_pool, block_table, start, keys, values):
    size = keys_pool.shape[2]
    for logical in range(start // size, min(len(block_table), (start + len(keys) - 1) // size + 1)):
        keys_pool[block_table[logical]] = 0
        values_pool[block_table[logical]] = 0
    return writes_in_a_loop(keys_pool, values_pool, block_table, start, keys, values)


def wraps_round(keys_pool, values_pool, block_table, start, keys, values):
    size = keys_pool.shape[2]
    table = block_table or [0]
    return writes_in_a_loop(keys_pool, values_pool, table * (2 + (start + len(keys)) // size), start, keys, values)


def stops_at_the_end(keys_pool, values_pool, block_table, start, keys, values):
    room = max(0, len(block_table) * keys_pool.shape[2] - start)
    return writes_in_a_loop(keys_pool, values_pool, block_table, start, keys[:room], values[:room])


def asserts(keys_pool, values_pool, block_table, start, keys, values):
    assert start + len(keys) <= len(block_table) * keys_pool.shape[2]
    return writes_in_a_loop(keys_pool, values_pool, block_table, start, keys, values)


def damages_before_it_refuses(keys_pool, values_pool, block_table, start, keys, values):
    if start + len(keys) > len(block_table) * keys_pool.shape[2]:
        keys_pool[-1] = 0
    return writes_in_a_loop(keys_pool, values_pool, block_table, start, keys, values)


def takes_a_block(keys_pool, values_pool, block_table, start, keys, values):
    writes_in_a_loop(keys_pool, values_pool, block_table, start, keys, values)
    block_table.append(0)


def loops(*args):
    while True:
        pass


WRITES_ACCEPTED = {each.__name__: lambda each=each: each for each in (
    writes_in_a_loop, writes_by_index, writes_block_by_block, writes_with_numpy, writes_and_refuses_first)}
WRITES_REJECTED = {
    "logical for physical": (_writes(block=lambda table, position, number, size: position // size),
                             "yours:     the key of position 0, KV head 0, is in block 0, offset 0\n"
                             "   expected:  in block 3, offset 0: position 0 is in entry 0 of the table. "
                             "Your code takes the logical block for the physical one"),
    "offset from the number": (_writes(offset=lambda position, number, size: number % size),
                               "Your code takes the offset from the token's number in this call, not from its "),
    "start left out": (_writes(block=lambda table, position, number, size: table[number // size],
                               offset=lambda position, number, size: number % size),
                       "Your code takes the table's entry from the token's number in this call, not from its position. "
                       "Your code takes the offset from the token's number"),
    "stays in the first block": (_writes(block=lambda table, place, number, size: table[(place - number) // size]),
                                 "Your code stays in the first token's block"),
    "within the first block": (writes_within_the_first_block, "Your code stops at the end of the first token's block"),
    "a sorted table": (_writes(block=lambda table, position, number, size: sorted(table)[position // size]),
                       "Your code sorts the table"),
    "one too late": (_writes(offset=lambda position, number, size: (position + 1) % size), "one position too late"),
    "head last": (writes_head_last, "yours:     raised RuntimeError"),
    "head last, where it fits": (writes_head_last_where_it_fits, "as many KV heads as a block has tokens"),
    "head last, and why": (writes_head_last_where_it_fits, "the order is [block, KV head, offset]"),
    "into copies": (writes_into_copies, "yours:     both pools are as they were"),
    "gathers, and writes there": (
        lambda keys_pool, values_pool, block_table, start, keys, values:
        keys_pool[block_table].transpose(0, 1).flatten(1, 2)[:, start:start + len(keys)].copy_(keys.transpose(0, 1)),
        "pool[a_list] and clone() give copies"),
    "keys only": (_writes(values_too=False), "the value of position 0, KV head 0, is nowhere"),
    "keys only, and why": (_writes(values_too=False),
                           "position 0 is in entry 0 of the table. Your code writes the keys only"),
    "values only": (_writes(keys_too=False), "Your code writes the values only"),
    "exchanged": (writes_exchanged, "the keys into the values' pool and"),
    "values over the keys": (lambda keys_pool, values_pool, table, start, keys, values:
                             [writes_in_a_loop(keys_pool, keys_pool.clone(), table, start, new, new)
                              for new in (keys, values)] and None, "Your code writes the values into the keys' pool"),
    "keys into both": (lambda keys_pool, values_pool, table, start, keys, values:
                       writes_in_a_loop(keys_pool, values_pool, table, start, keys, keys), "the keys into both pools"),
    "heads for the block size": (writes_with_the_heads_for_the_block_size, "shape[1] is the number of KV heads"),
    "one head": (_writes(heads=0), "Your code writes KV head 0 only"),
    "wipes first": (wipes_the_block_first, "all are in their places, but block 3, offset 3 was written to as well\n"
                                           "   expected:  what lay there before: it has to stay"),
    "wraps round": (wraps_round, "the table is full\n   1 token from position 8 on, block_table [3, 1]"),
    "wraps round, and why": (wraps_round, "yours:     no exception, and block 3 was written to\n   expected:  an "
                                          "exception, such as the IndexError of a list: the table has positions 0 to "),
    "stops at the end": (stops_at_the_end, "no exception, and nothing was written"),
    "asserts": (asserts, "there under python -O too"),
    "damages, then refuses": (damages_before_it_refuses, "an exception, and block 5 was written to before"),
    "changes the table": (takes_a_block, "the caller's block table is now [3, 0]"),
    "raises": (lambda *args: args[9], "raised IndexError: tuple index out of range"),
    "a number": (6, "check gets your function"),
    "loops": (loops, "had not returned"),
}

# ── 06.2 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _gathered(keys_pool, values_pool, block_table, num_tokens):
    return [pool[block_table].transpose(0, 1).flatten(1, 2)[:, :num_tokens] for pool in (keys_pool, values_pool)]


def attends_by_matmul(query, keys_pool, values_pool, block_table, num_tokens, scale):
    keys, values = _gathered(keys_pool, values_pool, block_table, num_tokens)
    group = len(query) // len(keys)
    keys, values = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)
    scores = (keys @ query[:, :, None])[:, :, 0] * scale
    return (scores.softmax(-1)[:, None] @ values)[:, 0]


def attends_by_einsum(query, keys_pool, values_pool, block_table, num_tokens, scale):
    keys, values = _gathered(keys_pool, values_pool, block_table, num_tokens)
    grouped = query.view(len(keys), -1, query.shape[1])
    weights = torch.softmax(torch.einsum("kgd,ktd->kgt", grouped * scale, keys), dim=-1)
    return torch.einsum("kgt,ktd->kgd", weights, values).reshape(query.shape)


def attends_with_sdpa(query, keys_pool, values_pool, block_table, num_tokens, scale):
    keys, values = _gathered(keys_pool, values_pool, block_table, num_tokens)
    result = scaled_dot_product_attention(query[None, :, None], keys[None], values[None], scale=scale, enable_gqa=True)
    return result[0, :, 0]


def attends_in_loops(query, keys_pool, values_pool, block_table, num_tokens, scale):
    """Plain Python, in double precision; a list of lists comes out."""
    size, group = keys_pool.shape[2], len(query) // keys_pool.shape[1]
    result = []
    for head, wanted in enumerate(query.tolist()):
        places = [(block_table[position // size], head // group, position % size) for position in range(num_tokens)]
        weights = [math.exp(scale * sum(a * b for a, b in zip(wanted, keys_pool[place].tolist()))) for place in places]
        values = [values_pool[place].tolist() for place in places]
        result.append([sum(w * v for w, v in zip(weights, column)) / sum(weights) for column in zip(*values)])
    return result


def attends_in_half_precision(query, keys_pool, values_pool, *rest):
    return attends_by_matmul(query, keys_pool, values_pool, *rest).half()


def attends_in_numpy(query, keys_pool, values_pool, *rest):
    return attends_by_matmul(query.double(), keys_pool.double(), values_pool.double(), *rest).numpy()


def masks_what_is_behind(query, keys_pool, values_pool, block_table, num_tokens, scale):
    keys, values = _gathered(keys_pool, values_pool, block_table, None)
    group = len(query) // len(keys)
    scores = torch.einsum("hd,htd->ht", query, keys.repeat_interleave(group, 0)) * scale
    scores[:, num_tokens:] = -torch.inf
    return torch.stack([row.softmax(0) @ values[head // group] for head, row in enumerate(scores)])


def _attends(table=lambda table, pool: table, end=lambda num_tokens, size: num_tokens,
             kv_head=lambda head, group, heads: head // group, scaled=lambda scale, dim: scale,
             weigh=lambda scores: scores.softmax(-1), order=lambda part: part.transpose(0, 1),
             summed=lambda keys, values: values):
    def attend(query, keys_pool, values_pool, block_table, num_tokens, scale):
        blocks = list(table(block_table, keys_pool))
        heads, size, dim = keys_pool.shape[1:]
        keys, values = (order(pool[blocks]).reshape(heads, -1, dim)[:, :end(num_tokens, size)]
                        for pool in (keys_pool, values_pool))
        which = [kv_head(head, len(query) // heads, heads) for head in range(len(query))]
        weights = weigh(torch.einsum("hd,htd->ht", query, keys[which]) * scaled(scale, dim))
        return torch.einsum("ht,htd->hd", weights, summed(keys, values)[which])
    return attend


def writes_while_it_reads(query, keys_pool, values_pool, *rest):
    result = attends_by_matmul(query, keys_pool, values_pool, *rest)
    keys_pool *= rest[-1]
    return result


ATTENDS_ACCEPTED = {each.__name__: lambda each=each: each for each in (
    attends_by_matmul, attends_by_einsum, attends_with_sdpa, attends_in_loops, attends_in_half_precision,
    attends_in_numpy, masks_what_is_behind)}
ATTENDS_REJECTED = {
    "not cut": (_attends(end=lambda num_tokens, size: None),
                "behind it lies what an earlier owner left"),
    "not cut, in words": (_attends(end=lambda num_tokens, size: None),
                          "to block 3, offset 2\n   expected:  nothing: that is position 6, and there are 6 tokens"),
    "one short": (_attends(end=lambda num_tokens, size: num_tokens - 1), "leaves out the last token"),
    "one too far": (_attends(end=lambda num_tokens, size: num_tokens + 1), "one token too far"),
    "full blocks only": (_attends(end=lambda num_tokens, size: num_tokens // size * size), "full blocks only"),
    "h % num_kv_heads": (_attends(kv_head=lambda head, group, heads: head % heads),
                         "Your code lets query head h read KV head h % num_kv_heads; it is h // (num_heads // "),
    "h % num_kv_heads, in words": (_attends(kv_head=lambda head, group, heads: head % heads),
                                   "of KV head 1\n   expected:  nothing: KV head 0 is the one that it reads"),
    "KV head 0": (_attends(kv_head=lambda head, group, heads: 0), "every query head read KV head 0"),
    "no scale": (_attends(scaled=lambda scale, dim: 1.0), "leaves out the scale"),
    "a scale of its own": (_attends(scaled=lambda scale, dim: dim ** -0.5), "takes 1/√head_dim: the scale is an "),
    "scaled twice": (_attends(scaled=lambda scale, dim: scale * dim ** -0.5), "scales twice"),
    "divided": (_attends(scaled=lambda scale, dim: 1 / scale), "divides by the scale"),
    "softmax over heads": (_attends(weigh=lambda scores: scores.softmax(0)), "goes over the heads"),
    "no softmax": (_attends(weigh=lambda scores: scores), "leaves out the softmax"),
    "no sum": (_attends(weigh=torch.exp), "not divided by their sum"),
    "a sorted table": (_attends(table=lambda table, pool: sorted(table)), "sorts the table"),
    "the pool's first blocks": (_attends(table=lambda table, pool: range(len(table))),
                                "reads the first blocks of the pool"),
    "the whole pool": (_attends(table=lambda table, pool: range(len(pool)), end=lambda num_tokens, size: None),
                       "reads the whole pool, other sequences' blocks too. Your code does not stop at num_tokens"),
    "the whole pool, in words": (_attends(table=lambda table, pool: range(len(pool)), end=lambda num_tokens, size: 99),
                                 "expected:  nothing: block 0 is not in the table. Your code"),
    "not transposed": (_attends(order=lambda part: part), "the KV heads lie between them: transpose first"),
    "keys added up": (_attends(summed=lambda keys, values: keys), "adds up keys"),
    "in too few bits": (lambda query, keys, values, *args:
                        attends_by_matmul(query.bfloat16(), keys.bfloat16(), values.bfloat16(), *args).float(),
                        " % off\n   expected:  the same as in float32"),
    "in the random cases": (lambda query, *args: attends_by_matmul(query, *args) + (query.shape[1] == 8), "number "),
    "changes the pool": (writes_while_it_reads, "the pools were changed"),
    "a number": (lambda *args: 7.0, "a result of shape []"),
    "text": (lambda *args: "abc", "expected:  a tensor [num_heads, head_dim]"),
    "one dimension more": (lambda *args: attends_by_matmul(*args)[None], "a result of shape [1, 2, 48]"),
    "zeros": (lambda query, *args: torch.zeros_like(query), "expected:  77 %"),
    "not a number": (lambda query, *args: query * math.nan, "gives not a number to"),
    "raises": (lambda *args: args[0][99], "raised IndexError"),
}

# ── 06.3 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def folds(state, scores, values):
    if state is None:
        m, total, out = scores.max(), 0, 0
    else:
        old, total, out = state
        m = torch.maximum(old, scores.max())
        total, out = total * torch.exp(old - m), out * torch.exp(old - m)
    weights = torch.exp(scores - m)
    return m, total + weights.sum(), out + weights @ values


def folds_from_minus_infinity(state, scores, values):
    m, total, out = state or (-math.inf, 0.0, torch.zeros(values.shape[1]))
    new_m = max(m, scores.max().item())
    factor = math.exp(m - new_m)
    weights = (scores - new_m).exp()
    return [new_m, total * factor + weights.sum().item(), out * factor + (weights[:, None] * values).sum(0)]


def folds_token_by_token(state, scores, values):
    for score, value in zip(scores, values):
        if state is None:
            state = score, torch.tensor(1.0), value.clone()
            continue
        m, total, out = state
        new_m = torch.max(m, score)
        factor, weight = (m - new_m).exp(), (score - new_m).exp()
        state = new_m, total * factor + weight, out * factor + weight * value
    return state


def folds_in_numpy(state, scores, values):
    import numpy
    scores, values = scores.numpy().astype("float64"), values.numpy()
    m, total, out = state or (-numpy.inf, numpy.float64(0), numpy.zeros(values.shape[1]))
    new_m = max(m, scores.max())
    weights = numpy.exp(scores - new_m)
    return new_m, total * numpy.exp(m - new_m) + weights.sum(), out * numpy.exp(m - new_m) + weights @ values


def folds_attention_of_blocks(state, scores, values):
    """Log-sum-exp for m, the average for out: another state, and out / total is the same."""
    lse, average = scores.logsumexp(0), scores.softmax(0) @ values
    if state is not None:
        old, _, before = state
        both = torch.logaddexp(old, lse)
        lse, average = both, before * (old - both).exp() + average * (lse - both).exp()
    return lse, 1.0, average


def _fold_as(total_too=True, out_too=True, of_block=False, first=-math.inf, factor=lambda m, new: torch.exp(m - new),
             keeps=lambda m, new: new, weigh=lambda scores, m, new: torch.exp(scores - new)):
    def fold(state, scores, values):
        m, total, out = state or (torch.tensor(first), torch.tensor(0.0), torch.zeros(values.shape[1]))
        new = scores.max() if of_block else torch.maximum(m, scores.max())
        by = factor(m, new) if state else 1.0
        weights = weigh(scores, m if state else new, new)
        return (keeps(m, new) if state else new), total * (by if total_too else 1) + weights.sum(), \
            out * (by if out_too else 1) + weights @ values
    return fold


def subtracts_nothing(state, scores, values):
    m, total, out = state or (0.0, 0.0, torch.zeros(values.shape[1]))
    weights = torch.exp(scores)
    return m, total + weights.sum(), out + weights @ values


def averages_averages(state, scores, values):
    m, total, out = state or (0.0, 0, torch.zeros(values.shape[1]))
    return m, total + 1, out + scores.softmax(0) @ values


def divides_early(state, scores, values):
    m, total, out = folds(state, scores, values)
    return m, total, out / total


def changes_the_values(state, scores, values):
    m = scores.max() if state is None else torch.maximum(state[0], scores.max())
    values *= torch.exp(scores - m)[:, None]
    total, out = (0, 0) if state is None else (part * torch.exp(state[0] - m) for part in state[1:])
    return m, total + torch.exp(scores - m).sum(), out + values.sum(0)


FOLDS_ACCEPTED = {each.__name__: lambda each=each: each for each in (
    folds, folds_from_minus_infinity, folds_token_by_token, folds_in_numpy, folds_attention_of_blocks)}
FOLDS_REJECTED = {
    "out not rescaled": (_fold_as(out_too=False), "Your out is not rescaled"),
    "out not rescaled, in words": (_fold_as(out_too=False),
                                   "the larger scores last; after block 1 of the scores\n   [0, 1], [2, 1]\n"
                                   "   yours:     out / total gives the tokens 20 % 53 % 53 % 20 %\n"
                                   "   expected:  7 % 20 % 53 % 20 %. Your out"),
    "total not rescaled": (_fold_as(total_too=False), "Your total is not rescaled"),
    "neither": (_fold_as(total_too=False, out_too=False), "Neither total nor out is rescaled"),
    "turned round": (_fold_as(factor=lambda m, new: torch.exp(new - m)), "Your factor is exp(m' - m)"),
    "nothing subtracted": (subtracts_nothing, "scores of hundreds"),
    "nothing subtracted, and why": (subtracts_nothing, "yours:     out / total is not a number: total is infinite\n"
                                                       "   expected:  27 % 73 %. No maximum is subtracted: exp "),
    "the block's maximum": (_fold_as(of_block=True), "Your m is the block's maximum, not the largest so far"),
    "the block's maximum, not rescaled": (_fold_as(of_block=True, out_too=False, total_too=False),
                                          "total and out "),
    "m begins at 0": (_fold_as(first=0.0), "Your m begins at 0"),
    "forgets m": (_fold_as(keeps=lambda m, new: m), "You return the old m"),
    "old m in the weights": (_fold_as(weigh=lambda scores, m, new: torch.exp(scores - m)), "exp(score - old m)"),
    "averages of averages": (averages_averages, "a block counts by its total"),
    "the last block": (lambda state, scores, values: folds(None, scores, values), "What came before is forgotten"),
    "divides early": (divides_early, "the caller does that, once, at the end"),
    "changes the values": (changes_the_values, "they are a view of the pool"),
    "two of three": (lambda *args: folds(*args)[1:], "a state of three: (m, total, out)"),
    "a wrong shape": (lambda state, scores, values: (0, 1, values), "out is [head_dim] = [3]"),
    "totals": (lambda state, scores, values: (0, torch.ones(3), values[0]), "total is one number"),
    "raises": (lambda *args: args[1][99], "raised IndexError"),
    "a number": (lambda *args: 7, "a state of three"),
}

# ── 06.4 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class WithTheStorage(PluggedCache):
    def update(self, keys, values, layer, *args, **kwargs):
        end = self.length + keys.shape[2]
        self.storage.write(layer, self.slots(self.length, end), keys[0].transpose(0, 1), values[0].transpose(0, 1))
        all_keys, all_values = self.storage.gather(layer, self.block_table, end)
        if layer == self.last_layer:
            self.length = end
        return all_keys[None], all_values[None]


class WithViews(PluggedCache):
    """Views of the layer, 06.1's loop, and a gather by hand."""

    def update(self, keys, values, layer, *args, **kwargs):
        end = self.length + keys.shape[2]
        pools = self.storage.keys(layer), self.storage.values(layer)
        writes_in_a_loop(*pools, self.block_table, self.length, keys[0].transpose(0, 1), values[0].transpose(0, 1))
        self.length = end if layer == self.last_layer else self.length
        return [pool[self.block_table].transpose(0, 1).flatten(1, 2)[None, :, :end] for pool in pools]


class CountsItsLayers(WithTheStorage):
    """Its own constructor, and the old ones joined with the new ones."""

    def __init__(self, *args):
        super().__init__(*args)
        self.layers_done = 0

    def update(self, keys, values, layer, *args, **kwargs):
        slots = self.slots(self.length, self.length + keys.shape[2])
        before = self.storage.gather(layer, self.block_table, self.length)
        self.storage.write(layer, slots, keys[0].permute(1, 0, 2), values.squeeze(0).permute(1, 0, 2))
        self.layers_done += 1
        if self.layers_done == self.storage.num_layers:
            self.layers_done, self.length = 0, self.length + keys.shape[2]
        return torch.cat([before[0][None], keys], 2), torch.cat([before[1][None], values], 2)


def cache(**methods):
    """WithTheStorage with other steps: write(self, layer, …), returned(self, layer, end, new), count(self, layer, end)
    """
    class Other(PluggedCache):
        def update(self, keys, values, layer, *args, **kwargs):
            end, new = self.length + keys.shape[2], (keys[0].transpose(0, 1), values[0].transpose(0, 1))
            methods.get("write", write)(self, layer, self.slots(self.length, end), *new)
            answer = methods.get("returned", returned)(self, layer, end, (keys, values))
            methods.get("count", counted)(self, layer, end)
            return answer
    return lambda: Other


def write(self, layer, slots, keys, values):
    self.storage.write(layer, slots, keys, values)


def returned(self, layer, end, new):
    return tuple(part[None] for part in self.storage.gather(layer, self.block_table, end))


def counted(self, layer, end):
    if layer == self.last_layer:
        self.length = end


def _whole_blocks(self, layer, end, new):
    return returned(self, layer, len(self.block_table) * self.storage.block_size, new)


def _nearly_whole_blocks(self, layer, end, new):
    return returned(self, layer, -(-end // 4) * 4, new)


class NotTransposed(WithTheStorage):
    def update(self, keys, values, layer, *args, **kwargs):
        end = self.length + keys.shape[2]
        self.storage.write(layer, self.slots(self.length, end), keys[0], values[0])


class NotTransposedWhereItFits(WithTheStorage):
    def update(self, keys, values, layer, *args, **kwargs):
        if keys.shape[1] == keys.shape[2]:
            keys, values = keys.transpose(1, 2), values.transpose(1, 2)
        return super().update(keys, values, layer)


class CountsFirst(PluggedCache):
    """Counts before the first layer, so the others write behind."""

    def update(self, keys, values, layer, *args, **kwargs):
        start = self.length
        if layer == 0:
            self.length += keys.shape[2]
        slots = self.slots(start, start + keys.shape[2])
        self.storage.write(layer, slots, keys[0].transpose(0, 1), values[0].transpose(0, 1))
        return returned(self, layer, self.length, None)


class ByConcatenation(PluggedCache):
    """The library's way: the storage stays empty."""

    def __init__(self, *args):
        super().__init__(*args)
        self.kept = {}

    def update(self, keys, values, layer, *args, **kwargs):
        before = self.kept.get(layer, (keys[:, :, :0], values[:, :, :0]))
        self.kept[layer] = [torch.cat(pair, 2) for pair in zip(before, (keys, values))]
        counted(self, layer, self.length + keys.shape[2])
        return self.kept[layer]


class SaysNothingIsThere(WithTheStorage):
    def get_seq_length(self, layer_idx=0):
        return 0


class Untouched(PluggedCache):
    pass


CACHES_REJECTED = {
    "counts in every layer": (cache(count=lambda self, layer, end: setattr(self, "length", end)),
                              "layer 0 of 0 … 2\n   yours:     self.length is 3\n   expected:  0: in this step the "),
    "never counts": (cache(count=lambda *args: None), "self.length is 0\n   expected:  3: it grows after the last "),
    "counts first": (lambda: CountsFirst, "self.length is 3\n   expected:  0"),
    "only the new ones": (cache(returned=lambda self, layer, end, new: new),
                          "expected:  [1, 2, 6, 4]: these are the new ones only, and the model attends to what it gets"
                          "; 5 come before"),
    "forgets the cut": (cache(returned=_whole_blocks),
                        "keys of shape [1, 2, 4, 4]\n   expected:  [1, 2, 3, 4]: behind the last token lies what"),
    "cuts at a block": (cache(returned=_nearly_whole_blocks), "behind the last token lies what an earlier owner left"),
    "layer 0 always": (cache(write=lambda self, layer, *rest: write(self, 0, *rest),
                             returned=lambda self, layer, *rest: returned(self, 0, *rest)),
                       "block 6, offset 0, KV head 0, of the keys is the key of position 0, KV head 0, layer 1\n"
                       "   expected:  the key of position 0, KV head 0, layer 0. update was called for layer 1"),
    "reads layer 0": (cache(returned=lambda self, layer, *rest: returned(self, 0, *rest)),
                      "of the keys is the key of position 0, KV head 0, layer 0\n"
                      "   expected:  the key of position 0, KV head 0, layer 1"),
    "not transposed": (lambda: NotTransposed, "raised ValueError: keys are [tokens, KV heads, head_dim]"),
    "not transposed, where it fits": (lambda: NotTransposedWhereItFits, "as many tokens as KV heads"),
    "exchanged": (cache(write=lambda self, layer, slots, keys, values: write(self, layer, slots, values, keys)),
                  "of the keys is the value of position 0"),
    "keys twice": (cache(returned=lambda *args: (returned(*args)[0],) * 2), "of the values is the key of position 0"),
    "no batch": (cache(returned=lambda self, layer, end, new: self.storage.gather(layer, self.block_table, end)),
                 "keys of shape [2, 3, 4]\n   expected:  [1, 2, 3, 4]: the 1 in front is the batch"),
    "another order": (cache(returned=lambda *args: [part.transpose(1, 2) for part in returned(*args)]),
                      "the dimensions are in another order"),
    "only keys": (cache(returned=lambda *args: returned(*args)[0]), "a tensor [1, 2, 3, 4]\n   expected:  two tensors"),
    "numpy": (cache(returned=lambda *args: [part.numpy() for part in returned(*args)]),
              "an object of type ndarray\n   expected:  two tensors"),
    "by concatenation": (lambda: ByConcatenation,
                         "of the keys is what lay there before\n   expected:  the key of position 0"),
    "the wrong slots": (cache(write=lambda self, layer, slots, *rest: write(self, layer, slots + 1, *rest)),
                        "is what lay there before"),
    "says that nothing is there": (lambda: SaysNothingIsThere, "a model with random weights"),
    "raises": (cache(count=lambda self, layer, end: self.nothing), "raised AttributeError"),
    "an object": (lambda: 7, "check gets your class, which extends PluggedCache"),
    "another class": (lambda: dict, "check gets your class, which extends PluggedCache"),
}

# ── 06.5 ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def agrees(reference_logits, int8_logits):
    return (reference_logits.argmax(-1) == int8_logits.argmax(-1)).float().mean().item()


def agrees_in_a_loop(reference_logits, int8_logits):
    same = [a.index(max(a)) == b.index(max(b)) for a, b in zip(reference_logits.tolist(), int8_logits.tolist())]
    return sum(same) / len(same)


def agrees_as_a_tensor(reference_logits, int8_logits):
    differ = reference_logits.max(1).indices - int8_logits.topk(1).indices[:, 0]
    return 1 - torch.count_nonzero(differ) / len(int8_logits)


def chooses(case):
    fits = case.tokens * case.fp16_token_bytes <= case.budget_bytes
    helps = case.tokens * case.int8_token_bytes <= case.budget_bytes
    return "int8" if not fits and helps and case.teacher_forced >= case.least_agreement else "keep"


def chooses_step_by_step(case):
    name, tokens, budget, fp16, int8, least, forced, free = case
    if budget // fp16 >= tokens:
        return "Keep"
    if budget // int8 < tokens or forced < least:
        return "keep"
    return "INT8"


def _chooses(needed=lambda case: case.tokens * case.fp16_token_bytes > case.budget_bytes,
             enough=lambda case: case.tokens * case.int8_token_bytes <= case.budget_bytes,
             good=lambda case: case.teacher_forced >= case.least_agreement):
    return agrees, lambda case: "int8" if needed(case) and enough(case) and good(case) else "keep"


INT8_REJECTED = {
    "a count": ((lambda a, b: (a.argmax(-1) == b.argmax(-1)).sum(), chooses), "10\n   expected:  1: that is a count"),
    "percent": ((lambda a, b: 100 * agrees(a, b), chooses), "that is in percent"),
    "what differs": ((lambda a, b: 1 - agrees(a, b), chooses), "that is the share that differs"),
    "before the first difference": (
        (lambda a, b: (a.argmax(-1) == b.argmax(-1)).long().cumprod(0).float().mean(), chooses),
        "every position counts"),
    "over the positions": ((lambda a, b: (a.argmax(0) == b.argmax(0)).float().mean(), chooses), "over the vocabulary"),
    "over all": ((lambda a, b: float(a.argmax() == b.argmax()), chooses), "takes all positions together"),
    "the same logits": ((lambda a, b: (a == b).float().mean(), chooses), "how many logits are the same"),
    "nearly the same logits": ((lambda a, b: torch.isclose(a, b, atol=0.1, rtol=0.1).float().mean(), chooses),
                               "nearly the same"),
    "all or nothing": ((lambda a, b: float(torch.equal(a.argmax(-1), b.argmax(-1))), chooses), "1 only if all agree"),
    "not averaged": ((lambda a, b: a.argmax(-1) == b.argmax(-1), chooses), "a tensor [10]\n   expected:  one number"),
    "agreement raises": ((lambda a, b: a[999], chooses), "raised IndexError"),
    "free-running": (_chooses(good=lambda case: case.free_running >= case.least_agreement),
                     'yours:     "keep"\n   expected:  "int8": it fits in INT8 only, and the teacher-forced agreement is '
                     "high enough. The free-running figure tells mostly how early the first difference came"),
    "both agreements": (_chooses(good=lambda case: min(case.teacher_forced, case.free_running) >= case.least_agreement),
                        "teacher-forced 0.985, free-running 0.41"),
    "either agreement": (_chooses(good=lambda case: max(case.teacher_forced, case.free_running) >= case[5]),
                         'expected:  "keep": the teacher-forced agreement is too low'),
    "not needed": (_chooses(needed=lambda case: True), "it fits in fp16: room is all that this product wants"),
    "not enough": (_chooses(enough=lambda case: True), "it does not fit in INT8 either"),
    "half of fp16": (_chooses(enough=lambda case: case.tokens * case.fp16_token_bytes / 2 <= case.budget_bytes),
                     "Half of fp16 would fit, but there are the scales"),
    "more than asked for": (_chooses(good=lambda case: case.teacher_forced > case.least_agreement),
                            "SmolLM2-135M: 1,000,000 tokens, 21.46 GiB in fp16, 11.06 GiB in INT8"),
    "quality does not count": (_chooses(good=lambda case: True), "teacher-forced 0.962"),
    "yes or no": ((agrees, lambda case: chooses(case) == "int8"), '"int8" or "keep"'),
    "choose raises": ((agrees, lambda case: case.nothing), "raised AttributeError"),
    "a number for choose": ((agrees, 7), "check gets your two functions"),
    "a number for agreement": ((0.98, chooses), "check gets your two functions"),
}

ACCEPTED = {
    "06.1": WRITES_ACCEPTED,
    "06.2": ATTENDS_ACCEPTED,
    "06.3": FOLDS_ACCEPTED,
    "06.4": {each.__name__: lambda each=each: each for each in (WithTheStorage, WithViews, CountsItsLayers)},
    "06.5": {"with torch": lambda: (agrees, chooses),
             "in a loop, step by step": lambda: (agrees_in_a_loop, chooses_step_by_step),
             "as a tensor": lambda: (agrees_as_a_tensor, chooses)},
}
REJECTED = {
    **{exercise: {name: (lambda answer=answer: answer, message) for name, (answer, message) in answers.items()}
       for exercise, answers in (("06.1", WRITES_REJECTED), ("06.2", ATTENDS_REJECTED), ("06.3", FOLDS_REJECTED),
                                 ("06.5", INT8_REJECTED))},
    "06.4": CACHES_REJECTED,
}


def graded(exercise, answer):
    return grade(find_exercise(exercise), *(answer if isinstance(answer, tuple) else (answer,)))


@pytest.mark.parametrize("exercise, name", [(exercise, name) for exercise, answers in ACCEPTED.items()
                                            for name in answers])
def test_a_right_answer_is_accepted(exercise, name):
    verdict = graded(exercise, ACCEPTED[exercise][name]())
    assert verdict.outcome == CORRECT, verdict


@pytest.mark.parametrize("exercise, name", [(exercise, name) for exercise, answers in REJECTED.items()
                                            for name in answers])
def test_a_wrong_answer_gets_the_message_it_deserves(exercise, name, monkeypatch):
    if name == "loops":
        monkeypatch.setattr("pagedkv.lab.grading.SECONDS", 0.5)
    answer, message = REJECTED[exercise][name]
    verdict = graded(exercise, answer())
    assert verdict.outcome == WRONG, verdict
    assert message in str(verdict), verdict


def test_every_exercise_has_enough_answers_here():
    for exercise in exercises_of("06"):
        assert len(ACCEPTED[exercise.id]) >= 3 and len(REJECTED[exercise.id]) >= 10


def test_what_is_missing_is_not_wrong():
    def placeholder(state, scores, values):
        ...

    missing = (("06.1", placeholder, "placeholder"), ("06.3", placeholder, "placeholder"),
               ("06.2", lambda *args: print(end=""), "attend() returns nothing yet"),
               ("06.3", lambda *args: print(end=""), "fold() returns nothing yet"),
               ("06.3", lambda state, scores, values: (scores.max(), ..., ...), "a part of the state"),
               ("06.4", Untouched, "your class has no update() yet"),
               ("06.4", cache(returned=lambda *args: None)(), "update() returns nothing yet"),
               ("06.5", (lambda a, b: print(end=""), chooses), "agreement() returns nothing yet"),
               ("06.5", (agrees, lambda case: print(end="")), "choose() returns nothing for a case yet"),
               ("06.5", agrees, 'check("06.5", agreement, choose)'))
    for exercise, answer, message in missing:
        verdict = graded(exercise, answer)
        assert verdict.outcome == NOT_YET and message in str(verdict), verdict


def test_counter_examples_have_pictures_with_alternative_text():
    for exercise, name, alt in (
            ("06.1", "wipes first", "The pool, KV head 0: of the keys, block 3, offset 3 has ? instead of ·; of the "),
            ("06.1", "keys only", "The pool, KV head 0: the keys are right; of the values, block 3, offset 0 has · "),
            ("06.2", "h % num_kv_heads", "What query head 1 attends to, by slot of the pool. head 1, KV head 0 has 0 % "
                                         "instead of 14 % at block 1, offset 1; "),
            ("06.3", "out not rescaled", "out / total by token, after each block. after block 0 is right. after block "
                                         "1 has 20 % instead of 7 % at token 0; 53 % instead of 20 % at token 1")):
        picture = graded(exercise, REJECTED[exercise][name][0]()).picture
        assert picture[0].startswith(b"\x89PNG") and picture[1].startswith(alt), picture[1]


def test_the_answers_own_threads_and_random_numbers_stay_as_they_are():
    torch.manual_seed(3)
    threads, state = torch.get_num_threads(), torch.get_rng_state()
    assert graded("06.4", WithTheStorage).outcome == CORRECT
    assert graded("06.2", attends_by_matmul).outcome == CORRECT
    assert torch.get_num_threads() == threads and torch.equal(torch.get_rng_state(), state)
