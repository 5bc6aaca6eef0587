"""Block sizes (claims B4, S8): what each wastes, how large the tables are, and what the allocator takes per token.

    python benchmarks/block_size.py [--sequences 2000] [--model Llama-2-7B] [--rounds 5] [--timed-sequences 64]
                                    [--longest-timed 1000]

All but the last columns are counted, not timed. For the times, block sizes take turns, CPU time is counted, and the
median is given, in ns per token: of `BlockPool`, which a token costs nothing but its share of a block, and of
`KVCacheManager`, which is called for each token. × compares with a block size of 16.

    waste      token slots in allocated blocks that hold no token
    tokens     of these per sequence, and (B − 1) / 2 beside it
    lost       the same in bytes of the model's KV cache, per sequence
    entries    in block tables, per sequence; and the bytes of all tables
"""

import argparse
import statistics

from pagedkv.core.kv_size import MODELS, kv_bytes_per_token
from pagedkv.core.memory import as_text
from pagedkv.core.sizing import best_block_size
from pagedkv.rivals.block_size import (ARTICLE_ALLOCATE_US, ARTICLE_SIZES_TOKENS, ARTICLE_UTILISATION, LENGTHS,
                                       NESTED_SIZES_TOKENS, allocator_ns_per_token, draw_lengths,
                                       manager_ns_per_token, sweep)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sequences", type=int, default=2000)
    parser.add_argument("--model", choices=list(MODELS), default="Llama-2-7B")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--timed-sequences", type=int, default=64)
    parser.add_argument("--longest-timed", type=int, default=1000,
                        help="in tokens; longer sequences are cut for the timing")
    options = parser.parse_args()
    token_bytes = kv_bytes_per_token(MODELS[options.model])
    for name in LENGTHS:
        lengths = draw_lengths(name, options.sequences)
        mean = sum(lengths) / len(lengths)
        print(f"{name}: {len(lengths):,} sequences of {mean:,.0f} tokens on average; √(2·L·e/t) for {options.model}: "
              f"{best_block_size(mean, token_bytes, 4):.2f}")
        timed = [min(length, options.longest_timed) for length in lengths[:options.timed_sequences]]
        pool = time_sizes(allocator_ns_per_token, timed, options.rounds)
        manager = time_sizes(manager_ns_per_token, timed, options.rounds)
        print(f"{'block size':>12}{'waste':>9}{'tokens':>9}{'(B−1)/2':>9}{'lost':>12}{'entries':>10}{'tables':>12}"
              f"{'pool, ns':>10}{'× 16':>7}{'manager, ns':>13}{'× 16':>7}")
        for row in sweep(lengths, NESTED_SIZES_TOKENS):
            print(f"{row.block_size:>12}{row.waste:>9.1%}{row.waste_tokens:>9.1f}{row.expected_waste_tokens:>9.1f}"
                  f"{as_text(round(row.waste_tokens * token_bytes)):>12}{row.num_entries / row.num_sequences:>10.1f}"
                  f"{as_text(row.table_bytes):>12}{pool[row.block_size]:>10.1f}{pool[row.block_size] / pool[16]:>7.2f}"
                  f"{manager[row.block_size]:>13.1f}{manager[row.block_size] / manager[16]:>7.2f}")
        print()
    article = ", ".join(f"{size}: {share:.0%} used, {time} µs" for size, share, time in
                        zip(ARTICLE_SIZES_TOKENS, ARTICLE_UTILISATION, ARTICLE_ALLOCATE_US))
    print(f"The article: {article}")


def time_sizes(measure, lengths, rounds):
    kept = {size: [] for size in NESTED_SIZES_TOKENS}
    for _ in range(rounds):
        for size, times in kept.items():
            times.append(measure(lengths, size))
    return {size: statistics.median(times) for size, times in kept.items()}


if __name__ == "__main__":
    main()
