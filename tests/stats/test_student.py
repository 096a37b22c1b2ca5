"""Student's t against scipy, closed forms and itself."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from farm.errors import BadNumbers
from farm.stats.student import critical_t, two_sided_p

DEGREES = [1, 2, 3, 4.5, 9, 29, 59, 119, 120, 121, 1000, 99_999, 1_000_000, 10_000_000]


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("t", [0.1, 0.7, 1.0, 1.5, 1.96, 2.5, 2.999])
def test_the_tail_agrees_with_scipy_near_the_centre(t, df):
    assert two_sided_p(t, df) == pytest.approx(2 * stats.t.sf(t, df), rel=1e-11)


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("t", [3.0, 4.0, 8.0, 30.0])
def test_the_tail_agrees_with_scipy_far_out(t, df):
    assert two_sided_p(t, df) == pytest.approx(2 * stats.t.sf(t, df), rel=1e-9)


@pytest.mark.parametrize("df", DEGREES)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.9, 0.95, 0.99, 0.999])
def test_the_quantile_agrees_with_scipy(level, df):
    assert critical_t(level, df) == pytest.approx(stats.t.ppf(0.5 + level / 2, df), rel=1e-9)


def test_one_degree_of_freedom_is_the_cauchy_distribution():
    """P(|T| > 1) is 1/2 and the 95 % point is tan(0.475 pi), exactly."""
    assert two_sided_p(1.0, 1) == pytest.approx(0.5, abs=1e-15)
    assert critical_t(0.95, 1) == pytest.approx(math.tan(0.475 * math.pi), rel=1e-13)


def test_the_table_of_the_textbook():
    """Two-sided 95 % points as printed since Student's own tables."""
    assert [round(critical_t(0.95, df), 3) for df in (1, 2, 5, 10, 30)] == [
        12.706, 4.303, 2.571, 2.228, 2.042,
    ]  # fmt: skip


@given(st.floats(0.0, 50.0), st.floats(1.0, 1e7))
def test_the_tail_is_a_probability_and_symmetric(t, df):
    p = two_sided_p(t, df)
    assert 0.0 <= p <= 1.0
    assert two_sided_p(-t, df) == p


@given(st.floats(0.05, 0.999), st.floats(1.0, 1e6))
def test_the_quantile_undoes_the_tail(level, df):
    assert two_sided_p(critical_t(level, df), df) == pytest.approx(1.0 - level, rel=1e-8)


def test_what_has_no_tail_is_refused():
    assert two_sided_p(math.inf, 3) == 0.0
    with pytest.raises(BadNumbers, match="degrees of freedom"):
        two_sided_p(1.0, 0)
    with pytest.raises(BadNumbers, match="not a number"):
        two_sided_p(math.nan, 3)
    with pytest.raises(BadNumbers, match="level"):
        critical_t(1.0, 3)
