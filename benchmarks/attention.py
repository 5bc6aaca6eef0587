"""What paged attention costs. Prints ratios against keys and values in one piece, in the same run.

    python benchmarks/attention.py [--contexts 128,1024,4096] [--batches 1,8] [--backends gather,blockwise,compiled]

A *decode step* is measured: each of `batch` sequences has `context` tokens cached and gets one more. The reference is
the tight static cache of transformers: for each sequence room for just these context + 1 tokens, in one piece,
allocated before, with PyTorch's attention (SDPA) over all of it. Two tables:

    the whole step          `PagedModel.append` and `forward`, with all that goes with them in Python, against a call of
                            the same model with `StaticCache`
    the attention alone     of all layers, given the keys, values and query, against SDPA on the static cache's tensors,
                            without a mask and with the query heads of a group as rows, which is the fastest way it has

A ratio of 1.05 means that the paged variant takes 1.05 times as long. The paged keys and values lie in blocks in random
order. Variants take turns step by step, each round begins with another one, CPU time is counted, with one thread unless
--threads says more (then it is the time on the clock), and the medians are compared. All variants have the same numbers
in their caches and must agree on the logits.

The model is that of `python -m pagedkv.model`; --random takes one of the same shape with random weights instead, which
needs no network and takes the same time. --tiny shows in a few seconds that all of this works; its times mean little.
"""

import argparse
import copy
import gc
import json
import random
import statistics
import sys
import time
from functools import partial

import torch
from torch.nn.functional import scaled_dot_product_attention

from pagedkv.attention import BACKENDS, PagedBatch, PagedModel
from pagedkv.attention.backends import backend, choose_backend
from pagedkv.storage.kv_storage import KVStorage

STATIC, SDPA = "static", "SDPA"
# A variant that has taken so long sits out the rounds that are left: it is many times slower than the others.
MOST_SECONDS = 6


