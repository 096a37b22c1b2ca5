"""What exact McNemar could have shown, against its power summed one case at a time."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from farm.errors import BadNumbers
from farm.stats.flips import detectable_by_mcnemar
from farm.stats.paired import mcnemar_exact


def power(difference: float, flips: int, n: int, *, alpha: float = 0.05) -> float:
    """The chance of p < alpha, over every number of flips and every direction of each."""
    rate = max(flips / n, difference)
    rarer = 0.5 - difference / (2.0 * rate)
    return float(
        sum(
            stats.binom.pmf(count, n, rate)
            * sum(
                stats.binom.pmf(down, count, rarer)
                for down in range(count + 1)
                if mcnemar_exact(down, count - down) < alpha
            )
            for count in range(n + 1)
        )
    )


@pytest.mark.parametrize(
    ("n", "value"),
    [(6, 0.963492), (10, 0.673172), (50, 0.153522), (200, 0.039243), (10_000, 0.00079048)],
)
def test_where_no_flip_was_seen_six_must_come_one_way(n, value):
    """P(binomial(n, d) >= 6) = 0.8: five flips one way have p = 0.0625, six 0.03125."""
    found = detectable_by_mcnemar(0, n).value
    assert found == pytest.approx(value, rel=1e-4)
    assert stats.binom.sf(5, n, found) == pytest.approx(0.8, abs=1e-9)


@given(st.integers(6, 60), st.data())
@settings(max_examples=15, deadline=None)
def test_the_power_at_the_detectable_difference_is_what_was_asked_for(n, data):
    flips = data.draw(st.integers(0, n))
    found = detectable_by_mcnemar(flips, n).value
    assert found is not None
    assert 0.0 < found <= 1.0
    assert power(found, flips, n) == pytest.approx(0.8, abs=1e-6)


def test_a_stricter_level_asks_for_more_flips():
    """At 0.99 eight one way are needed: 2 / 2^8 = 0.0078."""
    found = detectable_by_mcnemar(3, 20, level=0.99, power=0.9).value
    assert found is not None
    assert power(found, 3, 20, alpha=0.01) == pytest.approx(0.9, abs=1e-6)
    assert detectable_by_mcnemar(0, 7, level=0.99).value is None


@pytest.mark.parametrize("n", [0, 1, 4, 5])
def test_under_six_pairs_nothing_can_be_shown_and_it_says_so(n):
    found = detectable_by_mcnemar(n, n)
    assert found.value is None
    assert found.reason == f"with n = {n} no difference reaches p < 0.05"


@pytest.mark.parametrize("n", [2001, 4000, 1_000_000])
def test_the_normal_approximation_carries_on_where_the_sums_end(n):
    """2,000 flips are summed, 2,001 are not."""
    summed = detectable_by_mcnemar(2000, n).value
    assert detectable_by_mcnemar(2001, n).value == pytest.approx(summed, rel=4e-3)


def test_more_flips_than_pairs_are_refused():
    with pytest.raises(BadNumbers, match="0 <= flips <= n"):
        detectable_by_mcnemar(3, 2)
