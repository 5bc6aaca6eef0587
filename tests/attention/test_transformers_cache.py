"""PagedCache in `model.generate`: padded batches, shared prefixes, beams and chunks give transformers' own tokens."""

import copy

import pytest
import torch

from pagedkv import OutOfBlocks, UseAfterFree
from pagedkv.attention import PagedCache, PagedModel
from pagedkv.attention.left_padding import left_padding
from tests.attention.tiny_model import one_thread, random_model, random_prompts, shuffle_pool

NEW = 8


@pytest.fixture(scope="module", autouse=True)
def threads():
    with one_thread():
        yield


def make(model, num_blocks=None, block_size=4, backend="gather", **options):
    paged = PagedModel(model, num_blocks or 800 // block_size, block_size, backend=backend, **options)
    shuffle_pool(paged)
    return paged


def batch(prompts):
    """Padded on the left, as a tokenizer does it."""
    width = max(map(len, prompts))
    return {"input_ids": torch.tensor([[0] * (width - len(prompt)) + prompt for prompt in prompts]),
            "attention_mask": torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts])}


def generate(model, inputs, num_tokens=NEW, **options):
    return model.generate(**inputs, **{"max_new_tokens": num_tokens, "do_sample": False} | options)


def same(paged, inputs, num_tokens=NEW, **options):
    """The tokens with a paged cache, checked against those without; and that it gives all blocks back."""
    expected = generate(paged.model, inputs, num_tokens, **options)
    with paged.cache_for(**inputs) as cache:
        ours = generate(paged.model, inputs, num_tokens, cache=cache, **options)
    assert torch.equal(ours, expected)
    assert paged.num_free_blocks == paged.num_blocks and not paged.manager.live_sequences
    assert paged.model.config._attn_implementation == "sdpa" and not paged.model._forward_pre_hooks
    return ours


def test_one_prompt(model, any_backend, block_size):
    same(make(model, block_size=block_size, backend=any_backend), batch(random_prompts([11])), eos_token_id=None)


def test_a_batch_padded_on_the_left(model, any_backend, block_size):
    paged = make(model, block_size=block_size, backend=any_backend)
    inputs = batch(random_prompts([11, 3, 24, 1, 16]))
    same(paged, inputs, eos_token_id=None)
    same(paged, inputs, 25)  # some rows end early


def test_padding_is_never_written(model):
    paged = make(model)
    inputs = batch(random_prompts([11, 3, 24, 1, 16]))
    written, write = [], paged.storage.write
    paged.storage.write = lambda layer, slots, *rest: written.append(slots.num_tokens) or write(layer, slots, *rest)
    with paged.cache_for(**inputs) as cache:
        generate(model, inputs, 3, cache=cache, eos_token_id=None)
        assert [len(paged.tokens(seq)) for seq in cache.sequences] == [13, 5, 26, 3, 18]
    assert written == [55] * 3 + [5] * 6


def test_three_lines_are_enough(model):
    inputs = batch(random_prompts([11, 3]))
    expected = model.generate(**inputs, max_new_tokens=9)
    paged = PagedModel(model, num_blocks=64)
    with paged.cache_for(**inputs) as cache:
        tokens = model.generate(**inputs, max_new_tokens=9, cache=cache)
    assert torch.equal(tokens, expected)


def test_a_prefix_that_is_there_is_cut_from_the_prompt(model, any_backend, block_size):
    paged = make(model, block_size=block_size, backend=any_backend)
    common, *tails = random_prompts([40, 5, 5, 9])
    same(paged, batch([common + tails[0]]))
    inputs = batch([common + tail for tail in tails[1:]])
    shared = 40 // block_size * block_size
    with paged.cache_for(**inputs) as cache:
        # the first row has 4 columns of padding and then the prefix; the second one finds the same and needs more
        assert [seq.num_cached_tokens for seq in cache.sequences] == [shared, shared]
        assert cache.get_seq_length() == shared
        columns = []
        hook = model.register_forward_pre_hook(lambda _, args, kwargs: columns.append(kwargs["input_ids"].shape[1]),
                                               with_kwargs=True)
        generate(model, inputs, 3, cache=cache, eos_token_id=None)
        hook.remove()
    assert columns == [49 - shared, 1, 1]
    same(paged, inputs, eos_token_id=None)
    same(paged, batch([tails[0], common + tails[1], common]), eos_token_id=None)


