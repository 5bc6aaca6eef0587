"""PagedModel: the tokens are those of transformers' own cache, however the sequences share, fork, wait and fail."""

import copy
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from pagedkv import DoubleFree, OutOfBlocks, Replay, UseAfterFree, record, take_snapshot
from pagedkv.attention import PagedModel
from pagedkv.storage.int8_storage import Int8KVStorage
from pagedkv.storage.kv_storage import KVStorage
from tests.attention.tiny_model import EOS, VOCABULARY, one_thread, random_prompts, shuffle_pool, tiny_model

NEW = 12
LENGTHS = (9, 1, 23, 16, 4)


@pytest.fixture(scope="module", autouse=True)
def threads():
    with one_thread():
        yield


def make(model, num_blocks=None, block_size=4, backend="gather", **options):
    paged = PagedModel(model, num_blocks or 400 // block_size, block_size, backend=backend, **options)
    shuffle_pool(paged)
    return paged


def expected_tokens(model, prompt, num_tokens=NEW, cache=None):
    """Greedy, one by one, with transformers' own cache."""
    from transformers import DynamicCache
    cache = DynamicCache(config=model.config) if cache is None else cache
    tokens, step = [], list(prompt)
    with torch.no_grad():
        for _ in range(num_tokens):
            logits = model(torch.tensor([step]), cache=cache).logits[0, -1]
            step = [int(logits.argmax())]
            tokens += step
    return tokens


def greedy(paged, seqs, num_tokens=NEW):
    tokens = [[] for _ in seqs]
    for step in range(num_tokens):
        next_tokens = paged.forward(seqs).argmax(-1).tolist()
        for so_far, token in zip(tokens, next_tokens):
            so_far.append(token)
        if step < num_tokens - 1:
            paged.append(seqs, next_tokens)
    return tokens


def logits_of(model, tokens):
    with torch.no_grad():
        return model(torch.tensor([list(tokens)])).logits[0, -1]


def close(ours, theirs):
    return torch.allclose(ours, theirs, atol=2e-4, rtol=1e-4)


# ── the same tokens ──────────────────────────────────────────────────────────────────────────────────────────────────

def test_a_ragged_batch_gives_the_tokens_of_one_by_one(model, any_backend, block_size):
    paged = make(model, block_size=block_size, backend=any_backend)
    prompts = random_prompts(LENGTHS)
    seqs = [paged.add(prompt) for prompt in prompts]
    blocks = [block for seq in seqs for block in seq.block_table]
    assert blocks != sorted(blocks) and max(blocks) - min(blocks) >= len(blocks)
    assert greedy(paged, seqs) == [expected_tokens(model, prompt) for prompt in prompts]
    paged.free(seqs)
    assert paged.num_free_blocks == paged.num_blocks


def test_logits_are_those_of_the_model_without_a_cache(model, any_backend, block_size):
    paged = make(model, block_size=block_size, backend=any_backend)
    seqs = [paged.add(prompt) for prompt in random_prompts(LENGTHS)]
    for _ in range(6):
        logits = paged.forward(seqs)
        assert logits.shape == (len(seqs), VOCABULARY)
        for ours, seq in zip(logits, seqs):
            assert close(ours, logits_of(model, paged.tokens(seq)))
        paged.append(seqs, logits.argmax(-1))


@pytest.mark.parametrize("max_query_tokens", [1, 5, 16, 17])
def test_long_prompts_are_computed_in_chunks(model, max_query_tokens):
    paged = make(model, max_query_tokens=max_query_tokens)
    prompts = random_prompts(LENGTHS)
    seqs = [paged.add(prompt) for prompt in prompts]
    passes = []
    begin_step = paged.begin_step

    def counted(spans, *rest):
        passes.append(sum(end - begin for _, begin, end in spans))
        return begin_step(spans, *rest)

    paged.begin_step = counted
    assert greedy(paged, seqs) == [expected_tokens(model, prompt) for prompt in prompts]
    assert max(passes) == max_query_tokens


def test_the_logits_come_in_the_order_of_the_call(model):
    paged = make(model)
    seqs = [paged.add(prompt) for prompt in random_prompts(LENGTHS)]
    turned = paged.forward(seqs[::-1])
    for ours, seq in zip(turned, seqs[::-1]):
        assert close(ours, logits_of(model, paged.tokens(seq)))


def test_sequences_join_and_leave_between_steps(model):
    paged = make(model)
    first, second, third = random_prompts([7, 10, 13])
    a = paged.add(first)
    [tokens_a] = greedy(paged, [a], 3)
    paged.append(a, tokens_a[-1])
    b = paged.add(second)
    tokens = greedy(paged, [a, b], 4)
    paged.free(b)
    paged.append([a], [tokens[0][-1]])
    c = paged.add(third)
    last = greedy(paged, [c, a], 5)
    assert tokens_a + tokens[0] + last[1] == expected_tokens(model, first)
    assert tokens[1] == expected_tokens(model, second, 4) and last[0] == expected_tokens(model, third, 5)


# ── shared prefixes ──────────────────────────────────────────────────────────────────────────────────────────────────

def test_a_shared_prefix_is_computed_once(model, any_backend, block_size):
    paged = make(model, block_size=block_size, backend=any_backend)
    common, *tails = random_prompts([33, 5, 9])
    prompts = [common + tail for tail in tails]
    with paged.sequence(prompts[0]) as first:
        greedy(paged, [first], 2)
    second = paged.add(prompts[1])
    assert second.num_cached_tokens == 33 // block_size * block_size
    before = paged.storage.data.clone()
    tokens = greedy(paged, [second])
    assert tokens == [expected_tokens(model, prompts[1])]
    shared = second.block_table[:second.num_cached_tokens // block_size]
    assert torch.equal(paged.storage.data[:, :, shared], before[:, :, shared])


def test_blocks_that_another_one_writes_in_the_same_pass(model):
    paged = make(model)
    common, *tails = random_prompts([20, 5, 9, 2])
    prompts = [common + tail for tail in tails]
    seqs = [paged.add(prompt) for prompt in prompts]
    assert [seq.num_cached_tokens for seq in seqs] == [0, 20, 20]
    assert greedy(paged, seqs[::-1]) == [expected_tokens(model, prompt) for prompt in prompts[::-1]]


@pytest.mark.parametrize("max_query_tokens", [3, 2048])
def test_who_waits_for_another_one_has_it_computed_first(model, max_query_tokens):
    paged = make(model, max_query_tokens=max_query_tokens)
    common, more, *tails = random_prompts([20, 8, 5, 9, 2])
    prompts = [common + tails[0], common + more + tails[1], common + more + tails[2]]
    seqs = [paged.add(prompt) for prompt in prompts]
    assert seqs[2].num_cached_tokens == 28  # of which the first sequence writes 20 and the second 8
    assert greedy(paged, seqs[2:]) == [expected_tokens(model, prompts[2])]
    assert greedy(paged, seqs[:2]) == [expected_tokens(model, prompt) for prompt in prompts[:2]]


def test_a_block_that_appending_completed_is_found_before_it_is_written(model):
    paged = make(model)
    [prompt] = random_prompts([7])
    a = paged.add(prompt)
    token = int(paged.forward([a]).argmax())
    paged.append(a, token)  # the 8th token: the block can be found, and is not written
    b = paged.add([*prompt, token, 50, 51])
    assert b.num_cached_tokens == 8
    assert greedy(paged, [b]) == [expected_tokens(model, [*prompt, token, 50, 51])]


@pytest.mark.parametrize("computed_tokens", [0, 6, 8])
def test_who_waits_takes_over_when_the_first_is_freed(model, computed_tokens):
    paged = make(model, max_query_tokens=max(computed_tokens, 1))
    common, *tails = random_prompts([20, 5, 9, 2])
    prompts = [common[:14] + tails[0], common + tails[1], common + tails[2]]
    seqs = [paged.add(prompt) for prompt in prompts]
    if computed_tokens:
        stop_after(paged, 1, lambda: paged.forward([seqs[0]]))
    paged.free(seqs[0])
    assert paged.manager.find(prompts[0]) == seqs[1].block_table[:computed_tokens // 4]
    assert greedy(paged, seqs[2:]) == [expected_tokens(model, prompts[2])]
    assert greedy(paged, seqs[1:2]) == [expected_tokens(model, prompts[1])]


def test_salts_keep_sequences_apart(model):
    paged = make(model)
    [prompt] = random_prompts([21])
    with paged.sequence(prompt, salt="one") as first:
        paged.forward([first])
    assert paged.add(prompt, salt="two").num_cached_tokens == 0
    assert paged.add(prompt, salt="one").num_cached_tokens == 20


# ── forks ────────────────────────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("length", [8, 9, 11])
def test_forks_go_on_like_copies_of_the_cache(model, any_backend, block_size, length):
    from transformers import DynamicCache
    paged = make(model, block_size=block_size, backend=any_backend)
    [prompt] = random_prompts([length])
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        best = model(torch.tensor([prompt]), cache=cache).logits[0, -1].topk(3).indices.tolist()
    first = paged.add(prompt)
    assert paged.forward([first])[0].topk(3).indices.tolist() == best
    seqs = [first, paged.fork(first), paged.fork(first)]
    assert torch.allclose(paged.forward(seqs[1:2]), paged.forward(seqs[:1]))
    paged.append(seqs, best)
    assert len({seq.block_table[-1] for seq in seqs}) == 3
    assert greedy(paged, seqs) == [expected_tokens(model, [token], cache=copy.deepcopy(cache)) for token in best]


def test_a_fork_computes_what_is_not_written_first(model):
    paged = make(model)
    [prompt] = random_prompts([10])
    first = paged.add(prompt)
    second = paged.fork(first)
    paged.append([first, second], [40, 41])
    assert greedy(paged, [first, second]) == [expected_tokens(model, prompt + [token]) for token in (40, 41)]


def test_a_fork_outlives_the_one_it_came_from(model):
    paged = make(model)
    [prompt] = random_prompts([10])
    first = paged.add(prompt)
    second = paged.fork(first)
    paged.append(second, 41)
    paged.free(first)
    others = [paged.add(other) for other in random_prompts([8, 8], seed=5)]  # perhaps in the first one's blocks
    tokens = greedy(paged, [second, *others])
    assert tokens[0] == expected_tokens(model, prompt + [41])


# ── once more, and again after a failure ─────────────────────────────────────────────────────────────────────────────

def test_computing_again_writes_nothing(model):
    paged = make(model)
    seqs = [paged.add(prompt) for prompt in random_prompts([9, 12])]
    first = paged.forward(seqs)
    before = paged.storage.data.clone()
    assert close(paged.forward(seqs), first)
    paged.append(seqs[:1], [50])
    mixed = paged.forward(seqs)
    assert close(mixed[1], first[1]) and close(mixed[0], logits_of(model, paged.tokens(seqs[0])))
    written = seqs[0].block_table[2]
    changed = {int(block) for block in (paged.storage.data != before).nonzero()[:, 2]}
    assert changed == {written}


class Stopped(BaseException):
    """As KeyboardInterrupt is: no Exception."""


def stop_after(paged, num_passes, call, error=Stopped):
    """Let `call` make so many passes, and fail in the second layer of the next one."""
    write, seen = paged.storage.write, []

    def failing(layer, *rest):
        if layer == 1:
            seen.append(layer)
            if len(seen) > num_passes:
                raise error("stopped by the test")
        write(layer, *rest)

    paged.storage.write = failing
    try:
        with pytest.raises(error):
            call()
    finally:
        paged.storage.write = write
    assert paged.model.config._attn_implementation != "paged"


@pytest.mark.parametrize("error", [Stopped, RuntimeError])
def test_a_pass_that_failed_can_be_repeated(model, error):
    paged = make(model, max_query_tokens=10)
    common, *tails = random_prompts([18, 5, 9])
    prompts = [common + tail for tail in tails]
    seqs = [paged.add(prompt) for prompt in prompts]
    for num_passes in (0, 1, 2):
        stop_after(paged, num_passes, lambda: paged.forward(seqs), error)
    tokens = paged.forward(seqs).argmax(-1).tolist()
    children = [paged.fork(seq) for seq in seqs]
    paged.append(seqs, tokens)
    stop_after(paged, 0, lambda: paged.forward(seqs), error)  # the copies of the last blocks are made by then
    later = greedy(paged, seqs, NEW - 1)
    ours = [[token, *rest] for token, rest in zip(tokens, later)]
    assert ours == [expected_tokens(model, prompt) for prompt in prompts]
    assert greedy(paged, children, 3) == [expected_tokens(model, prompt, 3) for prompt in prompts]


@pytest.mark.parametrize("chained", [False, True])
def test_copies_that_were_interrupted_are_made_in_the_end(model, chained):
    paged = make(model)
    [prompt] = random_prompts([6])
    seqs = [paged.add(prompt)]
    seqs += [paged.fork(seqs[0]) for _ in range(3)]
    if chained:  # a block that is a target first and a source then
        paged.append(seqs[0], 40)
        paged.free(seqs[0])
        seqs[0] = paged.fork(seqs[1])
    tokens = list(range(50, 54))
    paged.append(seqs, tokens)
    copy_blocks, calls = paged.storage.copy_blocks, []

    def failing(pairs):
        calls.append(list(pairs))
        copy_blocks(pairs[:1] if len(calls) == 1 else pairs)
        if len(calls) == 1:
            raise Stopped

    paged.storage.copy_blocks = failing
    with pytest.raises(Stopped):
        paged.forward(seqs)
    assert greedy(paged, seqs, 3) == [expected_tokens(model, [*prompt, token], 3) for token in tokens]
    assert calls[0] == calls[1]


def test_what_was_not_computed_cannot_be_found(model):
    paged = make(model)
    [prompt] = random_prompts([21])
    seq = paged.add(prompt)
    assert len(paged.manager.find(prompt)) == 5
    paged.free(seq)
    assert paged.manager.find(prompt) == []
    with paged.sequence(prompt) as seq:
        paged.forward([seq])
    assert len(paged.manager.find(prompt)) == 5


@pytest.mark.parametrize("seed", range(6))
def test_whatever_happens_the_logits_are_right(model, seed):
    """Random prompts that share beginnings, forks, frees and failing passes, in a pool that is used again and again."""
    numbers = random.Random(seed)
    paged = make(model, num_blocks=40, max_query_tokens=numbers.choice([3, 8, 2048]), zero_on_reuse=True)
    beginnings = random_prompts([5, 12, 20], seed=seed)
    live, refused, failed = [], 0, 0
    for _ in range(70):
        what = numbers.choice(["add", "add", "forward", "forward", "append", "fork", "free", "fail"])
        some = numbers.sample(live, min(len(live), numbers.randint(1, 3)))
        try:
            if what == "add":
                tail = [numbers.randrange(4, VOCABULARY) for _ in range(numbers.randint(0, 9))]
                live.append(paged.add(numbers.choice(beginnings) + tail, salt=numbers.choice([None, None, "other"])))
            elif not some:
                continue
            elif what == "append":
                for _ in range(numbers.randint(1, 5)):
                    paged.append(some, [numbers.randrange(4, VOCABULARY) for _ in some])
            elif what == "fork":
                live.append(paged.fork(some[0]))
            elif what == "free":
                live.remove(some[0])
                paged.free(some[0])
            elif what == "forward":
                for ours, seq in zip(paged.forward(some), some):
                    assert close(ours, logits_of(model, paged.tokens(seq)))
            else:
                stop_after(paged, 0, lambda: paged.forward(some))
                failed += 1
        except OutOfBlocks:
            refused += 1
        except pytest.fail.Exception:  # nothing was left to write, so nothing failed
            pass
    for ours, seq in zip(paged.forward(live), live):
        assert close(ours, logits_of(model, paged.tokens(seq)))
    paged.free(live)
    assert failed and sum(paged.refcounts()) == 0
    # what can be found now is what was written
    for prompt in beginnings:
        with paged.sequence(prompt + [9]) as seq:
            assert close(paged.forward([seq])[0], logits_of(model, prompt + [9]))


# ── the model's own caches ───────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
def test_the_model_goes_on_working_with_its_own_caches(implementation):
    model = copy.deepcopy(tiny_model())
    model.set_attn_implementation(implementation)
    [prompt] = random_prompts([15])
    inputs = {"input_ids": torch.tensor([prompt]), "attention_mask": torch.ones(1, 15, dtype=torch.long)}

    def own():
        return model.generate(**inputs, max_new_tokens=NEW, do_sample=False, eos_token_id=None)[0, 15:].tolist()

    before = own()
    paged = make(model)
    seq = paged.add(prompt)
    tokens = paged.forward([seq]).argmax(-1)
    assert own() == before
    paged.append([seq], tokens)
    assert [*tokens.tolist(), *greedy(paged, [seq], NEW - 1)[0]] == before
    paged.free(seq)
    assert own() == before and model.config._attn_implementation == implementation
    assert not model._forward_pre_hooks and not model._forward_hooks


def test_two_paged_models_of_one_model(model):
    first, second = make(model), make(model, block_size=16)
    prompts = random_prompts([9, 14])
    seqs = [first.add(prompts[0])], [second.add(prompts[1])]
    assert greedy(first, seqs[0]) == [expected_tokens(model, prompts[0])]
    assert greedy(second, seqs[1]) == [expected_tokens(model, prompts[1])]


# ── generate ─────────────────────────────────────────────────────────────────────────────────────────────────────────

def theirs(model, prompt, num_tokens, **options):
    inputs = torch.tensor([prompt])
    return model.generate(inputs, attention_mask=torch.ones_like(inputs), max_new_tokens=num_tokens, do_sample=False,
                          **options)[0, len(prompt):].tolist()


def test_generate_ends_where_transformers_ends(model):
    paged = make(model)
    prompts = random_prompts([9, 14, 3, 20, 6, 11])
    ours = paged.generate(prompts, 40)
    assert ours == [theirs(model, prompt, 40) for prompt in prompts]
    ended = [tokens[-1] == EOS and len(tokens) < 40 for tokens in ours]
    assert any(ended) and not all(ended), "some of these prompts end early and some do not"
    assert paged.num_free_blocks == paged.num_blocks and not paged.manager.live_sequences


def test_generate_without_an_end_and_with_others(model):
    paged = make(model)
    [prompt] = random_prompts([9])
    endless = paged.generate([prompt], 30, eos_token_id=[])[0]
    assert endless == theirs(model, prompt, 30, eos_token_id=None) and len(endless) == 30
    end = endless[5]
    assert paged.generate([prompt], 30, eos_token_id=end)[0] == endless[:endless.index(end) + 1]
    assert paged.generate([prompt], 30, eos_token_id=[end, endless[2]])[0] == endless[:endless.index(endless[2]) + 1]
    assert paged.generate([prompt], 0) == [[]] and paged.generate([], 5) == []
    for ends in (np.int64(end), np.array([end]), torch.tensor(end), torch.tensor([end]), [np.int64(end)], {end}):
        assert paged.generate([prompt], 30, eos_token_id=ends)[0] == endless[:endless.index(end) + 1]


def test_one_that_ends_early_gives_its_blocks_back_at_once(model):
    paged = make(model)
    prompts = random_prompts([9, 14, 3, 20, 6, 11])
    with paged.generation(prompts, max_new_tokens=40) as generation:
        live = []
        for texts in generation:
            live.append(len(paged.manager.live_sequences))
            assert live[-1] == len(generation.growing)
            assert len(texts) >= live[-1]
    assert live == sorted(live, reverse=True) and live[0] > live[-2] > 0
    assert {text.ended_by for text in generation.texts} == {"eos", "length"}
    ended = next(text for text in generation.texts if text.ended_by == "eos")
    assert len(paged.manager.find(ended.prompt + ended.tokens)) >= len(ended.prompt) // 4


def test_texts_join_and_fork_while_others_grow(model):
    paged = make(model)
    first, second = random_prompts([9, 14])
    with paged.generation([first], max_new_tokens=8, eos_token_id=[]) as generation:
        generation.step()
        generation.step()
        text = generation.texts[0]
        child = generation.fork(text, token=77, owner="another way")
        joined = generation.add(second, owner="late", max_new_tokens=3)
        assert child.owner == "another way" and child.tokens == [77]
        for _ in generation:
            pass
    assert text.tokens == expected_tokens(model, first, 8)
    assert child.tokens == [77, *expected_tokens(model, [*first, text.tokens[0], 77], 6)]
    assert joined.tokens == expected_tokens(model, second, 3)
    with pytest.raises(ValueError, match="has ended"):
        generation.fork(text, 5)


def test_a_fork_with_wrong_arguments_changes_nothing(model):
    paged = make(model)
    [prompt] = random_prompts([9])
    with paged.generation([prompt], 5, eos_token_id=[]) as generation:
        generation.step()
        [text] = generation.texts
        for error, arguments in ((ValueError, {"token": 5, "max_new_tokens": -1}), (ValueError, {"token": 500}),
                                 (TypeError, {"token": "x"}), (TypeError, {"token": 5, "max_new_tokens": 1.5})):
            with pytest.raises(error):
                generation.fork(text, **arguments)
            assert generation.texts == [text] and paged.manager.live_sequences == (text.sequence,)
        none = generation.fork(text, 5, max_new_tokens=0)
        assert none.tokens == [] and none.ended_by == "length" and not none.sequence.is_live
        one = generation.fork(text, 5, max_new_tokens=1)
        assert one.tokens == [5] and one.ended_by == "length"


def test_out_of_blocks_in_the_middle_leaves_all_as_it_was(model):
    paged = make(model, num_blocks=7)
    prompts = random_prompts([9, 8])  # 3 + 2 blocks, and 2 are left
    generation = paged.generation(prompts, max_new_tokens=12, eos_token_id=[])
    with pytest.raises(OutOfBlocks, match=r"2 texts are growing.*generation\.stop"):
        for _ in generation:
            pass
    a, b = generation.texts
    so_far = len(b.tokens)
    assert a.sequence.is_live and b.sequence.is_live and a.tokens == expected_tokens(model, prompts[0], so_far)
    with pytest.raises(OutOfBlocks):
        generation.step()
    assert len(b.tokens) == so_far
    generation.stop(a)
    for _ in generation:
        pass
    assert b.tokens == expected_tokens(model, prompts[1]) and a.ended_by == "stopped"
    assert paged.num_free_blocks == paged.num_blocks


def test_generate_frees_everything_when_the_pool_is_too_small(model):
    paged = make(model, num_blocks=7)
    with pytest.raises(OutOfBlocks):
        paged.generate(random_prompts([9, 8]), 12, eos_token_id=[])
    with pytest.raises(OutOfBlocks):
        paged.generate(random_prompts([9, 20]), 12)
    assert paged.num_free_blocks == paged.num_blocks and not paged.manager.live_sequences


# ── storage ──────────────────────────────────────────────────────────────────────────────────────────────────────────

def test_int8_is_close_and_takes_the_same_tables(model):
    exact, rounded = make(model), make(model, int8=True)
    assert rounded.storage.data.dtype == torch.int8
    prompts = random_prompts(LENGTHS)
    pairs = [(paged.add(prompt), paged) for paged in (exact, rounded) for prompt in prompts]
    ours, theirs = (paged.forward([seq for seq, of in pairs if of is paged]) for paged in (rounded, exact))
    tables = [[seq.block_table for seq, of in pairs if of is paged] for paged in (exact, rounded)]
    assert tables[0] == tables[1]
    assert not torch.allclose(ours, theirs, atol=1e-4)
    assert (ours - theirs).abs().max() < 0.2 * theirs.abs().max()


def test_blocks_are_prepared_once_when_they_are_handed_out(model):
    paged = make(model, zero_on_reuse=True)
    prepared, prepare = [], paged.storage.prepare
    paged.storage.prepare = lambda blocks: prepared.extend(blocks) or prepare(blocks)
    [prompt] = random_prompts([10])
    seq = paged.add(prompt)
    tokens = greedy(paged, [seq], 4)[0]
    first_blocks = list(seq.block_table)
    assert prepared == first_blocks
    child = paged.fork(seq)
    paged.append([seq, child], [tokens[-1], 9])
    paged.forward([seq, child])
    again = paged.add(prompt)
    paged.forward([again])
    # the copied last block and what was found need no preparing
    assert prepared == [*first_blocks, again.block_table[2]]
    assert tokens == expected_tokens(model, prompt, 4)


def test_who_takes_over_prepares_the_blocks(model):
    paged = make(model, zero_on_reuse=True)
    prepared, prepare = [], paged.storage.prepare
    paged.storage.prepare = lambda blocks: prepared.extend(blocks) or prepare(blocks)
    paged.storage.data.fill_(float("nan"))
    common, more, *tails = random_prompts([20, 8, 5, 9, 2])
    prompts = [common + tails[0], common + tails[1], common + more + tails[2]]
    seqs = [paged.add(prompt) for prompt in prompts]
    tables = [list(seq.block_table) for seq in seqs]
    paged.free(seqs[0])
    assert greedy(paged, seqs[:0:-1], 1) == [expected_tokens(model, prompt, 1) for prompt in prompts[:0:-1]]
    assert sorted(prepared) == sorted(set(tables[1]) | set(tables[2]))  # each of them once


def test_decodes_are_not_held_up_by_a_prefill_in_the_same_pass(model, any_backend):
    """They go to the backend as a batch of their own, which can have a kernel for it."""
    paged = make(model, backend=any_backend)
    prompts = random_prompts([9, 5, 12, 7, 1])
    seqs = [paged.add(prompt) for prompt in prompts[:2]]
    tokens = paged.forward(seqs).argmax(-1)
    paged.append(seqs, tokens)
    seqs = [paged.add(prompts[2]), seqs[0], paged.add(prompts[3]), seqs[1], paged.add(prompts[4])]
    attend, kinds = paged._attend, []

    def watched(query, storage, layer, batch, scale):
        kinds.append((batch.is_decode, batch.query_lens))
        return attend(query, storage, layer, batch, scale)

    paged._attend = watched
    logits = paged.forward(seqs)
    assert sorted(kinds[:2]) == [(False, [12, 7]), (True, [1, 1, 1])]
    for ours, seq in zip(logits, seqs):
        assert close(ours, logits_of(model, paged.tokens(seq)))


def test_bfloat16(model):
    half = copy.deepcopy(model).to(torch.bfloat16)
    paged = make(half)
    assert paged.storage.dtype == torch.bfloat16
    seqs = [paged.add(prompt) for prompt in random_prompts([9, 12])]
    for ours, seq in zip(paged.forward(seqs), seqs):
        assert torch.allclose(ours, logits_of(half, paged.tokens(seq)), atol=0.3, rtol=0.05)


def test_a_storage_that_exists_already(model):
    storage = Int8KVStorage.for_model(model, 30, block_size=8)
    paged = PagedModel(model, storage=storage)
    assert paged.storage is storage and paged.num_blocks == 30 and paged.block_size == 8
    assert len(paged.generate(random_prompts([9]), 3, eos_token_id=[])[0]) == 3


def test_logits_of_all(model):
    paged = make(model, max_query_tokens=7)
    [tokens] = random_prompts([25])
    with torch.no_grad():
        expected = model(torch.tensor([tokens])).logits[0]
    for _ in range(2):
        assert close(paged.logits_of_all(tokens), expected)
    assert paged.num_free_blocks == paged.num_blocks and paged.cache_contents() == []


# ── what is refused ──────────────────────────────────────────────────────────────────────────────────────────────────

@pytest.mark.parametrize("change, message", [
    ({"num_layers": 4}, "3 layers, the storage 4"),
    ({"num_kv_heads": 6}, "2 KV heads, the storage 6"),
    ({"head_dim": 16}, r"8 numbers in a head \(head_dim\), the storage 16"),
    ({"dtype": torch.float16}, r"torch.float32, and the storage takes torch.float16.*model.to"),
])
def test_a_storage_that_does_not_fit(model, change, message):
    shape = {"num_layers": 3, "num_kv_heads": 2, "head_dim": 8, "num_blocks": 4, "dtype": torch.float32,
             "device": "cpu"}
    with pytest.raises(ValueError, match=message):
        PagedModel(model, storage=KVStorage(**shape | change))


@pytest.mark.parametrize("asked, message", [
    ({"num_blocks": 4}, "num_blocks is 4, and the storage has 5"),
    ({"block_size": 32}, "block_size is 32, and the storage has 16"),
    ({"dtype": torch.float16}, "dtype is torch.float16, and the storage has torch.float32"),
    ({"int8": True}, "int8 is True, and the storage has False"),
    ({"zero_on_reuse": True}, "zero_on_reuse is True, and the storage has False"),
])
def test_a_storage_and_other_wishes(model, asked, message):
    storage = KVStorage.for_model(model, 5)
    with pytest.raises(ValueError, match=message):
        PagedModel(model, storage=storage, **asked)
    same = {"num_blocks": 5, "block_size": 16, "dtype": torch.float32, "int8": False, "zero_on_reuse": False}
    assert PagedModel(model, storage=storage, **same).storage is storage


def test_ids_that_are_no_tokens_of_the_model(model):
    paged = make(model)
    good = paged.add([5, 6])
    for wrong in (500, VOCABULARY, -1):
        message = f"position 2: {wrong} is no token of this model; its ids go from 0 to 96"
        for call in (lambda: paged.add([1, 2, wrong]), lambda: paged.add(torch.tensor([1, 2, wrong])),
                     lambda: paged.generate([[5, 6], [1, 2, wrong]], 2)):
            with pytest.raises(ValueError, match=message):
                call()
        with pytest.raises(ValueError, match=f"position 0: {wrong} is no token"):
            paged.append(good, wrong)
    with pytest.raises(TypeError, match="a token id is an integer"):
        paged.append(good, "x")
    assert paged.manager.live_sequences == (good,) and paged.tokens(good) == (5, 6)


@pytest.mark.parametrize("ids", [torch.tensor([[5, 6]]), [[5, 6]], [torch.tensor([5, 6])]])
def test_a_batch_is_no_sequence(model, ids):
    paged = make(model)
    with pytest.raises(TypeError, match="this is a batch.*add_all"):
        paged.add(ids)
    [seq] = paged.add_all(ids)
    assert paged.tokens(seq) == (5, 6)


def test_wrong_arguments(model):
    with pytest.raises(ValueError, match="computes in torch.float32.*torch.float16"):
        PagedModel(model, 4, dtype=torch.float16)
    with pytest.raises(TypeError, match="num_blocks, or a storage"):
        PagedModel(model)
    with pytest.raises(ValueError, match="the storage has 5"):
        PagedModel(model, 4, storage=KVStorage.for_model(model, 5))
    with pytest.raises(ValueError, match="backend"):
        PagedModel(model, 4, backend="fast")
    with pytest.raises(ValueError, match="max_query_tokens"):
        PagedModel(model, 4, max_query_tokens=0)


def test_sequences_that_are_none_of_ours(model):
    paged, other = make(model), make(model)
    [prompt] = random_prompts([9])
    seq, foreign, past = paged.add(prompt), other.add(prompt), paged.manager.add_sequence(prompt)
    for call in (lambda: paged.forward([foreign]), lambda: paged.append(past, 4), lambda: paged.fork(past)):
        with pytest.raises(ValueError, match="was not added to this PagedModel"):
            call()
    with pytest.raises(TypeError, match="expected a sequence"):
        paged.forward([3])
    with pytest.raises(ValueError, match="at least one"):
        paged.forward([])
    with pytest.raises(ValueError, match="twice"):
        paged.forward([seq, seq])
    paged.free(seq)
    with pytest.raises(DoubleFree):
        paged.free(seq)
    with pytest.raises(UseAfterFree):
        paged.forward([seq])
    behind = paged.add(prompt)
    paged.manager.append_token(behind, 5)
    with pytest.raises(ValueError, match="through the PagedModel"):
        paged.forward([behind])


def test_no_more_positions():
    model = tiny_model(max_positions=16)
    paged = make(model)
    with pytest.raises(ValueError, match="positions for 16 tokens.*would have 17"):
        paged.add(random_prompts([17])[0])
    seq = paged.add(random_prompts([15])[0])
    paged.append(seq, 4)
    with pytest.raises(ValueError, match="would have 17"):
        paged.append(seq, 4)
    assert seq.num_tokens == 16 and close(paged.forward([seq])[0], logits_of(model, paged.tokens(seq)))


def test_a_prompt_that_does_not_fit_changes_nothing(model):
    paged = make(model, num_blocks=3)
    with pytest.raises(OutOfBlocks):
        paged.add(random_prompts([13])[0])
    with pytest.raises(OutOfBlocks):
        paged.add_all(random_prompts([8, 8]))
    assert paged.num_free_blocks == 3 and not paged.manager.live_sequences and paged.cache_contents() == []


# ── observed ─────────────────────────────────────────────────────────────────────────────────────────────────────────

def test_it_is_observed_like_a_pool(model):
    paged = make(model)
    [prompt] = random_prompts([10])
    early = paged.add(prompt, owner="early")
    with record(paged) as recording:
        seq = paged.add(prompt, owner="A")
        paged.forward([seq])
        child = paged.fork(seq, owner="B")
        paged.append([seq, child], [4, 5])
        paged.forward([seq, child])
        paged.free([seq])
    assert recording.source == paged.source and "on the CPU" in recording.source
    assert {event.owner for event in recording.events} == {"A", "B"}
    assert {event.op for event in recording.events} >= {"allocate", "retain", "release", "write"}
    assert any("copied_from" in event.detail for event in recording.events)
    snapshot = take_snapshot(paged, recording)
    assert [row.refcount for row in snapshot.rows] == [paged.refcount(block) for block in range(paged.num_blocks)]
    assert Replay(recording) is not None and paged.observer is None
    paged.free([early, child])
    assert sum(paged.refcounts()) == 0


def test_on_a_gpu_events_tell_its_memory(model, monkeypatch):
    paged = make(model)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 1000)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 2000)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda device: "Some GPU")
    monkeypatch.setattr(paged.storage, "device", torch.device("cuda", 0))
    with record(paged) as recording:
        paged.add(random_prompts([9])[0])
    assert recording.source == "live CUDA pool · Some GPU"
    assert [event.op for event in recording.events] == ["allocate", "cache"]
    for event in recording.events:
        assert event.detail["device_allocated_bytes"] == 1000 and event.detail["device_reserved_bytes"] == 2000
        assert "tokens" in event.detail
    assert paged.observer is None and paged.manager.observer is None


def test_importing_attention_needs_no_transformers():
    code = ("import sys, pagedkv.attention as a; a.PagedBatch; "
            "print('transformers' in sys.modules, 'PagedModel' in dir(a))")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["False", "True"], done.stderr
    with pytest.raises(AttributeError, match="no attribute 'PagedModels'"):
        import pagedkv.attention
        pagedkv.attention.PagedModels


def test_the_widget_shows_it(model):
    from pagedkv.viz import KVCacheView
    paged = make(model)
    with record(paged) as recording:
        paged.generate(random_prompts([9, 9]), 5)
    assert paged.source in KVCacheView(recording)._line(KVCacheView(recording).tapes[0], 0)
