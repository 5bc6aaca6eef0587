"""What the exercises of notebook 06 stand on: the cache to extend, vectors that say whose they are, cases, pictures."""

import itertools
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention
from transformers import DynamicCache

from pagedkv.core.errors import NotABlock
from pagedkv.lab import real_attend, real_fold, real_int8, real_plug, real_write
from pagedkv.lab.real_cache import PluggedCache, small_model
from pagedkv.lab.real_coded import Coded, used_storage
from pagedkv.lab.real_pictures import WeightRow, percent, plot_weights
from pagedkv.lab.real_threads import one_thread
from pagedkv.storage.kv_storage import KVStorage

ROOT = Path(__file__).resolve().parents[2]


class Plugged(PluggedCache):
    def update(self, keys, values, layer, *args, **kwargs):
        end = self.length + keys.shape[2]
        self.storage.write(layer, self.slots(self.length, end), keys[0].transpose(0, 1), values[0].transpose(0, 1))
        answer = self.storage.gather(layer, self.block_table, end)
        if layer == self.last_layer:
            self.length = end
        return [part[None] for part in answer]


def test_the_exercises_are_listed_without_torch():
    """An id that is unknown has all of them listed, and that has to be quick."""
    code = "import sys; from pagedkv.lab.exercises import all_exercises as all; all(); sys.exit('torch' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


# ── PluggedCache ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_slots_follow_the_table():
    cache = Plugged(KVStorage(1, 1, 2, num_blocks=8, block_size=4, dtype=torch.float32, device="cpu"), [6, 1])
    assert cache.slots(2, 6).tolist() == [26, 27, 4, 5] and cache.slots(3, 3).tolist() == []
    assert cache.slots(0, 8).dtype == torch.int64
    for start, end in ((0, 9), (8, 9), (-1, 2), (3, 2)):
        with pytest.raises(IndexError, match="not all in a table of 2 blocks of 4"):
            cache.slots(start, end)
    with pytest.raises(NotABlock):
        Plugged(cache.storage, [8])


def test_update_is_the_learners():
    cache = PluggedCache(KVStorage(1, 1, 2, 4, 4, torch.float32, "cpu"), [0])
    with pytest.raises(NotImplementedError, match="yours to write"):
        cache.update(torch.zeros(1, 1, 1, 2), torch.zeros(1, 1, 1, 2), 0)


@torch.no_grad()
def test_a_model_generates_the_same_with_it():
    with one_thread():
        model, prompt = small_model(), torch.tensor([[4, 9, 2, 33, 71]])
        settings = {"attention_mask": torch.ones_like(prompt), "max_new_tokens": 9, "do_sample": False}
        cache = Plugged(KVStorage.for_model(model, 8, 4), [5, 0, 6, 2])
        right = model.generate(prompt, **settings)
        assert model.generate(prompt, **settings, cache=cache).tolist() == right.tolist()
        assert cache.length == right.shape[1] - 1  # nobody has computed the last token's keys
        assert repr(cache) == "<Plugged: 13 tokens in the blocks [5, 0, 6, 2]>"
        cache.reset()
        assert model.generate(prompt, **settings, cache=cache).tolist() == right.tolist()


@torch.no_grad()
def test_a_table_that_is_too_short_is_told():
    with one_thread():
        model = small_model()
        cache = Plugged(KVStorage.for_model(model, 8, 4), [5])
        with pytest.raises(IndexError, match="positions 0 … 5 are not all in a table of 1 blocks"):
            model(torch.tensor([[1, 2, 3, 4, 5, 6]]), cache=cache)
        assert cache.length == 0 and cache.get_max_length() == 4


@torch.no_grad()
def test_the_small_model_is_the_same_every_time_and_says_clearly_what_comes_next():
    with one_thread():
        model = small_model()
        assert all(torch.equal(a, b) for a, b in zip(model.parameters(), small_model().parameters()))
        for prompt in real_plug._PROMPTS:
            own, new = DynamicCache(config=model.config), list(prompt)
            for _ in range(real_plug._NEW_TOKENS):
                best = model(torch.tensor([new]), cache=own).logits[0, -1].topk(2)
                assert best.values[0] - best.values[1] > 100 * real_plug._LOGIT_TOLERANCE
                new = [int(best.indices[0])]


# ── vectors that say whose they are ──────────────────────────────────────────────────────────────────────────────────


def test_every_vector_tells_whose_it_is():
    coded, seen = Coded(num_layers=2, num_kv_heads=3, head_dim=4, most_tokens=5), set()
    for kind, layer, position in itertools.product((0, 1), (0, 1), range(5)):
        for head, vector in enumerate(coded.vectors(kind, layer, position, position + 1)[0]):
            assert coded.whose(vector) == (kind, layer, position, head)
            seen.update(vector.tolist())
    assert len(seen) == 2 * 2 * 5 * 3 * 4
    for nobodys in ([1.0, 2.0, 3.0, 9.0], [2.0, 3.0, 4.0, 5.0], [0.5] * 4, [1e9] * 4, [float("nan")] * 4):
        assert coded.whose(torch.tensor(nobodys)) is None
    assert coded.describe(coded.vectors(1, 0, 2, 3)[0, 1]) == "the value of position 2, KV head 1, layer 0"
    assert coded.describe(torch.full((4,), -3.0)) == "what lay there before"
    assert coded.describe(torch.zeros(4)) == "no token's as a whole"