def test_rows_share_what_other_rows_of_the_batch_compute(model):
    common, *tails = random_prompts([30, 5, 11, 2])
    for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2]):
        paged = make(model)
        prompts = [common + tails[index] for index in order]
        with paged.cache_for(**batch(prompts)) as cache:
            assert sorted(seq.num_cached_tokens for seq in cache.sequences) == [0, 28, 28]
        same(paged, batch(prompts), eos_token_id=None)


def test_a_prompt_that_was_added_and_not_computed_is_computed_first(model):
    paged = make(model)
    common, *tails = random_prompts([30, 5, 11])
    first = paged.add(common + tails[0])
    inputs = batch([common + tails[1]])
    expected = generate(model, inputs, eos_token_id=None)
    with paged.cache_for(**inputs) as cache:
        assert cache.get_seq_length() == 28
        assert torch.equal(generate(model, inputs, cache=cache, eos_token_id=None), expected)
    assert paged.progress[first].is_written


@pytest.mark.parametrize("chunk", [1, 3, 7, 16])
def test_prefill_in_chunks(model, chunk):
    paged = make(model)
    common, *tails = random_prompts([20, 5, 11, 2])
    prompts = [common + tails[0], random_prompts([6], seed=1)[0], common + tails[1], tails[2], common[:13]]
    for inputs in (batch(prompts), batch(prompts[::-1])):
        expected = generate(model, inputs, eos_token_id=None)
        for _ in range(2):  # the second time much of it is found
            with paged.cache_for(**inputs) as cache:
                ours = generate(model, inputs, cache=cache, eos_token_id=None, prefill_chunk_size=chunk)
            assert torch.equal(ours, expected)


def test_a_conversation_goes_on_in_the_same_cache(model):
    paged = make(model)
    inputs = batch(random_prompts([11, 5]))
    with paged.cache_for(**inputs) as cache:
        first = generate(model, inputs, 4, cache=cache, eos_token_id=None)
        more = {"input_ids": torch.cat([first, torch.tensor(random_prompts([6, 6], seed=3))], 1),
                "attention_mask": torch.cat([inputs["attention_mask"], torch.ones(2, 10, dtype=torch.long)], 1)}
        ours = generate(model, more, cache=cache, eos_token_id=None)
    assert torch.equal(ours, generate(model, more, eos_token_id=None))


def test_sampling_with_the_same_seed(model):
    paged = make(model)
    inputs = batch(random_prompts([11, 5]))

    def sampled(**options):
        torch.manual_seed(5)
        return generate(model, inputs, do_sample=True, temperature=0.8, num_return_sequences=3, **options)

    with paged.cache_for(**inputs) as cache:
        ours = sampled(cache=cache)
        assert len(cache.sequences) == 6
    assert torch.equal(ours, sampled())


def test_beam_search(model, any_backend, block_size):
    paged = make(model, block_size=block_size, backend=any_backend)
    inputs = batch(random_prompts([11, 3, 24]))
    copies, copy_blocks = [], paged.storage.copy_blocks
    paged.storage.copy_blocks = lambda pairs: copies.extend(pairs) or copy_blocks(pairs)
    same(paged, inputs, num_beams=4, eos_token_id=None)
    assert bool(copies) == (block_size > 1), "beams that part within a block copy it"
    same(paged, inputs, 12, num_beams=3, num_return_sequences=2, length_penalty=0.5)
    same(paged, batch(random_prompts([20])), num_beams=2, early_stopping=True)


