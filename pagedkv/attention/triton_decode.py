"""The two Triton kernels of paged decode attention. Triton is imported here and nowhere else in this package.

Decode: every sequence has one new query row per head, and attends to all of its tokens. Nearly all of the time goes
into reading keys and values once, so a good kernel reads each of them once and keeps the whole GPU reading.

    tile     TILE tokens of one sequence, taken through the block table: token t is in block table[t // BLOCK_SIZE], at
             offset t % BLOCK_SIZE. A tile may span several blocks, or be a part of one.
    group    the query heads that share one KV head (grouped-query attention). One program serves all of them, so that
             the keys and values are read once, not once for each query head.
    split    a run of SPLIT_TOKENS tokens of one sequence, a multiple of TILE. Several programs share one sequence,
             each takes a split; without that, a batch of one would leave most of the GPU idle ("flash-decoding").
    partial  what one split leaves behind for one head: the largest score, the sum of exponentials relative to it, and
             the weighted sum of the values, in fp32. `combine_splits` merges them.

The online softmax: scores are looked at tile by tile; when a larger score than any before turns up, what was summed so
far is scaled down to it. Scores are in units of log2, so that exp2, which the hardware has, is enough.

Nothing beyond a sequence's length is read: a stale or never written slot may hold anything, NaN too.
"""

import triton
import triton.language as tl


