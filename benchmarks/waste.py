"""How much of a KV cache's memory holds tokens? The bars of the PagedAttention paper's figure 2, from our simulation.

    python benchmarks/waste.py [--trace FILE.csv] [--profile NAME] [--requests 500] [--memory-gib 16]
                               [--token-kib 512] [--longest TOKENS]

Lengths are drawn from a public trace's percentiles, or read from a CSV file with the columns of the Azure 2023 traces
(see `pagedkv.rivals.kv_workload`). All but the last line is counted, not timed, so two runs print the
same. The columns, in percent of the memory:

    filled    holds tokens
    reserved  set aside, and filled before the request ends
    internal  set aside, and never filled
    external  set aside for nobody, while requests wait
    paper     filled, as the paper measured it with its own models and requests

and then how many requests run at a time, how many tokens are set aside for each of them and hold nothing, the steps
that the means are over, preemptions, tokens that were computed again because of them, and tokens that were copied.
"""

import argparse
import time

from pagedkv.rivals.kv_schemes import ARTICLE_FILLED, usual_schemes
from pagedkv.rivals.kv_simulation import compare, sweep_block_sizes
from pagedkv.rivals.kv_sins import long_tail
from pagedkv.rivals.kv_workload import PROFILES, cut, draw_requests, read_trace

KIB, GIB = 1 << 10, 1 << 30


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trace", help="a CSV file of request lengths")
    parser.add_argument("--profile", default=PROFILES[0].name, choices=[profile.name for profile in PROFILES],
                        help="whose lengths to draw")
    parser.add_argument("--requests", type=int, default=500)
    parser.add_argument("--memory-gib", type=float, default=16)
    parser.add_argument("--token-kib", type=int, default=512,
                        help="keys and values of one token; 512 is a 7B model in fp16")
    parser.add_argument("--longest", type=int,
                        help="the model's context; longer requests are cut. Without it: the longest")
    return parser.parse_args()


def main():
    options = arguments()
    capacity_bytes, bytes_per_token = int(options.memory_gib * GIB), options.token_kib * KIB
    if options.trace:
        name, requests = options.trace, read_trace(options.trace, options.requests)
    else:
        profile = next(profile for profile in PROFILES if profile.name == options.profile)
        name, requests = f"drawn from {profile.name}", draw_requests(profile, options.requests)
    if options.longest:
        requests = cut(requests, options.longest)
    tail = long_tail(requests, capacity_bytes // bytes_per_token)
    print(f"{name}: {len(requests)} requests, {tail.mean_tokens:.0f} tokens on average, {tail.usual_tokens} at most in "
          f"99 of 100, {tail.longest_tokens} at most; memory for {capacity_bytes // bytes_per_token:,} tokens")
    begin = time.perf_counter()
    print()
    print_table(compare(requests, capacity_bytes, bytes_per_token, usual_schemes(), options.longest))
    print(f"\nThe article: {ARTICLE_FILLED['before']:.0%} before, {ARTICLE_FILLED['PagedAttention']:.0%} with "
          "PagedAttention.\n")
    print_table(sweep_block_sizes(requests, capacity_bytes, bytes_per_token))
    print(f"\n{time.perf_counter() - begin:.1f} s")


def print_table(results):
    print(f"{'':24}{'filled':>8}{'reserved':>10}{'internal':>10}{'external':>10}{'paper':>8}   "
          f"{'running':>8}{'lost/req':>10}{'steps':>9}{'preempt':>9}{'recomputed':>12}{'moved':>10}")
    for result in results:
        paper = f"{result.paper_filled:>8.1%}" if result.paper_filled is not None else f"{'':>8}"
        shares = "".join(f"{part:>{width}.1%}" for part, width in zip(result.waste, (8, 10, 10, 10)))
        print(f"{result.title:24}{shares}{paper}   {result.running:>8.1f}{result.lost_tokens:>10.1f}{result.steps:>9}"
              f"{result.preemptions:>9}{result.recomputed_tokens:>12}{result.moved_tokens:>10}")


if __name__ == "__main__":
    main()