def test_beams_share_their_prompt(model):
    paged = make(model)
    inputs = batch(random_prompts([41]))
    with paged.cache_for(**inputs) as cache:
        generate(model, inputs, 2, cache=cache, num_beams=4, eos_token_id=None)
        assert len(cache.sequences) == 4
        assert paged.num_blocks - paged.num_free_blocks <= 10 + 4


# ── a cache and the model it is used with ────────────────────────────────────────────────────────────────────────────

def test_the_model_keeps_its_own_caches_while_a_paged_one_lives(model):
    paged = make(model)
    inputs = batch(random_prompts([11, 3]))
    before = generate(model, inputs)
    with paged.cache_for(**inputs) as cache:
        assert torch.equal(generate(model, inputs), before)
        assert torch.equal(generate(model, inputs, cache=cache), before)
        assert torch.equal(generate(model, inputs), before)
    assert torch.equal(generate(model, inputs), before)


def test_two_caches_at_once(model):
    paged, other = make(model), make(model, block_size=16)
    inputs, more = batch(random_prompts([11, 3])), batch(random_prompts([7, 12], seed=2))
    with paged.cache_for(**inputs) as first, paged.cache_for(**more) as second, other.cache_for(**inputs) as third:
        pairs = (inputs, third), (more, second), (inputs, first)
        ours = [generate(model, what, cache=cache) for what, cache in pairs]
    assert torch.equal(ours[0], ours[2]) and torch.equal(ours[0], generate(model, inputs))
    assert torch.equal(ours[1], generate(model, more))


def test_calling_the_model_directly(model):
    paged = make(model)
    inputs = batch(random_prompts([11]))
    for name in ("cache", "past_key_values"):
        with paged.cache_for(**inputs) as cache, torch.no_grad():
            logits = model(**inputs, **{name: cache}).logits
            assert torch.allclose(logits, model(**inputs).logits, atol=2e-4)
            step = torch.tensor([[5]])
            more = model(step, **{name: cache}).logits
            whole = model(torch.cat([inputs["input_ids"], step], 1)).logits
            assert torch.allclose(more[0, -1], whole[0, -1], atol=2e-4)
            paged.manager.pool.allocate(0)
        paged = make(model)


def positions_of(mask):
    return (mask.cumsum(1) - 1).clamp(0)


def test_a_manual_pass_over_padding_needs_the_positions(model):
    paged = make(model)
    prompts = random_prompts([9, 5, 14])
    inputs = batch(prompts)
    mask = inputs["attention_mask"]
    with paged.cache_for(**inputs) as cache, torch.no_grad():
        with pytest.raises(ValueError, match=r"without position_ids the model counts the padding.*cumsum\(1\)"):
            model(**inputs, cache=cache)
        with pytest.raises(ValueError, match="holds 0 columns.*count each row's tokens from 0"):
            model(**inputs, position_ids=torch.arange(14)[None], cache=cache)
        for wrong in (torch.arange(5), torch.zeros(2, 14, dtype=torch.long), torch.zeros(3, 3, 14, dtype=torch.long)):
            with pytest.raises(ValueError, match=r"position_ids are \[batch, tokens\] = \[3, 14\]"):
                model(**inputs, position_ids=wrong, cache=cache)
        with pytest.raises(TypeError, match="by name"):
            model(inputs["input_ids"], mask, cache=cache)
        logits = model(**inputs, position_ids=positions_of(mask), cache=cache).logits[:, -1]
        step = logits.argmax(-1)[:, None]
        longer = torch.cat([mask, torch.ones(3, 1, dtype=torch.long)], 1)
        with pytest.raises(ValueError, match="without position_ids"):
            model(step, attention_mask=longer, cache=cache)
        more = model(step, attention_mask=longer, position_ids=positions_of(longer)[:, -1:], cache=cache).logits[:, -1]
        for row, prompt in enumerate(prompts):
            for ours, tokens in ((logits, prompt), (more, [*prompt, int(step[row])])):
                assert torch.allclose(ours[row], model(torch.tensor([tokens])).logits[0, -1], atol=2e-4)
    for prompt in prompts:  # what is found is right
        with paged.sequence([*prompt, 7]) as seq, torch.no_grad():
            expected = model(torch.tensor([[*prompt, 7]])).logits[0, -1]
            assert seq.num_cached_tokens and torch.allclose(paged.forward(seq)[0], expected, atol=2e-4)


