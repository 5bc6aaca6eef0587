"""Several PagedModels, caches and threads on one model, and what happens when one of them is forgotten or raises."""

import gc
import threading

import pytest
import torch

from pagedkv.attention import PagedModel
from pagedkv.attention.transformers_cache import AttentionSwitch
from pagedkv.storage.kv_storage import KVStorage
from tests.attention.tiny_model import one_thread, random_prompts, tiny_model


@pytest.fixture(scope="module", autouse=True)
def threads():
    with one_thread():
        yield


@pytest.fixture(scope="module")
def model():
    return tiny_model()


def inputs(prompt):
    return {"input_ids": torch.tensor([prompt]), "attention_mask": torch.ones(1, len(prompt), dtype=torch.long)}


def generate(model, prompt, num_tokens=6, **options):
    tokens = model.generate(**inputs(prompt), max_new_tokens=num_tokens, do_sample=False, eos_token_id=None, **options)
    return tokens[0, len(prompt):].tolist()


def during_a_pass(paged, call):
    """Let another thread make this call while the model is in its second layer. Returns what it raised."""
    write, raised = paged.storage.write, []

    def other():
        try:
            call()
        except Exception as error:
            raised.append(error)

    def interrupted(layer, *rest):
        if layer == 1 and not raised:
            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
        write(layer, *rest)

    paged.storage.write = interrupted
    return raised


@pytest.mark.parametrize("with_cache", [False, True])
@pytest.mark.parametrize("what", ["paged", "plain", "the same cache"])
def test_another_thread_is_refused_in_the_middle_of_a_pass(model, with_cache, what):
    paged, other = PagedModel(model, 40, 4), PagedModel(model, 40, 4)
    [prompt] = random_prompts([9])
    expected = generate(model, prompt)
    with paged.cache_for(**inputs(prompt)) as cache:
        raised = during_a_pass(paged, {"paged": lambda: other.generate([prompt], 2),
                                       "plain": lambda: generate(model, prompt, 2),
                                       "the same cache": lambda: model(**inputs(prompt), cache=cache)}[what])
        ours = generate(model, prompt, cache=cache) if with_cache else paged.generate([prompt], 6, eos_token_id=[])[0]
    assert ours == expected
    assert isinstance(raised[0], RuntimeError) and "one thread at a time" in str(raised[0])
    assert model.config._attn_implementation == "sdpa" and not model._forward_pre_hooks
    assert other.generate([prompt], 6, eos_token_id=[]) == [expected]


def test_a_thread_that_ended_in_the_middle_of_a_pass_blocks_nobody(model):
    thread = threading.Thread(target=AttentionSwitch.of(model).on)
    thread.start()
    thread.join()
    [prompt] = random_prompts([9])
    ours = PagedModel(model, 40, 4).generate([prompt], 6, eos_token_id=[])
    assert ours == [generate(model, prompt)]


@pytest.mark.parametrize("with_cache", [False, True])
def test_a_pass_in_which_the_attention_was_changed_does_not_count(model, with_cache):
    paged = PagedModel(model, 40, 4)
    [prompt] = random_prompts([9])
    write = paged.storage.write

    def changed(layer, *rest):
        write(layer, *rest)
        if layer == 1:
            model.config._attn_implementation = "sdpa"

    seq, expected = paged.add(prompt, salt="another"), generate(model, prompt)
    with paged.cache_for(**inputs(prompt)) as cache:
        paged.storage.write = changed
        with pytest.raises(RuntimeError, match=r"does not count.*layers \[0\]"):
            generate(model, prompt, cache=cache) if with_cache else paged.forward(seq)
        assert not paged.progress[seq].is_written and not paged.progress[cache.sequences[0]].is_written
        paged.storage.write = write
        assert generate(model, prompt, cache=cache) == expected
        assert int(paged.forward(seq).argmax()) == expected[0]


def test_a_storage_belongs_to_one_paged_model(model):
    storage = KVStorage.for_model(model, 10)
    first = PagedModel(model, storage=storage)
    with pytest.raises(ValueError, match="belongs to another PagedModel"):
        PagedModel(model, storage=storage)
    with pytest.raises(ValueError, match="belongs to another PagedModel"):
        PagedModel(model, storage=first.storage)
    del first
    gc.collect()
    assert PagedModel(model, storage=storage).storage is storage


# ── caches that are forgotten, freed or given to another model ───────────────────────────────────────────────────────

def test_a_cache_that_nobody_holds_is_given_back(model):
    paged = PagedModel(model, 10, 4)
    [prompt] = random_prompts([17])
    expected = generate(model, prompt)
    for _ in range(5):  # a cell that is run again: the pool has room for one cache beside what is found
        cache = paged.cache_for(**inputs(prompt))
        assert generate(model, prompt, cache=cache) == expected
    assert len(paged.manager.live_sequences) == 1 and len(model._forward_hooks) == 1
    del cache
    assert paged.num_free_blocks == 10 and not paged.manager.live_sequences
    assert not model._forward_hooks and not model._forward_pre_hooks


