"""What notebook 04 shows and its exercises share: the claims, the measured helpers, and the fault of an int."""

import pytest

from pagedkv.core.kv_size import MODELS
from pagedkv.core.sizing import find_slips
from pagedkv.java import jclass, start
from pagedkv.lab.tables_cases import (BLOCK_TOKENS, CLAIMS, GIB, MIB, SLIPS, TOKEN_NUMBERS, allocator_ns, int32, shares)
from pagedkv.rivals.block_size import ARTICLE_SIZES_TOKENS, ARTICLE_UTILISATION


def test_the_articles_table():
    """N14: the free list is last in, first out, so logical block 2 lies in physical block 1021."""
    start()
    result = jclass("pagedkv.article.BlockTableDemo").run()
    assert (int(result.expected()), int(result.actual())) == (2, 1021)
    assert [int(block) for block in result.table()] == [1023, 1022, 1021]


def test_the_right_figures_of_the_claims():
    """N6, S1, B8."""
    assert CLAIMS[0].right_bytes == 320 * MIB
    assert CLAIMS[1].right_bytes == 31.25 * GIB
    assert CLAIMS[2].right_bytes == pytest.approx(588.8 * GIB)


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_is_wrong_and_its_slips_lead_there(claim):
    report = claim.report()
    assert not report.is_right
    fitting = claim.explanations()
    assert fitting and all(abs(found.error) <= claim.tolerance for found in fitting)
    assert bool(claim.remainder) == any(abs(found.error) > 0.01 for found in fitting)
    assert {slip.kind for found in fitting for slip in found.slips} - {"units"} == claim.slips
    assert claim.slips <= set(SLIPS) and all(claim.slips_of(kind) for kind in SLIPS)


def test_what_is_left_of_the_third_claim():
    """B8: two slips leave 8 %, and the factor taken twice 0.8 %."""
    shape = MODELS[CLAIMS[2].model]
    (best, *_) = find_slips(21e6, shape, 128 * 32, num_sequences=256, slack_percent=15, most_slips=3).explanations
    assert {slip.kind for slip in best.slips} >= {"prefix", "slack"} and best.error == pytest.approx(0.008, abs=0.0005)
    assert CLAIMS[2].explanations()[0].error == pytest.approx(-0.081, abs=0.0005)


def test_what_can_rise_with_nested_sizes():
    """B4: of the same sequences in the same pool, only what is allocated."""
    columns = list(zip(*(shares([287, 31, 64, 500, 9], size, 2048) for size in ARTICLE_SIZES_TOKENS)))
    filled, allocated, tokens = map(list, columns)
    assert filled == sorted(filled, reverse=True) and filled[0] > filled[-1]
    assert allocated == sorted(allocated) and allocated[0] < allocated[-1]
    assert len(set(tokens)) == 1
    assert list(ARTICLE_UTILISATION) == sorted(ARTICLE_UTILISATION)


def test_a_pool_that_is_too_small_has_no_shares():
    with pytest.raises(ValueError, match="19 blocks of 16 are needed, and the pool has 2"):
        shares([300], 16, 32)


def test_the_first_block_that_an_int_cannot_reach():
    """As vLLM's pull request 47671 says it: 2^31 / (480 · 576)."""
    numbers = BLOCK_TOKENS * TOKEN_NUMBERS
    assert numbers == 276_480 and 2**31 // numbers == 7767
    assert int32(7767 * numbers) == 7767 * numbers
    assert int32(7768 * numbers) == 7768 * numbers - 2**32 < 0
    assert int32(15_535 * numbers) == 149_504
    assert int32(-1) == -1 and int32(2**31) == -2**31 and int32(2**31 - 1) == 2**31 - 1


def test_a_token_costs_the_pool_less_with_larger_blocks():
    times = allocator_ns((1, 64), rounds=3)
    assert times[1] > 4 * times[64] > 0
