"""Exercise 06.5: INT8 for keys and values, or not.

Quality is told by *teacher-forced* agreement: both caches are given the same text, and one counts at how many positions
the model would choose the same next token. In *free-running* agreement each goes on from its own tokens: after the
first difference the texts are two, and the figure says mostly how early that was.
"""

import itertools
import random
from collections.abc import Callable
from typing import Any, NamedTuple

import torch

from pagedkv.core.kv_size import MODELS, kv_bytes_per_token
from pagedkv.core.memory import as_text
from pagedkv.lab.counter_example import counter_example
from pagedkv.lab.grading import NotYet, Wrong, describe_error

_GIB = 1 << 30
_VOCABULARY = 50
_RANDOM_CASES = 300
_CLOSE = 1e-4


class Int8Case(NamedTuple):
    """A decision. The bytes are those of `pagedkv.core.kv_size`, with scales; the agreements are made up.

    tokens            have to be in memory at once
    least_agreement   that the product asks for, teacher-forced
    """

    name: str
    tokens: int
    budget_bytes: int
    fp16_token_bytes: int
    int8_token_bytes: int
    least_agreement: float
    teacher_forced: float
    free_running: float

    def __str__(self) -> str:
        fp16, int8 = (as_text(self.tokens * size) for size in (self.fp16_token_bytes, self.int8_token_bytes))
        return (f"{self.name}: {self.tokens:,} tokens, {fp16} in fp16, {int8} in INT8, "
                f"{as_text(self.budget_bytes)} are there; at least {self.least_agreement:g} is asked for, "
                f"teacher-forced {self.teacher_forced:g}, free-running {self.free_running:g}")


def _case(model: str, tokens: int, budget_gib: int, least: float, teacher_forced: float, free_running: float
          ) -> Int8Case:
    shape = MODELS[model]
    return Int8Case(model, tokens, budget_gib * _GIB, kv_bytes_per_token(shape),
                    kv_bytes_per_token(shape, "int8", scales=True), least, teacher_forced, free_running)


INT8_CASES = [
    _case("Llama-3-8B", 100_000, 16, 0.98, 0.99, 0.95),     # fits as it is
    _case("Llama-3-8B", 200_000, 16, 0.98, 0.985, 0.41),    # free-running agreement would say no
    _case("Llama-3-8B", 200_000, 16, 0.98, 0.962, 0.99),    # and here, yes
    _case("Llama-2-7B", 65_000, 16, 0.97, 0.99, 0.97),      # half of fp16 would fit, and INT8 has scales too
    _case("SmolLM2-135M", 1_000_000, 20, 0.98, 0.98, 0.3),  # exactly what is asked for
    _case("Llama-2-7B", 200_000, 16, 0.95, 0.99, 0.9),      # fits neither way
]


def right_choice(case: Int8Case) -> str:
    """ "int8" only if it is needed, is enough, and is good enough."""
    needed = case.tokens * case.fp16_token_bytes > case.budget_bytes
    enough = case.tokens * case.int8_token_bytes <= case.budget_bytes
    return "int8" if needed and enough and case.teacher_forced >= case.least_agreement else "keep"


def try_int8(agreement: Any, choose: Any = None) -> str:
    """Raises Wrong at the first wrong figure or choice. Returns what was tried."""
    for name, answer in (("agreement", agreement), ("choose", choose)):
        if answer is not None and not callable(answer):
            raise Wrong(f'check gets your two functions: check("06.5", agreement, choose); {name} is {answer!r:.60}')
    num_logits = _try_agreement(agreement)
    if choose is None:
        raise NotYet('agreement() is right. choose() is missing here: check("06.5", agreement, choose)')
    _try_choose(choose)
    return f"{num_logits} pairs of logits, {len(INT8_CASES)} named decisions and {_RANDOM_CASES} random ones"


# ── agreement ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _logits(generator: torch.Generator, positions: int, flips: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
    """Two sets of logits that differ everywhere a little, and choose another token at `flips`."""
    reference = torch.randn(positions, _VOCABULARY, generator=generator)
    best = torch.randperm(_VOCABULARY, generator=generator)[torch.arange(positions) % _VOCABULARY]
    rows = torch.arange(positions)
    reference[rows, best] = 6.0  # no other number comes near
    other = reference + 0.1 * torch.randn(positions, _VOCABULARY, generator=generator)
    for position in flips:
        other[position, (int(best[position]) + 1 + position) % _VOCABULARY] = 7.5
    return reference, other


# name → positions, those with another token
_LOGITS = {
    "the same token everywhere, though no logit is the same": (10, []),
    "one of 4 positions differs": (4, [2]),
    "the second of 20 positions differs, and none after it": (20, [1]),
    "the last of 10 differs": (10, [9]),
    "another token everywhere": (8, list(range(8))),
    "one position": (1, []),
}
_AGREEMENTS: dict[str, Callable[[torch.Tensor, torch.Tensor], float]] = {
    "that is a count; divide by the number of positions": lambda a, b: float((a.argmax(-1) == b.argmax(-1)).sum()),
    "that is in percent; a fraction goes from 0 to 1": lambda a, b: 100 * _right_agreement(a, b),
    "that is the share that differs": lambda a, b: 1 - _right_agreement(a, b),
    "that is the share before the first difference. In teacher forcing both go on from the same text, so every "
    "position counts": lambda a, b: float((a.argmax(-1) == b.argmax(-1)).long().cumprod(0).float().mean()),
    "your argmax goes over the positions; it has to go over the vocabulary":
        lambda a, b: float((a.argmax(0) == b.argmax(0)).float().mean()),
    "your argmax takes all positions together": lambda a, b: float(a.argmax() == b.argmax()),
    "that is how many logits are the same; the chosen tokens count": lambda a, b: float((a == b).float().mean()),
    "that is how many logits are nearly the same; the chosen tokens count":
        lambda a, b: float(torch.isclose(a, b, atol=0.1, rtol=0.1).float().mean()),
    "it is 1 only if all agree: that says nothing about how many do":
        lambda a, b: float((a.argmax(-1) == b.argmax(-1)).all()),
}


