"""Which interval a mean gets, and that it is the right one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from farm.errors import BadNumbers
from farm.stats.intervals import wilson
from farm.stats.means import clustered_error, mean_interval, standard_error
from tests.vectors.load import rows

SCORES = st.lists(st.floats(0.0, 1.0), min_size=2, max_size=60)


@pytest.mark.parametrize(
    "row", rows("statistics", "intervals_and_tests", kind="clustered_se"), ids=lambda r: r["id"]
)
def test_clustered_errors_have_the_known_values(row):
    """Exact rationals, rounded once; with the G / (G - 1) correction."""
    scores = np.array([score for group in row["groups"] for score in group], dtype=float)
    codes = np.array([g for g, group in enumerate(row["groups"]) for _ in group])
    assert clustered_error(scores, codes) == pytest.approx(row["se_cluster_G"], abs=1e-12)
    assert standard_error(scores) == pytest.approx(row["se_iid"], abs=1e-12)


def test_yes_no_scores_get_wilson():
    assert mean_interval([1, 0, 1, 1]) == wilson(3, 4)
    assert mean_interval([1.0]) == wilson(1, 1)


def test_all_right_is_never_certainty():
    """Twenty of twenty: Wilson's lower end 0.8389, not 1."""
    lo, hi = mean_interval([1.0] * 20).bounds
    assert lo == pytest.approx(0.8388748419471806, abs=1e-12)
    assert hi == 1.0


def test_graded_scores_get_the_t_interval_of_scipy():
    scores = [0.2, 0.9, 0.5, 0.75, 0.0, 1.0, 0.4, 0.6, 0.55, 0.3, 0.8]
    interval = mean_interval(scores)
    half = stats.t.ppf(0.975, 10) * stats.sem(scores)
    assert interval.method == "student_t"
    assert interval.flags == ()
    assert interval.bounds == pytest.approx((np.mean(scores) - half, np.mean(scores) + half))


def test_few_graded_scores_say_so_and_stay_in_range():
    interval = mean_interval([0.9, 1.0, 0.6])
    assert interval.small_n
    assert interval.hi == 1.0


@given(SCORES)
def test_every_interval_holds_its_mean_and_stays_in_range(scores):
    lo, hi = mean_interval(scores).bounds
    assert 0.0 <= lo <= hi <= 1.0
    assert lo - 1e-12 <= np.mean(scores) <= hi + 1e-12


def test_equal_graded_scores_are_marked_as_without_spread():
    """0.1 summed and divided is not 0.1: rounding must not pass for spread."""
    interval = mean_interval([0.1] * 7)
    assert interval.degenerate
    assert interval.hi == pytest.approx(interval.lo, abs=1e-12)


def test_what_cannot_have_an_interval_says_why():
    assert mean_interval([]).reason == "no scored cases"
    assert "one graded score" in mean_interval([0.5]).reason
    assert "two are needed" in mean_interval([0.5, 0.7], clusters=["a", "a"]).reason


def test_clusters_count_as_the_units():
    scores, keys = [1, 1, 1, 0, 1, 0], ["a", "a", "a", "b", "c", "c"]
    interval = mean_interval(scores, clusters=keys)
    half = stats.t.ppf(0.975, 2) * 0.2545875386086578  # the error of row cluster-16
    assert interval.n == 3
    assert "few_clusters" in interval.flags
    assert interval.bounds == pytest.approx((max(0.0, 2 / 3 - half), 1.0))


def test_clusters_that_are_all_right_are_no_certainty_either():
    """Thirty equal cases in three clusters are three facts: Wilson of 3 of 3."""
    interval = mean_interval([1.0] * 30, clusters=[i // 10 for i in range(30)])
    assert interval.method == "wilson_clusters"
    assert interval.bounds == wilson(3, 3).bounds


@pytest.mark.parametrize("bad", [math.nan, math.inf, 1.5, -0.1])
def test_scores_outside_the_range_are_refused_with_their_place(bad):
    with pytest.raises(BadNumbers, match="index 1"):
        mean_interval([0.5, bad, 0.5])


def test_text_and_nested_lists_are_refused():
    with pytest.raises(BadNumbers, match=r"'0\.5' at index 0"):
        mean_interval(["0.5", 1.0])  # type: ignore[list-item]
    with pytest.raises(BadNumbers, match="flat"):
        mean_interval([[0.5], [0.5, 0.7]])  # type: ignore[list-item]
    with pytest.raises(BadNumbers, match="flat"):
        mean_interval([[0.5], [0.5]])  # type: ignore[list-item]
    with pytest.raises(BadNumbers, match="pair up"):
        mean_interval([0.5, 0.7], clusters=["a"])


def test_bad_numbers_are_value_errors_too():
    """Library callers need not know farm's tree."""
    with pytest.raises(ValueError, match="outside"):
        mean_interval([2.0])


def test_equal_shares_of_clusters_have_no_spread_whatever_their_last_bit_says():
    """One of three right in each of seven clusters: all means are a third, the sums are not 0."""
    scores = [1.0, 0.0, 0.0] * 7
    interval = mean_interval(scores, clusters=[place // 3 for place in range(21)])
    assert interval.bounds == pytest.approx((1 / 3, 1 / 3))
    assert interval.lo == interval.hi
    assert interval.flags == ("few_clusters", "degenerate")
