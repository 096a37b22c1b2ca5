"""Wilson's interval: known answers, laws, refusals."""

from __future__ import annotations

import math
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from farm.errors import BadNumbers
from farm.stats.intervals import Interval, undefined, wilson
from tests.vectors.load import rows


@pytest.mark.parametrize(
    "row", rows("statistics", "intervals_and_tests", kind="interval95"), ids=lambda r: r["id"]
)
def test_wilson_gives_the_known_interval(row):
    """Values from 50-digit arithmetic, rounded once."""
    assert wilson(row["x"], row["n"]).bounds == pytest.approx(tuple(row["wilson"]), abs=1e-12)


def test_three_of_four_is_the_interval_of_the_textbook():
    """0.3006 and 0.9544 are what R's prop.test(3, 4, correct = FALSE) prints."""
    assert wilson(3, 4).bounds == pytest.approx((0.3006, 0.9544), abs=5e-5)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_stays_inside_the_unit_interval_and_never_collapses(case):
    successes, n = case
    lo, hi = wilson(successes, n).bounds
    assert 0.0 <= lo <= successes / n <= hi <= 1.0
    assert hi - lo > 0.0


@given(st.integers(1, 1000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_symmetric_in_right_and_wrong(case):
    successes, n = case
    lo, hi = wilson(successes, n).bounds
    other_lo, other_hi = wilson(n - successes, n).bounds
    assert lo == pytest.approx(1.0 - other_hi, abs=1e-12)
    assert hi == pytest.approx(1.0 - other_lo, abs=1e-12)


@given(st.integers(1, 1000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_a_higher_level_contains_a_lower_one(case):
    successes, n = case
    narrow, wide = wilson(successes, n, 0.9).bounds, wilson(successes, n, 0.99).bounds
    assert wide[0] <= narrow[0]
    assert narrow[1] <= wide[1]


def test_no_cases_is_undefined_and_says_why():
    """Never 0.0 and never (0, 1): no cases is no knowledge."""
    assert wilson(0, 0) == undefined("no scored cases")
    assert list(wilson(0, 0)) == [None, None]


@pytest.mark.parametrize(("successes", "n"), [(5, 4), (-1, 4), (0, -1)])
def test_counts_that_cannot_be_are_refused(successes, n):
    with pytest.raises(BadNumbers, match="cannot be"):
        wilson(successes, n)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, math.nan])
def test_a_level_outside_zero_and_one_is_refused(level):
    with pytest.raises(BadNumbers, match="level"):
        wilson(1, 2, level)


def test_an_interval_cannot_be_changed():
    with pytest.raises(AttributeError):
        wilson(1, 2).lo = 0.0  # type: ignore[misc]
    assert isinstance(wilson(1, 2), Interval)


def test_importing_the_intervals_does_not_load_numpy():
    """Workers and one-model reports start without it."""
    code = (
        "import sys, farm.stats.intervals as i; i.wilson.__name__;"
        "print('numpy' in sys.modules, 'statistics' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "False"]
