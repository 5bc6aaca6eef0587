"""Exercise 06.3: an online softmax, looked at after each block.

In the named cases the value of each token is 1 in one place of its own and 0 elsewhere, so out / total is the weights
of the tokens so far. The random cases have ordinary values.
"""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from pagedkv.lab.counter_example import counter_example
from pagedkv.lab.grading import NotYet, Wrong, describe_error
from pagedkv.lab.real_attend import as_result, close
from pagedkv.lab.real_pictures import WeightRow, percent, plot_weights

_RANDOM_CASES = 20
_RANDOM_DIM = 5

# name → the scores, block by block
CASES = {
    "one block": [[1, 2, 0]],
    "two blocks, the larger scores first": [[2, 1], [0, 1]],
    "two blocks, the larger scores last": [[0, 1], [2, 1]],
    "all scores are the same": [[1, 1], [1, 1], [1, 1]],
    "the last block has one token": [[0, 1, 2], [1, 0, 1], [2]],
    "up and down": [[0, 2], [3, 1], [1, 0], [4, 2]],
    "scores of hundreds": [[300, 301], [302, 300]],
    "from high to low": [[200, 199], [0, 1], [200, 198]],
    "far below zero": [[-300, -301], [-299, -300]],
    "from low to high": [[-200, -199], [200, 199]],
}


@dataclass
class FoldCase:
    name: str
    scores: list[torch.Tensor]  # a block each: [tokens]
    values: list[torch.Tensor]  # [tokens, head_dim]
    shows_weights: bool

    def expected(self, num_blocks: int) -> torch.Tensor:
        """What attention over the first blocks gives."""
        return torch.cat(self.scores[:num_blocks]).softmax(0) @ torch.cat(self.values[:num_blocks])

    def situation(self, number: int) -> str:
        blocks = ", ".join("[" + ", ".join(f"{score:.3g}" for score in block.tolist()) + "]" for block in self.scores)
        return f"{self.name}; after block {number} of the scores\n   {blocks}"


def named_case(name: str) -> FoldCase:
    blocks = CASES[name]
    numbers = torch.eye(sum(map(len, blocks)))
    return FoldCase(name, [torch.tensor(block, dtype=torch.float32) for block in blocks],
                    list(numbers.split([len(block) for block in blocks])), True)


def _random_case(rng: random.Random, seed: int) -> FoldCase:
    generator = torch.Generator().manual_seed(seed)
    size, num_blocks = rng.choice((1, 4, 16)), rng.randint(1, 6)
    lengths = [size] * (num_blocks - 1) + [rng.randint(1, size)]
    spread = rng.choice((1, 10, 200))
    return FoldCase("a random case", [torch.randn(length, generator=generator) * spread for length in lengths],
                    [torch.randn(length, _RANDOM_DIM, generator=generator) for length in lengths], False)


def try_fold(fold: Any) -> str:
    """Raises Wrong after the first block at which out / total is not the attention so far. Returns what was tried."""
    if not callable(fold):
        raise Wrong(f'check gets your function: check("06.3", fold); got {fold!r:.80}')
    for name in CASES:
        _fold(fold, named_case(name))
    rng = random.Random(1)
    for seed in range(_RANDOM_CASES):
        _fold(fold, _random_case(rng, seed))
    return f"{len(CASES)} named cases and {_RANDOM_CASES} random ones, looked at after each block"


def _fold(fold: Callable, case: FoldCase) -> None:
    state, told = None, []
    for number, (scores, values) in enumerate(zip(case.scores, case.values)):
        situation, given = case.situation(number), values.clone()
        try:
            state = fold(state, scores.clone(), given)
        except (NotYet, Wrong):
            raise
        except Exception as error:
            raise counter_example(situation, f"raised {describe_error(error)}", "a new state (m, total, out)") from None
        told.append(_as_state(state, values.shape[1], situation))
        if not torch.equal(given, values):
            raise counter_example(situation, "the block's values were changed",
                                  "they are a view of the pool: read only")
        total, out = told[-1]
        if not close(out / total, case.expected(number + 1), state[2]):
            raise _counter_example(case, told)