def test_the_whole_prompt_where_its_beginning_is_there_already(model):
    paged = make(model)
    [prompt] = random_prompts([14])
    inputs = batch([prompt])
    same(paged, inputs)
    with paged.cache_for(**inputs) as cache, torch.no_grad():
        with pytest.raises(ValueError, match=r"first 12 columns .* input_ids\[:, cache.get_seq_length\(\):\]"):
            model(**inputs, cache=cache)
        rest = inputs["input_ids"][:, cache.get_seq_length():]
        logits = model(rest, attention_mask=inputs["attention_mask"], cache=cache).logits
        assert torch.allclose(logits[0, -1], model(**inputs).logits[0, -1], atol=2e-4)


def test_padding_between_two_turns_is_refused(model):
    paged = make(model)
    inputs = batch(random_prompts([9, 5]))
    with paged.cache_for(**inputs) as cache:
        first = generate(model, inputs, 5, cache=cache, eos_token_id=None)
        turn = batch(random_prompts([4, 2], seed=3))
        ids = torch.cat([first, turn["input_ids"]], 1)
        mask = torch.cat([inputs["attention_mask"], torch.ones(2, 5, dtype=torch.long), turn["attention_mask"]], 1)
        before = [seq.num_tokens for seq in cache.sequences]
        with pytest.raises(ValueError, match="this cache holds 13 columns.*padding between two parts of a text"):
            generate(model, {"input_ids": ids, "attention_mask": mask}, 5, cache=cache)
        assert [seq.num_tokens for seq in cache.sequences] == before


@pytest.mark.parametrize("lengths", [[9, 5], [9]])
def test_the_same_batch_again_in_the_same_cache_is_refused(model, lengths):
    paged = make(model)
    inputs = batch(random_prompts(lengths))
    with paged.cache_for(**inputs) as cache:
        generate(model, inputs, 8, cache=cache, eos_token_id=None)
        with pytest.raises(ValueError, match="this cache holds 16 columns.*make a new cache"):
            generate(model, inputs, 8, cache=cache, eos_token_id=None)
        with pytest.raises(ValueError, match=r"\[batch, all columns\] = .*, got dict"), torch.no_grad():
            model(torch.full((len(lengths), 1), 5), attention_mask={}, cache=cache)


# ── sequences that are freed half computed ───────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("first", ["a cache", "a sequence"])
@pytest.mark.parametrize("computed_tokens", [0, 6, 8])
@pytest.mark.parametrize("heir_first", [True, False])
def test_who_waits_takes_over_when_the_first_is_freed(model, first, computed_tokens, heir_first):
    """The columns that were to be left out, as the first one would compute them, are computed after all."""
    paged = make(model, max_query_tokens=max(computed_tokens, 1), zero_on_reuse=True)
    paged.storage.data.fill_(float("nan"))
    common, *tails = random_prompts([20, 1, 2, 5])
    leader = paged.cache_for(**batch([common + tails[0]])) if first == "a cache" else paged.add(common + tails[0])
    seq = leader.sequences[0] if first == "a cache" else leader
    inputs, longer = batch([common + tails[1]]), batch([common + tails[2], common[:3]])
    with paged.cache_for(**inputs) as cache, paged.cache_for(**longer) as third:
        assert cache.get_seq_length() == 20
        if computed_tokens:
            stop_after_one_pass(paged, seq)
            assert paged.progress[seq].begin == computed_tokens
        leader.free() if first == "a cache" else paged.free(seq)
        for what, of in ((inputs, cache), (longer, third))[::1 if heir_first else -1]:
            ours = generate(model, what, cache=of, eos_token_id=None)
            assert torch.equal(ours, generate(model, what, eos_token_id=None))
    same(paged, inputs, eos_token_id=None)