# what changes from step to step is not compiled in: kernels for every length would be compiled in the midst of serving
@triton.jit(do_not_specialize=["table_stride", "split_tokens", "num_splits"])
def decode_split(
    queries, keys, values, scales_of_keys, scales_of_values, block_tables, context_lens,
    outputs, partial_maxima, partial_sums, partial_outputs,
    scale_log2, block_stride, scales_stride, table_stride, split_tokens, num_splits,
    GROUP: tl.constexpr, GROUP_PADDED: tl.constexpr, HEAD_DIM: tl.constexpr, HEAD_DIM_PADDED: tl.constexpr,
    BLOCK_SIZE: tl.constexpr, TILE: tl.constexpr, QUANTISED: tl.constexpr, WRITE_PARTIALS: tl.constexpr,
    WIDEN: tl.constexpr,
):
    """One program: one sequence, one KV head, one split. Grid (sequences, KV heads, splits).

    queries and outputs [sequences, heads, HEAD_DIM]; keys and values [blocks, KV heads, BLOCK_SIZE, HEAD_DIM] of one
    layer; scales [blocks, KV heads, BLOCK_SIZE] if QUANTISED; partials [sequences, heads, num_splits(, HEAD_DIM)].
    WIDEN computes in fp32 throughout.
    """
    sequence = tl.program_id(0)
    kv_head = tl.program_id(1)
    split = tl.program_id(2)
    num_tokens = tl.load(context_lens + sequence)
    first = split * split_tokens
    if first >= num_tokens:
        return  # a short sequence has fewer splits; combine_splits knows which
    end = tl.minimum(first + split_tokens, num_tokens)

    row = tl.arange(0, GROUP_PADDED)
    column = tl.arange(0, HEAD_DIM_PADDED)
    token = tl.arange(0, TILE)
    is_row = row < GROUP
    is_column = column < HEAD_DIM
    num_heads = tl.num_programs(1) * GROUP
    # 64 bits: sequences × heads × splits × head_dim, or a large pool, can pass 2^31
    head = sequence.to(tl.int64) * num_heads + kv_head * GROUP + row
    query = tl.load(queries + head[:, None] * HEAD_DIM + column[None, :],
                    mask=is_row[:, None] & is_column[None, :], other=0.0)
    if WIDEN:
        query = query.to(tl.float32)
    table = block_tables + sequence.to(tl.int64) * table_stride

    maximum = tl.full([GROUP_PADDED], float("-inf"), tl.float32)
    total = tl.zeros([GROUP_PADDED], tl.float32)
    output = tl.zeros([GROUP_PADDED, HEAD_DIM_PADDED], tl.float32)
    for start in range(first, end, TILE):
        position = start + token
        is_token = position < end
        if BLOCK_SIZE % TILE == 0:
            # a tile lies within one block: one look into the table
            block = tl.load(table + start // BLOCK_SIZE).to(tl.int64)
            offset = start % BLOCK_SIZE + token
        else:
            block = tl.load(table + position // BLOCK_SIZE, mask=is_token, other=0).to(tl.int64)
            offset = position % BLOCK_SIZE
        in_block = kv_head * BLOCK_SIZE + offset
        address = block * block_stride + in_block * HEAD_DIM
        places = address[:, None] + column[None, :]
        wanted = is_token[:, None] & is_column[None, :]
        key = tl.load(keys + places, mask=wanted, other=0.0)
        value = tl.load(values + places, mask=wanted, other=0.0)
        if QUANTISED:
            scale_places = block * scales_stride + in_block
            key_scale = tl.load(scales_of_keys + scale_places, mask=is_token, other=0.0).to(tl.float32)
            value_scale = tl.load(scales_of_values + scale_places, mask=is_token, other=0.0).to(tl.float32)
            # the integers -127 … 127 are exact in all of the compute types; one scale is enough for a whole key
            key = key.to(query.dtype)
            value = (value.to(tl.float32) * value_scale[:, None]).to(query.dtype)

        if WIDEN:
            key = key.to(tl.float32)
            value = value.to(tl.float32)

        if GROUP_PADDED == 1:
            scores = tl.sum(query.to(tl.float32) * key.to(tl.float32), 1)[None, :]
        else:
            scores = tl.dot(query, tl.trans(key), input_precision="ieee")
        scores = scores * scale_log2
        if QUANTISED:
            scores = scores * key_scale[None, :]
        scores = tl.where(is_token[None, :], scores, float("-inf"))

        # every tile has at least one token, so new_maximum is finite from the first tile on
        new_maximum = tl.maximum(maximum, tl.max(scores, 1))
        shrink = tl.exp2(maximum - new_maximum)
        weights = tl.exp2(scores - new_maximum[:, None])
        total = total * shrink + tl.sum(weights, 1)
        output = output * shrink[:, None]
        if GROUP_PADDED == 1:
            output += tl.sum(tl.trans(weights) * value.to(tl.float32), 0)[None, :]
        else:
            output += tl.dot(weights.to(value.dtype), value, input_precision="ieee")
        maximum = new_maximum

    if WRITE_PARTIALS:
        partial = head * num_splits + split
        tl.store(partial_maxima + partial, maximum, mask=is_row)
        tl.store(partial_sums + partial, total, mask=is_row)
        tl.store(partial_outputs + partial[:, None] * HEAD_DIM + column[None, :], output,
                 mask=is_row[:, None] & is_column[None, :])
    else:
        result = output / total[:, None]
        tl.store(outputs + head[:, None] * HEAD_DIM + column[None, :], result.to(outputs.dtype.element_ty),
                 mask=is_row[:, None] & is_column[None, :])


@triton.jit(do_not_specialize=["split_tokens", "num_splits"])
def combine_splits(
    outputs, partial_maxima, partial_sums, partial_outputs, context_lens, split_tokens, num_splits,
    HEAD_DIM: tl.constexpr, HEAD_DIM_PADDED: tl.constexpr, SPLITS_AT_ONCE: tl.constexpr,
):
    """One program: one sequence, one head. Merges the partials of the splits that the sequence has, always in the same
    order, so that the result is the same in every run. Grid (sequences, heads)."""
    sequence = tl.program_id(0)
    head = sequence.to(tl.int64) * tl.num_programs(1) + tl.program_id(1)
    used_splits = tl.cdiv(tl.load(context_lens + sequence), split_tokens)
    column = tl.arange(0, HEAD_DIM_PADDED)
    is_column = column < HEAD_DIM

    maximum = float("-inf")
    total = 0.0
    output = tl.zeros([HEAD_DIM_PADDED], tl.float32)
    for first in range(0, used_splits, SPLITS_AT_ONCE):
        split = first + tl.arange(0, SPLITS_AT_ONCE)
        is_split = split < used_splits
        partial = head * num_splits + split
        maxima = tl.load(partial_maxima + partial, mask=is_split, other=float("-inf"))
        sums = tl.load(partial_sums + partial, mask=is_split, other=0.0)
        parts = tl.load(partial_outputs + partial[:, None] * HEAD_DIM + column[None, :],
                        mask=is_split[:, None] & is_column[None, :], other=0.0)
        new_maximum = tl.maximum(maximum, tl.max(maxima, 0))
        shrink = tl.exp2(maximum - new_maximum)
        weights = tl.exp2(maxima - new_maximum)
        total = total * shrink + tl.sum(sums * weights, 0)
        output = output * shrink + tl.sum(parts * weights[:, None], 0)
        maximum = new_maximum
    result = output / total
    tl.store(outputs + head * HEAD_DIM + column, result.to(outputs.dtype.element_ty), mask=is_column)