def test_a_cache_that_is_lost_in_the_middle_of_a_pass(model):
    paged = PagedModel(model, 10, 4)
    [prompt] = random_prompts([17])
    write = paged.storage.write

    def interrupt(layer, *rest):
        raise KeyboardInterrupt

    paged.storage.write = interrupt
    try:
        generate(model, prompt, cache=paged.cache_for(**inputs(prompt)))
    except KeyboardInterrupt:
        pass
    paged.storage.write = write
    gc.collect()
    assert model.config._attn_implementation == "sdpa" and paged.num_free_blocks == 10


def test_a_cache_of_another_model(model):
    paged, another = PagedModel(model, 10, 4), tiny_model(seed=5)
    [prompt] = random_prompts([9])
    with paged.cache_for(**inputs(prompt)) as cache:
        with pytest.raises(ValueError, match="LlamaForCausalLM that its PagedModel was made with"):
            generate(another, prompt, cache=cache)
        with pytest.raises(ValueError, match="called as a whole"):
            model.model(**inputs(prompt), cache=cache)
        assert generate(model, prompt, cache=cache) == generate(model, prompt)


# ── an observer that raises ──────────────────────────────────────────────────────────────────────────────────────────

class Observed(Exception):
    pass


def raising(paged, op=None, call=1):
    """An observer that raises at the n-th event (of this kind)."""
    seen = []

    def observer(event):
        if op in (None, event.op):
            seen.append(event)
            if len(seen) == call:
                raise Observed

    paged.observer = observer


def test_what_an_observer_interrupts_is_done_or_not_done(model):
    paged = PagedModel(model, 40, 4)
    first, second = random_prompts([9, 12])
    seqs = [paged.add(first), paged.add(second)]
    paged.forward(seqs)
    raising(paged)
    with pytest.raises(Observed):
        paged.append(seqs, [5, 6])
    assert [paged.tokens(seq)[-1] for seq in seqs] == [5, 6]
    raising(paged)
    with pytest.raises(Observed):
        paged.add(first)
    raising(paged, "retain")
    with pytest.raises(Observed):
        paged.fork(seqs[0])
    paged.observer = None
    assert paged.manager.live_sequences == tuple(seqs)
    for logits, seq in zip(paged.forward(seqs), seqs):
        with torch.no_grad():
            expected = model(torch.tensor([paged.tokens(seq)])).logits[0, -1]
        assert torch.allclose(logits, expected, atol=2e-4)
    raising(paged, "release")
    with pytest.raises(Observed):
        paged.free(seqs)
    assert not paged.manager.live_sequences and paged.num_free_blocks == 40


@pytest.mark.parametrize("op", ["retain", "release", "write", "allocate"])
@pytest.mark.parametrize("call", [1, 3, 6])
def test_an_observer_that_raises_in_beam_search(model, op, call):
    paged = PagedModel(model, 60, 4)
    [prompt] = random_prompts([9])
    with paged.cache_for(**inputs(prompt)) as cache:
        raising(paged, op, call)
        try:
            generate(model, prompt, cache=cache, num_beams=3)
        except Observed:
            pass
        paged.observer = None
    assert not paged.manager.live_sequences and paged.num_free_blocks == 60
    assert model.config._attn_implementation == "sdpa"


def test_a_pass_that_an_observer_interrupted_can_be_repeated(model):
    paged = PagedModel(model, 40, 4)
    [prompt] = random_prompts([8])
    with paged.cache_for(**inputs(prompt)) as cache, torch.no_grad():
        model(**inputs(prompt), cache=cache)
        step = torch.tensor([[5]])
        raising(paged)
        with pytest.raises(Observed):
            model(step, cache=cache)
        paged.observer = None
        logits = model(step, cache=cache).logits[0, -1]
        assert paged.tokens(cache.sequences[0]) == (*prompt, 5)
        assert torch.allclose(logits, model(torch.tensor([[*prompt, 5]])).logits[0, -1], atol=2e-4)


@pytest.mark.parametrize("call", range(1, 6))
def test_a_step_that_an_observer_interrupted_goes_on(model, call):
    paged = PagedModel(model, 40, 4)
    prompts = random_prompts([7, 8])
    with paged.generation(prompts, 6, eos_token_id=[]) as generation:
        generation.step()
        raising(paged, None, call)
        with pytest.raises(Observed):
            while generation.growing:
                generation.step()
        paged.observer = None
        for _ in generation:
            pass
    for text, prompt in zip(generation.texts, prompts):
        assert text.tokens == generate(model, prompt)


def test_closing_a_generation_goes_on_after_an_error(model):
    paged = PagedModel(model, 40, 4)
    generation = paged.generation(random_prompts([7, 8, 9]), 6)
    raising(paged, "release")
    with pytest.raises(Observed):
        generation.close()
    assert not generation.growing and paged.num_free_blocks == 40
