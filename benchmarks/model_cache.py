"""What a paged cache does for a real model, one figure for each section.

    OMP_NUM_THREADS=1 python benchmarks/model_cache.py [equality] [prefix] [concatenation] [no_cache] [int8]

Without a name all of them run, a few minutes on a laptop. It needs the model: python -m pagedkv.model fetches it.

    equality        whether the tokens are those of transformers' own cache, by case
    prefix          the first token's time, when 1,000 tokens of the prompt are there already, and when not
    concatenation   adding a token's keys and values to tensors that grow, and in place, by length, 8 sequences
    no_cache        a token's time by length, with and without a cache, and the laws that fit
    int8            what INT8 keys and values change, at every place of the texts below

With one thread CPU time is counted, else the time on the clock; variants take turns, and medians are compared.
--tiny takes a small random model and short texts: to see that everything runs, not what it costs.
"""

import argparse
import json
import math
from dataclasses import asdict

TEXTS = (
    "A page table tells a process where its memory really is. The process sees one long row of addresses, and the "
    "machine keeps the pages wherever there was room. A block table does the same for a language model: the model sees "
    "one long row of tokens, and their keys and values lie in blocks all over the pool. Nobody has to move them when "
    "the text grows, and two texts that begin with the same words can point to the same blocks.",
    "Dear colleague, the service ran out of memory again last night, at ten past three. The heap was half empty at "
    "that time, but the largest free piece was smaller than the buffer that was asked for. I have made a dump and put "
    "it beside the log. Please look at the order in which the connections were closed; I believe that one of them "
    "never gave its buffer back. Until we know more, the old version stays in place. Best regards, and thank you for "
    "the cake.",
    "public int nextFree(int from) { for (int i = from; i < size; i++) { if (refCount[i] == 0) { return i; } } "
    "return -1; } // The caller holds the lock. If nothing is free it evicts the block that was released first, and "
    "tries once more. public void release(int block) { if (--refCount[block] == 0) { free.push(block); } }",
    "On the first day of the harvest the whole village walked down to the river. The children carried the baskets, and "
    "the old people told them which apples would keep through the winter and which had to be eaten soon. By noon the "
    "sun was high and everyone sat in the shade of the mill. Somebody had brought bread and cheese, somebody else a "
    "fiddle. When the evening came there were forty baskets on the cart, and the horse did not want to move.",
    "How does a refrigerator work? A liquid that boils at a low temperature is led through tubes inside the box. As it "
    "turns into a gas it takes heat from the food around it. A pump then presses the gas together, which makes it hot, "
    "and outside the box it gives its heat to the air of the kitchen and becomes a liquid again. So nothing makes "
    "cold: the heat is only carried from the inside to the outside, and the pump needs electricity for that.",
)
PROMPTS = ("The block table of a process", "Why is the sky blue? Explain it to a child who is six years old.",
           "public static void main",
           "Once upon a time there was a pool of memory, and in it lived many small blocks that")


class Setting:
    """The model, its texts as tokens, and sizes: large ones, or those of --tiny."""

    def __init__(self, tiny: bool):
        self.tiny = tiny
        if tiny:
            self.model, self.tokens = _tiny_model(), lambda text: [5 + byte % 90 for byte in text.encode()]
            self.texts = [self.tokens(text)[:40] for text in TEXTS]
            self.prompts = [self.tokens(prompt)[:20] for prompt in PROMPTS]
            self.num_tokens, self.shared_tokens, self.rounds = 6, 64, 1
            self.lengths, self.cat_lengths = (8, 16, 24, 32, 48, 64), (16, 64)
        else:
            from pagedkv.model import load_model
            self.model, tokenizer = load_model()
            self.tokens = lambda text: tokenizer(text).input_ids
            self.texts = [self.tokens(text) for text in TEXTS]
            self.prompts = [self.tokens(prompt) for prompt in PROMPTS]
            self.num_tokens, self.shared_tokens, self.rounds = 24, 1000, 3
            self.lengths, self.cat_lengths = (64, 128, 256, 384, 512, 640, 768, 1024), (128, 1024, 4096, 8192)

    def long_text(self, num_tokens: int) -> list[int]:
        joined = [token for text in self.texts for token in text]
        return (joined * math.ceil(num_tokens / len(joined)))[:num_tokens]


def _tiny_model():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=97, hidden_size=48, intermediate_size=64, num_hidden_layers=2,
                         num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=256)
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:  # as they are at first, hardly anything depends on what came before
                parameter.normal_(0, 0.25)
    return model


