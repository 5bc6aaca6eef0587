"""Any calls in any order: manager and model agree.

Twice: by Hypothesis, which finds a short sequence where they differ, and by the plain random driver of `manager_long`,
which makes far more calls. PAGEDKV_MANAGER_OPERATIONS sets how many calls are made in all (default 220,000).
"""

import os
from collections import Counter

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (RuleBasedStateMachine, initialize, invariant, precondition, rule,
                                 run_state_machine_as_test)

from tests.core import manager_long
from tests.core.manager_checked import CheckedManager

OPERATIONS = int(os.environ.get("PAGEDKV_MANAGER_OPERATIONS", 220_000))
EXAMPLES, STEPS = 150, 40

tokens = st.integers(0, 1)
prompts = st.lists(tokens, min_size=1, max_size=5)
salts = st.sampled_from((None, None, None, "a", b"a"))
picks = st.integers(0, 15)
anything_live = precondition(lambda machine: machine.checked.sequences)
anything_freed = precondition(lambda machine: machine.checked.freed)


class ManagerMachine(RuleBasedStateMachine):
    """Small pools and two tokens, so that prompts collide and blocks run out."""

    make = manager_long.KVCacheManager
    counted: Counter = Counter()

    @initialize(num_blocks=st.sampled_from((6, 8, 12, 4, 3, 2, 5, 1)),
                block_size=st.sampled_from((1, 1, 1, 2, 2, 3, 4, 16)), observed=st.booleans())
    def begin(self, num_blocks, block_size, observed):
        self.checked = CheckedManager(num_blocks, block_size, observed=observed, make=type(self).make)
        self.prompts = [[0]]

    def one(self, pick):
        return self.checked.sequences[pick % len(self.checked.sequences)]

    @rule(prompt=prompts, salt=salts, owner=st.sampled_from((None, "A")))
    def add(self, prompt, salt, owner):
        self.prompts.append(prompt)
        self.checked.add(prompt, salt, owner)

    @rule(pick=picks, kept=st.integers(0, 12), more=st.lists(tokens, max_size=2), salt=salts)
    def add_like_one_before(self, pick, kept, more, salt):
        prompt = (self.prompts[pick % len(self.prompts)][:kept] + more) or [0]
        self.prompts.append(prompt)
        self.checked.add(prompt, salt)

    @rule(token=tokens, blocks=st.integers(0, 4), over=st.integers(0, 1))
    def add_full_blocks(self, token, blocks, over):
        prompt = [token] * (blocks * self.checked.block_size + over) or [token]
        self.prompts.append(prompt)
        self.checked.add(prompt)

    @anything_live
    @rule(pick=picks, token=tokens, times=st.integers(1, 3))
    def append(self, pick, token, times):
        for _ in range(times):
            self.checked.append(self.one(pick), token)

    @anything_live
    @rule(picks=st.lists(picks, unique=True, max_size=4), token=tokens)
    def append_many(self, picks, token):
        many = list({id(one): one for one in map(self.one, picks)}.values())
        self.checked.append_many(many, [token] * len(many))

    @anything_live
    @rule(pick=picks)
    def fork(self, pick):
        self.checked.fork(self.one(pick))

    @rule(pick=picks)
    def add_one_before_again(self, pick):
        self.checked.add(self.prompts[pick % len(self.prompts)])

    @anything_live
    @rule(pick=picks, by=st.sampled_from(("free_sequence", "free_sequence", "reclaim")))
    def free(self, pick, by):
        one = self.one(pick)
        self.prompts.append(list(one.tokens))
        self.checked.free(one, by)

    @anything_live
    @rule()
    def free_the_oldest(self):
        self.checked.free(self.checked.sequences[0])

    @anything_freed
    @rule(pick=picks, how=st.sampled_from(("free_again", "append_after_free", "append_many_after_free",
                                           "fork_after_free", "reclaim_again")))
    def use_after_free(self, pick, how):
        getattr(self.checked, how)(self.checked.freed[pick % len(self.checked.freed)])

    @rule(bad=st.sampled_from(range(len(manager_long.BAD_TOKENS))))
    def add_bad_tokens(self, bad):
        self.checked.refused((TypeError, ValueError), f"add_sequence({manager_long.BAD_TOKENS[bad]!r})",
                             lambda manager: manager.add_sequence(manager_long.BAD_TOKENS[bad]))

    @rule()
    def sync(self):
        self.checked.sync()

    @rule(prompt=prompts, salt=salts)
    def find(self, prompt, salt):
        self.checked.find(prompt, salt)

    @rule(n=st.integers(0, 4))
    def allocate_past_the_manager(self, n):
        self.checked.raw_allocate(n)

    @precondition(lambda machine: machine.checked.raw)
    @rule(n=st.integers(1, 4))
    def release_past_the_manager(self, n):
        self.checked.raw_release(min(n, len(self.checked.raw)))

    @invariant()
    def all_agrees(self):
        if hasattr(self, "checked"):
            self.checked.check()

    def teardown(self):
        if hasattr(self, "checked"):
            type(self).counted["operations"] += self.checked.num_operations
            type(self).counted.update(self.checked.model.seen)


def run_machine(machine, examples: int) -> None:
    run_state_machine_as_test(machine, settings=settings(
        max_examples=examples, stateful_step_count=STEPS, derandomize=True, database=None, deadline=None,
        report_multiple_bugs=False, suppress_health_check=list(HealthCheck)))


def test_manager_and_model_agree(capsys):
    """X9 too: a fork that is freed again takes back every token that was only tried."""
    ManagerMachine.counted = Counter()
    run_machine(ManagerMachine, EXAMPLES)
    by_hypothesis = ManagerMachine.counted
    counts = manager_long.run(max(OPERATIONS - by_hypothesis["operations"], 1), seed=0) + by_hypothesis
    with capsys.disabled():
        print(f"\n{counts['operations']:,} operations of the cache manager, "
              f"{by_hypothesis['operations']:,} of them by Hypothesis")
    assert counts["operations"] >= OPERATIONS
    for rule_of_the_model in ("hit on an unused block", "hit on a held block", "computed twice", "registered",
                              "evicted", "copied", "head refreshed for its tail", "lost its parent",
                              "doomed from the start", "doomed block released", "refused for lack of blocks",
                              "refused for another reason"):
        assert counts[rule_of_the_model] >= OPERATIONS // 5000, f"too seldom: {rule_of_the_model} in {counts}"