def random_model(tiny):
    """The shape of SmolLM2-135M, or a very small one."""
    from transformers import LlamaConfig, LlamaForCausalLM
    sizes = {"hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "vocab_size": 49152}
    if tiny:
        sizes = {"hidden_size": 72, "intermediate_size": 96, "num_hidden_layers": 2, "vocab_size": 128}
    torch.manual_seed(0)
    config = LlamaConfig(**sizes, num_attention_heads=9, num_key_value_heads=3, max_position_embeddings=8192,
                         tie_word_embeddings=True)
    return LlamaForCausalLM(config).eval()


class Cell:
    """One batch size and context: the same keys and values in blocks and in one piece, and the steps to measure."""

    def __init__(self, model, batch_size, context, block_size, backends):
        self.model, self.context = model, context
        # besides the prompts, a block for each sequence's new token
        self.storage = KVStorage.for_model(model, batch_size * (context // block_size + 1), block_size)
        self.storage.data.normal_()
        generator = random.Random(0)
        vocabulary = model.config.vocab_size
        self.prompts = [generator.choices(range(vocabulary), k=context) for _ in range(batch_size)]
        self.tokens = torch.tensor(generator.choices(range(vocabulary), k=batch_size))
        self.paged = {name: self._paged_model(name) for name in backends}
        self.static = self._static_cache(*self.paged[backends[0]])

    def _paged_model(self, name):
        """All of them have the same tensors and the same tables. A storage belongs to one PagedModel, so each gets a
        shallow copy, which has the same tensors: they write the same numbers to the same places."""
        paged = PagedModel(self.model, storage=copy.copy(self.storage), backend=name)
        shuffle_free_blocks(paged.manager.pool)
        seqs = paged.add_all(self.prompts)
        for seq in seqs:
            # as if the prompt had been computed: there are numbers in its blocks
            paged.progress[seq].begin = self.context
        return paged, seqs

    def _static_cache(self, paged, seqs):
        from transformers import StaticCache
        storage = self.storage
        cache = StaticCache(config=self.model.config, max_cache_len=self.context + 1)
        cache.early_initialization(len(seqs), storage.num_kv_heads, storage.head_dim, storage.dtype, storage.device)
        for number, layer in enumerate(cache.layers):
            for row, seq in enumerate(seqs):
                keys, values = storage.gather(number, seq.block_table, self.context)
                layer.keys[row, :, :self.context], layer.values[row, :, :self.context] = keys, values
        return cache

    def steps(self):
        """By name: a function that makes one whole step and returns (seconds, logits)."""
        return {STATIC: self._static_step} | {name: partial(self._paged_step, name) for name in self.paged}

    def _static_step(self):
        for layer in self.static.layers:
            layer.cumulative_length.fill_(self.context)
        column = self.tokens[:, None]
        return timed(lambda: self.model(input_ids=column, cache=self.static, use_cache=True).logits[:, -1])

    def _paged_step(self, name):
        paged, prompts = self.paged[name]
        seqs = [paged.fork(seq) for seq in prompts]

        def step():
            # into new blocks, as the context ends with a full one: nothing has to be copied
            paged.append(seqs, self.tokens)
            return paged.forward(seqs)

        result = timed(step)
        paged.free(seqs)
        return result

    def attentions(self):
        """By name: a function that does the attention of all layers and returns (seconds, the last layer's result).
        Call it after a step with the static cache: then all of them have the new token's keys and values, too."""
        storage, num_sequences = self.storage, len(self.tokens)
        scale = storage.head_dim**-0.5
        query = torch.randn(num_sequences, self.model.config.num_attention_heads, storage.head_dim, dtype=storage.dtype)
        grouped = query.view(num_sequences, storage.num_kv_heads, -1, storage.head_dim)
        paged, prompts = next(iter(self.paged.values()))
        seqs = [paged.fork(seq) for seq in prompts]
        paged.append(seqs, self.tokens)
        paged.forward(seqs)
        batch = PagedBatch.build([seq.block_table for seq in seqs], [self.context + 1] * num_sequences,
                                 [1] * num_sequences, storage)
        paged.free(seqs)

        def contiguous():
            for layer in self.static.layers:
                result = scaled_dot_product_attention(grouped, layer.keys, layer.values, scale=scale)
            return result.view(query.shape)

        def in_blocks(attend):
            for layer in range(storage.num_layers):
                result = attend(query, storage, layer, batch, scale)
            return result

        works = {SDPA: contiguous} | {name: partial(in_blocks, backend(name)) for name in self.paged}
        return {name: partial(timed, work) for name, work in works.items()}


def shuffle_free_blocks(pool):
    """Blocks are handed out in the order of their ids at first. In a pool that has been used they are not."""
    blocks = pool.allocate(pool.num_blocks)
    random.Random(0).shuffle(blocks)
    for block in blocks:
        pool.release([block])


def timed(work):
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    start = clock()
    result = work()
    return clock() - start, result


def medians(works, rounds):
    """Seconds by name. The first round warms up, and there the results are compared with that of the first name."""
    names = list(works)
    results = {name: work()[1] for name, work in works.items()}
    expected = results[names[0]]
    for name, result in results.items():
        error = (result - expected).abs().max().item() / expected.abs().max().item()
        if not error < 1e-3:
            raise SystemExit(f"{name} and {names[0]} do not agree: the largest difference is {error:.1e} of the "
                             "largest number")
    seconds = {name: [] for name in names}
    for number in range(rounds):
        first = number % len(names)
        for name in names[first:] + names[:first]:
            if number == 0 or sum(seconds[name]) < MOST_SECONDS:
                seconds[name].append(works[name]()[0])
    return {name: statistics.median(times) for name, times in seconds.items()}


def measure(model, batch_size, context, block_size, backends, rounds):
    cell = Cell(model, batch_size, context, block_size, backends)
    step, attention = medians(cell.steps(), rounds), medians(cell.attentions(), rounds)
    return {"batch": batch_size, "context": context, "step_seconds": step, "attention_seconds": attention}


def print_table(title, rows, key, reference, backends):
    print(f"\n{title}\n{'batch':>5}{'context':>9}{reference + ' ms':>12}"
          + "".join(f"{'× ' + name:>14}" for name in backends))
    for row in rows:
        seconds = row[key]
        print(f"{row['batch']:5}{row['context']:9,}{seconds[reference] * 1e3:12.2f}"
              + "".join(f"{seconds[name] / seconds[reference]:14.2f}" for name in backends))
    if len(rows) > 1:
        worst = [max(row[key][name] / row[key][reference] for row in rows) for name in backends]
        print(f"{'worst':26}" + "".join(f"{ratio:14.2f}" for ratio in worst))


def usable(names, storage):
    """Without those that do not run here. Left out, not replaced: a row says what it measures."""
    found = []
    for name in names:
        try:
            found.append(choose_backend(name, storage))
        except Exception as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return found


def positive_numbers(text):
    numbers = [part.strip() for part in text.split(",")]
    for number in numbers:
        if not number.isdecimal() or int(number) < 1:
            raise argparse.ArgumentTypeError("these are whole numbers from 1 on, with commas between, such as 16,32; "
                                             f"got {number!r} in {text!r}")
    return [int(number) for number in numbers]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--contexts", type=positive_numbers, default=[128, 1024, 4096], metavar="TOKENS,…",
                        help="multiples of the block size")
    parser.add_argument("--batches", type=positive_numbers, default=[1, 8], metavar="SEQUENCES,…")
    parser.add_argument("--backends", default="gather,blockwise,compiled", metavar="NAME,…")
    parser.add_argument("--block-size", type=int, default=16, metavar="TOKENS")
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--random", action="store_true", help="random weights of the real model's shape")
    parser.add_argument("--tiny", action="store_true", help="a very small model, short contexts, one round")
    parser.add_argument("--json", metavar="FILE", help="write the seconds to this file, too")
    arguments = parser.parse_args()
    for name in ("block_size", "rounds", "threads"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name.replace('_', '-')} is at least 1, got {getattr(arguments, name)}")
    contexts, batches, rounds, size = arguments.contexts, arguments.batches, arguments.rounds, arguments.block_size
    if arguments.tiny:
        contexts, batches, rounds = [2 * size, 6 * size], [1, 3], 1
    for context in contexts:
        if context % size:
            parser.error(f"a context is whole blocks: {context} is no multiple of the block size, {size}")
    names = arguments.backends.split(",")
    unknown = [name for name in names if name not in BACKENDS]
    if unknown:
        parser.error(f"{unknown[0]} is no backend: they are {', '.join(BACKENDS)}")

    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    if arguments.tiny or arguments.random:
        model = random_model(arguments.tiny)
    else:
        from pagedkv.model import load_model
        model = load_model(device="cpu")[0]
    most = model.config.max_position_embeddings
    if max(contexts) + 1 > most:
        parser.error(f"a context of {max(contexts):,} and one more token is too much: the model has positions for "
                     f"{most:,}")
    backends = usable(names, KVStorage.for_model(model, 1, size))
    if not backends:
        raise SystemExit("no backend to measure")

    gc.disable()
    with torch.no_grad():
        rows = []
        for batch_size in batches:
            for context in contexts:
                print(f"measuring batch {batch_size}, context {context:,} …", file=sys.stderr)
                rows.append(measure(model, batch_size, context, size, backends, rounds))
    clock = "CPU time" if arguments.threads == 1 else f"time, {arguments.threads} threads"
    print(f"medians of {rounds} rounds, {clock}, {str(model.dtype).removeprefix('torch.')}, blocks of {size} tokens")
    print_table("the whole step", rows, "step_seconds", STATIC, backends)
    print_table("the attention alone, all layers", rows, "attention_seconds", SDPA, backends)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