def stop_after_one_pass(paged, seq):
    write, seen = paged.storage.write, []

    def failing(layer, *rest):
        seen.append(layer)
        if seen.count(0) == 2:
            raise Stopped
        write(layer, *rest)

    paged.storage.write = failing
    with pytest.raises(Stopped):
        paged.forward([seq])
    paged.storage.write = write


@pytest.mark.parametrize("chunk", [4, 10, 19])
def test_who_waits_takes_over_between_two_chunks(model, chunk):
    paged = make(model)
    paged.storage.data.fill_(float("nan"))
    common, other, tail = random_prompts([20, 24, 4])
    leader = paged.add(common + [50])
    inputs = batch([other, common + tail])
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    with paged.cache_for(**inputs) as cache, torch.no_grad():
        assert cache.sequences[1].num_cached_tokens == 20 and cache.get_seq_length() == 0
        for start, end in ((0, chunk), (chunk, 24)):
            logits = model(ids[:, start:end], attention_mask=mask[:, :end], cache=cache).logits[:, -1]
            if start == 0:
                assert not paged.progress[leader].begin
                paged.free(leader)
        assert torch.allclose(logits, model(**inputs).logits[:, -1], atol=2e-4)


class Stopped(BaseException):
    """As KeyboardInterrupt is: no Exception."""


@pytest.mark.parametrize("error", [Stopped, RuntimeError])
@pytest.mark.parametrize("step", [0, 1, 4])
def test_a_pass_that_failed_can_be_repeated_or_given_up(model, error, step):
    paged = make(model)
    inputs = batch(random_prompts([11, 3]))
    tokens = generate(model, inputs, 8, eos_token_id=None)
    write, layers = paged.storage.write, []

    def failing(layer, *rest):
        layers.append(layer)
        if len(layers) == 3 * step + 2:
            raise error("stopped by the test")
        write(layer, *rest)

    paged.storage.write = failing
    with paged.cache_for(**inputs) as cache, torch.no_grad():
        with pytest.raises(error):
            generate(model, inputs, cache=cache, eos_token_id=None)
        # the model's own caches work, whatever was left behind
        assert torch.equal(generate(model, inputs, 8, eos_token_id=None), tokens)
        width = inputs["input_ids"].shape[1]
        mask = torch.cat([inputs["attention_mask"], torch.ones(2, step, dtype=torch.long)], 1)
        positions = (mask.cumsum(1) - 1).clamp(0)
        columns = slice(0, width) if step == 0 else slice(width + step - 1, width + step)
        if step:
            with pytest.raises(RuntimeError, match="has failed, and this is another one"):
                model(tokens[:, columns] + 1, attention_mask=mask, position_ids=positions[:, columns], cache=cache)
        logits = model(tokens[:, columns], attention_mask=mask, position_ids=positions[:, columns], cache=cache).logits
        assert torch.equal(logits[:, -1].argmax(-1), tokens[:, width + step])
        with pytest.raises(error):
            layers.clear()
            step = 0
            ones = torch.ones(2, tokens.shape[1] - mask.shape[1], dtype=torch.long)
            generate(model, {"input_ids": tokens, "attention_mask": torch.cat([mask, ones], 1)}, cache=cache)
    assert paged.num_free_blocks == paged.num_blocks and model.config._attn_implementation == "sdpa"
    paged.storage.write = write
    same(paged, inputs)