def test_a_used_storage_has_something_else_in_every_place():
    data = used_storage(2, 2, 4, 3, 4).data
    assert bool((data < 0).all()) and len(data.unique()) == data.numel()


# ── the cases ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("case", [*real_attend.CASES, *(real_attend._random_case(real_attend.random.Random(seed), seed)
                                                        for seed in range(5))], ids=lambda case: case.name)
def test_the_right_attention_is_the_librarys(case):
    keys, values = (pool[case.block_table].transpose(0, 1).flatten(1, 2)[:, :case.num_tokens]
                    for pool in (case.keys, case.values))
    right = scaled_dot_product_attention(case.query[None, :, None], keys[None], values[None], scale=case.scale,
                                         enable_gqa=True)
    assert torch.allclose(case.attention(), right[0, :, 0], atol=1e-5)
    assert case.scale != case.head_dim ** -0.5


def test_the_result_of_a_named_case_is_its_weights():
    for case in real_attend.CASES:
        weights = case.attention()
        assert torch.allclose(weights.sum(-1), torch.ones(case.num_heads), atol=1e-5)
        assert int((weights > 0).sum()) == case.num_heads * case.num_tokens


@pytest.mark.parametrize("part", real_attend._PARTS)
def test_every_known_mistake_in_attention_shows_in_a_named_case(part):
    for mistake in filter(None, real_attend._PARTS[part]):
        right = [real_attend._gives({part: mistake}, case, case.attention()) for case in real_attend.CASES]
        assert not all(right), mistake


@pytest.mark.parametrize("name", real_fold.CASES)
def test_the_right_fold_is_a_softmax_over_all_blocks(name):
    assert real_fold._is_right(real_fold._folded(), real_fold.named_case(name))


@pytest.mark.parametrize("mistake", real_fold._MISTAKES)
def test_every_known_mistake_in_fold_shows_in_a_named_case_and_is_named(mistake):
    fold = real_fold._MISTAKES[mistake]
    with pytest.raises(real_fold.Wrong) as error:
        real_fold.try_fold(fold)
    assert mistake[1:] in str(error.value)


def test_a_right_write_passes_and_each_known_mistake_differs():
    parts = (real_write._BLOCKS, real_write._OFFSETS, real_write._PARTS, real_write._HEADS, real_write._NUM_TOKENS)

    def gives_the_right_pool(choice, case):
        pool = real_write._Pool(case)
        pool.storage.data.copy_(pool.expected())
        return real_write._would_leave(pool, *choice)

    assert all(gives_the_right_pool([""] * len(parts), case) for case in real_write.CASES)
    for place, part in enumerate(parts):
        for mistake in filter(None, part):
            choice = [mistake if place == at else "" for at in range(len(parts))]
            assert not all(gives_the_right_pool(choice, case) for case in real_write.CASES), mistake


def test_random_cases_fit_their_tables():
    rng = real_plug.random.Random(7)
    for _ in range(200):
        write, plug = real_write._random_case(rng), real_plug._random_case(rng)
        assert write.start + write.num_tokens <= len(write.block_table) * write.block_size
        assert sum(plug.steps) <= len(plug.block_table) * real_plug._BLOCK_SIZE and min(plug.steps) >= 1


def test_int8_cases_hold_both_answers_and_the_traps():
    right = [real_int8.right_choice(case) for case in real_int8.INT8_CASES]
    assert right == ["keep", "int8", "keep", "keep", "int8", "keep"]
    misled = [case for case in real_int8.INT8_CASES
              if (case.free_running >= case.least_agreement) != (case.teacher_forced >= case.least_agreement)]
    assert len(misled) >= 2
    halves = real_int8.INT8_CASES[3]
    assert halves.tokens * halves.fp16_token_bytes / 2 <= halves.budget_bytes < halves.tokens * halves.int8_token_bytes


def test_logits_agree_where_they_should():
    for positions, flips in real_int8._LOGITS.values():
        reference, other = real_int8._logits(torch.Generator().manual_seed(4), positions, flips)
        differ = (reference.argmax(-1) != other.argmax(-1)).nonzero().flatten().tolist()
        assert differ == flips and not bool((reference == other).any())


# ── pictures and threads ─────────────────────────────────────────────────────────────────────────────────────────────


def test_weights_in_a_picture():
    rows = [WeightRow("right", [0.25, 0.75, 0.0], [0.25, 0.75, 0.0]),
            WeightRow("wrong", [0.25, float("nan"), 0.3], [0.25, 0.75, 0.0])]
    assert [row.wrong for row in rows] == [[], [1, 2]]
    picture = plot_weights(rows, [("block 0", 2), ("block 1", 1)], ["0", "1", "×"], ["a", "b", "c"], "A title")
    assert picture.alt == "right is right. wrong has not a number instead of 75 % at b; 30 % instead of 0 % at c"
    assert picture.png() == picture.png() and picture.png().startswith(b"\x89PNG")


def test_percentages_without_noise():
    assert [percent(weight) for weight in (0.0, 0.30000001, 1.0, 20.0, float("inf"), float("nan"))] == \
        ["0 %", "30 %", "100 %", "2,000 %", "infinite", "not a number"]


def test_the_number_of_threads_is_put_back():
    before = torch.get_num_threads()
    with pytest.raises(KeyError), one_thread():
        assert torch.get_num_threads() == 1
        raise KeyError
    assert torch.get_num_threads() == before
