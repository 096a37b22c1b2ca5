"""Paired tests and Holm: known p-values, scipy, laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from farm.errors import BadNumbers
from farm.stats.paired import discordant_interval, holm, mcnemar_exact, paired_t
from farm.stats.power import detectable_by_t, detectable_without_spread
from tests.vectors.load import rows


@pytest.mark.parametrize(
    "row", rows("statistics", "intervals_and_tests", kind="mcnemar_exact"), ids=lambda r: r["id"]
)
def test_mcnemar_gives_the_known_p(row):
    assert mcnemar_exact(row["b"], row["c"]) == pytest.approx(row["p"], abs=1e-12)


@given(st.integers(0, 4000), st.integers(0, 4000))
def test_mcnemar_is_the_exact_binomial_test(b, c):
    """Both ways of summing the tail, against scipy."""
    expected = stats.binomtest(min(b, c), b + c, 0.5).pvalue if b + c else 1.0
    assert mcnemar_exact(b, c) == pytest.approx(expected, rel=1e-9)
    assert mcnemar_exact(c, b) == mcnemar_exact(b, c)


def test_mcnemar_of_a_million_pairs_is_quick_and_close_to_normal():
    """z = (b - c) / sqrt(b + c) = 2.0 with continuity correction 0.001: p is near 0.0455."""
    assert mcnemar_exact(501_000, 499_000) == pytest.approx(0.0455, abs=2e-4)


@pytest.mark.parametrize(
    "row", rows("statistics", "intervals_and_tests", kind="adjusted_p"), ids=lambda r: r["id"]
)
def test_holm_gives_the_known_adjusted_values(row):
    assert holm(row["p"]) == pytest.approx(row["holm"], abs=1e-12)


def test_holm_leaves_out_pairs_without_a_test():
    """Two tests, not three: 0.02 doubles to 0.04."""
    assert holm([0.02, None, 0.5]) == [0.04, None, 0.5]
    with pytest.raises(BadNumbers, match="index 1"):
        holm([0.1, 1.1])


@given(st.lists(st.floats(0.0, 1.0), max_size=30))
def test_holm_never_lowers_a_p_and_keeps_the_order(values):
    adjusted = [p for p in holm(values) if p is not None]
    assert all(a >= p for a, p in zip(adjusted, values, strict=True))
    by_p = [a for _, a in sorted(zip(values, adjusted, strict=True))]
    assert by_p == sorted(by_p)


@given(st.lists(st.floats(0.0, 1.0).map(lambda x: round(x, 2)), min_size=4, max_size=50))
def test_the_paired_t_is_the_one_of_scipy(values):
    half = len(values) // 2
    differences = np.array(values[:half]) - np.array(values[half : 2 * half])
    p, interval = paired_t(differences)
    if differences.std() < 1e-9:
        assert interval.degenerate
        return
    expected = stats.ttest_1samp(differences, 0.0)
    assert p == pytest.approx(expected.pvalue, rel=1e-8)
    low, high = expected.confidence_interval()
    assert interval.bounds == pytest.approx((max(-1, low), min(1, high)), abs=1e-9)


def test_equal_differences_are_judged_without_a_spread():
    """No difference: p = 1. The same difference ten times: a sign test, 2 / 2^10."""
    assert paired_t(np.zeros(5))[0] == 1.0
    shifted = np.array([0.8, 0.7, 0.9] * 3 + [0.6]) - np.array([0.5, 0.4, 0.6] * 3 + [0.3])
    p, interval = paired_t(shifted)
    assert p == 2.0**-9
    assert interval.bounds == pytest.approx((0.3, 0.3), abs=1e-12)
    assert paired_t(np.array([0.5]))[1].reason == "at least two common cases are needed"


def test_bonett_price_has_a_width_without_any_discordance():
    """b = c = 0, n = 98: 0 +- 1.959964 * sqrt(0.02 / 100), by hand."""
    half = 1.959963984540054 * math.sqrt(0.02 / 100)
    assert discordant_interval(0, 0, 98).bounds == pytest.approx((-half, half), abs=1e-12)
    assert discordant_interval(0, 0, 0).reason == "no common cases"


@given(st.integers(0, 50), st.integers(0, 50), st.integers(0, 100))
def test_bonett_price_turns_round_and_stays_in_range(b, c, agreeing):
    n = b + c + agreeing
    if n == 0:
        return
    lo, hi = discordant_interval(b, c, n).bounds
    assert -1.0 <= lo <= hi <= 1.0
    assert discordant_interval(c, b, n).bounds == pytest.approx((-hi, -lo), abs=1e-12)


@pytest.mark.parametrize(
    "row", rows("statistics", "intervals_and_tests", kind="mde_paired"), ids=lambda r: r["id"]
)
def test_for_many_pairs_the_detectable_difference_is_that_of_the_normal_distribution(row):
    """The known value is (1.96 + 0.84) standard errors; t asks for half a percent more at 200."""
    found = detectable_by_t(row["sd_diff"] / math.sqrt(row["n"]), row["n"] - 1).value
    assert found == pytest.approx(row["mde"], rel=6e-3)
    assert found > row["mde"]


def test_a_power_of_nonsense_is_refused():
    with pytest.raises(BadNumbers, match="negative"):
        detectable_by_t(-0.5, 10)
    with pytest.raises(BadNumbers, match="between 0 and 1"):
        detectable_by_t(0.5, 10, power=1.0)


@pytest.mark.parametrize("df", [1, 2, 4, 9, 29, 199, 5000])
@pytest.mark.parametrize(("level", "power"), [(0.95, 0.8), (0.99, 0.5), (0.9, 0.95)])
def test_the_t_test_has_the_power_it_says_by_the_noncentral_t_of_scipy(df, level, power):
    error = 1e-3
    found = detectable_by_t(error, df, level=level, power=power).value
    assert found is not None
    critical = stats.t.ppf(0.5 + level / 2, df)
    # the far tail is under 1e-6 here, and scipy has no number for some of it
    shown = stats.nct.sf(critical, df, found / error)
    assert shown == pytest.approx(power, abs=1e-6)


def test_no_difference_above_one_is_promised():
    """Two pairs, standard error 0.1: 16.33 errors would be needed."""
    found = detectable_by_t(0.1, 1)
    assert found.value is None
    assert "to show one up to 1" in found.reason
    assert detectable_by_t(0.06, 1).value == pytest.approx(0.98004, abs=1e-4)


@pytest.mark.parametrize("n", [6, 7, 10, 40, 1000])
def test_without_spread_a_whole_point_one_way_is_what_would_show(n):
    """Least k of n units one point away with p < 0.05 by the test itself, then 80 % for k."""
    least = next(
        k
        for k in range(1, n + 1)
        if (paired_t(np.array([1.0] * k + [0.0] * (n - k)))[0] or 0) < 0.05
    )
    found = detectable_without_spread(n).value
    assert stats.binom.sf(least - 1, n, found) == pytest.approx(0.8, abs=1e-9)


@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_without_spread_five_units_can_show_nothing(n):
    """The sign test's smallest p is 2 / 2^5."""
    assert detectable_without_spread(n).value is None