def test_out_of_blocks_while_generating(model):
    paged = make(model, num_blocks=6)
    inputs = batch(random_prompts([11, 3]))
    with paged.cache_for(**inputs) as cache:
        with pytest.raises(OutOfBlocks):
            generate(model, inputs, cache=cache, eos_token_id=None)
        assert [seq.num_tokens for seq in cache.sequences] == [16, 8]
    assert paged.num_free_blocks == 6
    with pytest.raises(OutOfBlocks):
        paged.cache_for(**batch(random_prompts([11, 20])))
    with paged.cache_for(**inputs) as cache, pytest.raises(OutOfBlocks):
        generate(model, inputs, cache=cache, num_beams=6)
    assert paged.num_free_blocks == 6 and not paged.manager.live_sequences


def test_a_freed_cache_is_refused(model):
    paged = make(model)
    inputs = batch(random_prompts([11]))
    cache = paged.cache_for(**inputs)
    assert cache.is_live and "rows" in repr(cache)
    cache.free()
    cache.free()
    assert not cache.is_live and repr(cache) == "<PagedCache: freed>"
    for call in (lambda: generate(model, inputs, cache=cache), lambda: model(**inputs, cache=cache),
                 cache.get_seq_length):
        with pytest.raises(UseAfterFree, match=r"with paged.cache_for\(\*\*inputs\) as cache:"):
            call()


def test_another_prompt_than_it_was_made_for(model):
    paged = make(model)
    inputs, other = batch(random_prompts([11, 3])), batch(random_prompts([11, 3], seed=9))
    for wrong in (other, batch(random_prompts([11])), batch(random_prompts([11, 3, 4]))):
        with paged.cache_for(**inputs) as cache, pytest.raises(ValueError, match="other input_ids"):
            generate(model, wrong, cache=cache)
    with paged.cache_for(inputs["input_ids"]) as cache, pytest.raises(ValueError, match="padded otherwise"):
        generate(model, inputs, cache=cache)


def test_what_cannot_be_done_says_so(model):
    paged = make(model)
    inputs = batch(random_prompts([11]))
    with paged.cache_for(**inputs) as cache:
        for call in (lambda: cache.crop(-1), cache.reset, lambda: cache.batch_repeat_interleave(2),
                     lambda: cache.batch_select_indices([0])):
            with pytest.raises(NotImplementedError):
                call()
        with pytest.raises(TypeError, match="inputs_embeds"):
            model(inputs_embeds=torch.zeros(1, 2, 48), cache=cache)
        with pytest.raises(ValueError, match="use_cache=False"):
            generate(model, inputs, cache=cache, use_cache=False)
        assert cache.crop(0) is None
    with pytest.raises(TypeError, match="input_ids are a tensor"):
        paged.cache_for([[1, 2]])
    with pytest.raises(TypeError, match="input_ids are a tensor"):
        paged.cache_for(torch.tensor([1, 2]))
    with pytest.raises(ValueError, match="position 1: 97 is no token of this model.*vocab_size 97"):
        paged.cache_for(torch.tensor([[5, 6], [5, 97]]))
    assert not paged.manager.live_sequences
    training = copy.deepcopy(model).train()
    for module in training.modules():
        if hasattr(module, "attention_dropout"):
            module.attention_dropout = 0.1
    with pytest.raises(ValueError, match="model.eval"):
        make(training).generate(random_prompts([3]), 1)


def test_the_attention_function_alone_says_what_it_is_for(model):
    lost = copy.deepcopy(model)
    make(lost)
    lost.set_attn_implementation("paged")
    with pytest.raises(RuntimeError, match="set_attn_implementation"):
        lost(torch.tensor([[1, 2]]))