def _as_state(state: Any, head_dim: int, situation: str) -> tuple[torch.Tensor, torch.Tensor]:
    """total [] and out [head_dim] of a learner's state. What m is, is between fold and itself."""
    if state is None:
        raise NotYet("fold() returns nothing yet")
    if not isinstance(state, (tuple, list)) or len(state) != 3:
        raise counter_example(situation, f"{state!r:.60}", "a state of three: (m, total, out)")
    if any(part is None or part is Ellipsis for part in state):
        raise NotYet("a part of the state that fold() returns is still missing")
    out = as_result(state[2], (head_dim,), "fold()", "out is [head_dim]", situation)
    try:
        total = torch.as_tensor(state[1]).detach().to("cpu", torch.float32)
        if total.numel() != 1:
            raise ValueError
    except (TypeError, ValueError, RuntimeError):
        raise counter_example(situation, f"total is {state[1]!r:.60}", "total is one number") from None
    return total.reshape(()), out


# ── the ways in which it goes wrong: (m, total, out), scores, values → the new state ─────────────────────────────────


def _start(values: torch.Tensor, m: float = -torch.inf) -> tuple:
    return torch.tensor(m), torch.tensor(0.0), torch.zeros(values.shape[1])


def _folded(rescale_total: bool = True, rescale_out: bool = True, first_m: float = -torch.inf, m_of_block: bool = False,
            turned_round: bool = False, forgets_m: bool = False, old_m_in_weights: bool = False) -> Callable:
    def fold(state, scores, values):
        m, total, out = state or _start(values, first_m)
        new_m = scores.max() if m_of_block else torch.maximum(m, scores.max())
        factor = torch.exp(new_m - m if turned_round else m - new_m) if torch.isfinite(m) else torch.tensor(0.0)
        weights = torch.exp(scores - (m if old_m_in_weights and torch.isfinite(m) else new_m))
        total = (total * factor if rescale_total else total) + weights.sum()
        out = (out * factor if rescale_out else out) + weights @ values
        return (m if forgets_m and torch.isfinite(m) else new_m), total, out
    return fold


def _no_maximum(state, scores, values):
    m, total, out = state or _start(values)
    weights = torch.exp(scores)
    return m, total + weights.sum(), out + weights @ values


def _average_of_averages(state, scores, values):
    m, total, out = state or _start(values)
    return m, total + 1, out + scores.softmax(0) @ values


def _this_block_only(state, scores, values):
    m, total, out = _folded()(None, scores, values)
    return m, total, out


def _divided_already(state, scores, values):
    m, total, out = _folded()(state, scores, values)
    return m, total, out / total


_MISTAKES = {
    "Your out is not rescaled: when the maximum moves from m to m', all that was added up is too large by exp(m' - m)":
        _folded(rescale_out=False),
    "Your total is not rescaled: it has to shrink as out does, by exp(m - m')": _folded(rescale_total=False),
    "Neither total nor out is rescaled: each block has another maximum":
        _folded(rescale_total=False, rescale_out=False),
    "Your factor is exp(m' - m); what was added up is too large, so it is exp(m - m')": _folded(turned_round=True),
    "No maximum is subtracted: exp overflows above 88, and is 0 below -103": _no_maximum,
    "Your m is the block's maximum, not the largest so far": _folded(m_of_block=True),
    "Your m is the block's maximum, and total and out are not rescaled":
        _folded(m_of_block=True, rescale_total=False, rescale_out=False),
    "Your m is the block's maximum, and out is not rescaled": _folded(m_of_block=True, rescale_out=False),
    "Your m begins at 0: with scores far below it, every exp is 0. It begins at -∞": _folded(first_m=0.0),
    "You return the old m, and total and out belong to the new one": _folded(forgets_m=True),
    "Your weights are exp(score - old m), and the rest belongs to the new m": _folded(old_m_in_weights=True),
    "This is an average of the blocks' averages: a block counts by its total": _average_of_averages,
    "What came before is forgotten: this is the last block alone": _this_block_only,
    "Out is divided by total already: the caller does that, once, at the end": _divided_already,
}