def _right_agreement(reference: torch.Tensor, other: torch.Tensor) -> float:
    return float((reference.argmax(-1) == other.argmax(-1)).float().mean())


def _try_agreement(agreement: Callable) -> int:
    generator, rng = torch.Generator().manual_seed(1), random.Random(1)
    cases = {**_LOGITS, **{f"random logits, number {number}": (size, rng.sample(range(size), rng.randint(0, size)))
                           for number, size in enumerate((2, 30, 70, 200))}}
    tried = []  # (situation, said, reference, other)
    for name, (positions, flips) in cases.items():
        reference, other = _logits(generator, positions, flips)
        situation = f"agreement(…) of two logits [{positions}, {_VOCABULARY}]; {name}"
        tried.append((situation, _ask(agreement, reference, other, situation), reference, other))
    for situation, said, reference, other in tried:
        right = _right_agreement(reference, other)
        if not abs(said - right) <= _CLOSE:
            raise counter_example(situation, f"{said:.3g}", f"{right:.3g}{_why([each[1:] for each in tried])}")
    return len(cases)


def _ask(agreement: Callable, reference: torch.Tensor, other: torch.Tensor, situation: str) -> float:
    right = _right_agreement(reference, other)
    try:
        answer = agreement(reference.clone(), other.clone())
    except (NotYet, Wrong):
        raise
    except Exception as error:
        raise counter_example(situation, f"raised {describe_error(error)}", f"{right:.3g}") from None
    return _as_fraction(answer, situation, right)


def _as_fraction(answer: Any, situation: str, right: float) -> float:
    if answer is None:
        raise NotYet("agreement() returns nothing yet")
    try:
        return float(answer)
    except (TypeError, ValueError, RuntimeError):
        what = f"a tensor {list(answer.shape)}" if isinstance(answer, torch.Tensor) else f"{answer!r:.60}"
        raise counter_example(situation, what, f"one number: {right:.3g}") from None


def _why(tried: list[tuple[float, torch.Tensor, torch.Tensor]]) -> str:
    """The mistake that would say the same every time."""
    for why, mistake in _AGREEMENTS.items():
        if all(abs(mistake(reference, other) - said) <= _CLOSE for said, reference, other in tried):
            return f": {why}"
    return ""


# ── choose ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _try_choose(choose: Callable) -> None:
    rng = random.Random(2)
    for case in itertools.chain(INT8_CASES, (_random_case(rng) for _ in range(_RANDOM_CASES))):
        right, why = right_choice(case), _reason(case)
        try:
            answer = choose(case)
        except (NotYet, Wrong):
            raise
        except Exception as error:
            raise counter_example(f"choose(…): {case}", f"raised {describe_error(error)}", f'"{right}"') from None
        if answer is None:
            raise NotYet("choose() returns nothing for a case yet")
        said = answer.strip().lower() if isinstance(answer, str) else answer
        if said not in ("int8", "keep") or not isinstance(said, str):
            raise counter_example(f"choose(…): {case}", f"{answer!r:.60}", '"int8" or "keep"')
        if said != right:
            raise counter_example(f"choose(…): {case}", f'"{said}"', f'"{right}": {why}')


def _reason(case: Int8Case) -> str:
    """Why the right choice is the right one."""
    fp16, int8 = case.tokens * case.fp16_token_bytes, case.tokens * case.int8_token_bytes
    if fp16 <= case.budget_bytes:
        return "it fits in fp16: room is all that this product wants of INT8, and it has it"
    if int8 > case.budget_bytes:
        half = ". Half of fp16 would fit, but there are the scales" if fp16 // 2 <= case.budget_bytes else ""
        return f"it does not fit in INT8 either{half}"
    which = "" if (case.free_running >= case.least_agreement) == (case.teacher_forced >= case.least_agreement) else \
        ". The free-running figure tells mostly how early the first difference came"
    if case.teacher_forced < case.least_agreement:
        return f"the teacher-forced agreement is too low{which}"
    return f"it fits in INT8 only, and the teacher-forced agreement is high enough{which}"


def _random_case(rng: random.Random) -> Int8Case:
    model, budget = rng.choice(("Llama-3-8B", "Llama-2-7B", "SmolLM2-135M")), rng.choice((4, 16, 64))
    per_token = kv_bytes_per_token(MODELS[model])
    tokens = int(budget * _GIB / per_token * rng.choice((0.5, 0.9, 1.0, 1.2, 1.8, 1.96, 2.0, 3.0)))
    least = rng.choice((0.95, 0.98))
    return _case(model, tokens, budget, least, round(least + rng.choice((-0.02, -0.001, 0, 0.001, 0.015)), 3),
                 round(rng.uniform(0.1, 1), 2))