def test_left_padding():
    ids = torch.zeros(2, 4, dtype=torch.long)
    assert left_padding(ids, None) == [0, 0]
    assert left_padding(ids, torch.tensor([[0, 0, 1, 1], [1, 1, 1, 1]])) == [2, 0]
    with pytest.raises(ValueError, match="row 1 is not padded on the left.*padding_side"):
        left_padding(ids, torch.tensor([[0, 0, 1, 1], [1, 1, 1, 0]]))
    with pytest.raises(ValueError, match="row 0 is nothing but padding"):
        left_padding(ids, torch.zeros(2, 4))
    with pytest.raises(ValueError, match="same call of the tokenizer"):
        left_padding(ids, torch.ones(2, 5))


# ── other models ─────────────────────────────────────────────────────────────────────────────────────────────────────

SMALL = {"vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4,
         "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 3, "max_position_embeddings": 128}


@pytest.mark.parametrize("name, more", [
    ("Qwen2", {"num_key_value_heads": 2}),
    ("Qwen3", {"num_key_value_heads": 2, "head_dim": 16}),
    ("Gemma", {"num_key_value_heads": 1, "head_dim": 16}),
    ("Granite", {"num_key_value_heads": 2, "attention_multiplier": 0.5}),
    ("Phi", {}),
    ("Olmo2", {"num_key_value_heads": 4}),
    ("GPT2", {}),
])
def test_other_models(name, more):
    import transformers
    other = random_model(getattr(transformers, f"{name}Config")(**SMALL | more))
    paged = make(other)
    same(paged, batch(random_prompts([11, 3, 24])), eos_token_id=None)
    prompts = random_prompts([11, 3, 24])
    ours = paged.generate(prompts, 8, eos_token_id=[])
    assert ours == [generate(other, batch([prompt]), 8, eos_token_id=None)[0, len(prompt):].tolist()
                    for prompt in prompts]


@pytest.mark.parametrize("name, more, reason", [
    ("Mistral", {"sliding_window": 16}, "window of 16 tokens"),
    ("Qwen2", {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 1}, "sliding_attention"),
    ("Gemma2", {"head_dim": 8}, "sliding_attention|attn_logit_softcapping"),
    ("Gemma2", {"head_dim": 8, "layer_types": ["full_attention"] * 2}, "attn_logit_softcapping"),
    ("GptOss", {"head_dim": 8, "num_local_experts": 2, "layer_types": ["full_attention"] * 2}, "sinks"),
    ("DeepseekV3", {"n_routed_experts": 4, "n_group": 2, "topk_group": 1, "num_experts_per_tok": 2,
                    "moe_intermediate_size": 8, "q_lora_rank": 8, "kv_lora_rank": 8, "qk_rope_head_dim": 8,
                    "qk_nope_head_dim": 8, "v_head_dim": 8, "first_k_dense_replace": 2}, "latent attention"),
    ("Bloom", {}, "AttentionInterface|configuration does not say"),
    ("Mamba", {"state_size": 4}, "linear_attention"),
])
def test_models_whose_attention_is_another_are_refused(name, more, reason):
    import transformers
    other = getattr(transformers, f"{name}ForCausalLM")(getattr(transformers, f"{name}Config")(**SMALL | more))
    with pytest.raises(ValueError, match=f"cannot run on a paged cache: .*({reason})"):
        PagedModel(other, 4)


def test_a_model_that_calls_the_cache_in_another_way():
    import transformers
    other = random_model(transformers.GPTNeoXConfig(**SMALL))
    with pytest.raises(ValueError, match="paged caches do not work with it"):
        make(other)


def test_models_that_are_none(model):
    import transformers
    encoder = transformers.T5ForConditionalGeneration(transformers.T5Config(
        vocab_size=97, d_model=16, d_kv=4, d_ff=16, num_layers=1, num_heads=2))
    with pytest.raises(ValueError, match="has an encoder"):
        PagedModel(encoder, 4)
    with pytest.raises(TypeError, match="AutoModelForCausalLM"):
        PagedModel(model.model.layers[0], 4)
    assert isinstance(PagedModel(model, 40).cache_for(torch.tensor([[5, 6]])), PagedCache)