def _mistake_in(case: FoldCase, told: list[tuple[torch.Tensor, torch.Tensor]]) -> str:
    """The mistake that would give the same after each block, and was right in the cases before; total and out by
    themselves tell more than their ratio."""
    def ratios(states):
        return [out / total for total, out in states]

    before = itertools.takewhile(lambda name: name != case.name, CASES)
    possible = dict(_MISTAKES)
    for earlier in map(named_case, before):
        possible = {mistake: fold for mistake, fold in possible.items() if _is_right(fold, earlier)}
    runs = {mistake: _run(fold, case, len(told)) for mistake, fold in possible.items()}
    for mistake, states in runs.items():
        if all(_same(a, b) for pair in zip(told, states) for a, b in zip(*pair)):
            return mistake
    for mistake, states in runs.items():
        if all(_same(a, b) for a, b in zip(ratios(told), ratios(states))):
            return mistake
    return ""


def _is_right(fold: Callable, case: FoldCase) -> bool:
    states = _run(fold, case, len(case.scores))
    return all(close(out / total, case.expected(number + 1)) for number, (total, out) in enumerate(states))


def _run(fold: Callable, case: FoldCase, num_blocks: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    state, states = None, []
    for scores, values in zip(case.scores[:num_blocks], case.values[:num_blocks]):
        state = fold(state, scores, values)
        states.append(state[1:])
    return states


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)


# ── the counter-example ──────────────────────────────────────────────────────────────────────────────────────────────


def _counter_example(case: FoldCase, told: list[tuple[torch.Tensor, torch.Tensor]]) -> Wrong:
    mistake = _mistake_in(case, told)
    total, out = told[-1]
    yours, right = out / total, case.expected(len(told))
    if case.shows_weights:
        said, wanted = (" ".join(percent(float(weight)) for weight in weights[:_seen(case, len(told))])
                        for weights in (yours, right))
        said, wanted = f"out / total gives the tokens {said}", wanted
        if bool(torch.isnan(yours).any()):
            said = f"out / total is not a number: {_about(total, out)}"
    else:
        number = int((yours - right).abs().nan_to_num(torch.inf).argmax())
        said, wanted = (f"number {number} of out / total is {float(tensor[number]):.3g}" for tensor in (yours, right))
    picture = _picture(case, told) if case.shows_weights else None
    return counter_example(case.situation(len(told) - 1), said, f"{wanted}{'. ' * bool(mistake)}{mistake}", picture)


def _about(total: torch.Tensor, out: torch.Tensor) -> str:
    if not bool(torch.isfinite(total)):
        return "total is infinite" if bool(torch.isinf(total)) else "total is none either"
    if float(total) == 0:
        return "total is 0"
    return "out has one that is none" if bool(torch.isnan(out).any()) else "out is infinite"


def _seen(case: FoldCase, num_blocks: int) -> int:
    return sum(len(block) for block in case.scores[:num_blocks])


def _picture(case: FoldCase, told: list[tuple[torch.Tensor, torch.Tensor]]) -> tuple[bytes, str]:
    rows = [WeightRow(f"after block {number}", (out / total).tolist(), case.expected(number + 1).tolist())
            for number, (total, out) in enumerate(told)]
    groups = [(f"block {number}", len(block)) for number, block in enumerate(case.scores)]
    labels = [f"{score:.3g}" for block in case.scores for score in block.tolist()]
    places = [f"token {number}" for number in range(len(labels))]
    title = "out / total in %, by token; above: its score; below a wrong one, the right one"
    picture = plot_weights(rows, groups, labels, places, title)
    return picture.png(), f"out / total by token, after each block. {picture.alt}"
