"""Student's t without scipy: tail probability and quantile.

scipy would be the largest dependency by far and is slow to import; only this one distribution
is needed. The tail is the regularised incomplete beta function with ``b = 1/2``: near the centre
by its power series, beyond by its continued fraction (Abramowitz and Stegun 26.5.4 and 26.5.8,
the latter by Lentz's method). Relative error under 1e-12 for |t| < 3 and under 1e-9 beyond, for
1 <= df <= 1e7 (tests hold it against scipy).
"""

from __future__ import annotations

import math
from functools import lru_cache

from farm.errors import BadNumbers
from farm.stats.intervals import normal_quantile

_TINY = 1e-300
_CENTRE_BELOW = 9.0  # |t| < 3: the tail is over 0.0027, so 1 - centre keeps its digits
_SERIES_FROM = 60.0  # from here the series below is exact to the last digit, lgamma is not


def two_sided_p(t: float, df: float) -> float:
    """Return the probability that |T| is at least |t| for `df` degrees of freedom (> 0)."""
    _check_df(df)
    if math.isnan(t):
        raise BadNumbers("t is not a number: its standard error was not a number either")
    if math.isinf(t):
        return 0.0
    a, square = df / 2.0, t * t
    # both halves straight from t and df: 1 - x would lose the digits of a small t
    x, y = df / (df + square), square / (df + square)
    front = math.exp(-a * math.log1p(square / df)) * math.sqrt(y) * _gamma_ratio(a)
    front /= math.sqrt(math.pi)
    if square < _CENTRE_BELOW:
        return 1.0 - _centre(y, front, a)
    return front * _continued_fraction(x, a, 0.5) / a


@lru_cache(maxsize=1024)  # a leaderboard asks for the same few (level, df) again and again
def critical_t(level: float, df: float) -> float:
    """Return t such that |T| <= t has probability `level`.

    Newton's method from the normal quantile: the tail is convex and the start lies below the
    answer, so every step goes up and none overshoots.
    """
    _check_df(df)
    if not 0.0 < level < 1.0:
        raise BadNumbers(f"confidence level {level!r} must lie between 0 and 1, such as 0.95")
    tail = 1.0 - level
    t = normal_quantile(1.0 - tail / 2.0)
    log_constant = math.log(_gamma_ratio(df / 2.0) / math.sqrt(df * math.pi))
    for _ in range(200):
        density = math.exp(log_constant - (df + 1.0) / 2.0 * math.log1p(t * t / df))
        step = (two_sided_p(t, df) - tail) / (2.0 * density)
        t += step
        if abs(step) <= 1e-15 * t:
            break
    return t


def _check_df(df: float) -> None:
    if not df > 0.0:
        raise BadNumbers(f"degrees of freedom {df!r} must be positive: two values are needed")


def _gamma_ratio(a: float) -> float:
    """Return gamma(a + 1/2) / gamma(a)."""
    if a < _SERIES_FROM:
        return math.exp(math.lgamma(a + 0.5) - math.lgamma(a))
    # Tricomi and Erdelyi (1951): the difference of two lgamma of 1e6 has nine digits left
    r = 1.0 / a
    series = 1.0 + r * (
        -1 / 8
        + r
        * (1 / 128 + r * (5 / 1024 + r * (-21 / 32768 + r * (-399 / 262144 + r * 869 / 4194304))))
    )
    return math.sqrt(a) * series


def _centre(y: float, front: float, a: float) -> float:
    """Return P(|T| < t) as a series of positive terms, so that nothing cancels."""
    term = total = 1.0
    n = 0
    while term > 1e-17 * total:
        term *= y * (a + 0.5 + n) / (1.5 + n)
        total += term
        n += 1
    return 2.0 * front * total


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    c, d = 1.0, _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    d = 1.0 / d
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
        change = 1.0
        for term in (even, odd):
            d = 1.0 / _away_from_zero(1.0 + term * d)
            c = _away_from_zero(1.0 + term / c)
            change *= c * d
        fraction *= change
        if abs(change - 1.0) < 3e-16:
            break
    return fraction


def _away_from_zero(value: float) -> float:
    return value if abs(value) > _TINY else _TINY
