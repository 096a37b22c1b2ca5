"""The percentile bootstrap: known distributions, laws that need no known stream."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from farm.errors import BadNumbers
from farm.stats.bootstrap import (
    bootstrap_mean_ci,
    bootstrap_means,
    bootstrap_pairwise_diff,
)
from tests.vectors.load import known

EXACT = known("statistics")["bootstrap"]["exact_small_samples"]
SCORES = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=40)
few = settings(max_examples=30, deadline=None)


@pytest.mark.parametrize("row", EXACT, ids=lambda r: r["id"])
def test_small_samples_have_the_fully_enumerated_distribution(row):
    """Standard error within 3 % of the enumeration, and its ends at 95 %."""
    scores = np.array(row["scores"], dtype=float)
    means = bootstrap_means(scores, resamples=10_000, seed=7)
    exact = row["bootstrap_se_exact"]
    assert abs(means.std() - exact) <= 0.03 * exact
    assert bootstrap_mean_ci(scores, seed=7).bounds == pytest.approx(
        (row["q025"], row["q975"]), abs=1e-12
    )


@given(SCORES, st.integers(0, 2**32))
@few
def test_the_same_seed_gives_the_same_bits_and_stays_inside_the_scores(scores, seed):
    first = bootstrap_mean_ci(scores, resamples=500, seed=seed)
    assert first == bootstrap_mean_ci(scores, resamples=500, seed=np.random.default_rng(seed))
    lo, hi = first.bounds
    assert min(scores) <= lo <= hi <= max(scores)


@given(SCORES)
@few
def test_reflected_scores_give_the_reflected_interval(scores):
    """1 - x draws the same resamples, so the ends change places exactly."""
    scores = [round(score, 3) for score in scores]
    lo, hi = bootstrap_mean_ci(scores, resamples=500).bounds
    mirrored = bootstrap_mean_ci([1.0 - score for score in scores], resamples=500).bounds
    assert mirrored == pytest.approx((1.0 - hi, 1.0 - lo), abs=1e-12)


@given(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=300))
@few
def test_reflected_yes_no_scores_too(scores):
    lo, hi = bootstrap_mean_ci(scores, resamples=500).bounds
    mirrored = bootstrap_mean_ci([1.0 - score for score in scores], resamples=500).bounds
    assert mirrored == pytest.approx((1.0 - hi, 1.0 - lo), abs=1e-12)


def test_reflected_yes_no_replicates_are_reflected_one_by_one():
    """At one half the two values could change places unseen by any interval."""
    scores = np.array([0.0, 1.0] * 10)
    means = bootstrap_means(scores, resamples=50)
    assert bootstrap_means(1.0 - scores, resamples=50) == pytest.approx(1.0 - means)


@given(SCORES, SCORES)
@few
def test_a_difference_turned_round_changes_sign(first, second):
    size = min(len(first), len(second))
    first, second = first[:size], second[:size]
    lo, hi = bootstrap_pairwise_diff(first, second, resamples=500).bounds
    turned = bootstrap_pairwise_diff(second, first, resamples=500).bounds
    assert turned == pytest.approx((-hi, -lo), abs=1e-12)


@given(SCORES)
@few
def test_levels_nest(scores):
    inner, middle, outer = (
        bootstrap_mean_ci(scores, level=level, resamples=2000).bounds for level in (0.9, 0.95, 0.99)
    )
    assert outer[0] <= middle[0] <= inner[0]
    assert inner[1] <= middle[1] <= outer[1]


def test_yes_no_replicates_are_binomial_shares():
    """Support: multiples of 1/n; mean p; variance p (1 - p) / n."""
    scores = np.array([1.0] * 30 + [0.0] * 70)
    means = bootstrap_means(scores, resamples=20_000, seed=3)
    assert np.allclose(means * 100, np.round(means * 100), atol=1e-9)
    assert means.mean() == pytest.approx(0.3, abs=0.002)
    assert means.std() == pytest.approx(math.sqrt(0.3 * 0.7 / 100), rel=0.03)


@pytest.mark.parametrize("size", [300, 5_000, 20_000])
def test_gathered_and_binned_replicates_have_the_error_of_the_closed_form(size):
    """SE is sqrt((n - 1) / n) of the classical one, here within Monte Carlo noise (3 %)."""
    scores = np.random.default_rng(5).beta(0.4, 1.3, size=size)
    means = bootstrap_means(scores, resamples=10_000, seed=11)
    assert means.std() == pytest.approx(scores.std() / math.sqrt(size), rel=0.03)
    assert means.mean() == pytest.approx(scores.mean(), abs=0.05 * means.std())


def test_binned_replicates_keep_the_spread_inside_a_bin():
    """All but one score share one bin: without the spread inside it the error is a fifth short."""
    scores = np.random.default_rng(9).random(20_000) * 0.02
    scores[0] = 1.0
    means = bootstrap_means(scores, resamples=10_000, seed=2)
    assert means.std() == pytest.approx(scores.std() / math.sqrt(scores.size), rel=0.03)


def test_binning_gives_the_interval_that_gathering_gives():
    """The same 6,000 skewed scores both ways: ends within a twentieth of a standard error."""
    scores = np.random.default_rng(8).beta(0.2, 2.0, size=6_000)
    gathered = bootstrap_means(scores, resamples=20_000, seed=1)
    binned = bootstrap_means(scores, resamples=20_000, seed=1, gathered_up_to=100)
    noise = 0.05 * gathered.std()
    for share in (0.025, 0.16, 0.5, 0.84, 0.975):
        assert np.quantile(binned, share) == pytest.approx(np.quantile(gathered, share), abs=noise)


def test_equal_scores_have_no_width_and_are_marked():
    interval = bootstrap_mean_ci([0.7] * 9)
    assert interval.bounds == (0.7, 0.7)
    assert interval.degenerate
    assert bootstrap_pairwise_diff([0.5, 0.9], [0.5, 0.9]).bounds == (0.0, 0.0)


def test_nothing_and_one_score_are_undefined():
    assert bootstrap_mean_ci([]).reason == "no scored cases"
    assert bootstrap_mean_ci([0.4]).reason == "one score cannot be resampled"


def test_too_few_resamples_are_marked_and_none_are_refused():
    assert "few_resamples" in bootstrap_mean_ci([0.1, 0.9], resamples=399).flags
    assert bootstrap_mean_ci([0.1, 0.9], resamples=400).flags == ()
    with pytest.raises(BadNumbers, match="resamples"):
        bootstrap_mean_ci([0.1, 0.9], resamples=0)


def test_pairs_must_pair_up():
    with pytest.raises(BadNumbers, match="lengths 1 and 2"):
        bootstrap_pairwise_diff([0.5], [0.5, 0.5])


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"resamples": 1.5}, "resamples 1.5"),
        ({"resamples": True}, "resamples True"),
        ({"resamples": None}, "resamples None"),
        ({"seed": -1}, "seed -1"),
        ({"seed": None}, "seed None"),
        ({"seed": 0.5}, "seed 0.5"),
    ],
)
def test_draws_that_are_none_are_refused_by_name(given, told):
    """Without a seed the same scores would give other figures each time."""
    with pytest.raises(BadNumbers, match=told):
        bootstrap_mean_ci([0.1, 0.9], **given)


@pytest.mark.parametrize("scores", [None, 5, "0.5", object()])
def test_scores_that_are_no_list_are_refused_by_name(scores):
    with pytest.raises(BadNumbers, match="scores: must be"):
        bootstrap_mean_ci(scores)