def equality(setting: Setting) -> list[dict]:
    from pagedkv.attention.measure import measure_equality
    rows = measure_equality(setting.model, setting.prompts, setting.num_tokens)
    print(f"{'case':28}{'sequences':>10}{'equal':>8}{'tokens':>8}")
    for row in rows:
        print(f"{row.case:28}{row.num_sequences:10}{row.num_equal:8}{row.num_tokens:8}")
    return list(map(asdict, rows))


def prefix(setting: Setting) -> dict:
    from pagedkv.attention.measure import measure_prefix
    tail = setting.tokens(" What did the horse want?")[:16]
    times = measure_prefix(setting.model, setting.long_text(setting.shared_tokens), tail,
                           following_tokens=setting.num_tokens if setting.tiny else 40, rounds=setting.rounds)
    print(f"prompt of {times.num_tokens:,} tokens, {times.num_cached_tokens:,} of them there already: first token "
          f"{times.without_seconds:.3f} s → {times.with_seconds:.3f} s, {times.ratio:.1f} ×")
    print(f"the {times.following_tokens} tokens that follow are {'the same' if times.same_tokens else 'NOT THE SAME'}")
    return asdict(times) | {"ratio": times.ratio}


def concatenation(setting: Setting) -> list[dict]:
    from pagedkv.attention.measure import measure_concatenation
    rows = measure_concatenation(setting.model, setting.cat_lengths, steps=2 if setting.tiny else 9)
    print("ms for one more token in one layer, 8 sequences")
    print(f"{'tokens each':>12}{'torch.cat':>12}{'in place':>12}{'DynamicCache':>14}{'paged':>10}{'ratio':>8}")
    for row in rows:
        print(f"{row.num_tokens:12,}{row.concatenated_seconds * 1e3:12.3f}{row.in_place_seconds * 1e3:12.3f}"
              f"{row.dynamic_cache_seconds * 1e3:14.3f}{row.paged_seconds * 1e3:10.3f}{row.ratio:8.1f}")
    return [asdict(row) for row in rows]


def no_cache(setting: Setting) -> dict:
    from pagedkv.attention.measure import fit_law, measure_steps
    rows = measure_steps(setting.model, setting.lengths, setting.rounds)
    lengths = [row.num_tokens for row in rows]
    laws = {"without": fit_law(lengths, [row.without_seconds for row in rows], 2),
            "with": fit_law(lengths, [row.with_seconds for row in rows], 1)}
    print(f"{'tokens':>8}{'without, ms':>14}{'off the law':>13}{'with, ms':>12}{'off the law':>13}{'ratio':>8}")
    for row, off, off_with in zip(rows, laws["without"].residuals, laws["with"].residuals):
        print(f"{row.num_tokens:8,}{row.without_seconds * 1e3:14.1f}{off:+13.1%}{row.with_seconds * 1e3:12.1f}"
              f"{off_with:+13.1%}{row.without_seconds / row.with_seconds:8.1f}")
    print(f"without a cache: {laws['without']}\nwith a cache:    {laws['with']}")
    return {"rows": list(map(asdict, rows)), "laws": {name: asdict(law) for name, law in laws.items()}}


def int8(setting: Setting) -> list[dict]:
    from pagedkv.attention.measure import int8_drift
    rows = int8_drift(setting.model, setting.texts)
    print(f"{'':24}{'tokens':>8}{'agreement':>12}{'max logit change':>18}{'mean KL, nats':>15}")
    for row in rows:
        print(f"{row.what:24}{row.num_tokens:8}{row.agreement:12.3f}{row.max_logit_change:18.3f}{row.mean_kl:15.2e}")
    return list(map(asdict, rows))


SECTIONS = {section.__name__: section for section in (equality, prefix, concatenation, no_cache, int8)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="section",
                        help=f"of {', '.join(SECTIONS)}; all if none is named")
    parser.add_argument("--tiny", action="store_true", help="a small random model and short texts")
    parser.add_argument("--json", help="write the figures to this file as well")
    arguments = parser.parse_args()
    unknown = set(arguments.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"{', '.join(sorted(unknown))}: a section is one of {', '.join(SECTIONS)}")
    setting = Setting(arguments.tiny)
    figures = {}
    for name in arguments.sections or SECTIONS:
        print(f"── {name} ──")
        figures[name] = SECTIONS[name](setting)
        print(flush=True)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(figures, file, indent=1)


if __name__ == "__main__":
    main()
