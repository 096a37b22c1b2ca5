"""Pairs of models: the test chosen, its figures, Holm over the board."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from scipy import stats

from farm.stats.bootstrap import bootstrap_pairwise_diff
from farm.stats.evalrun import EvalRun, ScoreTable
from farm.stats.paired import mcnemar_exact
from farm.stats.pairwise import compare_scores, pairwise_diffs
from tests.vectors.load import rows


def board(*scores: npt.ArrayLike) -> ScoreTable:
    return ScoreTable.of(
        [np.asarray(row, dtype=np.float64) for row in scores],
        model_ids=[f"m{i}" for i in range(len(scores))],
    )


def test_the_paired_error_is_used_and_not_the_unpaired():
    """Row lb-25: paired SE 0.25, unpaired 0.38; on graded scores of the same shape."""
    (row,) = (row for row in rows("statistics", "leaderboard") if row["id"] == "lb-25")
    a, b = np.array(row["a"]) * 0.9, np.array(row["b"]) * 0.9
    verdict = compare_scores(a, b)
    assert verdict.test == "paired_t"
    error = row["se_paired"] * 0.9
    half = stats.t.ppf(0.975, 3) * error
    assert verdict.interval.bounds == pytest.approx((0.225 - half, 0.225 + half), abs=1e-9)
    assert verdict.p_value == pytest.approx(stats.ttest_rel(a, b).pvalue, rel=1e-9)
    # 4.2558986955 standard errors: 80 % power of t with three degrees, from scipy's nct
    assert verdict.detectable.value == pytest.approx(4.2558986955 * error, rel=1e-8)


def test_yes_no_scores_get_mcnemar():
    """10 against 2 discordant of 40: p = 0.03857421875 (row mcnemar-22)."""
    a = np.array([1.0] * 10 + [0.0] * 2 + [1.0] * 28)
    b = np.array([0.0] * 10 + [1.0] * 2 + [1.0] * 28)
    (pair,) = pairwise_diffs(board(a, b))
    assert pair.test == "mcnemar_exact"
    assert pair.p_value == pytest.approx(0.03857421875, abs=1e-15)
    assert pair.diff_mean == pytest.approx(0.2)
    assert pair.ci_method == "bonett_price"
    assert pair.significant
    assert pair.boot_ci_lo is None


def test_graded_scores_have_the_paired_bootstrap_beside_the_t_interval():
    rng = np.random.default_rng(2)
    a, b = rng.random(50), rng.random(50)
    (pair,) = pairwise_diffs(board(a, b), seed=9)
    assert (pair.boot_ci_lo, pair.boot_ci_hi) == (
        bootstrap_pairwise_diff(a, b, resamples=1000, seed=9).bounds
    )


def test_holm_is_taken_over_every_pair_shown():
    """p = 0.0386, 0.0386 and 1 (row mcnemar-22): three times the first is above 0.05."""
    a = np.array([1.0] * 10 + [0.0] * 2 + [1.0] * 28)
    b = np.array([0.0] * 10 + [1.0] * 2 + [1.0] * 28)
    pairs = pairwise_diffs(board(a, b, b))
    assert [pair.p_value for pair in pairs] == pytest.approx([0.03857421875, 0.03857421875, 1.0])
    assert [pair.p_holm for pair in pairs] == pytest.approx([0.11572265625, 0.11572265625, 1.0])
    assert not any(pair.significant for pair in pairs)


def test_missing_tasks_are_left_out_and_counted():
    nan = math.nan
    (pair,) = pairwise_diffs(board([1, nan, 0, 1, 1], [0, 1, nan, nan, 1]))
    assert (pair.n, pair.only_a, pair.only_b) == (2, 2, 1)
    assert pair.p_value == mcnemar_exact(1, 0)


def test_no_common_task_is_undefined_and_leaves_the_other_pairs_alone():
    runs = [
        EvalRun(model_id=model, task_id=task, score=1.0)
        for model, task in [("A", "t1"), ("B", "t2"), ("C", "t1")]
    ]
    pairs = {(p.model_a, p.model_b): p for p in pairwise_diffs(runs)}
    lost = pairs["A", "B"]
    assert (lost.n, lost.diff_mean, lost.p_value, lost.p_holm, lost.test) == (
        0, None, None, None, "none",
    )  # fmt: skip
    assert "common" in lost.reason
    assert pairs["A", "C"].p_holm == 1.0


def test_two_perfect_models_are_tied_and_not_proven_equal():
    (pair,) = pairwise_diffs(board(np.ones(30), np.ones(30)))
    assert pair.p_value == 1.0
    assert not pair.significant
    assert pair.ci_lo is not None
    assert pair.ci_lo < 0.0
    assert pair.detectable is not None
    assert pair.detectable > 0.05


def test_clustered_tasks_get_a_clustered_test():
    """Differences 1,1,0 | 0 | 0,-1 against the same sums by hand: SE 0.3, two degrees."""
    a, b = np.array([1, 1, 0, 0, 0, 0.0]), np.array([0, 0, 0, 0, 0, 1.0])
    verdict = compare_scores(a, b, clusters=np.array([0, 0, 0, 1, 2, 2]))
    mean = 1 / 6
    sums = [2 - 3 * mean, 0 - mean, -1 - 2 * mean]
    error = math.sqrt(sum(s * s for s in sums) * 3 / 2) / 6
    assert verdict.test == "clustered_t"
    assert verdict.p_value == pytest.approx(2 * stats.t.sf(mean / error, 2))


@pytest.mark.parametrize(
    ("clusters", "size", "p"), [(50, 4, 2.0**-49), (6, 2, 2.0**-5), (5, 2, 2.0**-4)]
)
def test_clusters_that_all_fall_alike_are_judged_by_their_signs(clusters, size, p):
    """The exact two-sided sign test over clusters, 2 / 2^G: a t test has no spread to go by."""
    codes = np.repeat(np.arange(clusters), size)
    right = np.ones(clusters * size)
    total = compare_scores(right, 1.0 - right, clusters=codes)
    assert (total.test, total.p_value) == ("sign_exact", p)
    assert total.interval.bounds == (1.0, 1.0)
    assert total.interval.degenerate
    # one sample of each broken: the same third everywhere, but for the last bit
    part = np.where(np.arange(right.size) % size == 0, 2 / 3, 1.0)
    assert compare_scores(part, right, clusters=codes).p_value == p
    same = compare_scores(right, right, clusters=codes)
    assert (same.test, same.p_value, same.interval.bounds) == ("clustered_t", 1.0, (0.0, 0.0))
    alone = compare_scores(right, 1.0 - right, clusters=np.zeros(right.size, dtype=np.int64))
    assert (alone.test, alone.p_value, alone.interval.reason) == (
        "none", None, "fewer than two clusters",
    )  # fmt: skip


def test_a_pair_without_spread_says_that_its_interval_is_no_certainty():
    falls = board(np.full(4, 0.9), np.full(4, 0.2))
    (pair,) = pairwise_diffs(falls)
    assert (pair.ci_flags, pair.significant) == (("degenerate",), False)
    assert pair.detectable is None
    assert pair.detectable_reason == "with n = 4 no difference reaches p < 0.05"
    (spread,) = pairwise_diffs(board([0.9, 0.8, 0.9], [0.2, 0.3, 0.4]))
    assert spread.ci_flags == ()


def test_turning_a_pair_round_changes_only_the_sign():
    rng = np.random.default_rng(6)
    a, b = rng.random(40), rng.random(40)
    (one,), (other,) = pairwise_diffs(board(a, b)), pairwise_diffs(board(b, a))
    assert one.diff_mean == pytest.approx(-(other.diff_mean or 0.0))
    assert one.p_value == other.p_value
    assert (one.ci_lo, one.ci_hi) == pytest.approx((-(other.ci_hi or 0), -(other.ci_lo or 0)))
    assert (one.boot_ci_lo, one.boot_ci_hi) == pytest.approx(
        (-(other.boot_ci_hi or 0), -(other.boot_ci_lo or 0)), abs=1e-12
    )


def test_the_test_is_chosen_by_what_both_have():
    """A part of a point on a task that only one was given is not part of the difference."""
    (pair,) = pairwise_diffs(board([1, 1, 0, 0.5], [1, 0, 0, math.nan]))
    assert (pair.n, pair.only_a, pair.test) == (3, 1, "mcnemar_exact")
